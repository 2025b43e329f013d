/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/probe.h"
#include "hex.h"
#include "tap.h"

static void check(bool answer, uint64_t seq, const struct urds_probe *p, const char *hex)
{
	uint8_t want[URDS_HDR_LEN], got[URDS_HDR_LEN];
	struct urds_probe back;
	struct urds_hdr h;

	CHECK_EQ(hex_get(want, sizeof(want), hex), URDS_HDR_LEN);
	memset(got, 0xa5, sizeof(got));
	CHECK_EQ(urds_probe_put(got, answer, seq, p), URDS_HDR_LEN);
	CHECK_MEM(got, want, sizeof(want));
	CHECK_EQ(urds_hdr_get(&h, want, sizeof(want)), URDS_HDR_LEN);
	CHECK_EQ(urds_hdr_kind(&h, true), answer ? URDS_FRAME_PROBE_ANSWER : URDS_FRAME_PROBE);
	CHECK_EQ(urds_probe_get(&back, &h), 0);
	CHECK_EQ(back.has_npaths, p->has_npaths);
	CHECK_EQ(back.has_sport_idx, p->has_sport_idx);
	CHECK_EQ(back.has_gen_num, p->has_gen_num);
	CHECK_EQ(back.has_urds, p->has_urds);
	CHECK_EQ(back.npaths, p->npaths);
	CHECK_EQ(back.gen_num, p->gen_num);
	CHECK_EQ(back.urds_version, p->urds_version);
	CHECK_EQ(back.caps, p->caps);
	CHECK_EQ(back.incarnation, p->incarnation);
}

/* From kernels: tcp-small.pcap, packets 45 and 90. */
static void probe__captured(void)
{
	struct urds_probe k61 = {.has_npaths = true, .npaths = 8};

	check(false, 1, &k61,
	      "0000000000000001 0000000000000000 00000000 0001 0000 00 00 00000000 0000"
	      "050008 00*13");
	check(true, 2, &k61,
	      "0000000000000002 0000000000000000 00000000 0000 0001 00 00 00000000 0000"
	      "050008 00*13");
}

/* Worked by hand, wire.md 13 and 8.2. */
static void probe__as_newer_kernels_send_it(void)
{
	struct urds_probe k7 = {.has_npaths = true,
				.npaths = 8,
				.has_gen_num = true,
				.gen_num = 0x11223344,
				.has_sport_idx = true};
	struct urds_probe uek = {.has_npaths = true, .npaths = 8, .has_sport_idx = true};
	struct urds_probe bare = {0};

	check(false, 1, &k7, "00*7 01 00*12 0001 0000 00*8 050008 0611223344 0800 00*6");
	check(false, 1, &uek, "00*7 01 00*12 0001 0000 00*8 050008 0800 00*11");
	check(true, 0x123456789abc, &bare, "0000123456789abc 00*12 0000 0001 00*24");
}

/* Worked by hand, wire.md 15. */
static void probe__urds(void)
{
	struct urds_probe p = {.has_npaths = true,
			       .npaths = 1,
			       .has_sport_idx = true,
			       .has_urds = true,
			       .urds_version = 1,
			       .caps = 0x80000003,
			       .incarnation = 0x01020304};

	check(false, 1, &p, "00*7 01 00*12 0001 0000 00*8 050001 0800 200001 80000003 01020304");
	check(true, 1, &p, "00*7 01 00*12 0000 0001 00*8 050001 0800 200001 80000003 01020304");
}

