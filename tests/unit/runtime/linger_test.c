/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * SO_LINGER: a close that waits until everything is acknowledged, and URDS_OPT_UNACKED, for those who do not wait.
 */
#include "two.h"

#ifndef _WIN32
#include "sanitized.h"
#endif

#define N 200

static int set_linger(struct urds_sock *s, int on, int seconds)
{
	struct linger l = {0};

	l.l_onoff = (__typeof__(l.l_onoff))on;
	l.l_linger = (__typeof__(l.l_linger))seconds;
	return urds_setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof l);
}

static int unacked(struct urds_sock *s)
{
	return get_int(s, URDS_SOL_RDS, URDS_OPT_UNACKED);
}

/* A sender whose messages, some of them empty, wait for a peer that is not there. */
static struct urds_sock *sender_of(unsigned n, unsigned port)
{
	static uint8_t m[400];
	struct urds_sock *s = sock_at(ca, ip_a, port);

	CHECK(s && connect4(s, ip_b, 4000) == 0);
	for (unsigned i = 0; i < n; i++) {
		size_t len = i % 3 == 2 ? 0 : sizeof m;

		fill_msg(m, sizeof m, i);
		CHECK_EQ(urds_send(s, m, len, 0), len);
	}
	CHECK_EQ(unacked(s), n);
	return s;
}

/* A kernel's acknowledgement says that its host has a message, not yet its socket's queue. */
static int at_once(void)
{
	return variant == PLAIN ? 0 : MSG_DONTWAIT;
}

/* In a thread of its own; ->n becomes the errno, or 0. */
static void *close_it(void *arg)
{
	struct worker *w = arg;

	w->n = urds_close(w->s) < 0 ? (unsigned)errno : 0;
	atomic_store(&w->stop, true);
	return NULL;
}

static void option__keeps_what_is_set(void)
{
	struct linger l = {.l_onoff = 1};
	socklen_t len = sizeof l;
	struct urds_sock *s;

	two_open();
	s = sock_at(ca, ip_a, 4000);
	CHECK(s);
	CHECK_EQ(urds_getsockopt(s, SOL_SOCKET, SO_LINGER, &l, &len), 0);
	CHECK(l.l_onoff == 0 && len == sizeof l);
	CHECK_EQ(set_linger(s, 1, 7), 0);
	CHECK_EQ(urds_getsockopt(s, SOL_SOCKET, SO_LINGER, &l, &len), 0);
	CHECK(l.l_onoff == 1 && l.l_linger == 7);
	CHECK_ERR(urds_setsockopt(s, SOL_SOCKET, SO_LINGER, &l, sizeof l - 1), EINVAL);
	CHECK_ERR(set_int(s, URDS_SOL_RDS, URDS_OPT_UNACKED, 1), ENOPROTOOPT);
	CHECK_EQ(unacked(s), 0);
	/* There is nothing to wait for. */
	CHECK_EQ(urds_close(s), 0);
	two_close();
}

/* The peer comes only when the close waits for it already; not a message is missing then. */
static void close__waits_until_all_is_there(void)
{
	static uint8_t m[500];
	struct worker w = {0};
	struct urds_sock *r;

	two_open();
	w.s = sender_of(N, 4000);
	CHECK_EQ(set_linger(w.s, 1, 100), 0);
	start(&w, close_it);
	EVENTUALLY(atomic_load(&w.s->is_closed));
	r = sock_at(cb, ip_b, 4000);
	CHECK(r && set_timeo(r, SO_RCVTIMEO, 20000 * slow()) == 0);
	EVENTUALLY(atomic_load(&w.stop));
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	CHECK_EQ(w.n, 0);
	for (unsigned i = 0; i < N; i++) {
		size_t len = i % 3 == 2 ? 0 : 400;

		CHECK_EQ(urds_recv(r, m, sizeof m, at_once()), len);
		CHECK(len == 0 || check_msg(m, len, i));
	}
	/* The port is free again. */
	CHECK(sock_at(ca, ip_a, 4000));
	two_close();
}
PAIR(close__waits_until_all_is_there)

/* A loop that does other things meanwhile asks. */
static void unacked__falls_to_nothing(void)
{
	struct urds_sock *s, *r;
	uint8_t m[500];

	two_open();
	s = sender_of(N, 4000);
	r = sock_at(cb, ip_b, 4000);
	CHECK(r);
	EVENTUALLY(unacked(s) == 0);
	CHECK_EQ(urds_close(s), 0);
	for (unsigned i = 0; i < N; i++)
		CHECK(urds_recv(r, m, sizeof m, at_once()) >= 0);
	two_close();
}
PAIR(unacked__falls_to_nothing)

