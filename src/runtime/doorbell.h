/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The doorbell: a consumer sleeps when there is no work, producers wake it when there is, and while
 * it is awake they pay no system call. One sleeper per bell (a loop thread, the flusher, one
 * blocked receiver, one end of a shared ring); any number of producers.
 *
 *	consumer:					producer:
 *		while (no work) {				publish the work;
 *			urds_doorbell_arm(&b);			if (urds_doorbell_ring(&b))
 *			if (no work)				futex_wake(&b.word, 1);
 *				futex_wait(&b.word, URDS_DOORBELL_ASLEEP);
 *			urds_doorbell_disarm(&b);
 *		}
 *
 * The sleep may be anything that returns at once if the word is no longer ASLEEP or a wake-up was
 * sent since arm(): a futex, or an eventfd in epoll_wait. As far as the bell is concerned the work
 * may be published and looked for with relaxed order: each side does its half, fences, then looks
 * at the other's.
 *
 * The promise: if the look after arm() finds nothing, a ring() after the publish answers true; at
 * most one does per arm(); none does while the consumer is not armed. A wake-up may be sent late
 * and reach a later sleep than it was meant for, so a consumer always looks again.
 *
 * ring_light() moves the cost to the sleeper: the producer's half is a compiler barrier, and the
 * consumer makes every producer that is running fence by membarrier(2) (FlushProcessWriteBuffers)
 * between urds_doorbell_arm() and its look. Only where that call is known to reach every producer.
 *
 * Checked exhaustively by tests/model/doorbell_model.c.
 */
#ifndef URDS_RUNTIME_DOORBELL_H
#define URDS_RUNTIME_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

/* The model checker brings its own atomics; by a site's name it weakens or drops that operation. */
#ifdef URDS_MODEL_ATOMICS
#include URDS_MODEL_ATOMICS
#else
#include <stdatomic.h>
#ifndef URDS_MO
#define URDS_MO(site, order) order
#endif
#endif

struct urds_doorbell {
	_Atomic(uint32_t) word; /* the futex word */
};

enum { URDS_DOORBELL_AWAKE = 0, URDS_DOORBELL_ASLEEP = 1 };

/* Consumer: about to sleep. Look for work after this, and sleep only if there is none. */
static inline void urds_doorbell_arm(struct urds_doorbell *b)
{
	atomic_store_explicit(&b->word, URDS_DOORBELL_ASLEEP,
			      URDS_MO(bell_arm, memory_order_relaxed));
	atomic_thread_fence(URDS_MO(bell_arm_fence, memory_order_seq_cst));
}

/* Consumer: awake again, or work turned up in time. */
static inline void urds_doorbell_disarm(struct urds_doorbell *b)
{
	atomic_store_explicit(&b->word, URDS_DOORBELL_AWAKE,
			      URDS_MO(bell_disarm, memory_order_relaxed));
}

/* Takes the sleeper off the bell; the word must change, or a wake-up sent before the wait begins is
 * lost. */
static inline bool urds_doorbell_take_sleeper(struct urds_doorbell *b)
{
	if (atomic_load_explicit(&b->word, memory_order_relaxed) != URDS_DOORBELL_ASLEEP)
		return false;
	return atomic_exchange_explicit(&b->word, URDS_DOORBELL_AWAKE,
					URDS_MO(bell_take_sleeper, memory_order_relaxed)) ==
	       URDS_DOORBELL_ASLEEP;
}

/* Producer, after publishing (once per batch). True: wake the consumer. */
static inline bool urds_doorbell_ring(struct urds_doorbell *b)
{
	atomic_thread_fence(URDS_MO(bell_ring_fence, memory_order_seq_cst));
	return urds_doorbell_take_sleeper(b);
}

/* The same, for a consumer that runs a process-wide barrier between arm() and its look. */
static inline bool urds_doorbell_ring_light(struct urds_doorbell *b)
{
	atomic_signal_fence(memory_order_seq_cst);
	return urds_doorbell_take_sleeper(b);
}

#endif
