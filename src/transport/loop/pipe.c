/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two byte pipes per pair. Each has one writer and one reader, so only the positions need the lock;
 * the copying is done outside it. The reader gives the block back when it empties the pipe, or the
 * writer does if it was copying into it at that moment.
 */
#include <assert.h>

#include "transport/loop/loop_internal.h"

/* Walks an iovec array. */
struct cursor {
	const struct urds_iov *v;
	size_t n, offset;
};

static size_t cursor_left(const struct cursor *c)
{
	size_t sum = 0;

	for (size_t i = 0; i < c->n; i++)
		sum += c->v[i].len;
	return sum - c->offset;
}

/* Copies @len bytes between the iovecs and the ring at position @pos. */
static void cursor_copy(struct cursor *c, char *ring, size_t cap, uint64_t pos, size_t len, bool in)
{
	while (len > 0) {
		size_t at = (size_t)(pos % cap), n = c->v->len - c->offset;
		char *mem = (char *)c->v->base + c->offset;

		if (n > len)
			n = len;
		if (n > cap - at)
			n = cap - at;
		if (n > 0 && in)
			memcpy(ring + at, mem, n);
		else if (n > 0)
			memcpy(mem, ring + at, n);
		c->offset += n;
		pos += n;
		len -= n;
		if (c->offset == c->v->len) {
			c->v++;
			c->n--;
			c->offset = 0;
		}
	}
}

static void drop_block(struct loop *t, struct loop_pipe *p)
{
	if (!p->block)
		return;
	t->cfg.block_put(t->cfg.u, p->block, t->cfg.pipe_n64k);
	p->block = NULL;
}

static bool can_write(const struct loop_pipe *p)
{
	return !p->is_reset && !p->is_orphan && !p->is_fin;
}

static void break_pair(struct loop_pair *pair) URDS_HOLDS(&pair->lock)
{
	pair->pipe[0].is_reset = true;
	pair->pipe[1].is_reset = true;
}

static int tx(struct urds_link *base, const struct urds_iov *v, size_t n, size_t *taken,
	      size_t *released)
{
	struct loop_end *e = urds_container_of(base, struct loop_end, base);
	struct loop *t = loop_of(base->t);
	struct loop_pair *pair = e->pair;
	struct loop_pipe *p = &pair->pipe[e->side];
	struct cursor c = {.v = v, .n = n};
	size_t left = cursor_left(&c), done = 0;
	uint32_t tell_peer = 0;
	int rc = 0;

	urds_lock_acquire(&pair->lock);
	p->wants_space = false;
	while (left > 0 && can_write(p)) {
		size_t part = t->pipe_bytes - (size_t)(p->head - p->tail);

		if (part == 0) {
			p->wants_space = true;
			break;
		}
		if (!p->block)
			p->block = t->cfg.block_get(t->cfg.u, t->cfg.pipe_n64k);
		if (!p->block) {
			/* No event could tell when there is memory again; a reset is retried. */
			break_pair(pair);
			tell_peer |= LOOP_READABLE | LOOP_ENDED;
			break;
		}
		if (part > left)
			part = left;
		p->is_writing = true;
		urds_lock_release(&pair->lock);
		cursor_copy(&c, p->block, t->pipe_bytes, p->head, part, true);
		urds_lock_acquire(&pair->lock);
		p->is_writing = false;
		if (p->is_orphan)
			break;
		/* The reader answered WAIT, or less than asked, only if it saw the pipe empty. */
		if (p->head == p->tail)
			tell_peer |= LOOP_READABLE;
		p->head += part;
		left -= part;
		done += part;
	}
	if (left > 0 && !can_write(p))
		rc = -URDS_ECONNRESET;
	/* Left to us by a reader that closed while we copied. */
	if (p->is_orphan)
		drop_block(t, p);
	urds_lock_release(&pair->lock);

	if (tell_peer)
		urds_loop_post(t, &pair->end[!e->side], tell_peer);
	*taken = done;
	*released = done;
	return rc;
}

