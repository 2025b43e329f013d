/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/hdr.h"
#include "hex.h"
#include "tap.h"

struct golden {
	const char *origin, *hex;
	struct urds_hdr h;
	enum urds_frame_kind kind;
};

static const struct golden golden[] = {
	/* Sent by Linux 6.1. */
	{"tcp-small.pcap packet 179",
	 "0000000000000002 0000000000000000 00000064 0fa0 0fa0 00*24",
	 {.seq = 2, .len = 100, .sport = 4000, .dport = 4000},
	 URDS_FRAME_DATA},
	{"tcp-ping.pcap packet 54",
	 "0000000000000001 0000000000000000 00000000 aabf 0000 00*24",
	 {.seq = 1, .sport = 43711},
	 URDS_FRAME_PING},
	{"tcp-ping.pcap packet 75: the pong is data for the pinging program",
	 "0000000000000001 0000000000000000 00000000 0000 aabf 00*24",
	 {.seq = 1, .dport = 43711},
	 URDS_FRAME_DATA},
	{"tcp-small.pcap packet 45",
	 "0000000000000001 0000000000000000 00000000 0001 0000 00 00 00000000 0000 050008 00*13",
	 {.seq = 1, .sport = 1, .ext = {5, 0, 8}},
	 URDS_FRAME_PROBE},
	{"tcp-small.pcap packet 90",
	 "0000000000000002 0000000000000000 00000000 0000 0001 00 00 00000000 0000 050008 00*13",
	 {.seq = 2, .dport = 1, .ext = {5, 0, 8}},
	 URDS_FRAME_PROBE_ANSWER},
	{"roce-small.pcap packet 4",
	 "0000000000000000 0000000000000000 00002000 0000 0000 01 00 00000000 deff 00*16",
	 {.len = 8192, .flags = 1, .csum = 0xdeff},
	 URDS_FRAME_MAP},
	{"roce-small.pcap packet 16",
	 "0000000000000001 0000000000000000 00000001 0fa0 0fa0 02 00 00000000 debd 00*16",
	 {.seq = 1, .len = 1, .sport = 4000, .dport = 4000, .flags = 2, .csum = 0xdebd},
	 URDS_FRAME_DATA},
	{"roce-small.pcap packet 34",
	 "0000000000000002 0000000000000001 00000064 0fa0 0fa0 00 00 00000000 e058 00*16",
	 {.seq = 2, .ack = 1, .len = 100, .sport = 4000, .dport = 4000, .csum = 0xe058},
	 URDS_FRAME_DATA},
	{"roce-small.pcap packet 32: means an ack on IB; on TCP only an urds end sends it",
	 "0000000000000000 0000000000000001 00000000 0000 0000 00 00 00000000 fffe 00*16",
	 {.ack = 1, .csum = 0xfffe},
	 URDS_FRAME_IGNORE},
	{"roce-rdma.pcap packet 30",
	 "0000000000000002 0000000000000000 00000040 0fa0 0fa0 00 00 00000000 ca09"
	 "0300037000 00000410 00*7",
	 {.seq = 2,
	  .len = 64,
	  .sport = 4000,
	  .dport = 4000,
	  .csum = 0xca09,
	  .ext = {3, 0, 3, 0x70, 0, 0, 0, 4, 0x10}},
	 URDS_FRAME_DATA},
	/* Worked by hand from the layout: wire.md 13. */
	{"wire.md 13 TCP data",
	 "00000000 00000002 00000000 00000000 00000005 0fa0 1388 00 00 00000000 0000 00*16",
	 {.seq = 2, .len = 5, .sport = 4000, .dport = 5000},
	 URDS_FRAME_DATA},
	{"wire.md 13 map",
	 "00*16 00002000 0000 0000 01 00 00000000 0000 00*16",
	 {.len = 8192, .flags = 1},
	 URDS_FRAME_MAP},
	{"wire.md 13 IB data",
	 "00000000 00000007 00000000 00000003 00001000 0fa0 1388 02 00 00000000 cacd 00*16",
	 {.seq = 7,
	  .ack = 3,
	  .len = 4096,
	  .sport = 4000,
	  .dport = 5000,
	  .flags = URDS_F_ACK_REQUIRED,
	  .csum = 0xcacd},
	 URDS_FRAME_DATA},
	{"wire.md 13 IB ack",
	 "00*8 00000000 00000007 00000000 0000 0000 00 00 00000000 fff8 00*16",
	 {.ack = 7, .csum = 0xfff8},
	 URDS_FRAME_IGNORE},
	{"wire.md 13 IB RDMA_DEST",
	 "00000000 00000009 00000000 00000007 00000040 0fa0 1388 00 00 00000000 1d0f"
	 "03aabbccdd00000123 00*7",
	 {.seq = 9,
	  .ack = 7,
	  .len = 64,
	  .sport = 4000,
	  .dport = 5000,
	  .csum = 0x1d0f,
	  .ext = {3, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 1, 0x23}},
	 URDS_FRAME_DATA},
	{"wire.md 13 IB RDMA",
	 "00000000 0000000a 00000000 00000009 00000040 1388 0fa0 00 00 00000000 410d"
	 "02aabbccdd 00*11",
	 {.seq = 10,
	  .ack = 9,
	  .len = 64,
	  .sport = 5000,
	  .dport = 4000,
	  .csum = 0x410d,
	  .ext = {2, 0xaa, 0xbb, 0xcc, 0xdd}},
	 URDS_FRAME_DATA},
	{"every field another value",
	 "0102030405060708 1112131415161718 21222324 3132 4142 51 61 71727374 8182"
	 "91 92 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0",
	 {.seq = 0x0102030405060708,
	  .ack = 0x1112131415161718,
	  .len = 0x21222324,
	  .sport = 0x3132,
	  .dport = 0x4142,
	  .flags = 0x51,
	  .credit = 0x61,
	  .pad = {0x71, 0x72, 0x73, 0x74},
	  .csum = 0x8182,
	  .ext = {0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d,
		  0x9e, 0x9f, 0xa0}},
	 URDS_FRAME_DATA},
};
#define GOLDEN (sizeof(golden) / sizeof(golden[0]))

