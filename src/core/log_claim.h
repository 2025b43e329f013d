/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Claim and commit: how many senders fill one send log while one transmitter empties it.
 *
 * Each message of a log is an entry with an index (32 bits, wrapping; fewer than 2^31 live at once)
 * and one state byte. Four parties touch it:
 *
 * - the claimer, under the path's append lock, takes the next index, writes the entry's plain
 *   fields and reserves wire space; outside the lock it copies its payload there and commits;
 * - the transmitter, whoever holds the path's transmit role (runtime/tx_role.h), without the append
 *   lock, reads committed entries in index order and stops at the first that is not;
 * - a canceller holds the append lock;
 * - a releaser holds the append lock and hands the space of entries below "sent" back to claimers.
 *
 * Cancel against transmit is decided per run of entries, not per entry, because the transmitter
 * passes 15-27 million of them a second: it announces how far it may read ("taking"), fences once,
 * and then only loads. A canceller writes its tomb first, fences, and then looks at "taking": one
 * of the two must see the other. Where both do, a compare-and-swap on the entry decides; that is
 * the rare path.
 *
 *	CLAIMED -> COMMITTED	commit (release store)
 *	COMMITTED -> TOMB	cancel
 *	TOMB -> SKIPPED		the transmitter passed it; nothing of it went out
 *	TOMB -> COMMITTED	the cancel found that it came too late
 *	any -> CLAIMED		the slot is claimed again
 *
 * Checked exhaustively by tests/model/log_claim_model.c. Uses nothing but C11 atomics.
 */
#ifndef URDS_CORE_LOG_CLAIM_H
#define URDS_CORE_LOG_CLAIM_H

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

enum urds_claim_state {
	URDS_CLAIM_CLAIMED = 0, /* or never used: fresh zeroed memory is right */
	URDS_CLAIM_COMMITTED,
	URDS_CLAIM_TOMB,    /* cancelled; the transmitter has not passed it */
	URDS_CLAIM_SKIPPED, /* cancelled, and the transmitter has passed it without sending */
};

enum urds_claim_take {
	URDS_CLAIM_STOP, /* not committed: the run ends before this entry */
	URDS_CLAIM_SEND, /* the entry and its payload are the transmitter's to read */
	URDS_CLAIM_SKIP, /* cancelled: pass over it */
};

enum urds_claim_cancelled {
	URDS_CANCEL_WON,     /* no byte of it goes out */
	URDS_CANCEL_SENT,    /* handed to the transport before; a replay skips it */
	URDS_CANCEL_LATE,    /* going out now; nothing changed */
	URDS_CANCEL_NOT_YET, /* its sender is still copying: the send counts as after this cancel */
	URDS_CANCEL_ALREADY, /* an earlier cancel had it */
};

/* The transmitter's two marks; zeroed is right for a log that starts at index 0.
 * tail <= sent <= taking. */
struct urds_claim_tx {
	_Atomic(uint32_t) taking; /* entries below may be going out */
	_Atomic(uint32_t) sent;	  /* entries below are out: not read until a rewind */
};

/* Is index @a before @b? */
static inline bool urds_claim_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* ---- claimer ---- */

/* Append lock held. Resets the slot of a new entry; before urds_claim_publish() counts it. */
static inline void urds_claim_mark(_Atomic(uint8_t) *state)
{
	atomic_store_explicit(state, URDS_CLAIM_CLAIMED, URDS_MO(claim_mark, memory_order_relaxed));
}

/* Append lock held. @count: index after the newest marked entry. What was written before (a new
 * chunk's link, the marked slots) is visible to a transmitter that sees the count. Several marks
 * may share one. */
static inline void urds_claim_publish(_Atomic(uint32_t) *claimed, uint32_t count)
{
	atomic_store_explicit(claimed, count, URDS_MO(claim_publish, memory_order_release));
}

/* No lock needed; once per claimed entry, by the thread that claimed it, after its last write to
 * entry and payload. A claim cannot be given back: one that fails half-way commits and is then
 * cancelled. */
static inline void urds_claim_commit(_Atomic(uint8_t) *state)
{
	atomic_store_explicit(state, URDS_CLAIM_COMMITTED,
			      URDS_MO(claim_commit, memory_order_release));
}

/* ---- transmitter: transmit role held, append lock not needed ---- */

/* Index after the newest claimed entry. */
static inline uint32_t urds_claim_claimed(_Atomic(uint32_t) *claimed)
{
	return atomic_load_explicit(claimed, URDS_MO(claim_claimed, memory_order_acquire));
}

/* Starts a run that will look at no entry at or after @end (<= urds_claim_claimed()). It starts
 * where the last one said @begun: an entry with bytes out already is continued, not taken again. */
