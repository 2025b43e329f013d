/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Many threads: exactly once and in order, no lost wake-up, no deadlock; calls that are left by close. Every case runs in
 * memory, over TCP, and over TCP as with a kernel.
 */
#include "transport/loop/loop.h"

#include "notes.h"

static void *sender(void *arg)
{
	struct worker *w = arg;
	struct note m = {.tag = w->tag};

	for (m.n = 0; m.n < w->n; m.n++) {
		ssize_t rc = urds_send(w->s, &m, sizeof m, 0);

		EXPECT(rc == sizeof m, errno);
		if (rc < 0)
			break;
	}
	return NULL;
}

/* ---------------------------------------------------------------- streams */

#define SENDERS 4

/* Four sockets and four threads over one connection into one socket. */
static void many_senders_on_one_connection(void)
{
	static struct worker w[SENDERS];
	unsigned next[SENDERS] = {0}, total = 5000;
	struct urds_sock *r;
	struct note m;

	two_open();
	r = sock_at(cb, ip_b, 4000);
	for (unsigned i = 0; i < SENDERS; i++) {
		w[i].s = sock_at(ca, ip_a, 5000 + i);
		CHECK(r && w[i].s && connect4(w[i].s, ip_b, 4000) == 0);
		w[i].tag = i;
		w[i].n = total;
		start(&w[i], sender);
	}
	CHECK_EQ(set_timeo(r, SO_RCVTIMEO, 20000 * slow()), 0);
	for (unsigned i = 0; i < SENDERS * total; i++) {
		CHECK_EQ(urds_recv(r, &m, sizeof m, 0), sizeof m);
		CHECK(m.tag < SENDERS);
		CHECK_EQ(m.n, next[m.tag]++);
	}
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(w[i].id, NULL);
	CHECK_THREADS();
	CHECK_ERR(urds_recv(r, &m, sizeof m, MSG_DONTWAIT), EAGAIN);
	two_close();
}
PAIR(many_senders_on_one_connection)

/* Four threads on one sending socket: each thread's own messages stay in order. */
static void many_threads_on_one_sender(void)
{
	static struct worker w[SENDERS];
	unsigned next[SENDERS] = {0}, total = 5000;
	struct urds_sock *r, *s;
	struct note m;

	two_open();
	r = sock_at(cb, ip_b, 4000);
	s = sock_at(ca, ip_a, 5000);
	CHECK(r && s && connect4(s, ip_b, 4000) == 0);
	for (unsigned i = 0; i < SENDERS; i++) {
		w[i] = (struct worker){.s = s, .tag = i, .n = total};
		start(&w[i], sender);
	}
	CHECK_EQ(set_timeo(r, SO_RCVTIMEO, 20000 * slow()), 0);
	for (unsigned i = 0; i < SENDERS * total; i++) {
		CHECK_EQ(urds_recv(r, &m, sizeof m, 0), sizeof m);
		CHECK_EQ(m.n, next[m.tag]++);
	}
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(w[i].id, NULL);
	CHECK_THREADS();
	two_close();
}
PAIR(many_threads_on_one_sender)

static void *receiver(void *arg)
{
	struct worker *w = arg;
	struct note m;

	for (;;) {
		ssize_t rc = urds_recv(w->s, &m, sizeof m, 0);

		if (rc < 0) {
			EXPECT(errno == EBADF, errno);
			return NULL;
		}
		EXPECT(rc == sizeof m, rc);
		if (m.n == UINT32_MAX)
			return NULL;
		EXPECT(atomic_fetch_add(&seen[m.n], 1) == 0, m.n);
		w->count++;
	}
}

/* Four threads receive on one socket: each message goes to one of them, and all sleepers wake in the end. */
static void many_threads_on_one_receiver(void)
{
	static struct worker w[SENDERS];
	unsigned total = 20000;
	struct urds_sock *r, *s;
	struct note m = {0};

	two_open();
	seen = calloc(total, 1);
	r = sock_at(cb, ip_b, 4000);
	s = sock_at(ca, ip_a, 5000);
	CHECK(r && s && connect4(s, ip_b, 4000) == 0);
	for (unsigned i = 0; i < SENDERS; i++) {
		w[i] = (struct worker){.s = r};
		start(&w[i], receiver);
	}
	for (m.n = 0; m.n < total; m.n++) {
		CHECK_EQ(urds_send(s, &m, sizeof m, 0), sizeof m);
		if (m.n % 1000 == 0)
			nap_ms(5); /* so that they all fall asleep now and then */
	}
	m.n = UINT32_MAX;
	for (unsigned i = 0; i < SENDERS; i++)
		CHECK_EQ(urds_send(s, &m, sizeof m, 0), sizeof m);
	for (unsigned i = 0; i < SENDERS; i++)
		pthread_join(w[i].id, NULL);
	CHECK_THREADS();
	for (unsigned i = 0; i < total; i++)
		CHECK_EQ(seen[i], 1);
	seen_free();
	two_close();
}
PAIR(many_threads_on_one_receiver)