/* How Linux 6.1 walks (wire.md 5): it must find in our probe what it finds in one of its own. */
static void probe__k61_sees_npaths_only(void)
{
	static const unsigned k61_size[16] = {[1] = 4, [2] = 4, [3] = 8, [5] = 2, [6] = 4};
	struct urds_probe p = {.has_npaths = true,
			       .npaths = 8,
			       .has_sport_idx = true,
			       .has_urds = true,
			       .urds_version = 1,
			       .caps = 0x05000205,
			       .incarnation = 0x05000206};
	uint8_t hdr[URDS_HDR_LEN], *ext = hdr + URDS_HDR_OFF_EXT;
	unsigned found = 0;

	CHECK_EQ(urds_probe_put(hdr, false, 1, &p), URDS_HDR_LEN);
	for (unsigned i = 0; i < 16 && ext[i] != 0 && ext[i] < 16; i += 1 + k61_size[ext[i]]) {
		if (i + 1 + k61_size[ext[i]] > 16)
			break;
		if (k61_size[ext[i]] > 0)
			found |= 1u << ext[i];
	}
	CHECK_EQ(found, URDS_EXT_HAVE_NPATHS);
}

static void probe__too_many_extensions(void)
{
	struct urds_probe p = {.has_npaths = true, .has_gen_num = true, .has_urds = true};
	uint8_t hdr[URDS_HDR_LEN], before[URDS_HDR_LEN];

	memset(hdr, 0xa5, sizeof(hdr));
	memcpy(before, hdr, sizeof(hdr));
	CHECK_EQ(urds_probe_put(hdr, false, 1, &p), -URDS_ENOSPC);
	CHECK_MEM(hdr, before, sizeof(hdr));
}

static void probe__urds_without_version_or_incarnation_is_none(void)
{
	static const char *const bad[] = {
		"00*7 01 00*12 0001 0000 00*8 050001 0800 200000 00000003 01020304",
		"00*7 01 00*12 0001 0000 00*8 050001 0800 200001 00000003 00000000",
		"00*7 01 00*12 0001 0000 00*8 050001 0800 200101 00000003 01020304",
	};

	for (unsigned i = 0; i < 3; i++) {
		uint8_t p[URDS_HDR_LEN];
		struct urds_probe out;
		struct urds_hdr h;

		hex_get(p, sizeof(p), bad[i]);
		urds_hdr_load(&h, p);
		CHECK_EQ(urds_probe_get(&out, &h), 0);
		CHECK(out.has_npaths && out.has_sport_idx && !out.has_urds);
		CHECK_EQ(out.incarnation, 0);
	}
}

static void probe__other_frames_are_none(void)
{
	struct urds_probe out;
	struct urds_hdr h = {.sport = 4000, .dport = 0};

	memset(&out, 0xa5, sizeof(out));
	CHECK_EQ(urds_probe_get(&out, &h), -URDS_EPROTO);
	h = (struct urds_hdr){.sport = 1, .dport = 1};
	CHECK_EQ(urds_probe_get(&out, &h), -URDS_EPROTO);
	h = (struct urds_hdr){.sport = 1, .dport = 0, .flags = URDS_F_CONG_BITMAP};
	CHECK_EQ(urds_probe_get(&out, &h), -URDS_EPROTO);
	CHECK_EQ(out.caps, 0xa5a5a5a5);
}

static void probe__npaths_bounded(void)
{
	struct urds_probe p = {0};

	CHECK_EQ(urds_probe_npaths(&p, 0), 1);
	CHECK_EQ(urds_probe_npaths(&p, 8), 8);
	p.has_npaths = true;
	CHECK_EQ(urds_probe_npaths(&p, 8), 1);
	p.npaths = 5;
	CHECK_EQ(urds_probe_npaths(&p, 8), 5);
	p.npaths = 65535;
	CHECK_EQ(urds_probe_npaths(&p, 1), 8);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(probe__captured);
	T_RUN(probe__as_newer_kernels_send_it);
	T_RUN(probe__urds);
	T_RUN(probe__k61_sees_npaths_only);
	T_RUN(probe__too_many_extensions);
	T_RUN(probe__urds_without_version_or_incarnation_is_none);
	T_RUN(probe__other_frames_are_none);
	T_RUN(probe__npaths_bounded);
	return t_done();
}
