/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Messages out of a stream.
 */
#include "wire/splitter.h"

/* @hdr is whole, and @len bytes at @p come after it: the message, or its beginning.
 * Return: bytes of payload consumed. */
static int start(struct urds_splitter *s, const uint8_t *hdr, const uint8_t *p, size_t len,
		 struct urds_piece *out)
{
	uint32_t body = urds_be32_load(hdr + URDS_HDR_OFF_LEN);

	if (body > URDS_MSG_ACCEPT_MAX)
		return -URDS_EPROTO;
	urds_hdr_load(&out->hdr, hdr);
	s->have = 0;
	if (body > len) {
		out->kind = URDS_PIECE_BEGIN;
		s->body_left = body;
		s->body_off = 0;
		return 0;
	}
	out->kind = URDS_PIECE_MSG;
	out->p = p;
	out->len = body;
	out->off = 0;
	return (int)body;
}

int urds_splitter_next(struct urds_splitter *s, const uint8_t *buf, size_t len,
		       struct urds_piece *out)
{
	uint32_t need = urds_splitter_need(s);
	uint32_t n = len < need ? (uint32_t)len : need;
	int body;

	if (s->body_left > 0 && n > 0) {
		out->kind = URDS_PIECE_BODY;
		out->p = buf;
		out->len = n;
		out->off = s->body_off;
		s->body_off += n;
		s->body_left -= n;
		out->last = s->body_left == 0;
		return (int)n;
	}
	if (n < need) {
		if (n > 0)
			memcpy(s->hdr + s->have, buf, n);
		s->have += n;
		out->kind = URDS_PIECE_NONE;
		return (int)n;
	}
	if (s->have == 0) { /* the usual case: no copy of the header */
		body = start(s, buf, buf + URDS_HDR_LEN, len - URDS_HDR_LEN, out);
	} else {
		/* On an error s->have still says that these bytes were not taken. */
		memcpy(s->hdr + s->have, buf, n);
		body = start(s, s->hdr, buf + n, len - n, out);
	}
	return body < 0 ? body : (int)n + body;
}
