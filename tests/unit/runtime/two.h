/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two contexts (or one) of this process that tests look into, and threads at work on them.
 */
#ifndef URDS_TESTS_TWO_H
#define URDS_TESTS_TWO_H

#include "inside.h"
#include "pair.h"

static struct urds_ctx *ca, *cb;
static char ip_a[24], ip_b[24];

static inline void two_names(void)
{
	serial++;
	/* Alternately the smaller address and the larger one sends. */
	snprintf(ip_a, sizeof ip_a, "127.11.%u.%u", serial, serial & 1 ? 1 : 2);
	snprintf(ip_b, sizeof ip_b, "127.11.%u.%u", serial, serial & 1 ? 2 : 1);
}

static inline void two_open(void)
{
	two_names();
	ca = ctx_open(pair_flags());
	cb = variant == LOOP ? ca : ctx_open(pair_flags());
	CHECK(ca && cb);
}

static inline void two_close(void)
{
	CHECK_EQ(urds_shutdown(ca), 0);
	if (cb != ca)
		CHECK_EQ(urds_shutdown(cb), 0);
}

/* What went wrong in some thread; the main thread reports it. */
static _Atomic int failed_line T_UNUSED;
static _Atomic long long failed_value T_UNUSED;

#define EXPECT(cond, value)                                                                 \
	do {                                                                                \
		if (!(cond)) {                                                              \
			int none_ = 0;                                                      \
			if (atomic_compare_exchange_strong(&failed_line, &none_, __LINE__)) \
				atomic_store(&failed_value, (long long)(value));            \
		}                                                                           \
	} while (0)
#define CHECK_THREADS()                                                      \
	do {                                                                 \
		int l_ = atomic_exchange(&failed_line, 0);                   \
		if (l_)                                                      \
			T_FAIL("a thread failed at line %d, value %lld", l_, \
			       (long long)atomic_load(&failed_value));       \
	} while (0)

struct worker {
	pthread_t id;
	struct urds_sock *s;
	unsigned n, tag;
	_Atomic bool stop;
	uint64_t count;
};

static inline void start(struct worker *w, void *(*fn)(void *))
{
	CHECK_EQ(pthread_create(&w->id, NULL, fn, w), 0);
}

#endif
