/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The receive half of a path: messages out of reads of any size, the duplicate rule, memory.
 */
#include "core/path.h"
#include "test_mem.h"
#include "../../tap.h"

static struct test_mem mem;
static struct urds_path_rx r;
static struct urds_rx_batch b;

/* Items that came out, their references held until dropped. */
static struct urds_rx_item got[4096];
static struct urds_probe got_probe[8];
static size_t ngot, nprobes;
static uint32_t headers, dropped;
static uint64_t ack_seen;
static bool ack_wanted;

/* The stream to be fed. */
static uint8_t *in;
static size_t in_len, in_cap;

static void begin(void)
{
	test_mem_init(&mem);
	urds_path_rx_init(&r, &mem.m);
	ngot = nprobes = headers = dropped = 0;
	ack_seen = 0;
	ack_wanted = false;
	in_len = 0;
}

static void drop_all(void)
{
	for (size_t i = 0; i < ngot; i++)
		urds_buf_drop(got[i].buf);
	ngot = 0;
}

static void finish(void)
{
	drop_all();
	urds_path_rx_reset(&r);
	CHECK_EQ(mem.blocks, 0);
	CHECK_EQ(mem.bytes, 0);
}

static uint8_t *frame(uint64_t seq, uint32_t len, uint16_t sport, uint16_t dport, uint8_t flags)
{
	uint8_t *p;

	if (in_len + URDS_HDR_LEN + len > in_cap) {
		in_cap = (in_len + URDS_HDR_LEN + len) * 2;
		in = realloc(in, in_cap);
	}
	p = in + in_len;
	urds_hdr_put_data(p, seq, len, sport, dport);
	p[URDS_HDR_OFF_FLAGS] = flags;
	for (uint32_t i = 0; i < len; i++)
		p[URDS_HDR_LEN + i] = test_byte(seq, i);
	in_len += URDS_HDR_LEN + len;
	return p;
}

static int decode(void)
{
	int rc;

	do {
		rc = urds_path_rx_next(&r, &b);
		headers += b.headers;
		dropped += b.dropped_old;
		ack_wanted |= b.ack_wanted;
		if (b.ack_seen > ack_seen)
			ack_seen = b.ack_seen;
		for (size_t i = 0; i < b.n; i++) {
			CHECK(ngot < sizeof got / sizeof got[0]);
			got[ngot++] = b.v[i];
			if (b.v[i].kind != URDS_RX_PROBE && b.v[i].kind != URDS_RX_ANSWER)
				continue;
			CHECK_EQ(i, b.n - 1);
			got_probe[nprobes++] = b.probe;
		}
	} while (rc > 0);
	return rc;
}

/* One read of at most @max bytes of the stream from @at. Return: bytes, or an error. */
static int read_some(size_t at, size_t max)
{
	struct urds_iov iov[2];
	int n = urds_path_rx_space(&r, iov), rc;
	size_t sum = 0;

	if (n < 0)
		return n;
	for (int i = 0; i < n && sum < max; i++) {
		size_t part = iov[i].len < max - sum ? iov[i].len : max - sum;

		memcpy(iov[i].base, in + at + sum, part);
		sum += part;
	}
	CHECK(sum > 0);
	urds_path_rx_got(&r, sum);
	rc = decode();
	return rc < 0 ? rc : (int)sum;
}

static int feed(size_t from, size_t to, size_t max)
{
	while (from < to) {
		int n = read_some(from, to - from < max ? to - from : max);

		if (n < 0)
			return n;
		from += (size_t)n;
	}
	return 0;
}

static void check_payload(const struct urds_rx_item *it)
{
	for (uint32_t i = 0; i < it->len; i++)
		if (it->payload[i] != test_byte(it->seq, i))
			T_FAIL("seq %" PRIu64 " byte %u is wrong", it->seq, i);
}

static const uint32_t edges[] = {0,	1,     47,    48,     8143,   8144,    8145,	32767,
				 32768, 32769, 65423, 65424,  65425,  65471,   65472,	65473,
				 65535, 65536, 65537, 131072, 262144, 1048576, 1114112, 3};
#define EDGES (sizeof edges / sizeof edges[0])

