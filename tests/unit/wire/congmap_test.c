/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/congmap.h"
#include "hex.h"
#include "tap.h"

static uint8_t was[URDS_CONGMAP_LEN], now[URDS_CONGMAP_LEN];

/* From a kernel: the map in tcp-congestion.pcap at 0.376092 says "port 4000" with this one byte. */
static void congmap__captured_bit_of_4000(void)
{
	memset(now, 0, sizeof(now));
	urds_congmap_set(now, 4000);
	for (unsigned i = 0; i < sizeof(now); i++)
		CHECK_EQ(now[i], i == 500 ? 0x01 : 0);
	CHECK(urds_congmap_test(now, 4000));
	urds_congmap_clear(now, 4000);
	CHECK(urds_congmap_is_clear(now));
}

/* Worked by hand from wire.md 7: byte p >> 3, bit p & 7, lowest first. */
static void congmap__bit_order(void)
{
	static const struct {
		uint16_t port, byte;
		uint8_t bits;
	} at[] = {{0, 0, 1}, {1, 0, 2},		{7, 0, 0x80},
		  {8, 1, 1}, {4005, 500, 0x20}, {65535, 8191, 0x80}};

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		memset(now, 0, sizeof(now));
		urds_congmap_set(now, at[i].port);
		CHECK_EQ(now[at[i].byte], at[i].bits);
		CHECK(!urds_congmap_is_clear(now));
	}
}

static void congmap__set_and_clear_touch_one_port(void)
{
	uint8_t want[4] = {0xff, 0xff, 0xff, 0xff};

	for (uint16_t port = 0; port < 32; port++) {
		uint8_t map[4];

		memcpy(map, want, 4);
		urds_congmap_clear(map, port);
		for (uint16_t other = 0; other < 32; other++)
			CHECK_EQ(urds_congmap_test(map, other), other != port);
		urds_congmap_set(map, port);
		urds_congmap_set(map, port);
		CHECK_MEM(map, want, 4);
	}
}

static void congmap__header_golden(void)
{
	uint8_t want[URDS_HDR_LEN], got[URDS_HDR_LEN];
	struct urds_hdr h;

	/* From a kernel: tcp-ping.pcap, first message; the same as worked by hand in wire.md 13. */
	hex_get(want, sizeof(want), "00*16 00002000 0000 0000 01 00 00000000 0000 00*16");
	memset(got, 0xa5, sizeof(got));
	urds_congmap_hdr_put(got);
	CHECK_MEM(got, want, sizeof(want));
	urds_hdr_load(&h, got);
	CHECK_EQ(urds_hdr_kind(&h, false), URDS_FRAME_MAP);
}

static void congmap__is_clear_looks_at_every_byte(void)
{
	memset(now, 0, sizeof(now));
	for (unsigned i = 0; i < sizeof(now); i++) {
		now[i] = 0x10;
		CHECK(!urds_congmap_is_clear(now));
		now[i] = 0;
	}
	CHECK(urds_congmap_is_clear(now));
}

static void diff__only_ports_that_were_cleared(void)
{
	struct urds_congmap_diff d;
	static const uint16_t ports[] = {0, 63, 64, 4000, 4001, 65535};

	memset(was, 0, sizeof(was));
	memset(now, 0, sizeof(now));
	for (unsigned i = 0; i < 6; i++)
		urds_congmap_set(was, ports[i]);
	urds_congmap_set(now, 4001); /* still */
	urds_congmap_set(now, 5000); /* newly */
	urds_congmap_diff_init(&d, was, now);
	for (unsigned i = 0; i < 6; i++)
		if (ports[i] != 4001)
			CHECK_EQ(urds_congmap_diff_next(&d), ports[i]);
	CHECK_EQ(urds_congmap_diff_next(&d), -1);
	CHECK_EQ(urds_congmap_diff_next(&d), -1);
}

static void diff__null_is_all_clear(void)
{
	struct urds_congmap_diff d;

	memset(was, 0, sizeof(was));
	urds_congmap_set(was, 1234);
	urds_congmap_diff_init(&d, was, NULL);
	CHECK_EQ(urds_congmap_diff_next(&d), 1234);
	CHECK_EQ(urds_congmap_diff_next(&d), -1);
	urds_congmap_diff_init(&d, NULL, was);
	CHECK_EQ(urds_congmap_diff_next(&d), -1);
	urds_congmap_diff_init(&d, NULL, NULL);
	CHECK_EQ(urds_congmap_diff_next(&d), -1);
}

static void diff__agrees_with_testing_each_port(void)
{
	uint64_t seed = 3;

	for (unsigned run = 0; run < 20; run++) {
		struct urds_congmap_diff d;

		for (unsigned i = 0; i < sizeof(was); i++) {
			was[i] = (uint8_t)(rnd64(&seed) & rnd64(&seed));
			now[i] = (uint8_t)rnd64(&seed);
		}
		urds_congmap_diff_init(&d, was, now);
		for (unsigned port = 0; port < 65536; port++)
			if (urds_congmap_test(was, (uint16_t)port) &&
			    !urds_congmap_test(now, (uint16_t)port))
				CHECK_EQ(urds_congmap_diff_next(&d), port);
		CHECK_EQ(urds_congmap_diff_next(&d), -1);
	}
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(congmap__captured_bit_of_4000);
	T_RUN(congmap__bit_order);
	T_RUN(congmap__set_and_clear_touch_one_port);
	T_RUN(congmap__header_golden);
	T_RUN(congmap__is_clear_looks_at_every_byte);
	T_RUN(diff__only_ports_that_were_cleared);
	T_RUN(diff__null_is_all_clear);
	T_RUN(diff__agrees_with_testing_each_port);
	return t_done();
}
