/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/splitter.h"
#include "hex.h"
#include "tap.h"

/* A stream with every shape of message: payload lengths, in order. */
static const uint32_t lens[] = {0, 5, 0, 0, 1, 48, 47, 49, 200, 0, 3};
#define MSGS (sizeof(lens) / sizeof(lens[0]))
static uint8_t stream[MSGS * URDS_HDR_LEN + 400];
static size_t stream_len;

static uint8_t payload_byte(unsigned msg, uint32_t off)
{
	return (uint8_t)(msg * 37 + off + 1);
}

static void make_stream(void)
{
	uint8_t *p = stream;

	for (unsigned i = 0; i < MSGS; i++) {
		urds_hdr_put_data(p, i + 1, lens[i], (uint16_t)(4000 + i), 5000);
		p += URDS_HDR_LEN;
		for (uint32_t off = 0; off < lens[i]; off++)
			*p++ = payload_byte(i, off);
	}
	stream_len = (size_t)(p - stream);
	CHECK(stream_len <= sizeof(stream));
}

/* What a receiver makes of the pieces. */
struct rx {
	struct urds_splitter s;
	unsigned msgs, whole; /* messages so far; those that came as one piece */
	bool in_body;
	uint32_t got;
	uint64_t taken;
};

static void rx_init(struct rx *r)
{
	memset(r, 0, sizeof(*r));
	memset(&r->s, 0xa5, sizeof(r->s)); /* init must not rely on zeroed memory */
	urds_splitter_init(&r->s);
}

static void rx_hdr(struct rx *r, const struct urds_hdr *h)
{
	CHECK(r->msgs < MSGS);
	CHECK(!r->in_body);
	CHECK_EQ(h->seq, r->msgs + 1);
	CHECK_EQ(h->len, lens[r->msgs]);
	CHECK_EQ(h->sport, 4000 + r->msgs);
	CHECK_EQ(h->dport, 5000);
	CHECK_EQ(h->ext[0], 0);
}

static void rx_payload(struct rx *r, const uint8_t *p, uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		CHECK_EQ(p[i], payload_byte(r->msgs, off + i));
}

static void rx_feed(struct rx *r, const uint8_t *buf, size_t len)
{
	while (len > 0) {
		uint32_t need = urds_splitter_need(&r->s);
		bool mid = urds_splitter_mid(&r->s);
		struct urds_piece piece;
		int n;

		CHECK(need > 0);
		n = urds_splitter_next(&r->s, buf, len, &piece);
		CHECK(n > 0);
		CHECK((size_t)n <= len);
		switch (piece.kind) {
		case URDS_PIECE_NONE:
			CHECK_EQ(n, len);
			CHECK(len < need && !r->in_body);
			CHECK(urds_splitter_mid(&r->s));
			CHECK_EQ(urds_splitter_need(&r->s), need - len);
			break;
		case URDS_PIECE_MSG:
			rx_hdr(r, &piece.hdr);
			CHECK_EQ(piece.len, piece.hdr.len);
			CHECK_EQ(piece.off, 0);
			CHECK(piece.p == buf + n - piece.len);
			rx_payload(r, piece.p, 0, piece.len);
			CHECK(!urds_splitter_mid(&r->s));
			if (!mid)
				CHECK_EQ(n, URDS_HDR_LEN + piece.len);
			r->msgs++;
			r->whole++;
			break;
		case URDS_PIECE_BEGIN:
			rx_hdr(r, &piece.hdr);
			CHECK_EQ(n, need);
			CHECK(piece.hdr.len > len - (size_t)n);
			CHECK_EQ(urds_splitter_need(&r->s), piece.hdr.len);
			r->in_body = true;
			r->got = 0;
			break;
		case URDS_PIECE_BODY:
			CHECK(r->in_body);
			CHECK(piece.p == buf);
			CHECK_EQ(piece.len, n);
			CHECK_EQ(piece.off, r->got);
			rx_payload(r, piece.p, piece.off, piece.len);
			r->got += piece.len;
			CHECK_EQ(piece.last, r->got == lens[r->msgs]);
			CHECK_EQ(urds_splitter_mid(&r->s), !piece.last);
			if (piece.last) {
				r->in_body = false;
				r->msgs++;
			}
			break;
		}
		buf += n;
		len -= (size_t)n;
		r->taken += (unsigned)n;
	}
}

