/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections: feeds what happens to paths into core's connection policy and carries out its answers (conn.h).
 */
#include "runtime/conn.h"

#include "platform/random.h"

static void our_probe(struct peer *p, struct urds_probe *out)
{
	urds_peer_probe(&p->core, p->e->incarnation, out);
}

/* Peer lock held; the slot has no link. */
static void attach(struct peer *p, struct path *h, struct urds_link *l, struct deferred *d)
{
	const struct urds_slot *s = urds_peer_slot(&p->core, h->slot);
	enum urds_tx_hold hold = s->state == URDS_SLOT_HELD ? URDS_HOLD_MESSAGES
				 : s->is_held		    ? URDS_HOLD_ALL
							    : URDS_HOLD_NOTHING;
	struct urds_probe us;

	our_probe(p, &us);
	path_role_take(h);
	urds_lock_acquire(&h->append);
	if (!l->user)
		peer_hold(p); /* until on_closed() */
	l->user = marked(p, h->slot);
	atomic_store(&h->kind, URDS_KIND_UNKNOWN);
	atomic_store(&h->must_drop, false);
	atomic_store(&h->is_ending, false);
	h->is_fenced = h->wants_fence = false;
	atomic_store(&h->ack_seen, 0);
	atomic_store(&h->rx_ended, false);
	h->is_heard = h->is_foreign = false;
	h->end_by = URDS_NEVER;
	urds_path_tx_up(&h->tx, hold, &us);
	atomic_store(&h->link, l);
	urds_lock_release(&h->append);
	/* Whoever left a note finds its messages sent by the TRANSMIT below. */
	urds_tx_role_pass(&h->role);
	defer(d, DEFER_TRANSMIT, h, NULL);
	defer(d, DEFER_RECEIVE, h, NULL);
}

static void park(struct peer *p, unsigned k, struct urds_link *l, struct deferred *d)
{
	if (!p->parked)
		p->parked = urds_alloc(&p->e->pool.mem, URDS_PARKED_MAX * sizeof *p->parked);
	if (!p->parked) {
		urds_peer_unparked(&p->core, k);
		defer(d, DEFER_RESET, NULL, l);
		return;
	}
	urds_count(p->e, URDS_C_conn_parked, 1);
	p->parked[k] = (struct parked_link){.link = l};
	peer_hold(p);
	l->user = marked(p, PARKED);
	defer(d, DEFER_PARKED, NULL, l);
}

void unpark(struct peer *p, unsigned k)
{
	p->parked[k] = (struct parked_link){0};
	for (unsigned i = 0; i < URDS_PARKED_MAX; i++)
		if (p->parked[i].link)
			return;
	urds_free(&p->e->pool.mem, p->parked, URDS_PARKED_MAX * sizeof *p->parked);
	p->parked = NULL;
}

static void evict(struct peer *p, unsigned k, enum deferred_kind how, struct deferred *d)
{
	defer(d, how, NULL, p->parked[k].link);
	urds_buf_drop(p->parked[k].buf);
	unpark(p, k);
}

/* Peer lock held, the rx role perhaps not: by path_end(), the timer, or a probe on another path. The slot is DOWN for
 * core, so path_end() of its last connection has reset the receive half and touches it no more; and whoever holds
 * the role leaves it alone until it finds the link, which attach() sets last. */
static void promote(struct peer *p, struct path *h, unsigned k, struct deferred *d)
{
	struct parked_link q = p->parked[k];

	assert(!h->rx.chunk && !h->rx.body);
	unpark(p, k);
	urds_count(p->e, URDS_C_conn_promoted, 1);
	h->rx.chunk = q.buf;
	h->rx.parsed = 0;
	attach(p, h, q.link, d);
	ready_push(h); /* its bytes, or its end, were reported already */
}

static void post(struct peer *p, struct path *h, bool answer, struct deferred *d)
{
	struct urds_probe us;
	int rc;

	our_probe(p, &us);
	urds_lock_acquire(&h->append);
	rc = answer ? urds_path_tx_post(&h->tx, 0, URDS_PROBE_PORT, &us)
		    : urds_path_tx_post(&h->tx, URDS_PROBE_PORT, 0, &us);
	urds_lock_release(&h->append);
	if (rc < 0)
		urds_count(p->e, URDS_C_pong_dropped, 1);
	else
		urds_count(p->e, URDS_C_send_pong, 1);
	defer(d, DEFER_TRANSMIT, h, NULL);
}

