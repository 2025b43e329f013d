/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* info: the kernel's RDS lists, one line for each element. */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	int id;
} lists[] = {{"counters", 10000}, {"connections", 10001}, {"send", 10003},  {"retrans", 10004},
	     {"recv", 10005},	  {"sockets", 10006},	  {"tcp", 10007},   {"connections6", 10011},
	     {"send6", 10012},	  {"retrans6", 10013},	  {"recv6", 10014}, {"sockets6", 10015},
	     {"tcp6", 10016}};

static unsigned long long host_int(const uint8_t *p, size_t n)
{
	uint64_t v64;
	uint32_t v32;

	if (n == 8) {
		memcpy(&v64, p, 8);
		return v64;
	}
	memcpy(&v32, p, 4);
	return v32;
}

static const char *host(const uint8_t *p, bool v6)
{
	static char texts[2][INET6_ADDRSTRLEN];
	static unsigned next;
	char *t = texts[next++ % 2];

	if (!inet_ntop(v6 ? AF_INET6 : AF_INET, p, t, INET6_ADDRSTRLEN))
		strcpy(t, "?");
	return t;
}

static unsigned port(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static void raw(const uint8_t *p, size_t item)
{
	char text[512];

	for (size_t i = 0; i < item && i < 250; i++)
		snprintf(text + 2 * i, 3, "%02x", p[i]);
	say("%s", text);
}

static void connection(const uint8_t *p, bool v6)
{
	size_t a = v6 ? 16 : 4, end = 16 + 2 * a + 16;

	say("connection %s %s %.16s next_tx %llu next_rx %llu%s%s%s", host(p + 16, v6),
	    host(p + 16 + a, v6), (const char *)p + 16 + 2 * a, host_int(p, 8), host_int(p + 8, 8),
	    p[end] & 1 ? " sending" : "", p[end] & 2 ? " connecting" : "", p[end] & 4 ? " up" : "");
}

static void message(const uint8_t *p, bool v6)
{
	size_t a = v6 ? 16 : 4;

	say("message %s:%u %s:%u seq %llu bytes %llu", host(p + 12, v6), port(p + 12 + 2 * a),
	    host(p + 12 + a, v6), port(p + 14 + 2 * a), host_int(p, 8), host_int(p + 8, 4));
}

static void sock(const uint8_t *p, bool v6)
{
	size_t a = v6 ? 16 : 4, end = 4 + 2 * a;

	say("socket %s:%u peer %s:%u sndbuf %llu rcvbuf %llu", host(p + 4, v6), port(p + end),
	    host(p + 4 + a, v6), port(p + end + 2), host_int(p, 4), host_int(p + end + 4, 4));
}

static void tcp(const uint8_t *p, bool v6)
{
	size_t a = v6 ? 16 : 4, end = 2 * a + 4;

	say("tcp %s:%u %s:%u hdr_rem %llu data_rem %llu sent_nxt %llu expected_una %llu seen_una "
	    "%llu",
	    host(p, v6), port(p + a), host(p + a + 2, v6), port(p + 2 * a + 2),
	    host_int(p + end, 8), host_int(p + end + 8, 8), host_int(p + end + 16, 4),
	    host_int(p + end + 20, 4), host_int(p + end + 24, 4));
}

static void element(int id, const uint8_t *p, size_t item)
{
	switch (id) {
	case 10000:
		say("counter %.32s %llu", (const char *)p, host_int(p + 32, 8));
		break;
	case 10001:
	case 10011:
		connection(p, id == 10011);
		break;
	case 10003:
	case 10004:
	case 10005:
	case 10012:
	case 10013:
	case 10014:
		message(p, id >= 10012);
		break;
	case 10006:
	case 10015:
		sock(p, id == 10015);
		break;
	case 10007:
	case 10016:
		tcp(p, id == 10016);
		break;
	default:
		raw(p, item);
	}
}

int mode_info(struct options *o)
{
	int id = o->argc > 0 ? atoi(o->argv[0]) : 0, fd;
	uint8_t *list;
	size_t item;
	ssize_t len;

	for (size_t i = 0; o->argc > 0 && i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(o->argv[0], lists[i].name) == 0)
			id = lists[i].id;
	}
	if (id < RDS_INFO_FIRST) {
		fprintf(stderr, "rdspeer: info needs a number or one of:");
		for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
			fprintf(stderr, " %s", lists[i].name);
		fprintf(stderr, "\n");
		return EXIT_USAGE;
	}
	fd = socket(RDS_FAMILY, SOCK_SEQPACKET, 0);
	if (fd < 0)
		fail("socket(AF_RDS)");
	len = rds_info(fd, id, &list, &item);
	if (len < 0)
		fail("info %d", id);
	for (size_t i = 0; item > 0 && i + item <= (size_t)len; i += item) {
		if (o->raw)
			raw(list + i, item);
		else
			element(id, list + i, item);
	}
	free(list);
	return 0;
}
