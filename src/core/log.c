/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The send log: chunks with wire bytes growing up from one end and entries growing down from the other.
 */
#include "core/log.h"

#include <assert.h>

struct urds_log_chunk {
	_Atomic(struct urds_log_chunk *) next;
	uint32_t first; /* index of slot 0 */
	uint32_t count; /* append: entries */
	uint32_t wire_used;
	uint32_t room; /* bytes shared by wire area and entries */
};

static struct urds_buf *chunk_buf(struct urds_log_chunk *c)
{
	return (struct urds_buf *)((uint8_t *)c - URDS_BUF_HEAD);
}

static uint8_t *chunk_wire(struct urds_log_chunk *c)
{
	return (uint8_t *)(c + 1);
}

static struct urds_log_ent *chunk_ent(struct urds_log_chunk *c, uint32_t slot)
{
	return (struct urds_log_ent *)(chunk_wire(c) + c->room) - (slot + 1);
}

static struct urds_log_chunk *chunk_next(struct urds_log_chunk *c)
{
	return atomic_load_explicit(&c->next, memory_order_acquire);
}

/* Where the entry in @slot begins in the wire area. */
static uint32_t wire_start(struct urds_log_chunk *c, uint32_t slot, const struct urds_log_ent *e)
{
	uint32_t start = slot == 0 ? 0 : chunk_ent(c, slot - 1)->wire_end;

	return e->is_big ? e->wire_end - (uint32_t)sizeof(struct urds_buf *) : start;
}

static struct urds_buf *ent_big(struct urds_log_chunk *c, const struct urds_log_ent *e)
{
	struct urds_buf *b;

	memcpy(&b, chunk_wire(c) + e->wire_end - sizeof b, sizeof b);
	return b;
}

static uint8_t *ent_wire(struct urds_log_chunk *c, uint32_t slot, const struct urds_log_ent *e)
{
	return e->is_big ? urds_buf_data(ent_big(c, e)) : chunk_wire(c) + wire_start(c, slot, e);
}

/* The chunk that holds index @i, walking on from @c. */
static struct urds_log_chunk *chunk_of(struct urds_log_chunk *c, uint32_t i)
{
	struct urds_log_chunk *next;

	while ((next = chunk_next(c)) && !urds_claim_before(i, next->first))
		c = next;
	return c;
}

void urds_log_init(struct urds_log *l, struct urds_mem *mem, uint64_t base)
{
	uint32_t i = (uint32_t)base;

	memset(l, 0, sizeof *l);
	l->mem = mem;
	l->next_seq = l->tail_seq = base;
	l->run_end = l->replay_end = l->stamped = i;
	atomic_init(&l->settled, i);
	atomic_init(&l->claimed, i);
	atomic_init(&l->freed, i);
	urds_claim_rewind(&l->mark, i);
}

static void chunk_free(struct urds_log_chunk *c)
{
	urds_buf_drop(chunk_buf(c));
}

/* append + tx. The tail moved into @upto: chunks before it are done. */
static void free_before(struct urds_log *l, struct urds_log_chunk *upto)
{
	while (l->oldest != upto) {
		struct urds_log_chunk *c = l->oldest;

		l->oldest = chunk_next(c);
		if (l->at == c)
			l->at = NULL;
		chunk_free(c);
	}
	if (!upto)
		l->newest = NULL;
}

void urds_log_fini(struct urds_log *l)
{
	for (struct urds_log_chunk *c = l->oldest; c; c = chunk_next(c)) {
		uint32_t i = c->first;

		for (uint32_t s = 0; s < c->count; s++, i++) {
			struct urds_log_ent *e = chunk_ent(c, s);

			if (e->is_big && !urds_claim_before(i, (uint32_t)l->tail_seq))
				urds_buf_drop(ent_big(c, e));
		}
	}
	free_before(l, NULL);
}

