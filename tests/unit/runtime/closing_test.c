/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The end of a socket while other threads are in calls on it, at every step of theirs; and options that are set beside calls.
 */
#include "looks.h"
#include "two.h"

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

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	variant = TCP;
	T_RUN(call__that_waits_for_events);
	T_RUN(call__that_receives);
	T_RUN(call__that_sends);
	T_RUN(descriptor__is_made_beside_messages);
	T_RUN(descriptor__is_asked_for_beside_the_close);
	T_RUN(options__are_set_beside_calls);
	return t_done();
}
