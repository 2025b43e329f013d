/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Single-threaded. Bytes move straight from the sender's buffers into the receiver's, in
 * null_run().
 */
#include "null_transport.h"

#include <assert.h>
#include <stdlib.h>

#define DEPTH_BYTES 50000u /* what one end may have in flight; odd on purpose */
#define DEPTH_IOVS 64u
#define POST_IOVS 16u

struct end {
	struct urds_link base;
	struct end *next, *peer;  /* peer NULL: closed, or never there */
	struct urds_listener *ls; /* to be accepted by */
	struct urds_addr from;
	bool is_new, is_closed, is_fin, is_reset, was_short, has_told_end;
	int connect_err;
	/* In flight, from us: */
	struct urds_iov out[DEPTH_IOVS];
	size_t out_n, out_bytes;
	/* Posted, by us: */
	struct urds_iov post[POST_IOVS];
	size_t post_n;
};

struct listener {
	struct urds_listener base;
	struct listener *next;
};

struct null {
	struct urds_transport base;
	struct end *ends;
	struct listener *listeners;
	uint16_t port;
};

static struct null *null_of(struct urds_transport *t)
{
	return urds_container_of(t, struct null, base);
}

static struct end *end_of(struct urds_link *l)
{
	return urds_container_of(l, struct end, base);
}

static int tx(struct urds_link *l, const struct urds_iov *v, size_t n, size_t *taken,
	      size_t *released)
{
	struct end *e = end_of(l);
	size_t done = 0, want = 0;

	*taken = *released = 0;
	if (!e->peer || e->is_reset)
		return -URDS_ECONNRESET;
	for (size_t i = 0; i < n; i++) {
		size_t len = v[i].len;

		want += len;
		if (e->out_n == DEPTH_IOVS || e->out_bytes == DEPTH_BYTES)
			continue;
		if (len > DEPTH_BYTES - e->out_bytes)
			len = DEPTH_BYTES - e->out_bytes;
		if (len == 0)
			continue;
		e->out[e->out_n].base = v[i].base;
		e->out[e->out_n++].len = len;
		e->out_bytes += len;
		done += len;
	}
	e->was_short = done < want;
	*taken = done;
	return 0;
}

static enum urds_rx_how rx(struct urds_link *l, const struct urds_iov *v, size_t n, size_t *got)
{
	struct end *e = end_of(l);

	*got = 0;
	assert(e->post_n == 0 && n > 0 && n <= POST_IOVS);
	memcpy(e->post, v, n * sizeof(*v));
	e->post_n = n;
	return URDS_RX_POSTED;
}

static uint64_t unknown(struct urds_link *l)
{
	return URDS_UNKNOWN;
}

static int none(struct urds_link *l)
{
	return -1;
}

static void ports(struct urds_link *l, uint16_t *local, uint16_t *remote)
{
	*local = *remote = 0;
}

static const struct urds_data_ops data_ops = {.name = "null",
					      .tx = tx,
					      .rx = rx,
					      .acked = unknown,
					      .silence = unknown,
					      .incoming_cpu = none,
					      .fd = none,
					      .ports = ports};

static struct listener *find(struct null *t, const struct urds_addr *a)
{
	for (struct listener *ls = t->listeners; ls; ls = ls->next)
		if (urds_addr_eq(&ls->base.addr, a))
			return ls;
	return NULL;
}

static int null_listen(struct urds_transport *base, const struct urds_addr *addr, void *user,
		       struct urds_listener **out)
{
	struct null *t = null_of(base);
	struct listener *ls;

	if (find(t, addr))
		return -URDS_EADDRINUSE;
	ls = calloc(1, sizeof(*ls));
	ls->base.t = base;
	ls->base.addr = *addr;
	ls->base.user = user;
	ls->next = t->listeners;
	t->listeners = ls;
	*out = &ls->base;
	return 0;
}

static struct end *end_new(struct null *t)
{
	struct end *e = calloc(1, sizeof(*e));

	e->base.t = &t->base;
	e->is_new = true;
	e->next = t->ends;
	t->ends = e;
	return e;
}

static int null_dial(struct urds_transport *base, const struct urds_addr *local,
		     const struct urds_addr *remote, int lane, void *user, struct urds_link **out)
{
	struct null *t = null_of(base);
	struct listener *ls = find(t, remote);
	struct end *e = end_new(t), *in;

	e->base.user = user;
	*out = &e->base;
	if (!ls) {
		e->connect_err = -URDS_ECONNREFUSED;
		return 0;
	}
	in = end_new(t);
	in->ls = &ls->base;
	in->from = *local;
	e->peer = in;
	in->peer = e;
	return 0;
}

