/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Many threads: exactly once and in order, no lost wake-up, no deadlock; calls that are left by close, signals,
 * cancellation and longjmp. Every case runs in memory, over TCP, and over TCP as with a kernel.
 */
#include <setjmp.h>

#include "transport/loop/loop.h"

#include "sanitized.h"
#include "two.h"

struct note {
	uint32_t tag, n;
	uint8_t rest[56];
};

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

static _Atomic(uint8_t) *seen;

static void seen_free(void)
{
	union {
		_Atomic(uint8_t) *a;
		void *p;
	} u = {.a = seen};

	free(u.p);
}

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

/* ---------------------------------------------------------------- signals */

static _Atomic unsigned signals;

static void on_signal(int sig)
{
	atomic_fetch_add(&signals, 1);
}

static void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = {.sa_handler = fn, .sa_flags = flags};

	sigaction(sig, &sa, NULL);
}

static void *recv_through_signals(void *arg)
{
	struct worker *w = arg;
	struct note m;

	for (uint32_t n = 0; n < w->n;) {
		ssize_t rc = urds_recv(w->s, &m, sizeof m, 0);

		if (rc < 0 && errno == EINTR)
			continue;
		EXPECT(rc == sizeof m && m.n == n, m.n);
		if (rc < 0)
			break;
		n++;
	}
	return NULL;
}

static void *send_through_signals(void *arg)
{
	struct worker *w = arg;
	struct note m = {0};

	while (m.n < w->n) {
		ssize_t rc = urds_send(w->s, &m, sizeof m, 0);

		if (rc < 0 && errno == EINTR)
			continue;
		EXPECT(rc == sizeof m, errno);
		if (rc < 0)
			break;
		m.n++;
		if (m.n % 500 == 0)
			nap_ms(1);
	}
	return NULL;
}

/* Signals all the time, into both ends. */
static void eintr_storm(void)
{
	struct worker r = {.n = 10000}, s = {.n = 10000};

	two_open();
	handle(SIGUSR1, on_signal, 0);
	atomic_store(&signals, 0);
	r.s = sock_at(cb, ip_b, 4000);
	s.s = sock_at(ca, ip_a, 5000);
	CHECK(r.s && s.s && connect4(s.s, ip_b, 4000) == 0);
	CHECK_EQ(set_int(s.s, SOL_SOCKET, SO_SNDBUF, 8192), 0);
	start(&r, recv_through_signals);
	start(&s, send_through_signals);
	while (pthread_tryjoin_np(r.id, NULL) == EBUSY) {
		struct timespec ts = {0, 100000};

		pthread_kill(r.id, SIGUSR1);
		pthread_kill(s.id, SIGUSR1); /* joined below: its id stays valid */
		nanosleep(&ts, NULL);
	}
	pthread_join(s.id, NULL);
	CHECK_THREADS();
	printf("# %u signals\n", atomic_load(&signals));
	two_close();
}
PAIR(eintr_storm)

static void *recv_uninterrupted(void *arg)
{
	struct worker *w = arg;
	struct note m;

	for (uint32_t n = 0; n < w->n; n++) {
		ssize_t rc = urds_recv(w->s, &m, sizeof m, 0);

		EXPECT(rc == sizeof m && m.n == n, errno);
		if (rc < 0)
			break;
	}
	return NULL;
}

/* Handlers installed with SA_RESTART, and stops, are not seen by a receive without a time limit. */
static void restarted_receives(void)
{
	struct worker r = {.n = 300}, s = {.n = 300};
	struct note m = {0};

	two_open();
	handle(SIGUSR1, on_signal, SA_RESTART);
	r.s = sock_at(cb, ip_b, 4000);
	s.s = sock_at(ca, ip_a, 5000);
	CHECK(r.s && s.s && connect4(s.s, ip_b, 4000) == 0);
	start(&r, recv_uninterrupted);
	for (; m.n < s.n; m.n++) {
		for (int i = 0; i < 3; i++) {
			pthread_kill(r.id, SIGUSR1);
			nap_ms(m.n % 100 == 99
				       ? 100
				       : 0); /* so that it sleeps as leader and as sleeper */
		}
		CHECK_EQ(urds_send(s.s, &m, sizeof m, 0), sizeof m);
	}
	pthread_join(r.id, NULL);
	CHECK_THREADS();
	handle(SIGUSR1, on_signal, 0);
	two_close();
}
PAIR(restarted_receives)

/* A handler that receives on the socket that its thread is in a call of: it gets a message, or EAGAIN. */
static struct urds_sock *handler_sock;
static _Atomic unsigned handler_got, handler_again;
static _Thread_local volatile sig_atomic_t in_call;

static void receiving_handler(int sig)
{
	int saved = errno;
	struct note m;
	ssize_t rc;

	if (!in_call)
		return;
	rc = urds_recv(handler_sock, &m, sizeof m, 0); /* a blocking one, even */
	if (rc == sizeof m) {
		EXPECT(atomic_fetch_add(&seen[m.n], 1) == 0, m.n);
		atomic_fetch_add(&handler_got, 1);
	} else {
		/* Just before or after the thread's call it may even wait: then SO_RCVTIMEO ends it. */
		EXPECT(errno == EAGAIN || errno == ETIMEDOUT, errno);
		atomic_fetch_add(&handler_again, errno == EAGAIN);
	}
	errno = saved;
}

