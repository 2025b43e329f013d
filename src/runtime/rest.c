/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Rest. Most of a struct path is about what goes on: a log, a partial message, timers, lists. After a while in which
 * nothing did, the peer keeps the few numbers that matter and the path is freed; the connection stays, and the
 * first event or message makes the path anew. Path 0 only, and only of peers with no other.
 *
 * What keeps a chunk of message memory, because of messages that nobody has read yet, does not rest; here it is seen
 * whether they have been, for further paths too.
 *
 * Whoever uses a path has a reference on its peer. The timer rests a path only if, under the peer's lock, there is no
 * reference but the table's, the connection's and its own: then nobody can have a pointer to it, and who comes
 * later asks peer_path() under that lock.
 */
#include "runtime/engine.h"

#include "platform/clock.h"

void path_wake(struct path *h)
{
	struct peer *p = h->peer;

	urds_path_tx_wake(&h->tx, &p->rest.path);
	urds_path_rx_wake(&h->rx, &p->rest.path);
	atomic_init(&h->kind, p->rest.kind);
	atomic_init(&h->link, p->rest.link);
	atomic_init(&h->rx_ack, urds_path_rx_ack(&h->rx));
	atomic_init(&h->ack_seen, p->rest.path.next_tx - 1);
	atomic_init(&h->wants_sample, true);
	h->is_heard = true;
	p->rest.link = NULL;
	atomic_init(&h->rest_at, urds_clock_ns() + p->e->cfg.rest_ns);
	timer_earlier(p, urds_clock_ns() + p->e->cfg.rest_ns);
}

/* Peer lock held, and no other reference. */
static bool is_quiet(const struct path *h)
{
	return atomic_load(&h->link) && atomic_load(&h->kind) != URDS_KIND_UNKNOWN && h->is_heard &&
	       !atomic_load(&h->must_drop) && !atomic_load(&h->is_ending) &&
	       !atomic_load(&h->is_dirty) && !atomic_load(&h->is_ready) &&
	       !atomic_load(&h->ack_timer) && !atomic_load(&h->poll_armed) && !h->dialling &&
	       !h->dials && !h->rx_posted && !atomic_load(&h->rx_completed) &&
	       !atomic_load(&h->rx_ended) && h->poll_at == URDS_NEVER && h->ack_at == URDS_NEVER &&
	       h->end_by == URDS_NEVER;
}

/* Peer lock held. What has passed so far, or 0: something passes right now. */
static uint64_t mark_of(struct path *h)
{
	uint64_t mark = 0;

	if (!urds_tx_role_enter(&h->role))
		return 0;
	mark = h->tx.link_pos + 1;
	if (urds_tx_role_pass(&h->role))
		mark = 0;
	if (!mark || !urds_tx_role_enter(&h->rx_role))
		return 0;
	mark += h->rx.next_rx;
	path_rx_idle(h, URDS_RX_KEEP_UNREAD);
	if (urds_tx_role_pass(&h->rx_role))
		mark = 0;
	return mark;
}

static bool rest(struct peer *p, struct path *h)
{
	struct urds_path_rest r;

	if (!is_quiet(h) || !urds_path_tx_rest(&h->tx, &r) || !urds_path_rx_rest(&h->rx, &r))
		return false;
	p->rest.path = r;
	p->rest.kind = atomic_load(&h->kind);
	p->rest.link = atomic_load(&h->link);
	urds_lock_acquire(&p->e->count_lock);
	p->path0 = NULL;
	path_counted(h);
	urds_lock_release(&p->e->count_lock);
	urds_path_tx_fini(&h->tx);
	urds_free(&p->e->pool.mem, h, sizeof *h);
	if (p->e->pool.used == 0)
		urds_pool_trim(&p->e->pool);
	return true;
}

/* Peer lock held; nothing has passed for a while. Return: is it to be tried again later? */
static bool try_rest(struct peer *p, struct path *h)
{
	uint32_t cached = atomic_load(&p->cached), refs = atomic_load(&p->refs);

	if (p->more || p->parked || atomic_load(&p->e->stop))
		return false;
	if (refs == 3 && rest(p, h))
		return false;
	/* Kept by sockets only: the last of them arms it. Some call is passing through, or what is left of the last
	 * traffic, which has timers of its own, is not done: again. Never heard, or no connection: what
	 * changes that arms it. */
	return refs != 3 + cached || (cached == 0 && h->is_heard && atomic_load(&h->link));
}

void peer_rest(struct peer *p, urds_ns now)
{
	struct path *noted[URDS_PATHS_MAX];
	unsigned n = 0;

	urds_lock_acquire(&p->lock);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);
		urds_ns again = now + p->e->cfg.rest_ns;
		uint64_t mark;

		if (!h || atomic_load(&h->rest_at) > now)
			continue;
		atomic_store(
			&h->rest_at,
			URDS_NEVER); /* first: whoever keeps a chunk after our look arms it anew */
		mark = mark_of(h);
		if (mark == 0)
			noted[n++] = h; /* somebody may have left a note for the role we held */
		if (mark == 0 || (i == 0 && mark != h->rest_mark))
			atomic_store(&h->rest_at, again);
		else if (i == 0 && try_rest(p, h))
			atomic_store(&h->rest_at, again);
		else
			continue; /* @h may be gone */
		h->rest_mark = mark;
	}
	urds_lock_release(&p->lock);
	for (unsigned i = 0; i < n; i++) {
		path_transmit(noted[i]);
		path_receive(noted[i]);
	}
}

struct path *peer_cache(struct path *h)
{
	peer_hold(h->peer);
	atomic_fetch_add_explicit(&h->peer->cached, 1, memory_order_relaxed);
	return h;
}

void peer_uncache(struct path *h)
{
	if (!h)
		return;
	atomic_fetch_sub(&h->peer->cached, 1);
	if (h->slot == 0 && atomic_load(&h->rest_at) == URDS_NEVER) {
		atomic_store(&h->rest_at, urds_clock_ns() + h->peer->e->cfg.rest_ns);
		timer_earlier(h->peer, urds_clock_ns() + h->peer->e->cfg.rest_ns);
	}
	peer_drop(h->peer);
}
