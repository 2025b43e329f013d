/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Captures: reads a pcap file (plain or .gz) and hands out the bytes of its TCP streams, one
 * direction at a time, in order and each byte once. For tests only.
 */
#ifndef URDS_TESTS_PCAP_H
#define URDS_TESTS_PCAP_H

#include <stddef.h>
#include <stdint.h>

struct pcap_seg;

/* One direction of one TCP connection. */
struct pcap_flow {
	uint8_t src[16], dst[16]; /* IPv4 as v4-mapped */
	uint16_t sport, dport;
	uint32_t first;	      /* sequence number of its first byte */
	uint64_t next;	      /* bytes handed out */
	struct pcap_seg *ooo; /* arrived early, by offset */
	struct pcap_flow *list;
	void *user; /* the caller's */
};

struct pcap_stats {
	unsigned packets, cut, fragments; /* cut: not captured whole. fragments: of IP, ignored */
	unsigned unsynced;		  /* segments of streams that began before the capture */
	unsigned waiting;		  /* segments behind bytes that were never captured */
};

struct pcap {
	uint16_t port; /* only connections with this port on one side */
	/* Borrows @p for the call. @now_ns counts from the first packet of the file. */
	void (*on_data)(struct pcap *c, struct pcap_flow *f, uint64_t now_ns, const uint8_t *p,
			size_t len);
	/* Once for each flow, at the end of the file, in order of appearance. */
	void (*on_end)(struct pcap *c, struct pcap_flow *f);
	struct pcap_stats stats;
	struct pcap_flow *flows; /* newest first */
};

/* Return: 0, or -1 after saying on stderr why the file cannot be read. */
int pcap_read(struct pcap *c, const char *file);

/* The other direction, or NULL. */
struct pcap_flow *pcap_reverse(const struct pcap *c, const struct pcap_flow *f);

/* "192.0.2.2:16385" or "[2001:db8::2]:16385". */
#define PCAP_ADDR_LEN 64
const char *pcap_addr(char buf[PCAP_ADDR_LEN], const uint8_t ip[16], uint16_t port);

#endif