static void check_same(const struct urds_hdr *a, const struct urds_hdr *b)
{
	CHECK_EQ(a->seq, b->seq);
	CHECK_EQ(a->ack, b->ack);
	CHECK_EQ(a->len, b->len);
	CHECK_EQ(a->sport, b->sport);
	CHECK_EQ(a->dport, b->dport);
	CHECK_EQ(a->flags, b->flags);
	CHECK_EQ(a->credit, b->credit);
	CHECK_EQ(a->csum, b->csum);
	CHECK_MEM(a->pad, b->pad, sizeof(a->pad));
	CHECK_MEM(a->ext, b->ext, sizeof(a->ext));
}

static void hdr__golden(void)
{
	for (unsigned i = 0; i < GOLDEN; i++) {
		const struct golden *g = &golden[i];
		uint8_t want[URDS_HDR_LEN], got[URDS_HDR_LEN];
		struct urds_hdr h;

		printf("# %s\n", g->origin);
		CHECK_EQ(hex_get(want, sizeof(want), g->hex), URDS_HDR_LEN);
		memset(&h, 0xa5, sizeof(h));
		CHECK_EQ(urds_hdr_get(&h, want, sizeof(want)), URDS_HDR_LEN);
		check_same(&h, &g->h);
		CHECK_EQ(urds_hdr_kind(&h, false), g->kind);
		memset(got, 0xa5, sizeof(got));
		urds_hdr_put(got, &g->h);
		CHECK_MEM(got, want, sizeof(want));
	}
}

