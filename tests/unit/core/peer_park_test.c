/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Further connections of a peer: parking, challenge, promotion; several paths; random histories.
 */
#include "peer_test.h"

/* L with one proven urds connection on slot 0; all further ones to it come from port 40000. */
static void begin_l(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
}

static void to_deadline(void)
{
	urds_ns d = urds_peer_deadline(&p, 0);

	CHECK(d != URDS_NEVER && d > now);
	now = d;
}

static void peer_park__answered_challenge_evicts_after_5_s(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(PROBED(0, true, &urds1), "");
	for (to_deadline(); now < T0 + URDS_CHALLENGE_END_NS; to_deadline())
		SAYS(TICK(0), "check0");
	SAYS(TICK(0), "check0 evict0");
	CHECK(now < T0 + URDS_CHALLENGE_END_NS + URDS_SEC(2));
	CHECK_EQ(mem.blocks, 0);
	CHECK(!p.parked);
	CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
	finish();
}

static void peer_park__reset_promotes_at_once(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(DOWN(0), "promote0:0");
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_UP);
	CHECK_EQ(urds_peer_slot(&p, 0)->kind, URDS_KIND_UNKNOWN);
	CHECK(!p.parked);
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, false, &urds1), "kind0 answer0");
	finish();
}

static void peer_park__silent_for_1_s_is_dropped_and_replaced(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(SILENCE(0, URDS_SEC(9)),
	     ""); /* it was idle: only what it says to the challenge counts */
	to_deadline();
	CHECK(now <= T0 + URDS_MS(1200));
	SAYS(TICK(0), "check0");
	SAYS(SILENCE(0, now - T0), "drop0");
	SAYS(DOWN(0), "promote0:0");
	CHECK_EQ(urds_peer_deadline(&p, 0), now + URDS_DEAD_NS); /* it will speak */
	finish();
}

static void peer_park__stopped_process_stays_and_so_does_the_parked(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	for (int i = 0; i < 60; i++) {
		to_deadline();
		SAYS(TICK(0), "check0");
		SAYS(SILENCE(0, URDS_MS(300)), "");
	}
	CHECK(now > T0 + URDS_SEC(55));
	SAYS(PROBED(0, true, &urds1), ""); /* it was continued */
	to_deadline();
	SAYS(TICK(0), "check0 evict0");
	finish();
}

static void peer_park__one_that_comes_after_the_answers_gets_its_own_challenge(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0"); /* a stray */
	SAYS(PROBED(0, true, &urds1), "");
	to_deadline();
	SAYS(TICK(0), "check0");
	to_deadline();
	SAYS(TICK(0), "check0");
	/* Now the connection dies without a word, and its owner comes back. */
	SAYS(ACCEPTED(40000), "park1 probe0");
	to_deadline();
	SAYS(TICK(0), "check0");
	SAYS(SILENCE(0, URDS_SEC(1)), "drop0");
	SAYS(DOWN(0), "promote0:0 probe0"); /* in order: the stray first, which says nothing */
	for (to_deadline(); p.parked; to_deadline()) {
		TICK(0);
		if (strstr(say(), "drop0"))
			SAYS(DOWN(0), "promote0:1");
		if (!p.parked)
			break;
	}
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, true, &urds1), "kind0");
	while (p.parked) {
		to_deadline();
		TICK(0);
	}
	say();
	CHECK(now < T0 + URDS_SEC(7));
	finish();
}

/* A program on the peer's host connects and holds; then the real connection breaks. */
static void peer_park__stranger_without_a_header_gives_way(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(DOWN(0), "promote0:0");
	SAYS(ACCEPTED(40000), "park0 probe0");
	for (to_deadline(); now < T0 + URDS_STRANGER_NS; to_deadline())
		SAYS(TICK(0), "check0");
	SAYS(TICK(0), "drop0");
	SAYS(DOWN(0), "promote0:0");
	CHECK(now < T0 + URDS_STRANGER_NS + URDS_SEC(2));
	SAYS(HEARD(0), "proven0");
	finish();
}

static void peer_park__promoted_in_order_of_arrival(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(ACCEPTED(40000), "park1");
	urds_peer_unparked(&p, 0);
	SAYS(ACCEPTED(40000), "park0");
	SAYS(DOWN(0), "promote0:1 probe0");
	SAYS(HEARD(0), "proven0");
	SAYS(DOWN(0), "promote0:0");
	finish();
}

