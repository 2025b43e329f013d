/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Carrying out a peer's actions; bytes in and out.
 */
#include "host_priv.h"

#include <assert.h>
#include <stdio.h>

enum { ROLE_NEW, ROLE_DIAL, ROLE_PATH, ROLE_PARKED };

static void receive(struct hpeer *hp, unsigned slot);
static void lose(struct hpeer *hp, unsigned slot);
static void new_map(struct hpeer *hp, const uint8_t *now);

struct urds_addr sim_addr(unsigned last)
{
	struct urds_addr a = {
		.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, (uint8_t)last}};

	return a;
}

struct hpeer *host_peer(struct host *h, const struct urds_addr *a)
{
	struct hpeer **p = h->peers;

	for (; p < h->peers + HOST_PEERS && *p; p++)
		if (urds_addr_eq(&(*p)->peer.remote, a))
			return *p;
	assert(p < h->peers + HOST_PEERS);
	*p = calloc(1, sizeof **p);
	(*p)->host = h;
	urds_peer_init(&(*p)->peer, &h->mem.m, &h->v.addr, a, h->conf.paths, h->conf.ext);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		/* W2: time-based. A clock of seconds and some is what survives a restart. */
		urds_path_tx_init(&(*p)->path[i].tx, &h->mem.m,
				  h->v.sim->now + UINT64_C(0xffffff00), i == 0);
		urds_path_rx_init(&(*p)->path[i].rx, &h->mem.m);
	}
	return *p;
}

static urds_ns now_of(const struct hpeer *hp)
{
	return hp->host->v.sim->now;
}

static uint64_t rnd_of(const struct hpeer *hp)
{
	return sim_rnd(hp->host->v.sim);
}

static enum urds_peer_kind kind_of(const struct hpeer *hp, unsigned slot)
{
	return (enum urds_peer_kind)urds_peer_slot(&hp->peer, slot)->kind;
}

static void own(struct vend *e, struct hpeer *hp, int role, unsigned idx)
{
	e->owner = hp;
	e->role = role;
	e->idx = idx;
}

/* ---- send side ---- */

static void freed(struct hpeer *hp, unsigned slot, struct urds_log_freed_list *f)
{
	urds_path_tx_freed(&hp->path[slot].tx, f);
	for (size_t i = 0; i < f->n; i++) {
		struct hsock *s = f->v[i].owner;

		assert(s->txq.queued >= f->v[i].bytes);
		s->txq.queued -= f->v[i].bytes;
	}
}

void host_ack_pos(struct hpeer *hp, unsigned slot)
{
	struct hpath *pa = &hp->path[slot];
	struct urds_log_freed_list f;
	bool more;

	if (!pa->link || kind_of(hp, slot) != URDS_KIND_KERNEL)
		return;
	do {
		more = urds_path_tx_acked(&pa->tx, v_acked(pa->link), now_of(hp), &f);
		freed(hp, slot, &f);
	} while (more);
}

static void ack_seq(struct hpeer *hp, unsigned slot, uint64_t seq)
{
	struct urds_log_freed_list f;
	bool more;

	do {
		more = urds_log_ack_seq(&hp->path[slot].tx.log, seq, &f);
		freed(hp, slot, &f);
	} while (more);
}

void host_transmit(struct hpeer *hp, unsigned slot)
{
	struct hpath *pa = &hp->path[slot];
	struct host *h = hp->host;
	struct urds_iov iov[URDS_TX_IOV_MAX];
	struct urds_probe us;
	struct urds_tx_done done;
	struct urds_tx_env env = {
		.map = urds_localmap_bits(&h->map), .map_gen = h->map.gen, .us = &us};

	if (!pa->link)
		return;
	urds_peer_probe(&hp->peer, h->incarnation, &us);
	for (;;) {
		size_t bytes, took = 0, n;
		uint64_t ack;

		env.ack = kind_of(hp, slot) == URDS_KIND_URDS ? pa->ack : 0;
		env.want_ack = kind_of(hp, slot) == URDS_KIND_URDS && sim_below(h->v.sim, 4) == 0;
		n = urds_path_tx_gather(&pa->tx, &env, iov, URDS_TX_IOV_MAX, &bytes, &ack);
		for (size_t i = 0; i < n; i++) {
			size_t k = v_write(pa->link, iov[i].base, iov[i].len);

			took += k;
			if (k < iov[i].len)
				break;
		}
		urds_path_tx_taken(&pa->tx, took, &done);
		if (bytes > 0)
			TRACE(h->v.sim,
			      "%u: slot %u: wrote %zu of %zu, %u new, %u again, tail %llu next %llu",
			      h->v.addr.ip[15], slot, took, bytes, done.sent, done.retransmitted,
			      (unsigned long long)pa->tx.log.tail_seq & 0xffff,
			      (unsigned long long)pa->tx.log.next_seq & 0xffff);
		h->sent += done.sent;
		h->retransmitted += done.retransmitted;
		if (took == bytes && ack && ack == env.ack) {
			pa->unacked = 0;
			pa->ack_at = URDS_NEVER;
		}
		if (bytes == 0 || took < bytes || !urds_path_tx_has_more(&pa->tx, &env))
			break;
	}
	ack_seq(hp, slot, 0); /* clears away what was cancelled */
}

