/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model kernel.
 */
#include "kernel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define MAP_LEN 8192u
#define F_MAP 1u
#define F_AGAIN 4u

static void put(uint8_t *p, uint64_t v, int n)
{
	while (n-- > 0) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static uint64_t get(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static bool is_smaller(const struct kernel *k)
{
	return memcmp(k->v.addr.ip, k->remote.ip, 16) < 0;
}

static void transmit(struct kernel *k, struct kpath *p);
static void connect_path(struct kernel *k, unsigned i);

/* ---- queues ---- */

static struct kmsg **tail_of(struct kmsg **q)
{
	while (*q)
		q = &(*q)->next;
	return q;
}

static struct kmsg *msg_new(struct kpath *p, uint16_t sport, uint16_t dport, uint32_t len)
{
	struct kmsg *m = calloc(1, sizeof *m + 48 + len);

	m->size = 48 + len;
	put(m->bytes, p->next_tx++, 8);
	put(m->bytes + 16, len, 4);
	put(m->bytes + 20, sport, 2);
	put(m->bytes + 22, dport, 2);
	*tail_of(&p->queue) = m;
	return m;
}

static void post(struct kernel *k, struct kpath *p, uint16_t sport, uint16_t dport)
{
	struct kmsg *m = msg_new(p, sport, dport, 0);

	if (sport == 1 || dport == 1) { /* NPATHS = 8, and nothing else */
		m->bytes[32] = 5;
		put(m->bytes + 33, K_PATHS, 2);
	}
	transmit(k, p);
}

static void acked(struct kpath *p)
{
	uint64_t pos = p->link ? v_acked(p->link) : 0;

	while (p->unacked && p->unacked->end <= pos) {
		struct kmsg *m = p->unacked;

		p->unacked = m->next;
		free(m);
	}
}

static void transmit(struct kernel *k, struct kpath *p)
{
	if (p->state != K_UP)
		return;
	for (;;) {
		struct kmsg *m = p->queue;

		if (p->map_len == 0 && p->map_due && !(m && m->off > 0)) {
			memset(p->map, 0, sizeof p->map);
			put(p->map + 16, MAP_LEN, 4);
			p->map[24] = F_MAP;
			p->map_len = sizeof p->map;
			p->map_off = 0;
			p->map_due = false;
		}
		if (p->map_len > 0) {
			p->map_off += (uint32_t)v_write(p->link, p->map + p->map_off,
							p->map_len - p->map_off);
			if (p->map_off < p->map_len)
				return;
			p->map_len = 0;
			continue;
		}
		if (!m)
			return;
		if (m->off == 0)
			m->end = v_written(p->link) + m->size;
		m->off += (uint32_t)v_write(p->link, m->bytes + m->off, m->size - m->off);
		if (m->off < m->size)
			return;
		p->queue = m->next;
		m->next = NULL;
		*tail_of(&p->unacked) = m;
		k->retransmitted += m->retransmit;
	}
}

/* ---- connections ---- */

static void up(struct kernel *k, struct kpath *p, struct vend *e)
{
	TRACE(k->v.sim, "kernel: path %d up, connection %u, first queued %llu", (int)(p - k->path),
	      v_no(e), p->queue ? (unsigned long long)get(p->queue->bytes, 8) : 0);
	p->link = e;
	e->owner = p;
	p->state = K_UP;
	p->delay = 0;
	p->map_due = true;
	p->map_len = 0;
	p->have = 0;
	for (struct kmsg *m = p->queue; m; m = m->next)
		m->off = 0;
	transmit(k, p);
}

static void ev_reconnect(void *arg, uint64_t a)
{
	struct kernel *k = arg;
	unsigned i = a & 7;

	if (a >> 3 == k->generation && k->is_alive && k->path[i].state == K_DOWN)
		connect_path(k, i);
}

/* S only: at once, then random in [0, cur), cur doubling. */
static void retry(struct kernel *k, unsigned i)
{
	struct kpath *p = &k->path[i];
	urds_ns in = p->delay ? sim_rnd(k->v.sim) % p->delay : 0;

	p->delay = !p->delay ? URDS_MS(1) : p->delay < URDS_MS(500) ? p->delay * 2 : URDS_MS(1000);
	sim_at(k->v.sim, k->v.sim->now + in, ev_reconnect, k, (uint64_t)k->generation << 3 | i);
}

static void down(struct kernel *k, struct kpath *p)
{
	acked(p);
	TRACE(k->v.sim, "kernel: path %d down, connection %u, acked %llu, first unacked %llu",
	      (int)(p - k->path), v_no(p->link), (unsigned long long)v_acked(p->link),
	      p->unacked ? (unsigned long long)get(p->unacked->bytes, 8) : 0);
	v_close(p->link, false);
	p->link = NULL;
	p->state = K_DOWN;
	free(p->body);
	p->body = NULL;
	p->have = 0;
	/* What was sent, wholly or in part, goes back to the front, flagged. */
	if (p->queue && p->queue->off > 0) {
		p->queue->bytes[24] |= F_AGAIN;
		p->queue->retransmit = true;
		p->queue->off = 0;
	}
	for (struct kmsg *m = p->unacked; m; m = m->next) {
		m->bytes[24] |= F_AGAIN;
		m->retransmit = true;
		m->off = 0;
	}
	*tail_of(&p->unacked) = p->queue;
	p->queue = p->unacked;
	p->unacked = NULL;
	if (is_smaller(k))
		retry(k, (unsigned)(p - k->path));
}

static void connect_path(struct kernel *k, unsigned i)
{
	struct kpath *p = &k->path[i];

	if (p->state != K_DOWN || (i > 0 && (!is_smaller(k) || k->npaths < 2)))
		return;
	p->state = K_CONNECTING;
	p->link = v_dial(&k->v, &k->remote, (uint16_t)(32768 + sim_below(k->v.sim, 28000)));
	p->link->owner = p;
}

static void on_dialled(struct vhost *v, struct vend *e, bool ok)
{
	struct kernel *k = urds_container_of(v, struct kernel, v);
	struct kpath *p = e->owner;

	if (ok && is_smaller(k)) {
		up(k, p, e);
		return;
	}
	v_close(e, false); /* L: a knock, and no further try before the next send */
	p->link = NULL;
	p->state = K_DOWN;
	if (is_smaller(k))
		retry(k, (unsigned)(p - k->path));
}

static void on_accepted(struct vhost *v, struct vend *e, const struct urds_addr *from,
			uint16_t port)
{
	struct kernel *k = urds_container_of(v, struct kernel, v);
	unsigned n = k->npaths > 1 ? k->npaths : 1;

	(void)port;
	if (!urds_addr_eq(from, &k->remote)) {
		v_close(e, true);
		return;
	}
	if (is_smaller(k)) {
		v_close(e, true);
		k->resets++;
		if (k->npaths <= 1)
			connect_path(k, 0);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		if (k->path[i].state == K_DOWN) {
			up(k, &k->path[i], e);
			if (k->npaths == 0 && !k->probing) {
				k->probing = true;
				post(k, &k->path[i], 1, 0);
			}
			return;
		}
	k->resets++;
	v_close(e, true);
}

/* ---- input ---- */

static void extensions(struct kernel *k, const uint8_t *ext)
{
	static const uint8_t size[16] = {0, 4, 4, 8, 0, 2, 4};

	for (unsigned i = 0; i < 16 && ext[i] != 0 && ext[i] < 16; i += 1 + size[ext[i]]) {
		unsigned n;

		if (i + 1 + size[ext[i]] > 16)
			break;
		if (ext[i] != 5)
			continue;
		n = (unsigned)get(ext + i + 1, 2);
		k->npaths = n > K_PATHS ? K_PATHS : n;
	}
	if (k->npaths == 0)
		k->npaths = 1;
	k->probing = false;
	for (unsigned i = 1; k->npaths > 1 && i < k->npaths; i++)
		connect_path(k, i);
}

static void message(struct kernel *k, struct kpath *p, const uint8_t *h, const uint8_t *body,
		    uint32_t len)
{
	uint64_t seq = get(h, 8);
	uint16_t sport = (uint16_t)get(h + 20, 2), dport = (uint16_t)get(h + 22, 2);
	uint8_t flags = h[24];

	if (get(h + 8, 8) != 0)
		check_fail(k->check, "the kernel was sent an ack");
	if (flags & ~(F_MAP | F_AGAIN))
		check_fail(k->check, "the kernel was sent flags 0x%02x", flags);
	if (flags == F_MAP) {
		if (len == MAP_LEN)
			memcpy(k->remote_map, body, MAP_LEN);
		return;
	}
	if (seq < p->next_rx && (flags & F_AGAIN)) {
		k->dropped_old++;
		return;
	}
	p->next_rx = seq + 1;
	if (sport == 0 && dport == 0) {
		check_fail(k->check, "the kernel was sent a frame from port 0 to port 0");
		return;
	}
	if (dport == 0) {
		if (k->answers_pings)
			post(k, p, 0, sport);
		if (sport == 1)
			extensions(k, h + 32);
		return;
	}
	if (sport == 0 && dport == 1) {
		extensions(k, h + 32);
		return;
	}
	for (unsigned i = 0; i < K_PORTS; i++)
		if (k->ports[i] == dport) {
			check_got(k->check, &k->remote, sport, &k->v.addr, dport, body, len);
			return;
		}
}

static void receive(struct kernel *k, struct kpath *p)
{
	while (p->state == K_UP) {
		if (p->have < 48) {
			p->have += (uint32_t)v_read(p->link, p->hdr + p->have, 48 - p->have);
			if (p->have < 48)
				return;
			p->body_len = (uint32_t)get(p->hdr + 16, 4);
			p->body_have = 0;
			assert(p->body_len <= 1 << 20);
			p->body = malloc(p->body_len + 1);
		}
		p->body_have += (uint32_t)v_read(p->link, p->body + p->body_have,
						 p->body_len - p->body_have);
		if (p->body_have < p->body_len)
			return;
		p->have = 0;
		{
			uint8_t *body = p->body;

			p->body = NULL;
			message(k, p, p->hdr, body, p->body_len);
			free(body);
		}
	}
}

static void on_ready(struct vhost *v, struct vend *e)
{
	struct kernel *k = urds_container_of(v, struct kernel, v);
	struct kpath *p = e->owner;

	if (!p || p->link != e || p->state != K_UP)
		return;
	receive(k, p);
	acked(p);
	if (v_ended(e))
		down(k, p);
	else
		transmit(k, p);
	kernel_kick(k);
}

/* ---- programs and life ---- */

static bool is_congested(const struct kernel *k, uint16_t port)
{
	return k->remote_map[port >> 3] >> (port & 7) & 1;
}

void kernel_kick(struct kernel *k)
{
	struct check *c = k->check;

	if (!k->is_alive)
		return;
	for (unsigned f = 0; f < c->n; f++) {
		struct flow *fl = &c->flows[f];
		bool bound = false;

		for (unsigned i = 0; i < K_PORTS; i++)
			bound |= k->ports[i] == fl->sport;
		if (!bound || !urds_addr_eq(&fl->from, &k->v.addr))
			continue;
		while (fl->sent < fl->n && !is_congested(k, fl->dport)) {
			unsigned i = k->npaths > 1
					     ? (fl->sport * 2654435761u >> 20) & (k->npaths - 1)
					     : 0;
			struct kpath *p = &k->path[i];
			uint32_t len = fl->len[fl->sent];
			struct kmsg *m = msg_new(p, fl->sport, fl->dport, len);

			check_fill(m->bytes + 48, f, fl->sent, len);
			fl->sent++;
			if (p->state == K_UP)
				transmit(k, p);
			else
				connect_path(k, i);
		}
	}
}

void kernel_bind(struct kernel *k, uint16_t port)
{
	unsigned i = 0;

	while (k->ports[i])
		i++;
	k->ports[i] = port;
}

static const struct vhost_ops ops = {on_accepted, on_dialled, on_ready};

static void start(struct kernel *k)
{
	for (unsigned i = 0; i < K_PATHS; i++)
		k->path[i].next_tx = 1;
	k->answers_pings = true;
	k->is_alive = true;
	k->v.is_listening = true;
	k->generation++;
}

void kernel_init(struct kernel *k, struct sim *s, struct check *c, unsigned last,
		 unsigned remote_last)
{
	memset(k, 0, sizeof *k);
	k->v.ops = &ops;
	k->check = c;
	k->v.addr = (struct urds_addr){
		.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, (uint8_t)last}};
	k->remote = k->v.addr;
	k->remote.ip[15] = (uint8_t)remote_last;
	v_host_add(s, &k->v);
	start(k);
}

void kernel_kill(struct kernel *k)
{
	k->is_alive = false;
	k->v.is_listening = false;
	v_kill(&k->v);
	for (unsigned i = 0; i < K_PATHS; i++) {
		struct kpath *p = &k->path[i];
		struct kmsg *m, *next;

		*tail_of(&p->unacked) = p->queue;
		for (m = p->unacked; m; m = next) {
			next = m->next;
			free(m);
		}
		free(p->body);
	}
	memset(k->path, 0, sizeof k->path);
	memset(k->ports, 0, sizeof k->ports);
	memset(k->remote_map, 0, sizeof k->remote_map);
	k->npaths = 0;
	k->probing = false;
}

void kernel_restart(struct kernel *k)
{
	check_restart(k->check, &k->v.addr, true);
	start(k);
}

bool kernel_is_quiet(const struct kernel *k, const char **why)
{
	*why = NULL;
	for (unsigned i = 0; i < K_PATHS; i++)
		if (k->path[i].unacked || k->path[i].queue)
			*why = "the kernel has messages left";
	return !*why;
}

void kernel_fini(struct kernel *k)
{
	kernel_kill(k);
}
