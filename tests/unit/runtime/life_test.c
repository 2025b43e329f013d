/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A context's life where things go wrong: ends with connections that do not, descriptors and memory that run out,
 * peers that are no peers.
 */
#include "runtime/engine.h"

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

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(shutdown__with_a_parked_connection);
	return t_done();
}
