/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The receive half of a path: bytes into messages, duplicates out.
 *
 * Bytes are read into a 64 KiB chunk, and a message that lies in it whole stays there. One that begins there
 * and would not fit gets its payload moved to where it fits: the next chunk, or, from URDS_RX_BIG_MIN on, a
 * buffer of its own that grows with what arrives, never with what a header claims (E1).
 */
#include "core/path.h"

#include <assert.h>

/* A chunk with less room than this is not read into any further. */
#define CHUNK_ROOM_MIN 8192u
/* A body that has filled its buffer gets one so many times larger: what a header claims costs a peer a part of it. */
#define BODY_GROWTH 16u

void urds_path_rx_init(struct urds_path_rx *r, struct urds_mem *mem)
{
	memset(r, 0, sizeof *r);
	r->mem = mem;
	urds_splitter_init(&r->split);
}

void urds_path_rx_reset(struct urds_path_rx *r)
{
	urds_buf_drop(r->chunk);
	urds_buf_drop(r->body);
	r->chunk = r->body = NULL;
	r->parsed = 0;
	r->in_msg = false;
	r->urds = false;
	urds_splitter_init(&r->split);
}

static int chunk_new(struct urds_path_rx *r)
{
	struct urds_buf *b = urds_buf_new(r->mem, 1);

	if (!b)
		return -URDS_ENOMEM;
	urds_buf_drop(r->chunk);
	r->chunk = b;
	r->parsed = 0;
	return 0;
}

static bool has_room(const struct urds_buf *chunk)
{
	return urds_buf_cap(chunk) - chunk->used >= CHUNK_ROOM_MIN;
}

/* Makes room for more of a body that has outgrown its buffer. */
static int body_grow(struct urds_path_rx *r)
{
	struct urds_buf *was = r->body, *b;
	size_t want = (size_t)urds_buf_cap(was) * BODY_GROWTH;

	if (want > r->cur.len)
		want = r->cur.len;
	b = urds_buf_new(r->mem, urds_buf_blocks(want));
	if (!b)
		return -URDS_ENOMEM;
	memcpy(urds_buf_data(b), urds_buf_data(was), was->used);
	b->used = was->used;
	r->body = b;
	urds_buf_drop(was);
	return 0;
}

int urds_path_rx_space(struct urds_path_rx *r, struct urds_iov iov[2])
{
	int n = 0;

	if (r->body) {
		uint32_t cap;

		if (r->body->used == urds_buf_cap(r->body) && body_grow(r) < 0)
			return -URDS_ENOMEM;
		cap = urds_buf_cap(r->body);
		if (cap > r->cur.len)
			cap = r->cur.len;
		iov[n].base = urds_buf_data(r->body) + r->body->used;
		iov[n++].len = cap - r->body->used;
		if (cap < r->cur.len)
			return n; /* more of the body comes before anything else */
	}
	/* A body that is being received in place keeps its chunk, in which it is known to fit. */
	if (r->chunk && !(r->in_msg && !r->body) && r->parsed == r->chunk->used) {
		if (urds_buf_is_sole(r->chunk))
			r->chunk->used = r->parsed = 0;
		else if (!has_room(r->chunk) && chunk_new(r) < 0)
			return -URDS_ENOMEM;
	}
	if (!r->chunk && chunk_new(r) < 0)
		return -URDS_ENOMEM;
	iov[n].base = urds_buf_data(r->chunk) + r->chunk->used;
	iov[n++].len = urds_buf_cap(r->chunk) - r->chunk->used;
	return n;
}

void urds_path_rx_got(struct urds_path_rx *r, size_t bytes)
{
	if (r->body) {
		uint32_t cap = urds_buf_cap(r->body), n;

		if (cap > r->cur.len)
			cap = r->cur.len;
		n = cap - r->body->used;
		if (n > bytes)
			n = (uint32_t)bytes;
		r->body->used += n;
		bytes -= n;
	}
	if (r->chunk)
		r->chunk->used += (uint32_t)bytes;
}

