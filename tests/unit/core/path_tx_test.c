/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The transmit half of a path: order of probe, map, ack and messages.
 */
#include "path_tx_test.h"

static void path_tx__nothing_goes_while_down(void)
{
	begin(true);
	put(10);
	urds_path_tx_want_ack(&t);
	env.ack = 5;
	CHECK_EQ(take(SIZE_MAX), 0);
	finish();
}

static void path_tx__dialled_sends_a_probe_and_waits(void)
{
	begin(true);
	put(10);
	up(true);
	take_all();
	parse();
	CHECK_EQ(nh, 1);
	CHECK_EQ(kind(0), URDS_FRAME_PROBE);
	CHECK_EQ(h[0].seq, BASE - 1);
	CHECK_EQ(h[0].flags, 0);
	urds_path_tx_proven(&t);
	take_all();
	parse();
	CHECK_EQ(nh, 3);
	CHECK_EQ(kind(1), URDS_FRAME_MAP);
	CHECK_EQ(h[2].seq, BASE);
	CHECK_EQ(h[2].len, 10);
	finish();
}

static void path_tx__accepted_sends_probe_map_and_messages(void)
{
	begin(true);
	put(10);
	up(false);
	take_all();
	parse();
	CHECK_EQ(nh, 3);
	CHECK_EQ(kind(0), URDS_FRAME_PROBE);
	CHECK_EQ(kind(1), URDS_FRAME_MAP);
	CHECK_EQ(h[2].seq, BASE);
	finish();
}

static void path_tx__probe_says_who_we_are(void)
{
	struct urds_probe p;

	begin(false);
	up(false);
	take_all();
	parse();
	CHECK_EQ(nh, 1);
	CHECK_EQ(urds_probe_get(&p, &h[0]), 0);
	CHECK(p.has_urds && p.has_npaths && p.has_sport_idx && !p.has_gen_num);
	CHECK_EQ(p.incarnation, 77);
	CHECK_EQ(p.npaths, 1);
	finish();
}

static void path_tx__only_path_0_sends_maps(void)
{
	begin(false);
	up(false);
	env.map_gen = 3;
	take_all();
	parse();
	CHECK_EQ(nh, 1);
	finish();
}

static void path_tx__map_goes_when_the_generation_differs(void)
{
	static uint8_t bits[URDS_CONGMAP_LEN];

	begin(true);
	up(false);
	take_all();
	parse();
	CHECK_EQ(nh, 2);
	CHECK(urds_congmap_is_clear(wire + 2 * URDS_HDR_LEN));
	len = 0;
	take_all();
	CHECK_EQ(len, 0);
	urds_congmap_set(bits, 4000);
	env.map = bits;
	env.map_gen++;
	CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN + URDS_CONGMAP_LEN);
	CHECK_EQ(done.maps, 1);
	CHECK(urds_congmap_test(wire + URDS_HDR_LEN, 4000));
	urds_path_tx_down(&t); /* a new connection gets it again */
	up(false);
	take_all();
	parse();
	CHECK_EQ(nh, 2);
	CHECK_EQ(kind(1), URDS_FRAME_MAP);
	finish();
}

static void path_tx__map_waits_for_the_end_of_a_message(void)
{
	for (size_t cut = 1; cut < URDS_HDR_LEN + 20; cut++) {
		begin(true);
		up(false);
		take_all();
		len = 0;
		put(20);
		put(20);
		CHECK_EQ(take(cut), cut);
		env.map_gen++;
		take_due();
		parse();
		CHECK_EQ(nh, 3);
		CHECK_EQ(kind(0), URDS_FRAME_DATA);
		CHECK_EQ(kind(2), URDS_FRAME_MAP);
		finish();
	}
}

/* Also behind a map that is half sent, and behind one that holds the older bits. */
static void path_tx__map_waits_for_the_end_of_a_map(void)
{
	size_t total = URDS_HDR_LEN + URDS_CONGMAP_LEN;

	for (size_t cut = 1; cut < total; cut += 61) {
		begin(true);
		up(false);
		take_all();
		len = 0;
		env.map_gen++;
		CHECK_EQ(take(cut), cut);
		env.map_gen++;
		take_due();
		parse();
		CHECK_EQ(nh, 2);
		CHECK_EQ(kind(1), URDS_FRAME_MAP);
		CHECK(t.map_gen == env.map_gen);
		finish();
	}
}

