/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Timers, programs that send, start and death of a virtual host.
 */
#include "host_priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- time ---- */

static unsigned pending_of(const struct hpeer *hp)
{
	unsigned pending = 0;

	for (unsigned i = 0; i < URDS_PATHS_MAX; i++)
		if (!urds_log_is_empty(&hp->path[i].tx.log))
			pending |= 1u << i;
	return pending;
}

static bool watches(const struct hpeer *hp, unsigned i)
{
	return hp->path[i].link && v_silence(hp->path[i].link) > 0;
}

static void on_timer(void *arg, uint64_t at)
{
	struct host *h = arg;

	if (at != h->timer_at || !h->is_alive)
		return;
	h->timer_at = URDS_NEVER;
	if (h->v.is_stopped) {
		h->timer_at = h->v.sim->now + URDS_MS(10);
		sim_at(h->v.sim, h->timer_at, on_timer, h, h->timer_at);
		return;
	}
	for (unsigned k = 0; k < HOST_PEERS && h->peers[k]; k++) {
		struct hpeer *hp = h->peers[k];
		struct urds_peer_out out = {0};

		urds_peer_tick(&hp->peer, pending_of(hp), h->v.sim->now, sim_rnd(h->v.sim), &out);
		host_do_out(hp, &out, NULL);
		for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
			struct hpath *pa = &hp->path[i];

			if (watches(hp, i)) {
				urds_peer_silence(&hp->peer, i, v_silence(pa->link), h->v.sim->now,
						  &out);
				host_do_out(hp, &out, NULL);
			}
			host_ack_pos(hp, i);
			if (pa->link && pa->ack_at <= h->v.sim->now) {
				pa->ack_at = URDS_NEVER;
				urds_path_tx_want_ack(&pa->tx);
				host_transmit(hp, i);
			}
		}
	}
	if (h->conf.reads_late)
		for (unsigned i = 0; i < HOST_SOCKS; i++)
			if (h->socks[i].is_open)
				host_read_all(h, &h->socks[i]);
	host_kick(h);
	host_arm(h);
}

void host_arm(struct host *h)
{
	urds_ns d = URDS_NEVER;

	for (unsigned k = 0; k < HOST_PEERS && h->peers[k]; k++) {
		const struct hpeer *hp = h->peers[k];
		urds_ns t = urds_peer_deadline(&hp->peer, pending_of(hp));

		d = t < d ? t : d;
		for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
			if (hp->path[i].link && hp->path[i].ack_at < d)
				d = hp->path[i].ack_at;
			/* What is kept for a replay goes when it is old. */
			if (hp->path[i].link &&
			    urds_peer_slot(&hp->peer, i)->kind == URDS_KIND_KERNEL &&
			    !urds_log_is_empty(&hp->path[i].tx.log) &&
			    h->v.sim->now + URDS_KEEP_NS < d)
				d = h->v.sim->now + URDS_KEEP_NS;
			if (watches(hp, i) && h->v.sim->now + URDS_SEC(1) < d)
				d = h->v.sim->now + URDS_SEC(1);
		}
	}
	for (unsigned i = 0; h->conf.reads_late && i < HOST_SOCKS; i++)
		if (h->socks[i].is_open && h->socks[i].rxq.count > 0 &&
		    h->v.sim->now + URDS_MS(3) < d)
			d = h->v.sim->now + URDS_MS(3);
	if (d == URDS_NEVER || d >= h->timer_at)
		return;
	h->timer_at = d;
	sim_at(h->v.sim, d, on_timer, h, d);
}

/* ---- programs ---- */

static bool send_one(struct host *h, struct hsock *s, unsigned f, struct flow *fl)
{
	struct hpeer *hp = host_peer(h, &fl->to);
	unsigned slot = urds_peer_slot_for(&hp->peer, fl->sport, pending_of(hp));
	struct urds_path_tx *tx = &hp->path[slot].tx;
	uint32_t len = fl->len[fl->sent];
	struct urds_buf *big = NULL;
	struct urds_log_claim c;
	struct urds_peer_out out = {0};

	if (urds_remotemap_test(&hp->map, fl->dport) || urds_txq_charge(&s->txq, len) < 0)
		return false;
	if (len > URDS_LOG_INLINE_MAX)
		big = urds_buf_new(&h->mem.m, urds_buf_blocks(URDS_HDR_LEN + len));
	if ((len > URDS_LOG_INLINE_MAX && !big) ||
	    urds_log_claim(&tx->log, len, s, fl->dport, big, &c) < 0) {
		urds_buf_drop(big);
		s->txq.queued -= len;
		h->nomem++;
		return false;
	}
	urds_hdr_put_data(c.wire, c.seq, len, fl->sport, fl->dport);
	check_fill(c.wire + URDS_HDR_LEN, f, fl->sent, len);
	urds_log_commit(&c);
	fl->sent++;
	if (hp->path[slot].link) {
		host_transmit(hp, slot);
	} else {
		urds_peer_want(&hp->peer, slot, h->v.sim->now, &out);
		host_do_out(hp, &out, NULL);
	}
	return true;
}