static void restarted(struct peer *p, struct path *h)
{
	urds_count(p->e, URDS_C_peer_restarted, 1);
	urds_path_rx_restarted(&h->rx); /* its own probe told us: rx role held */
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *other = peer_path_if(p, i);

		if (other && other != h && !atomic_load(&other->link))
			other->rx.next_rx = 0;
	}
}

/* No memory for the path that an action is about: as if the network had failed. */
static void fail(struct peer *p, enum urds_peer_act a, unsigned slot, unsigned k,
		 struct urds_link *l, struct deferred *d)
{
	struct urds_peer_out more = {0};

	if (a == URDS_ACT_ATTACH)
		defer(d, DEFER_RESET, NULL, l);
	else if (a == URDS_ACT_PROMOTE)
		evict(p, k, DEFER_RESET, d);
	urds_fault_note(&p->core.fault, URDS_FAULT_DIAL, URDS_ENOMEM, urds_clock_ns());
	if (a == URDS_ACT_ATTACH || a == URDS_ACT_PROMOTE)
		urds_peer_down(&p->core, slot, urds_clock_ns(), urds_random64(), &more);
	else if (a == URDS_ACT_DIAL || a == URDS_ACT_KNOCK)
		urds_peer_dialled(&p->core, slot, false, urds_clock_ns(), urds_random64(), &more);
	conn_carry_out(p, &more, NULL, d);
}

void conn_carry_out(struct peer *p, const struct urds_peer_out *out, struct urds_link *l,
		    struct deferred *d)
{
	for (size_t i = 0; i < out->n; i++) {
		unsigned slot = out->v[i].slot, k = out->v[i].k;
		enum urds_peer_act a = (enum urds_peer_act)out->v[i].act;
		bool has_path = a != URDS_ACT_CLOSE && a != URDS_ACT_PARK && a != URDS_ACT_EVICT;
		struct path *h = has_path ? peer_path(p, slot) : NULL;

		if (has_path && !h) {
			fail(p, a, slot, k, l, d);
			continue;
		}
		switch (a) {
		case URDS_ACT_DIAL:
		case URDS_ACT_KNOCK:
			defer(d, DEFER_DIAL, h, NULL);
			break;
		case URDS_ACT_HANG_UP:
			if (h->dialling) {
				h->dialling->is_given_up = true;
				defer(d, DEFER_CLOSE, NULL, h->dialling);
			}
			h->dialling = NULL;
			break;
		case URDS_ACT_ATTACH:
			attach(p, h, l, d);
			break;
		case URDS_ACT_CLOSE:
			defer(d, DEFER_CLOSE, NULL, l);
			break;
		case URDS_ACT_PARK:
			park(p, k, l, d);
			break;
		case URDS_ACT_PROMOTE:
			promote(p, h, k, d);
			break;
		case URDS_ACT_EVICT:
			urds_count(p->e, URDS_C_conn_evicted, 1);
			evict(p, k, DEFER_CLOSE, d);
			break;
		case URDS_ACT_DROP:
			urds_count(p->e, URDS_C_peer_dead, 1);
			atomic_store(&h->must_drop, true);
			defer(d, DEFER_RECEIVE, h, NULL);
			break;
		case URDS_ACT_PROVEN:
			path_role_take(h);
			urds_lock_acquire(&h->append);
			urds_path_tx_proven(&h->tx);
			urds_lock_release(&h->append);
			urds_tx_role_pass(&h->role);
			defer(d, DEFER_TRANSMIT, h, NULL);
			break;
		case URDS_ACT_PROBE:
			post(p, h, false, d);
			break;
		case URDS_ACT_ANSWER:
			post(p, h, true, d);
			break;
		case URDS_ACT_KIND:
			atomic_store(&h->kind, urds_peer_slot(&p->core, slot)->kind);
			if (atomic_load(&h->kind) == URDS_KIND_URDS)
				h->rx.urds =
					true; /* only its own probes bring this: rx role held */
			atomic_store(&h->wants_sample, true);
			defer(d, DEFER_TRANSMIT, h, NULL);
			break;
		case URDS_ACT_RESTARTED:
			restarted(p, h);
			break;
		case URDS_ACT_UNDO:
			urds_path_rx_undo(
				&h->rx); /* only its own probes bring this: rx role held */
			break;
		case URDS_ACT_CHECK:
			defer(d, DEFER_CHECK, h, NULL);
			break;
		}
	}
}