/* Nobody but the close itself drives the sender's context. */
static void close__drives_a_context_without_threads(void)
{
	static uint8_t m[500];
	struct worker w = {0};
	struct urds_sock *r;

	two_names();
	ca = ctx_open(pair_flags() | URDS_CONFIG_NO_THREADS);
	cb = variant == LOOP ? ca : ctx_open(pair_flags());
	CHECK(ca && cb);
	w.s = sender_of(N, 4000);
	CHECK_EQ(set_linger(w.s, 1, -1), 0);
	start(&w, close_it);
	EVENTUALLY(atomic_load(&w.s->is_closed));
	r = sock_at(cb, ip_b, 4000);
	CHECK(r);
	EVENTUALLY(atomic_load(&w.stop));
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	CHECK_EQ(w.n, 0);
	for (unsigned i = 0; i < N; i++)
		CHECK(urds_recv(r, m, sizeof m, at_once()) >= 0);
	two_close();
}
PAIR(close__drives_a_context_without_threads)

/* Return: was it acknowledged before it would be by itself? Once it may be slow. */
static bool is_asked_for(void)
{
	struct urds_sock *s = sock_at(ca, ip_a, 4000);
	uint64_t begin;

	CHECK(s);
	CHECK_EQ(send4(s, "last", 4, URDS_MSG_MORE, ip_b, 4000), 4);
	CHECK_EQ(set_linger(s, 1, 100), 0);
	begin = now_ns();
	CHECK_EQ(urds_close(s), 0);
	return now_ns() - begin < URDS_ACK_DELAY_NS / 2;
}

/* What was gathered, and goes out with the close, asks for its acknowledgement. */
static void close__does_not_wait_for_a_late_acknowledgement(void)
{
	two_names();
	ca = ctx_open(pair_flags() | URDS_CONFIG_NO_THREADS);
	cb = ctx_open(pair_flags());
	CHECK(ca && cb && sock_at(cb, ip_b, 4000));
	EVENTUALLY(is_asked_for());
	two_close();
}

/* Without it, or with no time at all, it is as in the kernel: at once, and what waits is cancelled. */
static void close__that_does_not_linger(void)
{
	two_open();
	for (int i = 0; i < 2; i++) {
		struct urds_sock *s = sender_of(10, 4000);

		CHECK_EQ(set_linger(s, i, i ? 0 : 3600), 0);
		CHECK_EQ(urds_close(s), 0); /* or the alarm rings */
		CHECK_ERR(urds_send(s, "x", 1, 0), EBADF);
	}
	two_close();
}

static void close__when_the_time_is_over(void)
{
	struct urds_sock *s;
	uint64_t begin;

	two_open();
	s = sender_of(10, 4000);
	CHECK_EQ(set_linger(s, 1, 1), 0);
	begin = now_ns();
	CHECK_ERR(urds_close(s), ETIMEDOUT);
	CHECK(strstr(urds_reason(), "SO_LINGER") && strstr(urds_reason(), "is closed"));
	CHECK(now_ns() - begin >= 1000000000u);
	CHECK_ERR(urds_close(s), EBADF);
	/* Nothing of it is left: neither its port nor its messages. */
	s = sock_at(ca, ip_a, 4000);
	CHECK(s);
	CHECK(sock_at(cb, ip_b, 4000));
	CHECK_EQ(send4(s, "next", 4, 0, ip_b, 4000), 4);
	EVENTUALLY(unacked(s) == 0);
	two_close();
}

static void *receive(void *arg)
{
	struct worker *w = arg;
	char m[8];

	w->n = urds_recv(w->s, m, sizeof m, 0) < 0 ? (unsigned)errno : 0;
	atomic_store(&w->stop, true);
	return NULL;
}

/* Calls of other threads do not wait for the end of the close. */
static void close__lets_other_calls_out_first(void)
{
	struct worker r = {0}, w = {0};

	two_open();
	r.s = w.s = sender_of(10, 4000);
	CHECK_EQ(set_linger(w.s, 1, 100), 0);
	start(&r, receive);
	EVENTUALLY(atomic_load(&ca->nsleepers) || atomic_load(&ca->lead_inside));
	start(&w, close_it);
	EVENTUALLY(atomic_load(&r.stop));
	CHECK_EQ(pthread_join(r.id, NULL), 0);
	CHECK_EQ(r.n, EBADF);
	CHECK_ERR(urds_send(w.s, "x", 1, 0), EBADF);
	CHECK(!atomic_load(&w.stop));
	CHECK(sock_at(cb, ip_b, 4000));
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	CHECK_EQ(w.n, 0);
	two_close();
}

