/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A transmit half, driven by hand, and what it has put on the wire.
 */
#ifndef URDS_TESTS_PATH_TX_TEST_H
#define URDS_TESTS_PATH_TX_TEST_H

#include "core/path.h"
#include "test_mem.h"
#include "../../tap.h"

#define BASE UINT64_C(0x1000)

static struct test_mem mem;
static struct urds_path_tx t;
static struct urds_tx_env env;
static struct urds_probe us;
static uint8_t wire[1 << 20];
static size_t len;
static uint64_t last_ack;
static struct urds_hdr h[4096];
static size_t nh;

static inline void begin(bool sends_map)
{
	test_mem_init(&mem);
	us = (struct urds_probe){.has_npaths = true,
				 .npaths = 1,
				 .has_sport_idx = true,
				 .has_urds = true,
				 .urds_version = 1,
				 .caps = URDS_CAP_ACK,
				 .incarnation = 77};
	env = (struct urds_tx_env){.us = &us};
	urds_path_tx_init(&t, &mem.m, BASE, sends_map);
	len = 0;
}

static inline void finish(void)
{
	urds_path_tx_fini(&t);
	CHECK_EQ(mem.bytes, 0);
	CHECK_EQ(mem.blocks, 0);
}

/* @alone: in a buffer of its own. */
static inline uint64_t put_in(uint32_t n, bool alone)
{
	struct urds_log_claim c;
	struct urds_buf *big = alone ? urds_buf_new(&mem.m, urds_buf_blocks(URDS_HDR_LEN + n))
				     : NULL;

	CHECK_EQ(urds_log_claim(&t.log, n, &mem, 9, big, &c), 0);
	urds_hdr_put_data(c.wire, c.seq, n, 8, 9);
	for (uint32_t i = 0; i < n; i++)
		c.wire[URDS_HDR_LEN + i] = test_byte(c.seq, i);
	urds_log_commit(&c);
	return c.seq;
}

static inline uint64_t put(uint32_t n)
{
	return put_in(n, false);
}

static struct urds_tx_done done;

static inline size_t take(size_t max)
{
	struct urds_iov iov[URDS_TX_IOV_MAX];
	size_t bytes, sum = 0;
	size_t n = urds_path_tx_gather(&t, &env, iov, URDS_TX_IOV_MAX, &bytes, &last_ack);

	if (max > bytes)
		max = bytes;
	for (size_t i = 0; i < n && sum < max; i++) {
		size_t part = iov[i].len < max - sum ? iov[i].len : max - sum;

		memcpy(wire + len + sum, iov[i].base, part);
		sum += part;
	}
	CHECK_EQ(sum, max);
	len += sum;
	urds_path_tx_taken(&t, sum, &done);
	return sum;
}

static inline void take_all(void)
{
	while (take(SIZE_MAX) > 0)
		;
}

/* As who drives it does: until it says that no more is due. */
static inline void take_due(void)
{
	while (take(SIZE_MAX) > 0 && urds_path_tx_has_more(&t, &env))
		;
}

/* What is on the wire, as headers. */
static inline void parse(void)
{
	size_t at = 0;

	for (nh = 0; len - at >= URDS_HDR_LEN; nh++) {
		urds_hdr_load(&h[nh], wire + at);
		at += URDS_HDR_LEN + h[nh].len;
		CHECK(at <= len);
	}
	CHECK_EQ(at, len);
}

static inline void up(bool dialled)
{
	len = 0;
	urds_path_tx_up(&t, dialled ? URDS_HOLD_MESSAGES : URDS_HOLD_NOTHING, &us);
}

static inline void ack(uint64_t seq)
{
	struct urds_log_freed_list f;

	while (urds_log_ack_seq(&t.log, seq, &f))
		;
	urds_path_tx_freed(&t, &f);
}

static inline enum urds_frame_kind kind(size_t i)
{
	return urds_hdr_kind(&h[i], true);
}

#endif
