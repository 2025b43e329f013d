/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The sections of urds info, laid out as rds-info does. Elements are packed; addresses and ports in
 * network order, other integers in the host's.
 */
#include "info.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "urds/urds.h"

#define IB_CONNECTIONS 10008 /* RDMA: no source yet */

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

static unsigned long long u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* A v4-mapped address is shown as the IPv4 address it is. */
static const char *addr(const uint8_t *p, bool six, char buf[INET6_ADDRSTRLEN])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (six && memcmp(p, mapped, sizeof(mapped)) != 0)
		inet_ntop(AF_INET6, p, buf, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET, six ? p + 12 : p, buf, INET6_ADDRSTRLEN);
	return buf;
}

#define TEXTS char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN]

static void connections_header(int w)
{
	printf("%*s %*s %4s %16s %16s %4s\n", w, "LocalAddr", w, "RemoteAddr", "Tos", "NextTX",
	       "NextRX", "Flgs");
}

static void connections_row(const uint8_t *e, bool six, int w, bool verbose)
{
	/* Old kernels kept the flags in the last byte of the transport's name. */
	unsigned flags = six ? e[64] | e[63] : e[40] | e[39];
	TEXTS;

	printf("%*s %*s %4u %16llu %16llu %c%c%c%c\n", w, addr(e + 16, six, a), w,
	       addr(e + (six ? 32 : 20), six, b), six ? 0u : e[41], u64(e), u64(e + 8),
	       flags & 1 ? 's' : '-', flags & 2 ? 'c' : '-', flags & 4 ? 'C' : '-',
	       flags & 8 ? 'E' : '-');
}

static void messages_header(int w)
{
	printf("%*s %5s %*s %5s %4s %16s %10s\n", w, "LocalAddr", "LPort", w, "RemoteAddr", "RPort",
	       "Tos", "Seq", "Bytes");
}

static void messages_row(const uint8_t *e, bool six, int w, bool verbose)
{
	TEXTS;

	printf("%*s %5u %*s %5u %4u %16llu %10u\n", w, addr(e + 12, six, a),
	       port(e + (six ? 44 : 20)), w, addr(e + (six ? 28 : 16), six, b),
	       port(e + (six ? 46 : 22)), e[six ? 49 : 25], u64(e), u32(e + 8));
}

static void sockets_header(int w)
{
	printf("%*s %5s %*s %5s %10s %10s %8s\n", w, "BoundAddr", "BPort", w, "ConnAddr", "CPort",
	       "SndBuf", "RcvBuf", "Inode");
}

static void sockets_row(const uint8_t *e, bool six, int w, bool verbose)
{
	TEXTS;

	printf("%*s %5u %*s %5u %10u %10u %8llu\n", w, addr(e + 4, six, a),
	       port(e + (six ? 36 : 12)), w, addr(e + (six ? 20 : 8), six, b),
	       port(e + (six ? 38 : 14)), u32(e), u32(e + (six ? 40 : 16)),
	       u64(e + (six ? 44 : 20)));
}

static void tcp_header(int w)
{
	printf("%*s %5s %*s %5s %10s %10s %10s %10s %10s\n", w, "LocalAddr", "LPort", w,
	       "RemoteAddr", "RPort", "HdrRemain", "DataRemain", "SentNxt", "ExpectUna", "SeenUna");
}

static void tcp_row(const uint8_t *e, bool six, int w, bool verbose)
{
	const uint8_t *rest = e + (six ? 36 : 12);
	TEXTS;

	printf("%*s %5u %*s %5u %10llu %10llu %10u %10u %10u\n", w, addr(e, six, a),
	       port(e + (six ? 16 : 4)), w, addr(e + (six ? 18 : 6), six, b),
	       port(e + (six ? 34 : 10)), u64(rest), u64(rest + 8), u32(rest + 16), u32(rest + 20),
	       u32(rest + 24));
}

static void ib_header(int w)
{
	printf("%*s %*s %4s %3s %32s %32s\n", w, "LocalAddr", w, "RemoteAddr", "Tos", "SL",
	       "LocalDev", "RemoteDev");
}

static void ib_row(const uint8_t *e, bool six, int w, bool verbose)
{
	const uint8_t *gids = e + (six ? 32 : 8), *n = gids + 32, *tos = e + (six ? 84 : 60);
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
	TEXTS;

	inet_ntop(AF_INET6, gids, local, sizeof(local));
	inet_ntop(AF_INET6, gids + 16, remote, sizeof(remote));
	printf("%*s %*s %4u %3u %32s %32s", w, addr(e, six, a), w, addr(e + (six ? 16 : 4), six, b),
	       tos[0], tos[1], local, remote);
	if (verbose)
		printf("  send_wr=%u, recv_wr=%u, send_sge=%u, rdma_mr_max=%u, rdma_mr_size=%u, "
		       "cache_allocs=%u",
		       u32(n), u32(n + 4), u32(n + 8), u32(n + 12), u32(n + 16), u32(tos + 4));
	printf("\n");
}

static void counters_header(int w)
{
	printf("%25s %16s\n", "CounterName", "Value");
}

static void counters_row(const uint8_t *e, bool six, int w, bool verbose)
{
	printf("%25.31s %16llu\n", (const char *)e, u64(e + 32));
}

const struct info_section info_sections[INFO_SECTIONS] = {
	{'I',
	 "RDS IB connections",
	 "RDS IB Connections",
	 IB_CONNECTIONS,
	 0,
	 68,
	 92,
	 {0, 16},
	 ib_header,
	 ib_row},
	{'T',
	 "TCP connections",
	 "TCP Connections",
	 URDS_INFO_TCP_SOCKETS,
	 URDS_INFO6_TCP_SOCKETS,
	 41,
	 64,
	 {0, 18},
	 tcp_header,
	 tcp_row},
	{'c',
	 "statistic counters",
	 "Counters",
	 URDS_INFO_COUNTERS,
	 0,
	 40,
	 0,
	 {0, 0},
	 counters_header,
	 counters_row},
	{'k',
	 "sockets",
	 "RDS Sockets",
	 URDS_INFO_SOCKETS,
	 URDS_INFO6_SOCKETS,
	 28,
	 52,
	 {4, 20},
	 sockets_header,
	 sockets_row},
	{'n',
	 "connections",
	 "RDS Connections",
	 URDS_INFO_CONNECTIONS,
	 URDS_INFO6_CONNECTIONS,
	 42,
	 65,
	 {16, 32},
	 connections_header,
	 connections_row},
	{'r',
	 "receive message queue",
	 "Receive Message Queue",
	 URDS_INFO_RECV_MESSAGES,
	 URDS_INFO6_RECV_MESSAGES,
	 26,
	 50,
	 {12, 28},
	 messages_header,
	 messages_row},
	{'s',
	 "send message queue",
	 "Send Message Queue",
	 URDS_INFO_SEND_MESSAGES,
	 URDS_INFO6_SEND_MESSAGES,
	 26,
	 50,
	 {12, 28},
	 messages_header,
	 messages_row},
	{'t',
	 "retransmit message queue",
	 "Retransmit Message Queue",
	 URDS_INFO_RETRANS_MESSAGES,
	 URDS_INFO6_RETRANS_MESSAGES,
	 26,
	 50,
	 {12, 28},
	 messages_header,
	 messages_row},
};
