/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/poller.h"
#include "platform/thread.h"
#include "platform/wake.h"
#include "tap.h"

#define ALIVE 0x600dbeefu

static struct urds_poller *poller;

struct source {
	struct urds_poll_src src;
	uint32_t magic;
	int fd;
	_Atomic int calls;
	_Atomic unsigned events;
	bool retire_inside;
};

static _Atomic int frees, dead_calls;

static void free_source(struct urds_poll_src *src)
{
	struct source *s = urds_container_of(src, struct source, src);

	s->magic = 0;
	close(s->fd);
	free(s);
	atomic_fetch_add(&frees, 1);
}

static void ready(struct urds_poll_src *src, unsigned events)
{
	struct source *s = urds_container_of(src, struct source, src);

	if (s->magic != ALIVE)
		atomic_fetch_add(&dead_calls, 1);
	atomic_fetch_add(&s->calls, 1);
	atomic_store(&s->events, events);
	if (s->retire_inside) {
		urds_poller_del(poller, src, s->fd);
		urds_poller_retire(poller, src, free_source);
		/* Still ours until we return. */
		if (s->magic != ALIVE)
			atomic_fetch_add(&dead_calls, 1);
	}
}

static struct source *source_new(int fd)
{
	struct source *s = calloc(1, sizeof(*s));

	s->src.ready = ready;
	s->magic = ALIVE;
	s->fd = fd;
	return s;
}

static void source_free(struct source *s)
{
	urds_poller_del(poller, &s->src, s->fd);
	urds_poller_retire(poller, &s->src, free_source);
}

static void poke(int fd)
{
	uint64_t one = 1;

	CHECK_EQ(write(fd, &one, 8), 8);
}

static void poller__edges_and_levels(void)
{
	struct pollfd pfd = {.events = POLLIN};
	struct source *s;
	int fd[2];

	CHECK_EQ(urds_poller_new(&poller), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	s = source_new(fd[0]);
	CHECK_EQ(urds_poller_add(poller, &s->src, fd[0],
				 URDS_POLL_IN | URDS_POLL_OUT | URDS_POLL_RDHUP),
		 0);
	/* What is so already is reported, once. */
	CHECK_EQ(urds_poller_wait(poller, 0), 1);
	CHECK_EQ(s->events, URDS_POLL_OUT);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	pfd.fd = (int)urds_poller_fd(poller);
	CHECK_EQ(poll(&pfd, 1, 0), 0);
	CHECK_EQ(write(fd[1], "x", 1), 1);
	CHECK_EQ(poll(&pfd, 1, 0), 1);
	CHECK_EQ(urds_poller_wait(poller, URDS_NEVER), 1);
	CHECK_EQ(s->events, URDS_POLL_OUT | URDS_POLL_IN);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	CHECK_EQ(urds_poller_rearm(poller, &s->src, fd[0], URDS_POLL_IN), 0);
	CHECK_EQ(urds_poller_wait(poller, 0), 1);
	CHECK_EQ(s->events, URDS_POLL_IN);
	CHECK_EQ(urds_poller_rearm(poller, &s->src, fd[0], URDS_POLL_RDHUP), 0);
	close(fd[1]);
	CHECK_EQ(urds_poller_wait(poller, 0), 1);
	CHECK_EQ(s->events, URDS_POLL_RDHUP | URDS_POLL_HUP);
	source_free(s);
	urds_poller_free(poller);
}

static void poller__times_out(void)
{
	static const urds_ns wait[] = {URDS_US(300), URDS_MS(5), URDS_US(10500)};

	CHECK_EQ(urds_poller_new(&poller), 0);
	for (int i = 0; i < 3; i++) {
		urds_ns t0 = urds_clock_ns();

		CHECK_EQ(urds_poller_wait(poller, wait[i]), 0);
		CHECK(urds_clock_ns() - t0 >= wait[i]);
	}
	urds_poller_free(poller);
}

static void nothing(int sig)
{
}

static void poller__signal_is_eintr(void)
{
	const struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};

	CHECK_EQ(urds_poller_new(&poller), 0);
	sigaction(SIGALRM, &act, NULL);
	ualarm(20000, 0);
	CHECK_EQ(urds_poller_wait(poller, URDS_NEVER), -URDS_EINTR);
	urds_poller_free(poller);
}

