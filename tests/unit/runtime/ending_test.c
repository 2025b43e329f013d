/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The end of a context while other threads are in calls on it, or come with its handle; and exit() meanwhile.
 */
#include "looks.h"
#include "two.h"

static struct sockaddr_in at_a;

/* Every call that takes a context. */
static void all_fail(struct urds_ctx *c)
{
	CHECK(!urds_socket(c) && errno == EBADF);
	CHECK_ERR(urds_claim(c, (struct sockaddr *)&at_a, sizeof at_a), EBADF);
	CHECK_ERR(urds_reset(c, (struct sockaddr *)&at_a, (struct sockaddr *)&at_a), EBADF);
	CHECK_ERR(urds_progress(c), EBADF);
	CHECK_ERR(urds_context_fd(c), EBADF);
	CHECK_ERR(urds_shutdown(c), EBADF);
	CHECK(strstr(urds_reason(), "shut down"));
}

static void context__that_was_shut_down(void)
{
	struct urds_ctx *c[3], *other;

	two_names();
	at_a = in4(ip_a, 0);
	for (unsigned i = 0; i < 3; i++) {
		c[i] = ctx_open(URDS_CONFIG_NO_RECORD | (i ? URDS_CONFIG_NO_THREADS : 0));
		CHECK(c[i]);
		CHECK_EQ(urds_claim(c[i], (struct sockaddr *)&at_a, sizeof at_a), 0);
		CHECK_EQ(urds_shutdown(c[i]), 0);
		all_fail(c[i]);
	}
	/* Another one does not bring it back. */
	other = ctx_open(URDS_CONFIG_NO_RECORD | URDS_CONFIG_NO_THREADS);
	CHECK(other);
	for (unsigned i = 0; i < 3; i++)
		all_fail(c[i]);
	CHECK_EQ(urds_shutdown(other), 0);
}

static _Atomic bool is_held, is_shut, was_shut;

/* The end of the context begins while this thread is in its call, and is not over before that. */
static void it_ends(void)
{
	atomic_store(&is_held, true);
	for (unsigned i = 0;
	     i < 20000 && !(atomic_load(&ca->refs) & CTX_ENDS) && !atomic_load(&is_shut); i++)
		nap_ms(1);
	for (unsigned i = 0; i < 100 && !atomic_load(&is_shut); i++)
		nap_ms(1);
	atomic_store(&was_shut, atomic_load(&is_shut));
}

static void *drive(void *arg)
{
	unsigned *at = arg;

	happens = it_ends;
	left = *at;
	EXPECT(urds_progress(ca) >= 0, errno);
	if (left > 0) /* it does not look so often */
		it_ends();
	left = 0;
	EXPECT(urds_progress(ca) < 0 && errno == EBADF, errno);
	return NULL;
}

static void context__is_shut_down_in_progress(void)
{
	two_names();
	for (unsigned at = 1; at <= 4; at++) {
		struct urds_sock *s;
		pthread_t id;

		ca = ctx_open(URDS_CONFIG_NO_RECORD | URDS_CONFIG_NO_THREADS);
		s = sock_at(ca, ip_a, 4000);
		CHECK(ca && s);
		atomic_store(&is_held, false);
		atomic_store(&is_shut, false);
		CHECK_EQ(pthread_create(&id, NULL, drive, &at), 0);
		EVENTUALLY(atomic_load(&is_held));
		CHECK_EQ(urds_shutdown(ca), 0);
		atomic_store(&is_shut, true);
		CHECK_EQ(pthread_join(id, NULL), 0);
		CHECK_THREADS();
		if (at == 1)
			CHECK(!atomic_load(&was_shut));
	}
}

/* Threads that call whatever there is, and do not know that it ends. */
static void *call_all(void *arg)
{
	struct worker *w = arg;
	struct urds_sock *s = NULL;

	for (unsigned i = 0;; i++, w->n++) {
		struct sockaddr *at = (struct sockaddr *)&at_a;
		bool failed = false;
		int rc = 0;

		errno = 0;
		switch ((i + w->tag) % 5) {
		case 0:
			rc = urds_claim(ca, at, sizeof at_a);
			break;
		case 1:
			s = urds_socket(ca);
			failed = !s;
			break;
		case 2:
			rc = s ? bind4(s, ip_a, 0) : 0;
			if (s && rc == 0)
				EXPECT(send4(s, "x", 1, MSG_DONTWAIT, ip_a, 4000) == 1 ||
					       errno == EBADF,
				       errno);
			break;
		case 3:
			EXPECT(!s || urds_close(s) == 0 || errno == EBADF, errno);
			s = NULL;
			break;
		default:
			rc = urds_progress(ca);
			EXPECT(rc < 0 || urds_reset(ca, at, at) >= 0 || errno == ENOTCONN ||
				       errno == EBADF,
			       errno);
		}
		failed = failed || rc < 0;
		EXPECT(!failed || errno == EBADF, errno);
		if (failed)
			break;
	}
	return NULL;
}

