/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/ext.h"
#include "hex.h"
#include "tap.h"

static struct urds_exts get(const char *hex, int used)
{
	uint8_t ext[URDS_HDR_EXT_LEN];
	struct urds_exts e;

	CHECK_EQ(hex_get(ext, sizeof(ext), hex), URDS_HDR_EXT_LEN);
	CHECK_EQ(urds_exts_get(&e, ext), used);
	return e;
}

static void check_put(const struct urds_exts *e, const char *hex, int used)
{
	uint8_t want[URDS_HDR_EXT_LEN], got[URDS_HDR_EXT_LEN];

	CHECK_EQ(hex_get(want, sizeof(want), hex), URDS_HDR_EXT_LEN);
	memset(got, 0xa5, sizeof(got));
	CHECK_EQ(urds_exts_put(got, e), used);
	CHECK_MEM(got, want, sizeof(want));
}

/* From a kernel: tcp-small.pcap, packet 45. */
static void ext__captured_npaths(void)
{
	struct urds_exts e = get("050008 00*13", 3);

	CHECK_EQ(e.have, URDS_EXT_HAVE_NPATHS);
	CHECK_EQ(e.npaths, 8);
	check_put(&e, "050008 00*13", 3);
}

/* From a kernel: roce-rdma.pcap, packets 30 and 40. */
static void ext__captured_rdma(void)
{
	struct urds_exts e = get("0300037000 00000410 00*7", 9);

	CHECK_EQ(e.have, URDS_EXT_HAVE_RDMA_DEST);
	CHECK_EQ(e.rdma_dest_rkey, 0x00037000);
	CHECK_EQ(e.rdma_dest_off, 0x410);
	check_put(&e, "0300037000 00000410 00*7", 9);
	e = get("0200037000 00*11", 5);
	CHECK_EQ(e.have, URDS_EXT_HAVE_RDMA);
	CHECK_EQ(e.rdma_rkey, 0x00037000);
	check_put(&e, "0200037000 00*11", 5);
}

/* Worked by hand, wire.md 13 and 5. */
static void ext__hand_worked(void)
{
	struct urds_exts e = get("050008 0611223344 0800 00*6", 10);

	CHECK_EQ(e.have, URDS_EXT_HAVE_NPATHS | URDS_EXT_HAVE_GEN_NUM | URDS_EXT_HAVE_SPORT_IDX);
	CHECK_EQ(e.npaths, 8);
	CHECK_EQ(e.gen_num, 0x11223344);
	CHECK_EQ(e.sport_idx, 0);
	check_put(&e, "050008 0611223344 0800 00*6", 10);

	e = get("02aabbccdd 040000100002000000 0000", 14);
	CHECK_EQ(e.have, URDS_EXT_HAVE_RDMA | URDS_EXT_HAVE_RDMA_BYTES);
	CHECK_EQ(e.rdma_rkey, 0xaabbccdd);
	CHECK_EQ(e.rdma_bytes, 4096);
	CHECK_EQ(e.rdma_bytes_dir, URDS_RDMA_BYTES_READ);
	check_put(&e, "02aabbccdd 040000100002000000 0000", 14);

	e = get("0100000301 0700000001 0800 00*4", 12);
	CHECK_EQ(e.have, URDS_EXT_HAVE_VERSION | URDS_EXT_HAVE_CAP_BITS | URDS_EXT_HAVE_SPORT_IDX);
	CHECK_EQ(e.version, 0x301);
	CHECK_EQ(e.cap_bits, 1);
	check_put(&e, "0100000301 0700000001 0800 00*4", 12);

	e = get("09deadbeef01000000 00*7", 9);
	CHECK_EQ(e.have, URDS_EXT_HAVE_CSUM);
	CHECK_EQ(e.csum, 0xdeadbeef);
	CHECK_EQ(e.csum_enabled, 1);
	check_put(&e, "09deadbeef01000000 00*7", 9);
}

