/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contexts without threads: an event loop that watches one descriptor is enough for all that threads do elsewhere.
 */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "dirs.h"
#include "fork_settle.h"
#include "two.h"
#include "urds/owner.h"

static unsigned threads(void)
{
	DIR *d = dir_open("/proc/self/task");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static struct pollfd watch[2];
static unsigned nwatch;

/* Contexts without threads, driven by this thread only; with records, so that other processes may ask. */
static void driven_open(unsigned flags)
{
	two_names();
	flags |= pair_flags() & ~URDS_CONFIG_NO_RECORD;
	ca = ctx_open(flags | URDS_CONFIG_NO_THREADS);
	cb = variant == LOOP ? ca : ctx_open(flags | URDS_CONFIG_NO_THREADS);
	CHECK(ca && cb);
	nwatch = ca == cb ? 1 : 2;
	watch[0] = (struct pollfd){.fd = urds_context_fd(ca), .events = POLLIN};
	watch[1] = (struct pollfd){.fd = urds_context_fd(cb), .events = POLLIN};
	CHECK(watch[0].fd >= 0 && watch[1].fd >= 0);
	CHECK_EQ(urds_context_fd(ca), watch[0].fd);
}

/* What an event loop does: sleeps until a descriptor is readable, for @ms at most. */
static void turn(int ms)
{
	int n = poll(watch, nwatch, ms);

	CHECK(n >= 0 || errno == EINTR);
	for (unsigned i = 0; n > 0 && i < nwatch; i++)
		if (watch[i].revents)
			CHECK(urds_progress(i ? cb : ca) >= 0);
}

#define TURN_UNTIL(cond)                                                           \
	do {                                                                       \
		uint64_t end_ = now_ns() + 20000000000ull * slow();                \
		while (!(cond)) {                                                  \
			if (now_ns() > end_)                                       \
				T_FAIL("not within %u s: %s", 20 * slow(), #cond); \
			turn(1000);                                                \
		}                                                                  \
	} while (0)

static ssize_t try_recv(struct urds_sock *s, void *m, size_t len)
{
	ssize_t n = urds_recv(s, m, len, MSG_DONTWAIT);

	CHECK(n >= 0 || errno == EAGAIN);
	return n;
}

static unsigned drain(struct urds_sock *s)
{
	unsigned n = 0;
	uint8_t m[8];

	while (try_recv(s, m, sizeof m) == 8)
		n++;
	return n;
}

/* Streams both ways, by non-blocking calls. Nothing but the descriptor says when to go on. */
static void streams_by_an_event_loop(void)
{
	unsigned before = threads(), sent[2] = {0}, got[2] = {0};
	static uint8_t m[3000];
	struct urds_sock *s[2];

	driven_open(URDS_CONFIG_NO_RECORD);
	s[0] = sock_at(ca, ip_a, 4000);
	s[1] = sock_at(cb, ip_b, 4000);
	CHECK(s[0] && s[1] && connect4(s[0], ip_b, 4000) == 0 && connect4(s[1], ip_a, 4000) == 0);
	while (got[0] < 5000 || got[1] < 5000) {
		bool any = false;

		for (unsigned i = 0; i < 2; i++) {
			while (sent[i] < 5000) {
				size_t len = 8 + sent[i] * 37 % 2900;
				ssize_t rc;

				fill_msg(m, len, sent[i]);
				rc = urds_send(s[i], m, len, MSG_DONTWAIT);
				CHECK(rc == (ssize_t)len ||
				      (rc < 0 && (errno == EAGAIN || errno == ENOBUFS)));
				if (rc < 0)
					break;
				sent[i]++;
				any = true;
			}
			for (ssize_t n; (n = try_recv(s[i], m, sizeof m)) >= 0; got[i]++) {
				CHECK_EQ(n, 8 + got[i] * 37 % 2900);
				CHECK(check_msg(m, (size_t)n, got[i]));
				any = true;
			}
		}
		turn(any ? 0 : 1000);
	}
	CHECK_EQ(threads(), before);
	two_close();
}
PAIR(streams_by_an_event_loop)

/* What was gathered goes out with the next turn of the loop, however few turns there are. */
static void a_burst_goes_out(void)
{
	struct urds_sock *a, *b;
	unsigned n = 0;
	uint8_t m[8];

	driven_open(URDS_CONFIG_NO_RECORD);
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && connect4(a, ip_b, 4000) == 0);
	CHECK_EQ(urds_send(a, "x", 1, 0), 1);
	TURN_UNTIL(try_recv(b, m, sizeof m) == 1);
	for (unsigned i = 0; i < 500; i++)
		CHECK_EQ(urds_send(a, "12345678", 8, MSG_DONTWAIT), 8);
	TURN_UNTIL((n += drain(b)) == 500);
	two_close();
}
PAIR(a_burst_goes_out)

static void *receive_one(void *arg)
{
	struct worker *w = arg;
	uint8_t m[8];
	ssize_t n = urds_recv(w->s, m, sizeof m, 0);

	EXPECT(n > 0, errno);
	w->count = n > 0 ? (uint64_t)n : 0;
	atomic_store(&w->stop, true);
	return NULL;
}

/* Calls that wait drive the wire, and see to its timers: the peer is not there yet, and connecting is tried again. */
static void calls_that_wait_work(void)
{
	struct urds_sock *a, *b;
	struct worker w;
	uint8_t m[8];

	driven_open(URDS_CONFIG_NO_RECORD);
	a = sock_at(ca, ip_a, 4000);
	CHECK(a && connect4(a, ip_b, 4000) == 0);
	CHECK_EQ(urds_send(a, "early", 5, 0), 5);
	CHECK_EQ(set_timeo(a, SO_RCVTIMEO, 300), 0);
	CHECK(urds_recv(a, m, sizeof m, 0) < 0 && errno == ETIMEDOUT);
	b = sock_at(cb, ip_b, 4000);
	CHECK(b);
	w = (struct worker){.s = b};
	CHECK_EQ(set_timeo(b, SO_RCVTIMEO, 20000 * slow()), 0);
	if (cb == ca) {
		CHECK_EQ(urds_recv(b, m, sizeof m, 0), 5);
	} else {
		/* One end waits in its call, the other in the event loop. */
		start(&w, receive_one);
		TURN_UNTIL(atomic_load(&w.stop));
		pthread_join(w.id, NULL);
		CHECK_EQ(w.count, 5);
	}
	CHECK_EQ(send4(b, "late", 4, 0, ip_a, 4000), 4);
	CHECK_EQ(set_timeo(a, SO_RCVTIMEO, 20000 * slow()), 0);
	if (cb == ca)
		CHECK_EQ(urds_recv(a, m, sizeof m, 0), 4);
	else
		TURN_UNTIL(try_recv(a, m, sizeof m) == 4);
	CHECK_THREADS();
	two_close();
}
PAIR(calls_that_wait_work)

/* With nothing to do the descriptor is not readable; what it tells of timers is true. */
static void silence_is_silent(void)
{
	struct urds_sock *a, *b;
	uint8_t m[8];

	driven_open(URDS_CONFIG_NO_RECORD);
	ca->cfg.rest_ns = cb->cfg.rest_ns = URDS_MS(50);
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && connect4(a, ip_b, 4000) == 0);
	CHECK_EQ(urds_send(a, "x", 1, 0), 1);
	TURN_UNTIL(try_recv(b, m, sizeof m) == 1);
	TURN_UNTIL(atomic_load(&ca->next_deadline) == URDS_NEVER &&
		   atomic_load(&cb->next_deadline) == URDS_NEVER);
	for (unsigned i = 0; i < 20; i++)
		turn(0); /* what was rung for all that */
	CHECK_EQ(poll(watch, nwatch, 300), 0);
	CHECK_EQ(urds_progress(ca), INT_MAX);
	CHECK_EQ(urds_send(a, "y", 1, 0), 1);
	TURN_UNTIL(try_recv(b, m, sizeof m) == 1);
	two_close();
}
PAIR(silence_is_silent)

