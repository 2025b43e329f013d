/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A virtual host that runs core: the runtime's job in the simplest way, single-threaded. It carries out what
 * core decides and decides nothing about the protocol itself.
 */
#ifndef URDS_SIM_HOST_H
#define URDS_SIM_HOST_H

#include "check.h"
#include "core/node.h"
#include "core/peer.h"
#include "core/sock.h"
#include "net.h"
#include "unit/core/test_mem.h"

#define HOST_PEERS 4
#define HOST_SOCKS 4

struct hpath {
	struct urds_path_tx tx;
	struct urds_path_rx rx;
	struct vend *link;
	uint64_t ack;	  /* h_ack to send: what is queued at its sockets */
	uint32_t unacked; /* bytes received since an ack went out */
	urds_ns ack_at;	  /* a bare ack is due */
	bool is_busy;	  /* its input is being handled: do not enter again */
};

struct hpeer {
	struct host *host;
	struct urds_peer peer;
	struct hpath path[URDS_PATHS_MAX];
	struct vend *dial[URDS_PATHS_MAX];
	struct vend *parked[URDS_PARKED_MAX];
	struct urds_remotemap map;
	unsigned stale; /* announced restarts */
};

struct hsock {
	struct urds_bound bound;
	struct urds_rxq rxq;
	struct urds_txq txq;
	bool is_open;
};

struct host_conf {
	unsigned paths;
	bool ext;	 /* speaks the urds extension */
	bool reads_late; /* programs read now and then: congestion */
	uint32_t sndbuf, rcvbuf;
};

struct host {
	struct vhost v;
	struct check *check;
	struct host_conf conf;
	struct test_mem mem;
	struct urds_localmap map;
	struct urds_bindtab bound;
	struct hpeer *peers[HOST_PEERS];
	struct hsock socks[HOST_SOCKS];
	uint32_t incarnation;
	urds_ns timer_at;
	bool is_alive;
	uint64_t sent, retransmitted, dropped_old, drops, evicted, nomem;
};

/* @mapped: last byte of an IPv4 address 192.0.2.x. Starts it. */
void host_init(struct host *h, struct sim *s, struct check *c, unsigned last,
	       const struct host_conf *conf);
struct hsock *host_bind(struct host *h, uint16_t port);
/* Sends what flow @f still has to send, as far as there is room. */
void host_kick(struct host *h);
/* The process dies, kill -9; and a new one starts. */
void host_kill(struct host *h);
void host_restart(struct host *h);
/* Nothing is queued, unacknowledged, allocated for messages or charged. */
bool host_is_quiet(const struct host *h, const char **why);
/* Closes all; the memory must come out even. */
void host_fini(struct host *h);

struct urds_addr sim_addr(unsigned last);

#endif