/* A payload begins at @parsed and is not whole. */
static int body_begin(struct urds_path_rx *r, const struct urds_hdr *h, enum urds_frame_kind kind)
{
	struct urds_buf *c = r->chunk;
	uint32_t here = c->used - r->parsed;

	r->in_msg = true;
	r->cur = (struct urds_rx_cur){.seq = h->seq,
				      .len = h->len,
				      .sport = h->sport,
				      .dport = h->dport,
				      .flags = h->flags,
				      .kind = (uint8_t)kind};
	r->body_at = r->parsed;
	if (h->len <= urds_buf_cap(c) - r->parsed)
		return 0; /* fits where it is */

	if (h->len < URDS_RX_BIG_MIN) {
		struct urds_buf *from = c;

		urds_buf_hold(from, 1);
		if (chunk_new(r) < 0) {
			urds_buf_drop(from);
			return -URDS_ENOMEM;
		}
		memcpy(urds_buf_data(r->chunk), urds_buf_data(from) + r->body_at, here);
		r->chunk->used = here;
		r->body_at = 0;
		urds_buf_drop(from);
		return 0;
	}
	r->body = urds_buf_new(r->mem, 1);
	if (!r->body)
		return -URDS_ENOMEM;
	if (here > urds_buf_cap(r->body))
		here = urds_buf_cap(r->body);
	memcpy(urds_buf_data(r->body), urds_buf_data(c) + r->parsed, here);
	r->body->used = here;
	r->body_parsed = 0;
	r->body_at = 0;
	c->used = r->parsed; /* all that was there has moved */
	return 0;
}

/* The duplicate rule, as kernels have it (wire 4): only a flagged message is ever dropped, and the expectation
 * follows every message that is not, even backwards. */
static bool is_duplicate(struct urds_path_rx *r, uint64_t seq, uint8_t flags)
{
	if (seq < r->next_rx && (flags & URDS_F_RETRANSMITTED))
		return true;
	r->next_rx = seq + 1;
	return false;
}

/* A frame is whole; its payload lies in @buf. Return: true if the batch must end here. */
static bool emit(struct urds_rx_batch *out, const struct urds_rx_cur *m, struct urds_buf *buf,
		 uint8_t *payload, uint32_t *refs)
{
	struct urds_rx_item *it = &out->v[out->n];
	enum urds_frame_kind kind = (enum urds_frame_kind)m->kind;

	it->buf = NULL;
	it->payload = payload;
	it->len = m->len;
	it->sport = m->sport;
	it->dport = m->dport;
	it->flags = m->flags;
	it->seq = m->seq;
	switch (kind) {
	case URDS_FRAME_DATA:
		it->kind = URDS_RX_DATA;
		if (m->len > 0) {
			it->buf = buf;
			++*refs;
		}
		break;
	case URDS_FRAME_MAP:
	case URDS_FRAME_CONTROL:
		it->kind = kind == URDS_FRAME_MAP ? URDS_RX_MAP : URDS_RX_CONTROL;
		it->buf = buf;
		++*refs;
		break;
	case URDS_FRAME_PING:
		it->kind = URDS_RX_PING;
		break;
	case URDS_FRAME_PROBE:
		it->kind = URDS_RX_PROBE;
		break;
	case URDS_FRAME_PROBE_ANSWER:
		it->kind = URDS_RX_ANSWER;
		break;
	case URDS_FRAME_ACK:
	case URDS_FRAME_IGNORE:
		return false;
	}
	out->n++;
	return kind == URDS_FRAME_PROBE || kind == URDS_FRAME_PROBE_ANSWER;
}

/* A probe's extensions are read with its header; one with a payload, which nobody sends, would be whole
 * only later, when they are gone. It is an ordinary ping then, and such an answer nothing. */
static enum urds_frame_kind frame_kind(const struct urds_path_rx *r, const struct urds_hdr *h)
{
	enum urds_frame_kind kind = urds_hdr_kind(h, r->urds);

