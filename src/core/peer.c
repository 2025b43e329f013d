/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connection policy of a peer (wire rules W5, W8, W9; pitfalls A2, B1-B5; design 9).
 */
#include "core/peer_park.h"

/* After a loss L gives S, which reconnects by itself, this long before it knocks. */
#define HEAD_START_NS URDS_MS(100)
/* A lost connection with nothing to send is made anew for this long; then the other end has to ask. */
#define RECONNECT_IDLE_NS URDS_SEC(60)

static const struct urds_slot slot_down = {.state = URDS_SLOT_DOWN};

void urds_peer_init(struct urds_peer *p, struct urds_mem *mem, const struct urds_addr *local,
		    const struct urds_addr *remote, unsigned our_paths, bool ext)
{
	memset(p, 0, sizeof *p);
	p->mem = mem;
	p->local = *local;
	p->remote = *remote;
	p->our_paths = (uint8_t)our_paths;
	p->ext = ext;
}

void urds_peer_fini(struct urds_peer *p)
{
	urds_free(p->mem, p->more, (URDS_PATHS_MAX - 1) * sizeof *p->more);
	urds_free(p->mem, p->parked, URDS_PARKED_MAX * sizeof *p->parked);
	p->more = NULL;
	p->parked = NULL;
}

const struct urds_slot *urds_peer_slot(const struct urds_peer *p, unsigned slot)
{
	if (slot == 0)
		return &p->first;
	return p->more ? &p->more[slot - 1] : &slot_down;
}

struct urds_slot *urds_peer_slot_of(struct urds_peer *p, unsigned slot)
{
	if (slot == 0)
		return &p->first;
	if (!p->more)
		p->more = urds_alloc(p->mem, (URDS_PATHS_MAX - 1) * sizeof *p->more);
	return p->more ? &p->more[slot - 1] : NULL;
}

/* The delay before attempt number @tries: random in [cur/2, cur], cur doubling (B1). */
static urds_ns backoff(unsigned tries, uint64_t rnd)
{
	urds_ns cur = URDS_RETRY_MIN_NS;

	while (tries-- > 1 && cur < URDS_RETRY_MAX_NS)
		cur *= 2;
	if (cur > URDS_RETRY_MAX_NS)
		cur = URDS_RETRY_MAX_NS;
	return cur / 2 + rnd % (cur / 2 + 1);
}

static void fail(struct urds_slot *s, urds_ns now, uint64_t rnd)
{
	s->state = URDS_SLOT_DOWN;
	if (s->tries < UINT8_MAX)
		s->tries++;
	s->at = now + backoff(s->tries, rnd);
}

/* Paths that both ends use; several only if they can be told apart (W5). */
static unsigned paths_used(const struct urds_peer *p)
{
	unsigned n = p->npaths < p->our_paths ? p->npaths : p->our_paths;

	return n < 2 || !p->has_sport_idx ? 1 : n;
}

unsigned urds_peer_slot_for(struct urds_peer *p, uint16_t port, unsigned pending)
{
	unsigned n = paths_used(p);

	/* Fewer count at once: what is on the others may stay there for ever. */
	if (!pending || n < p->spread)
		p->spread = (uint8_t)n;
	n = p->spread;
	if (n < 2)
		return 0;
	/* Rounded down to a power of two (E9). */
	return (port * 40503u >> 8) & (n >= 8 ? 7u : n >= 4 ? 3u : 1u);
}

void urds_peer_probe(const struct urds_peer *p, uint32_t incarnation, struct urds_probe *out)
{
	memset(out, 0, sizeof *out);
	/* As L, 1 goes without saying: a kernel that is told keeps what it has queued for the other paths of a former
	 * owner of our address, and never connects them again. As S we have to say it: an L that learned of more from
	 * that one, or from us before we restarted, would go on sending on paths that nobody opens. */
	out->has_npaths = p->our_paths > 1 || urds_peer_dials(p);
	out->npaths = p->our_paths;
	out->has_sport_idx = true;
	if (p->ext) {
		out->has_urds = true;
		out->urds_version = URDS_WIRE_VERSION;
		out->caps = URDS_CAP_ACK;
		out->incarnation = incarnation;
	}
}

