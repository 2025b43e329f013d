/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The end of a socket or of a context while other threads are in calls on it, or come with its handle. Built with
 * urds_clock_ns() wrapped: something can happen wherever a call looks at the clock.
 */
#include "platform/clock.h"

#include "two.h"

/* ---------------------------------------------------------------- in the middle of a call */

urds_ns __real_urds_clock_ns(void);
urds_ns __wrap_urds_clock_ns(void);

static _Thread_local unsigned
	left; /* looks of this thread at the clock until it happens; 0: it does not */
static _Thread_local void (*happens)(void);

urds_ns __wrap_urds_clock_ns(void)
{
	if (left > 0 && --left == 0)
		happens();
	return __real_urds_clock_ns();
}

static struct urds_sock *victim;
static _Atomic bool is_done;
static bool has_begun;
static pthread_t closer;

static void *close_it(void *arg)
{
	EXPECT(urds_close(victim) == 0, errno);
	atomic_store(&is_done, true);
	return NULL;
}

/* By another thread, which may have to wait for a lock that the call holds here. */
static void it_is_closed(void)
{
	has_begun = pthread_create(&closer, NULL, close_it, NULL) == 0;
	for (unsigned i = 0; i < 200 && !atomic_load(&is_done); i++)
		nap_ms(1);
}

/* @s is closed when the call to come looks at the clock for the @at-th time. */
static void arm(struct urds_sock *s, unsigned at)
{
	victim = s;
	atomic_store(&is_done, false);
	has_begun = false;
	happens = it_is_closed;
	left = at;
}

/* Return: was it closed in the call? Otherwise it is now. */
static bool disarm(void)
{
	bool was = has_begun;

	left = 0;
	if (was)
		CHECK_EQ(pthread_join(closer, NULL), 0);
	else
		CHECK_EQ(urds_close(victim), 0);
	CHECK_THREADS();
	return was;
}

/* Each call would wait for its whole time. It comes out at once instead, with EBADF, at whichever of its looks it happens. */
#define LOOKS 12
#define LIMIT_MS 800

static void call__that_waits_for_events(void)
{
	unsigned hits = 0;

	two_open();
	for (unsigned at = 1; at <= LOOKS; at++) {
		struct urds_sock *s = sock_at(ca, ip_a, 4000);
		uint64_t begin = now_ns();
		int rc, err;

		CHECK(s);
		arm(s, at);
		rc = urds_wait(s, POLLIN, (int)(LIMIT_MS * slow()));
		err = errno;
		if (now_ns() - begin >= LIMIT_MS * 1000000ull * slow()) {
			/* It did not look so often before its time was over. */
			CHECK(rc == 0 || err == EBADF);
			(void)disarm();
			break;
		}
		CHECK(has_begun && rc < 0 && err == EBADF);
		if (!disarm())
			break;
		hits++;
	}
	CHECK(hits >= 2);
	two_close();
}

static void call__that_receives(void)
{
	unsigned hits = 0;
	char m[8];

	two_open();
	for (unsigned at = 1; at <= LOOKS; at++) {
		struct urds_sock *s = sock_at(ca, ip_a, 4000);

		CHECK(s && set_timeo(s, SO_RCVTIMEO, LIMIT_MS * slow()) == 0);
		arm(s, at);
		CHECK(urds_recv(s, m, sizeof m, 0) < 0);
		CHECK(errno == (has_begun ? EBADF : ETIMEDOUT));
		if (!disarm())
			break;
		hits++;
	}
	CHECK(hits >= 1);
	two_close();
}

/* Its destination is not there, and its buffer is full. */
static void call__that_sends(void)
{
	static char m[60000];
	unsigned hits = 0;

	two_open();
	for (unsigned at = 1; at <= LOOKS; at++) {
		struct urds_sock *s = sock_at(ca, ip_a, 4000);

		CHECK(s && set_timeo(s, SO_SNDTIMEO, LIMIT_MS * slow()) == 0);
		while (send4(s, m, sizeof m, MSG_DONTWAIT, ip_b, 4000) > 0)
			;
		CHECK_EQ(errno, EAGAIN);
		arm(s, at);
		CHECK(send4(s, m, sizeof m, 0, ip_b, 4000) < 0);
		CHECK(errno == (has_begun ? EBADF : ETIMEDOUT));
		if (!disarm())
			break;
		hits++;
	}
	CHECK(hits >= 1);
	two_close();
}

/* Who sees that there is a descriptor, only just made, sees which. */
static void *fill_it(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&w->stop))
		EXPECT(send4(w->s, "x", 1, MSG_DONTWAIT, ip_a, w->tag) == 1 || errno == EAGAIN ||
			       errno == ENOBUFS || errno == EBADF,
		       errno);
	return NULL;
}

static void descriptor__is_made_beside_messages(void)
{
	two_open();
	for (unsigned i = 0; i < 1500; i++) {
		struct worker w = {.s = sock_at(ca, ip_a, 4000), .tag = 4000};
		struct pollfd p = {.events = POLLIN};
		int fd;

		CHECK(w.s);
		start(&w, fill_it);
		fd = urds_fd(w.s);
		CHECK(fd >= 0);
		p.fd = (__typeof__(p.fd))fd;
		CHECK_EQ(poll(&p, 1, (int)(20000 * slow())), 1);
		atomic_store(&w.stop, true);
		pthread_join(w.id, NULL);
		CHECK_THREADS();
		CHECK_EQ(urds_close(w.s), 0);
	}
	two_close();
}

