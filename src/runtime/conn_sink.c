/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What transports tell of links, and whose each is.
 */
#include "runtime/conn.h"

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

	conn_answered(h, l, err);
	peer_drop(h->peer);
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
