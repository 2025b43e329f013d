/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The completion port, and its wake-ups.
 */
#include "platform/clock.h"
#include "platform/poller.h"
#include "platform/thread.h"
#include "platform/wake.h"
#include "system.h"
#include "tap.h"

static struct urds_poller *poller;

struct read {
	struct urds_poll_op op;
	int dones, err;
	uint32_t bytes;
	char buf[16];
};

static void on_read(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct read *r = urds_container_of(op, struct read, op);

	r->dones++;
	r->bytes = bytes;
	r->err = err;
}

/* A connected pair over loopback, the first overlapped and attached. */
static void pair(SOCKET s[2])
{
	SOCKET l = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in at = {.sin_family = AF_INET};
	int len = sizeof at;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(l, (struct sockaddr *)&at, len), 0);
	CHECK_EQ(listen(l, 1), 0);
	CHECK_EQ(getsockname(l, (struct sockaddr *)&at, &len), 0);
	s[0] = WSASocketW(AF_INET, SOCK_STREAM, 0, NULL, 0, WSA_FLAG_OVERLAPPED);
	CHECK_EQ(connect(s[0], (struct sockaddr *)&at, len), 0);
	s[1] = accept(l, NULL, NULL);
	CHECK(s[1] != INVALID_SOCKET);
	closesocket(l);
	CHECK_EQ(urds_poller_attach(poller, (intptr_t)s[0]), 0);
}

static void start(struct read *r, SOCKET s)
{
	WSABUF v = {sizeof r->buf, r->buf};
	DWORD flags = 0;
	int rc = WSARecv(s, &v, 1, NULL, &flags, urds_poll_overlapped(&r->op), NULL);

	CHECK(rc == 0 || WSAGetLastError() == WSA_IO_PENDING);
}

static void port__times_out(void)
{
	urds_ns t0 = urds_clock_ns();

	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	CHECK_EQ(urds_poller_wait(poller, URDS_MS(30)), 0);
	CHECK(urds_clock_ns() - t0 >= URDS_MS(25));
}

static void port__one_packet_for_each_start(void)
{
	struct read r = {.op.done = on_read};
	SOCKET s[2];

	pair(s);
	start(&r, s[0]);
	CHECK_EQ(urds_poller_wait(poller, URDS_MS(20)), 0);
	CHECK_EQ(send(s[1], "abc", 3, 0), 3);
	CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
	CHECK(r.dones == 1 && r.bytes == 3 && r.err == 0 && memcmp(r.buf, "abc", 3) == 0);
	/* What is there already comes the same way. */
	CHECK_EQ(send(s[1], "defg", 4, 0), 4);
	start(&r, s[0]);
	CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
	CHECK(r.dones == 2 && r.bytes == 4 && r.err == 0);
	/* Cancelled. */
	start(&r, s[0]);
	CHECK(CancelIoEx((HANDLE)s[0], NULL));
	CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
	CHECK(r.dones == 3 && r.err == -URDS_ECANCELED);
	/* The end is no error; a reset is one. */
	start(&r, s[0]);
	closesocket(s[1]);
	CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
	CHECK(r.dones == 4 && r.bytes == 0 && r.err == 0);
	closesocket(s[0]);
	pair(s);
	start(&r, s[0]);
	CHECK_EQ(setsockopt(s[1], SOL_SOCKET, SO_LINGER, (const char *)&(struct linger){1, 0},
			    sizeof(struct linger)),
		 0);
	closesocket(s[1]);
	CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
	CHECK(r.dones == 5 && r.err == -URDS_ECONNRESET);
	closesocket(s[0]);
}

static void port__hands_out_a_batch(void)
{
	static struct urds_poll_batch b; /* all zero: holds nothing */
	struct read many[40];

	urds_poller_dispatch(&b);
	for (int i = 0; i < 40; i++) {
		many[i] = (struct read){.op.done = on_read};
		CHECK_EQ(urds_poller_post(poller, &many[i].op, (uint32_t)i), 0);
	}
	for (int left = 40, n; left > 0; left -= n) {
		n = urds_poller_fetch(poller, URDS_SEC(10), &b);
		CHECK(n > 0 && n <= URDS_POLL_BATCH);
		urds_poller_dispatch(&b);
		urds_poller_dispatch(&b); /* nothing twice */
	}
	for (int i = 0; i < 40; i++)
		CHECK(many[i].dones == 1 && many[i].bytes == (uint32_t)i && many[i].err == 0);
}

static _Atomic int rung;
static _Atomic uintptr_t taker;
static struct urds_wake wake;

static void on_ring(struct urds_wake *w)
{
	atomic_fetch_add(&rung, 1);
	if (w->is_held && urds_thread_id() == atomic_load(&taker))
		urds_wake_take(w);
}

static void ringer(void *arg)
{
	urds_wake_ring(&wake);
}

static void wake__rings_coalesce(void)
{
	struct urds_thread t = {0};

	atomic_store(&rung, 0);
	CHECK_EQ(urds_wake_init(&wake, poller, on_ring), 0);
	for (int i = 0; i < 5; i++)
		urds_wake_ring(&wake);
	CHECK_EQ(urds_poller_wait(poller, 0), 1);
	CHECK_EQ(rung, 1);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	CHECK_EQ(urds_thread_start(&t, "ring", ringer, NULL), 0);
	CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
	CHECK_EQ(rung, 2);
	urds_thread_join(&t);
	urds_wake_ring(&wake);
	urds_wake_fini(&wake); /* takes its packet with it */
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	CHECK_EQ(rung, 2);
}

static void wait_once(void *arg)
{
	if (arg)
		atomic_store(&taker, urds_thread_id());
	(void)urds_poller_wait(poller, URDS_SEC(10));
}

static void wake__held_reaches_the_one_it_is_for(void)
{
	struct urds_thread t = {0};

	atomic_store(&rung, 0);
	atomic_store(&taker, 0);
	CHECK_EQ(urds_wake_init_held(&wake, poller, on_ring), 0);
	urds_wake_ring(&wake);
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(urds_poller_wait(poller, URDS_SEC(10)), 1);
		CHECK_EQ(rung, i);
	}
	CHECK_EQ(urds_thread_start(&t, "take", wait_once, &t), 0);
	urds_thread_join(&t);
	CHECK_EQ(rung, 4);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	urds_wake_fini(&wake);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	system_init();
	if (urds_poller_new(&poller) < 0)
		return 1;
	T_RUN(port__times_out);
	T_RUN(port__one_packet_for_each_start);
	T_RUN(port__hands_out_a_batch);
	T_RUN(wake__rings_coalesce);
	T_RUN(wake__held_reaches_the_one_it_is_for);
	urds_poller_free(poller);
	return t_done();
}
