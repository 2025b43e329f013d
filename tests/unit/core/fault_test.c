/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The last fault of a peer: what core itself notes, rows of the same, what ends them.
 */
#include "peer_test.h"

static void fault__same_ones_are_counted_others_replace(void)
{
	struct urds_fault_note f = {0};

	urds_fault_note(&f, URDS_FAULT_DIAL, -URDS_ECONNREFUSED, 100);
	urds_fault_note(&f, URDS_FAULT_DIAL, URDS_ECONNREFUSED, 250);
	CHECK(f.since == 100 && f.last == 250 && f.count == 2);
	CHECK(f.kind == URDS_FAULT_DIAL && f.detail == URDS_ECONNREFUSED && !f.is_over);
	urds_fault_note(&f, URDS_FAULT_DIAL, -URDS_EUNREACH, 300);
	CHECK(f.since == 300 && f.count == 1 && f.detail == URDS_EUNREACH);
	f.is_over = true;
	urds_fault_note(&f, URDS_FAULT_DIAL, -URDS_EUNREACH, 400);
	CHECK(f.since == 400 && f.count == 1 && !f.is_over); /* another row of it */
	f.count = UINT32_MAX;
	urds_fault_note(&f, URDS_FAULT_DIAL, -URDS_EUNREACH, 500);
	CHECK(f.count == UINT32_MAX);
}

static void fault__silence_is_dated_from_its_beginning(void)
{
	struct urds_fault_note f = {0};

	urds_fault_note_silence(&f, URDS_FAULT_NO_ANSWER, URDS_SEC(5), URDS_SEC(105));
	urds_fault_note_silence(&f, URDS_FAULT_NO_ANSWER, URDS_MS(5010), URDS_SEC(111));
	CHECK(f.since == URDS_SEC(100) && f.last == URDS_SEC(111) && f.count == 2);
	CHECK_EQ(f.detail, 501);
	urds_fault_note_silence(&f, URDS_FAULT_DEAD, URDS_SEC(1000000),
				URDS_SEC(200)); /* longer than we are there */
	CHECK(f.since == 0 && f.detail == UINT16_MAX && f.count == 1);
}

static void fault__dial_without_an_answer(void)
{
	for (enum who who = S; who <= L; who++) {
		begin(who);
		WANT(0);
		CHECK_EQ(p.fault.kind, URDS_FAULT_NONE);
		now += URDS_DIAL_TIMEOUT_NS;
		TICK(1);
		CHECK(p.fault.kind == URDS_FAULT_NO_ANSWER && p.fault.since == T0 &&
		      p.fault.count == 1);
		CHECK_EQ(p.fault.detail, URDS_DIAL_TIMEOUT_NS / URDS_MS(10));
		out.n = 0;
		finish();
	}
}

static void fault__death_is_noted_and_a_header_ends_it(void)
{
	begin(S);
	connect_0();
	CHECK_EQ(p.fault.kind, URDS_FAULT_NONE);
	now += URDS_SEC(60);
	SAYS(SILENCE(0, URDS_DEAD_NS - 1), "");
	CHECK_EQ(p.fault.kind, URDS_FAULT_NONE);
	SAYS(SILENCE(0, URDS_DEAD_NS), "drop0");
	CHECK(p.fault.kind == URDS_FAULT_DEAD && p.fault.detail == 2500);
	CHECK(p.fault.since == now - URDS_DEAD_NS && !p.fault.is_over);
	SAYS(DOWN(0), "dial0");
	SAYS(DIALLED(0, true), "attach0");
	CHECK(!p.fault.is_over); /* a connection is not yet a sign of life */
	SAYS(HEARD(0), "proven0");
	CHECK(p.fault.kind == URDS_FAULT_DEAD && p.fault.is_over);
	finish();
}

static void fault__mute_stranger(void)
{
	begin(L);
	connect_0();
	SAYS(ACCEPTED(40000), "park0 probe0");
	SAYS(DOWN(0), "promote0:0");
	SAYS(ACCEPTED(40000), "park0 probe0");
	while (p.fault.kind == URDS_FAULT_NONE && now < T0 + URDS_SEC(60)) {
		now = urds_peer_deadline(&p, 0);
		TICK(0);
	}
	say();
	CHECK(strcmp(words, "drop0") == 0 || strstr(words, " drop0"));
	CHECK_EQ(p.fault.kind, URDS_FAULT_MUTE);
	finish();
}

static void fault__misplaced(void)
{
	begin(L);
	ACCEPTED(40001); /* on slot 0, and its probe says that source ports are slots */
	HEARD_PROBE(0);
	out.n = 0;
	PROBED(0, false, &urds8);
	CHECK(strstr(say(), "undo0 drop0") != NULL);
	CHECK_EQ(p.fault.kind, URDS_FAULT_MISPLACED);
	finish();
}

static void fault__version_of_an_urds_end(void)
{
	begin(L);
	connect_0();
	CHECK_EQ(p.version, 0);
	PROBED(0, false, &urds1);
	CHECK_EQ(p.version, 1);
	out.n = 0;
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(fault__same_ones_are_counted_others_replace);
	T_RUN(fault__silence_is_dated_from_its_beginning);
	T_RUN(fault__dial_without_an_answer);
	T_RUN(fault__death_is_noted_and_a_header_ends_it);
	T_RUN(fault__mute_stranger);
	T_RUN(fault__misplaced);
	T_RUN(fault__version_of_an_urds_end);
	return t_done();
}
