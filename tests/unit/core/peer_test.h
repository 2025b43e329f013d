/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A peer under test: events as calls, actions as words ("dial0 park2"), so that a case reads as a table.
 */
#ifndef URDS_TESTS_PEER_TEST_H
#define URDS_TESTS_PEER_TEST_H

#include "core/peer.h"
#include "test_mem.h"
#include "../../tap.h"

#define T0 URDS_SEC(100)

static struct test_mem mem;
static struct urds_peer p;
static struct urds_peer_out out;
static urds_ns now;
static char words[1024];

enum who { S, L, SELF };

static inline struct urds_addr addr_of(uint8_t last)
{
	struct urds_addr a = {.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last}};

	return a;
}

static inline void begin_paths(enum who who, unsigned paths)
{
	struct urds_addr low = addr_of(1), high = addr_of(2);

	test_mem_init(&mem);
	now = T0;
	urds_peer_init(&p, &mem.m, who == L ? &high : &low, who == S ? &high : &low, paths, true);
}

static inline void begin(enum who who)
{
	begin_paths(who, 1);
}

static inline void finish(void)
{
	urds_peer_fini(&p);
	CHECK_EQ(mem.bytes, 0);
}

static inline const char *say(void)
{
	static const char *const names[] = {
		"dial", "knock",  "hangup", "attach", "close", "park",	    "promote", "evict",
		"drop", "proven", "probe",  "answer", "kind",  "restarted", "check",   "undo"};
	size_t at = 0;

	words[0] = 0;
	for (size_t i = 0; i < out.n; i++) {
		enum urds_peer_act a = (enum urds_peer_act)out.v[i].act;
		const char *gap = at ? " " : "";

		if (a == URDS_ACT_CLOSE)
			at += (size_t)snprintf(words + at, sizeof words - at, "%sclose", gap);
		else if (a == URDS_ACT_PROMOTE)
			at += (size_t)snprintf(words + at, sizeof words - at, "%spromote%u:%u", gap,
					       out.v[i].slot, out.v[i].k);
		else
			at += (size_t)snprintf(
				words + at, sizeof words - at, "%s%s%u", gap, names[a],
				a == URDS_ACT_PARK || a == URDS_ACT_EVICT ? out.v[i].k
									  : out.v[i].slot);
	}
	out.n = 0;
	return words;
}

#define SAYS(call, text)                                                      \
	do {                                                                  \
		call;                                                         \
		say();                                                        \
		if (strcmp(words, text) != 0)                                 \
			T_FAIL("%s: \"%s\", not \"%s\"", #call, words, text); \
	} while (0)

#define WANT(slot) urds_peer_want(&p, slot, now, &out)
#define DIALLED(slot, ok) urds_peer_dialled(&p, slot, ok, now, 0, &out)
#define ACCEPTED(port) urds_peer_accepted(&p, port, now, &out)
#define HEARD(slot) urds_peer_heard(&p, slot, false, now, &out)
/* With a probe among the headers, which PROBED() tells next. */
#define HEARD_PROBE(slot) urds_peer_heard(&p, slot, true, now, &out)
#define DOWN(slot) urds_peer_down(&p, slot, now, 0, &out)
#define SILENCE(slot, ns) urds_peer_silence(&p, slot, ns, now, &out)
#define TICK(pending) urds_peer_tick(&p, pending, now, 0, &out)
#define SLOT_FOR(port) urds_peer_slot_for(&p, (uint16_t)(port), 0)
#define PROBED(slot, answer, pr) urds_peer_probed(&p, slot, answer, pr, now, &out)

static const struct urds_probe k61 = {.has_npaths = true, .npaths = 8};
static const struct urds_probe k7 = {.has_npaths = true, .npaths = 8, .has_sport_idx = true};
static const struct urds_probe urds1 = {.has_npaths = true,
					.npaths = 1,
					.has_sport_idx = true,
					.has_urds = true,
					.urds_version = 1,
					.caps = URDS_CAP_ACK,
					.incarnation = 11};
static const struct urds_probe urds2 = {.has_npaths = true,
					.npaths = 1,
					.has_sport_idx = true,
					.has_urds = true,
					.urds_version = 1,
					.caps = URDS_CAP_ACK,
					.incarnation = 22};
static const struct urds_probe urds8 = {.has_npaths = true,
					.npaths = 8,
					.has_sport_idx = true,
					.has_urds = true,
					.urds_version = 1,
					.caps = URDS_CAP_ACK,
					.incarnation = 11};

/* Up to a proven connection on slot 0. */
static inline void connect_0(void)
{
	if (urds_peer_dials(&p)) {
		WANT(0);
		DIALLED(0, true);
	} else {
		ACCEPTED(40000);
	}
	HEARD(0);
	out.n = 0;
}

#endif
