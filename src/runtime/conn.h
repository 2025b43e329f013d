/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * An event of core's connection policy: it runs under the peer's lock. What its actions do to the peer is done there; what leaves
 * the peer (dialling, closing, transmitting) is listed and done after the lock is released, because a transport may answer at once.
 */
#ifndef URDS_RUNTIME_CONN_H
#define URDS_RUNTIME_CONN_H

#include <assert.h>

#include "platform/clock.h"
#include "runtime/conn_news.h"
#include "runtime/engine.h"

enum deferred_kind {
	DEFER_DIAL,
	DEFER_CLOSE,
	DEFER_RESET,
	DEFER_TRANSMIT,
	DEFER_RECEIVE,
	DEFER_CHECK,
	DEFER_PARKED
};

struct deferred {
	size_t n;
	struct {
		enum deferred_kind kind;
		struct path *path;
		struct urds_link *link;
	} v[64];
};

static inline void defer(struct deferred *d, enum deferred_kind kind, struct path *path,
			 struct urds_link *link)
{
	assert(d->n < sizeof d->v / sizeof d->v[0]);
	d->v[d->n].kind = kind;
	d->v[d->n].path = path;
	d->v[d->n++].link = link;
}

/* Peer lock held. @l: the link the event was about, or NULL. */
void conn_carry_out(struct peer *p, const struct urds_peer_out *out, struct urds_link *l,
		    struct deferred *d);
/* No lock held. */
void conn_do(struct peer *p, const struct deferred *d);
/* @l, parked, may hold something, or has ended. No lock held. */
void parked_readable(struct peer *p, struct urds_link *l);

/* @call: the event, which puts its actions into &out. */
#define PEER_EVENT(p, link, call)                          \
	do {                                               \
		struct urds_peer_out out = {0};            \
		struct deferred later = {0};               \
		struct conn_news news;                     \
		urds_lock_acquire(&(p)->lock);             \
		conn_news_begin(&news, (p));               \
		call;                                      \
		conn_carry_out((p), &out, (link), &later); \
		conn_news_end(&news, (p));                 \
		urds_lock_release(&(p)->lock);             \
		conn_news_tell(&news);                     \
		conn_do((p), &later);                      \
		peer_rearm((p), urds_clock_ns());          \
	} while (0)

/* A link's user is its peer, marked with the slot, or PARKED. */
#define MARKS 15u
#define PARKED 8u

static inline void *marked(struct peer *p, unsigned mark)
{
	return (char *)p + mark;
}

static inline struct peer *peer_of(void *user)
{
	return (struct peer *)(void *)((char *)user - ((uintptr_t)user & MARKS));
}

static inline unsigned mark_of(void *user)
{
	return (unsigned)((uintptr_t)user & MARKS);
}

/* ---- conn_dial.c */
void conn_dial(struct peer *p, struct path *h);
/* @l, of a dial() for @h that may still be under way, is connected, or @err says why not. */
void conn_answered(struct path *h, struct urds_link *l, int err);

#endif
