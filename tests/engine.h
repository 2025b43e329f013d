/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What tests of the running engine share: a network of their own, addresses, contexts, processes, waiting for
 * states, and a checker for streams of numbered messages.
 */
#ifndef URDS_TESTS_ENGINE_H
#define URDS_TESTS_ENGINE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "urds/urds.h"

#include "fork_settle.h"
#include "own_network.h"
#include "tap.h"

/* ---------------------------------------------------------------- time and states */

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline double seconds_since(uint64_t t)
{
	return (double)(now_ns() - t) / 1e9;
}

/* Under sanitizers and emulators everything takes longer. */
static inline unsigned slow(void)
{
	const char *s = getenv("URDS_TEST_SLOW");
	int n = s ? atoi(s) : 1;

	return n > 0 ? (unsigned)n : 1;
}

static inline void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* Waits for a state, at most @s seconds (more where it is slow). */
#define EVENTUALLY_S(cond, s)                                                    \
	do {                                                                     \
		uint64_t t_end_ = now_ns() + (uint64_t)(s)*slow() * 1000000000u; \
		while (!(cond)) {                                                \
			if (now_ns() > t_end_)                                   \
				T_FAIL("not within %d s: %s", (int)(s), #cond);  \
			nap_ms(1);                                               \
		}                                                                \
	} while (0)
#define EVENTUALLY(cond) EVENTUALLY_S(cond, 20)

#define CHECK_ERR(call, err)                                                   \
	do {                                                                   \
		long long t_r_ = (long long)(call);                            \
		int t_e_ = errno;                                              \
		if (t_r_ != -1 || t_e_ != (err))                               \
			T_FAIL("%s: %lld %s, not -1 %s", #call, t_r_,          \
			       t_r_ < 0 ? strerror(t_e_) : "", strerror(err)); \
	} while (0)

/* ---------------------------------------------------------------- addresses and sockets */

static inline struct sockaddr_in in4(const char *ip, unsigned port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, ip, &a.sin_addr);
	return a;
}

static inline struct urds_ctx *ctx_open(uint32_t flags)
{
	struct urds_config cfg = {.size = sizeof cfg, .flags = flags};
	struct urds_ctx *e = NULL;

	if (urds_open(&cfg, &e) < 0)
		printf("# %s\n", urds_reason());
	return e;
}

static inline int bind4(struct urds_sock *s, const char *ip, unsigned port)
{
	struct sockaddr_in a = in4(ip, port);

	return urds_bind(s, (struct sockaddr *)&a, sizeof a);
}

static inline int connect4(struct urds_sock *s, const char *ip, unsigned port)
{
	struct sockaddr_in a = in4(ip, port);

	return urds_connect(s, (struct sockaddr *)&a, sizeof a);
}

/* A socket of @e at @ip:@port, or NULL and a line that says why. */
static inline struct urds_sock *sock_at(struct urds_ctx *e, const char *ip, unsigned port)
{
	struct urds_sock *s = urds_socket(e);

	if (!s || bind4(s, ip, port) < 0) {
		printf("# %s\n", urds_reason());
		if (s)
			urds_close(s);
		return NULL;
	}
	return s;
}

static inline ssize_t send4(struct urds_sock *s, const void *buf, size_t len, int flags,
			    const char *ip, unsigned port)
{
	struct sockaddr_in a = in4(ip, port);

	return urds_sendto(s, buf, len, flags, (struct sockaddr *)&a, sizeof a);
}

static inline int cancel4(struct urds_sock *s, const char *ip, unsigned port)
{
	struct sockaddr_in a = in4(ip, port);

	return urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &a, sizeof a);
}

static inline int set_int(struct urds_sock *s, int level, int opt, int v)
{
	return urds_setsockopt(s, level, opt, &v, sizeof v);
}

static inline int get_int(struct urds_sock *s, int level, int opt)
{
	int v = -12345;
	socklen_t len = sizeof v;

	return urds_getsockopt(s, level, opt, &v, &len) < 0 ? -1 : v;
}

static inline int set_timeo(struct urds_sock *s, int opt, unsigned ms)
{
	struct timeval tv = {ms / 1000, (suseconds_t)(ms % 1000) * 1000};

	return urds_setsockopt(s, SOL_SOCKET, opt, &tv, sizeof tv);
}

/* ---------------------------------------------------------------- processes */

/* Dies with its parent, so that a test that fails leaves nothing behind. */
static inline pid_t spawn(void)
{
	pid_t pid;

	fflush(stdout);
	fork_settle();
	pid = fork();
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static inline void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* What every thread of a process that does not end is in: a backtrace, if there is a debugger. */
static inline void say_where(pid_t pid)
{
	char cmd[160];

	snprintf(
		cmd, sizeof cmd,
		"timeout 60 gdb -p %d -batch -ex 'thread apply all bt 12' 2>/dev/null </dev/null | sed -n 's/^[#T]/# &/p'",
		(int)pid);
	printf("# process %d does not end:\n", (int)pid);
	fflush(stdout);
	if (system(cmd) != 0)
		printf("# (no debugger)\n");
}

/* Waits for a child of ours. Return: its exit status, 128 + signal, or -1 after @s seconds. */
static inline int reap_within(pid_t pid, unsigned s)
{
	uint64_t end = now_ns() + (uint64_t)s * slow() * 1000000000u;
	int st;

	for (;;) {
		pid_t got = waitpid(pid, &st, WNOHANG);

		if (got == pid)
			return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
		if (got < 0 || now_ns() > end) {
			if (got == 0)
				say_where(pid);
			kill(pid, SIGKILL);
			waitpid(pid, &st, 0);
			return -1;
		}
		nap_ms(1);
	}
}

/* ---------------------------------------------------------------- streams of numbered messages */

/* Number, then bytes that follow from it. @len >= 8. */
static inline void fill_msg(uint8_t *p, size_t len, uint64_t n)
{
	memcpy(p, &n, sizeof n);
	for (size_t i = sizeof n; i < len; i++)
		p[i] = (uint8_t)(n * 31 + i);
}

static inline bool check_msg(const uint8_t *p, size_t len, uint64_t n)
{
	uint64_t got;

	if (len < sizeof got)
		return false;
	memcpy(&got, p, sizeof got);
	if (got != n)
		return false;
	for (size_t i = sizeof n; i < len; i++)
		if (p[i] != (uint8_t)(n * 31 + i))
			return false;
	return true;
}

#endif
