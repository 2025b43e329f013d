/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connection policy: dialling, knocking, proof of life, backoff, kinds.
 */
#include "peer_test.h"

static void peer__s_dials_holds_and_is_proven(void)
{
	begin(S);
	CHECK(urds_peer_is_idle(&p));
	CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
	SAYS(WANT(0), "dial0");
	SAYS(WANT(0), "");
	CHECK_EQ(urds_peer_deadline(&p, 1), now + URDS_DIAL_TIMEOUT_NS);
	SAYS(DIALLED(0, true), "attach0");
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_HELD);
	CHECK(urds_peer_deadline(&p, 1) ==
	      URDS_NEVER); /* however long it takes: it is not alive yet */
	now += URDS_SEC(60);
	SAYS(TICK(1), "");
	SAYS(HEARD(0), "proven0");
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_UP);
	SAYS(HEARD(0), "");
	CHECK_EQ(mem.bytes, 0); /* one path needs no more memory */
	finish();
}

static void peer__l_knocks_and_is_called_back(void)
{
	begin(L);
	SAYS(WANT(0), "knock0");
	SAYS(DIALLED(0, true), "close");
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_DOWN);
	SAYS(ACCEPTED(40000), "attach0");
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_UP);
	SAYS(HEARD(0), "proven0");
	finish();
}

static void peer__l_accepts_while_its_knock_is_under_way(void)
{
	begin(L);
	SAYS(WANT(0), "knock0");
	SAYS(ACCEPTED(40000), "hangup0 attach0");
	SAYS(DIALLED(0, false), "");
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_UP);
	SAYS(DIALLED(0, true), "close"); /* too late to hang up: it must not linger */
	CHECK_EQ(urds_peer_slot(&p, 0)->state, URDS_SLOT_UP);
	finish();
}

static void peer__l_knocks_again_with_backoff_while_something_waits(void)
{
	unsigned knocks = 0;

	begin(L);
	SAYS(WANT(0), "knock0");
	while (now < T0 + URDS_SEC(10)) {
		SAYS(DIALLED(0, true), "close");
		CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
		now = urds_peer_deadline(&p, 1);
		SAYS(TICK(1), "knock0");
		knocks++;
	}
	CHECK(knocks >= 10 && knocks < 40);
	finish();
}

/* What waits on a further path is a reason to knock as well. */
static void peer__l_knocks_for_any_path(void)
{
	unsigned knocks = 0;

	begin_paths(L, 4);
	connect_0();
	SAYS(PROBED(0, false, &urds8), "kind0 answer0");
	SAYS(DOWN(0), "");
	now += URDS_SEC(1);
	SAYS(WANT(2), "knock0");
	while (now < T0 + URDS_SEC(11)) {
		SAYS(DIALLED(0, knocks & 1), knocks & 1 ? "close" : "");
		now = urds_peer_deadline(&p, 1u << 2);
		SAYS(TICK(1u << 2), "knock0");
		knocks++;
	}
	CHECK(knocks >= 10 && knocks < 40);
	finish();
}

static void peer__s_answers_a_knock_by_dialling(void)
{
	begin(S);
	SAYS(ACCEPTED(40000), "close dial0");
	SAYS(ACCEPTED(40001), "close");
	SAYS(DIALLED(0, false), "");
	now = urds_peer_deadline(&p, 0); /* the knocker has something: it is tried again */
	CHECK(now < T0 + URDS_MS(2));
	SAYS(TICK(0), "dial0");
	finish();
}

static void peer__s_is_not_driven_by_a_storm_of_knocks(void)
{
	unsigned dials = 0;

	begin(S);
	for (; now < T0 + URDS_SEC(10); now += URDS_US(100)) {
		ACCEPTED(40000);
		if (strstr(say(), "dial0")) {
			dials++;
			SAYS(DIALLED(0, false), "");
		}
	}
	CHECK(dials < 40);
	finish();
}

/* L restarted and has something for us, while we still believe in the old connection. */
static void peer__s_challenges_its_connection_when_l_knocks(void)
{
	begin(S);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
	now += URDS_SEC(10);
	SAYS(ACCEPTED(40000), "close probe0");
	SAYS(ACCEPTED(40001), "close"); /* once a second is enough */
	now = urds_peer_deadline(&p, 0);
	CHECK(now <= T0 + URDS_MS(11100));
	SAYS(TICK(0), "check0");
	SAYS(SILENCE(0, URDS_SEC(1)), "drop0");
	SAYS(DOWN(0), "dial0");
	SAYS(DIALLED(0, true), "attach0");
	SAYS(HEARD(0), "proven0");
	while ((now = urds_peer_deadline(&p, 0)) < T0 + URDS_SEC(60))
		TICK(0);
	CHECK(now == URDS_NEVER);
	finish();
}