static enum urds_rx_how rx(struct urds_link *base, const struct urds_iov *v, size_t n, size_t *got)
{
	struct loop_end *e = urds_container_of(base, struct loop_end, base);
	struct loop *t = loop_of(base->t);
	struct loop_pair *pair = e->pair;
	struct loop_pipe *p = &pair->pipe[!e->side];
	struct cursor c = {.v = v, .n = n};
	size_t left = cursor_left(&c), done = 0;
	enum urds_rx_how how = URDS_RX_NOW;
	bool tell_writer = false;

	urds_lock_acquire(&pair->lock);
	/* Looks again after each copy, so that a short read means empty. */
	while (left > 0 && p->head != p->tail) {
		size_t part = (size_t)(p->head - p->tail);

		if (part > left)
			part = left;
		urds_lock_release(&pair->lock);
		cursor_copy(&c, p->block, t->pipe_bytes, p->tail, part, false);
		urds_lock_acquire(&pair->lock);
		p->tail += part;
		left -= part;
		done += part;
	}
	if (p->head == p->tail && !p->is_writing)
		drop_block(t, p);
	/* At half, not at the first byte: every wake of the writer should be worth it. */
	if (p->wants_space && p->head - p->tail <= t->pipe_bytes / 2) {
		p->wants_space = false;
		tell_writer = true;
	}
	if (done == 0) {
		how = URDS_RX_WAIT;
		if (left > 0 && (p->is_fin || p->is_reset)) {
			base->end = p->is_reset ? URDS_LINK_RESET : URDS_LINK_EOF;
			base->end_err = p->is_reset ? -URDS_ECONNRESET : 0;
			how = URDS_RX_ENDED;
		}
	}
	urds_lock_release(&pair->lock);

	if (tell_writer)
		urds_loop_post(t, &pair->end[!e->side], LOOP_WRITABLE);
	*got = done;
	return how;
}

static uint64_t acked(struct urds_link *base)
{
	struct loop_end *e = urds_container_of(base, struct loop_end, base);
	uint64_t tail;

	urds_lock_acquire(&e->pair->lock);
	tail = e->pair->pipe[e->side].tail;
	urds_lock_release(&e->pair->lock);
	return tail;
}

void urds_loop_pipe_shutdown(struct loop_end *e)
{
	struct loop_pair *pair = e->pair;

	urds_lock_acquire(&pair->lock);
	pair->pipe[e->side].is_fin = true;
	urds_lock_release(&pair->lock);
	urds_loop_post(loop_of(e->base.t), &pair->end[!e->side], LOOP_READABLE | LOOP_ENDED);
}

void urds_loop_pipe_close(struct loop_end *e, bool reset)
{
	struct loop_pair *pair = e->pair;
	struct loop_pipe *out = &pair->pipe[e->side], *in = &pair->pipe[!e->side];
	struct loop *t = loop_of(e->base.t);

	urds_lock_acquire(&pair->lock);
	/* As TCP does: bytes nobody will read make a close a reset. */
	if (reset || in->head != in->tail)
		break_pair(pair);
	out->is_fin = true;
	in->is_orphan = true;
	if (!in->is_writing)
		drop_block(t, in);
	urds_lock_release(&pair->lock);
	urds_loop_post(t, &pair->end[!e->side], LOOP_READABLE | LOOP_WRITABLE | LOOP_ENDED);
}

void urds_loop_pipe_fini(struct loop *t, struct loop_pipe *p)
{
	assert(!p->is_writing);
	drop_block(t, p);
}

/* The other end is in this process: it is never silent and has no packets. */
static uint64_t silence(struct urds_link *base)
{
	return 0;
}

static int incoming_cpu(struct urds_link *base)
{
	return -1;
}

static int fd_of(struct urds_link *base)
{
	return -1;
}

/* What the listener was told; nobody listens on a real port. */
static void ports(struct urds_link *base, uint16_t *local, uint16_t *remote)
{
	struct loop_end *e = urds_container_of(base, struct loop_end, base);

	*local = e->side == 0 ? e->pair->end[1].from_port : 0;
	*remote = e->side == 0 ? 0 : e->from_port;
}

const struct urds_data_ops urds_loop_data = {
	.name = "loop",
	.tx = tx,
	.rx = rx,
	.acked = acked,
	.silence = silence,
	.incoming_cpu = incoming_cpu,
	.fd = fd_of,
	.ports = ports,
};
