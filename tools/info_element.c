/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Elements of the RDS_INFO tables, bytes -> structs.
 */
#include "info_element.h"

#include <string.h>

static uint16_t port(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void addr(char out[INET6_ADDRSTRLEN], const uint8_t *p, bool six)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (six && memcmp(p, mapped, sizeof(mapped)) != 0)
		inet_ntop(AF_INET6, p, out, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET, six ? p + 12 : p, out, INET6_ADDRSTRLEN);
}

void info_pair_get(struct info_pair *out, const uint8_t *local, const uint8_t *remote, bool six)
{
	addr(out->local, local, six);
	addr(out->remote, remote, six);
}

struct info_connection info_connection_get(const uint8_t *e, bool six)
{
	/* Old kernels kept the flags in the last byte of the transport's name. */
	unsigned flags = six ? e[64] | e[63] : e[40] | e[39];
	struct info_connection c = {
		.next_tx = u64(e), .next_rx = u64(e + 8), .tos = six ? 0 : e[41]};

	info_pair_get(&c.at, e + 16, e + (six ? 32 : 20), six);
	memcpy(c.transport, e + (six ? 48 : 24), sizeof(c.transport) - 1);
	c.is_sending = flags & 1;
	c.is_connecting = flags & 2;
	c.is_connected = flags & 4;
	c.has_failed = flags & 8;
	return c;
}

struct info_message info_message_get(const uint8_t *e, bool six)
{
	struct info_message m = {.seq = u64(e), .bytes = u32(e + 8), .tos = e[six ? 49 : 25]};

	info_pair_get(&m.at, e + 12, e + (six ? 28 : 16), six);
	m.at.local_port = port(e + (six ? 44 : 20));
	m.at.remote_port = port(e + (six ? 46 : 22));
	return m;
}

struct info_socket info_socket_get(const uint8_t *e, bool six)
{
	struct info_socket s = {.sndbuf = u32(e),
				.rcvbuf = u32(e + (six ? 40 : 16)),
				.inode = u64(e + (six ? 44 : 20))};

	info_pair_get(&s.at, e + 4, e + (six ? 20 : 8), six);
	s.at.local_port = port(e + (six ? 36 : 12));
	s.at.remote_port = port(e + (six ? 38 : 14));
	return s;
}

struct info_tcp info_tcp_get(const uint8_t *e, bool six)
{
	const uint8_t *rest = e + (six ? 36 : 12);
	struct info_tcp t = {.header_left = u64(rest),
			     .data_left = u64(rest + 8),
			     .sent_next = u32(rest + 16),
			     .expected_una = u32(rest + 20),
			     .seen_una = u32(rest + 24)};

	info_pair_get(&t.at, e, e + (six ? 18 : 6), six);
	t.at.local_port = port(e + (six ? 16 : 4));
	t.at.remote_port = port(e + (six ? 34 : 10));
	return t;
}

struct info_ib info_ib_get(const uint8_t *e, bool six)
{
	const uint8_t *gids = e + (six ? 32 : 8), *n = gids + 32, *tos = e + (six ? 84 : 60);
	struct info_ib b = {.send_wr = u32(n),
			    .recv_wr = u32(n + 4),
			    .send_sge = u32(n + 8),
			    .mr_max = u32(n + 12),
			    .mr_size = u32(n + 16),
			    .cache_allocs = u32(tos + 4),
			    .tos = tos[0],
			    .sl = tos[1]};

	info_pair_get(&b.at, e, e + (six ? 16 : 4), six);
	inet_ntop(AF_INET6, gids, b.local_gid, sizeof(b.local_gid));
	inet_ntop(AF_INET6, gids + 16, b.remote_gid, sizeof(b.remote_gid));
	return b;
}

struct info_counter info_counter_get(const uint8_t *e)
{
	struct info_counter c = {.value = u64(e + 32)};

	memcpy(c.name, e, sizeof(c.name) - 1);
	return c;
}
