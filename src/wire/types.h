/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The few scalar types every layer shares: instants, error numbers, addresses.
 */
#ifndef URDS_WIRE_TYPES_H
#define URDS_WIRE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "urds/errno.h" /* enum urds_err: functions return 0, a count, or one of these negated */

typedef uint64_t urds_ns; /* an instant or a duration, nanoseconds, monotonic */
#define URDS_NEVER UINT64_MAX
#define URDS_US(n) ((urds_ns)(n)*1000u)
#define URDS_MS(n) ((urds_ns)(n)*1000000u)
#define URDS_SEC(n) ((urds_ns)(n)*1000000000u)

#define urds_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* An IP address as 16 bytes, IPv4 as v4-mapped, so that comparing bytes is the order of wire.md 9.1. */
struct urds_addr {
	uint8_t ip[16];
	uint32_t scope; /* interface index of a link-local IPv6 address, else 0 */
};

/* A piece of memory to send from or to fill. */
struct urds_iov {
	void *base;
	size_t len;
};

struct urds_endpoint {
	struct urds_addr addr;
	uint16_t port; /* RDS port, host order */
};

/* <0, 0, >0. Numeric order of the two 16-byte addresses decides who connects. */
static inline int urds_addr_cmp(const struct urds_addr *a, const struct urds_addr *b)
{
	int c = memcmp(a->ip, b->ip, 16);

	if (c != 0)
		return c;
	return a->scope < b->scope ? -1 : a->scope > b->scope;
}

static inline bool urds_addr_eq(const struct urds_addr *a, const struct urds_addr *b)
{
	return memcmp(a->ip, b->ip, 16) == 0 && a->scope == b->scope;
}

static inline bool urds_addr_is_v4(const struct urds_addr *a)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return memcmp(a->ip, mapped, 12) == 0;
}

#endif