/* Worked by hand, wire.md 15: exactly full, no terminator. */
static void ext__urds_fills_the_area(void)
{
	struct urds_exts e = get("050001 0800 2000 01 00000007 cafe0001", 16);

	CHECK_EQ(e.have, URDS_EXT_HAVE_NPATHS | URDS_EXT_HAVE_SPORT_IDX | URDS_EXT_HAVE_URDS);
	CHECK_EQ(e.npaths, 1);
	CHECK_EQ(e.urds.version, 1);
	CHECK_EQ(e.urds.caps, URDS_CAP_ACK | URDS_CAP_FRAG | URDS_CAP_MAPDELTA);
	CHECK_EQ(e.urds.incarnation, 0xcafe0001);
	check_put(&e, "050001 0800 2000 01 00000007 cafe0001", 16);
}

static void ext__nothing(void)
{
	struct urds_exts e = get("00*16", 0);

	CHECK_EQ(e.have, 0);
	check_put(&e, "00*16", 0);
	/* What stands behind the terminator is not there. */
	CHECK_EQ(get("00 050008 00*12", 0).have, 0);
}

static void ext__type_from_16_on_ends_the_walk(void)
{
	for (unsigned type = 16; type < 256; type++) {
		uint8_t ext[URDS_HDR_EXT_LEN] = {5, 0, 8, (uint8_t)type, 5, 0, 2};
		struct urds_exts e;

		/* 0x20 too: its zero byte is missing, so it is somebody else's. */
		CHECK_EQ(urds_exts_get(&e, ext), 3);
		CHECK_EQ(e.have, URDS_EXT_HAVE_NPATHS);
		CHECK_EQ(e.npaths, 8);
	}
}

static void ext__unknown_type_below_16_has_no_payload(void)
{
	for (unsigned type = 10; type < 16; type++) {
		uint8_t ext[URDS_HDR_EXT_LEN] = {(uint8_t)type, 5, 0, 2};
		struct urds_exts e;

		CHECK_EQ(urds_exts_get(&e, ext), 4);
		CHECK_EQ(e.have, URDS_EXT_HAVE_NPATHS);
		CHECK_EQ(e.npaths, 2);
	}
	CHECK_EQ(get("0f*16", 16).have, 0);
}

static void ext__overrun_ends_the_walk(void)
{
	CHECK_EQ(get("0a*14 05 00", 14).have, 0);
	CHECK_EQ(get("0a*13 05 00 07", 16).npaths, 7);
	CHECK_EQ(get("0a*12 06 000000", 12).have, 0);
	CHECK_EQ(get("0a*8 03 00*7", 8).have, 0);
	CHECK_EQ(get("0a*7 03 00*8", 16).have, URDS_EXT_HAVE_RDMA_DEST);
	CHECK_EQ(get("0a*6 20 00*9", 6).have, 0);
	CHECK_EQ(get("0a*15 08", 15).have, 0);
	CHECK_EQ(get("0a*15 20", 15).have, 0);
	for (unsigned type = 1; type < 256; type++) {
		uint8_t ext[URDS_HDR_EXT_LEN];
		struct urds_exts e;

		memset(ext, 0x0a, sizeof(ext));
		ext[15] = (uint8_t)type;
		CHECK_EQ(urds_exts_get(&e, ext), type >= 10 && type < 16 ? 16 : 15);
		CHECK_EQ(e.have, 0);
	}
}

static void ext__last_of_a_repeated_type_counts(void)
{
	struct urds_exts e = get("050008 050003 00*10", 6);

	CHECK_EQ(e.npaths, 3);
	check_put(&e, "050003 00*13", 3);
}

static void ext__full_area_is_refused_untouched(void)
{
	uint8_t ext[URDS_HDR_EXT_LEN], before[URDS_HDR_EXT_LEN];
	struct urds_exts e = {.have = URDS_EXT_HAVE_NPATHS | URDS_EXT_HAVE_GEN_NUM |
				      URDS_EXT_HAVE_SPORT_IDX | URDS_EXT_HAVE_URDS};

	memset(ext, 0xa5, sizeof(ext));
	memcpy(before, ext, sizeof(ext));
	CHECK_EQ(urds_exts_put(ext, &e), -URDS_ENOSPC);
	CHECK_MEM(ext, before, sizeof(ext));
	e.have = URDS_EXT_HAVE_RDMA_DEST | URDS_EXT_HAVE_RDMA_BYTES;
	CHECK_EQ(urds_exts_put(ext, &e), -URDS_ENOSPC);
	CHECK_MEM(ext, before, sizeof(ext));
}