static void poller__bad_descriptor_unwinds(void)
{
	struct source *s = source_new(-1);

	CHECK_EQ(urds_poller_new(&poller), 0);
	for (int i = 0; i < 1000; i++) /* more than a chunk of slots */
		CHECK_EQ(urds_poller_add(poller, &s->src, -1, URDS_POLL_IN), -URDS_EBADF);
	free(s);
	urds_poller_free(poller);
}

static void poller__retire_inside_ready(void)
{
	struct source *s;
	int n = frees;

	CHECK_EQ(urds_poller_new(&poller), 0);
	for (int i = 0; i < 600; i++) {
		s = source_new(eventfd(1, EFD_CLOEXEC));
		s->retire_inside = true;
		CHECK_EQ(urds_poller_add(poller, &s->src, s->fd, URDS_POLL_IN), 0);
	}
	while (urds_poller_wait(poller, 0) > 0)
		;
	CHECK_EQ(frees - n, 600);
	CHECK_EQ(dead_calls, 0);
	urds_poller_free(poller);
}

static void poller__no_event_after_del(void)
{
	struct source *s[8];

	CHECK_EQ(urds_poller_new(&poller), 0);
	for (int i = 0; i < 8; i++) {
		s[i] = source_new(eventfd(1, EFD_CLOEXEC));
		CHECK_EQ(urds_poller_add(poller, &s[i]->src, s[i]->fd, URDS_POLL_IN), 0);
	}
	for (int i = 0; i < 8; i++)
		urds_poller_del(poller, &s[i]->src, s[i]->fd);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(s[i]->calls, 0);
		urds_poller_retire(poller, &s[i]->src, free_source);
	}
	urds_poller_free(poller);
}

struct rival {
	struct source s;
	struct rival *other;
	struct source *heir; /* takes the loser's slot */
	bool do_retire;
};

static void ready_rival(struct urds_poll_src *src, unsigned events)
{
	struct source *s = urds_container_of(src, struct source, src);
	struct rival *r = urds_container_of(s, struct rival, s), *o = r->other;

	atomic_fetch_add(&s->calls, 1);
	urds_poller_del(poller, &o->s.src, o->s.fd);
	if (!r->do_retire)
		return;
	urds_poller_retire(poller, &o->s.src, NULL);
	r->heir = source_new(eventfd(0, EFD_CLOEXEC));
	if (urds_poller_add(poller, &r->heir->src, r->heir->fd, URDS_POLL_IN) < 0 ||
	    r->heir->src.slot != o->s.src.slot)
		atomic_fetch_add(&dead_calls, 1);
}

/* Two events in one array; whichever comes first takes the other's source away, and in the second
 * round puts another in its place. */
static void poller__stale_event_finds_nobody(void)
{
	for (int round = 0; round < 2; round++) {
		struct rival r[2] = {0};

		CHECK_EQ(urds_poller_new(&poller), 0);
		for (int i = 0; i < 2; i++) {
			r[i].s.src.ready = ready_rival;
			r[i].s.fd = eventfd(1, EFD_CLOEXEC);
			r[i].other = &r[!i];
			r[i].do_retire = round == 1;
			CHECK_EQ(urds_poller_add(poller, &r[i].s.src, r[i].s.fd, URDS_POLL_IN), 0);
		}
		CHECK_EQ(urds_poller_wait(poller, 0), 2);
		CHECK_EQ(r[0].s.calls + r[1].s.calls, 1);
		CHECK_EQ(dead_calls, 0);
		for (int i = 0; i < 2; i++) {
			if (r[i].heir) {
				CHECK_EQ(r[i].heir->calls, 0);
				source_free(r[i].heir);
			}
			if (r[i].s.calls)
				urds_poller_del(poller, &r[i].s.src, r[i].s.fd);
			if (r[i].s.calls || round == 0)
				urds_poller_retire(poller, &r[i].s.src, NULL);
			close(r[i].s.fd);
		}
		urds_poller_free(poller);
	}
}

static _Atomic bool stop;

static void waiter(void *arg)
{
	while (!atomic_load(&stop))
		(void)urds_poller_wait(poller, URDS_MS(1));
}

/* Sources come, fire and go while three threads dispatch; a freed one must never be called (ASan
 * and TSan see more than the magic does). */