/* A descriptor of a socket that is closed meanwhile is not watched for ever. */
static void *ask_for_fd(void *arg)
{
	struct worker *w = arg;
	int fd;

	while (!atomic_load(&w->stop)) {
		fd = urds_fd(w->s);
		EXPECT(fd >= 0 || errno == EBADF, errno);
		if (fd < 0)
			break;
	}
	return NULL;
}

static void descriptor__is_asked_for_beside_the_close(void)
{
	two_open();
	for (unsigned i = 0; i < 300; i++) {
		struct worker w = {.s = sock_at(ca, ip_a, 4000)};

		CHECK(w.s);
		start(&w, ask_for_fd);
		for (unsigned k = i % 50; k > 0; k--)
			(void)urds_errno();
		CHECK_EQ(urds_close(w.s), 0);
		pthread_join(w.id, NULL);
		CHECK_EQ(atomic_load(&ca->watchers), 0);
	}
	CHECK_THREADS();
	{
		/* A call that is past its first look. */
		struct urds_sock *s = sock_at(ca, ip_a, 4000);

		CHECK(s && sock_try_hold(s) && urds_close(s) == 0);
		CHECK_EQ(sock_fd(s), -URDS_EBADF);
		CHECK_EQ(atomic_load(&ca->watchers), 0);
		sock_drop(s);
	}
	two_close();
}

/* ---------------------------------------------------------------- contexts */

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

/* What another thread sets is seen whole: timeouts hold from the next wait on. */
static const struct {
	int level, opt;
} ints[] = {{SOL_SOCKET, SO_SNDBUF},
	    {SOL_SOCKET, SO_RCVBUF},
	    {SOL_SOCKET, SO_TIMESTAMP},
	    {URDS_SOL_RDS, URDS_OPT_RECVERR}};

static void *set_times(void *arg)
{
	int v;
	struct worker *w = arg;
	struct linger l = {.l_onoff = 1, .l_linger = 1};

	for (; !atomic_load(&w->stop); w->n++) {
		EXPECT(set_timeo(w->s, SO_RCVTIMEO, 1 + w->n % 2) == 0, errno);
		EXPECT(set_timeo(w->s, SO_SNDTIMEO, 1 + w->n % 2) == 0, errno);
		EXPECT(urds_setsockopt(w->s, SOL_SOCKET, SO_LINGER, &l, sizeof l) == 0 ||
			       errno == EBADF,
		       errno);
		for (unsigned i = 0; i < sizeof ints / sizeof ints[0]; i++) {
			v = (int)(4096 + w->n % 2 * 4096);
			EXPECT(urds_setsockopt(w->s, ints[i].level, ints[i].opt, &v, sizeof v) == 0,
			       errno);
		}
	}
	return NULL;
}

/* Everything that can be asked. */
static void ask(struct urds_sock *s)
{
	static char tables[1 << 16];
	struct sockaddr_storage name;
	socklen_t len;

	for (unsigned i = 0; i < sizeof ints / sizeof ints[0]; i++) {
		int v = 0;

		len = sizeof v;
		CHECK_EQ(urds_getsockopt(s, ints[i].level, ints[i].opt, &v, &len), 0);
		CHECK(i > 1 ? v == 0 || v == 1 : v == 8192 || v == 16384 || v == 212992);
	}
	len = sizeof(int);
	CHECK_EQ(urds_getsockopt(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT, tables, &len), 0);
	len = sizeof name;
	CHECK_EQ(urds_getsockname(s, (struct sockaddr *)&name, &len), 0);
	for (int id = URDS_INFO_COUNTERS; id <= URDS_INFO_PEERS; id++) {
		len = sizeof tables;
		if (engine_info_size(id) > 0)
			CHECK(urds_getsockopt(s, URDS_SOL_RDS, id, tables, &len) > 0);
	}
}

static void options__are_set_beside_calls(void)
{
	struct worker w = {0};
	char m[8];

	two_open();
	w.s = sock_at(ca, ip_a, 4000);
	CHECK(w.s && set_timeo(w.s, SO_RCVTIMEO, 1) == 0);
	start(&w, set_times);
	for (unsigned i = 0; i < 100; i++) {
		CHECK_ERR(urds_recv(w.s, m, sizeof m, 0), ETIMEDOUT);
		CHECK_EQ(send4(w.s, "x", 1, 0, ip_b, 4000), 1);
		ask(w.s);
	}
	atomic_store(&w.stop, true);
	pthread_join(w.id, NULL);
	CHECK_THREADS();
	CHECK(w.n > 0);
	two_close();
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
	T_RUN(call__that_waits_for_events);
	T_RUN(call__that_receives);
	T_RUN(call__that_sends);
	T_RUN(descriptor__is_made_beside_messages);
	T_RUN(descriptor__is_asked_for_beside_the_close);
	T_RUN(context__that_was_shut_down);
	T_RUN(context__is_shut_down_in_progress);
	T_RUN(context__is_shut_down_beside_all_calls);
	T_RUN(context__is_shut_down_by_several_threads);
	T_RUN(context__that_ends_starts_no_thread);
	T_RUN(options__are_set_beside_calls);
#ifndef _WIN32
	T_RUN(exit__beside_a_shutdown);
#endif
	return t_done();
}