/* Sockets' own descriptors, in the same epoll as that of the context. */
static void descriptors_of_sockets(void)
{
	struct urds_sock *a, *b;
	int ep = epoll_create1(EPOLL_CLOEXEC), fds[3];
	struct epoll_event ev;
	unsigned got = 0;
	uint8_t m[8];

	driven_open(URDS_CONFIG_NO_RECORD);
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && connect4(a, ip_b, 4000) == 0);
	fds[0] = watch[0].fd;
	fds[1] = urds_fd(b);
	fds[2] = watch[1].fd;
	for (int i = 0; i < (ca == cb ? 2 : 3); i++) {
		ev = (struct epoll_event){.events = EPOLLIN, .data.fd = fds[i]};
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev), 0);
	}
	for (unsigned i = 0; i < 100; i++)
		CHECK_EQ(urds_send(a, "12345678", 8, 0), 8);
	while (got < 100) {
		CHECK_EQ(epoll_wait(ep, &ev, 1, 20000 * (int)slow()), 1);
		if (ev.data.fd == fds[1])
			got += drain(b);
		else
			CHECK(urds_progress(ev.data.fd == fds[0] ? ca : cb) >= 0);
	}
	/* A call that waits although the descriptor is watched. */
	CHECK_EQ(set_timeo(b, SO_RCVTIMEO, 50), 0);
	CHECK(urds_recv(b, m, sizeof m, 0) < 0 && errno == ETIMEDOUT);
	close(ep);
	two_close();
}
PAIR(descriptors_of_sockets)

