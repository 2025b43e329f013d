/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Numbered messages between threads, each counted once.
 */
#ifndef URDS_TESTS_NOTES_H
#define URDS_TESTS_NOTES_H

#include "two.h"

struct note {
	uint32_t tag, n;
	uint8_t rest[56];
};

/* By number; from calloc(). */
static _Atomic(uint8_t) *seen;

static inline void seen_free(void)
{
	union {
		_Atomic(uint8_t) *a;
		void *p;
	} u = {.a = seen};

	free(u.p);
}

#endif