static void poller__retire_race(void)
{
	struct urds_thread t[3] = {0};
	struct source *live[32] = {NULL};
	int made = 0, n = frees;

	CHECK_EQ(urds_poller_new(&poller), 0);
	atomic_store(&stop, false);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(urds_thread_start(&t[i], "waiter", waiter, NULL), 0);
	for (int i = 0; i < 20000; i++) {
		int k = rand() % 32;

		if (!live[k]) {
			live[k] = source_new(eventfd(0, EFD_CLOEXEC));
			CHECK_EQ(urds_poller_add(poller, &live[k]->src, live[k]->fd, URDS_POLL_IN),
				 0);
			made++;
		}
		poke(live[k]->fd);
		if (rand() % 3 == 0) {
			source_free(live[k]);
			live[k] = NULL;
		}
	}
	for (int k = 0; k < 32; k++)
		if (live[k])
			source_free(live[k]);
	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++)
		urds_thread_join(&t[i]);
	CHECK_EQ(frees - n, made);
	CHECK_EQ(dead_calls, 0);
	urds_poller_free(poller);
}

static void *cancel_me(void *arg)
{
	while (!arg)
		(void)urds_poller_wait(poller, URDS_NEVER);
	return NULL;
}

/* Threads are cancelled in the wait while edges come; every edge is handed out by somebody. */
static void poller__cancellation_loses_no_edge(void)
{
	struct source *s;

	CHECK_EQ(urds_poller_new(&poller), 0);
	s = source_new(eventfd(0, EFD_CLOEXEC));
	CHECK_EQ(urds_poller_add(poller, &s->src, s->fd, URDS_POLL_IN), 0);
	for (int i = 0; i < 300; i++) {
		int before = s->calls;
		pthread_t t;

		CHECK_EQ(pthread_create(&t, NULL, cancel_me, NULL), 0);
		if (i % 3)
			usleep((useconds_t)(i % 50) * 4);
		poke(s->fd);
		for (volatile int k = 0; k < i * 20; k++)
			;
		pthread_cancel(t);
		pthread_join(t, NULL);
		/* Still there if nobody took it, gone if somebody did: never neither. */
		if (s->calls == before)
			CHECK_EQ(urds_poller_wait(poller, 0), 1);
		CHECK_EQ(s->calls, before + 1);
	}
	source_free(s);
	urds_poller_free(poller);
}

static _Atomic int rung;
static int payload; /* plain: published by the ring */
static int seen;

static void on_ring(struct urds_wake *w)
{
	seen = payload;
	atomic_fetch_add(&rung, 1);
}

static struct urds_wake wake;

static void ringer(void *arg)
{
	payload = 42;
	urds_wake_ring(&wake);
}

static void wake__rings_coalesce(void)
{
	struct urds_thread t = {0};

	CHECK_EQ(urds_poller_new(&poller), 0);
	CHECK_EQ(urds_wake_init(&wake, poller, on_ring), 0);
	CHECK(urds_wake_fd(&wake) >= 0);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	for (int i = 0; i < 100; i++)
		urds_wake_ring(&wake);
	CHECK_EQ(urds_poller_wait(poller, URDS_NEVER), 1);
	CHECK_EQ(rung, 1);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	for (int i = 0; i < 100; i++) {
		urds_wake_ring(&wake);
		CHECK_EQ(urds_poller_wait(poller, URDS_NEVER), 1);
	}
	CHECK_EQ(rung, 101);
	CHECK_EQ(urds_thread_start(&t, "ringer", ringer, NULL), 0);
	CHECK_EQ(urds_poller_wait(poller, URDS_NEVER), 1);
	CHECK_EQ(seen, 42);
	urds_thread_join(&t);
	urds_wake_fini(&wake);
	urds_poller_free(poller);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(poller__edges_and_levels);
	T_RUN(poller__times_out);
	T_RUN(poller__signal_is_eintr);
	T_RUN(poller__bad_descriptor_unwinds);
	T_RUN(poller__retire_inside_ready);
	T_RUN(poller__no_event_after_del);
	T_RUN(poller__stale_event_finds_nobody);
	T_RUN(poller__retire_race);
	T_RUN(poller__cancellation_loses_no_edge);
	T_RUN(wake__rings_coalesce);
	return t_done();
}
