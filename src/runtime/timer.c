/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Timers: one deadline per peer, in a heap. Whoever drives the poller sleeps no longer than the earliest.
 */
#include "runtime/engine.h"

#include <stdlib.h>

#include "platform/clock.h"

#define TURN_NS URDS_MS(1)

static void place(struct urds_ctx *e, uint32_t at, struct peer *p)
{
	e->heap[at] = p;
	p->heap_at = at;
}

static void sift_up(struct urds_ctx *e, uint32_t at)
{
	struct peer *p = e->heap[at];

	for (; at > 1 && e->heap[at / 2]->deadline > p->deadline; at /= 2)
		place(e, at, e->heap[at / 2]);
	place(e, at, p);
}

static void sift_down(struct urds_ctx *e, uint32_t at)
{
	struct peer *p = e->heap[at];
	uint32_t kid;

	for (; (kid = at * 2) <= e->heap_n; at = kid) {
		if (kid < e->heap_n && e->heap[kid + 1]->deadline < e->heap[kid]->deadline)
			kid++;
		if (e->heap[kid]->deadline >= p->deadline)
			break;
		place(e, at, e->heap[kid]);
	}
	place(e, at, p);
}

static void heap_remove(struct urds_ctx *e, struct peer *p)
{
	uint32_t at = p->heap_at;
	struct peer *last = e->heap[e->heap_n--];

	p->heap_at = 0;
	if (last == p)
		return;
	place(e, at, last);
	sift_up(e, at);
	sift_down(e, last->heap_at);
}

static bool heap_add(struct urds_ctx *e, struct peer *p)
{
	if (e->heap_n + 1 >= e->heap_cap) {
		uint32_t cap = e->heap_cap ? e->heap_cap * 2 : 16;
		struct peer **heap = realloc(e->heap, cap * sizeof *heap);

		if (!heap)
			return false;
		e->heap = heap;
		e->heap_cap = cap;
	}
	e->heap[++e->heap_n] = p;
	sift_up(e, e->heap_n);
	return true;
}

static void set_locked(struct urds_ctx *e, struct peer *p, urds_ns at)
{
	if (p->heap_at && at == URDS_NEVER) {
		heap_remove(e, p);
		p->deadline = at;
	} else if (p->heap_at) {
		urds_ns was = p->deadline;

		p->deadline = at;
		if (at < was)
			sift_up(e, p->heap_at);
		else
			sift_down(e, p->heap_at);
	} else if (at != URDS_NEVER) {
		p->deadline = at;
		/* No memory: the next event of this peer arms it again. */
		if (!heap_add(e, p))
			p->deadline = URDS_NEVER;
	}
	atomic_store_explicit(&e->next_deadline, e->heap_n ? e->heap[1]->deadline : URDS_NEVER,
			      memory_order_release);
}

/* The poller's driver sleeps until poll_until: wake it if that is too late now. */
static void hurry(struct urds_ctx *e, urds_ns at)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (at < atomic_load_explicit(&e->poll_until, memory_order_relaxed))
		engine_kick(e);
}

void timer_set(struct peer *p, urds_ns at)
{
	struct urds_ctx *e = p->e;

	urds_lock_acquire(&e->timer_lock);
	if (p->is_gone)
		at = URDS_NEVER;
	set_locked(e, p, at);
	urds_lock_release(&e->timer_lock);
	if (at != URDS_NEVER)
		hurry(e, at);
}

void timer_earlier(struct peer *p, urds_ns at)
{
	struct urds_ctx *e = p->e;
	bool changed;

	urds_lock_acquire(&e->timer_lock);
	changed = !p->is_gone && (!p->heap_at || at < p->deadline);
	if (changed)
		set_locked(e, p, at);
	urds_lock_release(&e->timer_lock);
	if (changed)
		hurry(e, at);
}

void timer_run(struct urds_ctx *e, urds_ns now)
{
	while (atomic_load_explicit(&e->next_deadline, memory_order_acquire) <= now) {
		struct peer *p = NULL;

		urds_lock_acquire(&e->timer_lock);
		if (e->heap_n && e->heap[1]->deadline <= now) {
			p = e->heap[1];
			peer_hold(p);
			set_locked(e, p, URDS_NEVER);
		}
		urds_lock_release(&e->timer_lock);
		if (!p)
			return;
		peer_timer(p, now);
		/* One turn each: whatever its deadline says, it does not keep this thread from the rest. */
		urds_lock_acquire(&e->timer_lock);
		if (p->heap_at && p->deadline <= now)
			set_locked(e, p, now + TURN_NS);
		urds_lock_release(&e->timer_lock);
		peer_drop(p);
	}
}
