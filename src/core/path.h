/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A path: one of up to eight connections to a peer, in two halves with a lock each. The halves do not
 * know one another; what crosses (an acknowledgement, a pong to send) is an output that the runtime
 * carries over.
 *
 * tx: the send log, and the frames that are not messages (first probe, congestion map, bare ack), which go
 * out between messages, ahead of the next one. rx: bytes in, messages out.
 *
 * Both outlive the connection: sequence numbers, the log and the expected sequence stay when a link breaks.
 */
#ifndef URDS_CORE_PATH_H
#define URDS_CORE_PATH_H

#include "core/log.h"
#include "wire/congmap.h"
#include "wire/probe.h"
#include "wire/splitter.h"

/* ---------------------------------------------------------------- transmit half */

enum urds_tx_want {
	URDS_WANT_PROBE = 1, /* before anything else on a new connection (W9) */
	URDS_WANT_ACK = 2,   /* a bare ack, if no message is about to carry it */
	URDS_HAS_MAP = 4,    /* in struct urds_ctl only */
};

struct urds_ctl; /* frames being handed out */

struct urds_path_tx {
	struct urds_log log;
	struct urds_ctl *ctl; /* tx; NULL: none in progress */
	uint64_t link_pos;    /* tx: bytes handed to this connection */
	size_t ack_run; /* tx: bytes of the current gather if a message in it carries the ack; else 0 */
	uint64_t
		kept_pos; /* append + tx: acknowledged by a kernel's TCP at kept_at, not dropped yet */
	urds_ns kept_at;
	uint32_t map_gen;      /* tx: generation of the node's map that was sent last */
	uint32_t posted;       /* append: the engine's own messages in the log */
	_Atomic(uint8_t) want; /* enum urds_tx_want; set by anyone, cleared by tx */
	bool sends_map;	       /* path 0 (W4) */
	bool map_due;	       /* tx: the map has not been sent on this connection */
	bool is_cut;	       /* tx: the last gather was full */
	bool is_up;	       /* append + tx to write: a connection is there */
	bool is_held;	       /* append + tx to write: no proof of life yet, messages wait (W9) */
	bool is_mute;	       /* append + tx to write: so does everything else */
	/* append: urds_path_tx_fence() */
	struct urds_fence {
		uint64_t seq;
		uint16_t port; /* 0: none */
	} fence[2];	       /* the last one, and the oldest */
	urds_ns fence_at;
};

/* What has to be known of a path whose connection is up and on which nothing goes on. */
struct urds_path_rest {
	uint64_t next_tx, next_rx;
	uint64_t link_pos;
	uint32_t map_gen;
	bool urds;
};

/* @sends_map: this is path 0 (W4). */
void urds_path_tx_init(struct urds_path_tx *t, struct urds_mem *mem, uint64_t first_seq,
		       bool sends_map);
void urds_path_tx_fini(struct urds_path_tx *t);

/* What the gather may put into frames; read when called. */
struct urds_tx_env {
	const uint8_t *map; /* the node's congestion map, or NULL: all clear */
	uint32_t map_gen;
	uint64_t ack;		     /* urds peers: highest sequence received in order; else 0 */
	bool want_ack;		     /* urds peers: ask for an acknowledgement */
	const struct urds_probe *us; /* what our probe says */
};

#define URDS_TX_IOV_MAX 64
#define URDS_TX_RUN_BYTES (256u << 10) /* about one send call */

/* tx. Next bytes for the connection. Return: entries of @iov used, 0: nothing to send. *sent_ack: the
 * latest ack that goes out with them, or 0; not env->ack if the frame that says it had to wait. Call urds_path_tx_taken() before the next gather. */
size_t urds_path_tx_gather(struct urds_path_tx *t, const struct urds_tx_env *env,
			   struct urds_iov *iov, size_t max, size_t *bytes, uint64_t *sent_ack);

struct urds_tx_done {
	uint32_t sent, retransmitted, maps;
};

/* tx. The connection took @bytes of the last gather. */
void urds_path_tx_taken(struct urds_path_tx *t, size_t bytes, struct urds_tx_done *done);

/* tx. There was something in the last gather, and all of it was taken: is another one due for what it did not hold? A map or an
 * ack waits for the end of what is half sent, and a gather has an end. Of messages that were queued since it knows nothing. */
bool urds_path_tx_has_more(const struct urds_path_tx *t, const struct urds_tx_env *env);