/* Opens @slot if it is down and its time has come. */
static void open_slot(struct urds_peer *p, unsigned slot, urds_ns now, struct urds_peer_out *out)
{
	bool dials = urds_peer_dials(p);
	struct urds_slot *s;

	if (urds_peer_is_self(p))
		slot = 0; /* slot 1 is the other end of the same connection */
	s = urds_peer_slot_of(p, slot);
	if (!s || s->state != URDS_SLOT_DOWN || now < s->at || (!dials && slot > 0))
		return;
	s->state = dials ? URDS_SLOT_DIALLING : URDS_SLOT_KNOCKING;
	s->at = now;
	act(out, dials ? URDS_ACT_DIAL : URDS_ACT_KNOCK, slot, 0);
}

void urds_peer_want(struct urds_peer *p, unsigned slot, urds_ns now, struct urds_peer_out *out)
{
	/* L asks for a connection on path 0: when S has it, it makes the others too. */
	open_slot(p, urds_peer_dials(p) ? slot : 0, now, out);
}

void urds_peer_attach(struct urds_peer *p, struct urds_slot *s, enum urds_slot_state state,
		      unsigned lane, urds_ns now)
{
	s->state = (uint8_t)state;
	s->is_held = state == URDS_SLOT_UP && !urds_peer_is_self(p);
	s->kind = URDS_KIND_UNKNOWN;
	s->heard = false;
	s->lane = (uint8_t)lane;
	s->at = now;
}

void urds_peer_dialled(struct urds_peer *p, unsigned slot, bool ok, urds_ns now, uint64_t rnd,
		       struct urds_peer_out *out)
{
	struct urds_slot *s = urds_peer_slot_of(p, slot);

	if (!s)
		return;
	if (s->state == URDS_SLOT_DIALLING && ok) {
		urds_peer_attach(p, s, URDS_SLOT_HELD, URDS_PATHS_MAX, now);
		act(out, URDS_ACT_ATTACH, slot, 0);
		return;
	}
	if (ok)
		act(out, URDS_ACT_CLOSE, slot, 0); /* a knock has done its work; or too late */
	if (s->state == URDS_SLOT_DIALLING || s->state == URDS_SLOT_KNOCKING)
		fail(s, now,
		     rnd); /* a knock too is repeated with backoff while anything is queued (B2) */
}

static bool has_urds_up(const struct urds_peer *p)
{
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		const struct urds_slot *s = urds_peer_slot(p, i);

		if (s->state == URDS_SLOT_UP && s->kind == URDS_KIND_URDS)
			return true;
	}
	return false;
}

/* Where an accepted connection belongs: a free slot, or URDS_PATHS_MAX: it has to wait. *for_slot: the only one
 * it may have, or ANY_SLOT. */
static unsigned choose_slot(struct urds_peer *p, uint16_t from_port, unsigned *for_slot)
{
	*for_slot = ANY_SLOT;
	if (urds_peer_is_self(p))
		*for_slot = 1;
	else if (p->has_sport_idx)
		*for_slot = from_port % URDS_PATHS_MAX;
	/* An urds peer has said how many paths it makes. While it is connected, what comes on another is some
	 * other program's on its host, or its successor's: that has to wait until it is gone. */
	if (p->has_sport_idx && *for_slot >= p->npaths && has_urds_up(p) && !urds_peer_is_self(p))
		return URDS_PATHS_MAX;
	if (*for_slot != ANY_SLOT)
		return is_free(p, *for_slot) ? *for_slot : URDS_PATHS_MAX;
	/* One that does not say which path it is may be a further path, or come in the place of one that died
	 * without a word. In the wrong slot its messages would meet the wrong counters: doubled or lost. */
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++)
		if (!is_free(p, i))
			return URDS_PATHS_MAX;
	return 0;
}

void urds_peer_accepted(struct urds_peer *p, uint16_t from_port, urds_ns now,
			struct urds_peer_out *out)
{
	unsigned for_slot, slot;
	struct urds_slot *s;