static void peer_park__parked_are_bounded(void)
{
	begin_l();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(ACCEPTED(40000), "park1");
	for (unsigned i = 2; i < URDS_PARKED_MAX; i++) {
		ACCEPTED(40000);
		CHECK_EQ(out.n, 1);
		out.n = 0;
	}
	SAYS(ACCEPTED(40000), "close");
	urds_peer_unparked(&p, 3);
	SAYS(ACCEPTED(40000), "park3");
	for (unsigned i = 0; i < URDS_PARKED_MAX; i++)
		urds_peer_unparked(&p, i);
	CHECK(!p.parked);
	CHECK_EQ(mem.bytes, 7 * sizeof(struct urds_slot) * (p.more != NULL));
	CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
	SAYS(SILENCE(0, URDS_SEC(3)), ""); /* the challenge is over */
	finish();
}

/* A stranger's: all go, some at a time. */
static void peer_park__many_are_evicted_in_small_parts(void)
{
	unsigned gone = 0;

	begin_l();
	for (unsigned i = 0; i < URDS_PARKED_MAX; i++) {
		ACCEPTED(40000);
		out.n = 0;
	}
	now++;
	SAYS(PROBED(0, true, &urds1), "");
	while (p.parked) {
		unsigned n = 0;

		to_deadline();
		TICK(0);
		for (size_t i = 0; i < out.n; i++)
			n += out.v[i].act == URDS_ACT_EVICT;
		out.n = 0;
		CHECK(n <= URDS_EVICT_MAX);
		gone += n;
	}
	CHECK_EQ(gone, URDS_PARKED_MAX);
	CHECK(now < T0 + URDS_CHALLENGE_END_NS + URDS_SEC(2));
	CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
	finish();
}

static void peer_park__no_memory_to_park_closes(void)
{
	begin_l();
	mem.fail_all = true;
	SAYS(ACCEPTED(40000), "close");
	mem.fail_all = false;
	finish();
}

/* Which path a further connection is, a K61 does not say: it is a new one if all that we have have lived on for
 * 5 s. Answers do not count: one may be that to an earlier probe. */
static void peer_park__eight_paths_of_a_kernel_in_order_of_arrival(void)
{
	unsigned promoted = 0;

	begin(L);
	connect_0();
	SAYS(PROBED(0, false, &k61), "kind0 answer0");
	SAYS(ACCEPTED(50003), "park0 probe0");
	SAYS(PROBED(0, true, &k61), "");
	now++;
	SAYS(ACCEPTED(50006), "park1 probe0");
	for (unsigned i = 3; i < URDS_PATHS_MAX; i++)
		ACCEPTED(50000);
	out.n = 0;
	for (to_deadline(); p.parked; to_deadline()) {
		SILENCE(0, 0);
		TICK(0);
		for (unsigned i = 0; i < out.n; i++) {
			if (out.v[i].act != URDS_ACT_PROMOTE)
				continue;
			CHECK(now >= T0 + URDS_CHALLENGE_END_NS);
			CHECK_EQ(out.v[i].slot, ++promoted);
			CHECK_EQ(out.v[i].k, promoted - 1);
		}
		out.n = 0;
		if (!p.parked)
			break;
	}
	CHECK_EQ(promoted, 7);
	SAYS(ACCEPTED(40000), "park0 probe0 probe1 probe2 probe3 probe4 probe5 probe6 probe7");
	CHECK_EQ(SLOT_FOR(4000), 0);
	SAYS(DOWN(5), "promote5:0");
	finish();
}

/* One path, half-open: its successor must not become a second path. */
static void peer_park__successor_of_a_dead_path_takes_its_slot(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, false, &k61), "kind0 answer0");
	SAYS(ACCEPTED(50003), "park0 probe0");
	SAYS(DOWN(0), "promote0:0");
	CHECK_EQ(urds_peer_slot(&p, 1)->state, URDS_SLOT_DOWN);
	finish();
}

/* ping_enable = 0: nothing is ever answered, but TCP acknowledges. */
static void peer_park__further_path_of_a_kernel_that_answers_no_pings(void)
{
	begin(L);
	connect_0();
	SAYS(ACCEPTED(50003), "park0 probe0");
	for (to_deadline(); now < T0 + URDS_CHALLENGE_END_NS; to_deadline()) {
		TICK(0);
		CHECK(!strstr(say(), "promote"));
		SAYS(SILENCE(0, 0), "");
	}
	SAYS(TICK(0), "check0 promote1:0");
	finish();
}