/* What goes out without another gather's help leaves none due: nobody gathers twice for a small message. */
static void path_tx__one_gather_is_enough(void)
{
	begin(true);
	up(false);
	put(10);
	CHECK(take(SIZE_MAX) > 0);
	CHECK(!urds_path_tx_has_more(&t, &env));
	put(10);
	urds_path_tx_want_ack(&t); /* of a kernel: there is none to send */
	CHECK(take(SIZE_MAX) > 0);
	CHECK(!urds_path_tx_has_more(&t, &env));
	env.ack = 5;
	put(10); /* which carries it */
	CHECK(take(SIZE_MAX) > 0);
	CHECK_EQ(last_ack, 5);
	CHECK(!urds_path_tx_has_more(&t, &env));
	finish();
	begin(true); /* the map waits for the other end to speak */
	up(true);
	CHECK(take(SIZE_MAX) > 0);
	CHECK(!urds_path_tx_has_more(&t, &env));
	urds_path_tx_proven(&t);
	CHECK(urds_path_tx_has_more(&t, &env));
	finish();
}

/* A gather that is full, of bytes or of pieces. */
static void path_tx__a_full_gather_has_more(void)
{
	static const struct {
		unsigned n;
		uint32_t len;
		bool alone;
	} row[] = {{300, 2000, false}, {2 * URDS_TX_IOV_MAX, 10, true}};

	for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
		begin(false);
		up(false);
		take_all();
		len = 0;
		for (unsigned i = 0; i < row[k].n; i++)
			put_in(row[k].len, row[k].alone);
		take_due();
		parse();
		CHECK_EQ(nh, row[k].n);
		finish();
	}
}

static void path_tx__partial_take_at_every_offset(void)
{
	size_t total = URDS_HDR_LEN * 4 + URDS_CONGMAP_LEN + 30;

	for (size_t cut = 0; cut <= total; cut += cut > 100 && cut < 8200 ? 61 : 1) {
		begin(true);
		put(10);
		put(20);
		up(false);
		CHECK_EQ(take(cut), cut);
		env.map_gen++; /* what is under way is not changed by it */
		take_all();
		parse();
		CHECK_EQ(kind(0), URDS_FRAME_PROBE);
		CHECK_EQ(h[0].seq, BASE - 1);
		CHECK_EQ(kind(1), URDS_FRAME_MAP);
		CHECK(t.map_gen == env.map_gen);
		CHECK_EQ(t.link_pos, len);
		finish();
	}
}

static void path_tx__a_cut_at_every_offset_keeps_the_messages(void)
{
	size_t total = URDS_HDR_LEN * 4 + URDS_CONGMAP_LEN + 30;

	for (size_t cut = 0; cut <= total; cut += cut > 100 && cut < 8200 ? 61 : 1) {
		size_t first = 2 * URDS_HDR_LEN + URDS_CONGMAP_LEN;
		bool one = cut > first, two = cut > first + URDS_HDR_LEN + 10;

		begin(true);
		put(10);
		put(20);
		up(false);
		CHECK_EQ(take(cut), cut);
		urds_path_tx_down(&t);
		CHECK_EQ(mem.bytes, 0);
		up(false);
		take_all();
		parse();
		CHECK_EQ(nh, one ? 5 : 4);
		CHECK_EQ(kind(0), URDS_FRAME_PROBE);
		CHECK_EQ(h[0].seq, BASE - 1);
		CHECK_EQ(h[0].flags, one ? URDS_F_RETRANSMITTED : 0);
		CHECK_EQ(kind(1), URDS_FRAME_MAP);
		CHECK_EQ(h[2].seq, BASE);
		CHECK_EQ(h[2].flags, one ? URDS_F_RETRANSMITTED : 0);
		CHECK_EQ(h[3].flags, two ? URDS_F_RETRANSMITTED : 0);
		if (one) {
			CHECK_EQ(kind(4), URDS_FRAME_PROBE);
			CHECK_EQ(h[4].seq, BASE + 2);
			CHECK_EQ(h[4].flags, 0);
		}
		finish();
	}
}

