/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What programs on virtual hosts send to one another, and whether it arrives: exactly once and in order per
 * (source socket, destination socket). A flow is such a pair; its messages are numbered and known
 * beforehand by length, their bytes by number.
 */
#ifndef URDS_SIM_CHECK_H
#define URDS_SIM_CHECK_H

#include "printf_format.h"
#include "wire/types.h"

#define FLOW_MSGS_MAX 256

struct flow {
	struct urds_addr from, to;
	uint16_t sport, dport;
	uint32_t len[FLOW_MSGS_MAX];
	unsigned n;    /* messages planned */
	unsigned sent; /* accepted by send */
	unsigned first
		[8]; /* first one sent by each further life of the source: those before may be lost with the last */
	unsigned lives;
	unsigned got;	  /* next one expected */
	unsigned got_all; /* delivered to any life of the receiver */
	bool is_resumed; /* the receiver is new: what it gets first may be one its former life had, or the next */
	bool is_lossy; /* a kernel died with what its TCP had acknowledged */
};

struct check {
	struct flow *flows;
	unsigned n;
	char error[256]; /* the first one; empty: none */
};

/* Writes the @len bytes of message @no of flow @f. The first four name it. */
void check_fill(uint8_t *p, unsigned f, unsigned no, uint32_t len);
void check_fail(struct check *c, const char *fmt, ...) SIM_PRINTF(2, 3);
/* A message was queued at its destination socket. */
void check_got(struct check *c, const struct urds_addr *from, uint16_t sport,
	       const struct urds_addr *to, uint16_t dport, const uint8_t *p, uint32_t len);
/* All that was planned is there. */
bool check_is_complete(const struct check *c);
/* The receiver @addr, or the sender, begins a new life. @is_kernel: it takes along what TCP had acknowledged. */
void check_restart(struct check *c, const struct urds_addr *addr, bool is_kernel);

#endif