/* tx. Is the node's map, of generation @map_gen, still to be sent? */
static inline bool urds_path_tx_owes_map(const struct urds_path_tx *t, uint32_t map_gen)
{
	return t->sends_map && (t->map_due || t->map_gen != map_gen);
}

/* Anyone. */
static inline void urds_path_tx_want_ack(struct urds_path_tx *t)
{
	atomic_fetch_or_explicit(&t->want, URDS_WANT_ACK, memory_order_release);
}

/* What goes out before urds_path_tx_proven(). */
enum urds_tx_hold {
	URDS_HOLD_NOTHING,
	URDS_HOLD_MESSAGES, /* only a probe goes: we opened the connection (W9) */
	URDS_HOLD_ALL,	    /* we accepted it, and do not know yet that it is this path (W5) */
};

/* append + tx. A connection is there. @us: what our probe says. */
void urds_path_tx_up(struct urds_path_tx *t, enum urds_tx_hold hold, const struct urds_probe *us);
/* append + tx. The other end has spoken: everything may go. */
void urds_path_tx_proven(struct urds_path_tx *t);
/* append + tx. A kernel's TCP has acknowledged up to @pos: owners are told, and what was acknowledged a while ago
 * is dropped (URDS_KEEP_NS). Return: true if @out is full and there may be more: call again. */
bool urds_path_tx_acked(struct urds_path_tx *t, uint64_t pos, urds_ns now,
			struct urds_log_freed_list *out);
/* append + tx. The peer ended the connection in order: it had read all that it acknowledged, up to @pos. Call
 * urds_path_tx_acked() with the same or a later position first: owners are not told here. */
void urds_path_tx_read(struct urds_path_tx *t, uint64_t pos);
/* append + tx. The connection is gone, all acks it could give were applied: unacknowledged messages will be
 * sent again; probes and answers are forgotten. */
void urds_path_tx_down(struct urds_path_tx *t);

/* append. Queues an empty message of the engine's own: a pong, an answer or a probe in order.
 * @p: extensions, or NULL; with them nothing is queued (0) unless there is a connection to say it on. Return: 0,
 * -URDS_EAGAIN: too many are waiting (C12); -URDS_ENOMEM. */
int urds_path_tx_post(struct urds_path_tx *t, uint16_t sport, uint16_t dport,
		      const struct urds_probe *p);

/* append. Where a kernel's TCP does not say what has arrived: a ping from @port behind all that is queued. A kernel takes in and
 * answers one after the other, so the pong acknowledges what is before the ping. Of this path no ping was from @port lately, so that no
 * other pong is taken for this one. None if one is on the way, or nothing is queued. Return: was it
 * queued? */
bool urds_path_tx_fence(struct urds_path_tx *t, uint16_t port, urds_ns now);
/* append. A pong to @port has come. Return: the number up to which the peer has everything, or 0: it is no fence's. */
uint64_t urds_path_tx_fenced(struct urds_path_tx *t, uint16_t port);
/* append + tx. There: if nothing is left but pings, pongs and probes of our own, and they were handed out, their last number,
 * else 0. To have them acknowledged would take more of them, and two ends would ask each other for ever. */
uint64_t urds_path_tx_own_only(struct urds_path_tx *t);

/* append + tx. Return: false if something goes on or is wanted. */
bool urds_path_tx_rest(const struct urds_path_tx *t, struct urds_path_rest *out);
/* After init with @r->next_tx: as it was. */
void urds_path_tx_wake(struct urds_path_tx *t, const struct urds_path_rest *r);

/* append. Of the messages in @f, take out those posted above. */
void urds_path_tx_freed(struct urds_path_tx *t, struct urds_log_freed_list *f);

/* ---------------------------------------------------------------- receive half */

enum urds_rx_kind {
	URDS_RX_DATA,	/* for a socket; holds a reference on buf */
	URDS_RX_PING,	/* answer sport with a pong */
	URDS_RX_PROBE,	/* answer it, and learn */
	URDS_RX_ANSWER, /* learn */
	URDS_RX_MAP,	/* payload: 8192 bytes; holds a reference on buf */
	URDS_RX_CONTROL /* payload: TLVs of an urds peer; holds a reference on buf */
};

struct urds_rx_item {
	struct urds_buf
		*buf; /* takes: one reference, to be dropped by the receiver of the item; or NULL */
	uint8_t *payload;
	uint32_t len;
	uint16_t sport, dport;
	enum urds_rx_kind kind;
	uint8_t flags;
	uint64_t seq;
};

#define URDS_RX_ITEMS 256