/* Whole messages in the first @len bytes, and whether bytes are left over. */
static unsigned whole_in(size_t len, bool *rest)
{
	unsigned n = 0;

	while (n < MSGS && len >= URDS_HDR_LEN + lens[n])
		len -= URDS_HDR_LEN + lens[n++];
	*rest = len > 0;
	return n;
}

static void splitter__is_small(void)
{
	CHECK(sizeof(struct urds_splitter) <= 88);
}

static void splitter__whole_stream_needs_no_copy(void)
{
	struct rx r;

	make_stream();
	rx_init(&r);
	rx_feed(&r, stream, stream_len);
	CHECK_EQ(r.msgs, MSGS);
	CHECK_EQ(r.whole, MSGS);
	CHECK(!urds_splitter_mid(&r.s));
}

static void splitter__every_truncation(void)
{
	make_stream();
	for (size_t len = 0; len <= stream_len; len++) {
		struct rx r;
		bool rest;

		rx_init(&r);
		rx_feed(&r, stream, len);
		CHECK_EQ(r.msgs, whole_in(len, &rest));
		CHECK_EQ(urds_splitter_mid(&r.s), rest);
		CHECK_EQ(r.taken, len);
	}
}

static void splitter__every_split_offset(void)
{
	make_stream();
	for (size_t at = 0; at <= stream_len; at++) {
		struct rx r;

		rx_init(&r);
		rx_feed(&r, stream, at);
		rx_feed(&r, stream + at, stream_len - at);
		CHECK_EQ(r.msgs, MSGS);
		CHECK(r.whole >= MSGS - 1);
		CHECK(!urds_splitter_mid(&r.s));
	}
}

static void splitter__every_piece_size(void)
{
	make_stream();
	for (size_t size = 1; size <= stream_len; size++) {
		struct rx r;

		rx_init(&r);
		for (size_t at = 0; at < stream_len; at += size)
			rx_feed(&r, stream + at, stream_len - at < size ? stream_len - at : size);
		CHECK_EQ(r.msgs, MSGS);
		CHECK(!urds_splitter_mid(&r.s));
	}
}

static void splitter__pairs_of_splits(void)
{
	make_stream();
	for (size_t a = 0; a <= stream_len; a += 3) {
		for (size_t b = a; b <= stream_len; b++) {
			struct rx r;

			rx_init(&r);
			rx_feed(&r, stream, a);
			rx_feed(&r, stream + a, b - a);
			rx_feed(&r, stream + b, stream_len - b);
			CHECK_EQ(r.msgs, MSGS);
		}
	}
}

static void splitter__no_bytes_no_news(void)
{
	struct urds_splitter s;
	struct urds_piece piece;

	make_stream();
	urds_splitter_init(&s);
	CHECK_EQ(urds_splitter_next(&s, NULL, 0, &piece), 0);
	CHECK_EQ(piece.kind, URDS_PIECE_NONE);
	CHECK(!urds_splitter_mid(&s));
	/* After the empty first message, the header of the second and one byte of five. */
	CHECK_EQ(urds_splitter_next(&s, stream + 48, 49, &piece), 48);
	CHECK_EQ(piece.kind, URDS_PIECE_BEGIN);
	CHECK_EQ(urds_splitter_next(&s, NULL, 0, &piece), 0);
	CHECK_EQ(piece.kind, URDS_PIECE_NONE);
	CHECK_EQ(urds_splitter_need(&s), 5);
}