static struct urds_log_chunk *chunk_add(struct urds_log *l, uint32_t need)
{
	uint32_t want = need + URDS_BUF_HEAD + (uint32_t)sizeof(struct urds_log_chunk);
	unsigned blocks = l->newest || want > URDS_LOG_CHUNK_SMALL * URDS_BLOCK_BYTES
				  ? URDS_LOG_CHUNK_BIG
				  : URDS_LOG_CHUNK_SMALL;
	struct urds_buf *b = urds_buf_new(l->mem, blocks);
	struct urds_log_chunk *c;

	if (!b)
		return NULL;
	c = (struct urds_log_chunk *)(void *)urds_buf_data(b);
	atomic_init(&c->next, NULL);
	c->first = (uint32_t)l->next_seq;
	c->count = c->wire_used = 0;
	c->room = (urds_buf_cap(b) - (uint32_t)sizeof *c) & ~7u;
	if (l->newest)
		atomic_store_explicit(&l->newest->next, c, memory_order_release);
	else
		l->oldest = c;
	l->newest = c;
	return c;
}

int urds_log_claim(struct urds_log *l, uint32_t len, void *owner, uint16_t dport,
		   struct urds_buf *big, struct urds_log_claim *out)
{
	struct urds_log_chunk *c = l->newest;
	uint32_t start = 0, bytes, need;
	struct urds_log_ent *e;

	assert(len <= URDS_LOG_INLINE_MAX || big);
	if (l->next_seq - l->tail_seq >= URDS_LOG_ENTRIES_MAX)
		return -URDS_EAGAIN;
	if (c)
		start = big ? (c->wire_used + 7u) & ~7u : c->wire_used;
	bytes = big ? (uint32_t)sizeof big : URDS_HDR_LEN + len;
	need = bytes + (uint32_t)sizeof *e;
	if (!c || start + need + c->count * sizeof *e > c->room) {
		c = chunk_add(l, need);
		if (!c)
			return -URDS_ENOMEM;
		start = 0;
	}

	e = chunk_ent(c, c->count);
	e->owner = owner;
	e->wire_end = start + bytes;
	e->len = len;
	e->dport = dport;
	e->is_big = big != NULL;
	urds_claim_mark(&e->state);
	c->count++;
	c->wire_used = e->wire_end;
	if (big)
		memcpy(chunk_wire(c) + start, &big, sizeof big);
	out->ent = e;
	out->wire = big ? urds_buf_data(big) : chunk_wire(c) + start;
	out->seq = l->next_seq++;
	urds_claim_publish(&l->claimed, (uint32_t)l->next_seq);
	return 0;
}

/* The usual case, kept tight: small messages that follow the one just gathered, in the same chunk. Return: were
 * there any? */
static bool gather_row(struct urds_log_chunk *c, uint32_t *index, uint32_t end, size_t max_bytes,
		       size_t *sum, struct urds_iov *v, uint8_t **last)
{
	struct urds_log_chunk *next = chunk_next(c);
	uint32_t i = *index, stop = next && urds_claim_before(next->first, end) ? next->first : end;
	struct urds_log_ent *e = chunk_ent(c, i - c->first);
	size_t len, bytes = 0;

	for (; i != stop && *sum + bytes < max_bytes; i++, e--) {
		if (e->is_big || urds_claim_take_one(&e->state) != URDS_CLAIM_SEND)
			break;
		len = URDS_HDR_LEN + e->len;
		*last = (uint8_t *)v->base + v->len + bytes;
		bytes += len;
	}
	v->len += bytes;
	*sum += bytes;
	*index = i;
	return bytes > 0;
}

