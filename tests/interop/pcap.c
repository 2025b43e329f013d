/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Captures.
 */
#include "pcap.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/be.h"

#define TCP_SYN 0x02u
#define TCP_RST 0x04u
#define EARLY_MAX (64 << 20) /* no window is larger; a segment beyond is of another life */

struct pcap_seg {
	struct pcap_seg *next;
	uint64_t off;
	size_t len;
	uint8_t bytes[];
};

static void *must(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "pcap: out of memory\n");
	exit(2);
}

/* gzip's own program, so that the tests need no library for it. */
static FILE *open_gz(const char *file, pid_t *pid)
{
	int fd[2];

	if (pipe(fd) < 0)
		return NULL;
	*pid = fork();
	if (*pid == 0) {
		dup2(fd[1], 1);
		close(fd[0]);
		close(fd[1]);
		execlp("gzip", "gzip", "-dc", "--", file, (char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	if (*pid < 0) {
		close(fd[0]);
		return NULL;
	}
	return fdopen(fd[0], "rb");
}

static uint8_t *slurp(const char *file, size_t *len)
{
	size_t n = strlen(file), cap = 1 << 20, got;
	bool is_gz = n > 3 && strcmp(file + n - 3, ".gz") == 0;
	pid_t pid = -1;
	FILE *f = is_gz ? open_gz(file, &pid) : fopen(file, "rb");
	uint8_t *buf;
	int status = 0;

	if (!f) {
		perror(file);
		return NULL;
	}
	buf = must(malloc(cap));
	*len = 0;
	while ((got = fread(buf + *len, 1, cap - *len, f)) > 0) {
		*len += got;
		if (*len == cap)
			buf = must(realloc(buf, cap *= 2));
	}
	fclose(f);
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status != 0)) {
		fprintf(stderr, "%s: gzip -dc failed\n", file);
		free(buf);
		return NULL;
	}
	return buf;
}

static void early(struct pcap_flow *f, uint64_t off, const uint8_t *p, size_t len)
{
	struct pcap_seg **at = &f->ooo, *seg = must(malloc(sizeof(*seg) + len));

	seg->off = off;
	seg->len = len;
	memcpy(seg->bytes, p, len);
	while (*at && (*at)->off <= off)
		at = &(*at)->next;
	seg->next = *at;
	*at = seg;
}

/* Bytes at stream offset @off: whatever of them is new and next in order goes out. */
static void arrive(struct pcap *c, struct pcap_flow *f, uint64_t now_ns, uint64_t off,
		   const uint8_t *p, size_t len)
{
	uint64_t old = f->next - off;

	if (old >= len)
		return;
	f->next += len - old;
	c->on_data(c, f, now_ns, p + old, len - old);
}

static void segment(struct pcap *c, struct pcap_flow *f, uint64_t now_ns, uint32_t seq,
		    const uint8_t *p, size_t len)
{
	int64_t off = (int64_t)f->next + (int32_t)(seq - (f->first + (uint32_t)f->next));

	if (off < 0) { /* before the first byte: a keepalive's */
		if (len <= (uint64_t)-off)
			return;
		p += -off;
		len -= (size_t)-off;
		off = 0;
	}
	if ((uint64_t)off > f->next) {
		if ((uint64_t)off - f->next < EARLY_MAX)
			early(f, (uint64_t)off, p, len);
		return;
	}
	arrive(c, f, now_ns, (uint64_t)off, p, len);
	while (f->ooo && f->ooo->off <= f->next) {
		struct pcap_seg *seg = f->ooo;

		f->ooo = seg->next;
		arrive(c, f, now_ns, seg->off, seg->bytes, seg->len);
		free(seg);
	}
}

static struct pcap_flow *find(const struct pcap *c, const uint8_t *src, const uint8_t *dst,
			      uint16_t sport, uint16_t dport)
{
	struct pcap_flow *f = c->flows;

	while (f && (f->sport != sport || f->dport != dport || memcmp(f->src, src, 16) != 0 ||
		     memcmp(f->dst, dst, 16) != 0))
		f = f->list;
	return f;
}

struct pcap_flow *pcap_reverse(const struct pcap *c, const struct pcap_flow *f)
{
	return find(c, f->dst, f->src, f->dport, f->sport);
}

static void tcp(struct pcap *c, uint64_t now_ns, const uint8_t *src, const uint8_t *dst,
		const uint8_t *p, size_t len, bool is_cut)
{
	uint16_t sport, dport;
	struct pcap_flow *f;
	uint32_t seq;
	size_t hlen;

	if (len < 20)
		return;
	sport = urds_be16_load(p);
	dport = urds_be16_load(p + 2);
	if (sport != c->port && dport != c->port)
		return;
	c->stats.packets++;
	c->stats.cut += is_cut;
	seq = urds_be32_load(p + 4);
	hlen = (p[12] >> 4) * 4u;
	if (hlen < 20 || hlen > len)
		return;
	f = find(c, src, dst, sport, dport);
	if (p[13] & TCP_SYN) {
		if (f && f->first == seq + 1)
			return; /* sent again */
		f = must(calloc(1, sizeof(*f)));
		memcpy(f->src, src, 16);
		memcpy(f->dst, dst, 16);
		f->sport = sport;
		f->dport = dport;
		f->first = seq + 1;
		f->list = c->flows;
		c->flows = f;
		return;
	}
	if (len == hlen || (p[13] & TCP_RST))
		return;
	if (!f) {
		c->stats.unsynced++;
		return;
	}
	segment(c, f, now_ns, seq, p + hlen, len - hlen);
}

static void mapped(uint8_t out[16], const uint8_t *v4)
{
	memset(out, 0, 10);
	memset(out + 10, 0xff, 2);
	memcpy(out + 12, v4, 4);
}

static void ip(struct pcap *c, uint64_t now_ns, const uint8_t *p, size_t len)
{
	uint8_t src[16], dst[16];
	size_t hlen, total;

	if (len >= 20 && p[0] >> 4 == 4) {
		hlen = (p[0] & 15) * 4u;
		total = urds_be16_load(p + 2);
		if (total == 0) /* offloaded: larger than 64 KiB */
			total = len;
		if (p[9] != 6 || hlen < 20 || total < hlen || hlen > len)
			return;
		if (urds_be16_load(p + 6) & 0x3fff) {
			c->stats.fragments++;
			return;
		}
		mapped(src, p + 12);
		mapped(dst, p + 16);
	} else if (len >= 40 && p[0] >> 4 == 6) {
		hlen = 40;
		total = urds_be16_load(p + 4) ? urds_be16_load(p + 4) + hlen : len;
		if (p[6] != 6)
			return;
		memcpy(src, p + 8, 16);
		memcpy(dst, p + 24, 16);
	} else {
		return;
	}
	tcp(c, now_ns, src, dst, p + hlen, (total < len ? total : len) - hlen, total > len);
}

/* Return: offset of the IP header, or -1. */
static int link_header(uint32_t type, const uint8_t *p, size_t len)
{
	size_t at;

	switch (type) {
	case 1: /* Ethernet */
		at = 12;
		while (at + 4 <= len &&
		       (urds_be16_load(p + at) == 0x8100 || urds_be16_load(p + at) == 0x88a8))
			at += 4;
		if (at + 2 > len ||
		    (urds_be16_load(p + at) != 0x0800 && urds_be16_load(p + at) != 0x86dd))
			return -1;
		return (int)at + 2;
	case 113: /* Linux cooked */
		return 16;
	case 276: /* Linux cooked, version 2 */
		return 20;
	case 0: /* BSD loopback */
		return 4;
	default:
		return 0;
	}
}

static uint32_t load32(const uint8_t *p, bool is_le)
{
	return is_le ? __builtin_bswap32(urds_be32_load(p)) : urds_be32_load(p);
}

static void packets(struct pcap *c, const uint8_t *p, size_t len, bool is_le, bool is_ns)
{
	uint32_t type = load32(p + 20, is_le) & 0xffff;
	uint64_t zero = 0;
	size_t at = 24;
	bool any = false;

	while (len - at >= 16) {
		uint64_t t = load32(p + at, is_le) * UINT64_C(1000000000) +
			     load32(p + at + 4, is_le) * (is_ns ? UINT64_C(1) : UINT64_C(1000));
		size_t caplen = load32(p + at + 8, is_le);
		int skip;

		at += 16;
		if (caplen > len - at)
			break; /* the capture was stopped while it wrote */
		if (!any)
			zero = t;
		any = true;
		skip = link_header(type, p + at, caplen);
		if (skip >= 0 && (size_t)skip < caplen)
			ip(c, t - zero, p + at + skip, caplen - (size_t)skip);
		at += caplen;
	}
}

static void end(struct pcap *c)
{
	struct pcap_flow *f, *oldest_first = NULL;

	while ((f = c->flows)) {
		c->flows = f->list;
		f->list = oldest_first;
		oldest_first = f;
	}
	while ((f = oldest_first)) {
		struct pcap_seg *seg;

		oldest_first = f->list;
		while ((seg = f->ooo)) {
			f->ooo = seg->next;
			c->stats.waiting++;
			free(seg);
		}
		c->on_end(c, f);
		free(f);
	}
}

int pcap_read(struct pcap *c, const char *file)
{
	size_t len;
	uint8_t *p = slurp(file, &len);
	uint32_t be = p && len >= 24 ? urds_be32_load(p) : 0, le = __builtin_bswap32(be);
	bool is_le = le == 0xa1b2c3d4 || le == 0xa1b23c4d;
	uint32_t magic = is_le ? le : be;

	if (!p)
		return -1;
	memset(&c->stats, 0, sizeof(c->stats));
	c->flows = NULL;
	if (magic != 0xa1b2c3d4 && magic != 0xa1b23c4d) {
		fprintf(stderr, "%s: not a pcap file%s\n", file,
			be == 0x0a0d0d0a ? " but pcapng; convert it: tcpdump -r IN -w OUT" : "");
		free(p);
		return -1;
	}
	packets(c, p, len, is_le, magic == 0xa1b23c4d);
	end(c);
	free(p);
	return 0;
}

const char *pcap_addr(char buf[PCAP_ADDR_LEN], const uint8_t addr[16], uint16_t port)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	bool is_v4 = memcmp(addr, v4, 12) == 0;
	char text[INET6_ADDRSTRLEN];

	inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? addr + 12 : addr, text, sizeof(text));
	snprintf(buf, PCAP_ADDR_LEN, is_v4 ? "%s:%u" : "[%s]:%u", text, port);
	return buf;
}
