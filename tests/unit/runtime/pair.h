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
#ifdef _WIN32
/* Messages to a kernel are never acknowledged there yet: TCP does not say what has arrived. */
#define RUN_PLAIN(fn) (void)fn##_plain
#else
#define RUN_PLAIN(fn) T_RUN(fn##_plain)
#endif
#define RUN_PAIR(fn)              \
	do {                      \
		T_RUN(fn##_loop); \
		T_RUN(fn##_tcp);  \
		RUN_PLAIN(fn);    \
	} while (0)

static inline uint32_t pair_flags(void)
{
	return URDS_CONFIG_NO_RECORD | (variant == PLAIN ? URDS_CONFIG_NO_EXT : 0);
}

#endif
