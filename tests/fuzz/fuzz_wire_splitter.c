/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A stream fed to the splitter whole, in random pieces and byte by byte must give what a plain loop
 * over the whole of it gives; and every message found must survive its codecs.
 *
 * Input: two bytes that choose the pieces, then the stream.
 */
#include <stdlib.h>

#include "wire/congmap.h"
#include "wire/hdr.h"
#include "wire/probe.h"
#include "wire/splitter.h"
#include "wire/tlv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stays on whatever the build: a fuzzer that checks nothing finds nothing. */
#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

/* What a stream amounts to. */
struct sum {
	uint64_t msgs, hash;
	bool is_error, is_mid;
	uint64_t missing; /* if mid and no error */
};

static uint64_t fold(uint64_t hash, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 0x100000001b3u;
	return hash;
}

/* Written without wire/: shares no mistake with it. */
static struct sum reference(const uint8_t *p, size_t size)
{
	struct sum s = {0};

	while (size >= 48) {
		uint64_t len = (uint64_t)p[16] << 24 | p[17] << 16 | p[18] << 8 | p[19];

		if (len > 1048576 + 65536) {
			s.is_error = true;
			return s;
		}
		if (size < 48 + len) {
			s.is_mid = true;
			s.missing = 48 + len - size;
			return s;
		}
		s.hash = fold(s.hash, p, 48 + len);
		s.msgs++;
		p += 48 + len;
		size -= 48 + len;
	}
	s.is_mid = size > 0;
	s.missing = size > 0 ? 48 - size : 0;
	return s;
}

static void check_probe(const struct urds_hdr *h)
{
	bool answer = urds_hdr_kind(h, true) == URDS_FRAME_PROBE_ANSWER;
	struct urds_probe p, again;
	uint8_t hdr[URDS_HDR_LEN];
	struct urds_hdr h2;

	MUST(urds_probe_get(&p, h) == 0);
	MUST(urds_probe_put(hdr, answer, h->seq, &p) == URDS_HDR_LEN);
	urds_hdr_load(&h2, hdr);
	MUST(urds_hdr_kind(&h2, false) == urds_hdr_kind(h, false));
	MUST(urds_probe_get(&again, &h2) == 0);
	MUST(again.has_npaths == p.has_npaths && again.npaths == p.npaths);
	MUST(again.has_gen_num == p.has_gen_num && again.gen_num == p.gen_num);
	MUST(again.has_sport_idx == p.has_sport_idx && again.has_urds == p.has_urds);
	MUST(again.caps == p.caps && again.incarnation == p.incarnation);
	MUST(urds_probe_npaths(&p, 0) >= 1 && urds_probe_npaths(&p, 0) <= URDS_NPATHS_MAX);
}

static void check_control(const uint8_t *p, size_t len)
{
	struct urds_tlv_iter it;
	struct urds_mapdelta d;
	struct urds_tlv t;
	uint8_t buf[URDS_MAPDELTA_LEN];
	const uint8_t *end = p;
	int rc;

	urds_tlv_iter_init(&it, p, len);
	while ((rc = urds_tlv_next(&it, &t)) > 0) {
		MUST(t.val >= end + URDS_TLV_HDR_LEN && t.val + t.len <= p + len);
		end = t.val + t.len;
		if (urds_mapdelta_get(&d, &t) < 0)
			continue;
		MUST(urds_mapdelta_put(buf, sizeof(buf), &d) == URDS_MAPDELTA_LEN);
		MUST(memcmp(buf, t.val - URDS_TLV_HDR_LEN, sizeof(buf)) == 0);
	}
	MUST(rc == 0 || rc == -URDS_EPROTO);
	MUST(rc < 0 || it.left == 0);
}

static void check_map(const uint8_t *map)
{
	struct urds_congmap_diff d;
	int port, last = -1;
	unsigned n = 0;

	urds_congmap_diff_init(&d, map, NULL);
	while ((port = urds_congmap_diff_next(&d)) >= 0) {
		MUST(port > last && urds_congmap_test(map, (uint16_t)port));
		last = port;
		n++;
	}
	MUST((n == 0) == urds_congmap_is_clear(map));
	urds_congmap_diff_init(&d, map, map);
	MUST(urds_congmap_diff_next(&d) == -1);
}

