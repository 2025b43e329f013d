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
static void begin(void)
{
	test_mem_init(&mem);
	us = (struct urds_probe){.has_npaths = true, .npaths = 1};
	env = (struct urds_tx_env){.us = &us};
	urds_path_tx_init(&t, &mem.m, BASE, false);
	urds_path_tx_up(&t, URDS_HOLD_NOTHING, &us);
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

static void answer__to_the_first_probe_acknowledges_nothing(void)
{
	begin();
	put();
	urds_path_tx_fence(&t, &us, 1);
	take_all();
	CHECK_EQ(urds_path_tx_answered(&t), 0);
	CHECK_EQ(urds_path_tx_answered(&t), BASE + 1); /* the fence is behind the message */
	CHECK_EQ(urds_path_tx_answered(&t), 0);
	finish();
}

static void fence__covers_what_is_before_it(void)
{
	uint64_t seq;

	begin();
	CHECK_EQ(urds_path_tx_answered(&t), 0);
	seq = put();
	urds_path_tx_fence(&t, &us, 1);
	put();
	take_all();
	CHECK_EQ(urds_path_tx_answered(&t), seq + 1);
	ack(seq + 1);
	CHECK_EQ(t.log.tail_seq, seq + 2);
	finish();
}

static void fence__is_one_at_a_time(void)
{
	begin();
	urds_path_tx_fence(&t, &us, 1); /* nothing to ask about */
	CHECK_EQ(t.posted, 0);
	put();
	urds_path_tx_fence(&t, &us, 1);
	urds_path_tx_fence(&t, &us, 2);
	CHECK_EQ(t.posted, 1);
	urds_path_tx_fence(&t, &us, 1 + URDS_FENCE_NS);
	CHECK_EQ(t.posted, 2);
	take_all();
	finish();
}

/* One answer never came: the next fence's takes its place, and acknowledges no more than it is certain of. */
static void fence__makes_up_for_an_answer_that_is_missing(void)
{
	uint64_t seq;

	begin();
	seq = put();
	urds_path_tx_fence(&t, &us, 1);
	take_all();
	CHECK_EQ(urds_path_tx_answered(&t), 0); /* the first probe's; or the fence's */
	put();
	urds_path_tx_fence(&t, &us, 1 + URDS_FENCE_NS);
	take_all();
	CHECK_EQ(urds_path_tx_answered(&t), seq + 1);
	finish();
}

static void connection__begins_anew(void)
{
	begin();
	put();
	urds_path_tx_fence(&t, &us, 1);
	take_all();
	urds_path_tx_down(&t);
	CHECK_EQ(t.posted, 0);
	urds_path_tx_up(&t, URDS_HOLD_NOTHING, &us);
	take_all();
	/* The probe in front of the replay is flagged, and unanswered; the one behind the messages is. */
	CHECK_EQ(t.probes, 1);
	CHECK_EQ(urds_path_tx_answered(&t), 0);
	urds_path_tx_fence(&t, &us, 2);
	take_all();
	CHECK(urds_path_tx_answered(&t) > BASE);
	finish();
}

static void own_messages__are_not_asked_about(void)
{
	uint64_t seq;

	begin();
	CHECK_EQ(urds_path_tx_own_only(&t), 0);
	CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us), 0);
	CHECK_EQ(urds_path_tx_own_only(&t), 0); /* not handed out yet */
	take_all();
	CHECK_EQ(urds_path_tx_own_only(&t), BASE);
	ack(BASE);
	/* Somebody waits for a pong. */
	CHECK_EQ(urds_path_tx_post(&t, 0, 7, NULL), 0);
	take_all();
	CHECK_EQ(urds_path_tx_own_only(&t), 0);
	urds_path_tx_fence(&t, &us, 1);
	take_all();
	CHECK_EQ(urds_path_tx_answered(&t), 0);
	seq = urds_path_tx_answered(&t);
	CHECK_EQ(seq, BASE + 2);
	ack(seq);
	seq = put();
	take_all();
	CHECK_EQ(urds_path_tx_own_only(&t), 0);
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(answer__to_the_first_probe_acknowledges_nothing);
	T_RUN(fence__covers_what_is_before_it);
	T_RUN(fence__is_one_at_a_time);
	T_RUN(fence__makes_up_for_an_answer_that_is_missing);
	T_RUN(connection__begins_anew);
	T_RUN(own_messages__are_not_asked_about);
	return t_done();
}