static int feed_len(uint32_t len, size_t first)
{
	struct urds_splitter s;
	struct urds_piece piece, before;
	uint8_t hdr[URDS_HDR_LEN];
	int n;

	urds_hdr_put_data(hdr, 1, len, 4000, 5000);
	urds_splitter_init(&s);
	if (first > 0) {
		CHECK_EQ(urds_splitter_next(&s, hdr, first, &piece), first);
		CHECK_EQ(piece.kind, URDS_PIECE_NONE);
	}
	memset(&piece, 0xa5, sizeof(piece));
	memcpy(&before, &piece, sizeof(piece));
	n = urds_splitter_next(&s, hdr + first, sizeof(hdr) - first, &piece);
	if (n < 0) {
		/* Nothing taken, nothing said, and the same again. */
		CHECK_MEM(&piece, &before, sizeof(piece));
		CHECK_EQ(urds_splitter_need(&s), URDS_HDR_LEN - first);
		CHECK_EQ(urds_splitter_next(&s, hdr + first, sizeof(hdr) - first, &piece), n);
	} else {
		CHECK_EQ(piece.kind, URDS_PIECE_BEGIN);
		CHECK_EQ(urds_splitter_need(&s), len);
	}
	return n;
}

static void splitter__length_is_bounded(void)
{
	for (size_t first = 0; first < URDS_HDR_LEN; first++) {
		CHECK_EQ(feed_len(URDS_MSG_MAX, first), URDS_HDR_LEN - first);
		CHECK_EQ(feed_len(URDS_MSG_ACCEPT_MAX, first), URDS_HDR_LEN - first);
		CHECK_EQ(feed_len(URDS_MSG_ACCEPT_MAX + 1, first), -URDS_EPROTO);
		CHECK_EQ(feed_len(0x7fffffff, first), -URDS_EPROTO);
		CHECK_EQ(feed_len(0x80000000, first), -URDS_EPROTO);
		CHECK_EQ(feed_len(0xffffffff, first), -URDS_EPROTO);
	}
}

static void splitter__whole_agrees_with_next(void)
{
	make_stream();
	for (size_t len = 0; len <= stream_len; len++) {
		const uint8_t *p = stream;
		size_t left = len;
		unsigned msgs = 0;
		struct urds_splitter s;
		struct urds_piece piece;
		uint32_t n;
		bool rest;

		urds_splitter_init(&s);
		while ((n = urds_splitter_whole(&s, p, left)) > 0) {
			CHECK_EQ(urds_splitter_next(&s, p, left, &piece), n);
			CHECK_EQ(piece.kind, URDS_PIECE_MSG);
			p += n;
			left -= n;
			msgs++;
		}
		CHECK_EQ(msgs, whole_in(len, &rest));
		CHECK_EQ(left > 0, rest);
	}
}

static void splitter__whole_refuses_what_next_must_see(void)
{
	uint8_t hdr[2 * URDS_HDR_LEN];
	struct urds_splitter s;
	struct urds_piece piece;

	memset(hdr, 0, sizeof(hdr));
	urds_splitter_init(&s);
	CHECK_EQ(urds_splitter_whole(&s, hdr, 48), 48);
	urds_be32_store(hdr + URDS_HDR_OFF_LEN, 0xffffffff); /* + 48 would wrap around */
	CHECK_EQ(urds_splitter_whole(&s, hdr, sizeof(hdr)), 0);
	urds_be32_store(hdr + URDS_HDR_OFF_LEN, 0);
	CHECK_EQ(urds_splitter_next(&s, hdr, 1, &piece), 1);
	CHECK_EQ(urds_splitter_whole(&s, hdr, sizeof(hdr)), 0);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(splitter__is_small);
	T_RUN(splitter__whole_stream_needs_no_copy);
	T_RUN(splitter__every_truncation);
	T_RUN(splitter__every_split_offset);
	T_RUN(splitter__every_piece_size);
	T_RUN(splitter__pairs_of_splits);
	T_RUN(splitter__no_bytes_no_news);
	T_RUN(splitter__length_is_bounded);
	T_RUN(splitter__whole_agrees_with_next);
	T_RUN(splitter__whole_refuses_what_next_must_see);
	return t_done();
}
