/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What RDS_INFO_* getsockopt calls return: lists of packed elements (semantics 10).
 */
#include "runtime/engine.h"

#include "platform/clock.h"
#include "platform/errno.h"

enum {
	INFO_COUNTERS = 10000,
	INFO_CONNECTIONS = 10001,
	INFO_SEND = 10003,
	INFO_RETRANS = 10004,
	INFO_RECV = 10005,
	INFO_SOCKETS = 10006,
	INFO_TCP = 10007,
	INFO6_CONNECTIONS = 10011,
	INFO6_SEND = 10012,
	INFO6_RETRANS = 10013,
	INFO6_RECV = 10014,
	INFO6_SOCKETS = 10015,
	INFO6_TCP = 10016,
};

/* Elements are put one after the other; what does not fit is only counted. */
struct out {
	struct urds_ctx *e;
	uint8_t *at;
	size_t room, total, each;
	bool v6;
	int id;
	struct peer *p;
};

static void put(struct out *o, const uint8_t *el)
{
	o->total += o->each;
	if (o->room < o->each)
		return;
	memcpy(o->at, el, o->each);
	o->at += o->each;
	o->room -= o->each;
}

static uint8_t *put_mem(uint8_t *p, const void *v, size_t n)
{
	memcpy(p, v, n);
	return p + n;
}

static uint8_t *put_addr(const struct out *o, uint8_t *p, const struct urds_addr *a)
{
	return o->v6 ? put_mem(p, a->ip, 16) : put_mem(p, a->ip + 12, 4);
}

static uint8_t *put_port(uint8_t *p, uint16_t port)
{
	urds_be16_store(p, port);
	return p + 2;
}

/* The 4-byte lists have no place for IPv6. */
static bool is_listed(const struct out *o, const struct urds_addr *a)
{
	return o->v6 || urds_addr_is_v4(a);
}

static const enum urds_counter of_path[PATH_C_MAX] = {
	[PATH_C_tx_calls] = URDS_C_tx_calls,
	[PATH_C_send_queued] = URDS_C_send_queued,
	[PATH_C_copy_from_user] = URDS_C_copy_from_user,
	[PATH_C_rx_calls] = URDS_C_rx_calls,
	[PATH_C_recv_queued] = URDS_C_recv_queued,
	[PATH_C_acks_sent] = URDS_C_acks_sent,
};

/* Of what a path counted: what is not in the context's counters. */
static uint64_t uncounted(const struct path *h, int i)
{
	return atomic_load_explicit(&h->counts[i], memory_order_relaxed) - h->counted[i];
}

void path_counted(struct path *h)
{
	for (int i = 0; i < PATH_C_MAX; i++) {
		uint64_t n = uncounted(h, i);

		urds_count(h->peer->e, of_path[i], n);
		h->counted[i] += n;
	}
}

static void add_paths(struct peer *p, uint64_t sum[URDS_C_MAX])
{
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);

		for (int k = 0; h && k < PATH_C_MAX; k++)
			sum[of_path[k]] += uncounted(h, k);
	}
}

/* With the table and count_lock held nothing is missed or counted twice: what a socket or a path that goes has counted
 * moves to the context's counters under one of them. */
void engine_counters(struct urds_ctx *e, uint64_t out[URDS_C_MAX])
{
	urds_rwlock_read_acquire(&e->table);
	urds_lock_acquire(&e->count_lock);
	for (int i = 0; i < URDS_C_MAX; i++)
		out[i] = atomic_load_explicit(&e->counters[i], memory_order_relaxed);
	out[URDS_C_poll_calls] += atomic_load_explicit(&e->lead_polls, memory_order_relaxed);
	for (uint32_t i = 0; i < e->heads_size; i++)
		for (struct peer *p = e->heads[i]; p; p = p->hash_next)
			add_paths(p, out);
	urds_lock_release(&e->count_lock);
	for (struct urds_sock *s = e->socks; s; s = s->next) {
		urds_lock_acquire(&s->rx_lock);
		out[URDS_C_recv_delivered] += s->delivered;
		out[URDS_C_copy_to_user] += s->copied;
		urds_lock_release(&s->rx_lock);
		urds_lock_acquire(&s->tx_lock);
		out[URDS_C_send_queue_empty] += s->emptied;
		urds_lock_release(&s->tx_lock);
	}
	urds_rwlock_read_release(&e->table);
}

static void counters(struct out *o)
{
	uint64_t v[URDS_C_MAX];
	uint8_t el[40];

	engine_counters(o->e, v);
	for (int i = 0; i < URDS_C_MAX; i++) {
		memset(el, 0, sizeof el);
		strncpy((char *)el, urds_counter_names[i], 31);
		memcpy(el + 32, &v[i], 8);
		put(o, el);
	}
}

