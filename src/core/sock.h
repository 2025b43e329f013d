/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A socket's two halves, each with a lock of its own in the runtime: the receive queue with its congestion
 * state (semantics 8), and the account of what is sent and not yet acknowledged (semantics 3).
 */
#ifndef URDS_CORE_SOCK_H
#define URDS_CORE_SOCK_H

#include "core/path.h"

/* ---------------------------------------------------------------- receive queue */

struct urds_rxq_ent {
	struct urds_buf *buf; /* one reference, or NULL when the message is empty */
	const uint8_t *payload;
	uint32_t len;
	uint16_t sport;
	struct urds_addr from;
};

struct urds_rxq {
	struct urds_mem *mem;
	struct urds_rxq_ent *ring; /* NULL while it never held anything */
	uint32_t cap, head, count; /* cap is a power of two */
	uint32_t peak;		   /* highest count since it was last empty */
	uint32_t rcvbuf;	   /* limit R, bytes */
	uint64_t bytes;		   /* payload queued */
	struct urds_buf *spent;	   /* copied messages of one buffer: references to drop */
	uint32_t spent_refs;
	bool is_congested;
	bool is_dead;	 /* closed: nothing more is queued */
	bool overflowed; /* the owner has not been told yet (ENOBUFS) */
};

void urds_rxq_init(struct urds_rxq *q, struct urds_mem *mem);
/* Drops what is queued. */
void urds_rxq_fini(struct urds_rxq *q);

enum urds_rxq_news {
	URDS_RXQ_CONGESTED = 1, /* its port has become congested: set the bit */
	URDS_RXQ_CLEAR = 2,	/* it no longer is: clear it */
	URDS_RXQ_FILLED = 4,	/* it was empty */
	URDS_RXQ_DISCARDED =
		8, /* the peer ignored our map beyond all bounds: the queue was discarded */
	URDS_RXQ_NOMEM = 16 /* no memory for the queue's ring: *done messages were taken */
};

/* Queues the DATA items @v[0..n) from @from, taking their references. *done: how many were taken; fewer only
 * with NOMEM. On a dead queue they are dropped, as the kernel does. Return: enum urds_rxq_news. */
unsigned urds_rxq_put(struct urds_rxq *q, const struct urds_addr *from,
		      const struct urds_rx_item *v, size_t n, size_t *done);

/* The oldest message, or NULL. Borrowed until the queue changes. */
static inline const struct urds_rxq_ent *urds_rxq_front(const struct urds_rxq *q)
{
	return q->count > 0 ? &q->ring[q->head] : NULL;
}

/* Removes it; its reference passes to the caller. Return: URDS_RXQ_CLEAR or 0. */
unsigned urds_rxq_pop(struct urds_rxq *q, struct urds_rxq_ent *out);

/* Removes it after its payload was copied; the references of messages in one buffer are dropped together. */
unsigned urds_rxq_pop_copied(struct urds_rxq *q);

/* SO_RCVBUF changed: takes effect at the next put or pop, as in the kernel. */
static inline void urds_rxq_limit(struct urds_rxq *q, uint32_t rcvbuf)
{
	q->rcvbuf = rcvbuf;
}

/* ---------------------------------------------------------------- send account */

struct urds_txq {
	uint64_t queued; /* payload bytes sent and neither acknowledged nor cancelled */
	uint64_t msgs;	 /* that many messages: some are empty */
	uint32_t sndbuf; /* limit, bytes */
};

/* Room for one more message? The last one may overshoot by its whole size (semantics 3, step 17). */
static inline bool urds_txq_has_room(const struct urds_txq *q)
{
	return q->queued < q->sndbuf;
}

/* Return: 0 and the bytes are charged, -URDS_EMSGSIZE, or -URDS_EAGAIN: full. */
static inline int urds_txq_charge(struct urds_txq *q, uint32_t len)
{
	if (len > URDS_MSG_MAX || len > q->sndbuf)
		return -URDS_EMSGSIZE;
	if (!urds_txq_has_room(q))
		return -URDS_EAGAIN;
	q->queued += len;
	q->msgs++;
	return 0;
}

/* So many were acknowledged or cancelled, or never sent. */
static inline void urds_txq_release(struct urds_txq *q, uint64_t msgs, uint64_t bytes)
{
	q->queued -= bytes;
	q->msgs -= msgs;
}

/* SO_SNDBUF/SO_RCVBUF @value to the limit used (half of what getsockopt reads back). @system_max: wmem_max or
 * rmem_max; @force: SO_SNDBUFFORCE. */
uint32_t urds_sock_buf(uint64_t value, uint32_t system_max, bool force, uint32_t stored_min);

#endif