	if (urds_peer_dials(p) && !urds_peer_is_self(p)) {
		/* L knocks: it has something for us. Its connection never carries anything. A dial that
		 * failed moments ago is not repeated faster because of it. */
		act(out, URDS_ACT_CLOSE, 0, 0);
		if (p->first.tries < 4)
			p->first.at = p->first.state == URDS_SLOT_DOWN ? now : p->first.at;
		p->down_since = now;
		/* It would not knock if it had the connection that we believe in. */
		if (p->first.state == URDS_SLOT_UP && !p->challenged)
			urds_peer_challenge(p, now, out);
		open_slot(p, 0, now, out);
		return;
	}
	slot = choose_slot(p, from_port, &for_slot);
	s = slot < URDS_PATHS_MAX ? urds_peer_slot_of(p, slot) : NULL;
	if (s) {
		if (s->state == URDS_SLOT_KNOCKING)
			act(out, URDS_ACT_HANG_UP, slot, 0);
		urds_peer_attach(p, s, URDS_SLOT_UP, from_port % URDS_PATHS_MAX, now);
		act(out, URDS_ACT_ATTACH, slot, 0);
		return;
	}
	urds_peer_park(p, for_slot, from_port % URDS_PATHS_MAX, now, out);
}

/* Messages may go. */
static void prove(struct urds_slot *s, unsigned slot, struct urds_peer_out *out)
{
	if (s->state != URDS_SLOT_HELD && !s->is_held)
		return;
	s->state = URDS_SLOT_UP;
	s->is_held = false;
	act(out, URDS_ACT_PROVEN, slot, 0);
}

void urds_peer_heard(struct urds_peer *p, unsigned slot, bool has_probe, urds_ns now,
		     struct urds_peer_out *out)
{
	struct urds_slot *s = urds_peer_slot_of(p, slot);

	if (!s || s->heard || (s->state != URDS_SLOT_HELD && s->state != URDS_SLOT_UP))
		return;
	s->heard = true;
	s->tries = 0;
	p->fault.is_over = true;
	s->at = now;
	p->is_proven = true;
	if (!has_probe)
		prove(s, slot, out);
}

static void set_kind(struct urds_slot *s, unsigned slot, enum urds_peer_kind kind,
		     struct urds_peer_out *out)
{
	if (s->kind == kind)
		return;
	s->kind = (uint8_t)kind;
	act(out, URDS_ACT_KIND, slot, 0);
}

/* Only the probe says whether source ports mean slots (W5), and the connection came before it. Return: true if
 * it sits in a slot where it must not stay. */
static bool is_misplaced(struct urds_peer *p, const struct urds_slot *s, unsigned slot,
			 bool has_sport_idx)
{
	bool had = p->has_sport_idx;

	p->has_sport_idx = has_sport_idx;
	if (s->lane == URDS_PATHS_MAX || urds_peer_is_self(p))
		return false;
	if (has_sport_idx)
		return s->lane != slot;
	/* Another kind of host has the address now, and sends and expects all on what we call slot 0. */
	return had && slot > 0 && p->first.state != URDS_SLOT_UP;
}

/* Does it claim to be a new incarnation while the one we know has a connection? Either that one is dead, which a
 * challenge will show, or this is some other program on its host. */
static bool contradicts(const struct urds_peer *p, unsigned slot, uint32_t incarnation)
{
	if (!p->incarnation || p->incarnation == incarnation || urds_peer_is_self(p))
		return false;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		const struct urds_slot *s = urds_peer_slot(p, i);

		if (i != slot && s->state == URDS_SLOT_UP && s->kind == URDS_KIND_URDS)
			return true;
	}
	return false;
}