size_t urds_log_gather(struct urds_log *l, struct urds_iov *iov, size_t max, size_t max_bytes,
		       uint64_t ack, bool want_ack, size_t *bytes)
{
	uint32_t i = atomic_load_explicit(&l->mark.sent, memory_order_relaxed);
	uint32_t end = urds_claim_claimed(&l->claimed), off = l->at_off, last_i = 0;
	uint8_t *last = NULL;
	struct urds_log_chunk *c;
	size_t n = 0, sum = 0;

	l->run_end = i;
	l->has_ack = false;
	*bytes = 0;
	if (i == end)
		return 0;
	c = chunk_of(l->at ? l->at : l->oldest, i);
	urds_claim_take_begin(&l->mark, end);
	while (i != end && sum < max_bytes) {
		struct urds_log_ent *e;
		enum urds_claim_take take;
		uint32_t slot, len;
		uint8_t *p;

		c = chunk_of(c, i);
		slot = i - c->first;
		e = chunk_ent(c, slot);
		take = off > 0 ? URDS_CLAIM_SEND : urds_claim_take_one(&e->state);
		if (take == URDS_CLAIM_STOP)
			break;
		if (take == URDS_CLAIM_SKIP) {
			i++;
			continue;
		}
		p = ent_wire(c, slot, e);
		len = URDS_HDR_LEN + e->len;
		if (n > 0 && (uint8_t *)iov[n - 1].base + iov[n - 1].len == p) {
			iov[n - 1].len += len;
		} else {
			if (n == max)
				break;
			iov[n].base = p + off;
			iov[n].len = len - off;
			n++;
		}
		sum += len - off;
		if (off == 0) {
			last = p;
			last_i = i;
		}
		i++;
		off = 0;
		if (!e->is_big && gather_row(c, &i, end, max_bytes, &sum, &iov[n - 1], &last))
			last_i = i - 1;
	}
	l->run_end = i;
	l->has_ack = last && ack;
	if (l->has_ack)
		urds_be64_store(last + URDS_HDR_OFF_ACK, ack);
	if (last && want_ack)
		last[URDS_HDR_OFF_FLAGS] |= URDS_F_ACK_REQUIRED;
	if (last && (ack || want_ack) && !urds_claim_before(last_i, l->stamped))
		l->stamped = last_i + 1;
	*bytes = sum;
	if (sum == 0) /* nothing but tombstones, or nothing committed: end the run here */
		urds_log_taken(l, 0, 0, &(uint32_t){0});
	return n;
}

uint32_t urds_log_taken(struct urds_log *l, size_t bytes, uint32_t link_pos,
			uint32_t *retransmitted)
{
	uint32_t i = atomic_load_explicit(&l->mark.sent, memory_order_relaxed), out = 0, again = 0;
	/* Of a run that is empty nothing was published to us: the first chunk may be in the making. */
	struct urds_log_chunk *c = l->at || i == l->run_end ? l->at : l->oldest;
	uint32_t pos = link_pos;

	for (; i != l->run_end; i++) {
		struct urds_log_ent *e;
		uint32_t left;
		uint8_t state;

		c = chunk_of(c, i);
		e = chunk_ent(c, i - c->first);
		state = atomic_load_explicit(&e->state, memory_order_relaxed);
		if (l->at_off == 0 && state == URDS_CLAIM_SKIPPED)
			continue;
		left = URDS_HDR_LEN + e->len - l->at_off;
		if (bytes < left) {
			l->at_off += (uint32_t)bytes;
			break;
		}
		bytes -= left;
		pos += left;
		l->at_off = 0;
		e->link_end = pos;
		if (urds_claim_before(i, l->replay_end))
			again++;
		else
			out++;
	}
	l->at = c;
	urds_claim_take_end(&l->mark, i, l->at_off > 0 ? i + 1 : i);
	*retransmitted = again;
	return out;
}

/* Adds an acknowledged message of @owner to @out. Return: false if it is full. */
static bool tell(struct urds_log_freed_list *out, void *owner, uint32_t len)
{
	struct urds_log_freed *f = out->n > 0 ? &out->v[out->n - 1] : NULL;

	if (!f || f->owner != owner) {
		if (out->n == URDS_LOG_FREED_MAX)
			return false;
		f = &out->v[out->n++];
		*f = (struct urds_log_freed){.owner = owner};
	}
	f->msgs++;
	f->bytes += len;
	return true;
}