void host_kick(struct host *h)
{
	struct check *c = h->check;

	if (!h->is_alive || h->v.is_stopped)
		return;
	for (unsigned f = 0; f < c->n; f++) {
		struct flow *fl = &c->flows[f];

		if (!urds_addr_eq(&fl->from, &h->v.addr))
			continue;
		for (unsigned i = 0; i < HOST_SOCKS; i++)
			while (h->socks[i].is_open && h->socks[i].bound.at.port == fl->sport &&
			       fl->sent < fl->n && send_one(h, &h->socks[i], f, fl))
				;
	}
	host_arm(h);
}

struct hsock *host_bind(struct host *h, uint16_t port)
{
	struct hsock *s = h->socks;

	while (s->is_open)
		s++;
	assert(s < h->socks + HOST_SOCKS);
	memset(s, 0, sizeof *s);
	s->is_open = true;
	s->bound.at.addr = h->v.addr;
	s->bound.at.port = port;
	urds_rxq_init(&s->rxq, &h->mem.m);
	urds_rxq_limit(&s->rxq, h->conf.rcvbuf);
	s->txq.sndbuf = h->conf.sndbuf;
	if (urds_bindtab_add(&h->bound, &s->bound) < 0)
		abort();
	return s;
}

/* ---- life ---- */

static void start(struct host *h)
{
	test_mem_init(&h->mem);
	h->bound.mem = &h->mem.m;
	h->incarnation = (uint32_t)(h->v.sim->now / 1000) | 1;
	h->timer_at = URDS_NEVER;
	h->is_alive = true;
	h->v.is_listening = true;
	h->v.is_stopped = false;
}

void host_init(struct host *h, struct sim *s, struct check *c, unsigned last,
	       const struct host_conf *conf)
{
	memset(h, 0, sizeof *h);
	h->v.ops = &host_ops;
	h->v.addr = sim_addr(last);
	h->check = c;
	h->conf = *conf;
	v_host_add(s, &h->v);
	start(h);
}

static void release(struct host *h)
{
	for (unsigned i = 0; i < HOST_SOCKS; i++)
		if (h->socks[i].is_open) {
			urds_bindtab_remove(&h->bound, &h->socks[i].bound);
			urds_rxq_fini(&h->socks[i].rxq);
		}
	memset(h->socks, 0, sizeof h->socks);
	for (unsigned k = 0; k < HOST_PEERS && h->peers[k]; k++) {
		struct hpeer *hp = h->peers[k];

		for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
			urds_path_tx_fini(&hp->path[i].tx);
			urds_path_rx_reset(&hp->path[i].rx);
		}
		urds_free(&h->mem.m, hp->map.bits, URDS_CONGMAP_LEN);
		urds_peer_fini(&hp->peer);
		free(hp);
		h->peers[k] = NULL;
	}
	urds_localmap_fini(&h->map, &h->mem.m);
	memset(&h->map, 0, sizeof h->map);
	urds_bindtab_fini(&h->bound);
	if (h->mem.bytes || h->mem.blocks)
		check_fail(h->check, "host %u: %zu bytes and %zu blocks leaked", h->v.addr.ip[15],
			   h->mem.bytes, h->mem.blocks);
}

void host_kill(struct host *h)
{
	h->is_alive = false;
	h->v.is_listening = false;
	h->v.is_stopped = false;
	v_kill(&h->v);
	release(h);
}

void host_restart(struct host *h)
{
	check_restart(h->check, &h->v.addr, false);
	start(h);
}

/* Chunks that paths kept while messages in them were unread, and would give back when they come to rest. */
static size_t chunks_kept(const struct host *h)
{
	size_t n = 0;

	for (unsigned k = 0; k < HOST_PEERS && h->peers[k]; k++)
		for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
			const struct urds_path_rx *r = &h->peers[k]->path[i].rx;

			n += r->chunk && r->parsed == r->chunk->used && urds_buf_is_sole(r->chunk);
		}
	return n;
}

bool host_is_quiet(const struct host *h, const char **why)
{
	static char text[64];

	*why = NULL;
	for (unsigned k = 0; k < HOST_PEERS && h->peers[k]; k++)
		if (pending_of(h->peers[k])) {
			snprintf(text, sizeof text,
				 "host %u, slots 0x%x: messages are unacknowledged",
				 h->v.addr.ip[15], pending_of(h->peers[k]));
			*why = text;
		}
	for (unsigned i = 0; i < HOST_SOCKS; i++) {
		if (h->socks[i].is_open && h->socks[i].txq.queued > 0)
			*why = "send buffer is charged";
		if (h->socks[i].is_open && h->socks[i].rxq.count > 0)
			*why = "messages are unread";
	}
	if (!*why && h->mem.blocks > chunks_kept(h))
		*why = "blocks are held";
	return !*why;
}

void host_fini(struct host *h)
{
	host_kill(h);
}