void urds_peer_probed(struct urds_peer *p, unsigned slot, enum urds_probe_sort sort,
		      const struct urds_probe *probe, urds_ns now, struct urds_peer_out *out)
{
	struct urds_slot *s = urds_peer_slot_of(p, slot);
	bool misplaced;

	if (!s)
		return;
	if (p->ext && probe->has_urds && contradicts(p, slot, probe->incarnation)) {
		act(out, URDS_ACT_UNDO, slot, 0);
		act(out, URDS_ACT_DROP, slot, 0);
		urds_fault_note(&p->fault, URDS_FAULT_MISPLACED, 0, now);
		urds_peer_challenge(p, now, out);
		return;
	}
	p->npaths = (uint8_t)urds_probe_npaths(probe, p->npaths);
	misplaced = is_misplaced(p, s, slot, probe->has_sport_idx);
	if (p->ext && probe->has_urds) {
		if (p->incarnation && p->incarnation != probe->incarnation &&
		    s->kind != URDS_KIND_URDS)
			act(out, URDS_ACT_RESTARTED, slot, 0);
		/* A second incarnation on a connection that has one already is nobody's: ignored. */
		if (s->kind != URDS_KIND_URDS) {
			p->incarnation = probe->incarnation;
			p->caps = probe->caps;
			p->version = probe->urds_version;
			set_kind(s, slot, URDS_KIND_URDS, out);
		}
	} else if (s->kind == URDS_KIND_UNKNOWN) {
		set_kind(s, slot, URDS_KIND_KERNEL, out);
	}
	if (misplaced) {
		urds_fault_note(&p->fault, URDS_FAULT_MISPLACED, 0, now);
		act(out, URDS_ACT_UNDO, slot, 0);
		act(out, URDS_ACT_DROP, slot, 0);
		return;
	}
	prove(s, slot, out);
	if (sort == URDS_PROBE_ASKS || (sort == URDS_PROBE_OLD && p->ext && probe->has_urds))
		act(out, URDS_ACT_ANSWER, slot, 0);
	else if (sort == URDS_PROBE_ANSWER && p->challenged)
		p->answered |= (uint8_t)(1u << slot);
	if (p->has_sport_idx)
		urds_peer_place_parked(p, now, now, out);

	if (!urds_peer_dials(p) || urds_peer_is_self(p))
		return;
	for (unsigned i = 1; i < paths_used(p); i++)
		open_slot(p, i, now, out);
}

void urds_peer_down(struct urds_peer *p, unsigned slot, urds_ns now, uint64_t rnd,
		    struct urds_peer_out *out)
{
	struct urds_slot *s = urds_peer_slot_of(p, slot);
	bool was_promoted;

	if (!s)
		return;
	if (s->heard) {
		p->down_since = now;
		s->state = URDS_SLOT_DOWN;
		s->at = now +
			(urds_peer_dials(p) ? 0 : HEAD_START_NS); /* it lived: again at once */
	} else {
		fail(s, now, rnd); /* connected, but nobody spoke: not a proof of life */
	}
	s->heard = s->is_held = false;
	s->kind = URDS_KIND_UNKNOWN;
	p->challenged_slots &= (uint8_t) ~(1u << slot); /* what was asked is gone */
	was_promoted = urds_peer_promote(p, slot, now, out);
	if (!has_urds_up(p))
		urds_peer_place_successors(p, now, out);
	if (was_promoted) {
		if (has_parked(p)) /* it has to show that it lives, like the one before */
			urds_peer_challenge(p, now, out);
		return;
	}
	if (urds_peer_dials(p) && p->is_proven && !(urds_peer_is_self(p) && slot == 1))
		open_slot(p, slot, now, out);
}

void urds_peer_silence(struct urds_peer *p, unsigned slot, urds_ns silence, urds_ns now,
		       struct urds_peer_out *out)
{
	const struct urds_slot *s = urds_peer_slot(p, slot);
	urds_ns limit = URDS_DEAD_NS;

	if (s->state != URDS_SLOT_UP && s->state != URDS_SLOT_HELD)
		return;
	if ((p->challenged_slots & (1u << slot)) && now >= p->challenged + URDS_CHALLENGE_DEAD_NS)
		limit = URDS_CHALLENGE_DEAD_NS;
	if (silence >= limit) {
		urds_fault_note_silence(&p->fault, URDS_FAULT_DEAD, silence, now);
		act(out, URDS_ACT_DROP, slot, 0);
	}
}

/* Is DOWN @slot to be opened when its time comes? Asks for no other time, so that a deadline and the tick
 * that follows it agree, however late it comes. */
static bool reconnects(const struct urds_peer *p, unsigned slot, unsigned pending)
{
	const struct urds_slot *s = urds_peer_slot(p, slot);

	if (pending & (1u << slot))
		return urds_peer_dials(p) || slot == 0;
	return urds_peer_dials(p) && !urds_peer_is_self(p) && s != &slot_down && p->down_since &&
	       s->at < p->down_since + RECONNECT_IDLE_NS && (slot == 0 || slot < paths_used(p));
}