static void context__is_shut_down_beside_all_calls(void)
{
	for (unsigned i = 0; i < 60; i++) {
		struct worker w[3] = {{.tag = 0}, {.tag = 1}, {.tag = 4}};
		uint64_t until = now_ns() + i * 50000u;

		two_names();
		at_a = in4(ip_a, 0);
		/* Also the record, which has calls of its own to answer. */
		ca = ctx_open(URDS_CONFIG_NO_THREADS | (i & 1 ? URDS_CONFIG_NO_RECORD : 0));
		CHECK(ca);
		for (unsigned k = 0; k < 3; k++)
			start(&w[k], call_all);
		while (now_ns() < until)
			;
		CHECK_EQ(urds_shutdown(ca), 0);
		for (unsigned k = 0; k < 3; k++)
			pthread_join(w[k].id, NULL);
		CHECK_THREADS();
	}
}

/* One of them does it, and the others hear that. */
static _Atomic unsigned nshut;

static void *shut(void *arg)
{
	if (urds_shutdown(ca) == 0)
		atomic_fetch_add(&nshut, 1);
	else
		EXPECT(errno == EBADF, errno);
	return NULL;
}

static void context__is_shut_down_by_several_threads(void)
{
	for (unsigned i = 0; i < 20; i++) {
		struct worker w[3] = {{0}};

		two_names();
		ca = ctx_open(URDS_CONFIG_NO_RECORD);
		CHECK(ca && sock_at(ca, ip_a, 4000));
		atomic_store(&nshut, 0);
		for (unsigned k = 0; k < 3; k++)
			start(&w[k], shut);
		for (unsigned k = 0; k < 3; k++)
			pthread_join(w[k].id, NULL);
		CHECK_THREADS();
		CHECK_EQ(atomic_load(&nshut), 1);
	}
}

static struct urds_sock *late;
static int late_rc;

/* A call that had come in before its socket was shut, and was slow. */
static void it_comes_late(void)
{
	if (!atomic_load(&ca->stop)) {
		left = 1;
		return;
	}
	late_rc = sock_fd(late);
	sock_drop(late);
	CHECK(!ca->loop_thread.is_running && !ca->flush_thread.is_running);
}

static void context__that_ends_starts_no_thread(void)
{
	two_names();
	for (unsigned i = 0; i < 2; i++) {
		/* Whether they run already, or never did. */
		ca = ctx_open(URDS_CONFIG_NO_RECORD);
		late = i ? sock_at(ca, ip_a, 4000) : urds_socket(ca);
		CHECK(ca && late && sock_try_hold(late));
		late_rc = 0;
		happens = it_comes_late;
		left = 1;
		CHECK_EQ(urds_shutdown(ca), 0);
		left = 0;
		CHECK_EQ(late_rc, -URDS_EBADF);
	}
}

#ifndef _WIN32
#define N 100

/* Of the child: 1: it is in exit(), 2: the library has done its part. */
static _Atomic int *stage;

/* Registered first, so it runs last. */
static void at_the_end(void)
{
	if (stage)
		atomic_store(stage, 2);
}

/* exit() while another thread has only begun to shut the context down: what it has queued is sent all the same. */
static void exit__beside_a_shutdown(void)
{
	struct urds_sock *r;
	char m[1000] = {0};
	pid_t pid;

	two_names();
	/* Nobody takes anything before the first receive. */
	cb = ctx_open(URDS_CONFIG_NO_RECORD | URDS_CONFIG_NO_THREADS);
	r = sock_at(cb, ip_b, 4000);
	stage = shared(sizeof *stage);
	CHECK(r && set_timeo(r, SO_RCVTIMEO, 5000 * slow()) == 0);
	pid = spawn();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct urds_sock *s;
		pthread_t id;

		ca = ctx_open(URDS_CONFIG_NO_RECORD);
		s = sock_at(ca, ip_a, 4000);
		for (unsigned i = 0; s && i < N; i++)
			if (send4(s, m, sizeof m, 0, ip_b, 4000) != sizeof m)
				_exit(1);
		if (!s || pthread_create(&id, NULL, shut, NULL) != 0 || pthread_detach(id) != 0)
			_exit(1);
		while (!(atomic_load(&ca->refs) & CTX_ENDS))
			nap_ms(1);
		atomic_store(stage, 1);
		exit(0);
	}
	EVENTUALLY(atomic_load(stage) > 0);
	nap_ms(20); /* were it not to wait it would be gone */
	CHECK_EQ(atomic_load(stage), 1);
	for (unsigned i = 0; i < N; i++)
		CHECK_EQ(urds_recv(r, m, sizeof m, 0), sizeof m);
	CHECK_EQ(reap_within(pid, 20), 0);
	CHECK_EQ(atomic_load(stage), 2);
	stage = NULL;
	CHECK_EQ(urds_shutdown(cb), 0);
}
#endif

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
#ifndef _WIN32
	CHECK_EQ(atexit(at_the_end), 0);
#endif
	alarm(170 * slow());
	variant = TCP;
	T_RUN(context__that_was_shut_down);
	T_RUN(context__is_shut_down_in_progress);
	T_RUN(context__is_shut_down_beside_all_calls);
	T_RUN(context__is_shut_down_by_several_threads);
	T_RUN(context__that_ends_starts_no_thread);
#ifndef _WIN32
	T_RUN(exit__beside_a_shutdown);
#endif
	return t_done();
}
