/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/be.h"
#include "tap.h"

/* Byte arrays spelled out, so that a big-endian host (s390x) has to agree with a little-endian one.
 */
static const uint8_t bytes[] = {0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88};

static void be__load_takes_the_first_byte_as_highest(void)
{
	CHECK_EQ(urds_be16_load(bytes + 1), 0x0102);
	CHECK_EQ(urds_be32_load(bytes + 1), 0x01020304);
	CHECK_EQ(urds_be64_load(bytes + 1), 0x0102030405060788);
	CHECK_EQ(urds_be16_load(bytes), 0xff01);
	CHECK_EQ(urds_be32_load(bytes), 0xff010203u);
	CHECK_EQ(urds_be64_load(bytes), 0xff01020304050607u);
}

static void be__le_load_takes_the_first_byte_as_lowest(void)
{
	CHECK_EQ(urds_le64_load(bytes + 1), 0x8807060504030201u);
}

static void be__store_is_the_inverse_at_any_alignment(void)
{
	for (unsigned at = 0; at < 8; at++) {
		uint8_t buf[24];

		memset(buf, 0xa5, sizeof(buf));
		urds_be16_store(buf + at + 1, 0x0102);
		CHECK_MEM(buf + at + 1, bytes + 1, 2);
		CHECK_EQ(buf[at], 0xa5);
		CHECK_EQ(buf[at + 3], 0xa5);
		urds_be32_store(buf + at + 1, 0x01020304);
		CHECK_MEM(buf + at + 1, bytes + 1, 4);
		CHECK_EQ(buf[at + 5], 0xa5);
		urds_be64_store(buf + at + 1, 0x0102030405060788);
		CHECK_MEM(buf + at + 1, bytes + 1, 8);
		CHECK_EQ(buf[at], 0xa5);
		CHECK_EQ(buf[at + 9], 0xa5);
	}
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(be__load_takes_the_first_byte_as_highest);
	T_RUN(be__le_load_takes_the_first_byte_as_lowest);
	T_RUN(be__store_is_the_inverse_at_any_alignment);
	return t_done();
}
