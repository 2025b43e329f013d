/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The send log of a path: every message that is unsent or unacknowledged, in sequence order, lying in
 * wire format in large chunks so that one send call carries many.
 *
 *	tail ........ sent ........ claimed
 *	  acked next    out next       next claim
 *
 * A claim takes space and a number under the append lock; the payload is copied outside it. The
 * transmitter (holder of the transmit role) gathers committed messages, hands the bytes to a transport
 * and says how many were taken. An acknowledgement moves the tail. A new connection rewinds: what had been
 * handed out is flagged RETRANSMITTED in place and goes out again with its old number. Cancelled
 * messages stay as tombstones and are never sent. A payload above URDS_LOG_INLINE_MAX lies, with its header,
 * in a buffer of its own that the entry points to. Memory is held only while there are messages.
 *
 * Locks (the caller's): "append" = under the append lock; "tx" = with the transmit role. See
 * core/log_claim.h for how the two meet.
 */
#ifndef URDS_CORE_LOG_H
#define URDS_CORE_LOG_H

#include "core/buf.h"
#include "core/log_claim.h"

struct urds_log_chunk;

struct urds_log_ent {
	void *owner; /* the socket, for accounting; never followed here. NULL: the engine's own message */
	uint32_t wire_end; /* where its bytes end in the chunk's wire area */
	uint32_t len;	   /* payload bytes */
	uint32_t link_end; /* low bits of the stream position after its last byte; set when taken */
	uint16_t dport;
	_Atomic(uint8_t) state; /* enum urds_claim_state */
	uint8_t is_big;		/* the wire area holds a struct urds_buf pointer */
};

struct urds_log {
	struct urds_mem *mem;
	/* append: */
	uint64_t next_seq; /* next to claim; an entry's index is the low half of its number */
	uint64_t tail_seq; /* first one kept */
	struct urds_log_chunk *newest;
	_Atomic(uint32_t)
		tombs; /* cancelled and not yet passed by the tail; read by anyone as a hint */
	_Atomic(uint32_t)
		settled; /* index: what is before it, from the tail on, is acknowledged and kept for a
				    * replay; read by anyone as a hint */
	/* append to write, tx to read: */
	_Atomic(uint32_t) claimed;     /* index of next_seq, published */
	_Atomic(uint32_t) freed;       /* index of tail_seq, published */
	struct urds_log_chunk *oldest; /* NULL: no memory held */
	struct urds_claim_tx mark;
	/* append + tx: */
	struct urds_log_chunk *at; /* holds the next entry to go out, or NULL: look in oldest */
	uint32_t at_off;	   /* bytes of that entry already handed out */
	uint32_t run_end;	   /* index after the last entry of the current gather */
	uint32_t replay_end;	   /* entries before it were out on an earlier connection */
	uint32_t stamped;	   /* entries from here on carry no ack of this connection */
	bool has_ack;		   /* a header of the current gather carries the ack */
};

/* @base: first sequence number (W2: time-based). */
void urds_log_init(struct urds_log *l, struct urds_mem *mem, uint64_t base);
/* append + tx. Drops everything; owners are not told (walk with urds_log_cancel() first). */
void urds_log_fini(struct urds_log *l);

/* What a claim gives its sender: where to write. Valid until commit. */
struct urds_log_claim {
	struct urds_log_ent *ent;
	uint8_t *wire; /* header, then payload: URDS_HDR_LEN + len bytes */
	uint64_t seq;
};

/* append. @len <= URDS_MSG_MAX. @big: a buffer the caller made before taking the lock, needed if @len >
 * URDS_LOG_INLINE_MAX; taken on success. Return: 0, -URDS_ENOMEM, -URDS_EAGAIN (too many entries). */
int urds_log_claim(struct urds_log *l, uint32_t len, void *owner, uint16_t dport,
		   struct urds_buf *big, struct urds_log_claim *out);

/* The caller that claimed, with no lock, after writing header and payload. */
static inline void urds_log_commit(struct urds_log_claim *c)
{
	urds_claim_commit(&c->ent->state);
}

/* tx. Fills @iov with the next committed bytes, at most @max of them entries and about @max_bytes (a message
 * is never cut short of that by more than itself). @ack: stored in the last whole message's header
 * unless 0; @want_ack: it asks for one too (urds peers only). Call urds_log_taken() before the next gather.
 * Return: iov entries used; *bytes their sum. */
size_t urds_log_gather(struct urds_log *l, struct urds_iov *iov, size_t max, size_t max_bytes,
		       uint64_t ack, bool want_ack, size_t *bytes);

/* tx. The transport took @bytes of the gather; @link_pos is the stream position before them.
 * Return: messages that are now wholly out for the first time, and again (*retransmitted). */
uint32_t urds_log_taken(struct urds_log *l, size_t bytes, uint32_t link_pos,
			uint32_t *retransmitted);

/* Messages released, per owner, in order. */
struct urds_log_freed {
	void *owner;
	uint32_t msgs;
	uint64_t bytes; /* payload */
};

#define URDS_LOG_FREED_MAX 32

struct urds_log_freed_list {
	size_t n;
	struct urds_log_freed v[URDS_LOG_FREED_MAX];
};

/* append + tx. Releases sent messages whose bytes end at or before stream position @link_pos.
 * Return: true if the list is full and there may be more: call again. */
bool urds_log_ack_pos(struct urds_log *l, uint32_t link_pos, struct urds_log_freed_list *out);
/* append + tx. The first half of that: owners are told, the messages stay to be sent again should the
 * connection end badly (limits.h, URDS_KEEP_NS). urds_log_ack_pos() then drops them. What @ours owned is owned by
 * @kept from then on, everything else by nobody. */
bool urds_log_settle_pos(struct urds_log *l, uint32_t link_pos, const void *ours, void *kept,
			 struct urds_log_freed_list *out);
/* append + tx. Releases up to and including sequence @seq; one beyond what was sent is ignored (E6). Either call
 * also clears away what the transmitter has skipped: after a gather that found only cancelled messages,
 * urds_log_ack_seq(l, 0, &f) gives their memory back. */
bool urds_log_ack_seq(struct urds_log *l, uint64_t seq, struct urds_log_freed_list *out);

/* append. Cancels every committed message of @owner to @dport (-1: any) of which no byte is out in the
 * current run; its send-buffer space goes to @freed. One that is going out or was out counts as sent,
 * but is not replayed. @disown: the owner goes away; what cannot be cancelled becomes nobody's. */
void urds_log_cancel(struct urds_log *l, void *owner, int dport, bool disown,
		     struct urds_log_freed *freed);

/* append + tx. The connection ended: all that is unacknowledged will go out again, flagged if any byte
 * of it may have been out. */
void urds_log_rewind(struct urds_log *l);

/* Is anything claimed and not wholly out? A hint without the transmit role. */
static inline bool urds_log_has_unsent(struct urds_log *l)
{
	return atomic_load_explicit(&l->claimed, memory_order_relaxed) !=
	       atomic_load_explicit(&l->mark.sent, memory_order_relaxed);
}

/* Is anything claimed and not acknowledged? A hint without the append lock. */
static inline bool urds_log_has_pending(struct urds_log *l)
{
	return atomic_load_explicit(&l->claimed, memory_order_relaxed) !=
	       atomic_load_explicit(&l->freed, memory_order_relaxed);
}

/* append */
static inline bool urds_log_is_empty(const struct urds_log *l)
{
	return l->tail_seq == l->next_seq;
}

/* Is all of it acknowledged? A hint without the append lock. */
static inline bool urds_log_is_settled(struct urds_log *l)
{
	return atomic_load_explicit(&l->settled, memory_order_relaxed) ==
		       atomic_load_explicit(&l->claimed, memory_order_relaxed) ||
	       !urds_log_has_pending(l);
}

/* tx. Was anything handed to a connection (this or an earlier one) and is it still unacknowledged? */
bool urds_log_is_uncertain(struct urds_log *l);

/* append + tx. Calls @fn for every message that is not acknowledged: for listings. */
void urds_log_each(struct urds_log *l,
		   void (*fn)(void *arg, uint64_t seq, const struct urds_log_ent *e, uint16_t sport,
			      bool sent),
		   void *arg);

#endif