bool urds_log_settle_pos(struct urds_log *l, uint32_t link_pos, const void *ours, void *kept,
			 struct urds_log_freed_list *out)
{
	/* After a rewind the mark is before it, until what is kept has gone out again. */
	uint32_t end = urds_claim_sent(&l->mark), i = l->settled;
	struct urds_log_chunk *c = l->oldest;
	bool full = false;

	out->n = 0;
	for (; urds_claim_before(i, end); i++) {
		struct urds_log_ent *e;
		uint8_t state;

		c = chunk_of(c, i);
		e = chunk_ent(c, i - c->first);
		state = atomic_load_explicit(&e->state, memory_order_relaxed);
		if (state == URDS_CLAIM_TOMB || state == URDS_CLAIM_SKIPPED)
			continue;
		if (urds_claim_before(link_pos, e->link_end))
			break;
		if (e->owner && e->owner != kept && !tell(out, e->owner, e->len)) {
			full = true;
			break;
		}
		e->owner = e->owner && (e->owner == ours || e->owner == kept) ? kept : NULL;
	}
	atomic_store_explicit(&l->settled, i, memory_order_relaxed);
	return full;
}

/* Releases up to index @end (<= sent) while @link_pos, if given, covers them, and then what was cancelled
 * unsent: nobody will ever acknowledge that. */
static bool release(struct urds_log *l, uint32_t end, const uint32_t *link_pos,
		    struct urds_log_freed_list *out)
{
	uint32_t i = (uint32_t)l->tail_seq, sent = urds_claim_sent(&l->mark);
	struct urds_log_chunk *c = l->oldest;
	bool full = false;

	out->n = 0;
	if (i == sent)
		return false;
	for (; i != sent; i++) {
		struct urds_log_ent *e;
		uint8_t state;

		c = chunk_of(c, i);
		e = chunk_ent(c, i - c->first);
		state = atomic_load_explicit(&e->state, memory_order_relaxed);
		if (state != URDS_CLAIM_SKIPPED &&
		    (!urds_claim_before(i, end) ||
		     (link_pos && urds_claim_before(*link_pos, e->link_end))))
			break;
		if (state == URDS_CLAIM_TOMB || state == URDS_CLAIM_SKIPPED) {
			/* its owner was told when it was cancelled */
			atomic_fetch_sub_explicit(&l->tombs, 1, memory_order_relaxed);
		} else if (e->owner && !tell(out, e->owner, e->len)) {
			full = true;
			break;
		}
		if (e->is_big)
			urds_buf_drop(ent_big(c, e));
	}
	l->tail_seq += i - (uint32_t)l->tail_seq;
	atomic_store_explicit(&l->freed, i, memory_order_relaxed);
	if (urds_claim_before(l->replay_end, i))
		l->replay_end = i; /* never falls so far behind that it looks ahead */
	if (urds_claim_before(l->stamped, i))
		l->stamped = i;
	if (urds_claim_before(l->settled, i))
		atomic_store_explicit(&l->settled, i, memory_order_relaxed);
	if (l->tail_seq == l->next_seq)
		free_before(l, NULL);
	else
		free_before(l, chunk_of(l->oldest, i));
	if (!l->oldest)
		l->at = NULL;
	return full;
}

bool urds_log_ack_pos(struct urds_log *l, uint32_t link_pos, struct urds_log_freed_list *out)
{
	return release(l, urds_claim_sent(&l->mark), &link_pos, out);
}

bool urds_log_ack_seq(struct urds_log *l, uint64_t seq, struct urds_log_freed_list *out)
{
	uint32_t tail = (uint32_t)l->tail_seq;
	uint64_t sent_seq = l->tail_seq + (urds_claim_sent(&l->mark) - tail);

	if (seq < l->tail_seq || seq >= sent_seq)
		return release(l, tail, NULL, out);
	return release(l, (uint32_t)seq + 1, NULL, out);
}

