/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a peer does when its time comes: one timer each, for policy, acknowledgements, polling and rest.
 */
#include "runtime/engine.h"

#include "platform/clock.h"

unsigned peer_pending(struct peer *p)
{
	unsigned pending = 0;

	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);

		if (h && urds_log_has_pending(&h->tx.log))
			pending |= 1u << i;
	}
	return pending;
}

/* Peer lock held. The flags are set by whoever transmits or receives; the instants are kept here. */
static void arm_path(struct path *h)
{
	if (h->poll_at == URDS_NEVER && atomic_load(&h->poll_armed))
		h->poll_at = atomic_load_explicit(&h->poll_due, memory_order_relaxed);
	if (h->ack_at == URDS_NEVER && atomic_load(&h->ack_timer))
		h->ack_at = atomic_load_explicit(&h->ack_due, memory_order_relaxed);
}

void peer_rearm(struct peer *p, urds_ns now)
{
	urds_ns at;

	urds_lock_acquire(&p->lock);
	at = urds_peer_deadline(&p->core, peer_pending(p));
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);

		if (!h)
			continue;
		arm_path(h);
		at = h->poll_at < at ? h->poll_at : at;
		at = h->ack_at < at ? h->ack_at : at;
		at = h->end_by < at ? h->end_by : at;
		at = atomic_load(&h->rest_at) < at ? atomic_load(&h->rest_at) : at;
	}
	urds_lock_release(&p->lock);
	/* Never later than what is set: others arm it without this lock. A timer that comes too early
	 * finds nothing to do and comes here again. */
	if (at != URDS_NEVER)
		timer_earlier(p, at);
}

/* Something is unacknowledged: look from time to time. */
static void poll_path(struct peer *p, struct path *h, urds_ns now)
{
	urds_ns step = URDS_ACK_POLL_MIN_NS << h->poll_shift;

	if (h->poll_at > now)
		return;
	if (atomic_load(&h->wants_room)) {
		step = URDS_ROOM_POLL_NS;
		h->poll_shift = 0;
	}
	h->poll_at = URDS_NEVER;
	if (!atomic_load(&h->link) || !(peer_pending(p) & (1u << h->slot))) {
		h->poll_shift = 0;
		atomic_store(&h->poll_armed, false);
		return;
	}
	if (step < URDS_ACK_POLL_MIN_NS)
		;
	else if (step < URDS_ACK_POLL_MAX_NS)
		h->poll_shift++;
	else
		step = URDS_ACK_POLL_MAX_NS;
	h->poll_at = now + step;
}

/* Something came for a path that rested, and there was no memory to wake it. */
static void read_missed(struct peer *p, urds_ns now)
{
	struct path *h = NULL;
	bool again;

	urds_lock_acquire(&p->lock);
	if (p->rest.is_missed)
		h = peer_path_awake(p, 0);
	again = p->rest.is_missed && !h;
	p->rest.is_missed = again;
	urds_lock_release(&p->lock);
	if (again)
		timer_earlier(p, now + URDS_MS(10));
	else if (h)
		path_receive(h);
}

void peer_timer(struct peer *p, urds_ns now)
{
	struct path *poll[URDS_PATHS_MAX], *ack[URDS_PATHS_MAX], *end[URDS_PATHS_MAX];
	unsigned npoll = 0, nack = 0, nend = 0;

	urds_lock_acquire(&p->lock);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);

		if (!h)
			continue;
		arm_path(h);
		if (atomic_load(&h->wants_room) && h->poll_at != URDS_NEVER)
			h->poll_at = now;
		if (h->poll_at <= now) {
			poll_path(p, h, now);
			if (h->poll_at != URDS_NEVER)
				poll[npoll++] = h;
		}
		if (h->ack_at <= now) {
			h->ack_at = URDS_NEVER;
			ack[nack++] = h;
		}
		if (h->end_by <= now) {
			h->end_by = URDS_NEVER;
			end[nend++] = h;
		}
	}
	urds_lock_release(&p->lock);
	for (unsigned i = 0; i < nend; i++) {
		atomic_store(&end[i]->must_drop, true);
		path_receive(end[i]);
	}
	for (unsigned i = 0; i < nack; i++) {
		atomic_store(&ack[i]->ack_timer, false);
		if (atomic_load(&ack[i]->rx_unacked) == 0 &&
		    !(atomic_load(&ack[i]->tx.want) & URDS_WANT_ACK))
			continue;
		urds_path_tx_want_ack(&ack[i]->tx);
		path_transmit(ack[i]);
	}
	for (unsigned i = 0; i < npoll; i++) {
		atomic_store(&poll[i]->wants_sample, true);
		path_transmit(poll[i]);
		path_check(poll[i]);
	}
	peer_rest(p, now);
	peer_tick(p, now);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, false);

		if (h && atomic_load(&h->is_ready))
			path_receive(h); /* was put off for want of memory */
	}
	read_missed(p, now);
}