/* @payload: NULL if it did not come in one piece. */
static void check_msg(const struct urds_hdr *h, const uint8_t *payload)
{
	enum urds_frame_kind kernel = urds_hdr_kind(h, false), urds = urds_hdr_kind(h, true);

	MUST(kernel != URDS_FRAME_ACK && kernel != URDS_FRAME_CONTROL);
	MUST(kernel == urds || (kernel == URDS_FRAME_IGNORE && h->sport == 0 && h->dport == 0));
	if (kernel == URDS_FRAME_PROBE || kernel == URDS_FRAME_PROBE_ANSWER)
		check_probe(h);
	if (payload && urds == URDS_FRAME_CONTROL)
		check_control(payload, h->len);
	if (payload && kernel == URDS_FRAME_MAP)
		check_map(payload);
}

/* Fed in runs of random size up to @size_max; 0: in one. */
static struct sum split(const uint8_t *p, size_t size, size_t size_max, uint32_t rnd)
{
	struct urds_splitter s;
	struct sum sum = {0};
	uint64_t hash = 0; /* including the message under way */

	urds_splitter_init(&s);
	while (size > 0 && !sum.is_error) {
		size_t run;

		rnd = rnd * 1664525 + 1013904223;
		run = size_max == 0 ? size : 1 + (rnd >> 8) % size_max;
		if (run > size)
			run = size;
		size -= run;
		while (run > 0) {
			uint32_t need = urds_splitter_need(&s),
				 whole = urds_splitter_whole(&s, p, run);
			struct urds_piece piece;
			uint8_t hdr[URDS_HDR_LEN];
			int n = urds_splitter_next(&s, p, run, &piece);

			if (n < 0) {
				MUST(n == -URDS_EPROTO && whole == 0);
				MUST(urds_splitter_next(&s, p, run, &piece) == n);
				sum.is_error = true;
				break;
			}
			MUST(n > 0 && (size_t)n <= run);
			if (whole)
				MUST(piece.kind == URDS_PIECE_MSG && (uint32_t)n == whole);
			switch (piece.kind) {
			case URDS_PIECE_NONE:
				MUST((size_t)n == run && run < need);
				break;
			case URDS_PIECE_MSG:
				MUST(piece.p + piece.len == p + n && piece.len == piece.hdr.len);
				check_msg(&piece.hdr, piece.p);
				urds_hdr_put(hdr, &piece.hdr);
				hash = fold(hash, hdr, sizeof(hdr));
				hash = fold(hash, piece.p, piece.len);
				break;
			case URDS_PIECE_BEGIN:
				check_msg(&piece.hdr, NULL);
				urds_hdr_put(hdr, &piece.hdr);
				hash = fold(hash, hdr, sizeof(hdr));
				break;
			case URDS_PIECE_BODY:
				MUST(piece.p == p && piece.len == (uint32_t)n && n > 0);
				MUST(piece.last == ((uint32_t)n == need));
				hash = fold(hash, piece.p, piece.len);
				break;
			}
			if (piece.kind == URDS_PIECE_MSG ||
			    (piece.kind == URDS_PIECE_BODY && piece.last)) {
				MUST(!urds_splitter_mid(&s));
				sum.msgs++;
				sum.hash = hash;
			}
			p += n;
			run -= (size_t)n;
		}
	}
	if (sum.is_error)
		return sum;
	sum.is_mid = urds_splitter_mid(&s);
	if (sum.is_mid)
		sum.missing = urds_splitter_need(&s);
	return sum;
}

static void check_same(struct sum a, struct sum b)
{
	MUST(a.msgs == b.msgs && a.hash == b.hash && a.is_error == b.is_error);
	MUST(a.is_mid == b.is_mid && a.missing == b.missing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t rnd;
	struct sum want;

	if (size < 2)
		return 0;
	rnd = (uint32_t)data[0] << 8 | data[1];
	data += 2;
	size -= 2;
	want = reference(data, size);
	check_same(split(data, size, 0, 0), want);
	check_same(split(data, size, 100, rnd), want);
	check_same(split(data, size, 3000, rnd), want);
	if (size < 4096)
		check_same(split(data, size, 1, 0), want);
	return 0;
}