/* Another process learns who owns the address, and pings through its owner, which has no thread for that. */
static void other_processes_are_answered(void)
{
	unsigned before = threads();
	struct sockaddr_in at;
	struct urds_sock *s;
	int status = -1;
	pid_t pid, was;

	variant = LOOP;
	driven_open(0);
	was = getpid();
	s = sock_at(ca, ip_a, 4000);
	CHECK(s);
	at = in4(ip_a, 0);
	fork_settle();
	pid = fork();
	if (pid == 0) {
		struct urds_owner o;
		struct urds_owner_ping *p = NULL;
		struct urds_owner_pong r;

		alarm(60);
		if (urds_owner_ident((struct sockaddr *)&at, sizeof at, &o) < 0 || o.pid != was ||
		    !o.answered)
			_exit(1);
		if (urds_owner_ping_open((struct sockaddr *)&at, sizeof at, &p) < 0 ||
		    urds_owner_ping_send(p, 0, (struct sockaddr *)&at, sizeof at) < 0)
			_exit(2);
		_exit(urds_owner_ping_recv(p, &r, 20000) == 1 ? 0 : 3);
	}
	CHECK(pid > 0);
	TURN_UNTIL(waitpid(pid, &status, WNOHANG) == pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(threads(), before);
	two_close();
}

static void contexts_with_threads_are_refused(void)
{
	struct urds_ctx *c = ctx_open(URDS_CONFIG_NO_RECORD);

	CHECK_ERR(urds_context_fd(c), EINVAL);
	CHECK_ERR(urds_progress(c), EINVAL);
	CHECK_ERR(urds_progress(NULL), EINVAL);
	CHECK(strstr(urds_reason(), "URDS_CONFIG_NO_THREADS"));
	CHECK_EQ(urds_shutdown(c), 0);
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	RUN_PAIR(streams_by_an_event_loop);
	RUN_PAIR(a_burst_goes_out);
	RUN_PAIR(calls_that_wait_work);
	RUN_PAIR(silence_is_silent);
	RUN_PAIR(descriptors_of_sockets);
	T_RUN(other_processes_are_answered);
	T_RUN(contexts_with_threads_are_refused);
	return t_done();
}
