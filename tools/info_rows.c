/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The sections of urds info: as rds-info lays them out, and as JSON.
 */
#include "info.h"

#include <stdio.h>
#include <string.h>

#include "info_element.h"
#include "json.h"
#include "peer.h"
#include "urds/urds.h"

#define IB_CONNECTIONS 10008 /* RDMA: no source yet */

typedef unsigned long long ull;

/* The four keys that begin most objects. */
static void json_pair(struct json_object *o, const struct info_pair *at, bool has_ports)
{
	tool_json_text(o, "local_addr", at->local);
	if (has_ports)
		tool_json_number(o, "local_port", at->local_port);
	tool_json_text(o, "remote_addr", at->remote);
	if (has_ports)
		tool_json_number(o, "remote_port", at->remote_port);
}

static void connections_header(int w)
{
	printf("%*s %*s %4s %16s %16s %4s\n", w, "LocalAddr", w, "RemoteAddr", "Tos", "NextTX",
	       "NextRX", "Flgs");
}

static void connections_row(const uint8_t *e, bool six, int w, bool verbose)
{
	struct info_connection c = info_connection_get(e, six);

	printf("%*s %*s %4u %16llu %16llu %c%c%c%c\n", w, c.at.local, w, c.at.remote, c.tos,
	       (ull)c.next_tx, (ull)c.next_rx, c.is_sending ? 's' : '-',
	       c.is_connecting ? 'c' : '-', c.is_connected ? 'C' : '-', c.has_failed ? 'E' : '-');
}

static void connections_json(const uint8_t *e, bool six, struct json_object *o)
{
	struct info_connection c = info_connection_get(e, six);

	json_pair(o, &c.at, false);
	tool_json_number(o, "tos", c.tos);
	tool_json_number(o, "next_tx", c.next_tx);
	tool_json_number(o, "next_rx", c.next_rx);
	tool_json_text(o, "transport", c.transport);
	tool_json_flag(o, "sending", c.is_sending);
	tool_json_flag(o, "connecting", c.is_connecting);
	tool_json_flag(o, "connected", c.is_connected);
	tool_json_flag(o, "error", c.has_failed);
}

static void messages_header(int w)
{
	printf("%*s %5s %*s %5s %4s %16s %10s\n", w, "LocalAddr", "LPort", w, "RemoteAddr", "RPort",
	       "Tos", "Seq", "Bytes");
}

static void messages_row(const uint8_t *e, bool six, int w, bool verbose)
{
	struct info_message m = info_message_get(e, six);

	printf("%*s %5u %*s %5u %4u %16llu %10u\n", w, m.at.local, m.at.local_port, w, m.at.remote,
	       m.at.remote_port, m.tos, (ull)m.seq, m.bytes);
}

static void messages_json(const uint8_t *e, bool six, struct json_object *o)
{
	struct info_message m = info_message_get(e, six);

	json_pair(o, &m.at, true);
	tool_json_number(o, "tos", m.tos);
	tool_json_number(o, "seq", m.seq);
	tool_json_number(o, "bytes", m.bytes);
}

static void sockets_header(int w)
{
	printf("%*s %5s %*s %5s %10s %10s %8s\n", w, "BoundAddr", "BPort", w, "ConnAddr", "CPort",
	       "SndBuf", "RcvBuf", "Inode");
}

static void sockets_row(const uint8_t *e, bool six, int w, bool verbose)
{
	struct info_socket s = info_socket_get(e, six);

	printf("%*s %5u %*s %5u %10u %10u %8llu\n", w, s.at.local, s.at.local_port, w, s.at.remote,
	       s.at.remote_port, s.sndbuf, s.rcvbuf, (ull)s.inode);
}

static void sockets_json(const uint8_t *e, bool six, struct json_object *o)
{
	struct info_socket s = info_socket_get(e, six);
	bool is_connected = strcmp(s.at.remote, six ? "::" : "0.0.0.0") != 0;

	tool_json_text(o, "bound_addr", s.at.local);
	tool_json_number(o, "bound_port", s.at.local_port);
	if (is_connected) {
		tool_json_text(o, "connected_addr", s.at.remote);
		tool_json_number(o, "connected_port", s.at.remote_port);
	} else {
		tool_json_null(o, "connected_addr");
		tool_json_null(o, "connected_port");
	}
	tool_json_number(o, "sndbuf", s.sndbuf);
	tool_json_number(o, "rcvbuf", s.rcvbuf);
	tool_json_number(o, "inode", s.inode);
}

static void tcp_header(int w)
{
	printf("%*s %5s %*s %5s %10s %10s %10s %10s %10s\n", w, "LocalAddr", "LPort", w,
	       "RemoteAddr", "RPort", "HdrRemain", "DataRemain", "SentNxt", "ExpectUna", "SeenUna");
}

static void tcp_row(const uint8_t *e, bool six, int w, bool verbose)
{
	struct info_tcp t = info_tcp_get(e, six);

	printf("%*s %5u %*s %5u %10llu %10llu %10u %10u %10u\n", w, t.at.local, t.at.local_port, w,
	       t.at.remote, t.at.remote_port, (ull)t.header_left, (ull)t.data_left, t.sent_next,
	       t.expected_una, t.seen_una);
}

