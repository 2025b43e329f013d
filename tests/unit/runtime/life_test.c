/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A context's life where things go wrong: ends with connections that do not, descriptors and memory that run out,
 * peers that are no peers.
 */
#include "runtime/engine.h"
#include "transport/tcp/tcp.h"
#include "wire/hdr.h"

#include "engine.h"

#define IP_S "127.25.0.1" /* the smaller address connects */
#define IP_L "127.25.0.2"

static unsigned long long counter(struct urds_ctx *e, enum urds_counter c)
{
	return (unsigned long long)atomic_load(&e->counters[c]);
}

/* A connection of a program that is no peer, from @from to the service port of @to; or -1. */
static int raw_client(const char *from, const char *to)
{
	struct sockaddr_in a = in4(from, 0), b = in4(to, 16385);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && connect(fd, (struct sockaddr *)&b, sizeof b) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---------------------------------------------------------------- the end */

/* The first connection never ends by itself; the next waits for its place. */
static void shutdown__with_a_parked_connection(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	int fds[3];

	CHECK(e && sock_at(e, IP_L, 4000));
	for (unsigned i = 0; i < 3; i++) {
		fds[i] = raw_client(IP_S, IP_L);
		CHECK(fds[i] >= 0);
		EVENTUALLY(counter(e, URDS_C_conn_parked) == i);
	}
	CHECK_EQ(send(fds[1], "", 1, MSG_NOSIGNAL), 1);
	CHECK_EQ(urds_shutdown(e), 0);
	for (unsigned i = 0; i < 3; i++)
		close(fds[i]);
}

/* ---------------------------------------------------------------- floods */

#define FLOOD_MAX (256ull << 20)

static struct urds_data_ops flood;
static _Atomic unsigned long long flooded;

/* As if the other end sent pings for ever, faster than they are read. All are old: they cost little. */
static enum urds_rx_how flood_rx(struct urds_link *l, const struct urds_iov *v, size_t n, size_t *got)
{
	uint8_t ping[URDS_HDR_LEN];

	*got = 0;
	urds_hdr_put_data(ping, 0, 0, 4000, 0);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].len; k++)
			((uint8_t *)v[i].base)[k] = ping[(atomic_load_explicit(&flooded, memory_order_relaxed) + (*got)++) % sizeof ping];
	return atomic_fetch_add(&flooded, *got) > FLOOD_MAX ? URDS_RX_ENDED : URDS_RX_NOW;
}

/* A connection that is to be dropped is, however much it sends. */
static void drop__of_a_flood_ends(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	int fd;

	CHECK(e && sock_at(e, IP_L, 4000));
	fd = raw_client(IP_S, IP_L);
	CHECK(fd >= 0);
	EVENTUALLY(atomic_load(&urds_tcp_stats(e->tcp)->accepts) == 1);
	flood = *e->tcp->data;
	flood.rx = flood_rx;
	e->tcp->data = &flood;
	CHECK_EQ(urds_shutdown(e), 0);
	printf("# read %llu MiB\n", atomic_load(&flooded) >> 20);
	CHECK(atomic_load(&flooded) > 0 && atomic_load(&flooded) < FLOOD_MAX);
	close(fd);
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(drop__of_a_flood_ends);
	T_RUN(shutdown__with_a_parked_connection);
	return t_done();
}
