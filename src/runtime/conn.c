/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections: feeds what happens to links into core's connection policy and carries out its answers.
 *
 * A core event runs under the peer's lock. What its actions do to the peer is done there; what leaves the
 * peer (dialling, closing, transmitting) is listed and done after the lock is released, because a
 * transport may answer at once.
 */
#include "runtime/conn_news.h"
#include "runtime/engine.h"
#include "runtime/eventlog.h"

#include <assert.h>

#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/futex.h"
#include "platform/random.h"

enum todo_kind {
	TODO_DIAL,
	TODO_CLOSE,
	TODO_RESET,
	TODO_TRANSMIT,
	TODO_RECEIVE,
	TODO_CHECK,
	TODO_PARKED
};

struct todo {
	size_t n;
	struct {
		enum todo_kind kind;
		struct path *path;
		struct urds_link *link;
	} v[64];
};

static void add(struct todo *t, enum todo_kind kind, struct path *path, struct urds_link *link)
{
	assert(t->n < sizeof t->v / sizeof t->v[0]);
	t->v[t->n].kind = kind;
	t->v[t->n].path = path;
	t->v[t->n++].link = link;
}

/* A link's user is its peer, marked with the slot, or PARKED. */
#define MARKS 15u
#define PARKED 8u

static void *marked(struct peer *p, unsigned mark)
{
	return (char *)p + mark;
}

static struct peer *peer_of(void *user)
{
	return (struct peer *)(void *)((char *)user - ((uintptr_t)user & MARKS));
}

static unsigned mark_of(void *user)
{
	return (unsigned)((uintptr_t)user & MARKS);
}

/* The path of a link, woken if it rested, with a reference on its peer for the caller; NULL: no memory. */
static struct path *path_of(struct urds_link *l)
{
	struct peer *p = peer_of(l->user);
	struct path *h;

	urds_lock_acquire(&p->lock);
	h = peer_path_awake(p, mark_of(l->user));
	if (h)
		peer_hold(p);
	else
		p->rest.is_missed = true;
	urds_lock_release(&p->lock);
	return h;
}

static void our_probe(struct peer *p, struct urds_probe *out)
{
	urds_peer_probe(&p->core, p->e->incarnation, out);
}

static void role_take(struct urds_tx_role *r)
{
	for (unsigned spins = 0; !urds_tx_role_enter(r); spins++) {
		if (spins < 100) {
			urds_cpu_pause();
			continue;
		}
		/* The holder lost its CPU: let it run. */
		urds_futex_wait(&r->word, atomic_load_explicit(&r->word, memory_order_relaxed),
				urds_clock_ns() + URDS_US(50));
	}
}

void path_role_take(struct path *h)
{
	role_take(&h->role);
}

void path_role_leave(struct path *h)
{
	if (urds_tx_role_pass(&h->role))
		path_transmit(h);
}

void path_rx_role_take(struct path *h)
{
	role_take(&h->rx_role);
}

void path_rx_role_leave(struct path *h)
{
	if (urds_tx_role_pass(&h->rx_role))
		path_receive(h);
}

/* Peer lock held; the slot has no link. */
static void attach(struct peer *p, struct path *h, struct urds_link *l, struct todo *t)
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
	add(t, TODO_TRANSMIT, h, NULL);
	add(t, TODO_RECEIVE, h, NULL);
}

