/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The transmit half of a path: its probes and answers, which may wait, and what waits for them.
 */
#include "path_tx_test.h"

static void path_tx__uncertain_dialler_sends_a_flagged_probe_and_waits(void)
{
	begin(true);
	put(10);
	put(10);
	up(false);
	take_all();
	ack(BASE);
	urds_path_tx_down(&t);
	up(true);
	take_all();
	parse();
	CHECK_EQ(nh, 1);
	CHECK_EQ(kind(0), URDS_FRAME_PROBE);
	CHECK_EQ(h[0].seq, BASE);
	CHECK_EQ(h[0].flags, URDS_F_RETRANSMITTED);
	urds_path_tx_proven(&t);
	take_all();
	parse();
	CHECK_EQ(nh, 4);
	CHECK_EQ(kind(1), URDS_FRAME_MAP);
	CHECK_EQ(h[2].seq, BASE + 1);
	CHECK_EQ(h[2].flags, URDS_F_RETRANSMITTED);
	CHECK_EQ(kind(3), URDS_FRAME_PROBE);
	CHECK_EQ(h[3].seq, BASE + 2);
	CHECK_EQ(h[3].flags, 0);
	finish();
}

/* It may be another path than we take it for: what we sent would move the wrong count. */
static void path_tx__accepted_says_nothing_before_it_is_proven(void)
{
	for (unsigned uncertain = 0; uncertain < 2; uncertain++) {
		begin(true);
		put(10);
		if (uncertain) {
			up(false);
			take_all();
			urds_path_tx_down(&t);
		}
		len = 0;
		urds_path_tx_up(&t, URDS_HOLD_ALL, &us);
		CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us), 0);
		CHECK_EQ(take(SIZE_MAX), 0);
		urds_path_tx_down(&t);
		urds_path_tx_up(&t, URDS_HOLD_ALL, &us);
		CHECK_EQ(take(SIZE_MAX), 0);
		urds_path_tx_proven(&t);
		take_all();
		parse();
		CHECK_EQ(nh, 3 + uncertain);
		CHECK_EQ(kind(0), URDS_FRAME_PROBE);
		CHECK_EQ(h[0].flags, uncertain ? URDS_F_RETRANSMITTED : 0);
		CHECK_EQ(kind(1), URDS_FRAME_MAP);
		CHECK_EQ(h[2].seq, BASE);
		finish();
	}
}

static void path_tx__a_waiting_probe_is_not_doubled(void)
{
	begin(false);
	put(10);
	up(false);
	take_all();
	for (int i = 0; i < 20; i++) { /* connections on which nobody speaks */
		urds_path_tx_down(&t);
		up(true);
		CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN);
	}
	urds_path_tx_proven(&t);
	take_all();
	parse();
	CHECK_EQ(nh, 3);
	CHECK_EQ(kind(0), URDS_FRAME_PROBE);
	CHECK_EQ(kind(2), URDS_FRAME_PROBE);
	finish();
}

/* It may have arrived; sent again it would be dropped as a duplicate, unanswered. */
static void path_tx__a_probe_that_was_out_is_replaced_by_a_new_one(void)
{
	begin(false);
	put(10);
	up(false);
	take_all();
	urds_path_tx_down(&t);
	up(false);
	take_all(); /* message, probe */
	urds_path_tx_down(&t);
	up(false);
	take_all();
	parse();
	CHECK_EQ(nh, 3);
	CHECK_EQ(kind(2), URDS_FRAME_PROBE);
	CHECK_EQ(h[2].flags, 0);
	finish();
}

/* A stranger came and went on a path of its own. */
static void path_tx__nothing_of_ours_keeps_a_further_path_alive(void)
{
	for (size_t cut = 0; cut < 2 * 2 * URDS_HDR_LEN; cut++) {
		bool path0 = cut & 1;

		begin(path0);
		up(false);
		CHECK_EQ(urds_path_tx_post(&t, URDS_PROBE_PORT, 0, &us), 0);
		take(cut / 2);
		CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us), 0);
		CHECK_EQ(urds_path_tx_post(&t, 0, 4000, NULL), 0);
		urds_path_tx_down(&t);
		CHECK_EQ(t.posted, path0);
		CHECK_EQ(urds_log_is_empty(&t.log), !path0);
		CHECK_EQ(mem.blocks, path0);
		if (path0) { /* a pong is owed */
			up(false);
			take_all();
			parse();
			CHECK_EQ(h[nh - 1].dport, 4000);
		}
		finish();
	}
}

static void path_tx__probe_number_follows_the_acknowledged(void)
{
	begin(false);
	put(10);
	put(10);
	up(false);
	take_all();
	ack(BASE + 1);
	put(10); /* queued, not out */
	urds_path_tx_down(&t);
	up(false);
	take_all();
	parse();
	CHECK_EQ(nh, 2);
	CHECK_EQ(kind(0), URDS_FRAME_PROBE);
	CHECK_EQ(h[0].seq, BASE + 1);
	CHECK_EQ(h[1].seq, BASE + 2);
	finish();
}

/* Without its probe a new connection carries nothing: later its number would move the peer back. */
static void path_tx__no_memory_for_the_probe_holds_the_messages(void)
{
	begin(true);
	put(10);
	up(false);
	mem.fail_all = true;
	CHECK_EQ(take(SIZE_MAX), 0);
	mem.fail_all = false;
	take_all();
	parse();
	CHECK_EQ(nh, 3);
	CHECK_EQ(kind(0), URDS_FRAME_PROBE);
	len = 0;
	env.map_gen++; /* a map that finds no memory does not hold them, and is not forgotten (C1) */
	put(10);
	mem.fail_all = true;
	CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN + 10);
	mem.fail_all = false;
	CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN + URDS_CONGMAP_LEN);
	finish();
}

