/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Making connections: dial() of a transport, and its answer, which may come before it returns.
 */
#include "runtime/conn.h"

#include "platform/random.h"

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

void conn_dial(struct peer *p, struct path *h)
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

void conn_answered(struct path *h, struct urds_link *l, int err)
{
	struct peer *p = h->peer;

	PEER_EVENT(p, l, {
		bool is_stale = h->dialling && h->dialling != l;

		if (!l->is_given_up) {
			if (h->dialling == l)
				h->dialling = NULL;
			else
				put_answered(h, l);
			if (err < 0 || is_stale)
				defer(&later, DEFER_CLOSE, NULL, l);
			if (err < 0 && !is_stale)
				urds_fault_note(&p->core.fault, URDS_FAULT_DIAL, err,
						urds_clock_ns());
			if (!is_stale)
				urds_peer_dialled(&p->core, h->slot, err == 0, urds_clock_ns(),
						  urds_random64(), &out);
		}
	});
}