static void path_rx__sizes_around_every_boundary(void)
{
	static const size_t reads[] = {SIZE_MAX, 65536, 65471, 30000, 4097, 1448, 97};

	for (size_t k = 0; k < sizeof reads / sizeof reads[0]; k++) {
		for (int keep = 0; keep < 2; keep++) {
			begin();
			for (size_t i = 0; i < EDGES; i++)
				frame(i + 1, edges[i], 7, 9, 0);
			CHECK_EQ(feed(0, in_len, reads[k]), 0);
			CHECK_EQ(ngot, EDGES);
			CHECK_EQ(headers, EDGES);
			for (size_t i = 0; i < EDGES; i++) {
				CHECK_EQ(got[i].kind, URDS_RX_DATA);
				CHECK_EQ(got[i].len, edges[i]);
				CHECK_EQ(got[i].sport, 7);
				check_payload(&got[i]);
				CHECK_EQ(got[i].buf == NULL, edges[i] == 0);
			}
			CHECK_EQ(urds_path_rx_ack(&r), EDGES);
			if (keep) {
				urds_path_rx_idle(&r, URDS_RX_KEEP_NONE);
				CHECK(!r.chunk && !r.body);
			}
			finish();
		}
	}
}

static void path_rx__every_cut_of_a_short_stream(void)
{
	static const uint32_t sizes[] = {0, 1, 100, 0, 500, 7};
	size_t total;

	begin();
	for (size_t i = 0; i < 6; i++)
		frame(i + 1, sizes[i], 7, 9, 0);
	total = in_len;
	finish();
	for (size_t cut = 0; cut <= total; cut++) {
		begin();
		for (size_t i = 0; i < 6; i++)
			frame(i + 1, sizes[i], 7, 9, 0);
		CHECK_EQ(feed(0, cut, SIZE_MAX), 0);
		urds_path_rx_idle(&r, (enum urds_rx_keep)(cut % 3));
		CHECK_EQ(feed(cut, total, SIZE_MAX), 0);
		CHECK_EQ(ngot, 6);
		for (size_t i = 0; i < 6; i++)
			check_payload(&got[i]);
		finish();
	}
}

static void path_rx__random_streams_in_random_reads(void)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t s = seed;
		size_t n = 0, at = 0, checked = 0, dropped_to = 0;

		begin();
		while (in_len < 3000000) {
			uint32_t k = test_below(&s, 10);

			frame(++n,
			      k < 6   ? test_below(&s, 200)
			      : k < 8 ? test_below(&s, 9000)
			      : k < 9 ? 32768 - 50 + test_below(&s, 100)
				      : test_below(&s, 200000),
			      7, 9, 0);
			CHECK(n < sizeof got / sizeof got[0]);
			if (n > 3000)
				break;
		}
		while (at < in_len) {
			size_t max = test_below(&s, 3) ? 1 + test_below(&s, 3000)
						       : 1 + test_below(&s, 150000);
			int k = read_some(at, max < in_len - at ? max : in_len - at);

			CHECK(k > 0);
			at += (size_t)k;
			for (; checked < ngot; checked++) {
				CHECK_EQ(got[checked].seq, checked + 1);
				check_payload(&got[checked]);
			}
			/* Readers lag behind by some messages. */
			for (; dropped_to + seed % 9 < ngot; dropped_to++) {
				urds_buf_drop(got[dropped_to].buf);
				got[dropped_to].buf = NULL;
			}
			if (test_below(&s, 4) == 0)
				urds_path_rx_idle(&r, (enum urds_rx_keep)(seed % 3));
		}
		CHECK_EQ(ngot, n);
		finish();
	}
}

static void path_rx__batch_is_bounded(void)
{
	begin();
	for (uint64_t i = 1; i <= 3 * URDS_RX_ITEMS + 1; i++)
		frame(i, 8, 7, 9, 0);
	CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
	CHECK_EQ(ngot, 3 * URDS_RX_ITEMS + 1);
	finish();
}

static void path_rx__length_beyond_the_limit_breaks_the_stream(void)
{
	static const uint32_t bad[] = {URDS_MSG_ACCEPT_MAX + 1, 0x7fffffff, 0xffffffff};

	for (size_t i = 0; i < 3; i++) {
		begin();
		frame(1, 4, 7, 9, 0);
		frame(2, 0, 7, 9, 0);
		urds_be32_store(in + in_len - URDS_HDR_LEN + URDS_HDR_OFF_LEN, bad[i]);
		CHECK_EQ(feed(0, in_len, 97), -URDS_EPROTO);
		CHECK_EQ(ngot, 1);
		CHECK(mem.peak_blocks <= 2);
		finish();
	}
}

