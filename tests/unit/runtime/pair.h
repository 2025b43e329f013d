/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cases that run over three kinds of pair: in memory (both ends in one context), over TCP, and over TCP without the
 * extension, as with a kernel.
 */
#ifndef URDS_TESTS_PAIR_H
#define URDS_TESTS_PAIR_H

#include "engine.h"

enum variant { LOOP, TCP, PLAIN };
static enum variant variant;
static unsigned serial; /* each case has addresses of its own */

#define PAIR_LOOP(fn)               \
	static void fn##_loop(void) \
	{                           \
		variant = LOOP;     \
		fn();               \
	}
#define PAIR(fn)                     \
	PAIR_LOOP(fn)                \
	static void fn##_tcp(void)   \
	{                            \
		variant = TCP;       \
		fn();                \
	}                            \
	static void fn##_plain(void) \
	{                            \
		variant = PLAIN;     \
		fn();                \
	}
#define RUN_PAIR(fn)               \
	do {                       \
		T_RUN(fn##_loop);  \
		T_RUN(fn##_tcp);   \
		T_RUN(fn##_plain); \
	} while (0)

/* With URDS_TEST_NO_TCP_ACKS, PLAIN ends ask each other for what they have, as they do on Windows. */
static inline uint32_t pair_flags(void)
{
	uint32_t flags = URDS_CONFIG_NO_RECORD;

	if (variant == PLAIN)
		flags |= URDS_CONFIG_NO_EXT |
			 (getenv("URDS_TEST_NO_TCP_ACKS") ? URDS_CONFIG_NO_TCP_ACKS : 0);
	return flags;
}

#endif