static void *echo(void *arg)
{
	struct worker *w = arg;
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	struct note m;
	ssize_t n;

	while ((n = urds_recvfrom(w->s, &m, sizeof m, 0, (struct sockaddr *)&from, &len)) > 0)
		EXPECT(urds_sendto(w->s, &m, (size_t)n, 0, (struct sockaddr *)&from, len) == n,
		       errno);
	EXPECT(errno == EBADF, errno);
	return NULL;
}

static void *pinger(void *arg)
{
	struct worker *w = arg;
	struct note m = {.tag = w->tag};

	for (m.n = 0; m.n < w->n; m.n++) {
		struct note got;
		ssize_t rc = urds_send(w->s, &m, 1 + sizeof m - 1, 0);

		EXPECT(rc == sizeof m, errno);
		rc = urds_recv(w->s, &got, sizeof got, 0);
		EXPECT(rc == sizeof got && got.n == m.n && got.tag == m.tag, rc);
		if (rc < 0)
			break;
	}
	return NULL;
}

/* Eight pairs of threads wait for one another in turn: a lost wake-up stops one of them for good. */
static void ping_pong_of_many(void)
{
	static struct worker a[8], b[8];

	two_open();
	for (unsigned i = 0; i < 8; i++) {
		a[i] = (struct worker){.s = sock_at(ca, ip_a, 5000 + i), .n = 500, .tag = i};
		b[i] = (struct worker){.s = sock_at(cb, ip_b, 4000 + i)};
		CHECK(a[i].s && b[i].s && connect4(a[i].s, ip_b, 4000 + i) == 0);
		CHECK_EQ(set_timeo(a[i].s, SO_RCVTIMEO, 20000 * slow()), 0);
		start(&b[i], echo);
		start(&a[i], pinger);
	}
	for (unsigned i = 0; i < 8; i++)
		pthread_join(a[i].id, NULL);
	CHECK_THREADS();
	for (unsigned i = 0; i < 8; i++) {
		CHECK_EQ(urds_close(b[i].s), 0);
		pthread_join(b[i].id, NULL);
	}
	CHECK_THREADS();
	two_close();
}
PAIR(ping_pong_of_many)

static void *spinner(void *arg)
{
	struct worker *w = arg;
	uint8_t b[8];

	while (!atomic_load(&w->stop))
		EXPECT(urds_recv(w->s, b, sizeof b, MSG_DONTWAIT) < 0 && errno == EAGAIN, errno);
	return NULL;
}

/* A thread that never blocks reads the wire beside threads that do: what it sees for them reaches them. */
static void spinning_neighbours(void)
{
	static struct worker a[2], b[2], spin[2];

	two_open();
	for (unsigned i = 0; i < 2; i++) {
		a[i] = (struct worker){.s = sock_at(ca, ip_a, 5000 + i), .n = 1000, .tag = i};
		b[i] = (struct worker){.s = sock_at(cb, ip_b, 4000 + i)};
		spin[i] =
			(struct worker){.s = i ? sock_at(cb, ip_b, 4100) : sock_at(ca, ip_a, 5100)};
		CHECK(a[i].s && b[i].s && spin[i].s && connect4(a[i].s, ip_b, 4000 + i) == 0);
		CHECK_EQ(set_timeo(a[i].s, SO_RCVTIMEO, 20000 * slow()), 0);
		start(&spin[i], spinner);
		start(&b[i], echo);
		start(&a[i], pinger);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(a[i].id, NULL);
	CHECK_THREADS();
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&spin[i].stop, true);
		pthread_join(spin[i].id, NULL);
		CHECK_EQ(urds_close(b[i].s), 0);
		pthread_join(b[i].id, NULL);
	}
	CHECK_THREADS();
	two_close();
}
PAIR(spinning_neighbours)