void urds_log_cancel(struct urds_log *l, void *owner, int dport, bool disown,
		     struct urds_log_freed *freed)
{
	struct urds_log_chunk *c = l->oldest;

	*freed = (struct urds_log_freed){.owner = owner};
	for (uint32_t i = (uint32_t)l->tail_seq; i != (uint32_t)l->next_seq; i++) {
		struct urds_log_ent *e;

		c = chunk_of(c, i);
		e = chunk_ent(c, i - c->first);
		if (e->owner != owner || (dport >= 0 && e->dport != dport))
			continue;
		switch (urds_claim_cancel(&l->mark, &e->state, i)) {
		case URDS_CANCEL_WON:
		case URDS_CANCEL_SENT:
			atomic_fetch_add_explicit(&l->tombs, 1, memory_order_relaxed);
			freed->msgs++;
			freed->bytes += e->len;
			break;
		case URDS_CANCEL_LATE:
		case URDS_CANCEL_NOT_YET:
			if (!disown)
				break;
			freed->msgs++;
			freed->bytes += e->len;
			e->owner = NULL;
			break;
		case URDS_CANCEL_ALREADY:
			break;
		}
	}
}

void urds_log_rewind(struct urds_log *l)
{
	uint32_t tail = (uint32_t)l->tail_seq,
		 sent = atomic_load_explicit(&l->mark.sent, memory_order_relaxed);
	struct urds_log_chunk *c = l->oldest;
	uint32_t end;

	if (l->at_off > 0)
		sent++;
	end = urds_claim_before(sent, l->stamped) ? l->stamped : sent;
	for (uint32_t i = tail; i != end; i++) {
		struct urds_log_ent *e;
		uint8_t *p;

		c = chunk_of(c, i);
		e = chunk_ent(c, i - c->first);
		p = ent_wire(c, i - c->first, e);
		/* An ack or a request for one was meant for the old connection (section 15 of the wire
		 * rules: nothing of it may reach a peer that did not negotiate). */
		memset(p + URDS_HDR_OFF_ACK, 0, 8);
		if (urds_claim_before(i, sent))
			p[URDS_HDR_OFF_FLAGS] = URDS_F_RETRANSMITTED;
		else
			p[URDS_HDR_OFF_FLAGS] &= (uint8_t)~URDS_F_ACK_REQUIRED;
	}
	l->stamped = tail;
	if (urds_claim_before(l->replay_end, sent))
		l->replay_end = sent;
	l->at = NULL;
	l->at_off = 0;
	l->run_end = tail;
	urds_claim_rewind(&l->mark, tail);
}

bool urds_log_is_uncertain(struct urds_log *l)
{
	uint32_t tail = (uint32_t)l->tail_seq;

	return atomic_load_explicit(&l->mark.sent, memory_order_relaxed) != tail || l->at_off > 0 ||
	       urds_claim_before(tail, l->replay_end);
}

void urds_log_each(struct urds_log *l,
		   void (*fn)(void *arg, uint64_t seq, const struct urds_log_ent *e, uint16_t sport,
			      bool sent),
		   void *arg)
{
	uint32_t sent = atomic_load_explicit(&l->mark.sent, memory_order_relaxed);
	struct urds_log_chunk *c = l->oldest;

	for (uint64_t seq = l->tail_seq + (l->settled - (uint32_t)l->tail_seq); seq != l->next_seq;
	     seq++) {
		uint32_t i = (uint32_t)seq;
		const struct urds_log_ent *e;
		uint8_t state;

		c = chunk_of(c, i);
		e = chunk_ent(c, i - c->first);
		state = atomic_load_explicit(&chunk_ent(c, i - c->first)->state,
					     memory_order_acquire);
		if (state != URDS_CLAIM_COMMITTED)
			continue;
		fn(arg, seq, e, urds_be16_load(ent_wire(c, i - c->first, e) + URDS_HDR_OFF_SPORT),
		   urds_claim_before(i, sent));
	}
}
