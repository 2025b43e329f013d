/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A peer: one pair of addresses, and every decision about its connections: who connects when, what counts as a
 * proof of life, which connection replaces which, when a peer is dead, what kind of peer it is.
 *
 * Events go in, actions come out, to be carried out in order. Time and randomness are arguments. The peer knows
 * slots (0..7) and parked connections by number; links, logs and sockets are the caller's.
 *
 * Final connections always run from the smaller address (S) to the larger (L); L asks for one by
 * connecting and closing again, a knock (W8). With equal addresses the connection runs in memory from
 * slot 0 to slot 1 of the same peer.
 */
#ifndef URDS_CORE_PEER_H
#define URDS_CORE_PEER_H

#include "core/limits.h"
#include "core/buf.h"
#include "core/fault.h"
#include "wire/probe.h"

enum urds_slot_state {
	URDS_SLOT_DOWN,
	URDS_SLOT_DIALLING, /* S: connecting */
	URDS_SLOT_KNOCKING, /* L: connecting, to be closed again */
	URDS_SLOT_HELD,	    /* S: connected, no header yet (W9) */
	URDS_SLOT_UP,
};

enum urds_peer_kind {
	URDS_KIND_UNKNOWN, /* on this connection, so far: release nothing */
	URDS_KIND_KERNEL,  /* TCP acks are acks */
	URDS_KIND_URDS,	   /* end-to-end acks */
};

struct urds_slot {
	urds_ns at; /* DOWN: not to be dialled before. DIALLING, KNOCKING, HELD: since. UP: of the first header */
	uint8_t state; /* enum urds_slot_state */
	uint8_t kind;  /* enum urds_peer_kind */
	uint8_t tries; /* failures in a row: the backoff */
	bool heard;    /* a header has come on this connection */
	bool is_held; /* accepted, and neither a header nor a probe has shown yet that it belongs here: nothing is sent */
	uint8_t lane; /* accepted: source port modulo 8 (W5); else URDS_PATHS_MAX */
};

struct urds_parked {
	bool is_used;
	uint8_t slot;	/* the one it is for, or URDS_PATHS_MAX: any */
	uint8_t lane;	/* source port modulo 8 */
	uint32_t order; /* of arrival */
	urds_ns since;
};

struct urds_peer {
	struct urds_addr local, remote;
	struct urds_mem *mem;
	struct urds_slot first;	    /* slot 0 */
	struct urds_slot *more;	    /* slots 1..7, or NULL: never used */
	struct urds_parked *parked; /* URDS_PARKED_MAX, or NULL: none is parked */
	urds_ns challenged;	    /* when the UP slots were last challenged; 0: not */
	urds_ns check_at;	    /* next look at how the challenge goes */
	urds_ns down_since;	    /* last loss of a proven connection */
	uint32_t incarnation;	    /* of an urds peer; 0: not known */
	uint32_t caps;
	struct urds_fault_note fault; /* the last, of any slot */
	uint32_t parked_order;	      /* of the next one */
	uint8_t npaths;		      /* agreed; 0: not known */
	uint8_t spread;		      /* paths that senders use; 0: one */
	uint8_t our_paths;	      /* what we offer */
	uint8_t answered;	      /* slots that answered the challenge */
	uint8_t challenged_slots;
	uint8_t version;    /* of an urds peer's extension */
	bool has_sport_idx; /* source port modulo 8 is the slot (W5) */
	bool ext;	    /* we speak the urds extension */
	bool is_proven;	    /* some connection ever carried a header */
};

enum urds_peer_act {
	URDS_ACT_DIAL, /* connect from local to remote with lane = slot; answer: urds_peer_dialled() */
	URDS_ACT_KNOCK,	  /* the same, to be closed */
	URDS_ACT_HANG_UP, /* give up the dial in progress on slot */
	URDS_ACT_ATTACH,  /* the link of this event is the slot's connection now; path_tx_up */
	URDS_ACT_CLOSE,	  /* close the link of this event */
	URDS_ACT_PARK, /* keep the link of this event as parked number k: read it into a bounded buffer */
	URDS_ACT_PROMOTE, /* parked k is slot's connection now; its bytes first */
	URDS_ACT_EVICT,	  /* close parked k */
	URDS_ACT_DROP, /* slot's connection is dead: read what there is, then close, then urds_peer_down() */
	URDS_ACT_PROVEN, /* slot: path_tx_proven */
	URDS_ACT_PROBE,	 /* slot: queue a probe in order */
	URDS_ACT_ANSWER, /* slot: queue the answer to a probe */
	URDS_ACT_KIND,	 /* slot.kind changed: apply acks accordingly */
	URDS_ACT_RESTARTED, /* the peer is a new incarnation: expected sequences start anew, slot's behind the probe */
	URDS_ACT_CHECK, /* slot: tell urds_peer_silence() how long it has been silent */
	URDS_ACT_UNDO,	/* slot: the probe was not for it: path_rx_undo. DROP follows */
};

