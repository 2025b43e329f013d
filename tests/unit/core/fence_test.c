/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Fences: what a kernel has, where its TCP does not say.
 */
#include "core/path.h"
#include "test_mem.h"
#include "../../tap.h"

#define BASE UINT64_C(0x1000)

static struct test_mem mem;
static struct urds_path_tx t;
static struct urds_tx_env env;
static struct urds_probe us;

static void take_all(void)
{
	struct urds_iov iov[URDS_TX_IOV_MAX];
	struct urds_tx_done done;
	uint64_t ack;
	size_t bytes;

	while (urds_path_tx_gather(&t, &env, iov, URDS_TX_IOV_MAX, &bytes, &ack) > 0)
		urds_path_tx_taken(&t, bytes, &done);
}

/* Up, with the first probe on its way. */
static void begin(enum urds_tx_hold hold)
{
	test_mem_init(&mem);
	us = (struct urds_probe){.has_npaths = true, .npaths = 1};
	env = (struct urds_tx_env){.us = &us};
	urds_path_tx_init(&t, &mem.m, BASE, false);
	urds_path_tx_up(&t, hold, &us);
	take_all();
}

static uint64_t put(void)
{
	struct urds_log_claim c;

	CHECK_EQ(urds_log_claim(&t.log, 0, &mem, 9, NULL, &c), 0);
	urds_hdr_put_data(c.wire, c.seq, 0, 8, 9);
	urds_log_commit(&c);
	return c.seq;
}

static void ack(uint64_t seq)
{
	struct urds_log_freed_list f;

	while (urds_log_ack_seq(&t.log, seq, &f))
		urds_path_tx_freed(&t, &f);
	urds_path_tx_freed(&t, &f);
}

static void finish(void)
{
	ack(t.log.next_seq - 1);
	CHECK_EQ(t.posted, 0);
	urds_path_tx_fini(&t);
	CHECK_EQ(mem.bytes, 0);
	CHECK_EQ(mem.blocks, 0);
}

static void fence__covers_what_is_before_it(void)
{
	uint64_t seq;

	begin(URDS_HOLD_NOTHING);
	seq = put();
	CHECK(urds_path_tx_fence(&t, 5, 1));
	put();
	take_all();
	CHECK_EQ(urds_path_tx_fenced(&t, 6), 0);
	CHECK_EQ(urds_path_tx_fenced(&t, 0), 0);
	CHECK_EQ(urds_path_tx_fenced(&t, 5), seq + 1);
	CHECK_EQ(urds_path_tx_fenced(&t, 5), 0);
	ack(seq + 1);
	CHECK_EQ(t.log.tail_seq, seq + 2);
	finish();
}

/* On a connection that came in nothing goes out before the other end has spoken, its probe included. */
static void fence__waits_for_proof_of_life(void)
{
	begin(URDS_HOLD_ALL);
	put();
	CHECK(!urds_path_tx_fence(&t, 5, 1));
	urds_path_tx_proven(&t);
	CHECK(urds_path_tx_fence(&t, 5, 1));
	CHECK_EQ(urds_path_tx_own_only(&t), 0);
	take_all();
	CHECK_EQ(urds_path_tx_fenced(&t, 5), BASE + 1);
	finish();
}

static void fence__is_one_at_a_time(void)
{
	uint64_t seq;

	begin(URDS_HOLD_NOTHING);
	CHECK(!urds_path_tx_fence(&t, 2, 1)); /* nothing to ask about */
	seq = put();
	CHECK(urds_path_tx_fence(&t, 2, 1));
	CHECK(!urds_path_tx_fence(&t, 3, 2));
	CHECK(urds_path_tx_fence(&t, 3, 1 + URDS_FENCE_NS));
	CHECK(urds_path_tx_fence(&t, 4, 1 + 2 * URDS_FENCE_NS));
	CHECK_EQ(t.posted, 3);
	take_all();
	/* The oldest is kept, for a peer that is slow; the last as well. */
	CHECK_EQ(urds_path_tx_fenced(&t, 3), 0);
	CHECK_EQ(urds_path_tx_fenced(&t, 2), seq + 1);
	CHECK_EQ(urds_path_tx_fenced(&t, 4), seq + 3);
	finish();
}

/* A pong that comes after the one to a later fence is old news. */
static void fence__answered_makes_older_ones_void(void)
{
	begin(URDS_HOLD_NOTHING);
	put();
	CHECK(urds_path_tx_fence(&t, 2, 1));
	CHECK(urds_path_tx_fence(&t, 3, 1 + URDS_FENCE_NS));
	take_all();
	CHECK_EQ(urds_path_tx_fenced(&t, 3), BASE + 2);
	CHECK_EQ(urds_path_tx_fenced(&t, 2), 0);
	finish();
}

static void connection__begins_anew(void)
{
	begin(URDS_HOLD_NOTHING);
	put();
	CHECK(urds_path_tx_fence(&t, 2, 1));
	take_all();
	urds_path_tx_down(&t);
	CHECK_EQ(t.posted, 0);
	urds_path_tx_up(&t, URDS_HOLD_NOTHING, &us);
	take_all();
	CHECK_EQ(urds_path_tx_fenced(&t, 2), 0); /* a pong that was on the way */
	CHECK(urds_path_tx_fence(&t, 3, 2));
	take_all();
	CHECK(urds_path_tx_fenced(&t, 3) > BASE);
	finish();
}

static void own_messages__are_not_asked_about(void)
{
	begin(URDS_HOLD_NOTHING);
	CHECK_EQ(urds_path_tx_own_only(&t), 0);
	CHECK_EQ(urds_path_tx_post(&t, 0, 7, NULL), 0);
	CHECK_EQ(urds_path_tx_own_only(&t), 0); /* not handed out yet */
	take_all();
	CHECK_EQ(urds_path_tx_own_only(&t), BASE);
	put();
	take_all();
	CHECK_EQ(urds_path_tx_own_only(&t), 0);
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(fence__covers_what_is_before_it);
	T_RUN(fence__waits_for_proof_of_life);
	T_RUN(fence__is_one_at_a_time);
	T_RUN(fence__answered_makes_older_ones_void);
	T_RUN(connection__begins_anew);
	T_RUN(own_messages__are_not_asked_about);
	return t_done();
}