struct urds_rx_batch {
	size_t n;
	struct urds_rx_item v[URDS_RX_ITEMS];
	struct urds_probe probe; /* of the last PROBE or ANSWER item, which always ends its batch */
	uint32_t headers;	 /* frames completed or begun: > 0 is proof of life */
	uint32_t dropped_old;	 /* duplicates */
	uint32_t wire_bytes;	 /* of sequenced frames, duplicates included */
	uint64_t ack_seen;	 /* urds peers: highest h_ack, or 0 */
	bool ack_wanted;	 /* the peer asked for an ack, or sent a duplicate */
	bool probe_is_old;	 /* the PROBE item is a duplicate */
};

/* The sort of the probe or answer in @b. */
static inline enum urds_probe_sort urds_rx_probe_sort(const struct urds_rx_batch *b)
{
	if (b->v[b->n - 1].kind == URDS_RX_ANSWER)
		return URDS_PROBE_ANSWER;
	return b->probe_is_old ? URDS_PROBE_OLD : URDS_PROBE_ASKS;
}

/* A probe or an answer always ends its batch. */
static inline bool urds_rx_has_probe(const struct urds_rx_batch *b)
{
	return b->n > 0 &&
	       (b->v[b->n - 1].kind == URDS_RX_PROBE || b->v[b->n - 1].kind == URDS_RX_ANSWER);
}

struct urds_path_rx {
	struct urds_splitter split;
	struct urds_mem *mem;
	uint64_t next_rx;      /* next expected sequence */
	uint64_t before_probe; /* that, before the last probe or answer */
	uint64_t probe_seq;    /* of that */
	struct urds_buf *
		chunk; /* being filled; ->used bytes are; NULL while idle and nothing of it is unread */
	struct urds_buf *
		body; /* where the payload of the message in progress goes, or NULL: in the chunk */
	uint32_t parsed;      /* bytes of chunk given to the splitter */
	uint32_t body_at;     /* offset of that payload in its buffer */
	uint32_t body_parsed; /* bytes of body given to the splitter */
	bool urds;	      /* the peer negotiated the urds extension on this connection */
	bool in_msg;	      /* BEGIN seen: cur is valid */
	struct urds_rx_cur {
		uint64_t seq;
		uint32_t len;
		uint16_t sport, dport;
		uint8_t flags;
		uint8_t kind; /* enum urds_frame_kind */
	} cur;
};

void urds_path_rx_init(struct urds_path_rx *r, struct urds_mem *mem);
/* A new connection: partial state is forgotten, the expected sequence stays. */
void urds_path_rx_reset(struct urds_path_rx *r);

/* Where the next bytes go. Return: entries used (1 or 2), or -URDS_ENOMEM. Valid until got(). */
int urds_path_rx_space(struct urds_path_rx *r, struct urds_iov iov[2]);
/* @bytes were put there, in order. */
void urds_path_rx_got(struct urds_path_rx *r, size_t bytes);
/* Decodes what is there. Return: 1 there may be more, call again; 0 all is decoded; -URDS_EPROTO the stream
 * makes no sense, -URDS_ENOMEM: break the connection. The batch is valid in every case. */
int urds_path_rx_next(struct urds_path_rx *r, struct urds_rx_batch *out);
enum urds_rx_keep {
	URDS_RX_KEEP_NONE,
	URDS_RX_KEEP_UNREAD, /* a chunk that unread messages hold anyway: what comes next goes behind them, or each that
			      * comes alone would hold a block */
	URDS_RX_KEEP_ANY, /* an empty one too: more is expected soon */
};

/* Nothing more to read for now: gives back a chunk that may not be kept. What is kept is given back by a later call. */
void urds_path_rx_idle(struct urds_path_rx *r, enum urds_rx_keep keep);

/* The last probe or answer belongs to another path: its number does not count. */
static inline void urds_path_rx_undo(struct urds_path_rx *r)
{
	r->next_rx = r->before_probe;
}

/* It came from a new life of the peer: what follows it is new, whatever the old life had sent. */
static inline void urds_path_rx_restarted(struct urds_path_rx *r)
{
	r->next_rx = r->probe_seq + 1;
}

/* As above, for this half. */
bool urds_path_rx_rest(const struct urds_path_rx *r, struct urds_path_rest *out);
void urds_path_rx_wake(struct urds_path_rx *r, const struct urds_path_rest *in);

/* Highest sequence received in order, for h_ack; 0: none. */
static inline uint64_t urds_path_rx_ack(const struct urds_path_rx *r)
{
	return r->next_rx > 0 ? r->next_rx - 1 : 0;
}

#endif
