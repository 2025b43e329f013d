/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A model of a kernel peer (Linux 6.1), from the rules of docs/protocol (wire 4, 6, 8, 9) alone; it shares no
 * code with core or wire. What TCP has acknowledged it takes for delivered; what arrives it consumes at
 * once; its duplicate rule is weak; it resets a connection for which no path is down.
 */
#ifndef URDS_SIM_KERNEL_H
#define URDS_SIM_KERNEL_H

#include "check.h"
#include "net.h"

#define K_PATHS 8
#define K_PORTS 4

struct kmsg {
	struct kmsg *next;
	uint64_t end; /* stream position after it, on the present connection; 0: not begun */
	uint32_t size, off;
	bool retransmit;
	uint8_t bytes[];
};

enum kstate { K_DOWN, K_CONNECTING, K_UP };

struct kpath {
	enum kstate state;
	struct vend *link;
	uint64_t next_tx, next_rx;
	struct kmsg *unacked, *queue; /* sent in full; not yet, the first maybe in part */
	bool map_due;
	uint8_t map[48 + 8192];
	uint32_t map_off, map_len;
	urds_ns delay; /* S: reconnect */
	uint8_t hdr[48];
	uint32_t have;
	uint8_t *body;
	uint32_t body_len, body_have;
};

struct kernel {
	struct vhost v;
	struct check *check;
	struct urds_addr remote; /* its one peer */
	unsigned npaths;	 /* 0: unknown */
	bool probing;
	bool answers_pings; /* sysctl ping_enable */
	struct kpath path[K_PATHS];
	uint16_t ports[K_PORTS]; /* bound */
	uint8_t remote_map[8192];
	uint64_t resets, retransmitted, dropped_old;
	uint64_t probes_seen; /* with the urds extension: ignored, of course */
	unsigned generation;  /* of its life */
	bool is_alive;
};

void kernel_init(struct kernel *k, struct sim *s, struct check *c, unsigned last,
		 unsigned remote_last);
void kernel_bind(struct kernel *k, uint16_t port);
void kernel_kick(struct kernel *k);
/* Reboot: all state is gone. */
void kernel_kill(struct kernel *k);
void kernel_restart(struct kernel *k);
bool kernel_is_quiet(const struct kernel *k, const char **why);
void kernel_fini(struct kernel *k);

#endif
