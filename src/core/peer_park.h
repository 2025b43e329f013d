/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Inside a peer's connection policy: what its two files do to the same slots.
 */
#ifndef URDS_CORE_PEER_PARK_H
#define URDS_CORE_PEER_PARK_H

#include <assert.h>

#include "core/peer.h"

#define ANY_SLOT URDS_PATHS_MAX

static inline void act(struct urds_peer_out *out, enum urds_peer_act a, unsigned slot, unsigned k)
{
	assert(out->n < sizeof out->v / sizeof out->v[0]);
	out->v[out->n].act = (uint8_t)a;
	out->v[out->n].slot = (uint8_t)slot;
	out->v[out->n].k = (uint8_t)k;
	out->n++;
}

static inline bool has_parked(const struct urds_peer *p)
{
	return p->parked != NULL;
}

static inline bool is_free(const struct urds_peer *p, unsigned slot)
{
	unsigned state = urds_peer_slot(p, slot)->state;

	return state == URDS_SLOT_DOWN || state == URDS_SLOT_KNOCKING;
}

/* ---- peer.c */
/* To be changed; NULL: no memory. */
struct urds_slot *urds_peer_slot_of(struct urds_peer *p, unsigned slot);
/* @lane: accepted: of its source port. We may take it for another path than its maker does, until it has said which
 * one it is: what we sent would move the wrong count at the other end. */
void urds_peer_attach(struct urds_peer *p, struct urds_slot *s, enum urds_slot_state state,
		      unsigned lane, urds_ns now);

/* ---- peer_park.c */
/* Asks all UP slots whether they live. */
void urds_peer_challenge(struct urds_peer *p, urds_ns now, struct urds_peer_out *out);
/* An accepted connection has to wait. @for_slot: the only one it may have, or ANY_SLOT. */
void urds_peer_park(struct urds_peer *p, unsigned for_slot, unsigned lane, urds_ns now,
		    struct urds_peer_out *out);
/* A slot became free: the connection parked for it, if any, takes its place. Return: did it? */
bool urds_peer_promote(struct urds_peer *p, unsigned slot, urds_ns now, struct urds_peer_out *out);
/* Gives what is parked for no slot in particular one, if that is known by now; if not, and it is parked since
 * before @since_before, during which nothing has died: then it is a further path. */
void urds_peer_place_parked(struct urds_peer *p, urds_ns since_before, urds_ns now,
			    struct urds_peer_out *out);
/* What waited for the urds peer to be gone. */
void urds_peer_place_successors(struct urds_peer *p, urds_ns now, struct urds_peer_out *out);
/* The UP slots were asked whether they live, because connections are parked or L knocked. */
void urds_peer_tick_challenge(struct urds_peer *p, urds_ns now, struct urds_peer_out *out);

#endif