static void peer__s_keeps_an_answering_connection_when_l_knocks(void)
{
	begin(S);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
	SAYS(ACCEPTED(40000), "close probe0");
	SAYS(PROBED(0, true, &urds1), "");
	now = urds_peer_deadline(&p, 0);
	CHECK(now != URDS_NEVER);
	SAYS(TICK(0), "check0");
	CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
	SAYS(SILENCE(0, URDS_SEC(2)), "");
	finish();
}

static void peer__backoff_grows_with_jitter_and_is_bounded(void)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		urds_ns cur = URDS_RETRY_MIN_NS;
		uint64_t s = seed;

		begin(S);
		SAYS(WANT(0), "dial0");
		for (int i = 0; i < 300; i++) {
			urds_ns at;

			urds_peer_dialled(&p, 0, false, now, seed ? test_rnd(&s) : UINT64_MAX,
					  &out);
			CHECK_EQ(out.n, 0);
			at = urds_peer_deadline(&p, 1);
			CHECK(at >= now + cur / 2 && at <= now + cur);
			now = at - 1;
			SAYS(TICK(1), "");
			now = at;
			SAYS(TICK(1), "dial0");
			cur = cur * 2 > URDS_RETRY_MAX_NS ? URDS_RETRY_MAX_NS : cur * 2;
		}
		finish();
	}
}

static void peer__backoff_ends_with_a_header_not_with_a_connection(void)
{
	begin(S);
	SAYS(WANT(0), "dial0");
	for (int i = 0; i < 15; i++) { /* accept, then reset: like a refused dial (B1) */
		SAYS(DIALLED(0, true), "attach0");
		SAYS(DOWN(0), "");
		now = urds_peer_deadline(&p, 1);
		SAYS(TICK(1), "dial0");
	}
	CHECK(urds_peer_slot(&p, 0)->tries == 15);
	SAYS(DIALLED(0, true), "attach0");
	SAYS(HEARD(0), "proven0");
	SAYS(DOWN(0), "dial0"); /* it lived: again at once */
	SAYS(DIALLED(0, false), "");
	CHECK(urds_peer_deadline(&p, 0) <= now + URDS_RETRY_MIN_NS);
	finish();
}

static void peer__dial_without_an_answer_is_given_up(void)
{
	begin(S);
	SAYS(WANT(0), "dial0");
	now += URDS_DIAL_TIMEOUT_NS - 1;
	SAYS(TICK(1), "");
	now++;
	SAYS(TICK(1), "hangup0");
	now = urds_peer_deadline(&p, 1);
	SAYS(TICK(1), "dial0");
	finish();
}

static void peer__l_gives_s_a_head_start_after_a_loss(void)
{
	begin(L);
	connect_0();
	SAYS(DOWN(0), "");
	CHECK(urds_peer_deadline(&p, 0) == URDS_NEVER);
	CHECK(urds_peer_deadline(&p, 1) >= now + URDS_MS(50));
	SAYS(WANT(0), "");
	now = urds_peer_deadline(&p, 1);
	SAYS(TICK(1), "knock0");
	finish();
}

static void peer__s_reconnects_an_idle_peer_for_a_while_only(void)
{
	unsigned dials = 0;

	begin(S);
	connect_0();
	SAYS(DOWN(0), "dial0");
	for (;;) {
		urds_ns d;

		SAYS(DIALLED(0, false), "");
		d = urds_peer_deadline(&p, 0);
		if (d == URDS_NEVER)
			break;
		CHECK(d > now);
		now = d + URDS_MS(300); /* however late we are called */
		SAYS(TICK(0), "dial0");
		dials++;
	}
	CHECK(now > T0 + URDS_SEC(59) && now < T0 + URDS_SEC(62));
	CHECK(dials > 30);
	SAYS(WANT(0), "");
	now += URDS_SEC(5);
	SAYS(WANT(0), "dial0");
	finish();
}

static void peer__kinds_by_probe_and_answer(void)
{
	static const struct {
		const struct urds_probe *first, *second;
		const char *says1, *says2;
		uint8_t kind;
		bool answer1, answer2;
	} rows[] = {
		{&k61, &k61, "kind0 answer0", "", URDS_KIND_KERNEL, false, true},
		{&k61, &k61, "kind0", "answer0", URDS_KIND_KERNEL, true, false},
		{&urds1, &urds1, "kind0 answer0", "", URDS_KIND_URDS, false, true},
		{&urds1, &urds1, "kind0", "answer0", URDS_KIND_URDS, true, false},
		{&k61, &urds1, "kind0 answer0", "kind0", URDS_KIND_URDS, false, true},
		{&urds1, &k61, "kind0 answer0", "", URDS_KIND_URDS, false, true},
		/* a second incarnation on one connection is nobody's */
		{&urds1, &urds2, "kind0 answer0", "answer0", URDS_KIND_URDS, false, false},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		begin(L);
		connect_0();
		SAYS(PROBED(0, rows[i].answer1, rows[i].first), rows[i].says1);
		SAYS(PROBED(0, rows[i].answer2, rows[i].second), rows[i].says2);
		CHECK_EQ(urds_peer_slot(&p, 0)->kind, rows[i].kind);
		finish();
	}
}

