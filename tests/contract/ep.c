/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The recording, checking sink.
 */
#include "bed.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t rnd_state = 1;
int ep_bad_bytes;

uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state;
}

static uint8_t byte_at(uint8_t tag, uint64_t pos)
{
	return (uint8_t)(tag + pos * 31 + (pos >> 8) * 7 + (pos >> 16) * 3);
}

struct ep *ep_new(struct urds_transport *t, uint8_t tag)
{
	struct ep *e = calloc(1, sizeof(*e));

	e->t = t;
	e->tag = tag;
	e->may_rx = e->may_tx = true;
	return e;
}

void ep_free(struct ep *e)
{
	while (e->first) {
		struct piece *p = e->first;

		e->first = p->next;
		free(p);
	}
	free(e->rx_mem);
	free(e);
}

/* The first @bytes outstanding are ours again. Overwritten at once: a transport that still reads
 * them sends garbage, and the other end sees it. */
static void released(struct ep *e, size_t bytes)
{
	e->tx_released += bytes;
	while (bytes > 0) {
		struct piece *p = e->first;
		size_t n;

		assert(p);
		n = p->len - p->released < bytes ? p->len - p->released : bytes;
		memset(p->bytes + p->released, 0xa5, n);
		p->released += n;
		bytes -= n;
		if (p->released < p->len)
			break;
		e->first = p->next;
		if (!e->first)
			e->last = NULL;
		free(p);
	}
}

long ep_tx(struct ep *e, size_t want, size_t max_iov)
{
	struct urds_iov *v = calloc(max_iov, sizeof(*v));
	struct piece **pieces = calloc(max_iov, sizeof(struct piece *));
	size_t n = 0, taken = 0, freed = 0, left = want;
	uint64_t pos = e->tx_pos;
	int rc;

	while (left > 0 && n < max_iov) {
		size_t len = n + 1 == max_iov ? left : 1 + rnd_below(1 + 2 * left / max_iov);
		struct piece *p;

		if (len > left)
			len = left;
		p = malloc(sizeof(*p) + len);
		p->next = NULL;
		p->len = len;
		p->released = 0;
		for (size_t i = 0; i < len; i++)
			p->bytes[i] = byte_at(e->tag, pos++);
		v[n].base = p->bytes;
		v[n].len = len;
		pieces[n++] = p;
		left -= len;
	}
	rc = e->t->data->tx(e->l, v, n, &taken, &freed);
	e->tx_pos += taken;
	for (size_t i = 0, t = taken; i < n; i++) {
		struct piece *p = pieces[i];

		if (t == 0) {
			memset(p->bytes, 0x5a, p->len);
			free(p);
			continue;
		}
		if (p->len > t) {
			memset(p->bytes + t, 0x5a, p->len - t);
			p->len = t;
		}
		t -= p->len;
		if (e->last)
			e->last->next = p;
		else
			e->first = p;
		e->last = p;
	}
	released(e, freed);
	if (taken < want && rc == 0)
		e->may_tx = false;
	free(pieces);
	free(v);
	return rc < 0 ? rc : (long)taken;
}

static void check_got(struct ep *e, size_t got)
{
	/* The other end's tag. */
	uint8_t tag = e->tag ^ 1;

	assert(got <= e->rx_asked);
	for (size_t i = 0; i < e->rx_n && got > 0; i++) {
		const uint8_t *p = e->rx_iov[i].base;
		size_t n = e->rx_iov[i].len < got ? e->rx_iov[i].len : got;

		for (size_t k = 0; k < n; k++) {
			if (p[k] == byte_at(tag, e->rx_pos + k))
				continue;
			if (ep_bad_bytes++ == 0)
				printf("# byte %llu: %02x, not %02x\n",
				       (unsigned long long)e->rx_pos + k, p[k],
				       byte_at(tag, e->rx_pos + k));
		}
		e->rx_pos += n;
		got -= n;
	}
}