static inline void urds_claim_take_begin(struct urds_claim_tx *tx, uint32_t end)
{
	atomic_store_explicit(&tx->taking, end, URDS_MO(take_announce, memory_order_relaxed));
	atomic_thread_fence(URDS_MO(take_fence, memory_order_seq_cst));
}

/* The next entry of the run; one acquire load unless it is cancelled. */
static inline enum urds_claim_take urds_claim_take_one(_Atomic(uint8_t) *state)
{
	uint8_t s = (uint8_t)atomic_load_explicit(state, URDS_MO(take_state, memory_order_acquire));

	if (s == URDS_CLAIM_COMMITTED)
		return URDS_CLAIM_SEND;
	if (s == URDS_CLAIM_CLAIMED)
		return URDS_CLAIM_STOP;
	if (s == URDS_CLAIM_SKIPPED)
		return URDS_CLAIM_SKIP;
	/* Seal the tomb. Failing means that its canceller took it back: then it is ours to send. */
	if (!atomic_compare_exchange_strong_explicit(state, &s, URDS_CLAIM_SKIPPED,
						     URDS_MO(take_seal, memory_order_relaxed),
						     memory_order_relaxed))
		return URDS_CLAIM_SEND;
	return URDS_CLAIM_SKIP;
}

/* Ends the run, after the transport took what it would. @sent: entries below are skipped or wholly
 * out, and nobody reads them any more. @begun: entries below have, or may have, bytes out; it and
 * those after it can be cancelled again. A transport that copies leaves at most one entry between
 * the two (sent in part); one that keeps reading the log until it releases the buffers (overlapped
 * sends, RDMA) moves @sent only as it releases. */
static inline void urds_claim_take_end(struct urds_claim_tx *tx, uint32_t sent, uint32_t begun)
{
	atomic_store_explicit(&tx->sent, sent, URDS_MO(take_sent, memory_order_release));
	atomic_store_explicit(&tx->taking, begun, URDS_MO(take_withdraw, memory_order_relaxed));
}

/* ---- under the append lock ---- */

/* Append lock AND transmit role held: all from @tail on is to be sent again (a new connection). */
static inline void urds_claim_rewind(struct urds_claim_tx *tx, uint32_t tail)
{
	atomic_store_explicit(&tx->sent, tail, URDS_MO(rewind_sent, memory_order_relaxed));
	atomic_store_explicit(&tx->taking, tail, URDS_MO(rewind_taking, memory_order_relaxed));
}

/* Append lock held. Entries below the result, if acknowledged (or skipped), may be released: their
 * slots and wire space may be claimed again by whoever next holds the append lock. An
 * acknowledgement that runs ahead of this (a peer's, during a replay) must wait for it. */
static inline uint32_t urds_claim_sent(struct urds_claim_tx *tx)
{
	return atomic_load_explicit(&tx->sent, URDS_MO(claim_sent, memory_order_acquire));
}

/* Append lock held; entry @index has not been released. Never waits. */
static inline enum urds_claim_cancelled urds_claim_cancel(struct urds_claim_tx *tx,
							  _Atomic(uint8_t) *state, uint32_t index)
{
	uint8_t s = URDS_CLAIM_COMMITTED;
	uint32_t taking, sent;

	if (!atomic_compare_exchange_strong_explicit(state, &s, URDS_CLAIM_TOMB,
						     URDS_MO(cancel_tomb, memory_order_relaxed),
						     memory_order_relaxed))
		return s == URDS_CLAIM_CLAIMED ? URDS_CANCEL_NOT_YET : URDS_CANCEL_ALREADY;

	atomic_thread_fence(URDS_MO(cancel_fence, memory_order_seq_cst));
	taking = atomic_load_explicit(&tx->taking, memory_order_relaxed);
	if (!urds_claim_before(index, taking))
		return URDS_CANCEL_WON;

	/* Out, and not looked at until a rewind, which needs our lock: the tomb can stay. */
	sent = atomic_load_explicit(&tx->sent, URDS_MO(cancel_sent, memory_order_acquire));
	if (urds_claim_before(index, sent)) {
		s = (uint8_t)atomic_load_explicit(state, memory_order_relaxed);
		return s == URDS_CLAIM_SKIPPED ? URDS_CANCEL_WON : URDS_CANCEL_SENT;
	}

	/* In a run. Take the tomb back, unless the transmitter met it and skipped the entry. Being
	 * a read-modify-write it continues the committer's release sequence: no order needed. */
	s = URDS_CLAIM_TOMB;
	if (!atomic_compare_exchange_strong_explicit(state, &s, URDS_CLAIM_COMMITTED,
						     URDS_MO(cancel_undo, memory_order_relaxed),
						     memory_order_relaxed))
		return URDS_CANCEL_WON;
	return URDS_CANCEL_LATE;
}

#endif
