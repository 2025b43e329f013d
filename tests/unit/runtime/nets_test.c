/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * URDS_PEERS: whom a context talks to.
 */
#include "engine.h"
#include "inside.h"
#include "platform/addr.h"

static void peers__others_are_kept_out(void)
{
	struct urds_config cfg = {.size = sizeof cfg, .flags = URDS_CONFIG_NO_RECORD};
	struct sockaddr_in away = in4("127.31.8.9", 16385), us = in4("127.31.8.1", 16385);
	struct urds_ctx *ctx, *other;
	struct urds_sock *s, *in, *out;
	uint64_t all[URDS_C_MAX];
	char m[8];
	int fd;

	cfg.peers = "10.0.0.0/8,127.31.8.0/29,fd00::/9";
	CHECK_EQ(urds_open(&cfg, &ctx), 0);
	cfg.peers = NULL;
	CHECK_EQ(urds_open(&cfg, &other), 0);
	s = sock_at(ctx, "127.31.8.1", 4000);
	in = sock_at(other, "127.31.8.7", 4000);  /* the last of the network */
	out = sock_at(other, "127.31.8.8", 4000); /* the first behind it */
	CHECK(s && in && out);
	CHECK_EQ(send4(s, "no", 2, 0, "127.31.8.8", 4000), -1);
	CHECK_EQ(urds_errno(), URDS_EACCES);
	CHECK(strstr(urds_reason(), "URDS_PEERS"));
	engine_counters(ctx, all);
	CHECK_EQ(all[URDS_C_conn_refused], 1);
	CHECK_EQ(send4(s, "self", 4, 0, "127.31.8.1", 4000), 4); /* whatever the list says */
	CHECK_EQ(urds_recv(s, m, sizeof m, 0), 4);
	CHECK_EQ(send4(s, "yes", 3, 0, "127.31.8.7", 4000), 3);
	CHECK_EQ(urds_recv(in, m, sizeof m, 0), 3);
	CHECK_EQ(send4(in, "back", 4, 0, "127.31.8.1", 4000), 4);
	CHECK_EQ(urds_recv(s, m, sizeof m, 0), 4);
	CHECK_EQ(send4(out, "out", 3, 0, "127.31.8.1", 4000), 3); /* and waits */
	EVENTUALLY((engine_counters(ctx, all), all[URDS_C_conn_refused] > 1));
	CHECK_EQ(ctx->npeers, 2); /* 127.31.8.7, and itself */
	/* A stranger is reset at once. */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	away.sin_port = 0;
	CHECK_EQ(bind(fd, (struct sockaddr *)&away, sizeof away), 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&us, sizeof us), 0);
	CHECK(recv(fd, m, 1, 0) <= 0);
	close_socket(fd);
	CHECK_EQ(ctx->npeers, 2);
	CHECK_EQ(urds_close(out), 0); /* what waits goes with it */
	CHECK_EQ(urds_shutdown(ctx), 0);
	CHECK_EQ(urds_shutdown(other), 0);
}

static void peers__bad_lists(void)
{
	static const char *const bad[] = {
		"10.0.0.0/33", "::1/129", "10.0.0.1/", "10.0.0.1/-1",	"10.0.0.1/8x",	",",
		"::1,",	       "all",	  "10.0.0.1 ", "fe80::1%lo/64", "::ffff:0:0/96"};
	struct urds_config cfg = {.size = sizeof cfg};
	struct urds_ctx *ctx;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		cfg.peers = bad[i];
		CHECK_EQ(urds_open(&cfg, &ctx), -1);
		CHECK_EQ(urds_errno(), URDS_EINVAL);
		CHECK(strstr(urds_reason(), bad[i]));
	}
	/* Set bits behind the prefix are let be, as ip(8) lets them be. */
	cfg.peers = "0.0.0.0/0,::/0,127.0.0.1/8";
	CHECK_EQ(urds_open(&cfg, &ctx), 0);
	CHECK_EQ(ctx->cfg.nnets, 3);
	CHECK_EQ(urds_shutdown(ctx), 0);
}

static void peers__which_are_in(void)
{
	static const struct {
		const char *list, *addr;
		bool is_in;
	} row[] = {
		{"10.0.0.0/8", "10.255.0.1", true},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"10.9.8.7/8", "10.0.0.1", true},
		{"192.0.2.7", "192.0.2.7", true},
		{"192.0.2.7", "192.0.2.6", false},
		{"192.0.2.8/29", "192.0.2.15", true},
		{"192.0.2.8/29", "192.0.2.16", false},
		{"0.0.0.0/0", "203.0.113.1", true},
		{"0.0.0.0/0", "fd00::1", false},
		{"::/0", "fd00::1", true},
		{"::/0", "203.0.113.1", false},
		{"fd00::/9", "fd7f::1", true},
		{"fd00::/9", "fd80::1", false},
		{"fe80::/10", "fe80::1%1", true},
		{"2001:db8::1", "2001:db8::1", true},
		{"2001:db8::1", "2001:db8::2", false},
		{"10.0.0.0/8,fd00::/8", "fdff::9", true},
		{"10.0.0.0/8,fd00::/8", "10.1.1.1", true},
		{"10.0.0.0/8,fd00::/8", "fc00::1", false},
	};
	struct urds_config cfg = {.size = sizeof cfg, .flags = URDS_CONFIG_NO_RECORD};
	struct urds_ctx *ctx;

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
		struct urds_addr a;

		cfg.peers = row[i].list;
		if (urds_open(&cfg, &ctx) < 0)
			T_FAIL("%s", urds_reason());
		CHECK_EQ(urds_addr_parse(&a, row[i].addr), 0);
		if (peer_is_allowed(ctx, &a) != row[i].is_in)
			T_FAIL("%s in %s: %d", row[i].addr, row[i].list, !row[i].is_in);
		CHECK_EQ(urds_shutdown(ctx), 0);
	}
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(60 * slow());
	T_RUN(peers__others_are_kept_out);
	T_RUN(peers__bad_lists);
	T_RUN(peers__which_are_in);
	return t_done();
}
