/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What needs nothing of the system but a futex.
 */
#include "platform/thread.h"

#include <limits.h>

#include "platform/futex.h"
#include "wire/types.h"

void urds_once_slow_(struct urds_once *o, void (*fn)(void))
{
	uint32_t state = 0;

	if (atomic_compare_exchange_strong_explicit(&o->state, &state, 1, memory_order_acquire,
						    memory_order_acquire)) {
		fn();
		atomic_store_explicit(&o->state, 2, memory_order_release);
		urds_futex_wake(&o->state, INT_MAX);
		return;
	}
	while (atomic_load_explicit(&o->state, memory_order_acquire) != 2)
		(void)urds_futex_wait(&o->state, 1, URDS_NEVER);
}
