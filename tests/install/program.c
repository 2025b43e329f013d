/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A user's program, built against an installed urds by what pkg-config says: one message to itself. C and C++.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <urds/owner.h>
#include <urds/urds.h>

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, urds_reason());
	return 1;
}

int main(int argc, char **argv)
{
	struct urds_config cfg;
	struct urds_ctx *ctx;
	struct urds_sock *s;
	struct sockaddr_in at;
	char got[16];

	memset(&cfg, 0, sizeof cfg);
	memset(&at, 0, sizeof at);
	cfg.size = sizeof cfg;
	at.sin_family = AF_INET;
	at.sin_port = htons(4000);
	if (argc != 2 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1) {
		fprintf(stderr, "usage: %s ADDRESS\n", argv[0]);
		return 2;
	}
	if (urds_open(&cfg, &ctx) < 0)
		return fail("open");
	s = urds_socket(ctx);
	if (!s || urds_bind(s, (struct sockaddr *)&at, sizeof at) < 0)
		return fail("bind");
	if (urds_sendto(s, "hello", 5, 0, (struct sockaddr *)&at, sizeof at) != 5)
		return fail("send");
	if (urds_recv(s, got, sizeof got, 0) != 5 || memcmp(got, "hello", 5) != 0)
		return fail("receive");
	if (urds_shutdown(ctx) < 0)
		return fail("shutdown");
	printf("%s\n", urds_version());
	return 0;
}
