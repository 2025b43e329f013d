/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What an event changed at a peer, for the event log: seen under the peer's lock, told after it is released.
 *
 * Nothing is seen or told while the log is off.
 */
#ifndef URDS_RUNTIME_CONN_NEWS_H
#define URDS_RUNTIME_CONN_NEWS_H

#include "runtime/engine.h"
#include "runtime/eventlog.h"
#include "urds/peer.h"

struct conn_news {
	bool is_wanted;
	uint8_t up,
		known; /* slots on which RDS has been heard; of which it is known what the other end is. After end(): new ones */
	bool has_fault, has_restarted; /* new ones */
	uint32_t incarnation;
	urds_ns down_ns; /* how long there was no connection; 0: not told */
	struct urds_fault_note fault;
	struct urds_addr local, remote;
	struct urds_info_peer peer;
};

void conn_news_see(struct conn_news *n, struct peer *p);
void conn_news_compare(struct conn_news *n, struct peer *p);
void conn_news_write(const struct conn_news *n);

/* Peer lock held, both. */
static inline void conn_news_begin(struct conn_news *n, struct peer *p)
{
	n->is_wanted = eventlog_wants(EVENTLOG_ERROR);
	if (n->is_wanted)
		conn_news_see(n, p);
}

static inline void conn_news_end(struct conn_news *n, struct peer *p)
{
	if (n->is_wanted)
		conn_news_compare(n, p);
}

/* No lock held. */
static inline void conn_news_tell(const struct conn_news *n)
{
	if (n->is_wanted)
		conn_news_write(n);
}

#endif
