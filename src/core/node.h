/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A node: one local address, its congestion map, and what is bound to it. Also the counters of peers that were
 * collected, which must not start again from nothing (A4).
 */
#ifndef URDS_CORE_NODE_H
#define URDS_CORE_NODE_H

#include "core/buf.h"
#include "wire/congmap.h"

/* ---------------------------------------------------------------- the map of our congested ports */

struct urds_localmap {
	uint8_t *bits;	    /* NULL: all clear and never was otherwise */
	uint32_t congested; /* bits set */
	uint32_t gen;	    /* changes with every flip: paths compare it (design 5.7) */
};

/* Sets or clears the bit of @port. Return: 1 it changed, 0 it was so already, -URDS_ENOMEM. */
int urds_localmap_flip(struct urds_localmap *m, struct urds_mem *mem, uint16_t port,
		       bool congested);
void urds_localmap_fini(struct urds_localmap *m, struct urds_mem *mem);

/* What to send: the bits, or NULL for an all-clear map. */
static inline const uint8_t *urds_localmap_bits(const struct urds_localmap *m)
{
	return m->congested > 0 ? m->bits : NULL;
}

/* ---------------------------------------------------------------- the map a peer sent us */

struct urds_remotemap {
	uint8_t *bits;	    /* NULL while all clear */
	uint32_t congested; /* bits set, at the last update */
};

/* A map arrived, or @now is NULL: path 0 lost its connection, and what its map said holds no longer: senders that wait
 * for a bit to clear go on, or nothing would ever make the connection anew (C3). Borrows @now. Ports that went from congested to clear: walk @d afterwards; it borrows *was, which
 * the caller frees with urds_remotemap_free_old(). Return: 0 or -URDS_ENOMEM (the old map stays). */
int urds_remotemap_update(struct urds_remotemap *m, struct urds_mem *mem, const uint8_t *now,
			  uint8_t **was, struct urds_congmap_diff *d);
void urds_remotemap_free_old(struct urds_mem *mem, uint8_t *was);

static inline bool urds_remotemap_test(const struct urds_remotemap *m, uint16_t port)
{
	return m->bits && urds_congmap_test(m->bits, port);
}

/* ---------------------------------------------------------------- what is bound where */

/* Chained by the bind table through the socket it stands for. */
struct urds_bound {
	struct urds_bound *next;
	struct urds_endpoint at;
};

struct urds_bindtab {
	struct urds_mem *mem;
	struct urds_bound **heads; /* power of two of them; NULL: nothing bound */
	uint32_t size, count;
};

/* @b stays the caller's, linked until removed. Return: 0, -URDS_EADDRINUSE, -URDS_EINVAL (port 0 or 1),
 * -URDS_ENOMEM. */
int urds_bindtab_add(struct urds_bindtab *t, struct urds_bound *b);
void urds_bindtab_remove(struct urds_bindtab *t, struct urds_bound *b);
struct urds_bound *urds_bindtab_find(const struct urds_bindtab *t, const struct urds_addr *a,
				     uint16_t port);
/* A free port of @a, chosen by @random; 0: none is left. */
uint16_t urds_bindtab_free_port(const struct urds_bindtab *t, const struct urds_addr *a,
				uint64_t random);
void urds_bindtab_fini(struct urds_bindtab *t);

/* ---------------------------------------------------------------- peers that were collected */

/* What a new object for the same pair of addresses must not forget: a kernel counts on, and its flagged resend would
 * otherwise be delivered twice (A4). */
struct urds_remembered {
	struct urds_addr local, remote;
	uint64_t next_tx[8], next_rx[8];
};

/* The youngest URDS_REMEMBERED_MAX of them, in a ring; the oldest is forgotten. Zeroed is empty. */
struct urds_memory {
	struct urds_remembered *ring; /* NULL: nothing remembered */
	uint32_t count, next;
};

/* Copies @r. Return: 0, or -URDS_ENOMEM: it is forgotten at once. */
int urds_memory_add(struct urds_memory *m, struct urds_mem *mem, const struct urds_remembered *r);
/* The latest for this pair, and forgets it. Return: was there one? */
bool urds_memory_take(struct urds_memory *m, const struct urds_addr *local,
		      const struct urds_addr *remote, struct urds_remembered *out);
void urds_memory_fini(struct urds_memory *m, struct urds_mem *mem);

static inline uint32_t urds_addr_hash(const struct urds_addr *a, uint32_t salt)
{
	uint64_t x, y;

	memcpy(&x, a->ip, 8);
	memcpy(&y, a->ip + 8, 8);
	x = (x ^ salt) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 32) ^ y) * 0xd6e8feb86659fd93u;
	return (uint32_t)(x ^ (x >> 32));
}

#endif