static void null_shutdown(struct urds_link *l)
{
	end_of(l)->is_fin = true;
}

static void null_close(struct urds_link *l, enum urds_close_how how)
{
	struct end *e = end_of(l);

	if (e->peer) {
		if (how == URDS_CLOSE_RESET || e->out_n > 0 || e->peer->out_n > 0)
			e->peer->is_reset = true;
		e->peer->peer = NULL;
		e->peer = NULL;
	}
	/* Freed by the next null_run(), which may be up the stack. */
	e->is_closed = true;
	e->out_n = e->post_n = 0;
}

static void null_unlisten(struct urds_listener *base)
{
	struct null *t = null_of(base->t);
	struct listener *ls = urds_container_of(base, struct listener, base), **p = &t->listeners;

	while (*p != ls)
		p = &(*p)->next;
	*p = ls->next;
	for (struct end *e = t->ends; e; e = e->next)
		if (e->is_new && e->ls == base)
			null_close(&e->base, URDS_CLOSE_RESET);
	t->base.sink->on_unlistened(base);
	free(ls);
}

static const struct urds_connect_ops connect_ops = {.listen = null_listen,
						    .unlisten = null_unlisten,
						    .dial = null_dial,
						    .shutdown = null_shutdown,
						    .close = null_close};

/* Moves what fits from @from into @to's posted buffers. Return: bytes. */
static size_t move(struct end *from, struct end *to)
{
	size_t moved = 0, k = 0, at = 0, o = 0;

	while (o < from->out_n && k < to->post_n) {
		struct urds_iov *s = &from->out[o], *d = &to->post[k];
		size_t n = s->len < d->len - at ? s->len : d->len - at;

		memcpy((char *)d->base + at, s->base, n);
		s->base = (char *)s->base + n;
		s->len -= n;
		at += n;
		moved += n;
		if (s->len == 0)
			o++;
		if (at == d->len) {
			k++;
			at = 0;
		}
	}
	from->out_n -= o;
	memmove(from->out, from->out + o, from->out_n * sizeof(from->out[0]));
	from->out_bytes -= moved;
	return moved;
}

static bool begin(struct end *e)
{
	const struct urds_link_sink *sink = e->base.t->sink;

	e->is_new = false;
	if (e->ls)
		sink->on_accept(e->ls, &e->base, &e->from, 40000);
	else
		sink->on_connected(&e->base, e->connect_err);
	return true;
}

static bool receive(struct end *e)
{
	const struct urds_link_sink *sink = e->base.t->sink;
	struct end *p = e->peer;
	size_t n;

	if (e->post_n == 0)
		return false;
	if (p && p->out_n > 0 && !p->is_new) {
		n = move(p, e);
		e->post_n = 0;
		sink->on_rx(&e->base, n);
		/* Either end may have been closed in there. */
		if (e->peer == p)
			sink->on_tx_released(&p->base, n);
		if (e->peer == p && p->was_short && !p->is_closed) {
			p->was_short = false;
			sink->on_writable(&p->base);
		}
		return true;
	}
	if ((!p || p->is_fin) && !e->connect_err) {
		e->post_n = 0;
		e->base.end = e->is_reset ? URDS_LINK_RESET : URDS_LINK_EOF;
		sink->on_rx(&e->base, 0);
		return true;
	}
	return false;
}

bool null_run(struct urds_transport *base)
{
	struct null *t = null_of(base);
	bool did = false;

	for (struct end *e = t->ends; e; e = e->next) {
		if (e->is_closed)
			continue;
		did |= e->is_new ? begin(e) : receive(e);
	}
	for (struct end **p = &t->ends, *e; (e = *p);) {
		if (!e->is_closed) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		if (!e->is_new || !e->ls) /* the sink knows it */
			t->base.sink->on_closed(&e->base);
		free(e);
		did = true;
	}
	return did;
}

struct urds_transport *null_new(const struct urds_link_sink *sink)
{
	struct null *t = calloc(1, sizeof(*t));

	t->base.data = &data_ops;
	t->base.connect = &connect_ops;
	t->base.sink = sink;
	return &t->base;
}

void null_free(struct urds_transport *t)
{
	while (null_run(t))
		;
	assert(!null_of(t)->ends && !null_of(t)->listeners);
	free(null_of(t));
}
