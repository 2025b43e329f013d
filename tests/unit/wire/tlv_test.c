/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * No capture can hold these: they exist only between urds ends. The vectors are worked by hand from
 * wire.md 15 and wire/tlv.h.
 */
#include "wire/tlv.h"
#include "hex.h"
#include "tap.h"

static void tlv__golden_mapdelta(void)
{
	struct urds_mapdelta d = {.port = 4000, .is_congested = true}, back;
	uint8_t want[URDS_MAPDELTA_LEN], got[URDS_MAPDELTA_LEN];
	struct urds_tlv_iter it;
	struct urds_tlv t;

	CHECK_EQ(hex_get(want, sizeof(want), "0002 0003 0fa0 01"), 7);
	CHECK_EQ(urds_mapdelta_put(got, sizeof(got), &d), 7);
	CHECK_MEM(got, want, 7);
	urds_tlv_iter_init(&it, want, sizeof(want));
	CHECK_EQ(urds_tlv_next(&it, &t), 1);
	CHECK_EQ(t.type, URDS_TLV_MAPDELTA);
	CHECK_EQ(t.len, 3);
	CHECK(t.val == want + 4);
	CHECK_EQ(urds_mapdelta_get(&back, &t), 0);
	CHECK_EQ(back.port, 4000);
	CHECK(back.is_congested);
	CHECK_EQ(urds_tlv_next(&it, &t), 0);
	CHECK_EQ(urds_tlv_next(&it, &t), 0);
}

static void tlv__put_needs_room_for_all(void)
{
	static const uint8_t val[5] = {1, 2, 3, 4, 5};
	uint8_t p[16], before[16];

	memset(p, 0xa5, sizeof(p));
	memcpy(before, p, sizeof(p));
	for (size_t cap = 0; cap < 9; cap++) {
		CHECK_EQ(urds_tlv_put(p, cap, 9, val, 5), -URDS_ENOSPC);
		CHECK_MEM(p, before, sizeof(p));
	}
	CHECK_EQ(urds_tlv_put(p, 9, 9, val, 5), 9);
	CHECK_MEM(p + 4, val, 5);
	CHECK_EQ(p[9], 0xa5);
	CHECK_EQ(urds_tlv_put(p, 4, 9, NULL, 0), 4);
	CHECK_EQ(urds_tlv_put(p, 3, 9, NULL, 0), -URDS_ENOSPC);
	CHECK_EQ(urds_tlv_put(p, 4 + 65534, 9, val, 65535), -URDS_ENOSPC);
}

static void tlv__unknown_and_padding_are_skipped(void)
{
	uint8_t p[64];
	size_t n = hex_get(p, sizeof(p),
			   "7777 0002 aabb  0000 0000  0000 0003 ffffff  0001 0000"
			   "0005 0001 00  ffff 0000  0004 0002 0102  00000000");
	struct urds_tlv_iter it;
	struct urds_tlv t;

	urds_tlv_iter_init(&it, p, n);
	CHECK_EQ(urds_tlv_next(&it, &t), 1);
	CHECK_EQ(t.type, URDS_TLV_FRAG);
	CHECK_EQ(t.len, 0);
	CHECK_EQ(urds_tlv_next(&it, &t), 1);
	CHECK_EQ(t.type, URDS_TLV_LANE);
	CHECK_EQ(t.len, 2);
	CHECK_EQ(t.val[1], 2);
	CHECK_EQ(urds_tlv_next(&it, &t), 0);
}

/* Every truncation of three TLVs: those before the cut are found, then the error, which stays. */
static void tlv__every_truncation(void)
{
	static const size_t ends[] = {0, 7, 14, 20};
	uint8_t p[20];

	CHECK_EQ(hex_get(p, sizeof(p), "0002 0003 0fa0 01  0002 0003 0fa1 00  0001 0002 abcd"), 20);
	for (size_t len = 0; len <= 20; len++) {
		struct urds_tlv t, before;
		struct urds_tlv_iter it;
		unsigned whole = 0;

		while (whole < 3 && ends[whole + 1] <= len)
			whole++;
		urds_tlv_iter_init(&it, p, len);
		for (unsigned i = 0; i < whole; i++)
			CHECK_EQ(urds_tlv_next(&it, &t), 1);
		memset(&t, 0xa5, sizeof(t));
		memcpy(&before, &t, sizeof(t));
		for (unsigned i = 0; i < 2; i++)
			CHECK_EQ(urds_tlv_next(&it, &t), len == ends[whole] ? 0 : -URDS_EPROTO);
		CHECK_MEM(&t, &before, sizeof(t));
	}
}

static void tlv__length_beyond_the_end_of_an_unknown_one(void)
{
	uint8_t p[8];
	struct urds_tlv_iter it;
	struct urds_tlv t;

	hex_get(p, sizeof(p), "7777 ffff 00000000");
	urds_tlv_iter_init(&it, p, sizeof(p));
	CHECK_EQ(urds_tlv_next(&it, &t), -URDS_EPROTO);
}

static void mapdelta__malformed(void)
{
	static const uint8_t val[4] = {0x0f, 0xa0, 1, 0}, two[3] = {0x0f, 0xa0, 2};
	struct urds_mapdelta d = {.port = 7, .is_congested = true};
	struct urds_tlv t = {URDS_TLV_MAPDELTA, 2, val};

	CHECK_EQ(urds_mapdelta_get(&d, &t), -URDS_EPROTO);
	t.len = 4;
	CHECK_EQ(urds_mapdelta_get(&d, &t), -URDS_EPROTO);
	t = (struct urds_tlv){URDS_TLV_FRAG, 3, val};
	CHECK_EQ(urds_mapdelta_get(&d, &t), -URDS_EPROTO);
	t = (struct urds_tlv){URDS_TLV_MAPDELTA, 3, two};
	CHECK_EQ(urds_mapdelta_get(&d, &t), -URDS_EPROTO);
	CHECK_EQ(d.port, 7);
	CHECK(d.is_congested);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(tlv__golden_mapdelta);
	T_RUN(tlv__put_needs_room_for_all);
	T_RUN(tlv__unknown_and_padding_are_skipped);
	T_RUN(tlv__every_truncation);
	T_RUN(tlv__length_beyond_the_end_of_an_unknown_one);
	T_RUN(mapdelta__malformed);
	return t_done();
}
