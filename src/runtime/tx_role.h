/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The transmit role of a path: one thread at a time gathers and sends; a thread that finds the role
 * taken leaves a note and goes, and its messages are sent by the holder.
 *
 *	append and commit;
 *	if (urds_tx_role_enter(&role)) {
 *		for (int round = 1;; round++) {
 *			transmit what is committed, until the transport is full;
 *			if (round == LIMIT) {
 *				if (urds_tx_role_pass(&role))
 *					have another thread (loop thread, flusher) enter;
 *				break;
 *			}
 *			if (!urds_tx_role_leave(&role))
 *				break;
 *		}
 *	}
 *
 * The promise: when enter() returns false, everything the caller wrote before is visible to the
 * holder in a round that has yet to begin, or to whoever enters because a pass() has yet to return
 * true. A holder that stops because the transport is full leaves like any other: the writable event
 * enters again.
 *
 * Enter, leave and pass order memory as a lock does: fields used only by the holder may be plain.
 * Checked exhaustively by tests/model/tx_role_model.c.
 */
#ifndef URDS_RUNTIME_TX_ROLE_H
#define URDS_RUNTIME_TX_ROLE_H

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

struct urds_tx_role {
	_Atomic(uint32_t) word; /* 0 is free */
};

enum { URDS_TX_ROLE_FREE = 0, URDS_TX_ROLE_HELD = 1, URDS_TX_ROLE_NOTED = 2 };

/* True: the caller holds the role. False: left with the holder. Never waits. */
static inline bool urds_tx_role_enter(struct urds_tx_role *r)
{
	uint32_t w = URDS_TX_ROLE_FREE;

	for (;;) {
		if (w == URDS_TX_ROLE_FREE) {
			if (atomic_compare_exchange_strong_explicit(
				    &r->word, &w, URDS_TX_ROLE_HELD,
				    URDS_MO(enter_acquire, memory_order_acquire),
				    memory_order_relaxed))
				return true;
		} else {
			/* Written even over a note that is there already: the holder must meet
			 * *our* release. */
			if (atomic_compare_exchange_strong_explicit(
				    &r->word, &w, URDS_TX_ROLE_NOTED,
				    URDS_MO(enter_note, memory_order_release),
				    memory_order_relaxed))
				return false;
		}
	}
}

/* Holder only. False: the role is given up. True: a note was left; the caller still holds the role
 * and goes round again (or calls pass). */
static inline bool urds_tx_role_leave(struct urds_tx_role *r)
{
	uint32_t w = URDS_TX_ROLE_HELD;

	if (atomic_compare_exchange_strong_explicit(&r->word, &w, URDS_TX_ROLE_FREE,
						    URDS_MO(leave_release, memory_order_release),
						    memory_order_relaxed))
		return false;
	/* Nobody but us leaves NOTED; an exchange, so that every note folded into it is acquired.
	 */
	atomic_exchange_explicit(&r->word, URDS_TX_ROLE_HELD,
				 URDS_MO(leave_note, memory_order_acquire));
	return true;
}

/* Holder only, in place of leave(): the role is given up in any case. True: a note was left, and
 * the caller must see to it that some thread enters. */
static inline bool urds_tx_role_pass(struct urds_tx_role *r)
{
	return atomic_exchange_explicit(&r->word, URDS_TX_ROLE_FREE,
					URDS_MO(pass_release, memory_order_release)) ==
	       URDS_TX_ROLE_NOTED;
}

/* A hint: has a holder been left a note that it has not met yet? */
static inline bool urds_tx_role_is_noted(struct urds_tx_role *r)
{
	return atomic_load_explicit(&r->word, memory_order_relaxed) == URDS_TX_ROLE_NOTED;
}

/* A hint, for assertions and statistics. */
static inline bool urds_tx_role_is_held(struct urds_tx_role *r)
{
	return atomic_load_explicit(&r->word, memory_order_relaxed) != URDS_TX_ROLE_FREE;
}

#endif
