/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The request block: one operation that may wait. A blocking call keeps it on its stack, the
 * asynchronous interface hands it out.
 *
 *	IDLE -> QUEUED -> CLAIMED -> DONE
 *		       \-> CANCELLED
 *
 * QUEUED is left exactly once, by one compare-and-swap: whoever claims it carries the operation out
 * and completes it; a cancel or a time-out (a cancel with another reason) wins only if it comes
 * before the claim. urds_request_result() tells what happened.
 *
 * The state is also the futex word: a waiter sets a bit in it, so that only a completion that
 * somebody sleeps for costs a system call. One waiter per request.
 *
 * The list node belongs to the queue's lock. A cancelled request may still be linked: its owner
 * unlinks it under that lock before the block goes away. A claimer unlinks before it completes.
 * After complete() or a won cancel() the block may be gone: its address may be passed to futex_wake
 * (a stray wake-up is harmless), nothing else of it may be touched by anyone but its owner.
 *
 * Checked exhaustively by tests/model/request_model.c.
 */
#ifndef URDS_RUNTIME_REQUEST_H
#define URDS_RUNTIME_REQUEST_H

#include "wire/types.h"

/* The model checker brings its own atomics; by a site's name it weakens or drops that operation. */
#ifdef URDS_MODEL_ATOMICS
#include URDS_MODEL_ATOMICS
#else
#include <stdatomic.h>
#ifndef URDS_MO
#define URDS_MO(site, order) order
#endif
#endif

enum {
	URDS_REQUEST_IDLE = 0,
	URDS_REQUEST_QUEUED = 1,
	URDS_REQUEST_CLAIMED = 2,
	URDS_REQUEST_DONE = 3,
	URDS_REQUEST_CANCELLED = 4,
	URDS_REQUEST_STATE_MASK = 7,
	URDS_REQUEST_WAITER = 8,     /* somebody sleeps, or is about to */
	URDS_REQUEST_WHY_SHIFT = 16, /* CANCELLED: enum urds_err, the reason */
};

struct urds_request {
	_Atomic(uint32_t) state;
	int result; /* valid when DONE; read it through urds_request_result() */
	struct urds_request *next, *prev; /* guarded by the lock of the queue it is on */
	urds_ns deadline;		  /* URDS_NEVER: none */
};

static inline void urds_request_init(struct urds_request *r, urds_ns deadline)
{
	atomic_init(&r->state, URDS_REQUEST_IDLE);
	r->result = 0;
	r->next = r->prev = NULL;
	r->deadline = deadline;
}

/* Owner: the block is filled in and may be claimed or cancelled from now on. */
static inline void urds_request_queue(struct urds_request *r)
{
	atomic_store_explicit(&r->state, URDS_REQUEST_QUEUED,
			      URDS_MO(request_queue, memory_order_release));
}

/* True: the caller carries the operation out and calls complete(), once. The fields its owner
 * filled in are visible. False: not queued (yet), claimed by another, or cancelled. */
static inline bool urds_request_claim(struct urds_request *r)
{
	uint32_t s = atomic_load_explicit(&r->state, memory_order_relaxed);

	while ((s & URDS_REQUEST_STATE_MASK) == URDS_REQUEST_QUEUED)
		if (atomic_compare_exchange_weak_explicit(
			    &r->state, &s, URDS_REQUEST_CLAIMED | (s & URDS_REQUEST_WAITER),
			    URDS_MO(request_claim, memory_order_acquire), memory_order_relaxed))
			return true;
	return false;
}

/* Claimer: the operation ended with @result (0, a count, or -enum urds_err). True: wake the waiter.
 */
static inline bool urds_request_complete(struct urds_request *r, int result)
{
	r->result = result;
	return (atomic_exchange_explicit(&r->state, URDS_REQUEST_DONE,
					 URDS_MO(request_complete, memory_order_release)) &
		URDS_REQUEST_WAITER) != 0;
}

/* Owner, with the queue's lock, unlinked, not asleep: it has carried the operation out itself. Nobody else can claim it
 * then, and only its owner cancels. */
