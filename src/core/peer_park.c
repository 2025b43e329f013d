/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Parked connections of a peer, and the challenge that shows which of its connections live (pitfalls A2, B3-B5; design 9).
 */
#include "core/peer_park.h"

/* The probes of a challenge go out a little after it is decided. */
#define CHECK_EVERY_NS (URDS_CHALLENGE_DEAD_NS + URDS_MS(50))

/* The first free slot, or URDS_PATHS_MAX. */
static unsigned free_slot(const struct urds_peer *p)
{
	unsigned i = 0;

	while (i < URDS_PATHS_MAX && !is_free(p, i))
		i++;
	return i;
}

void urds_peer_challenge(struct urds_peer *p, urds_ns now, struct urds_peer_out *out)
{
	p->challenged = now;
	p->check_at = now + CHECK_EVERY_NS;
	p->answered = p->challenged_slots = 0;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		if (urds_peer_slot(p, i)->state != URDS_SLOT_UP)
			continue;
		p->challenged_slots |= (uint8_t)(1u << i);
		act(out, URDS_ACT_PROBE, i, 0);
	}
}

static bool all_answered(const struct urds_peer *p)
{
	return !(p->challenged_slots & ~p->answered);
}

void urds_peer_park(struct urds_peer *p, unsigned for_slot, unsigned lane, urds_ns now,
		    struct urds_peer_out *out)
{
	unsigned k;

	if (!p->parked)
		p->parked = urds_alloc(p->mem, URDS_PARKED_MAX * sizeof *p->parked);
	for (k = 0; p->parked && k < URDS_PARKED_MAX && p->parked[k].is_used; k++)
		;
	if (!p->parked || k == URDS_PARKED_MAX) {
		act(out, URDS_ACT_CLOSE, 0, 0);
		return;
	}
	p->parked[k].is_used = true;
	p->parked[k].order = p->parked_order++;
	p->parked[k].slot = (uint8_t)for_slot;
	p->parked[k].lane = (uint8_t)lane;
	p->parked[k].since = now;
	act(out, URDS_ACT_PARK, 0, k);
	if (!p->challenged || all_answered(p)) /* those answers were given before it came */
		urds_peer_challenge(p, now, out);
}

void urds_peer_unparked(struct urds_peer *p, unsigned k)
{
	p->parked[k].is_used = false;
	for (unsigned i = 0; i < URDS_PARKED_MAX; i++)
		if (p->parked[i].is_used)
			return;
	urds_free(p->mem, p->parked, URDS_PARKED_MAX * sizeof *p->parked);
	p->parked = NULL;
	p->challenged = 0;
	p->challenged_slots = 0;
}

static void promote_to(struct urds_peer *p, unsigned k, unsigned slot, urds_ns now,
		       struct urds_peer_out *out)
{
	struct urds_slot *s = urds_peer_slot_of(p, slot);

	if (!s)
		return;
	if (s->state == URDS_SLOT_KNOCKING)
		act(out, URDS_ACT_HANG_UP, slot, 0);
	urds_peer_attach(p, s, URDS_SLOT_UP, p->parked[k].lane, now);
	act(out, URDS_ACT_PROMOTE, slot, k);
	urds_peer_unparked(p, k);
}

/* The slot that a parked connection is for, if that is known by now. */
static unsigned wanted(const struct urds_peer *p, const struct urds_parked *q)
{
	return q->slot == ANY_SLOT && p->has_sport_idx ? q->lane : q->slot;
}

bool urds_peer_promote(struct urds_peer *p, unsigned slot, urds_ns now, struct urds_peer_out *out)
{
	unsigned best = URDS_PARKED_MAX;

	/* The oldest: whatever it brought was sent before the others were made, and an old probe read after newer
	 * messages takes our expectation back. If it is dead, the challenge will show it. */
	for (unsigned k = 0; p->parked && k < URDS_PARKED_MAX; k++) {
		const struct urds_parked *q = &p->parked[k];

		if (q->is_used && (wanted(p, q) == slot || wanted(p, q) == ANY_SLOT) &&
		    (best == URDS_PARKED_MAX || q->order < p->parked[best].order))
			best = k;
	}
	if (best == URDS_PARKED_MAX)
		return false;
	promote_to(p, best, slot, now, out);
	return urds_peer_slot(p, slot)->state == URDS_SLOT_UP;
}

void urds_peer_place_parked(struct urds_peer *p, urds_ns since_before, urds_ns now,
			    struct urds_peer_out *out)
{
	for (unsigned k = 0; p->parked && k < URDS_PARKED_MAX; k++) {
		struct urds_parked *q = &p->parked[k];
		unsigned slot;

		if (!q->is_used || q->slot != ANY_SLOT || q->since > since_before)
			continue;
		q->slot = (uint8_t)wanted(p, q);
		slot = q->slot != ANY_SLOT ? q->slot : free_slot(p);
		if (slot < URDS_PATHS_MAX && is_free(p, slot))
			promote_to(p, k, slot, now, out);
	}
}

void urds_peer_place_successors(struct urds_peer *p, urds_ns now, struct urds_peer_out *out)
{
	for (unsigned k = 0; p->parked && k < URDS_PARKED_MAX; k++) {
		const struct urds_parked *q = &p->parked[k];

		if (q->is_used && wanted(p, q) != ANY_SLOT && is_free(p, wanted(p, q)))
			promote_to(p, k, wanted(p, q), now, out);
	}
}

void urds_peer_tick_challenge(struct urds_peer *p, urds_ns now, struct urds_peer_out *out)
{
	if (!p->challenged || now < p->check_at)
		return;
	p->check_at = now + CHECK_EVERY_NS;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		const struct urds_slot *s = urds_peer_slot(p, i);
		bool is_mute;

		/* An answer proves little, for it may be that to an earlier probe; an acknowledgement does. */
		if (!(p->challenged_slots & (1u << i)))
			continue;
		/* Whoever comes to stay speaks at once; a program that only holds the connection does not. */
		is_mute = has_parked(p) && !s->heard && now >= s->at + URDS_STRANGER_NS;
		if (is_mute)
			urds_fault_note(&p->fault, URDS_FAULT_MUTE, 0, now);
		act(out, is_mute ? URDS_ACT_DROP : URDS_ACT_CHECK, i, 0);
	}
	if (!has_parked(p)) {
		if (all_answered(p) || now >= p->challenged + URDS_CHALLENGE_END_NS)
			p->challenged = p->challenged_slots = 0;
		return;
	}
	urds_peer_place_parked(p, now - URDS_CHALLENGE_END_NS, now, out);
	/* What came after the challenge gets one of its own. */
	for (unsigned k = 0; p->parked && k < URDS_PARKED_MAX; k++)
		if (p->parked[k].is_used && p->parked[k].since > p->challenged) {
			urds_peer_challenge(p, now, out);
			return;
		}
	/* One that neither answers nor is silent (a stopped process) stays, and so does what is parked. */
	if (!all_answered(p))
		return;
	for (unsigned k = 0, n = 0; p->parked && k < URDS_PARKED_MAX; k++) {
		if (!p->parked[k].is_used || now < p->parked[k].since + URDS_CHALLENGE_END_NS)
			continue;
		if (n++ == URDS_EVICT_MAX) {
			p->check_at = now + URDS_EVICT_NEXT_NS;
			return;
		}
		act(out, URDS_ACT_EVICT, 0, k);
		urds_peer_unparked(p, k);
	}
}