/* Each set of extensions that fits comes back as it was put. */
static void ext__every_subset_round_trips(void)
{
	static const unsigned size[] = {5, 5, 9, 9, 3, 5, 5, 2, 9, 11};
	unsigned fitting = 0;

	for (unsigned set = 0; set < 1u << 10; set++) {
		struct urds_exts e = {0}, back;
		uint8_t ext[URDS_HDR_EXT_LEN];
		unsigned used = 0;

		for (unsigned i = 0; i < 10; i++) {
			if (!(set & 1u << i))
				continue;
			e.have |= i == 9 ? URDS_EXT_HAVE_URDS : 2u << i;
			used += size[i];
		}
		if (used > URDS_HDR_EXT_LEN) {
			CHECK_EQ(urds_exts_put(ext, &e), -URDS_ENOSPC);
			continue;
		}
		fitting++;
		e.version = 0x01020304;
		e.rdma_rkey = 0xfffefdfc;
		e.rdma_dest_rkey = 0x11121314;
		e.rdma_dest_off = 0x21222324;
		e.rdma_bytes = 0x31323334;
		e.rdma_bytes_dir = 1;
		e.npaths = 0x4142;
		e.gen_num = 0x51525354;
		e.cap_bits = 0x61626364;
		e.sport_idx = 7;
		e.csum = 0x71727374;
		e.csum_enabled = 1;
		e.urds.version = 9;
		e.urds.caps = 0x81828384;
		e.urds.incarnation = 0x91929394;
		CHECK_EQ(urds_exts_put(ext, &e), used);
		CHECK_EQ(urds_exts_get(&back, ext), used);
		CHECK_EQ(back.have, e.have);
#define SAME(bit, field) CHECK_EQ(back.field, e.have &URDS_EXT_HAVE_##bit ? e.field : 0)
		SAME(VERSION, version);
		SAME(RDMA, rdma_rkey);
		SAME(RDMA_DEST, rdma_dest_rkey);
		SAME(RDMA_DEST, rdma_dest_off);
		SAME(RDMA_BYTES, rdma_bytes);
		SAME(RDMA_BYTES, rdma_bytes_dir);
		SAME(NPATHS, npaths);
		SAME(GEN_NUM, gen_num);
		SAME(CAP_BITS, cap_bits);
		SAME(SPORT_IDX, sport_idx);
		SAME(CSUM, csum);
		SAME(CSUM, csum_enabled);
		SAME(URDS, urds.version);
		SAME(URDS, urds.caps);
		SAME(URDS, urds.incarnation);
#undef SAME
	}
	CHECK(fitting > 40);
}

/* Any 16 bytes: the walk stays inside, and what it found can be put and found again. */
static void ext__hostile_bytes(void)
{
	uint64_t seed = 42;

	for (unsigned run = 0; run < 200000; run++) {
		uint8_t ext[URDS_HDR_EXT_LEN], again[URDS_HDR_EXT_LEN], third[URDS_HDR_EXT_LEN];
		struct urds_exts e, f;
		int used;

		for (unsigned i = 0; i < sizeof(ext); i++) {
			uint64_t r = rnd64(&seed);

			/* Mostly bytes that mean something as a type. */
			ext[i] = (uint8_t)(r & 0x300 ? r % 10 : r & 0x400 ? 0x20 : r);
		}
		used = urds_exts_get(&e, ext);
		CHECK(used >= 0 && used <= (int)URDS_HDR_EXT_LEN);
		CHECK(urds_exts_put(again, &e) <= used);
		CHECK_EQ(urds_exts_get(&f, again), urds_exts_put(third, &e));
		CHECK_EQ(f.have, e.have);
		CHECK(urds_exts_put(third, &f) >= 0);
		CHECK_MEM(third, again, sizeof(again));
	}
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(ext__captured_npaths);
	T_RUN(ext__captured_rdma);
	T_RUN(ext__hand_worked);
	T_RUN(ext__urds_fills_the_area);
	T_RUN(ext__nothing);
	T_RUN(ext__type_from_16_on_ends_the_walk);
	T_RUN(ext__unknown_type_below_16_has_no_payload);
	T_RUN(ext__overrun_ends_the_walk);
	T_RUN(ext__last_of_a_repeated_type_counts);
	T_RUN(ext__full_area_is_refused_untouched);
	T_RUN(ext__every_subset_round_trips);
	T_RUN(ext__hostile_bytes);
	return t_done();
}