static void path_tx__pongs_are_bounded_and_come_back(void)
{
	begin(false);
	CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us),
		 0); /* no connection: nothing to answer */
	CHECK(urds_log_is_empty(&t.log));
	up(false);
	for (unsigned i = 0; i < URDS_PONGS_MAX; i++)
		CHECK_EQ(urds_path_tx_post(&t, 0, 4000, NULL), 0);
	CHECK_EQ(urds_path_tx_post(&t, 0, 4000, NULL), -URDS_EAGAIN);
	CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us),
		 0); /* an answer goes all the same */
	put(3);
	take_all();
	parse();
	CHECK_EQ(nh, 1 + URDS_PONGS_MAX + 1 + 1);
	CHECK_EQ(h[1].dport, 4000);
	CHECK_EQ(h[1].sport, 0);
	CHECK_EQ(kind(1 + URDS_PONGS_MAX), URDS_FRAME_PROBE_ANSWER);
	{
		struct urds_log_freed_list f;

		CHECK(!urds_log_ack_seq(&t.log, BASE + URDS_PONGS_MAX + 1, &f));
		CHECK_EQ(f.n, 2);
		urds_path_tx_freed(&t, &f);
		CHECK_EQ(f.n, 1);
		CHECK(f.v[0].owner == &mem);
		CHECK_EQ(f.v[0].bytes, 3);
	}
	CHECK_EQ(t.posted, 0);
	CHECK_EQ(urds_path_tx_post(&t, 0, 4000, NULL), 0);
	finish();
}

/* A peer that asks and asks and acknowledges nothing. */
static void path_tx__a_flood_of_probes_costs_bounded_memory(void)
{
	size_t blocks;

	begin(false);
	up(false);
	for (unsigned i = 0; i < 2 * URDS_PONGS_MAX; i++)
		CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us), 0);
	blocks = mem.blocks;
	for (unsigned i = 0; i < 70000; i++) /* more than 16 bits count */
		CHECK_EQ(urds_path_tx_post(&t, 0, i % 2 ? URDS_PROBE_PORT : 4000,
					   i % 2 ? &us : NULL),
			 -URDS_EAGAIN);
	CHECK_EQ(mem.blocks, blocks);
	CHECK_EQ(t.posted, 2 * URDS_PONGS_MAX);
	urds_path_tx_down(&t);
	CHECK_EQ(t.posted, 0);
	finish();
}

/* Acknowledged by a kernel's TCP and kept: the pong is sent again after a reset, what is about the connection is not. */
static void path_tx__of_what_is_kept_probes_and_answers_are_forgotten(void)
{
	for (unsigned path0 = 0; path0 < 2; path0++)
		for (unsigned was_read = 0; was_read < 2; was_read++) {
			struct urds_log_freed_list f;

			begin(path0);
			up(false);
			CHECK_EQ(urds_path_tx_post(&t, 0, URDS_PROBE_PORT, &us), 0);
			put(3);
			CHECK_EQ(urds_path_tx_post(&t, URDS_PROBE_PORT, 0, &us), 0);
			CHECK_EQ(urds_path_tx_post(&t, 0, 4000, NULL), 0);
			take_all();
			CHECK(!urds_path_tx_acked(&t, t.link_pos, URDS_SEC(5), &f));
			urds_path_tx_freed(&t, &f);
			CHECK_EQ(f.n, 1);
			CHECK(f.v[0].owner == &mem);
			CHECK_EQ(t.posted, 0);
			if (was_read)
				urds_path_tx_read(&t, t.link_pos);
			urds_path_tx_down(&t);
			up(false);
			take_all();
			parse();
			if (was_read) {
				CHECK_EQ(nh, 1 + path0); /* probe, map */
			} else {
				CHECK_EQ(nh,
					 2 + path0 + path0 +
						 1); /* probe, map, message, pong, probe in order */
				CHECK_EQ(h[1 + path0].dport, 9);
				CHECK_EQ(h[1 + path0].flags, URDS_F_RETRANSMITTED);
				CHECK(!path0 || h[3].dport == 4000);
				CHECK_EQ(kind(nh - 1), URDS_FRAME_PROBE);
			}
			urds_path_tx_down(&t);
			CHECK_EQ(t.posted, 0);
			finish();
		}
}

static void path_tx__post_without_memory_says_so(void)
{
	begin(false);
	mem.fail_all = true;
	CHECK_EQ(urds_path_tx_post(&t, 0, 4000, NULL), -URDS_ENOMEM);
	CHECK_EQ(t.posted, 0);
	mem.fail_all = false;
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(path_tx__uncertain_dialler_sends_a_flagged_probe_and_waits);
	T_RUN(path_tx__accepted_says_nothing_before_it_is_proven);
	T_RUN(path_tx__a_waiting_probe_is_not_doubled);
	T_RUN(path_tx__a_probe_that_was_out_is_replaced_by_a_new_one);
	T_RUN(path_tx__nothing_of_ours_keeps_a_further_path_alive);
	T_RUN(path_tx__probe_number_follows_the_acknowledged);
	T_RUN(path_tx__no_memory_for_the_probe_holds_the_messages);
	T_RUN(path_tx__pongs_are_bounded_and_come_back);
	T_RUN(path_tx__a_flood_of_probes_costs_bounded_memory);
	T_RUN(path_tx__of_what_is_kept_probes_and_answers_are_forgotten);
	T_RUN(path_tx__post_without_memory_says_so);
	return t_done();
}