struct urds_peer_out {
	size_t n;
	struct {
		uint8_t act, slot, k;
	} v[32];
};

/* @ext, @our_paths: configuration. Takes nothing. */
void urds_peer_init(struct urds_peer *p, struct urds_mem *mem, const struct urds_addr *local,
		    const struct urds_addr *remote, unsigned our_paths, bool ext);
void urds_peer_fini(struct urds_peer *p);

/* The state of @slot; for slots never used a constant DOWN. */
const struct urds_slot *urds_peer_slot(const struct urds_peer *p, unsigned slot);

/* Do we open the connections? */
static inline bool urds_peer_dials(const struct urds_peer *p)
{
	return urds_addr_cmp(&p->local, &p->remote) <= 0;
}

static inline bool urds_peer_is_self(const struct urds_peer *p)
{
	return urds_addr_eq(&p->local, &p->remote);
}

/* Slot that a socket bound to @port sends on. @pending: slots with something queued or unacknowledged: while there is
 * any, more paths are not used, for messages on a new path would overtake those on the old. */
unsigned urds_peer_slot_for(struct urds_peer *p, uint16_t port, unsigned pending);

/* What our probe says to this peer. */
void urds_peer_probe(const struct urds_peer *p, uint32_t incarnation, struct urds_probe *out);

/* Something is queued on @slot, which is not up. */
void urds_peer_want(struct urds_peer *p, unsigned slot, urds_ns now, struct urds_peer_out *out);
/* The dial or knock of @slot succeeded or failed. */
void urds_peer_dialled(struct urds_peer *p, unsigned slot, bool ok, urds_ns now, uint64_t rnd,
		       struct urds_peer_out *out);
/* A connection came in from @from_port. */
void urds_peer_accepted(struct urds_peer *p, uint16_t from_port, urds_ns now,
			struct urds_peer_out *out);
/* Headers arrived on @slot. @has_probe: urds_peer_probed() comes with them, and decides whether we may speak. */
void urds_peer_heard(struct urds_peer *p, unsigned slot, bool has_probe, urds_ns now,
		     struct urds_peer_out *out);
/* A probe or the answer to ours arrived on @slot. */
void urds_peer_probed(struct urds_peer *p, unsigned slot, enum urds_probe_sort sort,
		      const struct urds_probe *probe, urds_ns now, struct urds_peer_out *out);
/* The connection of @slot is gone and closed; everything readable was read. */
void urds_peer_down(struct urds_peer *p, unsigned slot, urds_ns now, uint64_t rnd,
		    struct urds_peer_out *out);
/* Parked @k ended by itself, and no byte of it is unread. One with bytes stays until it is promoted, to be read, or
 * evicted: a kernel has forgotten what our TCP acknowledged of them (A1). */
void urds_peer_unparked(struct urds_peer *p, unsigned k);
/* @slot's transport has not answered for @silence. */
void urds_peer_silence(struct urds_peer *p, unsigned slot, urds_ns silence, urds_ns now,
		       struct urds_peer_out *out);
/* Time passed. @pending: slots with something queued or unacknowledged. */
void urds_peer_tick(struct urds_peer *p, unsigned pending, urds_ns now, uint64_t rnd,
		    struct urds_peer_out *out);
/* When to tick next, or URDS_NEVER. */
urds_ns urds_peer_deadline(const struct urds_peer *p, unsigned pending);

/* May it be collected: no connection, nothing under way? (The caller knows whether anything is queued.) */
bool urds_peer_is_idle(const struct urds_peer *p);

#endif