static void peer__kind_ends_with_the_connection(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40008), "attach0");
	CHECK_EQ(urds_peer_slot(&p, 0)->kind, URDS_KIND_UNKNOWN);
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, true, &urds1), "kind0");
	finish();
}

static void peer__silent_for_two_seconds_is_a_kernel(void)
{
	begin(L);
	SAYS(ACCEPTED(40000), "attach0");
	now += URDS_ACCEPT_SILENT_NS;
	SAYS(TICK(1), "proven0");
	CHECK(urds_peer_deadline(&p, 1) == URDS_NEVER); /* not before its first header */
	now += URDS_SEC(9);
	SAYS(HEARD(0), "");
	CHECK_EQ(urds_peer_deadline(&p, 1), now + URDS_KIND_SILENT_NS);
	now += URDS_KIND_SILENT_NS;
	SAYS(TICK(1), "kind0");
	CHECK_EQ(urds_peer_slot(&p, 0)->kind, URDS_KIND_KERNEL);
	CHECK(urds_peer_deadline(&p, 1) == URDS_NEVER);
	finish();
}

/* It has no memory for its probe yet: TCP's word must not be taken for its own meanwhile. */
static void peer__known_urds_peer_is_not_taken_for_a_kernel_so_soon(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40008), "attach0");
	SAYS(HEARD(0), "proven0");
	now += URDS_SEC(20);
	SAYS(TICK(1), "");
	CHECK(urds_peer_deadline(&p, 1) > now);
	SAYS(PROBED(0, false, &urds1), "kind0 answer0");
	finish();
}

/* It says which path it is with its first probe; a kernel may have nothing to say. */
static void peer__l_speaks_after_the_other_end(void)
{
	begin(L);
	SAYS(ACCEPTED(40000), "attach0");
	CHECK(urds_peer_slot(&p, 0)->is_held);
	SAYS(HEARD_PROBE(0), "");
	CHECK(urds_peer_slot(&p, 0)->is_held);
	SAYS(PROBED(0, false, &urds1), "kind0 proven0 answer0");
	CHECK(!urds_peer_slot(&p, 0)->is_held);
	SAYS(DOWN(0), "");
	/* Known as urds: it will speak. */
	SAYS(ACCEPTED(40008), "attach0");
	CHECK_EQ(urds_peer_deadline(&p, 0), now + URDS_DEAD_NS);
	now += URDS_DEAD_NS - 1;
	SAYS(TICK(0), "");
	now++;
	SAYS(TICK(0), "proven0");
	finish();

	begin(L);
	SAYS(ACCEPTED(40000), "attach0");
	CHECK_EQ(urds_peer_deadline(&p, 0), now + URDS_ACCEPT_SILENT_NS);
	SAYS(DOWN(0), "");
	CHECK(!urds_peer_slot(&p, 0)->is_held);
	finish();
}

/* Those on the new path would overtake those on the old. */
static void peer__more_paths_are_used_when_nothing_is_on_the_way(void)
{
	unsigned port = 4001;

	begin_paths(S, 8);
	connect_0();
	CHECK_EQ(urds_peer_slot_for(&p, 4001, 1), 0);
	PROBED(0, true, &urds8);
	while (urds_peer_slot_for(&p, (uint16_t)port, 1) == 0 && port < 5000)
		port++;
	CHECK_EQ(port, 5000);
	while (urds_peer_slot_for(&p, (uint16_t)port, 0) == 0)
		port++;
	CHECK(urds_peer_slot_for(&p, (uint16_t)port, 1) > 0);
	/* Fewer: at once. */
	PROBED(0, true, &urds1);
	CHECK_EQ(urds_peer_slot_for(&p, (uint16_t)port, 1), 0);
	finish();
}

static void peer__new_incarnation_is_announced_once(void)
{
	begin(L);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40008), "attach0");
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, false, &urds2), "restarted0 kind0 answer0");
	SAYS(PROBED(0, true, &urds2), "");
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40008), "attach0");
	SAYS(PROBED(0, true, &urds2), "kind0 proven0");
	finish();
}