static void hdr__put_data_is_what_a_kernel_sends(void)
{
	uint8_t want[URDS_HDR_LEN], got[URDS_HDR_LEN + 1];

	hex_get(want, sizeof(want), golden[0].hex);
	memset(got, 0xa5, sizeof(got));
	urds_hdr_put_data(got, 2, 100, 4000, 4000);
	CHECK_MEM(got, want, sizeof(want));
	CHECK_EQ(got[URDS_HDR_LEN], 0xa5);
}

static void hdr__short_is_refused_untouched(void)
{
	uint8_t p[URDS_HDR_LEN];
	struct urds_hdr h, before;

	hex_get(p, sizeof(p), golden[GOLDEN - 1].hex);
	memset(&h, 0xa5, sizeof(h));
	memcpy(&before, &h, sizeof(h));
	for (size_t len = 0; len < URDS_HDR_LEN; len++) {
		CHECK_EQ(urds_hdr_get(&h, p, len), -URDS_ESHORT);
		CHECK_MEM(&h, &before, sizeof(h));
	}
	CHECK_EQ(urds_hdr_get(&h, p, URDS_HDR_LEN + 1), URDS_HDR_LEN);
}

static void hdr__round_trip(void)
{
	uint64_t seed = 1;

	for (unsigned run = 0; run < 10000; run++) {
		uint8_t p[URDS_HDR_LEN], q[URDS_HDR_LEN];
		struct urds_hdr h;

		for (unsigned i = 0; i < sizeof(p); i++)
			p[i] = (uint8_t)rnd64(&seed);
		CHECK_EQ(urds_hdr_get(&h, p, sizeof(p)), URDS_HDR_LEN);
		urds_hdr_put(q, &h);
		CHECK_MEM(q, p, sizeof(p));
	}
}

static void hdr__checksum_golden(void)
{
	unsigned checked = 0;

	for (unsigned i = 0; i < GOLDEN - 1; i++) {
		uint8_t p[URDS_HDR_LEN];

		hex_get(p, sizeof(p), golden[i].hex);
		CHECK(urds_hdr_csum_ok(p));
		if (golden[i].h.csum == 0)
			continue;
		checked++;
		CHECK_EQ(urds_hdr_csum(p), golden[i].h.csum); /* with the field set */
		urds_be16_store(p + URDS_HDR_OFF_CSUM, 0);
		CHECK_EQ(urds_hdr_csum(p), golden[i].h.csum);
	}
	CHECK_EQ(checked, 9);
}