/* How long to wait for a probe or an answer. An urds end may be short of memory for it: were it taken for a kernel, TCP's
 * acks would release what a kill -9 of it then loses. */
static urds_ns kind_patience(const struct urds_peer *p)
{
	return p->incarnation ? URDS_DEAD_NS : URDS_KIND_SILENT_NS;
}

/* How long an accepted connection may say nothing before we do. An urds end always sends a probe first; a further path
 * of a kernel may have nothing to say. */
static urds_ns hold_patience(const struct urds_peer *p)
{
	return p->incarnation ? URDS_DEAD_NS : URDS_ACCEPT_SILENT_NS;
}

/* Slots to be opened for what is @pending. */
static unsigned pending_slots(const struct urds_peer *p, unsigned pending)
{
	if (urds_peer_is_self(p))
		return pending != 0;
	return !urds_peer_dials(p) && pending ? pending | 1u : pending; /* as in urds_peer_want() */
}

void urds_peer_tick(struct urds_peer *p, unsigned pending, urds_ns now, uint64_t rnd,
		    struct urds_peer_out *out)
{
	pending = pending_slots(p, pending);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		const struct urds_slot *c = urds_peer_slot(p, i);
		struct urds_slot *s;

		if (c == &slot_down && !(pending & (1u << i)))
			continue;
		s = urds_peer_slot_of(p, i);
		if (!s)
			continue;
		switch ((enum urds_slot_state)s->state) {
		case URDS_SLOT_DOWN:
			if (reconnects(p, i, pending))
				open_slot(p, i, now, out);
			break;
		case URDS_SLOT_DIALLING:
		case URDS_SLOT_KNOCKING:
			if (now < s->at + URDS_DIAL_TIMEOUT_NS)
				break;
			urds_fault_note_silence(&p->fault, URDS_FAULT_NO_ANSWER, now - s->at, now);
			act(out, URDS_ACT_HANG_UP, i, 0);
			fail(s, now, rnd);
			break;
		case URDS_SLOT_HELD:
			/* Path 0 always speaks; a further path of a kernel may have nothing to say. */
			if (i > 0 && now >= s->at + URDS_PROOF_SILENT_NS)
				urds_peer_heard(p, i, false, now, out);
			break;
		case URDS_SLOT_UP:
			if (s->is_held && now >= s->at + hold_patience(p))
				prove(s, i, out);
			if (s->kind == URDS_KIND_UNKNOWN && s->heard &&
			    now >= s->at + kind_patience(p))
				set_kind(s, i, URDS_KIND_KERNEL, out);
			break;
		}
	}
	urds_peer_tick_challenge(p, now, out);
}

static urds_ns earlier(urds_ns a, urds_ns b)
{
	return a < b ? a : b;
}

urds_ns urds_peer_deadline(const struct urds_peer *p, unsigned pending)
{
	urds_ns d = p->challenged ? p->check_at : URDS_NEVER;

	pending = pending_slots(p, pending);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		const struct urds_slot *s = urds_peer_slot(p, i);

		switch ((enum urds_slot_state)s->state) {
		case URDS_SLOT_DOWN:
			if (reconnects(p, i, pending))
				d = earlier(d, s->at);
			break;
		case URDS_SLOT_DIALLING:
		case URDS_SLOT_KNOCKING:
			d = earlier(d, s->at + URDS_DIAL_TIMEOUT_NS);
			break;
		case URDS_SLOT_HELD:
			if (i > 0)
				d = earlier(d, s->at + URDS_PROOF_SILENT_NS);
			break;
		case URDS_SLOT_UP:
			if (s->is_held)
				d = earlier(d, s->at + hold_patience(p));
			if (s->kind == URDS_KIND_UNKNOWN && s->heard)
				d = earlier(d, s->at + kind_patience(p));
			break;
		}
	}
	return d;
}

bool urds_peer_is_idle(const struct urds_peer *p)
{
	if (has_parked(p))
		return false;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++)
		if (urds_peer_slot(p, i)->state != URDS_SLOT_DOWN)
			return false;
	return true;
}
