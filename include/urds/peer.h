/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds/peer.h - what is known of a peer: the elements of URDS_INFO_PEERS, a table of urds's own beside the kernel's.
 *
 *	struct urds_info_peer v[64];
 *	socklen_t len = sizeof v;
 *	int size = urds_getsockopt(sock, URDS_SOL_RDS, URDS_INFO_PEERS, v, &len);
 *
 * lists the peers of the socket's context; urds_owner_info() does it for another process of this user. @size is that of an
 * element, which may grow at its end: step by it. Nothing blocks; any thread may ask.
 */
#ifndef URDS_PEER_H
#define URDS_PEER_H

#include <stdint.h>

#define URDS_INFO_PEERS 30000

/* How the connection (path 0) is. */
enum urds_peer_state {
	URDS_PEER_DOWN,
	URDS_PEER_CONNECTING, /* an attempt is under way */
	URDS_PEER_SILENT,     /* connected, and nothing of RDS has come yet */
	URDS_PEER_UP,
};

/* What the other end of the connection is. An urds end says so in its probe (docs/protocol/wire.md, section 5); one that
 * answers ours without saying it, or not within 2 s of its first header, is taken for a kernel. */
enum urds_peer_end {
	URDS_PEER_UNKNOWN, /* not connected, or not seen yet */
	URDS_PEER_KERNEL,
	URDS_PEER_URDS,
};

/* Why a connection was not made, or ended. */
enum urds_fault {
	URDS_FAULT_NONE,
	URDS_FAULT_DIAL, /* an attempt failed with @fault_errno: ECONNREFUSED, EHOSTUNREACH ... */
	URDS_FAULT_NO_ANSWER, /* an attempt had no answer for @fault_ms */
	URDS_FAULT_DEAD, /* the other host's TCP, which owed an answer, gave none for @fault_ms */
	URDS_FAULT_LOST, /* the connection failed with @fault_errno: ECONNRESET, ETIMEDOUT ... */
	URDS_FAULT_LOST_EARLY,	 /* the same, before anything of RDS had come on it */
	URDS_FAULT_CLOSED,	 /* the other end closed it */
	URDS_FAULT_CLOSED_EARLY, /* the same, before anything of RDS had come on it */
	URDS_FAULT_NOT_RDS,	 /* what came was not RDS */
	URDS_FAULT_MUTE,	 /* it said nothing while others waited for its place */
	URDS_FAULT_MISPLACED, /* it was not the path, or not the process, that it came in place of */
	URDS_FAULT_RESET,     /* broken on purpose: urds_reset() */
};

/* Dates are nanoseconds since 1970, UTC; 0: none. They are reckoned back from now, so that a clock that was set moves them. */
struct urds_info_peer {
	uint8_t local[16], remote[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t scope;		       /* interface of link-local addresses, or 0 */
	uint8_t state;		       /* enum urds_peer_state */
	uint8_t end;		       /* enum urds_peer_end */
	uint8_t version; /* of an urds end: its version of the urds extension, 1 in this release; else 0 */
	uint8_t fault;	   /* enum urds_fault: the last one */
	uint64_t up_since; /* date, while @state is UP */
	uint64_t
		fault_since; /* date of the first of an unbroken row of the same fault; DEAD: since when it was silent */
	uint64_t fault_last;  /* date of the last of them */
	uint32_t fault_count; /* how many they are */
	uint32_t fault_errno; /* of this system; 0: none */
	uint32_t fault_ms;
	uint8_t fault_is_over; /* a connection has carried RDS since */
	uint8_t reserved[3];
};

#endif
