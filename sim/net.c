/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Clock, events, virtual TCP.
 */
#include "net.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Keep-alive finds a connection whose other end is gone ... */
#define KEEP_ALIVE_NS URDS_SEC(5)
/* ... and one into a black hole. */
#define KEEP_ALIVE_DEAD_NS URDS_SEC(30)

struct vdir { /* what one end writes */
	uint8_t *buf;
	size_t cap;
	uint64_t written, arrived, acked, read;
	urds_ns progress; /* last acknowledgement, or when the first unacknowledged byte was written */
	bool fin;	  /* arrived */
	bool is_shut;	  /* written */
};

struct vconn {
	struct vconn *next;
	struct sim *sim;
	int refs; /* list, events, ends held by hosts */
	unsigned no;
	uint16_t port;
	struct urds_addr to;
	urds_ns latency;
	size_t sndbuf;
	bool is_established, is_dead, is_hole;
	bool waits; /* in the accept queue of a stopped host */
	struct vend end[2];
	struct vdir dir[2];
};

/* ---- clock ---- */

bool sim_trace;

void sim_say(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	printf("# %llu.%06llu ", (unsigned long long)(s->now / URDS_SEC(1)),
	       (unsigned long long)(s->now % URDS_SEC(1) / 1000));
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

void sim_init(struct sim *s, uint64_t seed)
{
	memset(s, 0, sizeof *s);
	s->rng = seed;
	s->now = URDS_SEC(1000);
	s->latency = URDS_US(50);
	s->sndbuf = 65536;
}

uint64_t sim_rnd(struct sim *s)
{
	uint64_t z = s->rng += 0x9e3779b97f4a7c15u; /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint32_t sim_below(struct sim *s, uint32_t n)
{
	return (uint32_t)(sim_rnd(s) % n);
}

static bool before(const struct sim_ev *a, const struct sim_ev *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void sim_at(struct sim *s, urds_ns at, sim_fn fn, void *arg, uint64_t a)
{
	struct sim_ev e = {at < s->now ? s->now : at, s->order++, fn, arg, a};
	size_t i;

	if (s->nev == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->ev = realloc(s->ev, s->cap * sizeof *s->ev);
	}
	for (i = s->nev++; i > 0 && before(&e, &s->ev[(i - 1) / 2]); i = (i - 1) / 2)
		s->ev[i] = s->ev[(i - 1) / 2];
	s->ev[i] = e;
}

bool sim_step(struct sim *s, urds_ns until)
{
	struct sim_ev e, last;
	size_t i = 0;

	if (s->nev == 0 || s->ev[0].at > until) {
		s->now = until;
		return false;
	}
	e = s->ev[0];
	last = s->ev[--s->nev];
	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= s->nev)
			break;
		if (c + 1 < s->nev && before(&s->ev[c + 1], &s->ev[c]))
			c++;
		if (!before(&s->ev[c], &last))
			break;
		s->ev[i] = s->ev[c];
		i = c;
	}
	s->ev[i] = last;
	s->now = e.at;
	s->steps++;
	e.fn(e.arg, e.a);
	return true;
}

static void conn_drop(struct vconn *c)
{
	struct vconn **p;

	if (--c->refs > 0)
		return;
	for (p = &c->sim->conns; *p != c; p = &(*p)->next)
		;
	*p = c->next;
	free(c->dir[0].buf);
	free(c->dir[1].buf);
	free(c);
}

static void conn_at(struct vconn *c, urds_ns at, sim_fn fn, uint64_t a)
{
	c->refs++;
	sim_at(c->sim, at, fn, c, a);
}

void sim_fini(struct sim *s)
{
	struct vconn *c, *next;

	for (c = s->conns; c; c = next) {
		next = c->next;
		free(c->dir[0].buf);
		free(c->dir[1].buf);
		free(c);
	}
	free(s->ev);
}

/* ---- hosts ---- */

void v_host_add(struct sim *s, struct vhost *h)
{
	h->sim = s;
	for (unsigned i = 0; i < s->nhosts; i++)
		if (s->hosts[i] == h)
			return;
	assert(s->nhosts < sizeof s->hosts / sizeof s->hosts[0]);
	s->hosts[s->nhosts++] = h;
}

static struct vhost *host_at(struct sim *s, const struct urds_addr *a)
{
	for (unsigned i = 0; i < s->nhosts; i++)
		if (urds_addr_eq(&s->hosts[i]->addr, a))
			return s->hosts[i];
	return NULL;
}

static void wake(struct vend *e)
{
	if (e->is_open && e->host && !e->host->is_stopped)
		e->host->ops->ready(e->host, e);
}

/* ---- a connection begins ---- */

static void ev_dialled(void *arg, uint64_t ok)
{
	struct vconn *c = arg;
	struct vend *e = &c->end[0];

	if (e->is_open)
		e->host->ops->dialled(e->host, e, ok && !e->is_reset);
	conn_drop(c);
}

static void ev_accept(void *arg, uint64_t a)
{
	struct vconn *c = arg;
	struct vend *e = &c->end[1];

	(void)a;
	if (e->is_open && e->host->is_stopped) {
		c->waits = true;
	} else if (e->is_open) {
		struct vend *d = &c->end[0];

		e->host->ops->accepted(e->host, e, &d->host->addr, c->port);
		wake(e);
	}
	conn_drop(c);
}

static void ev_syn(void *arg, uint64_t a)
{
	struct vconn *c = arg;
	struct vhost *h = host_at(c->sim, &c->to);

	(void)a;
	if (h && h->is_listening && !c->is_hole) {
		c->is_established = true;
		c->no = c->sim->nconns++;
		c->end[1].host = h;
		c->end[1].is_open = true;
		c->refs++;
		conn_at(c, c->sim->now + h->accept_delay, ev_accept, 0);
	}
	if (!c->is_hole)
		conn_at(c, c->sim->now + c->latency, ev_dialled, c->is_established);
	conn_drop(c);
}

struct vend *v_dial(struct vhost *h, const struct urds_addr *to, uint16_t from_port)
{
	struct sim *s = h->sim;
	struct vconn *c = calloc(1, sizeof *c);

	c->next = s->conns;
	s->conns = c;
	c->sim = s;
	c->refs = 1; /* the dialling end's */
	c->port = from_port;
	c->to = *to;
	c->latency = s->latency;
	c->sndbuf = s->sndbuf;
	c->no = UINT32_MAX;
	for (int i = 0; i < 2; i++) {
		c->end[i].c = c;
		c->end[i].i = i;
	}
	c->end[0].host = h;
	c->end[0].is_open = true;
	conn_at(c, s->now + c->latency, ev_syn, 0);
	return &c->end[0];
}

/* ---- it ends ---- */

static void ev_reset(void *arg, uint64_t i)
{
	struct vconn *c = arg;
	struct vend *e = &c->end[i];

	if (!e->is_reset) {
		e->is_reset = true;
		wake(e);
	}
	conn_drop(c);
}

static void ev_fin(void *arg, uint64_t i)
{
	struct vconn *c = arg;

	if (!c->is_dead && !c->end[!i].is_reset) {
		c->dir[i].fin = true;
		wake(&c->end[!i]);
	}
	conn_drop(c);
}

/* The other end is gone: a packet of end @i will be answered by RST, or by nothing. */
static void keep_alive(struct vconn *c, int i)
{
	if (c->end[i].is_open && !c->end[i].is_reset)
		conn_at(c, c->sim->now + (c->is_hole ? KEEP_ALIVE_DEAD_NS : KEEP_ALIVE_NS),
			ev_reset, (uint64_t)i);
}

void v_close(struct vend *e, bool reset)
{
	struct vconn *c = e->c;
	int o = !e->i;

	assert(e->is_open);
	e->is_open = false;
	if (!c->is_dead && !e->is_reset && (c->is_established || e->i == 1)) {
		if (reset || v_readable(e) > 0) {
			conn_at(c, c->sim->now + c->latency, ev_reset, (uint64_t)o);
		} else if (!c->dir[e->i].is_shut) {
			c->dir[e->i].is_shut = true;
			conn_at(c, c->sim->now + c->latency, ev_fin, (uint64_t)e->i);
		}
	}
	conn_drop(c);
}

void v_cut(struct vconn *c, urds_ns late0, urds_ns late1)
{
	urds_ns late[2] = {late0, late1};

	if (c->is_dead)
		return;
	TRACE(c->sim, "connection %u is cut", c->no);
	c->is_dead = true;
	for (int i = 0; i < 2; i++) {
		if (late[i] == URDS_NEVER)
			keep_alive(c, i);
		else
			conn_at(c, c->sim->now + late[i], ev_reset, (uint64_t)i);
	}
}

void v_hole(struct vconn *c)
{
	c->is_hole = true;
	v_cut(c, URDS_NEVER, URDS_NEVER);
}

void v_kill(struct vhost *h)
{
	struct vconn *c, *next;

	for (c = h->sim->conns; c; c = next) {
		next = c->next;
		for (int i = 0; i < 2; i++)
			if (c->end[i].is_open && c->end[i].host == h) {
				bool last = c->refs == 1;

				v_close(&c->end[i], false);
				if (last)
					break;
			}
	}
}

static void ev_wake(void *arg, uint64_t i)
{
	struct vconn *c = arg;

	wake(&c->end[i]);
	conn_drop(c);
}

void v_cont(struct vhost *h)
{
	h->is_stopped = false;
	for (unsigned no = 0; no < h->sim->nconns; no++) /* accepted in order */
		for (struct vconn *c = h->sim->conns; c; c = c->next)
			if (c->waits && c->no == no && c->end[1].host == h) {
				c->waits = false;
				conn_at(c, h->sim->now, ev_accept, 0);
			}
	for (struct vconn *c = h->sim->conns; c; c = c->next)
		for (int i = 0; i < 2; i++)
			if (c->end[i].is_open && c->end[i].host == h)
				conn_at(c, h->sim->now, ev_wake, (uint64_t)i);
}

struct vconn *v_any(struct sim *s)
{
	struct vconn *c;
	uint32_t n = 0, pick;

	for (c = s->conns; c; c = c->next)
		n += c->is_established && !c->is_dead;
	if (n == 0)
		return NULL;
	pick = sim_below(s, n);
	for (c = s->conns;; c = c->next)
		if (c->is_established && !c->is_dead && pick-- == 0)
			return c;
}

unsigned v_longest(const struct sim *s, uint64_t bytes[2])
{
	const struct vconn *c, *best = s->conns;

	for (c = s->conns; c; c = c->next)
		if (c->dir[0].written + c->dir[1].written >
		    best->dir[0].written + best->dir[1].written)
			best = c;
	if (!best)
		return 0;
	bytes[0] = best->dir[0].written;
	bytes[1] = best->dir[1].written;
	return best->no;
}

/* ---- bytes ---- */

static void ev_ack(void *arg, uint64_t upto_dir)
{
	struct vconn *c = arg;
	struct vdir *d = &c->dir[upto_dir & 1];

	if (!c->is_dead && !c->end[upto_dir & 1].is_reset) {
		d->acked = upto_dir >> 1;
		d->progress = c->sim->now;
		wake(&c->end[upto_dir & 1]);
	}
	conn_drop(c);
}

static void ev_data(void *arg, uint64_t upto_dir)
{
	struct vconn *c = arg;
	int i = (int)(upto_dir & 1);
	uint64_t upto = upto_dir >> 1;
	struct vdir *d = &c->dir[i];
	struct vend *to = &c->end[!i];
	const struct sim_cut *cut = &c->sim->cut;

	if (c->is_dead) {
		/* The writer was not told: now it is. */
		if (!c->is_hole)
			conn_at(c, c->sim->now + c->latency, ev_reset, (uint64_t)i);
	} else if (!to->is_reset && to->is_open) {
		bool cuts = cut->is_set && cut->conn == c->no && cut->dir == i && upto >= cut->at;

		d->arrived = cuts ? cut->at : upto;
		if (!cuts) {
			conn_at(c, c->sim->now + c->latency, ev_ack, upto_dir);
		} else {
			if (!cut->ack_lost)
				d->acked = cut->at;
			v_cut(c, cut->late[0], cut->late[1]);
		}
		wake(to);
	} else if (!to->is_open) {
		conn_at(c, c->sim->now + c->latency, ev_reset, (uint64_t)i);
	}
	conn_drop(c);
}

unsigned v_no(const struct vend *e)
{
	return e->c->no;
}

size_t v_write(struct vend *e, const void *p, size_t n)
{
	struct vconn *c = e->c;
	struct vdir *d = &c->dir[e->i];
	size_t room;

	if (e->is_reset || d->is_shut || !c->is_established)
		return 0;
	room = d->written - d->acked < c->sndbuf ? c->sndbuf - (size_t)(d->written - d->acked) : 0;
	if (n > room)
		n = room;
	if (n == 0)
		return 0;
	if (d->written + n > d->cap) {
		d->cap = (size_t)(d->written + n) * 2;
		d->buf = realloc(d->buf, d->cap);
	}
	memcpy(d->buf + d->written, p, n);
	if (d->written == d->acked)
		d->progress = c->sim->now;
	d->written += n;
	conn_at(c, c->sim->now + c->latency, ev_data, d->written << 1 | (uint64_t)e->i);
	return n;
}

size_t v_readable(const struct vend *e)
{
	const struct vdir *d = &e->c->dir[!e->i];

	return (size_t)(d->arrived - d->read);
}

size_t v_read(struct vend *e, void *p, size_t n)
{
	struct vdir *d = &e->c->dir[!e->i];

	if (n > v_readable(e))
		n = v_readable(e);
	if (n > 0)
		memcpy(p, d->buf + d->read, n);
	d->read += n;
	return n;
}

bool v_is_over(const struct vend *e)
{
	return e->is_reset || e->c->dir[!e->i].fin;
}

bool v_ended(const struct vend *e)
{
	return v_readable(e) == 0 && v_is_over(e);
}

uint64_t v_acked(const struct vend *e)
{
	return e->c->dir[e->i].acked;
}

uint64_t v_written(const struct vend *e)
{
	return e->c->dir[e->i].written;
}

urds_ns v_silence(const struct vend *e)
{
	const struct vdir *d = &e->c->dir[e->i];

	return d->written == d->acked ? 0 : e->c->sim->now - d->progress;
}