/* The end of the context is the end of the wait. */
static void close__beside_a_shutdown(void)
{
	struct worker w = {0};

	two_open();
	w.s = sender_of(10, 4000);
	CHECK_EQ(set_linger(w.s, 1, 100), 0);
	start(&w, close_it);
	EVENTUALLY(atomic_load(&w.s->is_closed));
	CHECK_EQ(urds_shutdown(ca), 0);
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	CHECK_EQ(w.n, EBADF);
	CHECK_EQ(urds_shutdown(cb), 0);
}

#ifndef _WIN32
static void on_signal(int sig)
{
}

static void close__that_a_signal_ends(void)
{
	struct sigaction act = {.sa_handler = on_signal};
	struct worker w = {0};

	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	two_open();
	w.s = sender_of(10, 4000);
	CHECK_EQ(set_linger(w.s, 1, 100), 0);
	start(&w, close_it);
	EVENTUALLY(atomic_load(&w.s->is_closed));
	/* It may not wait yet. */
	EVENTUALLY((pthread_kill(w.id, SIGUSR1), atomic_load(&w.stop)));
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	CHECK_EQ(w.n, EINTR);
	CHECK(sock_at(ca, ip_a, 4000));
	two_close();
}

/* Left for good: the socket is closed all the same. */
static void close__of_a_thread_that_is_cancelled(void)
{
	struct worker w = {0};

	if (SANITIZED)
		T_NOT_HERE("sanitizers do not follow a thread that is cancelled in a system call");
	two_open();
	w.s = sender_of(10, 4000);
	CHECK_EQ(set_linger(w.s, 1, 100), 0);
	start(&w, close_it);
	EVENTUALLY(atomic_load(&w.s->is_closed));
	CHECK_EQ(pthread_cancel(w.id), 0);
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	CHECK(!atomic_load(&w.stop));
	CHECK(sock_at(ca, ip_a, 4000));
	CHECK_EQ(atomic_load(&ca->nsocks), 1);
	two_close();
}

static struct urds_sock *interrupted;
static _Atomic int seen;

static void close_in_handler(int sig)
{
	int was = errno, rc = urds_close(interrupted);

	atomic_store(&seen, rc < 0 ? errno : -1);
	errno = was;
}

/* A handler may not wait in a call that interrupted one that waits; it says so, and does nothing. */
static void close__in_a_handler(void)
{
	struct sigaction act = {.sa_handler = close_in_handler};
	struct worker w = {0};

	CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	two_open();
	interrupted = sender_of(10, 4001);
	CHECK_EQ(set_linger(interrupted, 1, 100), 0);
	w.s = sock_at(ca, ip_a, 4000);
	CHECK(w.s);
	atomic_store(&seen, 0);
	start(&w, receive);
	EVENTUALLY(atomic_load(&ca->nsleepers) || atomic_load(&ca->lead_inside));
	CHECK_EQ(pthread_kill(w.id, SIGUSR1), 0);
	EVENTUALLY(atomic_load(&seen) != 0);
	CHECK_EQ(atomic_load(&seen), EAGAIN);
	CHECK_EQ(unacked(interrupted), 10);
	CHECK_EQ(urds_close(w.s), 0);
	CHECK_EQ(pthread_join(w.id, NULL), 0);
	two_close();
}
#endif

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	RUN_PAIR(close__waits_until_all_is_there);
	RUN_PAIR(unacked__falls_to_nothing);
	RUN_PAIR(close__drives_a_context_without_threads);
	variant = TCP;
	T_RUN(option__keeps_what_is_set);
	T_RUN(close__does_not_wait_for_a_late_acknowledgement);
	T_RUN(close__that_does_not_linger);
	T_RUN(close__when_the_time_is_over);
	T_RUN(close__lets_other_calls_out_first);
	T_RUN(close__beside_a_shutdown);
#ifndef _WIN32
	T_RUN(close__that_a_signal_ends);
	T_RUN(close__of_a_thread_that_is_cancelled);
	T_RUN(close__in_a_handler);
#endif
	return t_done();
}
