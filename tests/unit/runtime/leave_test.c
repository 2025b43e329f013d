/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls that are left, or interrupted: by signals, by a handler that calls itself, by cancellation and longjmp. Every case runs
 * in memory, over TCP, and over TCP as with a kernel.
 */
#include <setjmp.h>

#include "notes.h"
#include "sanitized.h"

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
	CHECK(atomic_load(&signals) > 0);
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

static void *wait_for_any(void *arg)
{
	struct worker *w = arg;

	EXPECT(urds_wait(w->s, POLLIN, -1) == -1 && errno == EINTR, errno);
	EXPECT(strstr(urds_reason(), "interrupted by a signal"), 0);
	return NULL;
}

/* A wait for readiness ends after every handler, as poll() does: of the leader, and of one that sleeps on its futex. */
static void handlers_end_waits_for_readiness(void)
{
	two_open();
	handle(SIGUSR1, on_signal, SA_RESTART);
	for (unsigned round = 0; round < 4; round++) {
		struct worker r = {.s = sock_at(cb, ip_b, 4000)};

		CHECK(r.s);
		start(&r, wait_for_any);
		nap_ms(round & 1 ? 200 : 5); /* after 100 ms it is relieved */
		for (unsigned i = 0; pthread_tryjoin_np(r.id, NULL) == EBUSY; i++) {
			CHECK(i < 2000 * slow());
			pthread_kill(r.id, SIGUSR1);
			nap_ms(10);
		}
		CHECK_EQ(urds_close(r.s), 0);
	}
	CHECK_THREADS();
	handle(SIGUSR1, on_signal, 0);
	two_close();
}
PAIR(handlers_end_waits_for_readiness)

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
	CHECK(atomic_load(&handler_got) + atomic_load(&handler_again) > 0);
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

/* A sender of s->n numbered messages, and two threads that receive them as @fn does. */
static void receivers_start(struct worker *s, struct worker r[2], void *(*fn)(void *))
{
	two_open();
	seen = calloc(s->n, 1);
	s->s = sock_at(ca, ip_a, 5000);
	r[0] = (struct worker){.s = sock_at(cb, ip_b, 4000)};
	CHECK(r[0].s && s->s && connect4(s->s, ip_b, 4000) == 0);
	r[1] = r[0];
	start(s, send_through_signals);
	start(&r[0], fn);
	start(&r[1], fn);
}

/* Each message came once, and nothing of theirs is left. */
static void receivers_end(struct worker *s, struct worker r[2])
{
	struct note m = {.n = UINT32_MAX};

	for (int i = 0; i < 2; i++)
		CHECK_EQ(urds_send(s->s, &m, sizeof m, 0), sizeof m);
	for (int i = 0; i < 2; i++)
		pthread_join(r[i].id, NULL);
	CHECK_THREADS();
	for (unsigned i = 0; i < s->n; i++)
		CHECK_EQ(seen[i], 1);
	CHECK_EQ(atomic_load(&r[0].s->refs), 1);
	seen_free();
	two_close();
}

/* Receivers are cancelled one after the other while messages come: none of those goes with them. */
static void cancelled_receivers(void)
{
	struct worker s = {.n = 20000}, r[2];
	unsigned cancelled = 0;
	void *how;

	receivers_start(&s, r, recv_until_cancelled);
	for (unsigned i = 0; pthread_tryjoin_np(s.id, NULL) == EBUSY; i ^= 1) {
		struct timespec ts = {0, 300000};

		nanosleep(&ts, NULL);
		CHECK_EQ(pthread_cancel(r[i].id), 0);
		pthread_join(r[i].id, &how);
		CHECK(how == PTHREAD_CANCELED);
		cancelled++;
		start(&r[i], recv_until_cancelled);
	}
	printf("# %u cancelled\n", cancelled);
	CHECK(cancelled > 0);
	receivers_end(&s, r);
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

	atomic_store(&jumps, 0);
	handle(SIGUSR1, jumping_handler, 0);
	receivers_start(&s, r, recv_and_jump);
	for (unsigned i = 0; pthread_tryjoin_np(s.id, NULL) == EBUSY; i ^= 1) {
		struct timespec ts = {0, 100000};

		nanosleep(&ts, NULL);
		pthread_kill(r[i].id, SIGUSR1);
	}
	printf("# %u jumps\n", atomic_load(&jumps));
	CHECK(atomic_load(&jumps) > 10);
	receivers_end(&s, r);
	handle(SIGUSR1, on_signal, 0);
}
PAIR(jumping_receivers)

static _Atomic bool jumped, go_on;

static void *jump_and_go(void *arg)
{
	struct worker *w = arg;
	struct note m;

	if (sigsetjmp(out, 1) == 0) {
		may_jump = 1;
		while (urds_recv(w->s, &m, sizeof m, 0) < 0 && errno == EINTR)
			;
		EXPECT(false, errno); /* only the jump leads out */
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
	RUN_PAIR(eintr_storm);
	RUN_PAIR(restarted_receives);
	RUN_PAIR(handlers_end_waits_for_readiness);
	if (!SANITIZED_ADDRESS) /* its allocator bears no handler that allocates */
		RUN_PAIR(receiving_in_a_handler);
	if (!SANITIZED) { /* they do not follow a thread that is cancelled in a system call */
		RUN_PAIR(cancelled_receivers);
	}
	RUN_PAIR(jumping_receivers);
	RUN_PAIR(jump_and_never_return);
	return t_done();
}
