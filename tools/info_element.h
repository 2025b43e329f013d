/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Elements of the RDS_INFO tables, bytes -> structs. They are packed; addresses and ports in network order, other integers in
 * the host's.
 */
#ifndef URDS_TOOLS_INFO_ELEMENT_H
#define URDS_TOOLS_INFO_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "system.h"

/* The two addresses of an element as text; a v4-mapped one as the IPv4 address it is. */
struct info_pair {
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
	uint16_t local_port, remote_port; /* 0 where the table has none */
};

/* @six: both are 16 bytes, else 4. */
void info_pair_get(struct info_pair *out, const uint8_t *local, const uint8_t *remote, bool six);

struct info_connection {
	struct info_pair at;
	uint64_t next_tx, next_rx;
	unsigned tos;
	char transport[16];
	bool is_sending, is_connecting, is_connected, has_failed;
};

struct info_message {
	struct info_pair at;
	uint64_t seq;
	uint32_t bytes;
	unsigned tos;
};

struct info_socket {
	struct info_pair at; /* remote: connected to */
	uint32_t sndbuf, rcvbuf;
	uint64_t inode;
};

struct info_tcp {
	struct info_pair at;
	uint64_t header_left, data_left;
	uint32_t sent_next, expected_una, seen_una;
};

struct info_ib {
	struct info_pair at;
	char local_gid[INET6_ADDRSTRLEN], remote_gid[INET6_ADDRSTRLEN];
	uint32_t send_wr, recv_wr, send_sge, mr_max, mr_size, cache_allocs;
	unsigned tos, sl;
};

struct info_counter {
	char name[32];
	uint64_t value;
};

/* @e: an element of the table's size for its family, @six: IPv6. */
struct info_connection info_connection_get(const uint8_t *e, bool six);
struct info_message info_message_get(const uint8_t *e, bool six);
struct info_socket info_socket_get(const uint8_t *e, bool six);
struct info_tcp info_tcp_get(const uint8_t *e, bool six);
struct info_ib info_ib_get(const uint8_t *e, bool six);
struct info_counter info_counter_get(const uint8_t *e);

#endif
