/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * struct urds_addr <-> socket addresses and text.
 */
#ifndef URDS_PLATFORM_ADDR_H
#define URDS_PLATFORM_ADDR_H

#include "wire/types.h"

struct sockaddr;
struct sockaddr_storage;

/* Longest text with zone and terminator. */
#define URDS_ADDR_STRLEN 64

/* AF_INET for a v4-mapped address, else AF_INET6. Return: the length to pass with it. */
size_t urds_addr_to_sockaddr(const struct urds_addr *a, uint16_t port,
			     struct sockaddr_storage *out);

/* @port may be NULL. The scope is kept for link-local addresses only.
 * Return: 0, -URDS_EINVAL (too short), -URDS_EAFNOSUPPORT. */
int urds_addr_from_sockaddr(struct urds_addr *a, uint16_t *port, const struct sockaddr *sa,
			    size_t len);

/* "10.0.0.1", "fd00::1", "fe80::1%eth0". Terminated; cut if it does not fit. Returns @buf. */
char *urds_addr_format(char *buf, size_t size, const struct urds_addr *a);

/* Numeric text only, zone by name or number. Return: 0 or -URDS_EINVAL. */
int urds_addr_parse(struct urds_addr *out, const char *text);

/* fe80::/10: means something only together with an interface. */
static inline bool urds_addr_is_link_local(const struct urds_addr *a)
{
	return a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80;
}

/* 0.0.0.0 or :: */
static inline bool urds_addr_is_any(const struct urds_addr *a)
{
	static const uint8_t zero[16];

	return memcmp(a->ip, zero, 16) == 0 ||
	       (urds_addr_is_v4(a) && memcmp(a->ip + 12, zero, 4) == 0);
}

#endif