/* Another program on the peer's host claims to be its next life. */
static void peer_park__new_incarnation_beside_a_live_one_is_dropped(void)
{
	begin_l();
	p.npaths = 8; /* it makes as many: slot 3 is one of them, and free */
	SAYS(ACCEPTED(40003), "attach3");
	SAYS(HEARD(3), "proven3");
	SAYS(PROBED(3, false, &urds2), "undo3 drop3 probe0 probe3");
	SAYS(DOWN(3), "");
	CHECK_EQ(p.incarnation, 11);
	SAYS(PROBED(0, true, &urds1), "");
	/* It was the truth: the old connection is dead. */
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40008), "attach0");
	SAYS(PROBED(0, false, &urds2), "restarted0 kind0 proven0 answer0");
	finish();
}

static void peer_park__source_port_picks_the_slot(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, false, &k7), "kind0 answer0");
	SAYS(ACCEPTED(40003), "attach3");
	SAYS(ACCEPTED(40003), "park0 probe0 probe3");
	SAYS(ACCEPTED(40007), "attach7");
	SAYS(DOWN(0), ""); /* what is parked for slot 3 does not take slot 0 */
	SAYS(DOWN(3), "promote3:0");
	finish();
}

/* Our restart: paths of a peer that encodes them come back in any order, before we know that it does. */
static void peer_park__path_in_the_wrong_slot_is_dropped_once_known(void)
{
	begin(L);
	SAYS(ACCEPTED(40003), "attach0");
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, false, &k7), "kind0 undo0 drop0");
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40003), "attach3");
	SAYS(ACCEPTED(40000), "attach0");
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, false, &k7), "kind0 answer0");
	finish();
}

/* Our restart, as above; two others came meanwhile. */
static void peer_park__what_waited_for_the_misplaced_goes_where_it_belongs(void)
{
	begin_paths(L, 8);
	SAYS(ACCEPTED(40003), "attach0");
	SAYS(ACCEPTED(40002), "park0 probe0");
	SAYS(ACCEPTED(40000), "park1");
	SAYS(HEARD_PROBE(0), ""); /* nothing goes out on it */
	SAYS(PROBED(0, false, &urds8), "kind0 undo0 drop0");
	SAYS(DOWN(0), "promote0:1 promote2:0");
	finish();
}

/* A K61 host took the address of a peer that encoded its paths. */
static void peer_park__source_ports_mean_nothing_any_more(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, false, &k7), "kind0 answer0");
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40003), "attach3");
	SAYS(HEARD(3), "proven3");
	SAYS(PROBED(3, true, &k61), "kind3 undo3 drop3"); /* we send on slot 0 */
	SAYS(DOWN(3), "");
	SAYS(ACCEPTED(40005), "attach0");
	finish();
}

static void peer_park__s_opens_further_paths_once_both_want_them(void)
{
	begin_paths(S, 8);
	connect_0();
	SAYS(PROBED(0, true, &k61), "kind0"); /* it cannot tell them apart: one path (A6) */
	CHECK_EQ(SLOT_FOR(4711), 0);
	finish();

	begin_paths(S, 4);
	connect_0();
	SAYS(PROBED(0, true, &urds8), "kind0 dial1 dial2 dial3");
	finish();
}

static void peer_park__further_path_that_stays_silent(void)
{
	begin_paths(S, 2);
	connect_0();
	SAYS(PROBED(0, true, &k7), "kind0 dial1");
	SAYS(DIALLED(1, true), "attach1");
	CHECK_EQ(urds_peer_deadline(&p, 0), now + URDS_PROOF_SILENT_NS);
	now += URDS_PROOF_SILENT_NS;
	SAYS(TICK(0), "proven1");
	finish();
}

static void peer_park__slots_are_spread_and_bounded(void)
{
	for (unsigned n = 0; n <= 9; n++) {
		unsigned used = 0, limit = n >= 8 ? 8 : n >= 4 ? 4 : n >= 2 ? 2 : 1;
		struct urds_probe pr = urds8;

		pr.npaths = (uint16_t)n;
		begin_paths(S, 8);
		connect_0();
		PROBED(0, true, &pr);
		for (unsigned port = 2; port < 4000; port++) {
			unsigned slot = SLOT_FOR(port);

			CHECK(slot < limit);
			used |= 1u << slot;
		}
		CHECK_EQ(used, (1u << limit) - 1);
		finish();
	}
}