/* Both directions at once, small buffers, so that everyone waits for room and for clear ports. */
static void both_ways_with_small_buffers(void)
{
	static struct worker w[4];
	unsigned next[4] = {0}, total = 4000, got[2] = {0};
	struct urds_sock *s[2];
	struct note m;

	two_open();
	s[0] = sock_at(ca, ip_a, 4000);
	s[1] = sock_at(cb, ip_b, 4000);
	CHECK(s[0] && s[1] && connect4(s[0], ip_b, 4000) == 0 && connect4(s[1], ip_a, 4000) == 0);
	for (unsigned i = 0; i < 4; i++) {
		CHECK_EQ(set_int(s[i & 1], SOL_SOCKET, SO_SNDBUF, 4096), 0);
		CHECK_EQ(set_int(s[i & 1], SOL_SOCKET, SO_RCVBUF, 4096), 0);
		w[i] = (struct worker){.s = s[i & 1], .tag = i, .n = total};
		start(&w[i], sender);
	}
	while (got[0] + got[1] < 4 * total) {
		for (int i = 0; i < 2; i++) {
			if (got[i] == 2 * total)
				continue;
			while (urds_wait(s[i], POLLIN, 1) == POLLIN) {
				CHECK_EQ(urds_recv(s[i], &m, sizeof m, MSG_DONTWAIT), sizeof m);
				CHECK((m.tag & 1) == (unsigned)!i);
				CHECK_EQ(m.n, next[m.tag]++);
				got[i]++;
			}
		}
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(w[i].id, NULL);
	CHECK_THREADS();
	two_close();
}
PAIR(both_ways_with_small_buffers)

/* In memory nobody else is told of what one end does: a call that leaves something to the other end sees to it before it
 * returns. The flusher may be at the same; not in most rounds. */
static void nothing_is_left_in_memory(void)
{
	struct sockaddr_in a, b;
	struct urds_sock *s, *r;
	unsigned left = 0;

	variant = LOOP;
	two_open();
	s = sock_at(ca, ip_a, 5000);
	r = sock_at(ca, ip_b, 4000);
	CHECK(s && r);
	for (unsigned round = 0; round < 20; round++) {
		uint8_t m[8];

		CHECK_EQ(send4(s, "1", 1, 0, ip_b, 4000), 1);
		EVENTUALLY(urds_wait(r, POLLIN, 0) == POLLIN);
		CHECK_EQ(send4(s, "2", 1, URDS_MSG_MORE, ip_b, 4000), 1);
		CHECK_EQ(urds_recv(r, m, sizeof m, 0), 1);
		left += urds_loop_pending(ca->loop);
		CHECK_EQ(urds_recv(r, m, sizeof m, 0), 1);
	}
	printf("# a receive left something %u times\n", left);
	CHECK(left <= 10);
	left = 0;
	a = in4(ip_a, 0);
	b = in4(ip_b, 0);
	for (unsigned round = 0; round < 20; round++) {
		uint8_t m[8];

		CHECK_EQ(send4(s, "3", 1, 0, ip_b, 4000), 1);
		CHECK_EQ(urds_recv(r, m, sizeof m, 0), 1);
		CHECK(urds_reset(ca, (struct sockaddr *)&a, (struct sockaddr *)&b) >= 0);
		left += urds_loop_pending(ca->loop);
	}
	printf("# a reset left something %u times\n", left);
	CHECK(left <= 10);
	two_close();
}

/* ---------------------------------------------------------------- close against everything */

static void *recv_until_closed(void *arg)
{
	struct worker *w = arg;
	uint8_t b[64];
	ssize_t rc;

	while ((rc = urds_recv(w->s, b, sizeof b, 0)) >= 0)
		;
	EXPECT(errno == EBADF, errno);
	return NULL;
}

static void close_under_traffic(void)
{
	two_open();
	for (unsigned round = 0; round < 60; round++) {
		struct urds_sock *r = sock_at(cb, ip_b, 4000), *s = sock_at(ca, ip_a, 5000);
		struct worker w[3] = {{.s = r}, {.s = r}, {.s = r}};
		uint8_t b[64] = {0};

		CHECK(r && s && connect4(s, ip_b, 4000) == 0);
		start(&w[0], recv_until_closed);
		start(&w[1], recv_until_closed);
		for (unsigned i = 0; i < round * 3; i++)
			CHECK_EQ(urds_send(s, b, sizeof b, 0), sizeof b);
		CHECK_EQ(urds_close(r), 0);
		pthread_join(w[0].id, NULL);
		pthread_join(w[1].id, NULL);
		CHECK_EQ(urds_close(s), 0);
	}
	CHECK_THREADS();
	two_close();
}
PAIR(close_under_traffic)

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	RUN_PAIR(many_senders_on_one_connection);
	RUN_PAIR(many_threads_on_one_sender);
	RUN_PAIR(many_threads_on_one_receiver);
	RUN_PAIR(ping_pong_of_many);
	RUN_PAIR(spinning_neighbours);
	RUN_PAIR(both_ways_with_small_buffers);
	T_RUN(nothing_is_left_in_memory);
	RUN_PAIR(close_under_traffic);
	return t_done();
}
