/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The receive half of a socket: taking what is queued, and waiting for it.
 */
#include "runtime/engine.h"

#include <string.h>

#include "platform/clock.h"
#include "transport/loop/loop.h"

struct node *sock_flip(struct urds_sock *s, bool congested)
{
	struct node *n = s->node;
	int rc;

	if (!n)
		return NULL; /* it has left its port */
	urds_lock_acquire(&n->map_lock);
	rc = urds_localmap_flip(&n->map, &s->e->pool.mem, s->bound.at.port, congested);
	atomic_store(&n->map_gen, n->map.gen);
	urds_lock_release(&n->map_lock);
	return rc > 0 ? n : NULL;
}

void sock_rx_news(struct urds_sock *s, unsigned news, size_t n)
{
	if (!s->rx_waiters.first || n == 0)
		return;
	if (atomic_load_explicit(&s->any_waiters, memory_order_relaxed))
		wait_list_wake_port(s->e, &s->rx_waiters, ANY_EVENT);
	wait_list_wake(s->e, &s->rx_waiters, n < UINT32_MAX ? (unsigned)n : UINT32_MAX, 0);
}

/* rx_lock held. */
static void count_delivered(struct urds_sock *s, size_t len, size_t cap)
{
	s->delivered++;
	s->copied += len < cap ? len : cap;
}

/* rx_lock held. Return: 1 a message is in *out, 0 nothing there, or negative. */
static int take(struct urds_sock *s, struct urds_rxq_ent *out, size_t cap, bool peek,
		struct node **flipped)
{
	const struct urds_rxq_ent *front = urds_rxq_front(&s->rxq);

	if (atomic_load_explicit(&s->is_closed, memory_order_relaxed))
		return -URDS_EBADF;
	if (s->rxq.overflowed) {
		s->rxq.overflowed = false;
		return -URDS_ECONG;
	}
	if (!front)
		return 0;
	if (peek) {
		*out = *front;
		if (out->buf)
			urds_buf_hold(out->buf, 1);
		if (s->rx_waiters.first) /* it is still there for somebody */
			wait_list_wake(s->e, &s->rx_waiters, 1, 0);
	} else if (urds_rxq_pop(&s->rxq, out) & URDS_RXQ_CLEAR) {
		*flipped = sock_flip(s, false);
	}
	count_delivered(s, out->len, cap);
	return 1;
}

/* rx_lock held, released here: what follows from take(), whose answer @rc is. */
static void taken(struct urds_sock *s, int rc, struct node *flipped) URDS_RELEASES(&s->rx_lock)
{
	bool emptied = s->rxq.count == 0;

	urds_lock_release(&s->rx_lock);
	if (flipped) {
		maps_push(flipped);
		/* A sender in this process may look again without ever driving. */
		if (urds_loop_pending(s->e->loop))
			engine_run_loop(s->e);
	}
	if (rc != 0 && emptied && atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s, 0);
}

/* rx_lock held, released here: nothing is queued. Return: 0: look again, or negative. */
static int wait_for_message(struct urds_sock *s, urds_ns deadline) URDS_RELEASES(&s->rx_lock)
{
	struct path *spin = s->hot;
	int rc;

	if (spin)
		peer_hold(spin->peer);
	rc = sock_wait_on(s, &s->rx_waiters, &s->rx_lock, spin ? spin->peer : NULL, 0, deadline,
			  spin);
	if (spin)
		peer_drop(spin->peer);
	return rc;
}

/* As sock_send_quick(), under rx_lock; with a reference while it waits. */
int sock_recv_quick(struct urds_sock *s, void *buf, size_t cap, bool dontwait,
		    struct urds_endpoint *from, size_t *len)
{
	struct urds_ctx *e;
	const struct urds_rxq_ent *m;
	bool is_held = false;
	int rc = -URDS_EAGAIN;

	if (!sock_is_of_this_process(s))
		return rc;
	urds_lock_acquire(&s->rx_lock);
	e = s->e;
	/* Emptying a watched queue, one that is congested, or one with gathered messages beside it has consequences. */
	while (!atomic_load_explicit(&s->is_closed, memory_order_relaxed) && !s->rxq.overflowed &&
	       !s->rxq.is_congested &&
	       !atomic_load_explicit(&s->is_watched, memory_order_relaxed) &&
	       !atomic_load_explicit(&e->dirty, memory_order_relaxed)) {
		m = urds_rxq_front(&s->rxq);
		if (m && m->len <= URDS_QUICK_MAX) {
			if (cap > 0)
				memcpy(buf, m->payload, m->len < cap ? m->len : cap);
			if (from)
				*from = (struct urds_endpoint){m->from, m->sport};
			*len = m->len;
			urds_rxq_pop_copied(&s->rxq);
			count_delivered(s, *len, cap);
			set_busy(e);
			rc = 0;
			break;
		}
		if (m || dontwait || atomic_load_explicit(&s->rcvtimeo, memory_order_relaxed) ||
		    atomic_load_explicit(&s->is_nonblock, memory_order_relaxed) ||
		    atomic_load_explicit(&e->ready, memory_order_relaxed) ||
		    atomic_load_explicit(&e->is_dead, memory_order_relaxed))
			break;
		if (!is_held)
			sock_hold(s);
		is_held = true;
		rc = wait_for_message(s, URDS_NEVER);
		if (rc < 0)
			goto out;
		rc = -URDS_EAGAIN;
		urds_lock_acquire(&s->rx_lock);
	}
	/* Its memory may be another socket's by the time the long way looks. */
	if (is_held && rc == -URDS_EAGAIN &&
	    atomic_load_explicit(&s->is_closed, memory_order_relaxed))
		rc = -URDS_EBADF;
	urds_lock_release(&s->rx_lock);
out:
	if (is_held)
		sock_drop(s);
	return rc;
}

int sock_recv(struct urds_sock *s, struct urds_rxq_ent *out, size_t cap, bool dontwait, bool peek)
{
	struct urds_ctx *e = s->e;
	urds_ns deadline = URDS_NEVER;
	bool was_ready = false, was_driven = false;
	int rc;

	flush_dirty(e, URDS_NEVER);
	set_busy(e);
	do {
		struct node *flipped = NULL;

		urds_lock_acquire(&s->rx_lock);
		rc = take(s, out, cap, peek, &flipped);
		if (rc != 0) {
			taken(s, rc, flipped);
			return rc < 0 ? rc : 0;
		}
		if (!was_ready && atomic_load_explicit(&e->ready, memory_order_relaxed)) {
			urds_lock_release(&s->rx_lock);
			ready_run(e);
			was_ready = true;
		} else if (dontwait) {
			urds_lock_release(&s->rx_lock);
			if (was_driven)
				return -URDS_EAGAIN;
			engine_drive(e);
			was_driven = true;
		} else {
			urds_ns limit = atomic_load_explicit(&s->rcvtimeo, memory_order_relaxed);

			if (limit && deadline == URDS_NEVER)
				deadline = urds_clock_ns() + limit;
			rc = wait_for_message(s, deadline);
		}
	} while (rc == 0);
	return rc;
}

bool sock_has_queued(struct urds_sock *s)
{
	bool has;

	urds_lock_acquire(&s->rx_lock);
	has = s->rxq.count > 0;
	urds_lock_release(&s->rx_lock);
	return has;
}

void sock_recv_done(struct urds_rxq_ent *m)
{
	urds_buf_drop(m->buf);
}