static void park(struct peer *p, unsigned k, struct urds_link *l, struct todo *t)
{
	if (!p->parked)
		p->parked = urds_alloc(&p->e->pool.mem, URDS_PARKED_MAX * sizeof *p->parked);
	if (!p->parked) {
		urds_peer_unparked(&p->core, k);
		add(t, TODO_RESET, NULL, l);
		return;
	}
	urds_count(p->e, URDS_C_conn_parked, 1);
	p->parked[k] = (struct parked_link){.link = l};
	peer_hold(p);
	l->user = marked(p, PARKED);
	add(t, TODO_PARKED, NULL, l);
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

static void evict(struct peer *p, unsigned k, enum todo_kind how, struct todo *t)
{
	add(t, how, NULL, p->parked[k].link);
	urds_buf_drop(p->parked[k].buf);
	unpark(p, k);
}

/* Peer lock held, the rx role perhaps not: by path_end(), the timer, or a probe on another path. The slot is DOWN for
 * core, so path_end() of its last connection has reset the receive half and touches it no more; and whoever holds
 * the role leaves it alone until it finds the link, which attach() sets last. */
static void promote(struct peer *p, struct path *h, unsigned k, struct todo *t)
{
	struct parked_link q = p->parked[k];

	assert(!h->rx.chunk && !h->rx.body);
	unpark(p, k);
	urds_count(p->e, URDS_C_conn_promoted, 1);
	h->rx.chunk = q.buf;
	h->rx.parsed = 0;
	attach(p, h, q.link, t);
	ready_push(h); /* its bytes, or its end, were reported already */
}

static void post(struct peer *p, struct path *h, bool answer, struct todo *t)
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
	add(t, TODO_TRANSMIT, h, NULL);
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

static void carry_out(struct peer *p, const struct urds_peer_out *out, struct urds_link *l,
		      struct todo *t);

/* No memory for the path that an action is about: as if the network had failed. */
static void fail(struct peer *p, enum urds_peer_act a, unsigned slot, unsigned k,
		 struct urds_link *l, struct todo *t)
{
	struct urds_peer_out more = {0};

	if (a == URDS_ACT_ATTACH)
		add(t, TODO_RESET, NULL, l);
	else if (a == URDS_ACT_PROMOTE)
		evict(p, k, TODO_RESET, t);
	urds_fault_note(&p->core.fault, URDS_FAULT_DIAL, URDS_ENOMEM, urds_clock_ns());
	if (a == URDS_ACT_ATTACH || a == URDS_ACT_PROMOTE)
		urds_peer_down(&p->core, slot, urds_clock_ns(), urds_random64(), &more);
	else if (a == URDS_ACT_DIAL || a == URDS_ACT_KNOCK)
		urds_peer_dialled(&p->core, slot, false, urds_clock_ns(), urds_random64(), &more);
	carry_out(p, &more, NULL, t);
}

/* Peer lock held. @l: the link the event was about, or NULL. */
static void carry_out(struct peer *p, const struct urds_peer_out *out, struct urds_link *l,
		      struct todo *t)
{
	for (size_t i = 0; i < out->n; i++) {
		unsigned slot = out->v[i].slot, k = out->v[i].k;
		enum urds_peer_act a = (enum urds_peer_act)out->v[i].act;
		bool has_path = a != URDS_ACT_CLOSE && a != URDS_ACT_PARK && a != URDS_ACT_EVICT;
		struct path *h = has_path ? peer_path(p, slot) : NULL;

		if (has_path && !h) {
			fail(p, a, slot, k, l, t);
			continue;
		}
		switch (a) {
		case URDS_ACT_DIAL:
		case URDS_ACT_KNOCK:
			add(t, TODO_DIAL, h, NULL);
			break;
		case URDS_ACT_HANG_UP:
			if (h->dialling) {
				h->dialling->is_given_up = true;
				add(t, TODO_CLOSE, NULL, h->dialling);
			}
			h->dialling = NULL;
			break;
		case URDS_ACT_ATTACH:
			attach(p, h, l, t);
			break;
		case URDS_ACT_CLOSE:
			add(t, TODO_CLOSE, NULL, l);
			break;
		case URDS_ACT_PARK:
			park(p, k, l, t);
			break;
		case URDS_ACT_PROMOTE:
			promote(p, h, k, t);
			break;
		case URDS_ACT_EVICT:
			urds_count(p->e, URDS_C_conn_evicted, 1);
			evict(p, k, TODO_CLOSE, t);
			break;
		case URDS_ACT_DROP:
			urds_count(p->e, URDS_C_peer_dead, 1);
			atomic_store(&h->must_drop, true);
			add(t, TODO_RECEIVE, h, NULL);
			break;
		case URDS_ACT_PROVEN:
			path_role_take(h);
			urds_lock_acquire(&h->append);
			urds_path_tx_proven(&h->tx);
			urds_lock_release(&h->append);
			urds_tx_role_pass(&h->role);
			add(t, TODO_TRANSMIT, h, NULL);
			break;
		case URDS_ACT_PROBE:
			post(p, h, false, t);
			break;
		case URDS_ACT_ANSWER:
			post(p, h, true, t);
			break;
		case URDS_ACT_KIND:
			atomic_store(&h->kind, urds_peer_slot(&p->core, slot)->kind);
			if (atomic_load(&h->kind) == URDS_KIND_URDS)
				h->rx.urds =
					true; /* only its own probes bring this: rx role held */
			atomic_store(&h->wants_sample, true);
			add(t, TODO_TRANSMIT, h, NULL);
			break;
		case URDS_ACT_RESTARTED:
			restarted(p, h);
			break;
		case URDS_ACT_UNDO:
			urds_path_rx_undo(
				&h->rx); /* only its own probes bring this: rx role held */
			break;
		case URDS_ACT_CHECK:
			add(t, TODO_CHECK, h, NULL);
			break;
		}
	}
}

static void do_todo(struct peer *p, struct todo *t);

#define PEER_EVENT(p, link, call)                    \
	do {                                         \
		struct urds_peer_out out = {0};      \
		struct todo todo = {0};              \
		struct conn_news news;               \
		urds_lock_acquire(&(p)->lock);       \
		conn_news_begin(&news, (p));         \
		call;                                \
		carry_out((p), &out, (link), &todo); \
		conn_news_end(&news, (p));           \
		urds_lock_release(&(p)->lock);       \
		conn_news_tell(&news);               \
		do_todo((p), &todo);                 \
		peer_rearm((p), urds_clock_ns());    \
	} while (0)

/* In memory if the other address is ours too by now. */
static struct urds_transport *transport_of(struct peer *p)
{
	urds_rwlock_read_acquire(&p->e->table);
	p->is_loop = node_find(p->e, &p->core.remote) != NULL;
	urds_rwlock_read_release(&p->e->table);
	return p->is_loop ? p->e->loop : p->e->tcp;
}

/* A thread inside the transport's dial(). A link may be answered, and closed again, before that returns it: it then
 * lies in one of these, not necessarily that of its own thread. */
struct dial_call {
	struct dial_call *next;
	struct urds_link *answered;
};

/* Peer lock held. @l was answered, and its dial() has not returned. */
static void put_answered(struct path *h, struct urds_link *l)
{
	struct dial_call *d = h->dials;

	while (d->answered) /* one of them is @l's own, and each has at most one answer */
		d = d->next;
	d->answered = l;
}

/* Peer lock held. The dial() of @d returned @l (NULL: an error). Return: was it answered already? Then it may be gone. */
static bool dial_returned(struct path *h, struct dial_call *d, struct urds_link *l)
{
	struct dial_call **at;
	bool was = false;

	for (struct dial_call *c = h->dials; l && c && !was; c = c->next) {
		was = c->answered == l;
		if (was)
			c->answered = NULL;
	}
	for (at = &h->dials; *at != d; at = &(*at)->next)
		;
	*at = d->next;
	if (d->answered)
		put_answered(h, d->answered);
	return was;
}

static void dial(struct peer *p, struct path *h)
{
	struct urds_transport *t = transport_of(p);
	struct urds_link *l = NULL, *close = NULL;
	bool off = atomic_load(&p->e->is_closing);
	int lane = urds_peer_dials(&p->core) ? h->slot : -1;
	struct dial_call call = {0};
	bool has_pending, is_proven;
	int rc;

	peer_hold(p); /* until on_closed() */
	urds_lock_acquire(&p->lock);
	call.next = h->dials;
	h->dials = &call;
	has_pending = peer_pending(p) != 0;
	is_proven = p->core.is_proven;
	urds_lock_release(&p->lock);
	if (!off)
		eventlog(EVENTLOG_INFO, lane < 0 ? "knock" : "connect", &p->core.local,
			 &p->core.remote, " path=%u reason=\"%s\"", h->slot,
			 has_pending ? "messages wait"
			 : is_proven ? "the last one was lost"
				     : "the peer asks for it");
	rc = off ? -URDS_ECANCELED
		 : t->connect->dial(t, &p->core.local, &p->core.remote, lane, marked(p, h->slot),
				    &l);
	urds_lock_acquire(&p->lock);
	if (!dial_returned(h, &call, rc < 0 ? NULL : l) && rc == 0) {
		unsigned state = urds_peer_slot(&p->core, h->slot)->state;

		if (!h->dialling && (state == URDS_SLOT_DIALLING || state == URDS_SLOT_KNOCKING)) {
			h->dialling = l;
		} else {
			l->is_given_up = true;
			close = l;
		}
	}
	urds_lock_release(&p->lock);
	if (close)
		t->connect->close(close, URDS_CLOSE_NOW);
	if (rc < 0) {
		peer_drop(p);
		PEER_EVENT(p, NULL, {
			if (!off)
				urds_fault_note(&p->core.fault, URDS_FAULT_DIAL, rc,
						urds_clock_ns());
			urds_peer_dialled(&p->core, h->slot, false, urds_clock_ns(),
					  urds_random64(), &out);
		});
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

static void do_todo(struct peer *p, struct todo *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct urds_link *l = t->v[i].link;
		struct path *h = t->v[i].path;

		switch (t->v[i].kind) {
		case TODO_DIAL:
			dial(p, h);
			break;
		case TODO_CLOSE:
			l->t->connect->close(l, URDS_CLOSE_NOW);
			break;
		case TODO_RESET:
			l->t->connect->close(l, URDS_CLOSE_RESET);
			break;
		case TODO_TRANSMIT:
			path_transmit(h);
			break;
		case TODO_RECEIVE:
			path_receive(h);
			break;
		case TODO_CHECK:
			path_check(h);
			break;
		case TODO_PARKED:
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

/* ---------------------------------------------------------------- the sink */

static void on_readable(struct urds_link *l, bool ended)
{
	void *user = l->user;
	struct path *h;

	if (!user)
		return; /* not placed yet: whoever places it reads */
	if (mark_of(user) == PARKED) {
		parked_readable(peer_of(user), l);
		user = l->user;
		if (mark_of(user) == PARKED)
			return;
		/* It became a path's meanwhile, and what we were told, that it has ended for instance, is its. */
	}
	h = path_of(l);
	if (!h) { /* no memory for it: as if the network had failed, when there is some */
		timer_earlier(peer_of(user), urds_clock_ns() + URDS_MS(10));
		return;
	}
	if (ended)
		atomic_store_explicit(&h->rx_ended, true, memory_order_release);
	path_receive(h);
	peer_drop(h->peer);
}

static void on_writable(struct urds_link *l)
{
	void *user = l->user;
	struct path *h = user && mark_of(user) != PARKED ? path_of(l) : NULL;

	if (!h)
		return;
	path_transmit(h);
	peer_drop(h->peer);
}

static void on_rx(struct urds_link *l, size_t got)
{
	struct path *h = path_of(l);

	if (!h)
		return;
	atomic_store(&h->rx_completed, got + 1);
	path_receive(h);
	peer_drop(h->peer);
}

static void on_tx_released(struct urds_link *l, size_t bytes)
{
	/* Every transport here copies what it takes; one that does not will keep the log's mark. */
}

static void on_connected(struct urds_link *l, int err)
{
	struct path *h = path_of(l); /* there: it does not rest while it dials */
	struct peer *p = h->peer;

	PEER_EVENT(p, l, {
		bool is_stale = h->dialling && h->dialling != l;

		if (!l->is_given_up) {
			if (h->dialling == l)
				h->dialling = NULL;
			else
				put_answered(h, l);
			if (err < 0 || is_stale)
				add(&todo, TODO_CLOSE, NULL, l);
			if (err < 0 && !is_stale)
				urds_fault_note(&p->core.fault, URDS_FAULT_DIAL, err,
						urds_clock_ns());
			if (!is_stale)
				urds_peer_dialled(&p->core, h->slot, err == 0, urds_clock_ns(),
						  urds_random64(), &out);
		}
	});
	peer_drop(p);
}

static void on_accept(struct urds_listener *ls, struct urds_link *l, const struct urds_addr *from,
		      uint16_t from_port)
{
	struct node *n = ls->user;
	struct urds_ctx *e = n->e;
	struct peer *p = NULL;
	bool ours, is_allowed = peer_is_allowed(e, from);

	urds_rwlock_read_acquire(&e->table);
	/* Our own addresses talk in memory; a TCP connection between two of them is a stranger's. */
	ours = ls == n->tcp && node_find(e, from) != NULL;
	urds_rwlock_read_release(&e->table);
	if (!ours && !atomic_load(&e->is_closing) && is_allowed)
		p = peer_get(n, from);
	if (!p) {
		urds_count(e, URDS_C_conn_refused, 1);
		eventlog(EVENTLOG_WARN, "refused", &n->addr, from, " reason=\"%s\"",
			 ours	       ? "a TCP connection from an address of this process"
			 : !is_allowed ? "in none of the networks of URDS_PEERS"
			 : atomic_load(&e->is_closing) ? "this process ends"
						       : "no room for another peer");
		l->t->connect->close(l, URDS_CLOSE_RESET);
		return;
	}
	/* The end of a connection that this one replaces may be there to be read. */
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, true);

		if (h)
			path_receive(h);
	}
	PEER_EVENT(p, l, urds_peer_accepted(&p->core, from_port, urds_clock_ns(), &out));
	peer_collect(p);
	peer_drop(p);
}

static void on_closed(struct urds_link *l)
{
	void *user = l->user;
	struct peer *p;

	if (!user)
		return;
	p = peer_of(user);
	peer_collect(p);
	peer_drop(p);
}

const struct urds_link_sink engine_sink = {.on_readable = on_readable,
					   .on_writable = on_writable,
					   .on_rx = on_rx,
					   .on_tx_released = on_tx_released,
					   .on_connected = on_connected,
					   .on_accept = on_accept,
					   .on_closed = on_closed};

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
