/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Receive queue and buffer sizes of a socket.
 */
#include "core/sock.h"

#include <assert.h>

#define RING_MIN 8u
/* An emptied ring is given back if it is much larger than what it lately held, or larger than this. */
#define RING_KEEP 16384u

void urds_rxq_init(struct urds_rxq *q, struct urds_mem *mem)
{
	memset(q, 0, sizeof *q);
	q->mem = mem;
	q->rcvbuf = URDS_RCVBUF_DEFAULT;
}

static void discard(struct urds_rxq *q)
{
	for (; q->count > 0; q->count--) {
		urds_buf_drop(q->ring[q->head].buf);
		q->head = (q->head + 1) & (q->cap - 1);
	}
	q->bytes = 0;
}

static void ring_free(struct urds_rxq *q)
{
	urds_free(q->mem, q->ring, q->cap * sizeof *q->ring);
	q->ring = NULL;
	q->cap = q->head = 0;
}

static void drop_spent(struct urds_rxq *q)
{
	if (q->spent_refs > 0)
		urds_buf_drop_n(q->spent, q->spent_refs);
	q->spent = NULL;
	q->spent_refs = 0;
}

void urds_rxq_fini(struct urds_rxq *q)
{
	discard(q);
	drop_spent(q);
	ring_free(q);
}

static bool ring_grow(struct urds_rxq *q)
{
	uint32_t cap = q->cap ? q->cap * 2 : RING_MIN;
	struct urds_rxq_ent *ring = urds_alloc(q->mem, cap * sizeof *ring);

	if (!ring)
		return false;
	for (uint32_t i = 0; i < q->count; i++)
		ring[i] = q->ring[(q->head + i) & (q->cap - 1)];
	urds_free(q->mem, q->ring, q->cap * sizeof *q->ring);
	q->ring = ring;
	q->cap = cap;
	q->head = 0;
	return true;
}

static bool over_quota(const struct urds_rxq *q)
{
	uint64_t quota = 4 * (uint64_t)q->rcvbuf;

	if (quota < URDS_RCVQ_BYTES_MIN)
		quota = URDS_RCVQ_BYTES_MIN;
	return q->bytes > quota || q->count > URDS_RCVQ_MSGS_MAX;
}

unsigned urds_rxq_put(struct urds_rxq *q, const struct urds_addr *from,
		      const struct urds_rx_item *v, size_t n, size_t *done)
{
	unsigned news = 0;
	size_t i;

	if (n > 0 && q->count == 0 && !q->is_dead)
		news |= URDS_RXQ_FILLED;
	for (i = 0; i < n; i++) {
		struct urds_rxq_ent *e;

		if (q->is_dead) {
			urds_buf_drop(v[i].buf);
			continue;
		}
		if (q->count == q->cap && !ring_grow(q)) {
			news |= URDS_RXQ_NOMEM;
			break;
		}
		e = &q->ring[(q->head + q->count++) & (q->cap - 1)];
		e->buf = v[i].buf;
		e->payload = v[i].payload;
		e->len = v[i].len;
		e->sport = v[i].sport;
		e->from = *from;
		q->bytes += v[i].len;
	}
	*done = i;
	if (q->count > q->peak)
		q->peak = q->count;
	if (q->count == 0)
		news &= ~(unsigned)URDS_RXQ_FILLED;
	if (over_quota(q)) {
		discard(q);
		q->overflowed = true;
		news |= URDS_RXQ_DISCARDED;
		if (q->is_congested) {
			q->is_congested = false;
			news |= URDS_RXQ_CLEAR;
		}
	} else if (!q->is_congested && (q->bytes > q->rcvbuf || q->count > URDS_RCVQ_MSGS_CONG)) {
		q->is_congested = true;
		news |= URDS_RXQ_CONGESTED;
	}
	return news;
}

/* The front is gone from the ring. Return: URDS_RXQ_CLEAR or 0. */
static unsigned popped(struct urds_rxq *q, uint32_t len)
{
	q->head = (q->head + 1) & (q->cap - 1);
	q->count--;
	q->bytes -= len;
	if (q->count == 0) {
		drop_spent(q);
		q->head = 0; /* entries that are warm in the cache come first */
		if (q->cap > RING_KEEP || (q->cap > RING_MIN && q->peak < q->cap / 16))
			ring_free(q);
		q->peak = 0;
	}
	if (!q->is_congested || q->bytes * 2 >= q->rcvbuf || q->count >= URDS_RCVQ_MSGS_CONG / 2)
		return 0;
	q->is_congested = false;
	return URDS_RXQ_CLEAR;
}

unsigned urds_rxq_pop(struct urds_rxq *q, struct urds_rxq_ent *out)
{
	assert(q->count > 0);
	*out = q->ring[q->head];
	return popped(q, out->len);
}

unsigned urds_rxq_pop_copied(struct urds_rxq *q)
{
	struct urds_rxq_ent *e = &q->ring[q->head];

	assert(q->count > 0);
	if (e->buf != q->spent) {
		drop_spent(q);
		q->spent = e->buf;
	}
	if (e->buf)
		q->spent_refs++;
	return popped(q, e->len);
}

uint32_t urds_sock_buf(uint64_t value, uint32_t system_max, bool force, uint32_t stored_min)
{
	uint64_t max = force ? URDS_BUF_MAX : system_max, stored;

	if (max > URDS_BUF_MAX)
		max = URDS_BUF_MAX;
	if (value > max)
		value = max;
	stored = value * 2;
	if (stored < stored_min)
		stored = stored_min;
	return (uint32_t)(stored / 2);
}
