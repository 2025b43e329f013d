/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every bound of the protocol engine, with its reason and what happens when it is reached.
 */
#ifndef URDS_CORE_LIMITS_H
#define URDS_CORE_LIMITS_H

#include "wire/hdr.h"

/* ---- memory of messages ---- */
#define URDS_BLOCK_BYTES 65536u /* unit of message memory; also one stream chunk of the receiver */
#define URDS_LOG_INLINE_MAX \
	65536u /* payload kept in the log itself; longer ones get a buffer of their own */
#define URDS_LOG_CHUNK_SMALL \
	1u		      /* blocks of a log's first chunk: an idle path becomes busy cheaply */
#define URDS_LOG_CHUNK_BIG 4u /* blocks of further chunks: long contiguous sends */
/* Payload from here on is read into a buffer of its own: below, moving it once costs less. */
#define URDS_RX_BIG_MIN 32768u
/* Chunks that idle paths keep because messages in them are unread: at most this part of a context's message memory. Beyond,
 * a path gives its chunk up, and the next message begins another. */
#define URDS_KEPT_SHARE 16u
/* Entries that a log may hold: the claim protocol needs < 2^31. Full: senders get -URDS_EAGAIN. */
#define URDS_LOG_ENTRIES_MAX (1u << 24)

/* ---- sockets ---- */
#define URDS_SNDBUF_DEFAULT 106496u /* what kernels use: half of wmem_default */
#define URDS_RCVBUF_DEFAULT 106496u
#define URDS_BUF_MAX 4194304u /* SO_SNDBUFFORCE and SO_RCVBUFFORCE are clamped to it */
/* As the generic socket layer: the stored (doubled) value is at least this. */
#define URDS_SNDBUF_STORED_MIN 4608u
#define URDS_RCVBUF_STORED_MIN 2304u
/* A receive queue beyond these belongs to a peer that ignores our congestion map: the socket's queue is
 * discarded and counted and its owner told once (ENOBUFS). */
#define URDS_RCVQ_BYTES_MIN (64u << 20)
#define URDS_RCVQ_MSGS_MAX 1000000u
/* A queue of this many messages is congested whatever its bytes: tiny ones are not free (C10). */
#define URDS_RCVQ_MSGS_CONG 16384u

/* ---- peers ---- */
#define URDS_PATHS_MAX 8u /* path slots of a peer; all are accepted, few are used */
/* Further connections of one peer waiting for a free path; more are closed. One block is read from each, then TCP
 * holds the rest back: 4 MiB of a peer. Each may carry bytes that a kernel counts as delivered, and one that died without
 * a word takes a challenge to be found out: a kernel's bad minute has to fit. */
#define URDS_PARKED_MAX 64u
#define URDS_EVICT_MAX 8u /* of them given up in one tick; the others in the next */
#define URDS_EVICT_NEXT_NS URDS_MS(1)
/* Pongs waiting on one path; further pings are dropped and counted (C12). Probes and answers: when twice as many wait. */
#define URDS_PONGS_MAX 256u
#define URDS_PEERS_MAX \
	131072u /* peers of a context; more are refused after the idle ones are collected (E2) */
#define URDS_REMEMBERED_MAX \
	4096u /* collected peers whose counters are kept (A4), oldest forgotten */

/* ---- times ---- */
#define URDS_RETRY_MIN_NS URDS_MS(1)	 /* first reconnect delay; doubles, with jitter (B1) */
#define URDS_RETRY_MAX_NS URDS_MS(1000)	 /* as the kernel's reconnect_max_delay_ms */
#define URDS_DIAL_TIMEOUT_NS URDS_SEC(5) /* a dial without an answer is given up and tried again */
#define URDS_PROOF_SILENT_NS \
	URDS_SEC(2) /* a further path on which no header came is used after all */
/* What was accepted from a peer not known as urds and says nothing is spoken to: before URDS_STRANGER_NS, so that it can
 * still answer. */
#define URDS_ACCEPT_SILENT_NS URDS_SEC(1)
#define URDS_KIND_SILENT_NS \
	URDS_SEC(2) /* no answer to our probe this long after a header: a kernel */
#define URDS_CHALLENGE_DEAD_NS URDS_SEC(1) /* unacknowledged this long when challenged: replaced */
#define URDS_CHALLENGE_END_NS URDS_SEC(5) /* every path answered: the parked connection is closed */
#define URDS_STRANGER_NS \
	URDS_SEC(2) /* an accepted connection without one header is dropped when others wait */
#define URDS_DEAD_NS \
	URDS_SEC(25) /* bytes outstanding and not one TCP answer: the peer is dead (<= 30 s) */
#define URDS_ACK_POLL_MIN_NS \
	URDS_MS(100) /* sampling of TCP acks while anything is unacknowledged ... */
#define URDS_ACK_POLL_MAX_NS URDS_SEC(1)   /* ... doubling up to this; none when idle */
#define URDS_ROOM_POLL_NS URDS_MS(2)	   /* the same while a full socket is watched for room */
#define URDS_ROOM_POLL_MAX_NS URDS_MS(5)   /* the same, at most, while a call waits for room */
#define URDS_GATHER_NS URDS_US(50)	   /* messages of a burst wait so long for more */
#define URDS_GATHER_STREAM_NS URDS_US(200) /* ... in a stream */
#define URDS_QUICK_MAX 2048u		   /* payload that is copied under a socket's lock */
/* What a kernel's TCP acknowledged this recently, at most so many bytes, is kept for a replay: a kernel that
 * takes its connection down throws away what it acknowledged and had not read, and resets. */
#define URDS_KEEP_NS URDS_MS(100)
#define URDS_KEEP_BYTES (4u << 20)
/* Where TCP does not say what a kernel has: a fence that is not answered for so long is followed by another. */
#define URDS_FENCE_NS URDS_SEC(1)
/* Its source ports, one after the other: programs bind others, and where one binds one of these its pongs are its own. */
#define URDS_FENCE_PORT_MIN 2u
#define URDS_FENCE_PORT_MAX 1023u
#define URDS_REST_NS \
	URDS_SEC(1) /* nothing has passed on a path for so long: its memory is given back */
#define URDS_ACK_DELAY_NS \
	URDS_MS(20) /* an urds peer's messages are acknowledged at least this soon */
#define URDS_ACK_BYTES \
	131072u /* ... or after this many bytes; a sender short of room asks earlier */

#endif
