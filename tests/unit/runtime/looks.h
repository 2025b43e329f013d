/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Something can happen wherever a call looks at the clock: for programs linked with urds_clock_ns() wrapped.
 */
#ifndef URDS_TESTS_LOOKS_H
#define URDS_TESTS_LOOKS_H

#include "platform/clock.h"

urds_ns __real_urds_clock_ns(void);
urds_ns __wrap_urds_clock_ns(void);

static _Thread_local unsigned
	left; /* looks of this thread at the clock until it happens; 0: it does not */
static _Thread_local void (*happens)(void);

urds_ns __wrap_urds_clock_ns(void)
{
	if (left > 0 && --left == 0)
		happens();
	return __real_urds_clock_ns();
}

#endif
