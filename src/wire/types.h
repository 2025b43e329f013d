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

typedef uint64_t urds_ns; /* an instant or a duration, nanoseconds, monotonic */
#define URDS_NEVER UINT64_MAX
#define URDS_US(n) ((urds_ns)(n)*1000u)
#define URDS_MS(n) ((urds_ns)(n)*1000000u)
#define URDS_SEC(n) ((urds_ns)(n)*1000000000u)

#define urds_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Functions return 0 (or a count) or one of these, negated. Only lib/, shim/ and platform/ know
 * errno numbers. */
enum urds_err {
	URDS_EAGAIN = 1,    /* would block; a full send buffer, an empty queue */
	URDS_ECONG,	    /* destination port congested (ENOBUFS) */
	URDS_EMSGSIZE,	    /* message longer than SO_SNDBUF or 1 MiB */
	URDS_EINVAL,	    /* a malformed argument */
	URDS_ENOMEM,	    /* allocation failed or a bound of limits.h was reached */
	URDS_ETIMEDOUT,	    /* a deadline passed */
	URDS_EINTR,	    /* a signal arrived */
	URDS_ENOTCONN,	    /* unbound, or no destination */
	URDS_EADDRINUSE,    /* port or node taken */
	URDS_EADDRNOTAVAIL, /* not an address of this host */
	URDS_EOPNOTSUPP,    /* not supported on this socket or transport */
	URDS_ENOPROTOOPT,   /* unknown option */
	URDS_EDESTADDRREQ,  /* connect to 0.0.0.0 */
	URDS_EPROTOTYPE,    /* not a unicast address */
	URDS_EAFNOSUPPORT,  /* not AF_INET or AF_INET6 */
	URDS_EBADF,	    /* closed, or inherited through fork */
	URDS_EFAULT,	    /* bad pointer or option size the kernel reports so */
	URDS_ENOSPC,	    /* the caller's buffer is too small */
	URDS_ESHORT,	    /* decoder: more bytes needed */
	URDS_EPROTO,	    /* decoder: bytes no peer may send */
	URDS_ECONNREFUSED,  /* connect: nothing listens */
	URDS_ECONNRESET,    /* link: the other end reset it */
	URDS_EUNREACH,	    /* link: no route, host down */
	URDS_ECANCELED,	    /* request cancelled */
	URDS_EACCES,	    /* not permitted */
	URDS_EIO,	    /* an operating system error with no better name */
	URDS_EMFILE,	    /* no more descriptors */
	URDS_ERR_MAX
};

/* An IP address as 16 bytes, IPv4 as v4-mapped, so that comparing bytes is the order of wire.md 9.1. */
struct urds_addr {
	uint8_t ip[16];
	uint32_t scope; /* interface index of a link-local IPv6 address, else 0 */
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