void path_check(struct path *h)
{
	struct peer *p = h->peer;
	struct urds_link *l;
	uint64_t silence = 0;

	path_role_take(h);
	l = atomic_load(&h->link);
	if (l)
		silence = l->t->data->silence(l);
	path_role_leave(h);
	if (l && silence != URDS_UNKNOWN)
		PEER_EVENT(p, NULL,
			   urds_peer_silence(&p->core, h->slot, silence, urds_clock_ns(), &out));
}

void conn_do(struct peer *p, const struct deferred *d)
{
	for (size_t i = 0; i < d->n; i++) {
		struct urds_link *l = d->v[i].link;
		struct path *h = d->v[i].path;

		switch (d->v[i].kind) {
		case DEFER_DIAL:
			conn_dial(p, h);
			break;
		case DEFER_CLOSE:
			l->t->connect->close(l, URDS_CLOSE_NOW);
			break;
		case DEFER_RESET:
			l->t->connect->close(l, URDS_CLOSE_RESET);
			break;
		case DEFER_TRANSMIT:
			path_transmit(h);
			break;
		case DEFER_RECEIVE:
			path_receive(h);
			break;
		case DEFER_CHECK:
			path_check(h);
			break;
		case DEFER_PARKED:
			parked_readable(p, l);
			break;
		}
	}
}

void path_want(struct path *h)
{
	PEER_EVENT(h->peer, NULL, urds_peer_want(&h->peer->core, h->slot, urds_clock_ns(), &out));
}

void path_heard(struct path *h, bool has_probe)
{
	atomic_store(&h->rest_at, urds_clock_ns() + h->peer->e->cfg.rest_ns);
	PEER_EVENT(h->peer, NULL,
		   urds_peer_heard(&h->peer->core, h->slot, has_probe, urds_clock_ns(), &out));
}

void path_probed(struct path *h, enum urds_probe_sort sort, const struct urds_probe *probe)
{
	PEER_EVENT(h->peer, NULL,
		   urds_peer_probed(&h->peer->core, h->slot, sort, probe, urds_clock_ns(), &out));
}

/* Rx role held: why did @l end? Not asked for one that we wanted to end: who wanted it has said why. */
static enum urds_fault fault_of(const struct path *h, const struct urds_link *l)
{
	if (h->is_foreign || (!h->is_heard && h->rx.split.have > 0))
		return URDS_FAULT_NOT_RDS;
	if (l->end == URDS_LINK_EOF)
		return h->is_heard ? URDS_FAULT_CLOSED : URDS_FAULT_CLOSED_EARLY;
	return h->is_heard ? URDS_FAULT_LOST : URDS_FAULT_LOST_EARLY;
}

void path_end(struct path *h)
{
	struct peer *p = h->peer;
	struct urds_link *l;
	enum urds_close_how how = atomic_load(&h->must_drop) ? URDS_CLOSE_RESET : URDS_CLOSE_NOW;
	uint64_t read = URDS_UNKNOWN;
	enum urds_fault fault;
	int err = 0;

	path_role_take(h);
	l = atomic_load(&h->link);
	fault = fault_of(h, l);
	if (urds_fault_has_errno(fault))
		err = l->end_err ? l->end_err : -URDS_ECONNRESET;
	if (how == URDS_CLOSE_RESET || atomic_load(&h->is_ending))
		fault = URDS_FAULT_NONE;
	if (atomic_load(&h->kind) == URDS_KIND_KERNEL && how == URDS_CLOSE_NOW &&
	    l->end == URDS_LINK_EOF && !p->e->cfg.no_tcp_acks)
		read = l->t->data->acked(
			l); /* before the sample below, which tells owners at least as far */
	atomic_store(&h->wants_sample,
		     true); /* what TCP proves acknowledged is not sent again (W10) */
	path_release_acked(h, l);
	urds_lock_acquire(&h->append);
	if (read != URDS_UNKNOWN)
		urds_path_tx_read(&h->tx, read);
	urds_path_tx_down(&h->tx);
	atomic_store(&h->link, NULL);
	urds_lock_release(&h->append);
	urds_tx_role_pass(&h->role);
	urds_path_rx_reset(&h->rx);
	path_rx_idle(h, URDS_RX_KEEP_NONE);
	h->rx_posted = false;
	h->rx_link = NULL;
	atomic_store_explicit(&h->poll_key, 0, memory_order_relaxed);
	atomic_store(&h->must_drop, false);
	l->t->connect->close(l, how);
	urds_count(p->e, URDS_C_conn_reset, 1);
	if (h->slot == 0)
		peer_new_map(p,
			     NULL); /* what it said of its ports may not hold any more (C2, C3) */
	PEER_EVENT(p, NULL, {
		if (fault != URDS_FAULT_NONE)
			urds_fault_note(&p->core.fault, fault, err, urds_clock_ns());
		urds_peer_down(&p->core, h->slot, urds_clock_ns(), urds_random64(), &out);
	});
}