static void *count_until(void *arg)
{
	struct worker *w = arg;
	struct note m;

	while (w->count + atomic_load(&handler_got) < w->n) {
		ssize_t rc;

		in_call = 1;
		rc = urds_recv(w->s, &m, sizeof m, 0);
		in_call = 0;
		if (rc < 0 && (errno == EINTR || errno == ETIMEDOUT))
			continue;
		EXPECT(rc == sizeof m, errno);
		if (rc < 0)
			break;
		EXPECT(atomic_fetch_add(&seen[m.n], 1) == 0, m.n);
		w->count++;
	}
	return NULL;
}

#if SANITIZED
#define SIGNAL_EVERY_US 2000 /* else the thread is in its handlers and nowhere else */
#else
#define SIGNAL_EVERY_US 50
#endif

static void receiving_in_a_handler(void)
{
	struct worker r = {.n = 20000}, s = {.n = 20000};

	two_open();
	seen = calloc(r.n, 1);
	atomic_store(&handler_got, 0);
	atomic_store(&handler_again, 0);
	r.s = handler_sock = sock_at(cb, ip_b, 4000);
	s.s = sock_at(ca, ip_a, 5000);
	CHECK(r.s && s.s && connect4(s.s, ip_b, 4000) == 0);
	CHECK_EQ(set_timeo(r.s, SO_RCVTIMEO, 50), 0);
	handle(SIGUSR1, receiving_handler, 0);
	start(&r, count_until);
	start(&s, send_through_signals);
	while (pthread_tryjoin_np(r.id, NULL) == EBUSY) {
		struct timespec ts = {0, SIGNAL_EVERY_US * 1000};

		pthread_kill(r.id, SIGUSR1);
		nanosleep(&ts, NULL);
	}
	pthread_join(s.id, NULL);
	handle(SIGUSR1, on_signal, 0);
	CHECK_THREADS();
	for (unsigned i = 0; i < r.n; i++)
		CHECK_EQ(seen[i], 1);
	printf("# handler: %u messages, %u EAGAIN\n", atomic_load(&handler_got),
	       atomic_load(&handler_again));
	seen_free();
	two_close();
}
PAIR(receiving_in_a_handler)

/* ---------------------------------------------------------------- cancellation and longjmp */

static void *recv_until_cancelled(void *arg)
{
	struct worker *w = arg;
	struct note m;

	for (;;) {
		ssize_t rc = urds_recv(w->s, &m, sizeof m, 0);

		EXPECT(rc == sizeof m, errno);
		if (rc < 0 || m.n == UINT32_MAX)
			return NULL;
		EXPECT(atomic_fetch_add(&seen[m.n], 1) == 0, m.n);
		w->count++;
	}
}

/* Receivers are cancelled one after the other while messages come: none of those goes with them. */
static void cancelled_receivers(void)
{
	struct worker s = {.n = 20000}, r[2];
	unsigned cancelled = 0;
	void *how;
	struct note m = {.n = UINT32_MAX};
	_Atomic uint32_t *refs;

	two_open();
	seen = calloc(s.n, 1);
	s.s = sock_at(ca, ip_a, 5000);
	r[0] = (struct worker){.s = sock_at(cb, ip_b, 4000)};
	CHECK(r[0].s && s.s && connect4(s.s, ip_b, 4000) == 0);
	r[1] = r[0];
	refs = &r[0].s->refs;
	start(&s, send_through_signals);
	start(&r[0], recv_until_cancelled);
	start(&r[1], recv_until_cancelled);
	for (unsigned i = 0; pthread_tryjoin_np(s.id, NULL) == EBUSY; i ^= 1) {
		struct timespec ts = {0, 300000};

		nanosleep(&ts, NULL);
		CHECK_EQ(pthread_cancel(r[i].id), 0);
		pthread_join(r[i].id, &how);
		CHECK(how == PTHREAD_CANCELED);
		cancelled++;
		start(&r[i], recv_until_cancelled);
	}
	CHECK_EQ(urds_send(s.s, &m, sizeof m, 0), sizeof m);
	CHECK_EQ(urds_send(s.s, &m, sizeof m, 0), sizeof m);
	pthread_join(r[0].id, NULL);
	pthread_join(r[1].id, NULL);
	CHECK_THREADS();
	for (unsigned i = 0; i < s.n; i++)
		CHECK_EQ(seen[i], 1);
	printf("# %u cancelled\n", cancelled);
	CHECK_EQ(atomic_load(refs), 1); /* nothing of theirs is left */
	seen_free();
	two_close();
}
PAIR(cancelled_receivers)

static _Thread_local sigjmp_buf out;
static _Thread_local volatile sig_atomic_t may_jump;
static _Atomic unsigned jumps;

static void jumping_handler(int sig)
{
	/* Anywhere else in a call a jump would leave locks behind, as with any other library. */
	if (may_jump && call_is_blocked()) {
		atomic_fetch_add(&jumps, 1);
		siglongjmp(out, 1);
	}
}