/* ---- a path's connection comes and goes ---- */

static void attach(struct hpeer *hp, unsigned slot, struct vend *link)
{
	struct hpath *pa = &hp->path[slot];
	struct urds_probe us;

	assert(!pa->link && link);
	pa->link = link;
	own(link, hp, ROLE_PATH, slot);
	pa->ack_at = URDS_NEVER;
	pa->unacked = 0;
	urds_peer_probe(&hp->peer, hp->host->incarnation, &us);
	urds_path_tx_up(&pa->tx,
			urds_peer_slot(&hp->peer, slot)->state == URDS_SLOT_HELD
				? URDS_HOLD_MESSAGES
			: urds_peer_slot(&hp->peer, slot)->is_held ? URDS_HOLD_ALL
								   : URDS_HOLD_NOTHING,
			&us);
	host_transmit(hp, slot);
	receive(hp, slot);
	if (pa->link == link && v_ended(link))
		lose(hp, slot);
}

static void lose(struct hpeer *hp, unsigned slot)
{
	struct hpath *pa = &hp->path[slot];
	struct urds_peer_out out = {0};
	struct vend *link = pa->link;

	if (!link)
		return;
	receive(hp, slot);
	if (pa->link != link)
		return;
	host_ack_pos(hp, slot);
	if (kind_of(hp, slot) == URDS_KIND_KERNEL && !link->is_reset && v_ended(link))
		urds_path_tx_read(&pa->tx, v_acked(link));
	pa->link = NULL;
	v_close(link, false);
	urds_path_tx_down(&pa->tx);
	urds_path_rx_reset(&pa->rx);
	if (slot == 0)
		new_map(hp, NULL);
	hp->host->drops++;
	urds_peer_down(&hp->peer, slot, now_of(hp), rnd_of(hp), &out);
	host_do_out(hp, &out, NULL);
}

static void new_map(struct hpeer *hp, const uint8_t *now)
{
	struct urds_congmap_diff d;
	uint8_t *was;

	if (urds_remotemap_update(&hp->map, &hp->host->mem.m, now, &was, &d) == 0)
		urds_remotemap_free_old(&hp->host->mem.m, was);
}

static void post(struct hpeer *hp, unsigned slot, uint16_t sport, uint16_t dport, bool has_ext)
{
	struct urds_probe us;

	urds_peer_probe(&hp->peer, hp->host->incarnation, &us);
	if (urds_path_tx_post(&hp->path[slot].tx, sport, dport, has_ext ? &us : NULL) < 0)
		hp->host->nomem++;
	host_transmit(hp, slot);
}

static const char *const act_name[] = {
	"dial", "knock",  "hang up", "attach", "close", "park",	     "promote", "evict",
	"drop", "proven", "probe",   "answer", "kind",	"restarted", "check",	"undo"};