size_t ep_rx(struct ep *e, size_t want)
{
	size_t n = 1 + rnd_below(16), got = 0, at = 0;
	enum urds_rx_how how;

	if (e->is_posted || e->has_ended)
		return 0;
	free(e->rx_mem);
	e->rx_mem = malloc(want);
	memset(e->rx_mem, 0xee, want);
	for (e->rx_n = 0; e->rx_n < n && at < want; e->rx_n++) {
		size_t len = e->rx_n + 1 == n ? want - at : 1 + rnd_below(1 + 2 * want / n);

		if (len > want - at)
			len = want - at;
		e->rx_iov[e->rx_n].base = e->rx_mem + at;
		e->rx_iov[e->rx_n].len = len;
		at += len;
	}
	e->rx_asked = at;
	how = e->t->data->rx(e->l, e->rx_iov, e->rx_n, &got);
	switch (how) {
	case URDS_RX_NOW:
		assert(got > 0);
		check_got(e, got);
		/* The short-read rule of on_readable(). */
		if (got < e->rx_asked && !e->ended_hint)
			e->may_rx = false;
		return got;
	case URDS_RX_WAIT:
		e->may_rx = false;
		return 0;
	case URDS_RX_POSTED:
		e->is_posted = true;
		e->may_rx = false;
		return 0;
	case URDS_RX_ENDED:
		assert(got == 0);
		e->has_ended = true;
		e->may_rx = false;
		return 0;
	}
	return 0;
}

size_t ep_drain(struct ep *e)
{
	size_t sum = 0;

	while (e->may_rx)
		sum += ep_rx(e, 1 + rnd_below(100000));
	return sum;
}

void ep_close(struct ep *e, enum urds_close_how how)
{
	e->is_closed = true;
	e->may_rx = e->may_tx = false;
	e->t->connect->close(e->l, how);
}

static struct ep *heard(struct urds_link *l)
{
	struct ep *e = l->user;

	if (e->is_closed)
		e->late++;
	return e;
}

static void on_readable(struct urds_link *l, bool ended)
{
	struct ep *e = heard(l);

	e->readables++;
	e->may_rx = true;
	if (ended)
		e->ended_hint = true;
	if (e->close_in == IN_READABLE)
		ep_close(e, URDS_CLOSE_NOW);
}

static void on_writable(struct urds_link *l)
{
	struct ep *e = heard(l);

	e->writables++;
	e->may_tx = true;
	if (e->close_in == IN_WRITABLE)
		ep_close(e, URDS_CLOSE_RESET);
}

static void on_rx(struct urds_link *l, size_t got)
{
	struct ep *e = heard(l);

	assert(e->is_posted);
	e->is_posted = false;
	e->may_rx = true;
	e->readables++;
	if (got > 0) {
		check_got(e, got);
	} else {
		e->has_ended = true;
		e->may_rx = false;
	}
	if (e->close_in == IN_READABLE)
		ep_close(e, URDS_CLOSE_NOW);
}

static void on_tx_released(struct urds_link *l, size_t bytes)
{
	released(heard(l), bytes);
}

static void on_connected(struct urds_link *l, int err)
{
	struct ep *e = heard(l);

	e->connected++;
	e->connect_err = err;
	if (e->close_in == IN_CONNECTED)
		ep_close(e, URDS_CLOSE_NOW);
}

static void on_accept(struct urds_listener *ls, struct urds_link *l, const struct urds_addr *from,
		      uint16_t from_port)
{
	struct door *d = ls->user;
	struct ep *e = ep_new(l->t, 3);

	assert(d->n < sizeof(d->in) / sizeof(d->in[0]));
	d->in[d->n++] = e;
	e->l = l;
	e->from = *from;
	e->from_port = from_port;
	l->user = e;
	if (d->close_at_once)
		ep_close(e, URDS_CLOSE_RESET);
}

static void on_closed(struct urds_link *l)
{
	struct ep *e = l->user;

	e->closed++;
	e->l = NULL;
}

static void on_unlistened(struct urds_listener *ls)
{
	((struct door *)ls->user)->unlistened++;
}

const struct urds_link_sink ep_sink = {
	.on_readable = on_readable,
	.on_writable = on_writable,
	.on_rx = on_rx,
	.on_tx_released = on_tx_released,
	.on_connected = on_connected,
	.on_accept = on_accept,
	.on_closed = on_closed,
	.on_unlistened = on_unlistened,
};
