/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sleep on a word until it changes. Within one process only. Not a cancellation point.
 */
#ifndef URDS_PLATFORM_FUTEX_H
#define URDS_PLATFORM_FUTEX_H

#include <stdatomic.h>

#include "wire/types.h"

/* Sleeps while *word == val. @deadline is an instant of urds_clock_ns(), or URDS_NEVER.
 * Return: 0 woken (perhaps for nothing) or *word differed, -URDS_ETIMEDOUT, -URDS_EINTR. */
int urds_futex_wait(_Atomic uint32_t *word, uint32_t val, urds_ns deadline);

/* Nobody wakes it; a signal handler does not either. */
static inline void urds_sleep_until(urds_ns deadline)
{
	_Atomic uint32_t word = 0;

	while (urds_futex_wait(&word, 0, deadline) != -URDS_ETIMEDOUT)
		;
}

/* Wakes up to @n sleepers. Only the address is used: *word may already have been freed. */
void urds_futex_wake(_Atomic uint32_t *word, int n);

#endif