static ssize_t __attribute__((noinline)) deeper(struct urds_sock *s, struct note *m, int depth)
{
	volatile char pad[700]; /* mostly untouched: what lay there stays */

	pad[0] = (char)depth;
	return depth ? deeper(s, m, depth - 1) + pad[0] * 0 : urds_recv(s, m, sizeof *m, 0);
}

static void *recv_and_jump(void *arg)
{
	struct worker *w = arg;
	volatile unsigned round = 0;
	struct note m;

	/* The message is looked at before the next jump can come. */
	for (;;) {
		ssize_t rc;

		if (sigsetjmp(out, 1))
			round++;
		may_jump = 1;
		rc = deeper(w->s, &m, (int)(round % 5));
		may_jump = 0;
		EXPECT(rc == sizeof m || (rc < 0 && errno == EINTR), errno);
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc < 0 || m.n == UINT32_MAX)
			return NULL;
		EXPECT(atomic_fetch_add(&seen[m.n], 1) == 0, m.n);
		w->count++;
	}
}

static void jumping_receivers(void)
{
	struct worker s = {.n = 20000}, r[2];
	struct note m = {.n = UINT32_MAX};

	two_open();
	seen = calloc(s.n, 1);
	s.s = sock_at(ca, ip_a, 5000);
	r[0] = (struct worker){.s = sock_at(cb, ip_b, 4000)};
	CHECK(r[0].s && s.s && connect4(s.s, ip_b, 4000) == 0);
	r[1] = r[0];
	atomic_store(&jumps, 0);
	handle(SIGUSR1, jumping_handler, 0);
	start(&s, send_through_signals);
	start(&r[0], recv_and_jump);
	start(&r[1], recv_and_jump);
	for (unsigned i = 0; pthread_tryjoin_np(s.id, NULL) == EBUSY; i ^= 1) {
		struct timespec ts = {0, 100000};

		nanosleep(&ts, NULL);
		pthread_kill(r[i].id, SIGUSR1);
	}
	CHECK_EQ(urds_send(s.s, &m, sizeof m, 0), sizeof m);
	CHECK_EQ(urds_send(s.s, &m, sizeof m, 0), sizeof m);
	pthread_join(r[0].id, NULL);
	pthread_join(r[1].id, NULL);
	handle(SIGUSR1, on_signal, 0);
	CHECK_THREADS();
	for (unsigned i = 0; i < s.n; i++)
		CHECK_EQ(seen[i], 1);
	printf("# %u jumps\n", atomic_load(&jumps));
	CHECK(atomic_load(&jumps) > 10);
	CHECK_EQ(atomic_load(&r[0].s->refs), 1);
	seen_free();
	two_close();
}
PAIR(jumping_receivers)

static _Atomic bool jumped, go_on;

static void *jump_and_go(void *arg)
{
	struct worker *w = arg;
	struct note m;

	if (sigsetjmp(out, 1) == 0) {
		may_jump = 1;
		(void)urds_recv(w->s, &m, sizeof m, 0);
	}
	may_jump = 0;
	atomic_store(&jumped, true);
	while (!atomic_load(&go_on))
		nap_ms(1);
	return NULL;
}

/* One that leaves by a jump and never calls again holds nobody up. */
static void jump_and_never_return(void)
{
	struct worker j, s = {.n = 2000}, r = {.n = 2000};

	two_open();
	seen = calloc(s.n, 1);
	atomic_store(&jumped, false);
	atomic_store(&go_on, false);
	s.s = sock_at(ca, ip_a, 5000);
	r.s = sock_at(cb, ip_b, 4000);
	j = (struct worker){.s = sock_at(cb, ip_b, 4001)};
	CHECK(r.s && s.s && j.s && connect4(s.s, ip_b, 4000) == 0);
	handle(SIGUSR1, jumping_handler, 0);
	start(&j, jump_and_go);
	while (!atomic_load(&jumped)) {
		nap_ms(1);
		pthread_kill(j.id, SIGUSR1);
	}
	CHECK_EQ(set_timeo(r.s, SO_RCVTIMEO, 20000 * slow()), 0);
	start(&s, send_through_signals);
	start(&r, recv_through_signals);
	pthread_join(s.id, NULL);
	pthread_join(r.id, NULL);
	CHECK_THREADS();
	atomic_store(&go_on, true);
	pthread_join(j.id, NULL);
	handle(SIGUSR1, on_signal, 0);
	seen_free();
	two_close();
}
PAIR(jump_and_never_return)

/* Receiving in a handler allocates; the library sees to it that it interrupts nothing that does. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}

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
	RUN_PAIR(eintr_storm);
	RUN_PAIR(restarted_receives);
	if (!SANITIZED_ADDRESS) /* its allocator bears no handler that allocates */
		RUN_PAIR(receiving_in_a_handler);
	if (!SANITIZED) { /* they do not follow a thread that is cancelled in a system call */
		RUN_PAIR(cancelled_receivers);
	}
	RUN_PAIR(jumping_receivers);
	RUN_PAIR(jump_and_never_return);
	return t_done();
}
