/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The TCP transport: non-blocking stream sockets in an edge-triggered poller, or at a completion port. Owns its sockets;
 * never looks at what is in them.
 */
#ifndef URDS_TRANSPORT_TCP_H
#define URDS_TRANSPORT_TCP_H

#include <stdatomic.h>

#include "platform/poller.h"
#include "transport/transport.h"

#define URDS_TCP_PORT 16385u

/* A host that has restarted answers the next probe with a reset: within a second, however long it was away, or what a
 * program awaits from it waits on. One that is silent is given up after 27 s. */
#define URDS_KEEPALIVE_IDLE_S 3
#define URDS_KEEPALIVE_INTVL_S 1
#define URDS_KEEPALIVE_CNT 24

/* Zero in a field means the default. */
struct urds_tcp_config {
	uint16_t port;	       /* tests only: a peer of ours never uses another than 16385 */
	uint32_t sndbuf_bytes; /* 0: left to the kernel's autotuning */
	uint32_t rcvbuf_bytes; /* 0: left to the kernel's autotuning */
	uint32_t keepalive_idle_s, keepalive_intvl_s, keepalive_cnt;
	uint32_t backlog; /* 128 */
	/* Windows: tx() leaves what it takes in the caller's memory until on_tx_released(). Otherwise it copies, all but a few
	 * bytes, whose release it reports when there is room again. */
	bool sends_in_place;
};

/* Counted with relaxed atomics. */
struct urds_tcp_stats {
	_Atomic uint64_t dials;
	_Atomic uint64_t accepts;	  /* connections handed to the sink */
	_Atomic uint64_t accepts_refused; /* reset: no descriptor left, or our own source port */
	_Atomic uint64_t accepts_failed;  /* accept() errors; the loop went on */
};

/* @poller and @sink are borrowed until urds_tcp_free(); @config (NULL: defaults) is copied. */
int urds_tcp_new(const struct urds_tcp_config *config, struct urds_poller *poller,
		 const struct urds_link_sink *sink, void *user, struct urds_transport **out);
/* Every link closed and every listener gone; no thread in urds_poller_wait(). Calls on_closed() and on_unlistened() for those
 * that they are still owed to. */
void urds_tcp_free(struct urds_transport *t);

struct urds_tcp_stats *urds_tcp_stats(struct urds_transport *t);
/* System calls of one link, modulo 2^32, those that moved nothing included; by whoever may call tx() and rx(). */
void urds_tcp_link_calls(struct urds_link *l, uint32_t *tx, uint32_t *rx);

/* Makes a link of a connected stream socket (handed over by another process, a socketpair in
 * tests). Takes @fd on success. acked() and silence() are UNKNOWN unless it is TCP.
 * On Windows: a SOCKET for overlapped use, of no completion port yet. */
int urds_tcp_adopt(struct urds_transport *t, intptr_t fd, void *user, struct urds_link **out);

/* Reports again what every link and listener has to report: events that a thread had fetched may have vanished
 * with it. */
void urds_tcp_rearm(struct urds_transport *t);

/* Does some listener wait for a descriptor? That a link gave one back it sees itself; of others somebody has to tell
 * it, or to try from time to time. */
bool urds_tcp_is_starved(struct urds_transport *t);
void urds_tcp_unstarve(struct urds_transport *t);

/* The tables, for whoever replaces one of them. */
extern const struct urds_data_ops urds_tcp_data;
extern const struct urds_connect_ops urds_tcp_connect;
extern const struct urds_resolve_ops urds_tcp_resolve;

#endif