	if (h->len > 0 && kind == URDS_FRAME_PROBE)
		return URDS_FRAME_PING;
	if (h->len > 0 && kind == URDS_FRAME_PROBE_ANSWER)
		return URDS_FRAME_IGNORE;
	return kind;
}

static void header(struct urds_path_rx *r, const struct urds_hdr *h, enum urds_frame_kind kind,
		   struct urds_rx_batch *out)
{
	out->headers++;
	if (kind == URDS_FRAME_PROBE || kind == URDS_FRAME_PROBE_ANSWER)
		urds_probe_get(&out->probe, h);
	if (r->urds && h->ack > out->ack_seen)
		out->ack_seen = h->ack;
}

/* All of @m has arrived: now it counts. Return: false: a duplicate, to be dropped. */
static bool accept_frame(struct urds_path_rx *r, const struct urds_rx_cur *m,
			 struct urds_rx_batch *out)
{
	if (m->kind == URDS_FRAME_MAP || m->kind == URDS_FRAME_ACK ||
	    m->kind == URDS_FRAME_CONTROL || m->flags == URDS_F_CONG_BITMAP)
		return true;
	out->wire_bytes += URDS_HDR_LEN + m->len;
	if (m->flags & URDS_F_ACK_REQUIRED)
		out->ack_wanted = true;
	if (m->kind == URDS_FRAME_PROBE || m->kind == URDS_FRAME_PROBE_ANSWER) {
		r->before_probe = r->next_rx;
		r->probe_seq = m->seq;
	}
	if (!is_duplicate(r, m->seq, m->flags))
		return true;
	/* The probe ahead of a replay is always one, so that a kernel drops it. */
	if (m->kind == URDS_FRAME_PROBE) {
		out->probe_is_old = true;
		return true;
	}
	out->dropped_old++;
	out->ack_wanted = true; /* its first ack may have died with the old connection */
	return false;
}

/* The usual case, kept tight: whole messages for sockets, one after the other in the chunk. Stops at whatever is
 * something else. */
static void whole_messages(struct urds_path_rx *r, struct urds_rx_batch *out, uint32_t *refs)
{
	struct urds_buf *c = r->chunk;
	uint8_t *p = urds_buf_data(c) + r->parsed, *end = urds_buf_data(c) + c->used;
	uint64_t next = r->next_rx, ack = out->ack_seen;
	uint32_t bytes = 0, n;

	while (out->n < URDS_RX_ITEMS &&
	       (n = urds_splitter_whole(&r->split, p, (size_t)(end - p))) > 0) {
		struct urds_rx_item *it = &out->v[out->n];
		uint16_t dport = urds_be16_load(p + URDS_HDR_OFF_DPORT);
		uint8_t flags = p[URDS_HDR_OFF_FLAGS];
		uint64_t h_ack;

		if (dport <= URDS_PROBE_PORT || (flags & ~URDS_F_ACK_REQUIRED))
			break;
		it->seq = urds_be64_load(p + URDS_HDR_OFF_SEQ);
		next = it->seq + 1;
		h_ack = urds_be64_load(p + URDS_HDR_OFF_ACK);
		if (h_ack > ack)
			ack = h_ack;
		it->len = n - URDS_HDR_LEN;
		it->buf = it->len > 0 ? c : NULL;
		*refs += it->len > 0;
		it->payload = p + URDS_HDR_LEN;
		it->sport = urds_be16_load(p + URDS_HDR_OFF_SPORT);
		it->dport = dport;
		it->kind = URDS_RX_DATA;
		it->flags = flags;
		out->ack_wanted |= (flags & URDS_F_ACK_REQUIRED) != 0;
		out->n++;
		out->headers++;
		bytes += n;
		p += n;
	}
	r->next_rx = next;
	if (r->urds)
		out->ack_seen = ack;
	out->wire_bytes += bytes;
	r->parsed = (uint32_t)(p - urds_buf_data(c));
}