/* E1: a header that claims much costs nothing until the bytes come. */
static void path_rx__memory_follows_what_arrives(void)
{
	begin();
	frame(1, URDS_MSG_ACCEPT_MAX, 7, 9, 0);
	for (size_t at = 0; at < in_len;) {
		size_t n = in_len - at < 5000 ? in_len - at : 5000;

		CHECK_EQ(feed(at, at + n, n), 0);
		at += n;
		CHECK(mem.peak_blocks * URDS_BLOCK_BYTES <= 18 * at + 2 * URDS_BLOCK_BYTES);
		CHECK(at > 65000 || mem.peak_blocks <= 2);
	}
	CHECK_EQ(ngot, 1);
	check_payload(&got[0]);
	finish();
}

static void path_rx__half_a_header_holds_no_chunk(void)
{
	for (size_t cut = 0; cut < URDS_HDR_LEN; cut++) {
		begin();
		frame(1, 10, 7, 9, 0);
		CHECK_EQ(feed(0, cut, SIZE_MAX), 0);
		urds_path_rx_idle(&r, URDS_RX_KEEP_UNREAD);
		CHECK_EQ(mem.blocks, 0);
		CHECK_EQ(headers, 0);
		CHECK_EQ(feed(cut, in_len, SIZE_MAX), 0);
		CHECK_EQ(ngot, 1);
		check_payload(&got[0]);
		finish();
	}
}

/* Messages that come one at a time and are not read share chunks; when they are read, nothing is held. */
static void path_rx__lone_messages_share_a_chunk(void)
{
	begin();
	for (uint64_t i = 1; i <= 3000; i++) {
		in_len = 0;
		frame(i, 6, 7, 9, 0);
		CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
		urds_path_rx_idle(&r, URDS_RX_KEEP_UNREAD);
	}
	CHECK_EQ(ngot, 3000);
	CHECK(mem.blocks <= 4);
	for (size_t i = 0; i < ngot; i++)
		check_payload(&got[i]);
	drop_all();
	urds_path_rx_idle(&r, URDS_RX_KEEP_UNREAD);
	CHECK_EQ(mem.blocks, 0);
	finish();
}

static void path_rx__reset_forgets_partial_messages_and_keeps_the_count(void)
{
	static const uint32_t sizes[] = {100, 40000, 300000};

	for (size_t i = 0; i < 3; i++)
		for (size_t cut = 1; cut < sizes[i]; cut += sizes[i] / 13) {
			begin();
			frame(1, 4, 7, 9, 0);
			frame(2, sizes[i], 7, 9, 0);
			CHECK_EQ(feed(0, URDS_HDR_LEN + 4 + cut, SIZE_MAX), 0);
			urds_path_rx_reset(&r);
			CHECK_EQ(urds_path_rx_ack(&r), 1);
			in_len = 0;
			frame(1, 4, 7, 9, URDS_F_RETRANSMITTED);
			frame(2, sizes[i], 7, 9, URDS_F_RETRANSMITTED);
			CHECK_EQ(feed(0, in_len, 1000), 0);
			CHECK_EQ(ngot, 2);
			CHECK_EQ(dropped, 1);
			check_payload(&got[1]);
			finish();
		}
}