static void peer__extension_off_means_kernel(void)
{
	struct urds_addr low = addr_of(1), high = addr_of(2);
	struct urds_probe us;

	begin(L);
	urds_peer_init(&p, &mem.m, &high, &low, 1, false);
	urds_peer_probe(&p, 5, &us);
	CHECK(!us.has_urds && !us.has_npaths && us.has_sport_idx);
	CHECK_EQ(us.npaths, 1);
	connect_0();
	SAYS(PROBED(0, true, &urds1), "kind0");
	CHECK_EQ(urds_peer_slot(&p, 0)->kind, URDS_KIND_KERNEL);
	finish();
	begin(S);
	urds_peer_probe(&p, 5, &us);
	CHECK(us.has_urds);
	CHECK_EQ(us.incarnation, 5);
	CHECK(us.has_npaths);
	CHECK_EQ(us.npaths, 1);
	finish();
}

/* S restarts with one path; L, which knows of four, must not send on those that S does not open any more. */
static void peer__l_learns_that_s_has_fewer_paths(void)
{
	struct urds_probe four, one;

	begin_paths(S, 4);
	urds_peer_probe(&p, 11, &four);
	finish();
	begin_paths(S, 1);
	urds_peer_probe(&p, 22, &one);
	finish();
	begin_paths(L, 4);
	connect_0();
	SAYS(PROBED(0, false, &four), "kind0 answer0");
	CHECK(SLOT_FOR(4001) || SLOT_FOR(4002));
	SAYS(DOWN(0), "");
	SAYS(ACCEPTED(40008), "attach0");
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(0, false, &one), "restarted0 kind0 answer0");
	for (unsigned port = 2; port < 1000; port++)
		CHECK_EQ(SLOT_FOR(port), 0);
	finish();
}

static void peer__silence_of_25_s_is_death(void)
{
	begin(S);
	SAYS(SILENCE(0, URDS_SEC(100)), "");
	connect_0();
	SAYS(SILENCE(0, URDS_DEAD_NS - 1), "");
	SAYS(SILENCE(0, URDS_DEAD_NS), "drop0");
	SAYS(DOWN(0), "dial0");
	SAYS(SILENCE(0, URDS_DEAD_NS), "");
	SAYS(DIALLED(0, true), "attach0");
	SAYS(SILENCE(0, URDS_DEAD_NS), "drop0");
	finish();
}

static void peer__with_itself(void)
{
	begin(SELF);
	CHECK(urds_peer_is_self(&p));
	SAYS(WANT(0), "dial0");
	SAYS(ACCEPTED(40000), "attach1");
	SAYS(DIALLED(0, true), "attach0");
	SAYS(HEARD(1), "");
	SAYS(HEARD(0), "proven0");
	SAYS(PROBED(1, false, &urds1), "kind1 answer1");
	SAYS(PROBED(0, true, &urds1), "kind0");
	CHECK_EQ(SLOT_FOR(4000), 0);
	SAYS(DOWN(0), "dial0");
	SAYS(DOWN(1), "");
	SAYS(DIALLED(0, false), "");
	/* A pong waits on slot 1: the one who dials is slot 0. */
	now = urds_peer_deadline(&p, 2);
	CHECK(now != URDS_NEVER);
	SAYS(TICK(2), "dial0");
	SAYS(WANT(1), "");
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(peer__s_dials_holds_and_is_proven);
	T_RUN(peer__l_knocks_and_is_called_back);
	T_RUN(peer__l_accepts_while_its_knock_is_under_way);
	T_RUN(peer__l_knocks_again_with_backoff_while_something_waits);
	T_RUN(peer__l_knocks_for_any_path);
	T_RUN(peer__s_answers_a_knock_by_dialling);
	T_RUN(peer__s_is_not_driven_by_a_storm_of_knocks);
	T_RUN(peer__s_challenges_its_connection_when_l_knocks);
	T_RUN(peer__s_keeps_an_answering_connection_when_l_knocks);
	T_RUN(peer__backoff_grows_with_jitter_and_is_bounded);
	T_RUN(peer__backoff_ends_with_a_header_not_with_a_connection);
	T_RUN(peer__dial_without_an_answer_is_given_up);
	T_RUN(peer__l_gives_s_a_head_start_after_a_loss);
	T_RUN(peer__s_reconnects_an_idle_peer_for_a_while_only);
	T_RUN(peer__kinds_by_probe_and_answer);
	T_RUN(peer__kind_ends_with_the_connection);
	T_RUN(peer__silent_for_two_seconds_is_a_kernel);
	T_RUN(peer__known_urds_peer_is_not_taken_for_a_kernel_so_soon);
	T_RUN(peer__l_speaks_after_the_other_end);
	T_RUN(peer__more_paths_are_used_when_nothing_is_on_the_way);
	T_RUN(peer__new_incarnation_is_announced_once);
	T_RUN(peer__extension_off_means_kernel);
	T_RUN(peer__l_learns_that_s_has_fewer_paths);
	T_RUN(peer__silence_of_25_s_is_death);
	T_RUN(peer__with_itself);
	return t_done();
}
