/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The slow halves of the locks: spin a little, then sleep.
 */
#include "platform/lock.h"

#include <limits.h>

#include "platform/cpu.h"
#include "platform/futex.h"

/* A critical section of ours is shorter than a sleep and wake (20 us); its holder may be
 * descheduled, so not for longer than that either. */
#define SPINS 100

void urds_lock_slow_(struct urds_lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);

		if (w == 2)
			break; /* others sleep already: a queue, not a short wait */
		if (w == 0 && atomic_compare_exchange_weak_explicit(
				      &l->word, &w, 1, memory_order_acquire, memory_order_relaxed))
			return;
		urds_cpu_pause();
	}
	/* Taking it as 2 may cost a needless wake, never a lost one: we cannot know who else
	 * sleeps. */
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		(void)urds_futex_wait(&l->word, 2, URDS_NEVER);
}

void urds_lock_wake_(struct urds_lock *l)
{
	urds_futex_wake(&l->word, 1);
}

void urds_rwlock_read_slow_(struct urds_rwlock *l)
{
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);
	int spins = 0;

	for (;;) {
		if (!(w & (URDS_RW_WRITER | URDS_RW_PENDING))) {
			if (atomic_compare_exchange_weak_explicit(&l->word, &w, w + 1,
								  memory_order_acquire,
								  memory_order_relaxed))
				return;
			continue;
		}
		if (spins++ < SPINS) {
			urds_cpu_pause();
			w = atomic_load_explicit(&l->word, memory_order_relaxed);
			continue;
		}
		if (!(w & URDS_RW_ASLEEP)) {
			if (!atomic_compare_exchange_weak_explicit(&l->word, &w, w | URDS_RW_ASLEEP,
								   memory_order_relaxed,
								   memory_order_relaxed))
				continue;
			w |= URDS_RW_ASLEEP;
		}
		(void)urds_futex_wait(&l->word, w, URDS_NEVER);
		w = atomic_load_explicit(&l->word, memory_order_relaxed);
	}
}

void urds_rwlock_write_slow_(struct urds_rwlock *l)
{
	const uint32_t sleeping = URDS_RW_PENDING | URDS_RW_ASLEEP;
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);
	int spins = 0;

	for (;;) {
		if (!(w & (URDS_RW_WRITER | URDS_RW_READERS))) {
			/* Takes PENDING away; another waiting writer sets it again. */
			if (atomic_compare_exchange_weak_explicit(
				    &l->word, &w, (w & URDS_RW_ASLEEP) | URDS_RW_WRITER,
				    memory_order_acquire, memory_order_relaxed))
				return;
			continue;
		}
		if (spins++ < SPINS) {
			urds_cpu_pause();
			w = atomic_load_explicit(&l->word, memory_order_relaxed);
			continue;
		}
		if ((w & sleeping) != sleeping) {
			if (!atomic_compare_exchange_weak_explicit(&l->word, &w, w | sleeping,
								   memory_order_relaxed,
								   memory_order_relaxed))
				continue;
			w |= sleeping;
		}
		(void)urds_futex_wait(&l->word, w, URDS_NEVER);
		w = atomic_load_explicit(&l->word, memory_order_relaxed);
	}
}

void urds_rwlock_wake_(struct urds_rwlock *l)
{
	urds_futex_wake(&l->word, INT_MAX);
}