/* ---------------------------------------------------------------- parked connections */

void parked_readable(struct peer *p, struct urds_link *l)
{
	struct urds_link *close = NULL;
	unsigned k;

	urds_lock_acquire(&p->lock);
	for (k = 0; p->parked && k < URDS_PARKED_MAX && p->parked[k].link != l; k++)
		;
	if (p->parked && k < URDS_PARKED_MAX) {
		struct parked_link *q = &p->parked[k];
		enum urds_rx_how how = URDS_RX_WAIT;
		size_t got = 0;

		if (!q->buf)
			q->buf = urds_buf_new(&p->e->pool.mem, 1);
		while (q->buf && q->buf->used < urds_buf_cap(q->buf)) {
			struct urds_iov v = {urds_buf_data(q->buf) + q->buf->used,
					     urds_buf_cap(q->buf) - q->buf->used};

			how = l->t->data->rx(l, &v, 1, &got);
			if (how != URDS_RX_NOW)
				break;
			q->buf->used += (uint32_t)got;
		}
		if (q->buf && q->buf->used == 0) {
			urds_buf_drop(q->buf);
			q->buf = NULL;
		}
		if (how == URDS_RX_ENDED && !q->buf) {
			/* It brought nothing: nobody misses it. One that brought bytes keeps its place in
			 * the queue: they may be messages its sender counts as delivered (A2). */
			close = l;
			unpark(p, k);
			urds_peer_unparked(&p->core, k);
		}
	}
	urds_lock_release(&p->lock);
	if (close)
		l->t->connect->close(l, URDS_CLOSE_NOW);
}

/* ---------------------------------------------------------------- from outside */

void peer_tick(struct peer *p, urds_ns now)
{
	PEER_EVENT(p, NULL, urds_peer_tick(&p->core, peer_pending(p), now, urds_random64(), &out));
}

unsigned peer_reset(struct peer *p)
{
	unsigned n = 0;

	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, true);
		struct conn_news news;
		struct urds_link *l;

		if (!h)
			continue;
		path_role_take(h);
		l = atomic_load(&h->link);
		if (l && atomic_load(&h->kind) == URDS_KIND_URDS) {
			/* End-to-end acks: whatever is lost on the way is sent again. */
			atomic_store(&h->must_drop, true);
		} else if (l) {
			/* A kernel counts what our TCP acknowledged as delivered: end our direction and read
			 * to its end (A1). */
			atomic_store(&h->is_ending, true);
			l->t->connect->shutdown(l);
		}
		path_role_leave(h);
		if (!l)
			continue;
		n++;
		urds_lock_acquire(&p->lock);
		conn_news_begin(&news, p);
		urds_fault_note(&p->core.fault, URDS_FAULT_RESET, 0, urds_clock_ns());
		conn_news_end(&news, p);
		if (atomic_load(&h->is_ending))
			h->end_by = urds_clock_ns() + URDS_SEC(5);
		urds_lock_release(&p->lock);
		conn_news_tell(&news);
		if (atomic_load(&h->is_ending))
			peer_rearm(p, urds_clock_ns());
		path_receive(h);
	}
	return n;
}
