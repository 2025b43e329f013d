/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The command line of urdspeer.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "urdspeer.h"

const char usage_text[] =
	"usage: urdspeer MODE ...\n"
	"  exchange --local ADDR:PORT --peer ADDR:PORT --send N --recv N [--seed S] [--sizes SPEC]\n"
	"           [--big K] [--empty E] [--recv-big K] [--recv-empty E] [--pairs P] [--linger S]\n"
	"                      verified messages both ways (PROTOCOL.md); counts are for each pair.\n"
	"                      --peer may be given again: peer K (from 0) talks to the local ports + K * P\n"
	"  echo --local ADDR:PORT --peer ADDR:PORT [--seed S] [--sizes SPEC] [--window W] [--count N]\n"
	"                      verified messages to a server that sends them back, through its restarts\n"
	"                      and ours; says when the first comes back after a silence\n"
	"  show --local ADDR:PORT --peer ADDR:PORT --send N ... [--count N]\n"
	"  serve ADDR:PORT     send every message back to its sender\n"
	"  sink ADDR:PORT [--pairs P] [--hold S] [--count N]   receive on P ports, check numbered messages\n"
	"  flood --local ADDR:PORT --peer ADDR:PORT [--size B] [--count N]   send numbered messages\n"
	"options of all: --timeout S (120) --stall S (30) --sndbuf B (4 MiB) --rcvbuf B --seconds S\n"
	"           --no-ext (as a kernel on the wire) --no-tcp-acks --paths N\n"
	"exit status: 0 well, 1 a check or a call failed or time ran out, 2 usage\n";

/* clang-format off */
enum {
	OPT_LOCAL = 256, OPT_PEER, OPT_SEND, OPT_RECV, OPT_SEED, OPT_SIZES, OPT_BIG, OPT_EMPTY,
	OPT_RECV_BIG, OPT_RECV_EMPTY, OPT_PAIRS, OPT_TIMEOUT, OPT_STALL, OPT_LINGER, OPT_SNDBUF,
	OPT_RCVBUF, OPT_HOLD, OPT_SECONDS, OPT_SIZE, OPT_COUNT, OPT_WINDOW, OPT_NO_EXT, OPT_NO_TCP_ACKS,
	OPT_PATHS
};
/* clang-format on */

static const struct option long_options[] = {
	{"local", 1, NULL, OPT_LOCAL},
	{"peer", 1, NULL, OPT_PEER},
	{"send", 1, NULL, OPT_SEND},
	{"recv", 1, NULL, OPT_RECV},
	{"seed", 1, NULL, OPT_SEED},
	{"sizes", 1, NULL, OPT_SIZES},
	{"big", 1, NULL, OPT_BIG},
	{"empty", 1, NULL, OPT_EMPTY},
	{"recv-big", 1, NULL, OPT_RECV_BIG},
	{"recv-empty", 1, NULL, OPT_RECV_EMPTY},
	{"pairs", 1, NULL, OPT_PAIRS},
	{"timeout", 1, NULL, OPT_TIMEOUT},
	{"stall", 1, NULL, OPT_STALL},
	{"linger", 1, NULL, OPT_LINGER},
	{"sndbuf", 1, NULL, OPT_SNDBUF},
	{"rcvbuf", 1, NULL, OPT_RCVBUF},
	{"hold", 1, NULL, OPT_HOLD},
	{"seconds", 1, NULL, OPT_SECONDS},
	{"size", 1, NULL, OPT_SIZE},
	{"count", 1, NULL, OPT_COUNT},
	{"window", 1, NULL, OPT_WINDOW},
	{"no-ext", 0, NULL, OPT_NO_EXT},
	{"no-tcp-acks", 0, NULL, OPT_NO_TCP_ACKS},
	{"paths", 1, NULL, OPT_PATHS},
	{NULL, 0, NULL, 0},
};

static uint64_t number(uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(optarg, &end, 0);

	if (*end || end == optarg || v > max) {
		fprintf(stderr, "urdspeer: '%s' is not a number up to %llu\n", optarg,
			(unsigned long long)max);
		exit(EXIT_USAGE);
	}
	return v;
}

/* Where a plain number goes. */
static void parse_number(struct options *o, int opt)
{
	switch (opt) {
	case OPT_SEND:
		o->send = number(1u << 30);
		break;
	case OPT_RECV:
		o->recv = number(1u << 30);
		break;
	case OPT_SEED:
		o->seed = (uint32_t)number(UINT32_MAX);
		break;
	case OPT_BIG:
		o->big = number(1u << 30);
		break;
	case OPT_EMPTY:
		o->empty = number(1u << 30);
		break;
	case OPT_RECV_BIG:
		o->recv_big = number(1u << 30);
		break;
	case OPT_RECV_EMPTY:
		o->recv_empty = number(1u << 30);
		break;
	case OPT_PAIRS:
		o->pairs = (unsigned)number(64);
		break;
	case OPT_TIMEOUT:
		o->timeout_s = (unsigned)number(86400);
		break;
	case OPT_STALL:
		o->stall_s = (unsigned)number(86400);
		break;
	case OPT_LINGER:
		o->linger_s = (unsigned)number(3600);
		break;
	case OPT_SNDBUF:
		o->sndbuf = (int)number(1u << 29);
		break;
	case OPT_RCVBUF:
		o->rcvbuf = (int)number(1u << 29);
		break;
	case OPT_HOLD:
		o->hold_s = (unsigned)number(86400);
		break;
	case OPT_SECONDS:
		o->seconds = (unsigned)number(86400);
		break;
	case OPT_SIZE:
		o->size = number(VF_MAX);
		break;
	case OPT_COUNT:
		o->count = number(1ull << 62);
		break;
	case OPT_WINDOW:
		o->window = (unsigned)number(100000);
		break;
	case OPT_PATHS:
		o->paths = (unsigned)number(8);
		break;
	default:
		fputs(usage_text, stderr);
		exit(EXIT_USAGE);
	}
}

void parse_options(struct options *o, int argc, char **argv)
{
	int c;

	*o = (struct options){.sizes = VF_SIZES,
			      .seed = 1,
			      .pairs = 1,
			      .timeout_s = 120,
			      .stall_s = 30,
			      .linger_s = 3,
			      .sndbuf = 4 << 20,
			      .size = 1000,
			      .window = 32,
			      .recv_big = UINT64_MAX,
			      .recv_empty = UINT64_MAX};
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == OPT_LOCAL) {
			o->local = parse_addr(optarg);
			o->has_local = true;
		} else if (c == OPT_PEER) {
			if (o->npeers == PEERS_MAX) {
				fprintf(stderr, "urdspeer: at most %d peers\n", PEERS_MAX);
				exit(EXIT_USAGE);
			}
			o->peer_text[o->npeers] = optarg;
			o->peer[o->npeers++] = parse_addr(optarg);
		} else if (c == OPT_SIZES) {
			o->sizes = optarg;
		} else if (c == OPT_NO_EXT) {
			o->config |= URDS_CONFIG_NO_EXT;
		} else if (c == OPT_NO_TCP_ACKS) {
			o->config |= URDS_CONFIG_NO_TCP_ACKS;
		} else {
			parse_number(o, c);
		}
	}
	if (o->recv_big == UINT64_MAX)
		o->recv_big = o->big;
	if (o->recv_empty == UINT64_MAX)
		o->recv_empty = o->empty;
	o->argc = argc - optind;
	o->argv = argv + optind;
}