void host_do_out(struct hpeer *hp, struct urds_peer_out *out, struct vend *link)
{
	struct host *h = hp->host;

	for (size_t i = 0; i < out->n; i++) {
		unsigned slot = out->v[i].slot, k = out->v[i].k;
		struct urds_peer_out more = {0};
		struct vend *e;

		TRACE(h->v.sim, "%u: act %s slot %u k %u", h->v.addr.ip[15],
		      act_name[out->v[i].act], slot, k);

		switch ((enum urds_peer_act)out->v[i].act) {
		case URDS_ACT_DIAL:
		case URDS_ACT_KNOCK:
			assert(!hp->dial[slot]);
			hp->dial[slot] =
				v_dial(&h->v, &hp->peer.remote,
				       (uint16_t)(32768 + 8 * sim_below(h->v.sim, 3500) + slot));
			own(hp->dial[slot], hp, ROLE_DIAL, slot);
			break;
		case URDS_ACT_HANG_UP:
			v_close(hp->dial[slot], false);
			hp->dial[slot] = NULL;
			break;
		case URDS_ACT_ATTACH:
			attach(hp, slot, link);
			break;
		case URDS_ACT_CLOSE:
			v_close(link, false);
			break;
		case URDS_ACT_PARK:
			assert(!hp->parked[k]);
			hp->parked[k] = link;
			own(link, hp, ROLE_PARKED, k);
			break;
		case URDS_ACT_PROMOTE:
			e = hp->parked[k];
			hp->parked[k] = NULL;
			attach(hp, slot, e);
			break;
		case URDS_ACT_EVICT:
			v_close(hp->parked[k], false);
			hp->parked[k] = NULL;
			h->evicted++;
			break;
		case URDS_ACT_DROP:
			lose(hp, slot);
			break;
		case URDS_ACT_PROVEN:
			if (hp->path[slot].link)
				urds_path_tx_proven(&hp->path[slot].tx);
			host_transmit(hp, slot);
			break;
		case URDS_ACT_PROBE:
			post(hp, slot, URDS_PROBE_PORT, 0, true);
			break;
		case URDS_ACT_ANSWER:
			post(hp, slot, 0, URDS_PROBE_PORT, true);
			break;
		case URDS_ACT_KIND:
			hp->path[slot].rx.urds = kind_of(hp, slot) == URDS_KIND_URDS;
			hp->path[slot].ack = urds_path_rx_ack(&hp->path[slot].rx);
			urds_path_tx_want_ack(&hp->path[slot].tx);
			host_ack_pos(hp, slot);
			host_transmit(hp, slot);
			break;
		case URDS_ACT_RESTARTED:
			urds_path_rx_restarted(&hp->path[slot].rx);
			for (unsigned s = 0; s < URDS_PATHS_MAX; s++)
				if (s != slot)
					hp->path[s].rx.next_rx = 0;
			hp->stale++;
			break;
		case URDS_ACT_UNDO:
			urds_path_rx_undo(&hp->path[slot].rx);
			break;
		case URDS_ACT_CHECK:
			if (!hp->path[slot].link)
				break;
			urds_peer_silence(&hp->peer, slot, v_silence(hp->path[slot].link),
					  h->v.sim->now, &more);
			host_do_out(hp, &more, NULL);
			break;
		}
	}
	out->n = 0;
}

/* ---- receive side ---- */

static void flip(struct host *h, uint16_t port, bool congested)
{
	if (urds_localmap_flip(&h->map, &h->mem.m, port, congested) != 1)
		return;
	for (unsigned i = 0; i < HOST_PEERS && h->peers[i]; i++)
		host_transmit(h->peers[i], 0);
}

void host_read_all(struct host *h, struct hsock *s)
{
	struct urds_rxq_ent e;

	while (urds_rxq_front(&s->rxq)) {
		unsigned news = urds_rxq_pop(&s->rxq, &e);

		urds_buf_drop(e.buf);
		if (news & URDS_RXQ_CLEAR)
			flip(h, s->bound.at.port, false);
	}
}

static void deliver(struct hpeer *hp, const struct urds_rx_item *it)
{
	struct host *h = hp->host;
	struct urds_bound *b = urds_bindtab_find(&h->bound, &h->v.addr, it->dport);
	struct hsock *s;
	unsigned news;
	size_t done;

	if (!b) {
		urds_buf_drop(it->buf);
		return;
	}
	s = urds_container_of(b, struct hsock, bound);
	check_got(h->check, &hp->peer.remote, it->sport, &h->v.addr, it->dport, it->payload,
		  it->len);
	news = urds_rxq_put(&s->rxq, &hp->peer.remote, it, 1, &done);
	if (done < 1) {
		check_fail(h->check, "no memory to queue");
		urds_buf_drop(it->buf);
	}
	if (news & URDS_RXQ_CONGESTED)
		flip(h, it->dport, true);
	if (!h->conf.reads_late)
		host_read_all(h, s);
}

static void item(struct hpeer *hp, unsigned slot, const struct urds_rx_batch *b,
		 const struct urds_rx_item *it)
{
	struct urds_peer_out out = {0};

	switch (it->kind) {
	case URDS_RX_DATA:
		deliver(hp, it);
		break;
	case URDS_RX_PING:
		post(hp, slot, 0, it->sport, false);
		break;
	case URDS_RX_PROBE:
	case URDS_RX_ANSWER:
		urds_peer_probed(&hp->peer, slot, urds_rx_probe_sort(b), &b->probe, now_of(hp),
				 &out);
		host_do_out(hp, &out, NULL);
		break;
	case URDS_RX_MAP:
		new_map(hp, it->payload);
		urds_buf_drop(it->buf);
		break;
	case URDS_RX_CONTROL:
		urds_buf_drop(it->buf);
		break;
	}
}