static void connection(struct peer *p, void *arg)
{
	struct out *o = arg;
	uint8_t el[65] = {0}, *at = el, state;
	uint64_t tx = 0, rx = 0;
	struct path *h;

	if (!is_listed(o, &p->core.local))
		return;
	urds_lock_acquire(&p->lock);
	h = p->path0;
	state = p->core.first.state;
	if (h) {
		urds_lock_acquire(&h->append);
		tx = h->tx.log.next_seq;
		urds_lock_release(&h->append);
		rx = atomic_load(&h->rx_ack);
		rx += rx > 0;
	} else if (p->rest.link) {
		tx = p->rest.path.next_tx;
		rx = p->rest.path.next_rx;
	}
	urds_lock_release(&p->lock);
	at = put_mem(at, &tx, 8);
	at = put_mem(at, &rx, 8);
	at = put_addr(o, at, &p->core.local);
	at = put_addr(o, at, &p->core.remote);
	memcpy(at, p->is_loop ? "loopback" : "tcp", p->is_loop ? 8 : 3);
	at += 16;
	*at++ = (uint8_t)((h && urds_tx_role_is_held(&h->role) ? 1 : 0) |
			  (state == URDS_SLOT_DIALLING || state == URDS_SLOT_KNOCKING ||
					   state == URDS_SLOT_HELD
				   ? 2
				   : 0) |
			  (state == URDS_SLOT_UP ? 4 : 0));
	put(o, el);
}

/* The date of an instant, or 0; @date: of @now. */
static uint64_t date_of(urds_ns at, urds_ns now, uint64_t date)
{
	if (at == 0 || at == URDS_NEVER)
		return 0;
	return at < now && now - at < date ? date - (now - at) : date;
}

static enum urds_peer_state state_of(const struct urds_slot *s)
{
	switch ((enum urds_slot_state)s->state) {
	case URDS_SLOT_DIALLING:
	case URDS_SLOT_KNOCKING:
		return URDS_PEER_CONNECTING;
	case URDS_SLOT_HELD:
	case URDS_SLOT_UP:
		return s->heard ? URDS_PEER_UP : URDS_PEER_SILENT;
	case URDS_SLOT_DOWN:
		break;
	}
	return URDS_PEER_DOWN;
}

_Static_assert((int)URDS_PEER_KERNEL == (int)URDS_KIND_KERNEL &&
		       (int)URDS_PEER_URDS == (int)URDS_KIND_URDS,
	       "one numbering");

void peer_describe(struct peer *p, struct urds_info_peer *el)
{
	const struct urds_fault_note *f = &p->core.fault;
	const struct urds_slot *s = &p->core.first;
	uint64_t date = urds_wall_ns();
	urds_ns now = urds_clock_ns();

	*el = (struct urds_info_peer){.scope = p->core.remote.scope};
	memcpy(el->local, p->core.local.ip, sizeof el->local);
	memcpy(el->remote, p->core.remote.ip, sizeof el->remote);
	el->state = (uint8_t)state_of(s);
	el->end = s->kind;
	el->version = s->kind == URDS_KIND_URDS ? p->core.version : 0;
	el->up_since = el->state == URDS_PEER_UP ? date_of(s->at, now, date) : 0;
	if (f->kind != URDS_FAULT_NONE) {
		el->fault = f->kind;
		el->fault_since = date_of(f->since, now, date);
		el->fault_last = date_of(f->last, now, date);
		el->fault_count = f->count;
		el->fault_is_over = f->is_over;
		if (urds_fault_has_errno((enum urds_fault)f->kind))
			el->fault_errno = (uint32_t)urds_err_to_errno(f->detail);
		else
			el->fault_ms = f->detail * 10u;
	}
}

static void peer(struct peer *p, void *arg)
{
	struct urds_info_peer el;

	urds_lock_acquire(&p->lock);
	peer_describe(p, &el);
	urds_lock_release(&p->lock);
	put(arg, (const uint8_t *)&el);
}

static void put_msg(struct out *o, uint64_t seq, uint32_t len, const struct urds_addr *l,
		    uint16_t lport, const struct urds_addr *f, uint16_t fport)
{
	uint8_t el[50] = {0}, *at = el;

	at = put_mem(at, &seq, 8);
	at = put_mem(at, &len, 4);
	at = put_addr(o, at, l);
	at = put_addr(o, at, f);
	at = put_port(at, lport);
	put_port(at, fport);
	put(o, el);
}

static void logged(void *arg, uint64_t seq, const struct urds_log_ent *en, uint16_t sport,
		   bool sent)
{
	struct out *o = arg;
	bool want_sent = o->id == INFO_RETRANS || o->id == INFO6_RETRANS;

	if (sent == want_sent)
		put_msg(o, seq, en->len, &o->p->core.local, sport, &o->p->core.remote, en->dport);
}

static void messages(struct peer *p, void *arg)
{
	struct out *o = arg;

	if (!is_listed(o, &p->core.local))
		return;
	o->p = p;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, false);

		if (!h)
			continue;
		path_role_take(h);
		urds_lock_acquire(&h->append);
		urds_log_each(&h->tx.log, logged, o);
		urds_lock_release(&h->append);
		path_role_leave(h);
	}
}

