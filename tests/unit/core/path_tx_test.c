/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The transmit half of a path: order of probe, map, ack and messages.
 */
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

static void begin(bool sends_map)
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

static void finish(void)
{
	urds_path_tx_fini(&t);
	CHECK_EQ(mem.bytes, 0);
	CHECK_EQ(mem.blocks, 0);
}

/* @alone: in a buffer of its own. */
static uint64_t put_in(uint32_t n, bool alone)
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

static uint64_t put(uint32_t n)
{
	return put_in(n, false);
}

static struct urds_tx_done done;

static size_t take(size_t max)
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

static void take_all(void)
{
	while (take(SIZE_MAX) > 0)
		;
}

/* As who drives it does: until it says that no more is due. */
static void take_due(void)
{
	while (take(SIZE_MAX) > 0 && urds_path_tx_has_more(&t, &env))
		;
}

/* What is on the wire, as headers. */
static void parse(void)
{
	size_t at = 0;

	for (nh = 0; len - at >= URDS_HDR_LEN; nh++) {
		urds_hdr_load(&h[nh], wire + at);
		at += URDS_HDR_LEN + h[nh].len;
		CHECK(at <= len);
	}
	CHECK_EQ(at, len);
}

static void up(bool dialled)
{
	len = 0;
	urds_path_tx_up(&t, dialled ? URDS_HOLD_MESSAGES : URDS_HOLD_NOTHING, &us);
}

static void ack(uint64_t seq)
{
	struct urds_log_freed_list f;

	while (urds_log_ack_seq(&t.log, seq, &f))
		;
	urds_path_tx_freed(&t, &f);
}

static enum urds_frame_kind kind(size_t i)
{
	return urds_hdr_kind(&h[i], true);
}

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
	T_RUN(path_tx__uncertain_dialler_sends_a_flagged_probe_and_waits);
	T_RUN(path_tx__accepted_says_nothing_before_it_is_proven);
	T_RUN(path_tx__a_waiting_probe_is_not_doubled);
	T_RUN(path_tx__a_probe_that_was_out_is_replaced_by_a_new_one);
	T_RUN(path_tx__nothing_of_ours_keeps_a_further_path_alive);
	T_RUN(path_tx__probe_number_follows_the_acknowledged);
	T_RUN(path_tx__no_memory_for_the_probe_holds_the_messages);
	T_RUN(path_tx__ack_alone_only_if_no_message_carries_it);
	T_RUN(path_tx__a_bare_ack_that_waited_is_no_newer_one);
	T_RUN(path_tx__ack_is_not_lost_behind_the_rest_of_a_message);
	T_RUN(path_tx__ack_outlives_the_message_that_was_to_carry_it);
	T_RUN(path_tx__pongs_are_bounded_and_come_back);
	T_RUN(path_tx__a_flood_of_probes_costs_bounded_memory);
	T_RUN(path_tx__of_what_is_kept_probes_and_answers_are_forgotten);
	T_RUN(path_tx__post_without_memory_says_so);
	return t_done();
}
