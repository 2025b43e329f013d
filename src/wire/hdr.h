/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * wire/ turns bytes into structs and back. It never allocates, keeps no state except what the
 * caller embeds, and knows nothing of time, sockets or peers.
 *
 * This file: the 48-byte header before every message (wire.md 1-3), and what a header means
 * (wire.md 6, 7, 15). Numbers in comments are sections of wire.md, Wn its rules.
 */
#ifndef URDS_WIRE_HDR_H
#define URDS_WIRE_HDR_H

#include "wire/be.h"
#include "wire/types.h"

#define URDS_TCP_PORT 16385u

#define URDS_PING_PORT 0u  /* a message to it is answered by its receiver's engine */
#define URDS_PROBE_PORT 1u /* source of the ping that carries extensions; never bound */

#define URDS_MSG_MAX 1048576u /* payload bytes; never send more (W7) */
/* UEK sends up to a page more, and pages may be 64 KiB. */
#define URDS_MSG_ACCEPT_MAX (URDS_MSG_MAX + 65536u)

#define URDS_CONGMAP_LEN 8192u /* the one length a congestion map may have */

#define URDS_HDR_LEN 48u
#define URDS_HDR_OFF_SEQ 0u
#define URDS_HDR_OFF_ACK 8u
#define URDS_HDR_OFF_LEN 16u
#define URDS_HDR_OFF_SPORT 20u
#define URDS_HDR_OFF_DPORT 22u
#define URDS_HDR_OFF_FLAGS 24u
#define URDS_HDR_OFF_CREDIT 25u
#define URDS_HDR_OFF_PAD 26u
#define URDS_HDR_OFF_CSUM 30u
#define URDS_HDR_OFF_EXT 32u
#define URDS_HDR_PAD_LEN 4u
#define URDS_HDR_EXT_LEN 16u

#define URDS_F_CONG_BITMAP 0x01u   /* a congestion map, if no other bit is set */
#define URDS_F_ACK_REQUIRED 0x02u  /* IB only */
#define URDS_F_RETRANSMITTED 0x04u /* sent before on an earlier connection */
#define URDS_F_HB_PING 0x08u	   /* UEK, IB only */
#define URDS_F_HB_PONG 0x10u
#define URDS_F_EXTHDR 0x20u /* K7 and UEK, IB: RDMA_BYTES is present too */

struct urds_hdr {
	uint64_t seq;
	uint64_t ack; /* IB, and between two urds ends; a kernel on TCP sends 0 */
	uint32_t len; /* payload bytes of the whole message */
	uint16_t sport;
	uint16_t dport;
	uint8_t flags; /* URDS_F_* */
	uint8_t credit;
	uint16_t csum;		       /* as stored; 0: not computed */
	uint8_t pad[URDS_HDR_PAD_LEN]; /* kept only because the checksum covers it */
	uint8_t ext[URDS_HDR_EXT_LEN]; /* see wire/ext.h */
};

void urds_hdr_put(uint8_t p[URDS_HDR_LEN], const struct urds_hdr *h);

static inline void urds_hdr_load(struct urds_hdr *out, const uint8_t p[URDS_HDR_LEN])
{
	out->seq = urds_be64_load(p + URDS_HDR_OFF_SEQ);
	out->ack = urds_be64_load(p + URDS_HDR_OFF_ACK);
	out->len = urds_be32_load(p + URDS_HDR_OFF_LEN);
	out->sport = urds_be16_load(p + URDS_HDR_OFF_SPORT);
	out->dport = urds_be16_load(p + URDS_HDR_OFF_DPORT);
	out->flags = p[URDS_HDR_OFF_FLAGS];
	out->credit = p[URDS_HDR_OFF_CREDIT];
	memcpy(out->pad, p + URDS_HDR_OFF_PAD, URDS_HDR_PAD_LEN);
	out->csum = urds_be16_load(p + URDS_HDR_OFF_CSUM);
	memcpy(out->ext, p + URDS_HDR_OFF_EXT, URDS_HDR_EXT_LEN);
}

/* Return: URDS_HDR_LEN, or -URDS_ESHORT. Every 48 bytes are a header; what it means is for
 * urds_hdr_kind(), and whether its length is bearable for the splitter. */
int urds_hdr_get(struct urds_hdr *out, const uint8_t *p, size_t len);

/* The header of a plain message, all other fields 0: what a kernel sends on TCP. */
static inline void urds_hdr_put_data(uint8_t *p, uint64_t seq, uint32_t len, uint16_t sport,
				     uint16_t dport)
{
	urds_be64_store(p + URDS_HDR_OFF_SEQ, seq);
	memset(p + URDS_HDR_OFF_ACK, 0, 8);
	urds_be32_store(p + URDS_HDR_OFF_LEN, len);
	urds_be16_store(p + URDS_HDR_OFF_SPORT, sport);
	urds_be16_store(p + URDS_HDR_OFF_DPORT, dport);
	memset(p + URDS_HDR_OFF_FLAGS, 0, URDS_HDR_LEN - URDS_HDR_OFF_FLAGS);
}

/* The checksum of a header whose checksum field counts as 0, to be stored big-endian. */
uint16_t urds_hdr_csum(const uint8_t p[URDS_HDR_LEN]);

/* True too if the field is 0, "not computed", which is what TCP carries (W1). */
bool urds_hdr_csum_ok(const uint8_t p[URDS_HDR_LEN]);

enum urds_frame_kind {
	URDS_FRAME_DATA,	 /* for the socket bound to dport; pongs to programs included */
	URDS_FRAME_PING,	 /* answer with a pong; the payload is dropped */
	URDS_FRAME_PROBE,	 /* a ping from port 1: also read its extensions (wire/probe.h) */
	URDS_FRAME_PROBE_ANSWER, /* the pong to it */
	URDS_FRAME_MAP,		 /* congestion map, whole (wire/congmap.h) */
	URDS_FRAME_ACK,		 /* urds peer only: nothing but h_ack */
	URDS_FRAME_CONTROL,	 /* urds peer only: TLVs (wire/tlv.h) */
	URDS_FRAME_IGNORE, /* nothing to do, but unless it is a map it has its place in the sequence */
};

/* @urds_peer: ACK and CONTROL have been negotiated on this connection (15); otherwise 0 -> 0 means
 * nothing. The flags of a map are compared, not tested: K61 takes 0x05 for an ordinary message. */
static inline enum urds_frame_kind urds_hdr_kind(const struct urds_hdr *h, bool urds_peer)
{
	if (h->flags == URDS_F_CONG_BITMAP)
		return h->len == URDS_CONGMAP_LEN ? URDS_FRAME_MAP : URDS_FRAME_IGNORE;
	if (h->dport > URDS_PROBE_PORT)
		return URDS_FRAME_DATA;
	if (h->dport == URDS_PROBE_PORT)
		return h->sport == 0 ? URDS_FRAME_PROBE_ANSWER : URDS_FRAME_DATA;
	if (h->sport != 0)
		return h->sport == URDS_PROBE_PORT ? URDS_FRAME_PROBE : URDS_FRAME_PING;
	if (!urds_peer || h->flags != 0)
		return URDS_FRAME_IGNORE;
	if (h->len > 0)
		return URDS_FRAME_CONTROL;
	return h->seq == 0 ? URDS_FRAME_ACK : URDS_FRAME_IGNORE;
}

#endif