static void received(struct out *o)
{
	struct urds_ctx *e = o->e;

	urds_rwlock_read_acquire(&e->table);
	for (struct urds_sock *s = e->socks; s; s = s->next) {
		if (!s->node || !is_listed(o, &s->bound.at.addr))
			continue;
		urds_lock_acquire(&s->rx_lock);
		for (uint32_t i = 0; i < s->rxq.count; i++) {
			const struct urds_rxq_ent *m =
				&s->rxq.ring[(s->rxq.head + i) & (s->rxq.cap - 1)];

			put_msg(o, 0, m->len, &s->bound.at.addr, s->bound.at.port, &m->from,
				m->sport);
		}
		urds_lock_release(&s->rx_lock);
	}
	urds_rwlock_read_release(&e->table);
}

static void sockets(struct out *o)
{
	struct urds_ctx *e = o->e;

	urds_rwlock_read_acquire(&e->table);
	for (struct urds_sock *s = e->socks; s; s = s->next) {
		uint8_t el[52] = {0}, *at = el;

		if (!s->node || !is_listed(o, &s->bound.at.addr))
			continue;
		urds_lock_acquire(&s->tx_lock);
		at = put_mem(at, &s->txq.sndbuf, 4);
		at = put_addr(o, at, &s->bound.at.addr);
		at = put_addr(o, at, &s->peer_at.addr);
		at = put_port(at, s->bound.at.port);
		at = put_port(at, s->peer_at.port);
		urds_lock_release(&s->tx_lock);
		urds_lock_acquire(&s->rx_lock);
		at = put_mem(at, &s->rxq.rcvbuf, 4);
		urds_lock_release(&s->rx_lock);
		put_mem(at, &s->inode, 8);
		put(o, el);
	}
	urds_rwlock_read_release(&e->table);
}

static void tcp(struct peer *p, void *arg)
{
	struct out *o = arg;

	if (!is_listed(o, &p->core.local) || p->is_loop)
		return;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		uint8_t el[64] = {0}, *at = el;
		uint64_t hdr_left, data_left;
		uint32_t sent, expect, seen;
		uint16_t lport = 0, fport = 0;
		struct urds_link *l;
		struct path *h = peer_path_get(p, i, true);

		if (!h)
			continue;
		path_rx_role_take(h);
		hdr_left = URDS_HDR_LEN - h->rx.split.have;
		data_left = h->rx.split.body_left;
		path_rx_role_leave(h);
		path_role_take(h);
		l = atomic_load(&h->link);
		if (l) {
			uint64_t acked = l->t->data->acked(l);

			if (l->t->data->ports)
				l->t->data->ports(l, &lport, &fport);
			sent = (uint32_t)h->tx.link_pos;
			expect = sent;
			seen = acked == URDS_UNKNOWN ? sent : (uint32_t)acked;
		}
		path_role_leave(h);
		if (!l)
			continue;
		at = put_addr(o, at, &p->core.local);
		at = put_port(at, lport);
		at = put_addr(o, at, &p->core.remote);
		at = put_port(at, fport);
		at = put_mem(at, &hdr_left, 8);
		at = put_mem(at, &data_left, 8);
		at = put_mem(at, &sent, 4);
		at = put_mem(at, &expect, 4);
		put_mem(at, &seen, 4);
		put(o, el);
	}
}

int engine_info_size(int id)
{
	switch (id) {
	case INFO_COUNTERS:
		return 40;
	case INFO_CONNECTIONS:
		return 42;
	case INFO6_CONNECTIONS:
		return 65;
	case INFO_SEND:
	case INFO_RETRANS:
	case INFO_RECV:
		return 26;
	case INFO6_SEND:
	case INFO6_RETRANS:
	case INFO6_RECV:
		return 50;
	case INFO_SOCKETS:
		return 28;
	case INFO6_SOCKETS:
		return 52;
	case INFO_TCP:
		return 41;
	case INFO6_TCP:
		return 64;
	case URDS_INFO_PEERS:
		return sizeof(struct urds_info_peer);
	default:
		return -URDS_ENOPROTOOPT;
	}
}

int engine_info(struct urds_ctx *e, int id, void *buf, size_t *len)
{
	struct out o = {.e = e, .at = buf, .room = *len, .id = id, .v6 = id > INFO_TCP};
	int each = engine_info_size(id);

	if (each < 0)
		return each;
	o.each = (size_t)each;
	switch (id) {
	case INFO_COUNTERS:
		counters(&o);
		break;
	case INFO_CONNECTIONS:
	case INFO6_CONNECTIONS:
		peer_each(e, connection, &o);
		break;
	case INFO_RECV:
	case INFO6_RECV:
		received(&o);
		break;
	case INFO_SOCKETS:
	case INFO6_SOCKETS:
		sockets(&o);
		break;
	case INFO_TCP:
	case INFO6_TCP:
		peer_each(e, tcp, &o);
		break;
	case URDS_INFO_PEERS:
		peer_each(e, peer, &o);
		break;
	default:
		peer_each(e, messages, &o);
		break;
	}
	each = o.total > *len ? -URDS_ENOSPC : each;
	*len = o.total;
	return each;
}