static void tcp_json(const uint8_t *e, bool six, struct json_object *o)
{
	struct info_tcp t = info_tcp_get(e, six);

	json_pair(o, &t.at, true);
	tool_json_number(o, "header_remaining", t.header_left);
	tool_json_number(o, "data_remaining", t.data_left);
	tool_json_number(o, "sent_next", t.sent_next);
	tool_json_number(o, "expected_una", t.expected_una);
	tool_json_number(o, "seen_una", t.seen_una);
}

static void ib_header(int w)
{
	printf("%*s %*s %4s %3s %32s %32s\n", w, "LocalAddr", w, "RemoteAddr", "Tos", "SL",
	       "LocalDev", "RemoteDev");
}

static void ib_row(const uint8_t *e, bool six, int w, bool verbose)
{
	struct info_ib b = info_ib_get(e, six);

	printf("%*s %*s %4u %3u %32s %32s", w, b.at.local, w, b.at.remote, b.tos, b.sl, b.local_gid,
	       b.remote_gid);
	if (verbose)
		printf("  send_wr=%u, recv_wr=%u, send_sge=%u, rdma_mr_max=%u, rdma_mr_size=%u, "
		       "cache_allocs=%u",
		       b.send_wr, b.recv_wr, b.send_sge, b.mr_max, b.mr_size, b.cache_allocs);
	printf("\n");
}

static void ib_json(const uint8_t *e, bool six, struct json_object *o)
{
	struct info_ib b = info_ib_get(e, six);

	json_pair(o, &b.at, false);
	tool_json_number(o, "tos", b.tos);
	tool_json_number(o, "sl", b.sl);
	tool_json_text(o, "local_gid", b.local_gid);
	tool_json_text(o, "remote_gid", b.remote_gid);
	tool_json_number(o, "send_wr", b.send_wr);
	tool_json_number(o, "recv_wr", b.recv_wr);
	tool_json_number(o, "send_sge", b.send_sge);
	tool_json_number(o, "rdma_mr_max", b.mr_max);
	tool_json_number(o, "rdma_mr_size", b.mr_size);
	tool_json_number(o, "cache_allocs", b.cache_allocs);
}

static void counters_header(int w)
{
	printf("%25s %16s\n", "CounterName", "Value");
}

static void counters_row(const uint8_t *e, bool six, int w, bool verbose)
{
	struct info_counter c = info_counter_get(e);

	printf("%25s %16llu\n", c.name, (ull)c.value);
}

static void counters_json(const uint8_t *e, bool six, struct json_object *o)
{
	struct info_counter c = info_counter_get(e);

	tool_json_number(o, c.name, c.value);
}

static void peer_row(const uint8_t *e, bool six, int w, bool verbose)
{
	peers_row(e, w);
}

static void peer_json(const uint8_t *e, bool six, struct json_object *o)
{
	peers_json(e, o);
}

const struct info_section info_sections[INFO_SECTIONS] = {
	{'I',
	 "RDS IB connections",
	 "RDS IB Connections",
	 "ib_connections",
	 IB_CONNECTIONS,
	 0,
	 68,
	 92,
	 {0, 16},
	 ib_header,
	 ib_row,
	 ib_json},
	{'T',
	 "TCP connections",
	 "TCP Connections",
	 "tcp_connections",
	 URDS_INFO_TCP_SOCKETS,
	 URDS_INFO6_TCP_SOCKETS,
	 41,
	 64,
	 {0, 18},
	 tcp_header,
	 tcp_row,
	 tcp_json},
	{'c',
	 "statistic counters",
	 "Counters",
	 "counters",
	 URDS_INFO_COUNTERS,
	 0,
	 40,
	 0,
	 {0, 0},
	 counters_header,
	 counters_row,
	 counters_json},
	{'k',
	 "sockets",
	 "RDS Sockets",
	 "sockets",
	 URDS_INFO_SOCKETS,
	 URDS_INFO6_SOCKETS,
	 28,
	 52,
	 {4, 20},
	 sockets_header,
	 sockets_row,
	 sockets_json},
	{'n',
	 "connections",
	 "RDS Connections",
	 "connections",
	 URDS_INFO_CONNECTIONS,
	 URDS_INFO6_CONNECTIONS,
	 42,
	 65,
	 {16, 32},
	 connections_header,
	 connections_row,
	 connections_json},
	{'r',
	 "receive message queue",
	 "Receive Message Queue",
	 "receive_queue",
	 URDS_INFO_RECV_MESSAGES,
	 URDS_INFO6_RECV_MESSAGES,
	 26,
	 50,
	 {12, 28},
	 messages_header,
	 messages_row,
	 messages_json},
	{'s',
	 "send message queue",
	 "Send Message Queue",
	 "send_queue",
	 URDS_INFO_SEND_MESSAGES,
	 URDS_INFO6_SEND_MESSAGES,
	 26,
	 50,
	 {12, 28},
	 messages_header,
	 messages_row,
	 messages_json},
	{'t',
	 "retransmit message queue",
	 "Retransmit Message Queue",
	 "retransmit_queue",
	 URDS_INFO_RETRANS_MESSAGES,
	 URDS_INFO6_RETRANS_MESSAGES,
	 26,
	 50,
	 {12, 28},
	 messages_header,
	 messages_row,
	 messages_json},
	[INFO_PEERS] = {0,
			"peers",
			"Peers",
			"peers",
			0,
			URDS_INFO_PEERS,
			0,
			sizeof(struct urds_info_peer),
			{0, 16},
			peers_header,
			peer_row,
			peer_json},
};
