/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Messages out of a TCP stream, whose bytes arrive in arbitrary pieces (wire.md 9.2). The splitter
 * keeps a header that is not whole yet and how much payload is still to come; payload itself it
 * only points at. It lives in every idle connection, hence its size.
 *
 *	while (len > 0) {
 *		n = urds_splitter_next(s, buf, len, &piece);
 *		if (n < 0)
 *			drop the connection;
 *		switch (piece.kind) ...
 *		buf += n; len -= n;
 *	}
 */
#ifndef URDS_WIRE_SPLITTER_H
#define URDS_WIRE_SPLITTER_H

#include "wire/hdr.h"

struct urds_splitter {
	uint8_t hdr[URDS_HDR_LEN];
	uint32_t have; /* bytes in hdr, < 48; 0 while body_left > 0 */
	uint32_t body_left;
	uint32_t body_off;
};

enum urds_piece_kind {
	URDS_PIECE_NONE,  /* all of the buffer was taken and there is no news */
	URDS_PIECE_MSG,	  /* a message: hdr, and the whole payload at p */
	URDS_PIECE_BEGIN, /* hdr of a message with payload, which follows as BODY pieces */
	URDS_PIECE_BODY,  /* len > 0 bytes of payload at p, belonging at off */
};

struct urds_piece {
	enum urds_piece_kind kind;
	bool last;	     /* BODY: the message is complete */
	struct urds_hdr hdr; /* MSG, BEGIN; otherwise untouched */
	const uint8_t *p;    /* MSG, BODY: inside the buffer passed in */
	uint32_t len;
	uint32_t off;
};

static inline void urds_splitter_init(struct urds_splitter *s)
{
	s->have = s->body_left = s->body_off = 0;
}

/* Borrows @buf; pieces point into it.
 * Return: bytes consumed, or -URDS_EPROTO for a length above URDS_MSG_ACCEPT_MAX: the stream has
 * lost its sense, drop the connection (again the same if called again). */
int urds_splitter_next(struct urds_splitter *s, const uint8_t *buf, size_t len,
		       struct urds_piece *out);

/* Bytes missing to the end of the current header or payload; never 0. */
static inline uint32_t urds_splitter_need(const struct urds_splitter *s)
{
	return s->body_left > 0 ? s->body_left : URDS_HDR_LEN - s->have;
}

/* Would bytes be lost if the stream ended here? */
static inline bool urds_splitter_mid(const struct urds_splitter *s)
{
	return s->have > 0 || s->body_left > 0;
}

/* For tight loops over many small messages: bytes of the whole message at @buf, or 0 if
 * urds_splitter_next() has to look at it. Takes nothing and decodes nothing; header fields are then
 * read with urds_be*_load() as needed. */
static inline uint32_t urds_splitter_whole(const struct urds_splitter *s, const uint8_t *buf,
					   size_t len)
{
	uint32_t body;

	if (len < URDS_HDR_LEN || urds_splitter_mid(s))
		return 0;
	body = urds_be32_load(buf + URDS_HDR_OFF_LEN);
	return body <= URDS_MSG_ACCEPT_MAX && body <= len - URDS_HDR_LEN ? URDS_HDR_LEN + body : 0;
}

#endif
