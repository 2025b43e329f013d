/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What tests of the running engine share: addresses, contexts, waiting for states, and a checker for streams of numbered
 * messages.
 */
#ifndef URDS_TESTS_ENGINE_H
#define URDS_TESTS_ENGINE_H

#ifdef _WIN32
#include "on_windows.h"
#else
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>
#endif
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "urds/urds.h"

#include "clocks.h"
#include "tap.h"
#ifndef _WIN32
#include "own_network.h"
#include "processes.h"
#define close_socket close
#endif

/* ---------------------------------------------------------------- states */

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
	struct timeval tv = {ms / 1000, (long)(ms % 1000) * 1000};

	return urds_setsockopt(s, SOL_SOCKET, opt, &tv, sizeof tv);
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
