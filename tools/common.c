/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the subcommands share.
 */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tool_name = "urds";

static void __attribute__((format(TOOL_PRINTF, 1, 0))) message(const char *fmt, va_list ap)
{
	char text[1024], line[1100];

	/* One write: several processes may share the terminal. */
	vsnprintf(text, sizeof(text), fmt, ap);
	snprintf(line, sizeof(line), "%s: %s\n", tool_name, text);
	fputs(line, stderr);
	fflush(stderr); /* which not every C library does by itself when it is a file */
}

void tool_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(fmt, ap);
	va_end(ap);
}

int tool_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(fmt, ap);
	va_end(ap);
	fprintf(stderr, "Try '%s --help'.\n", tool_name);
	return TOOL_USAGE;
}

int tool_flush(void)
{
	static atomic_flag is_said = ATOMIC_FLAG_INIT;

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	if (!atomic_flag_test_and_set(&is_said))
		tool_error("cannot write to standard output: %s",
			   errno ? tool_strerror(errno) : "some of it was lost");
	return -1;
}

int tool_print(const char *text)
{
	fputs(text, stdout);
	return tool_flush() == 0 ? TOOL_OK : TOOL_FAILED;
}

int tool_version(void)
{
	printf("%s (urds) %s\n", tool_name, urds_version());
	return tool_flush() == 0 ? TOOL_OK : TOOL_FAILED;
}

const struct sockaddr *tool_sa(const struct tool_addr *a)
{
	return (const struct sockaddr *)&a->sa;
}

static const struct sockaddr_in *in4(const struct tool_addr *a)
{
	return (const struct sockaddr_in *)&a->sa;
}

static const struct sockaddr_in6 *in6(const struct tool_addr *a)
{
	return (const struct sockaddr_in6 *)&a->sa;
}

void tool_addr_set(struct tool_addr *out, const struct sockaddr *sa, socklen_t len)
{
	char ip[INET6_ADDRSTRLEN] = "?", zone[IF_NAMESIZE];
	uint32_t scope = 0;

	memset(out, 0, sizeof(*out));
	out->len = (size_t)len < sizeof(out->sa) ? len : (socklen_t)sizeof(out->sa);
	memcpy(&out->sa, sa, (size_t)out->len);
	if (sa->sa_family == AF_INET) {
		inet_ntop(AF_INET, &in4(out)->sin_addr, ip, sizeof(ip));
		out->len = sizeof(struct sockaddr_in);
	} else if (sa->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6(out)->sin6_addr, ip, sizeof(ip));
		scope = in6(out)->sin6_scope_id;
		out->len = sizeof(struct sockaddr_in6);
	}
	if (!scope)
		snprintf(out->text, sizeof(out->text), "%s", ip);
	else if (if_indextoname(scope, zone))
		snprintf(out->text, sizeof(out->text), "%s%%%.15s", ip, zone);
	else
		snprintf(out->text, sizeof(out->text), "%s%%%u", ip, scope);
}

const char *tool_resolve(struct tool_addr *out, const char *text, int family)
{
	struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_DGRAM}, *found;
	int rc;

	if (!*text)
		return "the address is empty";
	rc = getaddrinfo(text, NULL, &hints, &found);
	if (rc != 0)
		return tool_gai_error(rc);
	if (found->ai_family != AF_INET && found->ai_family != AF_INET6) {
		freeaddrinfo(found);
		return "neither IPv4 nor IPv6";
	}
	tool_addr_set(out, found->ai_addr, (socklen_t)found->ai_addrlen);
	freeaddrinfo(found);
	return NULL;
}

uint16_t tool_port(const struct tool_addr *a)
{
	return ntohs(a->sa.ss_family == AF_INET ? in4(a)->sin_port : in6(a)->sin6_port);
}

void tool_port_set(struct tool_addr *a, uint16_t port)
{
	if (a->sa.ss_family == AF_INET)
		((struct sockaddr_in *)&a->sa)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)&a->sa)->sin6_port = htons(port);
}

const char *tool_endpoint(struct tool_addr *out, const char *text)
{
	const char *colon = strrchr(text, ':'), *why;
	char host[256], *end;
	unsigned long port;
	size_t n;

	if (!colon || !colon[1])
		return "no port: write ADDR:PORT, or [ADDR]:PORT for IPv6";
	n = (size_t)(colon - text);
	if (text[0] == '[') {
		if (n < 2 || text[n - 1] != ']')
			return "write [ADDR]:PORT";
		text++;
		n -= 2;
	} else if (memchr(text, ':', n)) {
		return "write an IPv6 address in brackets: [ADDR]:PORT";
	}
	if (n >= sizeof(host))
		return "the name is too long";
	memcpy(host, text, n);
	host[n] = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (*end || port > 65535 || colon[1] < '0' || colon[1] > '9')
		return "the port is not a number from 2 to 65535";
	if (port < 2)
		return "ports 0 (ping) and 1 (probes) carry no data; use 2 to 65535";
	why = tool_resolve(out, host, AF_UNSPEC);
	if (!why)
		tool_port_set(out, (uint16_t)port);
	return why;
}

bool tool_addr_same(const struct tool_addr *a, const struct tool_addr *b)
{
	if (a->sa.ss_family != b->sa.ss_family)
		return false;
	if (a->sa.ss_family == AF_INET)
		return in4(a)->sin_addr.s_addr == in4(b)->sin_addr.s_addr;
	return memcmp(&in6(a)->sin6_addr, &in6(b)->sin6_addr, 16) == 0 &&
	       in6(a)->sin6_scope_id == in6(b)->sin6_scope_id;
}

int tool_route(struct tool_addr *out, const struct tool_addr *dest)
{
	struct tool_addr to = *dest;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	tool_sock s = tool_sock_open(dest->sa.ss_family, SOCK_DGRAM, false);
	int err = 0;

	if (s == TOOL_NO_SOCK)
		return tool_sock_error();
	/* Connecting a datagram socket sends nothing: it asks the routing table. */
	tool_port_set(&to, 1);
	if (connect(s, tool_sa(&to), to.len) < 0 ||
	    getsockname(s, (struct sockaddr *)&sa, &len) < 0)
		err = tool_sock_error();
	tool_sock_close(s);
	if (!err) {
		tool_addr_set(out, (struct sockaddr *)&sa, len);
		tool_port_set(out, 0);
	}
	return err;
}

long long tool_number(const char *text)
{
	static const char suffix[] = "kKmMgG";
	const char *s;
	long long n;
	char *end;

	errno = 0;
	n = strtoll(text, &end, 0);
	if (end == text || errno || n < 0)
		return -1;
	if (*end) {
		s = strchr(suffix, *end);
		if (!s || end[1] || n > (INT64_MAX >> 30))
			return -1;
		n <<= 10 * ((s - suffix) / 2 + 1);
	}
	return n;
}

const char *tool_owner_text(const struct urds_owner *o, char *buf, size_t cap)
{
	if (o->pid)
		snprintf(buf, cap, "pid %d (%s, user %s)", o->pid, o->program, o->user);
	else
		snprintf(buf, cap, "a process of another container (%s, user %s)", o->program,
			 o->user);
	return buf;
}