/* A kernel drops that probe unseen, for it has the message of that number; an urds end reads it. */
static void path_tx__ack_alone_only_if_no_message_carries_it(void)
{
	begin(false);
	up(false);
	take_all();
	len = 0;
	urds_path_tx_want_ack(&t);
	CHECK_EQ(take(SIZE_MAX), 0); /* not an urds peer */
	env.ack = 500;
	CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN);
	CHECK_EQ(last_ack, 500);
	parse();
	CHECK_EQ(kind(0), URDS_FRAME_ACK);
	CHECK_EQ(h[0].ack, 500);
	CHECK_EQ(take(SIZE_MAX), 0);
	urds_path_tx_want_ack(&t);
	put(5);
	len = 0;
	env.ack = 501;
	CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN + 5);
	CHECK_EQ(last_ack, 501);
	parse();
	CHECK_EQ(h[0].ack, 501);
	CHECK_EQ(take(SIZE_MAX), 0);
	finish();
}

/* It waits for room, and meanwhile there is more to be acknowledged. */
static void path_tx__a_bare_ack_that_waited_is_no_newer_one(void)
{
	for (size_t cut = 0; cut < URDS_HDR_LEN; cut++) {
		begin(false);
		up(false);
		take_all();
		len = 0;
		env.ack = 500;
		urds_path_tx_want_ack(&t);
		CHECK_EQ(take(cut), cut);
		env.ack = 501;
		CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN - cut);
		CHECK_EQ(last_ack, 500);
		parse();
		CHECK_EQ(h[0].ack, 500);
		finish();
	}
}

/* The rest of a message that is partly out has no header to put it in. */
static void path_tx__ack_is_not_lost_behind_the_rest_of_a_message(void)
{
	for (size_t cut = 1; cut < URDS_HDR_LEN + 20; cut++) {
		begin(false);
		up(false);
		take_all();
		len = 0;
		put(20);
		CHECK_EQ(take(cut), cut);
		env.ack = 500;
		urds_path_tx_want_ack(&t);
		CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN + 20 - cut);
		CHECK_EQ(last_ack, 0);
		CHECK_EQ(take(SIZE_MAX), URDS_HDR_LEN);
		CHECK_EQ(last_ack, 500);
		parse();
		CHECK_EQ(kind(1), URDS_FRAME_ACK);
		finish();
	}
}

static void path_tx__ack_outlives_the_message_that_was_to_carry_it(void)
{
	struct urds_log_freed f;

	begin(false);
	up(false);
	take_all();
	len = 0;
	put(20);
	env.ack = 500;
	urds_path_tx_want_ack(&t);
	CHECK_EQ(take(0), 0); /* the connection is full */
	urds_log_cancel(&t.log, &mem, -1, true, &f);
	CHECK_EQ(f.msgs, 1);
	take_all();
	take_all();
	parse();
	CHECK_EQ(nh, 1);
	CHECK_EQ(kind(0), URDS_FRAME_ACK);
	ack(0);
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(path_tx__nothing_goes_while_down);
	T_RUN(path_tx__dialled_sends_a_probe_and_waits);
	T_RUN(path_tx__accepted_sends_probe_map_and_messages);
	T_RUN(path_tx__probe_says_who_we_are);
	T_RUN(path_tx__only_path_0_sends_maps);
	T_RUN(path_tx__map_goes_when_the_generation_differs);
	T_RUN(path_tx__map_waits_for_the_end_of_a_message);
	T_RUN(path_tx__map_waits_for_the_end_of_a_map);
	T_RUN(path_tx__one_gather_is_enough);
	T_RUN(path_tx__a_full_gather_has_more);
	T_RUN(path_tx__partial_take_at_every_offset);
	T_RUN(path_tx__a_cut_at_every_offset_keeps_the_messages);
	T_RUN(path_tx__ack_alone_only_if_no_message_carries_it);
	T_RUN(path_tx__a_bare_ack_that_waited_is_no_newer_one);
	T_RUN(path_tx__ack_is_not_lost_behind_the_rest_of_a_message);
	T_RUN(path_tx__ack_outlives_the_message_that_was_to_carry_it);
	return t_done();
}