static inline void urds_request_complete_own(struct urds_request *r, int result)
{
	r->result = result;
	atomic_store_explicit(&r->state, URDS_REQUEST_DONE, memory_order_relaxed);
}

/* Anyone: give up a queued request, because of @why (URDS_ECANCELED, URDS_ETIMEDOUT, URDS_EINTR,
 * ...). True: it will never be claimed; *@wake says whether to wake the waiter. False: too late (or
 * not queued): if it is claimed, its completion follows. */
static inline bool urds_request_cancel(struct urds_request *r, enum urds_err why, bool *wake)
{
	uint32_t s = atomic_load_explicit(&r->state, memory_order_relaxed);

	*wake = false;
	while ((s & URDS_REQUEST_STATE_MASK) == URDS_REQUEST_QUEUED) {
		if (!atomic_compare_exchange_weak_explicit(
			    &r->state, &s,
			    URDS_REQUEST_CANCELLED | (uint32_t)why << URDS_REQUEST_WHY_SHIFT,
			    URDS_MO(request_cancel, memory_order_release), memory_order_relaxed))
			continue;
		*wake = (s & URDS_REQUEST_WAITER) != 0;
		return true;
	}
	return false;
}

/* Owner: is it DONE or CANCELLED? If so the block is the owner's alone. */
static inline bool urds_request_is_over(struct urds_request *r)
{
	return (atomic_load_explicit(&r->state, URDS_MO(request_is_over, memory_order_acquire)) &
		URDS_REQUEST_STATE_MASK) >= URDS_REQUEST_DONE;
}

/* Owner: was it completed? Then its completer has taken it off its queue. */
static inline bool urds_request_is_done(struct urds_request *r)
{
	return (atomic_load_explicit(&r->state, URDS_MO(request_is_done, memory_order_acquire)) &
		URDS_REQUEST_STATE_MASK) == URDS_REQUEST_DONE;
}

/* Waiter: false: it is over. True: sleep while the word is *@word, then call again:
 *	while (urds_request_sleep(r, &word))
 *		futex_wait(&r->state, word, r->deadline), and cancel on time-out
 */
static inline bool urds_request_sleep(struct urds_request *r, uint32_t *word)
{
	uint32_t s = atomic_load_explicit(&r->state, URDS_MO(request_sleep, memory_order_acquire));

	while ((s & URDS_REQUEST_STATE_MASK) < URDS_REQUEST_DONE) {
		*word = s | URDS_REQUEST_WAITER;
		if (s & URDS_REQUEST_WAITER)
			return true;
		if (atomic_compare_exchange_weak_explicit(
			    &r->state, &s, *word, URDS_MO(request_waiter, memory_order_relaxed),
			    memory_order_relaxed))
			return true;
		s = atomic_load_explicit(&r->state,
					 URDS_MO(request_sleep_over, memory_order_acquire));
	}
	return false;
}

/* Owner: has it got ready to sleep, and was not told otherwise since? Nobody else does that for it. */
static inline bool urds_request_is_sleepy(struct urds_request *r)
{
	return (atomic_load_explicit(&r->state, memory_order_relaxed) & URDS_REQUEST_WAITER) != 0;
}

/* Anyone who knows that the block is there: nobody sleeps for it any more. Whoever was to sleep by a word from before
 * does not begin, or with a futex_wake comes out; and complete() does not ask for one. */
static inline void urds_request_awake(struct urds_request *r)
{
	(void)atomic_fetch_and_explicit(&r->state, ~(uint32_t)URDS_REQUEST_WAITER,
					URDS_MO(request_awake, memory_order_relaxed));
}

/* Owner, once it is over: the completer's result, or minus the reason of the cancel. */
static inline int urds_request_result(struct urds_request *r)
{
	uint32_t s = atomic_load_explicit(&r->state, memory_order_relaxed);

	if ((s & URDS_REQUEST_STATE_MASK) == URDS_REQUEST_CANCELLED)
		return -(int)(s >> URDS_REQUEST_WHY_SHIFT);
	return r->result;
}

#endif