static void hdr__checksum_notices_each_bit(void)
{
	uint8_t p[URDS_HDR_LEN];

	hex_get(p, sizeof(p), golden[6].hex);
	for (unsigned bit = 0; bit < 8 * URDS_HDR_LEN; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK(!urds_hdr_csum_ok(p));
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK(urds_hdr_csum_ok(p));
	urds_be16_store(p + URDS_HDR_OFF_CSUM, 0);
	CHECK(urds_hdr_csum_ok(p));
}

static void hdr__checksum_of_anything_verifies(void)
{
	uint64_t seed = 2;
	uint8_t p[URDS_HDR_LEN];

	for (unsigned run = 0; run < 20000; run++) {
		for (unsigned i = 0; i < sizeof(p); i++)
			p[i] = run & 1 ? (uint8_t)rnd64(&seed) : (uint8_t)(0 - (rnd64(&seed) & 1));
		urds_be16_store(p + URDS_HDR_OFF_CSUM, urds_hdr_csum(p));
		CHECK(urds_hdr_csum_ok(p));
	}
	memset(p, 0xff, sizeof(p)); /* the largest sum there is */
	CHECK_EQ(urds_hdr_csum(p), 0);
	memset(p, 0, sizeof(p));
	CHECK_EQ(urds_hdr_csum(p), 0xffff);
}

static enum urds_frame_kind kind(uint16_t sport, uint16_t dport, uint32_t len, uint8_t flags,
				 bool urds_peer)
{
	struct urds_hdr h = {.seq = 5, .sport = sport, .dport = dport, .len = len, .flags = flags};

	return urds_hdr_kind(&h, urds_peer);
}

static void kind__ports(void)
{
	for (int urds_peer = 0; urds_peer < 2; urds_peer++) {
		CHECK_EQ(kind(4000, 5000, 1, 0, urds_peer), URDS_FRAME_DATA);
		CHECK_EQ(kind(1, 5000, 1, 0, urds_peer), URDS_FRAME_DATA);
		CHECK_EQ(kind(0, 5000, 0, 0, urds_peer), URDS_FRAME_DATA);
		CHECK_EQ(kind(0, 65535, 0, 0, urds_peer), URDS_FRAME_DATA);
		CHECK_EQ(kind(1, 1, 0, 0, urds_peer), URDS_FRAME_DATA);
		CHECK_EQ(kind(2, 1, 0, 0, urds_peer), URDS_FRAME_DATA);
		CHECK_EQ(kind(2, 0, 0, 0, urds_peer), URDS_FRAME_PING);
		CHECK_EQ(kind(65535, 0, 77, 0, urds_peer), URDS_FRAME_PING);
		CHECK_EQ(kind(1, 0, 0, 0, urds_peer), URDS_FRAME_PROBE);
		CHECK_EQ(kind(1, 0, 0, URDS_F_RETRANSMITTED, urds_peer), URDS_FRAME_PROBE);
		CHECK_EQ(kind(0, 1, 0, 0, urds_peer), URDS_FRAME_PROBE_ANSWER);
	}
}

static void kind__map_needs_the_exact_flags_and_length(void)
{
	for (unsigned flags = 0; flags < 256; flags++) {
		bool is_map = flags == URDS_F_CONG_BITMAP;

		/* Any other bit, and K61 takes it for a message from 0 to 0, or to a socket. */
		CHECK_EQ(kind(0, 0, 8192, (uint8_t)flags, false),
			 is_map ? URDS_FRAME_MAP : URDS_FRAME_IGNORE);
		CHECK_EQ(kind(4000, 5000, 8192, (uint8_t)flags, true),
			 is_map ? URDS_FRAME_MAP : URDS_FRAME_DATA);
	}
	CHECK_EQ(kind(0, 0, 8191, 1, true), URDS_FRAME_IGNORE);
	CHECK_EQ(kind(0, 0, 0, 1, true), URDS_FRAME_IGNORE);
	CHECK_EQ(kind(4000, 5000, 8193, 1, false), URDS_FRAME_IGNORE);
}

static void kind__ack_and_control_only_from_an_urds_end(void)
{
	struct urds_hdr h = {.ack = 7};

	CHECK_EQ(urds_hdr_kind(&h, true), URDS_FRAME_ACK);
	CHECK_EQ(urds_hdr_kind(&h, false), URDS_FRAME_IGNORE);
	h.len = 7;
	CHECK_EQ(urds_hdr_kind(&h, true), URDS_FRAME_CONTROL);
	CHECK_EQ(urds_hdr_kind(&h, false), URDS_FRAME_IGNORE);
	h.flags = URDS_F_RETRANSMITTED;
	CHECK_EQ(urds_hdr_kind(&h, true), URDS_FRAME_IGNORE);
	h = (struct urds_hdr){.seq = 1};
	CHECK_EQ(urds_hdr_kind(&h, true), URDS_FRAME_IGNORE);
	h = (struct urds_hdr){.flags = URDS_F_HB_PING | URDS_F_ACK_REQUIRED};
	CHECK_EQ(urds_hdr_kind(&h, true), URDS_FRAME_IGNORE);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(hdr__golden);
	T_RUN(hdr__put_data_is_what_a_kernel_sends);
	T_RUN(hdr__short_is_refused_untouched);
	T_RUN(hdr__round_trip);
	T_RUN(hdr__checksum_golden);
	T_RUN(hdr__checksum_notices_each_bit);
	T_RUN(hdr__checksum_of_anything_verifies);
	T_RUN(kind__ports);
	T_RUN(kind__map_needs_the_exact_flags_and_length);
	T_RUN(kind__ack_and_control_only_from_an_urds_end);
	return t_done();
}
