/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The pair behind a socket's descriptor, as a program sees it that polls it.
 */
#include "platform/net.h"

#include "platform/pair.h"
#include "platform/process.h"

#include "system.h"
#include "tap.h"

static intptr_t pair[2];

/* The ones of POLLIN and POLLOUT that are so within @ms. */
static int polled(int events, int ms)
{
	struct pollfd p = {.events = (short)events};
	int rc;

#ifdef _WIN32
	p.fd = (SOCKET)pair[0];
	rc = WSAPoll(&p, 1, ms);
#else
	p.fd = (int)pair[0];
	rc = poll(&p, 1, ms);
#endif
	if (rc < 0)
		return -1;
	return (p.revents & POLLIN ? POLLIN : 0) | (p.revents & POLLOUT ? POLLOUT : 0);
}

static void pair_open(void)
{
	CHECK_EQ(urds_process_init(), 0);
	CHECK_EQ(urds_pair_new(pair), 0);
}

static void pair__token_comes_and_goes(void)
{
	pair_open();
	CHECK_EQ(polled(POLLIN | POLLOUT, 0), POLLOUT);
	for (int i = 0; i < 1000; i++) {
		CHECK(urds_pair_put(pair));
		CHECK_EQ(polled(POLLIN, 5000), POLLIN);
		CHECK(!urds_pair_take(pair));
		CHECK_EQ(polled(POLLIN, 0), 0);
	}
	/* Without a look in between. */
	for (int i = 0; i < 1000; i++) {
		CHECK(urds_pair_put(pair));
		CHECK(!urds_pair_take(pair));
	}
	CHECK_EQ(polled(POLLIN, 0), 0);
	urds_pair_close(pair);
}

static void pair__filled_stays_filled(void)
{
	pair_open();
	for (int i = 0; i < 20; i++) {
		urds_pair_fill(pair);
		CHECK_EQ(polled(POLLIN | POLLOUT, i < 2 ? 600 : 0), 0);
		CHECK(urds_pair_put(pair));
		CHECK_EQ(polled(POLLIN | POLLOUT, 5000), POLLIN);
		urds_pair_drain(pair);
		CHECK_EQ(polled(POLLOUT, 5000), POLLOUT);
		CHECK(!urds_pair_take(pair));
	}
	urds_pair_close(pair);
}

/* Nobody who is at work on it waits for ever, and the numbers are still its own. */
static void pair__shut_ends_everything(void)
{
	intptr_t other[2];

	pair_open();
	CHECK(urds_pair_put(pair));
	urds_pair_fill(pair);
	urds_pair_shut(pair);
	(void)urds_pair_put(pair);
	(void)urds_pair_take(pair);
	urds_pair_fill(pair);
	urds_pair_drain(pair);
	CHECK_EQ(urds_pair_new(other), 0);
	CHECK(other[0] != pair[0] && other[0] != pair[1] && other[1] != pair[0] &&
	      other[1] != pair[1]);
	urds_pair_close(pair);
	urds_pair_close(other);
}

#ifdef _WIN32
/* Programs that wait for events instead of polling see the same. */
static void pair__works_with_events(void)
{
	WSAEVENT ev = WSACreateEvent();
	WSANETWORKEVENTS got;
	SOCKET s;

	pair_open();
	s = (SOCKET)pair[0];
	CHECK_EQ(WSAEventSelect(s, ev, FD_READ | FD_WRITE), 0);
	CHECK_EQ(WSAWaitForMultipleEvents(1, &ev, FALSE, 5000, FALSE), WSA_WAIT_EVENT_0);
	CHECK_EQ(WSAEnumNetworkEvents(s, ev, &got), 0);
	CHECK_EQ(got.lNetworkEvents, FD_WRITE);
	for (int i = 0; i < 100; i++) {
		CHECK(urds_pair_put(pair));
		CHECK_EQ(WSAWaitForMultipleEvents(1, &ev, FALSE, 5000, FALSE), WSA_WAIT_EVENT_0);
		CHECK_EQ(WSAEnumNetworkEvents(s, ev, &got), 0);
		CHECK_EQ(got.lNetworkEvents, FD_READ);
		CHECK(!urds_pair_take(pair));
	}
	for (int i = 0; i < 20; i++) {
		urds_pair_fill(pair);
		CHECK_EQ(WSAWaitForMultipleEvents(1, &ev, FALSE, 0, FALSE), WSA_WAIT_TIMEOUT);
		urds_pair_drain(pair);
		CHECK_EQ(WSAWaitForMultipleEvents(1, &ev, FALSE, 5000, FALSE), WSA_WAIT_EVENT_0);
		CHECK_EQ(WSAEnumNetworkEvents(s, ev, &got), 0);
		CHECK_EQ(got.lNetworkEvents, FD_WRITE);
	}
	WSACloseEvent(ev);
	urds_pair_close(pair);
}
#endif

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	system_init();
	T_RUN(pair__token_comes_and_goes);
	T_RUN(pair__filled_stays_filled);
	T_RUN(pair__shut_ends_everything);
#ifdef _WIN32
	T_RUN(pair__works_with_events);
#endif
	return t_done();
}