/* Everything there is to read. */
static void receive(struct hpeer *hp, unsigned slot)
{
	struct hpath *pa = &hp->path[slot];
	struct vend *link = pa->link;
	bool eof = false;

	if (pa->is_busy || !link)
		return;
	pa->is_busy = true;
	while (pa->link == link && v_readable(link) > 0) {
		struct urds_iov iov[2];
		size_t got = 0;
		int n = urds_path_rx_space(&pa->rx, iov), rc;

		if (n < 0) {
			eof = true;
			break;
		}
		for (int i = 0; i < n; i++)
			got += v_read(link, iov[i].base, iov[i].len);
		urds_path_rx_got(&pa->rx, got);
		do {
			struct urds_rx_batch b;
			struct urds_peer_out out = {0};

			rc = urds_path_rx_next(&pa->rx, &b);
			TRACE(hp->host->v.sim,
			      "%u: slot %u: %zu items, %u headers, %u old, next_rx %llu, ack %llu",
			      hp->host->v.addr.ip[15], slot, b.n, b.headers, b.dropped_old,
			      (unsigned long long)pa->rx.next_rx & 0xffff,
			      (unsigned long long)b.ack_seen & 0xffff);
			for (size_t i = 0; i < b.n; i++)
				TRACE(hp->host->v.sim, "   kind %d seq %llu len %u flags %x",
				      b.v[i].kind, (unsigned long long)b.v[i].seq & 0xffff,
				      b.v[i].len, b.v[i].flags);
			hp->host->dropped_old += b.dropped_old;
			if (b.headers > 0) {
				urds_peer_heard(&hp->peer, slot, urds_rx_has_probe(&b), now_of(hp),
						&out);
				host_do_out(hp, &out, NULL);
			}
			for (size_t i = 0; i < b.n; i++)
				item(hp, slot, &b, &b.v[i]);
			if (pa->link != link)
				break;
			pa->ack = urds_path_rx_ack(&pa->rx);
			if (b.ack_seen)
				ack_seq(hp, slot, b.ack_seen);
			pa->unacked += b.wire_bytes;
			if (b.ack_wanted || pa->unacked >= URDS_ACK_BYTES)
				urds_path_tx_want_ack(&pa->tx);
			else if (b.wire_bytes > 0 && pa->ack_at == URDS_NEVER)
				pa->ack_at = now_of(hp) + URDS_ACK_DELAY_NS;
		} while (rc > 0);
		if (pa->link == link && rc < 0) {
			eof = true;
			break;
		}
	}
	pa->is_busy = false;
	if (pa->link != link)
		return;
	urds_path_rx_idle(&pa->rx, URDS_RX_KEEP_UNREAD);
	host_transmit(hp, slot);
	if (eof)
		lose(hp, slot);
}

/* ---- events of the network ---- */

static void on_ready(struct vhost *v, struct vend *e);

static void on_accepted(struct vhost *v, struct vend *e, const struct urds_addr *from,
			uint16_t port)
{
	struct host *h = urds_container_of(v, struct host, v);
	struct hpeer *hp = host_peer(h, from);
	struct urds_peer_out out = {0};

	/* What has come on the connections we have, their end above all, was before this one: the slot it is to have
	 * may be free by now, and the places to park are few. */
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++)
		if (hp->path[i].link)
			on_ready(v, hp->path[i].link);
	urds_peer_accepted(&hp->peer, port, v->sim->now, &out);
	host_do_out(hp, &out, e);
	host_kick(h);
	host_arm(h);
}

static void on_dialled(struct vhost *v, struct vend *e, bool ok)
{
	struct host *h = urds_container_of(v, struct host, v);
	struct hpeer *hp = e->owner;
	unsigned slot = e->idx;
	struct urds_peer_out out = {0};

	hp->dial[slot] = NULL;
	if (!ok)
		v_close(e, false);
	urds_peer_dialled(&hp->peer, slot, ok, v->sim->now, rnd_of(hp), &out);
	host_do_out(hp, &out, e);
	host_kick(h);
	host_arm(h);
}

static void on_ready(struct vhost *v, struct vend *e)
{
	struct host *h = urds_container_of(v, struct host, v);
	struct hpeer *hp = e->owner;

	if (!hp || e->role == ROLE_DIAL)
		return; /* not accepted or dialled yet: that comes */
	if (e->role == ROLE_PARKED) {
		/* With bytes in it, it waits on: a kernel has forgotten what our TCP acknowledged (A1). */
		if (v_ended(e)) {
			unsigned k = e->idx;

			v_close(e, false);
			hp->parked[k] = NULL;
			urds_peer_unparked(&hp->peer, k);
		}
	} else {
		unsigned slot = e->idx;

		receive(hp, slot);
		if (hp->path[slot].link == e) {
			host_ack_pos(hp, slot);
			if (v_ended(e))
				lose(hp, slot);
			else
				host_transmit(hp, slot);
		}
	}
	host_kick(h);
	host_arm(h);
}

const struct vhost_ops host_ops = {on_accepted, on_dialled, on_ready};
