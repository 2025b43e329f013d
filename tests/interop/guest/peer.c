/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernel RDS sockets as rdspeer uses them. */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

void fail(const char *format, ...)
{
	int e = errno;
	va_list ap;

	fflush(stdout);
	fputs("rdspeer: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, ": %s\n", strerror(e));
	exit(EXIT_CHECK);
}

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct addr parse_addr(const char *text, bool need_port)
{
	char host[64];
	const char *port = NULL;
	struct addr a;
	size_t n = strlen(text);
	unsigned long number = 0;

	if (text[0] == '[') {
		const char *end = strchr(text, ']');

		n = end ? (size_t)(end - text - 1) : 0;
		port = end && end[1] == ':' ? end + 2 : NULL;
		text++;
	} else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
		n = (size_t)(strchr(text, ':') - text);
		port = text + n + 1;
	}
	if (n == 0 || n >= sizeof(host))
		goto bad;
	memcpy(host, text, n);
	host[n] = 0;
	if (port) {
		char *end;

		number = strtoul(port, &end, 10);
		if (*end || end == port || number > 65535)
			goto bad;
	} else if (need_port) {
		goto bad;
	}
	memset(&a, 0, sizeof(a));
	struct sockaddr_in *v4 = (struct sockaddr_in *)&a.ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.ss;

	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)number);
		a.len = sizeof(*v4);
		return a;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)number);
		a.len = sizeof(*v6);
		return a;
	}
bad:
	fprintf(stderr, "rdspeer: '%s' is not ADDRESS:PORT ([ADDRESS]:PORT for IPv6)\n", text);
	exit(EXIT_USAGE);
}

const char *addr_text(const struct addr *a)
{
	static char texts[8][64];
	static unsigned next;
	char host[INET6_ADDRSTRLEN] = "?", *out = texts[next++ % 8];

	if (a->ss.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&a->ss)->sin6_addr, host,
			  sizeof(host));
		snprintf(out, 64, "[%s]:%u", host, addr_port(a));
	} else {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)&a->ss)->sin_addr, host,
			  sizeof(host));
		snprintf(out, 64, "%s:%u", host, addr_port(a));
	}
	return out;
}

uint16_t addr_port(const struct addr *a)
{
	if (a->ss.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&a->ss)->sin6_port);
	return ntohs(((const struct sockaddr_in *)&a->ss)->sin_port);
}

struct addr addr_with_port(const struct addr *a, uint16_t port)
{
	struct addr b = *a;

	if (a->ss.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&b.ss)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)&b.ss)->sin_port = htons(port);
	return b;
}

struct stream_end addr_end(const struct addr *a)
{
	struct stream_end e = {.port = addr_port(a)};

	if (a->ss.ss_family == AF_INET6) {
		memcpy(e.addr, &((const struct sockaddr_in6 *)&a->ss)->sin6_addr, 16);
	} else {
		e.addr[10] = e.addr[11] = 0xff;
		memcpy(e.addr + 12, &((const struct sockaddr_in *)&a->ss)->sin_addr, 4);
	}
	return e;
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
	struct stream_end x = addr_end(a), y = addr_end(b);

	return x.port == y.port && memcmp(x.addr, y.addr, sizeof(x.addr)) == 0;
}

int rds_socket(const struct addr *local, const struct options *o)
{
	int fd = socket(RDS_FAMILY, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		fail("socket(AF_RDS)");
	/* The kernel doubles the value, RDS halves it. FORCE passes the system's limit (needs
	 * root). */
	if (o->sndbuf && setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &o->sndbuf, sizeof(int)) < 0)
		fail("SO_SNDBUFFORCE %d", o->sndbuf);
	if (o->rcvbuf && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &o->rcvbuf, sizeof(int)) < 0)
		fail("SO_RCVBUFFORCE %d", o->rcvbuf);
	if (!o->no_monitor &&
	    setsockopt(fd, RDS_LEVEL, RDS_OPT_CONG_MONITOR, &one, sizeof(one)) < 0)
		fail("RDS_CONG_MONITOR");
	if (bind(fd, (const struct sockaddr *)&local->ss, local->len) < 0)
		fail("bind %s", addr_text(local));
	return fd;
}

ssize_t rds_send(int fd, const void *buf, size_t len, const struct addr *to)
{
	ssize_t n = sendto(fd, buf, len, MSG_DONTWAIT, (const struct sockaddr *)&to->ss, to->len);

	if (n < 0 && errno == EINTR)
		errno = EAGAIN;
	if (n < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
		fail("send %zu bytes to %s", len, addr_text(to));
	return n;
}

ssize_t rds_recv(int fd, void *buf, size_t room, struct addr *from, uint64_t *cong)
{
	struct iovec iov = {buf, room};
	union {
		struct cmsghdr align;
		char space[256];
	} control;
	struct msghdr m = {.msg_name = &from->ss,
			   .msg_namelen = sizeof(from->ss),
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	*cong = 0;
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			fail("receive");
		return -1;
	}
	from->len = m.msg_namelen;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level == RDS_LEVEL && c->cmsg_type == RDS_CMSG_CONG)
			memcpy(cong, CMSG_DATA(c), sizeof(*cong));
	}
	if (n == 0 && m.msg_namelen == 0)
		return -2;
	return n;
}

ssize_t rds_info(int fd, int id, uint8_t **out, size_t *item)
{
	socklen_t len = 0;

	*out = NULL;
	for (int tries = 0; tries < 20; tries++) {
		int rc = getsockopt(fd, RDS_LEVEL, id, *out, &len);

		if (rc >= 0) {
			*item = (size_t)rc;
			return (ssize_t)len;
		}
		if (errno != ENOSPC)
			break;
		len += 4096; /* the list may grow */
		free(*out);
		*out = malloc(len);
		if (!*out)
			break;
	}
	free(*out);
	*out = NULL;
	return -1;
}

int rds_unacked(int fd, const struct addr *local)
{
	static const int ids[] = {RDS_INFO6_SEND, RDS_INFO6_RETRANS};
	struct stream_end me = addr_end(local);
	uint8_t port[2] = {(uint8_t)(me.port >> 8), (uint8_t)me.port};
	int n = 0;

	for (unsigned k = 0; k < 2; k++) {
		uint8_t *list;
		size_t item;
		ssize_t len = rds_info(fd, ids[k], &list, &item);

		if (len < 0)
			return -1;
		for (size_t i = 0; item >= 46 && i + item <= (size_t)len; i += item)
			n += memcmp(list + i + 12, me.addr, 16) == 0 &&
			     memcmp(list + i + 44, port, 2) == 0;
		free(list);
	}
	return n;
}

void rds_linger(int fd, const struct addr *local, unsigned limit_ms)
{
	int64_t end = now_ms() + limit_ms;
	int n;

	while ((n = rds_unacked(fd, local)) != 0 && now_ms() < end)
		poll(NULL, 0, 10);
	if (n != 0)
		say("note: %d messages of %s not seen acknowledged", n, addr_text(local));
}
