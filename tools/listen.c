/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds listen: owns addresses until it is told to end.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"

static const char help[] =
	"usage: urds listen ADDR...\n"
	"\n"
	"Owns each local address ADDR (IPv4, IPv6, or a name): accepts the connections of its peers and\n"
	"answers their pings. Prints 'ready ADDR' for each, then runs until Ctrl-C or a signal ends it.\n"
	"\n"
	"  --help      this text\n"
	"  --version   the release\n"
	"\n"
	"Exit status: 0 ended by a signal, 1 an address could not be owned, 2 bad usage.\n";

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static int claim(struct urds_ctx *ctx, const char *text)
{
	struct tool_addr a;
	const char *why = tool_resolve(&a, text, AF_UNSPEC);

	if (why) {
		const char *port = strrchr(text, ':');

		if (port && port == strchr(text, ':'))
			tool_error(
				"cannot listen on %s: an address is owned as a whole, with all its ports; leave out '%s'",
				text, port);
		else
			tool_error(
				"cannot listen on %s: %s; give an address of this host (see '%s')",
				text, why, tool_lists_addresses);
		return -1;
	}
	if (urds_claim(ctx, tool_sa(&a), a.len) < 0) {
		tool_error("cannot listen on %s: %s", a.text, urds_reason());
		return -1;
	}
	printf("ready %s\n", a.text);
	return tool_flush();
}

int tool_listen(int argc, char **argv)
{
	struct urds_ctx *ctx;
	int c, i, rc = TOOL_OK;

	while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			return tool_print(help);
		case 'V':
			return tool_version();
		default:
			return tool_usage("bad option");
		}
	}
	if (optind == argc)
		return tool_usage("which address? Give one or more addresses of this host");

	tool_ends_block();
	tool_ignore_broken_pipes();

	if (urds_open(NULL, &ctx) < 0) {
		tool_error("cannot start: %s", urds_reason());
		return TOOL_FAILED;
	}
	for (i = optind; i < argc && rc == TOOL_OK; i++)
		if (claim(ctx, argv[i]) < 0)
			rc = TOOL_FAILED;
	if (rc == TOOL_OK)
		tool_ends_wait();
	urds_shutdown(ctx);
	return rc;
}
