/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The smallest test harness that prints TAP and runs wherever the code under test compiles
 * (Wine and qemu-user included, where no packaged harness is). One process is one file of cases;
 * a failed CHECK leaves its case.
 *
 *	static void hdr__round_trip(void) { CHECK_EQ(1 + 1, 2); }
 *	int main(int argc, char **argv) { T_INIT(argc, argv); T_RUN(hdr__round_trip); return t_done(); }
 *
 * An argument selects the cases whose name contains it.
 */
#ifndef URDS_TESTS_TAP_H
#define URDS_TESTS_TAP_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T_UNUSED __attribute__((unused)) /* a file may need the checks only */

static int t_count T_UNUSED, t_failed T_UNUSED, t_skipped T_UNUSED;
static const char *t_only T_UNUSED, *t_skip_reason T_UNUSED;
static jmp_buf t_leave T_UNUSED;

#define T_INIT(argc, argv)                              \
	do {                                            \
		setvbuf(stdout, NULL, _IOLBF, BUFSIZ);  \
		t_only = (argc) > 1 ? (argv)[1] : NULL; \
	} while (0)

/* @what runs the case: a call. */
#define T_RUN_AS(name, what)                                                                    \
	do {                                                                                    \
		if (t_only && !strstr(name, t_only))                                            \
			break;                                                                  \
		t_count++;                                                                      \
		t_skip_reason = NULL;                                                           \
		switch (setjmp(t_leave)) {                                                      \
		case 0:                                                                         \
			what;                                                                   \
			/* fall through */                                                      \
		case 2:                                                                         \
			if (t_skip_reason) {                                                    \
				t_skipped++;                                                    \
				printf("ok %d - %s # SKIP %s\n", t_count, name, t_skip_reason); \
			} else                                                                  \
				printf("ok %d - %s\n", t_count, name);                          \
			break;                                                                  \
		case 3:                                                                         \
			t_count--;                                                              \
			printf("# %s does not apply: %s\n", name, t_skip_reason);               \
			break;                                                                  \
		default:                                                                        \
			t_failed++;                                                             \
			printf("not ok %d - %s\n", t_count, name);                              \
		}                                                                               \
	} while (0)

#define T_RUN(fn) T_RUN_AS(#fn, fn())

#define T_FAIL(...)                                      \
	do {                                             \
		printf("# %s:%d: ", __FILE__, __LINE__); \
		printf(__VA_ARGS__);                     \
		printf("\n");                            \
		longjmp(t_leave, 1);                     \
	} while (0)

#define T_SKIP(reason)                    \
	do {                              \
		t_skip_reason = (reason); \
		longjmp(t_leave, 2);      \
	} while (0)

/* The case asks nothing of what is being tested here: it is not counted at all. */
#define T_NOT_HERE(reason)                \
	do {                              \
		t_skip_reason = (reason); \
		longjmp(t_leave, 3);      \
	} while (0)

#define CHECK(cond)                                 \
	do {                                        \
		if (!(cond))                        \
			T_FAIL("CHECK(%s)", #cond); \
	} while (0)

#define CHECK_EQ(a, b)                                                                    \
	do {                                                                              \
		long long t_a_ = (long long)(a), t_b_ = (long long)(b);                   \
		if (t_a_ != t_b_)                                                         \
			T_FAIL("%s == %s: %lld (0x%llx) != %lld (0x%llx)", #a, #b, t_a_,  \
			       (unsigned long long)t_a_, t_b_, (unsigned long long)t_b_); \
	} while (0)

#define CHECK_MEM(a, b, n)                                                                      \
	do {                                                                                    \
		const uint8_t *t_a_ = (const void *)(a), *t_b_ = (const void *)(b);             \
		size_t t_n_ = (n);                                                              \
		for (size_t t_i_ = 0; t_i_ < t_n_; t_i_++)                                      \
			if (t_a_[t_i_] != t_b_[t_i_])                                           \
				T_FAIL("%s == %s: byte %zu of %zu: %02x != %02x", #a, #b, t_i_, \
				       t_n_, t_a_[t_i_], t_b_[t_i_]);                           \
	} while (0)

static inline int t_done(void)
{
	printf("1..%d\n", t_count);
	if (t_failed)
		printf("# %d of %d failed\n", t_failed, t_count);
	return t_failed ? 1 : 0;
}

#endif