int urds_path_rx_next(struct urds_path_rx *r, struct urds_rx_batch *out)
{
	uint32_t refs = 0;
	int rc = 0;

	out->n = 0;
	out->headers = out->dropped_old = out->wire_bytes = 0;
	out->ack_seen = 0;
	out->ack_wanted = out->probe_is_old = false;
	while (r->chunk) {
		struct urds_buf *from;
		struct urds_piece piece;
		uint32_t *at, len;
		uint8_t *p;
		struct urds_rx_cur m;
		enum urds_frame_kind kind;
		bool end = false;
		int n;

		if (!r->body)
			whole_messages(r, out, &refs);
		from = r->body ? r->body : r->chunk;
		at = r->body ? &r->body_parsed : &r->parsed;
		p = urds_buf_data(from) + *at;
		len = from->used - *at;
		if (len == 0)
			break;
		if (out->n == URDS_RX_ITEMS) {
			rc = 1;
			break;
		}
		n = urds_splitter_next(&r->split, p, len, &piece);
		if (n < 0) {
			rc = n;
			break;
		}
		*at += (uint32_t)n;
		switch (piece.kind) {
		case URDS_PIECE_NONE:
			continue;
		case URDS_PIECE_MSG:
			kind = frame_kind(r, &piece.hdr);
			header(r, &piece.hdr, kind, out);
			m = (struct urds_rx_cur){.seq = piece.hdr.seq,
						 .len = piece.len,
						 .sport = piece.hdr.sport,
						 .dport = piece.hdr.dport,
						 .flags = piece.hdr.flags,
						 .kind = (uint8_t)kind};
			if (accept_frame(r, &m, out))
				end = emit(out, &m, r->chunk, p + n - piece.len, &refs);
			break;
		case URDS_PIECE_BEGIN:
			kind = frame_kind(r, &piece.hdr);
			header(r, &piece.hdr, kind, out);
			if (refs > 0) /* the chunk may be let go of */
				urds_buf_hold(r->chunk, refs);
			refs = 0;
			rc = body_begin(r, &piece.hdr, kind);
			if (rc < 0)
				return rc;
			break;
		case URDS_PIECE_BODY:
			if (!piece.last)
				break;
			r->in_msg = false;
			if (r->body) {
				struct urds_buf *body = r->body;
				uint32_t body_refs = 0;

				r->body = NULL;
				if (accept_frame(r, &r->cur, out))
					end = emit(out, &r->cur, body, urds_buf_data(body),
						   &body_refs);
				if (body_refs == 0)
					urds_buf_drop(body);
			} else if (accept_frame(r, &r->cur, out)) {
				end = emit(out, &r->cur, r->chunk,
					   urds_buf_data(r->chunk) + r->body_at, &refs);
			}
			break;
		}
		if (end) {
			rc = 1;
			break;
		}
	}
	if (refs > 0)
		urds_buf_hold(r->chunk, refs);
	return rc;
}

void urds_path_rx_idle(struct urds_path_rx *r, enum urds_rx_keep keep)
{
	/* The splitter keeps a header that is not whole; a body in place needs its chunk. */
	if (!r->chunk || r->parsed != r->chunk->used || (r->in_msg && !r->body))
		return;
	if (urds_buf_is_sole(r->chunk) ? keep == URDS_RX_KEEP_ANY
				       : keep != URDS_RX_KEEP_NONE && has_room(r->chunk))
		return;
	urds_buf_drop(r->chunk);
	r->chunk = NULL;
	r->parsed = 0;
}

bool urds_path_rx_rest(const struct urds_path_rx *r, struct urds_path_rest *out)
{
	if (r->chunk || r->body || r->in_msg || urds_splitter_mid(&r->split))
		return false;
	out->next_rx = r->next_rx;
	out->urds = r->urds;
	return true;
}

void urds_path_rx_wake(struct urds_path_rx *r, const struct urds_path_rest *in)
{
	r->next_rx = in->next_rx;
	r->urds = in->urds;
}