/* The rule of wire.md 4, K61: row by row. */
static void path_rx__duplicate_rule(void)
{
	static const struct {
		uint64_t next_rx, seq;
		uint8_t flags;
		bool taken;
		uint64_t next_after;
	} rows[] = {
		{0, 1, 0, true, 2},
		{0, 1, URDS_F_RETRANSMITTED, true, 2},
		{5, 5, 0, true, 6},
		{5, 5, URDS_F_RETRANSMITTED, true, 6},
		{5, 9, URDS_F_RETRANSMITTED, true, 10}, /* gaps are legal */
		{5, 4, URDS_F_RETRANSMITTED, false, 5},
		{5, 0, URDS_F_RETRANSMITTED, false, 5},
		{5, 4, URDS_F_RETRANSMITTED | URDS_F_ACK_REQUIRED, false, 5},
		{5, 4, 0, true, 5},
		{5, 2, 0, true, 3}, /* unflagged: even backwards */
		{5, 2, URDS_F_ACK_REQUIRED, true, 3},
		{5, 2, URDS_F_CONG_BITMAP | URDS_F_RETRANSMITTED, false, 5},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		for (size_t reads = 7; reads < 100; reads += 90) {
			begin();
			r.next_rx = rows[i].next_rx;
			frame(rows[i].seq, 20, 7, 9, rows[i].flags);
			CHECK_EQ(feed(0, in_len, reads), 0);
			CHECK_EQ(ngot, rows[i].taken);
			CHECK_EQ(dropped, !rows[i].taken);
			CHECK_EQ(r.next_rx, rows[i].next_after);
			CHECK_EQ(ack_wanted,
				 !rows[i].taken || (rows[i].flags & URDS_F_ACK_REQUIRED));
			finish();
		}
}

static void path_rx__map_is_outside_the_sequence(void)
{
	static const uint32_t lens[] = {URDS_CONGMAP_LEN, URDS_CONGMAP_LEN - 1, 0};

	for (size_t i = 0; i < 3; i++) {
		begin();
		r.next_rx = 100;
		frame(0, lens[i], 0, 0, URDS_F_CONG_BITMAP);
		CHECK_EQ(feed(0, in_len, 3000), 0);
		CHECK_EQ(r.next_rx, 100);
		CHECK_EQ(ngot, lens[i] == URDS_CONGMAP_LEN);
		CHECK_EQ(headers, 1);
		if (ngot) {
			CHECK_EQ(got[0].kind, URDS_RX_MAP);
			CHECK(got[0].buf != NULL);
			check_payload(&got[0]);
		}
		finish();
	}
}

static void path_rx__what_only_urds_peers_send(void)
{
	for (int urds = 0; urds < 2; urds++) {
		begin();
		r.urds = urds;
		r.next_rx = 100;
		urds_be64_store(frame(0, 0, 0, 0, 0) + URDS_HDR_OFF_ACK, 40);
		CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
		CHECK_EQ(ngot, 0);
		CHECK_EQ(ack_seen, urds ? 40 : 0);
		CHECK_EQ(r.next_rx, urds ? 100 : 1); /* what it would do to a kernel (15) */
		in_len = 0;
		frame(0, 33, 0, 0, 0);
		CHECK_EQ(feed(0, in_len, 11), 0);
		CHECK_EQ(ngot, urds);
		if (urds) {
			CHECK_EQ(got[0].kind, URDS_RX_CONTROL);
			check_payload(&got[0]);
		}
		in_len = 0;
		urds_be64_store(frame(101, 5, 7, 9, 0) + URDS_HDR_OFF_ACK, 41);
		urds_be64_store(frame(102, 5, 7, 9, 0) + URDS_HDR_OFF_ACK, 39);
		CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
		CHECK_EQ(ack_seen, urds ? 41 : 0);
		finish();
	}
}

static void path_rx__pings_probes_and_answers(void)
{
	struct urds_probe p = {.has_npaths = true, .npaths = 8},
			  q = {.has_npaths = true, .npaths = 3};

	begin();
	frame(1, 0, 4000, 0, 0);
	urds_probe_put(frame(2, 0, 1, 0, 0), false, 2, &p);
	urds_probe_put(frame(3, 0, 0, 1, 0), true, 3, &q);
	frame(4, 5, 4000, 0, 0); /* the payload of a ping is dropped */
	frame(5, 5, 0, 0, 0);	 /* nothing */
	frame(6, 0, 0, 4000, 0); /* a pong to a program */
	CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
	CHECK_EQ(ngot, 5);
	CHECK_EQ(got[0].kind, URDS_RX_PING);
	CHECK_EQ(got[0].sport, 4000);
	CHECK_EQ(got[1].kind, URDS_RX_PROBE);
	CHECK_EQ(got[2].kind, URDS_RX_ANSWER);
	CHECK_EQ(got[3].kind, URDS_RX_PING);
	CHECK(!got[3].buf);
	CHECK_EQ(got[4].kind, URDS_RX_DATA);
	CHECK_EQ(nprobes, 2);
	CHECK_EQ(got_probe[0].npaths, 8);
	CHECK_EQ(got_probe[1].npaths, 3);
	CHECK_EQ(r.next_rx, 7);
	finish();
}

/* That of an urds end ahead of its replay always is: it moves nothing, but is read. */
static void path_rx__a_probe_is_read_even_if_it_is_a_duplicate(void)
{
	struct urds_probe p = {.has_npaths = true, .npaths = 8};

	begin();
	r.next_rx = 9;
	frame(0, 0, 1, 0, URDS_F_RETRANSMITTED);
	urds_probe_put(in, false, 5, &p);
	in[URDS_HDR_OFF_FLAGS] = URDS_F_RETRANSMITTED;
	CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
	CHECK_EQ(ngot, 1);
	CHECK_EQ(got[0].kind, URDS_RX_PROBE);
	CHECK_EQ(nprobes, 1);
	CHECK_EQ(got_probe[0].npaths, 8);
	CHECK_EQ(dropped, 0);
	CHECK(!ack_wanted);
	CHECK_EQ(r.next_rx, 9);
	urds_path_rx_undo(&r);
	CHECK_EQ(r.next_rx, 9);
	urds_path_rx_restarted(&r); /* a new life, its clock set back: what it sends again counts */
	CHECK_EQ(r.next_rx, 6);
	finish();
}

static void path_rx__the_number_of_a_probe_for_another_path_is_undone(void)
{
	static const uint64_t seqs[] = {3, 20};

	for (unsigned i = 0; i < 4; i++) {
		struct urds_probe p = {.has_npaths = true, .npaths = 8};
		uint64_t seq = seqs[i / 2];

		begin();
		r.next_rx = 7;
		frame(7, 10, 4000, 5000, 0);
		urds_probe_put(frame(seq, 0, 1, 0, 0), i & 1, seq, &p);
		CHECK_EQ(feed(0, in_len, SIZE_MAX), 0);
		CHECK_EQ(r.next_rx, seq + 1);
		urds_path_rx_undo(&r);
		CHECK_EQ(r.next_rx, 8);
		finish();
	}
}

/* Nobody sends one; what it says does not depend on how it was cut. */
static void path_rx__probe_with_payload_is_a_plain_ping(void)
{
	struct urds_probe p = {.has_npaths = true, .npaths = 8};

	for (size_t reads = 5; reads < 300; reads += 50) {
		for (int answer = 0; answer < 2; answer++) {
			uint8_t *f;

			begin();
			memset(&b, 0x5a, sizeof b);
			f = frame(3, 100, 1, 0, 0);
			urds_probe_put(f, answer, 3, &p);
			urds_be32_store(f + URDS_HDR_OFF_LEN, 100);
			CHECK_EQ(feed(0, in_len, reads), 0);
			CHECK_EQ(nprobes, 0);
			CHECK_EQ(ngot, !answer);
			if (!answer)
				CHECK_EQ(got[0].kind, URDS_RX_PING);
			CHECK_EQ(r.next_rx, 4);
			finish();
		}
	}
}

static void path_rx__every_allocation_fails_once(void)
{
	for (unsigned long n = 1;; n++) {
		int rc;

		begin();
		mem.fail_at = n;
		for (size_t i = 0; i < EDGES; i++)
			frame(i + 1, edges[i], 7, 9, 0);
		rc = feed(0, in_len, 50000);
		CHECK(rc == (mem.calls >= n ? -URDS_ENOMEM : 0));
		CHECK(rc == 0 || ngot < EDGES);
		for (size_t i = 0; i < ngot; i++)
			check_payload(&got[i]);
		finish();
		if (rc == 0)
			break;
	}
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(path_rx__sizes_around_every_boundary);
	T_RUN(path_rx__every_cut_of_a_short_stream);
	T_RUN(path_rx__random_streams_in_random_reads);
	T_RUN(path_rx__batch_is_bounded);
	T_RUN(path_rx__length_beyond_the_limit_breaks_the_stream);
	T_RUN(path_rx__memory_follows_what_arrives);
	T_RUN(path_rx__half_a_header_holds_no_chunk);
	T_RUN(path_rx__lone_messages_share_a_chunk);
	T_RUN(path_rx__reset_forgets_partial_messages_and_keeps_the_count);
	T_RUN(path_rx__duplicate_rule);
	T_RUN(path_rx__map_is_outside_the_sequence);
	T_RUN(path_rx__what_only_urds_peers_send);
	T_RUN(path_rx__pings_probes_and_answers);
	T_RUN(path_rx__a_probe_is_read_even_if_it_is_a_duplicate);
	T_RUN(path_rx__the_number_of_a_probe_for_another_path_is_undone);
	T_RUN(path_rx__probe_with_payload_is_a_plain_ping);
	T_RUN(path_rx__every_allocation_fails_once);
	return t_done();
}