/* Whatever happens: a tick at the deadline acts, or moves the deadline on; actions fit; numbers are sane. */
static void peer_park__deadline_is_followed_by_progress(void)
{
	static const struct urds_probe *const probes[] = {&k61, &k7, &urds1, &urds2, &urds8};

	for (uint64_t seed = 0; seed < 3000; seed++) {
		uint64_t s = seed;

		begin_paths((enum who)(seed % 3), (unsigned[]){1, 2, 8}[seed / 3 % 3]);
		for (int step = 0; step < 120; step++) {
			unsigned slot = test_below(&s, 3) ? 0 : test_below(&s, 8);
			unsigned pending = test_below(&s, 3) ? 0 : 1u << slot, state;
			urds_ns d;

			out.n = 0;
			state = urds_peer_slot(&p, slot)->state;
			switch (test_below(&s, 8)) {
			case 0:
				WANT(slot);
				break;
			case 1:
				if (state == URDS_SLOT_DIALLING || state == URDS_SLOT_KNOCKING)
					urds_peer_dialled(&p, slot, test_below(&s, 2), now,
							  test_rnd(&s), &out);
				break;
			case 2:
				ACCEPTED((uint16_t)(40000 + test_below(&s, 8)));
				break;
			case 3:
				if (state >= URDS_SLOT_HELD)
					HEARD(slot);
				break;
			case 4:
				if (state >= URDS_SLOT_HELD) {
					HEARD(slot);
					PROBED(slot, test_below(&s, 2), probes[test_below(&s, 5)]);
				}
				break;
			case 5:
				if (state >= URDS_SLOT_HELD)
					urds_peer_down(&p, slot, now, test_rnd(&s), &out);
				break;
			case 6:
				SILENCE(slot, URDS_MS(test_below(&s, 3000)));
				break;
			case 7:
				if (p.parked && p.parked[slot].is_used)
					urds_peer_unparked(&p, slot);
				break;
			}
			d = urds_peer_deadline(&p, pending);
			now += URDS_US(test_below(&s, 100));
			if (test_below(&s, 2) || d == URDS_NEVER)
				continue;
			if (d > now)
				now = d + URDS_MS(test_below(&s, 3) ? 0 : test_below(&s, 2000));
			out.n = 0;
			urds_peer_tick(&p, pending, now, test_rnd(&s), &out);
			if (out.n == 0 && urds_peer_deadline(&p, pending) <= now)
				T_FAIL("seed %" PRIu64
				       " step %d: the tick did nothing and is due again",
				       seed, step);
			/* Not twice in a row for ever either. */
			for (int i = 0; urds_peer_deadline(&p, pending) <= now; i++) {
				CHECK(i < 3);
				out.n = 0;
				urds_peer_tick(&p, pending, now, test_rnd(&s), &out);
			}
		}
		finish();
	}
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(peer_park__answered_challenge_evicts_after_5_s);
	T_RUN(peer_park__reset_promotes_at_once);
	T_RUN(peer_park__silent_for_1_s_is_dropped_and_replaced);
	T_RUN(peer_park__stopped_process_stays_and_so_does_the_parked);
	T_RUN(peer_park__one_that_comes_after_the_answers_gets_its_own_challenge);
	T_RUN(peer_park__stranger_without_a_header_gives_way);
	T_RUN(peer_park__promoted_in_order_of_arrival);
	T_RUN(peer_park__parked_are_bounded);
	T_RUN(peer_park__many_are_evicted_in_small_parts);
	T_RUN(peer_park__no_memory_to_park_closes);
	T_RUN(peer_park__eight_paths_of_a_kernel_in_order_of_arrival);
	T_RUN(peer_park__successor_of_a_dead_path_takes_its_slot);
	T_RUN(peer_park__further_path_of_a_kernel_that_answers_no_pings);
	T_RUN(peer_park__new_incarnation_beside_a_live_one_is_dropped);
	T_RUN(peer_park__source_port_picks_the_slot);
	T_RUN(peer_park__path_in_the_wrong_slot_is_dropped_once_known);
	T_RUN(peer_park__what_waited_for_the_misplaced_goes_where_it_belongs);
	T_RUN(peer_park__source_ports_mean_nothing_any_more);
	T_RUN(peer_park__s_opens_further_paths_once_both_want_them);
	T_RUN(peer_park__further_path_that_stays_silent);
	T_RUN(peer_park__slots_are_spread_and_bounded);
	T_RUN(peer_park__deadline_is_followed_by_progress);
	return t_done();
}
