/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "runtime/conn_news.h"

#include "platform/clock.h"
#include "runtime/fault_text.h"

static void slots(const struct peer *p, uint8_t *up, uint8_t *known)
{
	*up = *known = 0;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		const struct urds_slot *s = urds_peer_slot(&p->core, i);

		if ((s->state != URDS_SLOT_UP && s->state != URDS_SLOT_HELD) || !s->heard)
			continue;
		*up |= (uint8_t)(1u << i);
		if (s->kind != URDS_KIND_UNKNOWN)
			*known |= (uint8_t)(1u << i);
	}
}

void conn_news_see(struct conn_news *n, struct peer *p)
{
	slots(p, &n->up, &n->known);
	n->fault = p->core.fault;
	n->incarnation = p->core.incarnation;
	n->down_ns = n->up == 0 && p->core.is_proven ? p->core.down_since : 0;
}

void conn_news_compare(struct conn_news *n, struct peer *p)
{
	const struct urds_fault_note *f = &p->core.fault;
	uint8_t up, known;

	slots(p, &up, &known);
	n->up = up & (uint8_t)~n->up;
	n->known = known & (uint8_t)~n->known;
	n->has_fault = f->kind != URDS_FAULT_NONE &&
		       (f->kind != n->fault.kind || f->count != n->fault.count ||
			f->last != n->fault.last);
	n->has_restarted = n->incarnation && n->incarnation != p->core.incarnation;
	n->incarnation = p->core.incarnation;
	n->down_ns = n->up && n->down_ns ? urds_clock_ns() - n->down_ns : 0;
	n->is_wanted = n->up || n->known || n->has_fault || n->has_restarted;
	if (!n->is_wanted)
		return;
	n->local = p->core.local;
	n->remote = p->core.remote;
	peer_describe(p, &n->peer);
}

static void tell_fault(const struct conn_news *n)
{
	bool is_attempt = n->peer.fault == URDS_FAULT_DIAL || n->peer.fault == URDS_FAULT_NO_ANSWER;
	char text[URDS_FAULT_TEXT_MAX], reason[URDS_FAULT_TEXT_MAX + 2];

	eventlog(EVENTLOG_WARN, is_attempt ? "connect_failed" : "drop", &n->local, &n->remote,
		 " fault=%s count=%u reason=%s", urds_fault_word(n->peer.fault),
		 n->peer.fault_count,
		 eventlog_quote(reason, sizeof reason,
				urds_fault_text(text, sizeof text, n->peer.fault,
						(int)n->peer.fault_errno, n->peer.fault_ms)));
}

void conn_news_write(const struct conn_news *n)
{
	if (n->has_fault)
		tell_fault(n);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		if (!(n->up & (1u << i)))
			continue;
		if (n->down_ns)
			eventlog(EVENTLOG_INFO, "up", &n->local, &n->remote,
				 " path=%u down_ms=%llu", i,
				 (unsigned long long)(n->down_ns / 1000000u));
		else
			eventlog(EVENTLOG_INFO, "up", &n->local, &n->remote, " path=%u", i);
	}
	if (n->has_restarted)
		eventlog(EVENTLOG_INFO, "restarted", &n->local, &n->remote,
			 " incarnation=%08x reason=\"the peer is another process than before\"",
			 n->incarnation);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++)
		if (n->known & (1u << i))
			eventlog(EVENTLOG_DEBUG, "known", &n->local, &n->remote,
				 n->peer.end == URDS_PEER_URDS ? " path=%u peer=urds version=%u"
							       : " path=%u peer=kernel",
				 i, n->peer.version);
}
