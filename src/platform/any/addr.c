/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/addr.h"

#include <stdio.h>
#include <stdlib.h>

#include "platform/net.h"

static void map_v4(struct urds_addr *a, const void *ip)
{
	memset(a, 0, sizeof(*a));
	a->ip[10] = 0xff;
	a->ip[11] = 0xff;
	memcpy(a->ip + 12, ip, 4);
}

size_t urds_addr_to_sockaddr(const struct urds_addr *a, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in4 = {.sin_family = AF_INET};

	if (urds_addr_is_v4(a)) {
		in4.sin_port = htons(port);
		memcpy(&in4.sin_addr, a->ip + 12, 4);
		memcpy(out, &in4, sizeof(in4));
		return sizeof(in4);
	}
	in6.sin6_port = htons(port);
	memcpy(&in6.sin6_addr, a->ip, 16);
	in6.sin6_scope_id = a->scope;
	memcpy(out, &in6, sizeof(in6));
	return sizeof(in6);
}

int urds_addr_from_sockaddr(struct urds_addr *a, uint16_t *port, const struct sockaddr *sa,
			    size_t len)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in4;
	sa_family_t family;

	if (len < offsetof(struct sockaddr, sa_family) + sizeof(family))
		return -URDS_EINVAL;
	/* Callers' structs need not be aligned. */
	memcpy(&family, (const char *)sa + offsetof(struct sockaddr, sa_family), sizeof(family));
	switch (family) {
	case AF_INET:
		if (len < sizeof(in4))
			return -URDS_EINVAL;
		memcpy(&in4, sa, sizeof(in4));
		map_v4(a, &in4.sin_addr);
		if (port)
			*port = ntohs(in4.sin_port);
		return 0;
	case AF_INET6:
		/* 24 bytes, without the scope, are an old and still accepted form. */
		if (len < offsetof(struct sockaddr_in6, sin6_scope_id))
			return -URDS_EINVAL;
		memset(&in6, 0, sizeof(in6));
		memcpy(&in6, sa, len < sizeof(in6) ? len : sizeof(in6));
		memset(a, 0, sizeof(*a));
		memcpy(a->ip, &in6.sin6_addr, 16);
		if (urds_addr_is_link_local(a))
			a->scope = in6.sin6_scope_id;
		if (port)
			*port = ntohs(in6.sin6_port);
		return 0;
	default:
		return -URDS_EAFNOSUPPORT;
	}
}

char *urds_addr_format(char *buf, size_t size, const struct urds_addr *a)
{
	char text[INET6_ADDRSTRLEN] = "?", zone[IF_NAMESIZE];

	if (urds_addr_is_v4(a)) {
		(void)inet_ntop(AF_INET, a->ip + 12, text, sizeof(text));
		(void)snprintf(buf, size, "%s", text);
		return buf;
	}
	(void)inet_ntop(AF_INET6, a->ip, text, sizeof(text));
	if (a->scope == 0)
		(void)snprintf(buf, size, "%s", text);
	else if (if_indextoname(a->scope, zone))
		(void)snprintf(buf, size, "%s%%%s", text, zone);
	else
		(void)snprintf(buf, size, "%s%%%u", text, (unsigned)a->scope);
	return buf;
}

static int parse_zone(const char *zone, uint32_t *scope)
{
	unsigned long long n;
	char *end;

	*scope = if_nametoindex(zone);
	if (*scope != 0)
		return 0;
	if (*zone < '0' || *zone > '9')
		return -URDS_EINVAL;
	n = strtoull(zone, &end, 10);
	if (*end != '\0' || n == 0 || n > UINT32_MAX)
		return -URDS_EINVAL;
	*scope = (uint32_t)n;
	return 0;
}

int urds_addr_parse(struct urds_addr *out, const char *text)
{
	char head[INET6_ADDRSTRLEN];
	const char *zone = strchr(text, '%');
	size_t len = zone ? (size_t)(zone - text) : strlen(text);
	struct urds_addr a = {0};
	uint8_t ip4[4];

	if (len >= sizeof(head))
		return -URDS_EINVAL;
	memcpy(head, text, len);
	head[len] = '\0';
	if (inet_pton(AF_INET, head, ip4) == 1)
		map_v4(&a, ip4);
	else if (inet_pton(AF_INET6, head, a.ip) != 1)
		return -URDS_EINVAL;
	if (zone && (!urds_addr_is_link_local(&a) || parse_zone(zone + 1, &a.scope) < 0))
		return -URDS_EINVAL;
	*out = a;
	return 0;
}
