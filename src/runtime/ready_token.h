/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The readiness token of a watched descriptor: one byte in an AF_UNIX pair that makes poll() report
 * the socket readable. It is to be there exactly when the queue is non-empty and the descriptor is
 * watched ("wanted").
 *
 * Putting the byte in and taking it out are system calls, made outside every lock and by one thread
 * at a time, the changer. Another thread that changes whether the token is wanted, meanwhile, marks
 * the word dirty and goes; the changer looks again.
 *
 *	change the queue or the watched flag; if that may have changed "wanted":
 *	if (urds_ready_enter(&tok)) {
 *		bool on;
 *		do {
 *			bool want = watched and queue not empty, as of now;
 *			on = urds_ready_is_on(&tok);
 *			if (want && !on)
 *				on = the byte was written;
 *			else if (!want && on)
 *				on = !(the byte was read back);
 *		} while (urds_ready_leave(&tok, on));
 *	}
 *
 * The promise: a change made before enter() is seen by an evaluation of "wanted" that begins after
 * it. So once all have returned, the token is there if and only if it is wanted, and but for the
 * moment described below there is never more than one. While a changer is at work poll() may report either; a receive decides by the
 * queue, never by the token. "Wanted" may be read by relaxed atomic loads, or under the socket's
 * lock. Enter, leave order memory as a lock does.
 *
 * Who waits for edges may not see that "wanted" changed twice while a changer was at work. A changer
 * that finds the token there and wanted in a further round puts a second byte in and takes one out.
 *
 * The changer stays for as long as others keep changing "wanted": each further round answers a
 * transition that another thread completed. Callers enter on transitions (empty to non-empty or
 * back, watched or not), not per message.
 *
 * Checked exhaustively by tests/model/ready_token_model.c.
 */
#ifndef URDS_RUNTIME_READY_TOKEN_H
#define URDS_RUNTIME_READY_TOKEN_H

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

struct urds_ready_token {
	_Atomic(uint32_t) word; /* 0: no token, no changer */
};

enum { URDS_READY_ON = 1, URDS_READY_BUSY = 2, URDS_READY_DIRTY = 4 };

/* True: the caller is the changer. False: left with the changer of the moment. Never waits. */
static inline bool urds_ready_enter(struct urds_ready_token *t)
{
	uint32_t w = atomic_load_explicit(&t->word, memory_order_relaxed);

	for (;;) {
		if (!(w & URDS_READY_BUSY)) {
			if (atomic_compare_exchange_strong_explicit(
				    &t->word, &w, w | URDS_READY_BUSY,
				    URDS_MO(ready_acquire, memory_order_acquire),
				    memory_order_relaxed))
				return true;
		} else {
			/* Written even if dirty already: the changer must meet *our* release. */
			if (atomic_compare_exchange_strong_explicit(
				    &t->word, &w, w | URDS_READY_DIRTY,
				    URDS_MO(ready_dirty, memory_order_release),
				    memory_order_relaxed))
				return false;
		}
	}
}

/* Changer only: is the token in the pair? Anyone else: a hint. */
static inline bool urds_ready_is_on(struct urds_ready_token *t)
{
	return (atomic_load_explicit(&t->word, memory_order_relaxed) & URDS_READY_ON) != 0;
}

/* Changer only. @on: whether the token is in the pair now. True: something changed; the caller is
 * still the changer and evaluates again. False: done. */
static inline bool urds_ready_leave(struct urds_ready_token *t, bool on)
{
	uint32_t was = atomic_load_explicit(&t->word, memory_order_relaxed) & URDS_READY_ON;
	uint32_t w = was | URDS_READY_BUSY;

	if (atomic_compare_exchange_strong_explicit(&t->word, &w, on ? URDS_READY_ON : 0u,
						    URDS_MO(ready_release, memory_order_release),
						    memory_order_relaxed))
		return false;
	/* An exchange, so that every mark folded into it is acquired. */
	atomic_exchange_explicit(&t->word, (on ? URDS_READY_ON : 0u) | URDS_READY_BUSY,
				 URDS_MO(ready_again, memory_order_acquire));
	return true;
}

#endif
