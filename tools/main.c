/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds: one command with subcommands. Called through a link named rds-ping, rds-info or rds-stress it is that tool.
 */
#include <stdio.h>
#include <string.h>

#include "tool.h"

static const struct command {
	const char *name, *full, *link;
	int (*run)(int argc, char **argv);
} commands[] = {
	{"listen", "urds listen", NULL, tool_listen},
	{"ping", "urds ping", "rds-ping", tool_ping},
	{"cat", "urds cat", NULL, tool_cat},
	{"info", "urds info", "rds-info", tool_info},
	{"doctor", "urds doctor", NULL, tool_doctor},
	{"demo", "urds demo", NULL, tool_demo},
	{"stress", "urds stress", "rds-stress", tool_stress},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char help[] =
	"urds - Reliable Datagram Sockets in user mode\n"
	"\n"
	"  urds listen ADDR...      own addresses: accept connections, answer pings\n"
	"  urds ping ADDR           is there a node at ADDR? (also installed as rds-ping)\n"
	"  urds cat -l ADDR:PORT    receive a stream, write it to standard output\n"
	"  urds cat ADDR:PORT       send standard input to such a receiver\n"
	"  urds info                connections, sockets, queues, counters (also: rds-info)\n"
	"  urds stress              load a path and check every message (also: rds-stress)\n"
	"  urds doctor              what would stop urds on this host\n"
	"  urds doctor PEER         what is at PEER, or between it and us\n"
	"  urds demo                two nodes on this machine, verified messages, cut connections\n"
	"\n"
	"'urds COMMAND --help' and urds-COMMAND(1) say more. Nothing here needs to run as root.\n";

int main(int argc, char **argv)
{
	static char full_name[32], base[64];
	const char *self;
	size_t i;

	tool_system_init();
	self = tool_base_name(base, sizeof base, argc > 0 && argv[0] ? argv[0] : "urds");
	for (i = 0; i < COMMANDS; i++) {
		if (commands[i].link && strcmp(self, commands[i].link) == 0) {
			tool_name = commands[i].link;
			return commands[i].run(argc, argv);
		}
	}
	if (argc < 2) {
		fputs(help, stderr);
		return TOOL_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return tool_print(help);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version"))
		return tool_version();
	for (i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name) == 0) {
			tool_name = commands[i].full;
			argv[1] = full_name; /* getopt(3) begins its complaints with it */
			snprintf(full_name, sizeof full_name, "%s", tool_name);
			return commands[i].run(argc - 1, argv + 1);
		}
	}
	return tool_usage("there is no command '%s'", argv[1]);
}
