/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * transport/tcp among what Windows has of its own: sharing of ports, inheritance of handles, operations that belong to
 * threads.
 */
/* First: it has names of its own for what tcp_bed.h has. */
#include "transport/tcp/tcp_internal.h"

#include "host.h"
#include "platform/thread.h"
#include "platform/windows/win.h"
#include "tcp_bed.h"

static SOCKET socket_of(struct ep *e)
{
	return (SOCKET)(unsigned)t->data->fd(e->l);
}

static int get_int(SOCKET fd, int level, int name)
{
	DWORD v = 0; /* some are one byte */
	int len = sizeof(v);

	return getsockopt(fd, level, name, (char *)&v, &len) == 0 ? (int)v : -1;
}

static void options_on_both_ends(void)
{
	struct ep *x, *y;

	begin(NULL);
	join(&x, &y);
	for (int i = 0; i < 2; i++) {
		SOCKET fd = socket_of(i ? x : y);
		DWORD flags = HANDLE_FLAG_INHERIT;

		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		CHECK_EQ(get_int(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
		CHECK(GetHandleInformation((HANDLE)fd, &flags));
		CHECK(!(flags & HANDLE_FLAG_INHERIT));
	}
	finish(x);
	end();
}

/* SO_REUSEADDR of another program would take a share of the connections, or of the bytes. */
static void nobody_binds_beside_us(void)
{
	struct sockaddr_storage ss;
	struct ep *x, *y;
	uint16_t local, remote;

	begin(NULL);
	join(&x, &y);
	t->data->ports(x->l, &local, &remote);
	CHECK_EQ(get_int(socket_of(x), SOL_SOCKET, SO_EXCLUSIVEADDRUSE), 1);
	CHECK_EQ(remote, port);
	for (int i = 0; i < 4; i++) {
		int len = (int)urds_addr_to_sockaddr(&here, i & 1 ? local : port, &ss), one = 1;
		SOCKET fd = socket(AF_INET, SOCK_STREAM, 0);

		if (i & 2)
			CHECK_EQ(
				setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, (char *)&one, sizeof(one)),
				0);
		CHECK_EQ(bind(fd, (struct sockaddr *)&ss, len), SOCKET_ERROR);
		closesocket(fd);
	}
	finish(x);
	end();
}

static void a_quiet_link_costs_no_call(void)
{
	struct ep *x, *y;
	uint32_t tx, before, after;

	begin(NULL);
	join(&x, &y);
	ep_drain(y);
	urds_tcp_link_calls(y->l, &tx, &before);
	for (int i = 0; i < 100; i++) {
		y->may_rx = true;
		CHECK_EQ(ep_drain(y), 0);
	}
	urds_tcp_link_calls(y->l, &tx, &after);
	CHECK_EQ(after, before);
	/* And one that is not quiet is seen before its packet has been fetched. */
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	for (urds_ns end = urds_clock_ns() + URDS_SEC(10);
	     y->rx_pos < 10 && urds_clock_ns() < end;) {
		y->may_rx = true;
		ep_drain(y);
		Sleep(1); /* Wine needs the thread to look up */
	}
	CHECK_EQ(y->rx_pos, 10);
	finish(x);
	end();
}

static void read_once(void *arg)
{
	(void)ep_drain(arg);
}

/* The operation that waits for bytes belongs to a thread that has ended. */
static void who_waited_may_end(void)
{
	struct urds_thread th = {0};
	struct ep *x, *y;

	begin(NULL);
	join(&x, &y);
	for (unsigned i = 1; i <= 20; i++) {
		CHECK_EQ(ep_tx(x, 10, 1), 10);
		WAIT_FOR(y->may_rx);
		CHECK_EQ(urds_thread_start(&th, "reader", read_once, y), 0);
		urds_thread_join(&th);
		WAIT_FOR((ep_drain(y), y->rx_pos == 10 * i));
	}
	finish(x);
	end();
}

/* Nothing is released before it is sent, and what is under way is bounded. */
static void in_place_has_a_bound(void)
{
	struct urds_tcp_config cfg = {.sends_in_place = true};
	struct ep *x, *y;

	begin(&cfg);
	join(&x, &y);
	for (int full = 0; full < 3;) {
		full = ep_tx(x, 1 << 20, 4) == 0 ? full + 1 : 0;
		(void)urds_poller_wait(poller, URDS_MS(5));
	}
	CHECK(x->tx_pos > x->tx_released);
	CHECK(x->tx_pos - x->tx_released <= 1 << 20);
	WAIT_FOR((ep_drain(y), x->tx_released == x->tx_pos));
	WAIT_FOR((ep_drain(y), y->rx_pos == x->tx_pos));
	finish(x);
	end();
}

static _Atomic bool is_over;

static void spin(void *arg)
{
	SetThreadAffinityMask(GetCurrentThread(), 1);
	while (!atomic_load(&is_over))
		;
}

static _Atomic(struct ep *) to_fill;

/* Starts what is under way then, and comes to nothing on a busy processor. */
static void fill(void *arg)
{
	SetThreadAffinityMask(GetCurrentThread(), 1);
	while (!atomic_load(&is_over)) {
		struct ep *e = atomic_load(&to_fill);

		while (e && ep_tx(e, 1 << 20, 4) > 0)
			;
		if (e)
			atomic_store(&to_fill, NULL);
		Sleep(1);
	}
}

/* Nor does what is under way when it is closed get into the connection whose socket has its number next. */
static void a_closed_link_sends_no_more(void)
{
	struct urds_thread spinner[3] = {{0}}, filler = {0};
	struct ep *x, *y, *next, *other;

	begin(NULL);
	atomic_store(&is_over, false);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(urds_thread_start(&spinner[i], "spinner", spin, NULL), 0);
	CHECK_EQ(urds_thread_start(&filler, "filler", fill, NULL), 0);
	for (int i = 0; i < 15; i++) {
		static uint8_t got[1 << 16];
		SOCKET fd;

		join(&x, &y);
		atomic_store(&to_fill, x);
		WAIT_FOR(!atomic_load(&to_fill));
		fd = socket_of(y);
		/* Room: the thread that started the send is told. */
		while (recv(fd, (char *)got, sizeof(got), 0) > 0)
			;
		ep_close(x, URDS_CLOSE_NOW);
		join(&next, &other);
		CHECK_EQ(ep_tx(next, 1000, 1), 1000);
		WAIT_FOR((ep_drain(other), other->rx_pos >= 1000));
		Sleep(20);
		(void)urds_poller_wait(poller, 0);
		other->may_rx = true;
		ep_drain(other);
		CHECK_EQ(other->rx_pos, 1000);
		CHECK_EQ(ep_bad_bytes, 0);
		finish(next);
		WAIT_FOR(!x->l);
		ep_free(x);
	}
	atomic_store(&is_over, true);
	for (int i = 0; i < 3; i++)
		urds_thread_join(&spinner[i]);
	urds_thread_join(&filler);
	end();
}

/* A packet that the system owes us and does not bring. */
static void the_end_does_not_wait_for_ever(void)
{
	urds_ns start = urds_clock_ns();

	begin(NULL);
	(void)atomic_fetch_add(&urds_tcp_of(t)->sys.under_way, 1);
	end();
	CHECK(urds_clock_ns() - start >= URDS_MS(900));
	CHECK(urds_clock_ns() - start < URDS_SEC(30));
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	host_init(120);
	T_RUN(options_on_both_ends);
	T_RUN(nobody_binds_beside_us);
	T_RUN(a_quiet_link_costs_no_call);
	T_RUN(who_waited_may_end);
	T_RUN(in_place_has_a_bound);
	T_RUN(a_closed_link_sends_no_more);
	T_RUN(the_end_does_not_wait_for_ever);
	T_RUN(names_and_sources);
	return t_done();
}
