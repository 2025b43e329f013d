/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership protocol, bytes <-> structs. One message per SOCK_SEQPACKET record, network byte order:
 *
 *	 0 be32 length of the whole message	 6 be16 tag, chosen by the client, returned
 *	 4 u8   version (1)			 8 be32 status: 0, or in a reply a negated urds_err
 *	 5 u8   type; replies have bit 7 set	12 body
 *
 * A reply with a status carries a sentence (<= 255 bytes) as its body. IDENT never changes between
 * versions, except that fields may be appended; the rest is refused when versions differ.
 *
 *	IDENT	-> nothing		<- instance be64, pid be32, uid be32, mode, version, program
 *					   (each u8 length and bytes)
 *	INFO	-> source be32		<- element be32, total be32, offset be32, bytes; repeated
 *	PING	-> slot u8, 0 x3, addr	<- slot u8, 0 x3, rtt_ns be64, addr; once per answer
 *	RESET	-> addr			<- be32 connections broken
 *
 * addr: 16 bytes (IPv4 mapped), scope be32. Pure; no allocation.
 */
#ifndef URDS_LIB_RECORD_CODEC_H
#define URDS_LIB_RECORD_CODEC_H

#include "wire/types.h"

#define URDS_REC_VERSION 1u
#define URDS_REC_HDR_LEN 12u
#define URDS_REC_TEXT_MAX 255u
#define URDS_REC_CHUNK_MAX 32768u /* bytes of INFO per message: well below a socket's send buffer */
#define URDS_REC_MSG_MAX (URDS_REC_HDR_LEN + 12u + URDS_REC_CHUNK_MAX)
#define URDS_REC_SLOTS 8u

enum urds_rec_type {
	URDS_REC_IDENT = 1,
	URDS_REC_INFO = 2,
	URDS_REC_PING = 3,
	URDS_REC_RESET = 4,
	URDS_REC_REPLY = 0x80 /* a bit */
};

struct urds_rec_hdr {
	uint32_t len;
	uint8_t version;
	uint8_t type;
	uint16_t tag;
	int32_t status;
};

struct urds_rec_ident {
	uint64_t instance;
	uint32_t pid, uid;
	char mode[16], version[32], program[64]; /* terminated */
};

struct urds_rec_chunk {
	uint32_t element; /* > 0 */
	uint32_t total, offset;
	const uint8_t *bytes; /* borrowed from the buffer */
	uint32_t len;
};

struct urds_rec_pong {
	uint8_t slot;
	uint64_t rtt_ns;
	struct urds_addr from;
};

/* put: bytes written (the whole message) or -URDS_ENOSPC. get: 0, or -URDS_ESHORT, -URDS_EPROTO; @out is
 * untouched on error. Bodies are decoded from the whole message, whose header was accepted. */
int urds_rec_hdr_get(struct urds_rec_hdr *out, const uint8_t *p, size_t len);
int urds_rec_empty_put(uint8_t *p, size_t cap, uint8_t type, uint16_t tag);
int urds_rec_error_put(uint8_t *p, size_t cap, uint8_t type, uint16_t tag, int status,
		       const char *text);
/* Copies the sentence, unprintable bytes replaced. */
void urds_rec_error_get(char *text, size_t cap, const uint8_t *p, size_t len);

int urds_rec_ident_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_rec_ident *id);
int urds_rec_ident_get(struct urds_rec_ident *out, const uint8_t *p, size_t len);
int urds_rec_info_put(uint8_t *p, size_t cap, uint16_t tag, uint32_t source);
int urds_rec_info_get(uint32_t *source, const uint8_t *p, size_t len);
int urds_rec_chunk_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_rec_chunk *c);
int urds_rec_chunk_get(struct urds_rec_chunk *out, const uint8_t *p, size_t len);
int urds_rec_ping_put(uint8_t *p, size_t cap, uint16_t tag, uint8_t slot,
		      const struct urds_addr *to);
int urds_rec_ping_get(uint8_t *slot, struct urds_addr *to, const uint8_t *p, size_t len);
int urds_rec_pong_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_rec_pong *pong);
int urds_rec_pong_get(struct urds_rec_pong *out, const uint8_t *p, size_t len);
int urds_rec_reset_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_addr *peer);
int urds_rec_reset_get(struct urds_addr *peer, const uint8_t *p, size_t len);
int urds_rec_count_put(uint8_t *p, size_t cap, uint16_t tag, uint32_t count);
int urds_rec_count_get(uint32_t *count, const uint8_t *p, size_t len);

#endif
