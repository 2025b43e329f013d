/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two bound sockets, by the public calls only: both in one context (in memory), or in two contexts of this process.
 */
#ifndef URDS_TESTS_ENDS_H
#define URDS_TESTS_ENDS_H

#include "pair.h"

struct two {
	struct urds_ctx *ca, *cb;
	struct urds_sock *a, *b;
	char ip_a[24], ip_b[24];
};

static struct two t T_UNUSED;

static inline void names(void)
{
	serial++;
	snprintf(t.ip_a, sizeof t.ip_a, "127.10.%u.1", serial);
	snprintf(t.ip_b, sizeof t.ip_b, "127.10.%u.2", serial);
}

/* Port 4000 at the first, 4001 at the second, as in the table of the kernel's answers. */
static inline void two_open(void)
{
	memset(&t, 0, sizeof t);
	names();
	t.ca = ctx_open(pair_flags());
	t.cb = variant == LOOP ? t.ca : ctx_open(pair_flags());
	CHECK(t.ca && t.cb);
	t.a = sock_at(t.ca, t.ip_a, 4000);
	t.b = sock_at(t.cb, t.ip_b, 4001);
	CHECK(t.a && t.b);
	CHECK_EQ(connect4(t.a, t.ip_b, 4001), 0);
}

static inline void two_close(void)
{
	CHECK_EQ(urds_shutdown(t.ca), 0);
	if (t.cb != t.ca)
		CHECK_EQ(urds_shutdown(t.cb), 0);
}

static uint8_t big[(1 << 20) + 16] T_UNUSED, got[(1 << 20) + 16] T_UNUSED;

static inline int fill_up(struct urds_sock *s, size_t size)
{
	int n = 0;

	while (urds_send(s, big, size, MSG_DONTWAIT) == (ssize_t)size)
		if (++n > 100000)
			break;
	return n;
}

static inline int poll_fd(int fd, int events, int ms)
{
	struct pollfd p = {.fd = fd, .events = (short)events};

	return poll(&p, 1, ms) == 1 ? p.revents : 0;
}

#endif
