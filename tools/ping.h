/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where pings leave from: sockets of our own, or those of the process that owns the source address.
 */
#ifndef URDS_TOOLS_PING_H
#define URDS_TOOLS_PING_H

#include "tool.h"

#define PING_SLOTS URDS_OWNER_PING_SLOTS

struct pinger {
	struct tool_addr src;
	struct urds_owner_ping *owner; /* NULL: own sockets */
	struct urds_ctx *ctx;
	struct urds_sock *socks[PING_SLOTS];
	uint64_t sent_ns[PING_SLOTS];
	int fds[PING_SLOTS];
	unsigned hot; /* the slot to look at first, or PING_SLOTS */
};

struct ping_reply {
	unsigned slot;
	int err; /* the request could not be sent */
	uint64_t rtt_ns;
	struct tool_addr from;
};

/* Says itself what goes wrong. 0 or -1. */
int ping_open(struct pinger *p, const struct tool_addr *src, const struct tool_addr *dest);
void ping_close(struct pinger *p);
/* @fresh: late replies to the slot's last request must not be taken for replies to this one.
 * 0, an errno to be shown for this request, or -1 (said). */
int ping_send(struct pinger *p, unsigned slot, bool fresh, const struct tool_addr *dest);
/* 1 and a reply, 0 when @until passed, -1 (said). */
int ping_wait(struct pinger *p, uint64_t until_ns, struct ping_reply *out);

#endif
