/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The options of urds stress: rds-stress's letters and names, their ranges, and what can be run.
 */
#include <getopt.h>
#include <stdio.h>

#include "stress.h"

static const char help[] =
	"usage: urds stress [-r addr] [-p port]\n"
	"       urds stress -s addr [option...]\n"
	"\n"
	"Two of these load the path between two addresses with requests and acks and check every message.\n"
	"Without -s it waits for the other one, which brings all parameters.\n"
	"\n"
	"  -s, --send-addr ADDR    the address of the one that waits\n"
	"  -r, --recv-addr ADDR    local address; default: that of the control connection\n"
	"  -p, --port PORT         TCP port for control, and base of the RDS ports; default 4000\n"
	"  -q, --req-bytes N       bytes of a request, 63 or more; default 1024\n"
	"  -a, --ack-bytes N       bytes of an ack, 63 or more; default 63\n"
	"  -t, --tasks N           tasks (threads, sockets) on each side; default 1\n"
	"  -d, --depth N           outstanding requests between two tasks; default 1\n"
	"  -T, --time SECONDS      end after that time; default: never\n"
	"  -o                      one way: only this side sends requests\n"
	"  -v, --verify            fill payloads with a pattern and check it\n"
	"  -V, --trace             say on standard error what happens, on both sides\n"
	"  -z, --report-summary    only the summary\n"
	"  -c, --report-cpu        measure how busy the processors of this host are\n"
	"  -Q, --tos N             type of service\n"
	"  -R, --rtprio            real-time scheduling\n"
	"  -D, --rdma-bytes N, -I N, -M N, --rdma-*   RDMA, which urds has not\n"
	"  --connect-retries N     tries, one second apart; default 0\n"
	"  --use-cong-monitor 0|1  wait for congestion notices\n"
	"  --show-params           print the options first\n"
	"  --show-perfdata         comma-separated values and counters instead of columns, on both sides\n"
	"  --show-outliers US      name each longer round trip on standard error\n"
	"  --show-histogram        round-trip times at the end\n"
	"  --reset                 break the connection from ADDR of -r to that of -s, and end\n"
	"  --async                 sends with notification, which urds has not\n"
	"  -h                      this text as rds-stress prints it: an error, exit status 2\n"
	"  --help                  this text\n"
	"  --version               the release\n"
	"\n"
	"Exit status: 0 the test ran to its end, 1 an error or a bad message, 2 bad usage.\n";

enum {
	OPT_RETRIES = 256,
	OPT_MONITOR,
	OPT_ONCE,
	OPT_GET_MR,
	OPT_FENCE,
	OPT_CACHE,
	OPT_NOTIFY,
	OPT_ALIGN,
	OPT_KEYS,
	OPT_PARAMS,
	OPT_PERFDATA,
	OPT_OUTLIERS,
	OPT_HISTOGRAM,
	OPT_RESET,
	OPT_ASYNC,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option options[] = {
	{"send-addr", required_argument, NULL, 's'},
	{"recv-addr", required_argument, NULL, 'r'},
	{"port", required_argument, NULL, 'p'},
	{"req-bytes", required_argument, NULL, 'q'},
	{"ack-bytes", required_argument, NULL, 'a'},
	{"tasks", required_argument, NULL, 't'},
	{"depth", required_argument, NULL, 'd'},
	{"time", required_argument, NULL, 'T'},
	{"tos", required_argument, NULL, 'Q'},
	{"rdma-bytes", required_argument, NULL, 'D'},
	{"verify", no_argument, NULL, 'v'},
	{"trace", no_argument, NULL, 'V'},
	{"report-summary", no_argument, NULL, 'z'},
	{"rtprio", no_argument, NULL, 'R'},
	{"report-cpu", no_argument, NULL, 'c'},
	{"help", no_argument, NULL, OPT_HELP},
	{"connect-retries", required_argument, NULL, OPT_RETRIES},
	{"use-cong-monitor", required_argument, NULL, OPT_MONITOR},
	{"rdma-use-once", required_argument, NULL, OPT_ONCE},
	{"rdma-use-get-mr", required_argument, NULL, OPT_GET_MR},
	{"rdma-use-fence", required_argument, NULL, OPT_FENCE},
	{"rdma-cache-mrs", required_argument, NULL, OPT_CACHE},
	{"rdma-use-notify", required_argument, NULL, OPT_NOTIFY},
	{"rdma-alignment", required_argument, NULL, OPT_ALIGN},
	{"rdma-key-o-meter", no_argument, NULL, OPT_KEYS},
	{"show-params", no_argument, NULL, OPT_PARAMS},
	{"show-perfdata", no_argument, NULL, OPT_PERFDATA},
	{"show-outliers", required_argument, NULL, OPT_OUTLIERS},
	{"show-histogram", no_argument, NULL, OPT_HISTOGRAM},
	{"reset", no_argument, NULL, OPT_RESET},
	{"async", no_argument, NULL, OPT_ASYNC},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static int host(const char *text, uint32_t *out)
{
	struct tool_addr a;
	const char *why = tool_resolve(&a, text, AF_INET);

	if (why) {
		tool_error(
			"invalid host name or dotted quad '%s': %s; give an IPv4 address or a name",
			text, why);
		return 1;
	}
	*out = ntohl(((const struct sockaddr_in *)&a.sa)->sin_addr.s_addr);
	if (*out == UINT32_MAX) /* as good as not given */
		*out = 0;
	return -1;
}

static int number(const char *text, uint32_t max, uint32_t *out)
{
	long long n = tool_number(text);

	if (n < 0 || n > max) {
		tool_error(
			"invalid number '%s': give one from 0 to %u, with suffix k, m or g if need be",
			text, max);
		return 1;
	}
	*out = (uint32_t)n;
	return -1;
}

static int octet(const char *text, uint8_t max, uint8_t *out)
{
	uint32_t n = 0;
	int rc = number(text, max, &n);

	*out = (uint8_t)n;
	return rc;
}

static int half(const char *text, uint16_t *out)
{
	uint32_t n = 0;
	int rc = number(text, UINT16_MAX, &n);

	*out = (uint16_t)n;
	return rc;
}

static int one(struct stress_opts *o, int c)
{
	uint8_t ignored;

	switch (c) {
	case 's':
		return host(optarg, &o->send_addr);
	case 'r':
		return host(optarg, &o->recv_addr);
	case 'p':
		return half(optarg, &o->port);
	case 'q':
		return number(optarg, UINT32_MAX, &o->req_bytes);
	case 'a':
		return number(optarg, UINT32_MAX, &o->ack_bytes);
	case 't':
		return half(optarg, &o->tasks);
	case 'd':
		return number(optarg, UINT32_MAX, &o->depth);
	case 'T':
		return number(optarg, UINT32_MAX, &o->time_s);
	case 'Q':
		return octet(optarg, 255, &o->tos);
	case 'D':
		return number(optarg, UINT32_MAX, &o->rdma_bytes);
	case 'I':
		return number(optarg, 512, &o->vector);
	case 'M':
		return octet(optarg, 2, &o->rw_mode);
	case OPT_RETRIES:
		return number(optarg, UINT32_MAX, &o->retries);
	case OPT_MONITOR:
		return octet(optarg, 1, &o->uses_cong_monitor);
	case OPT_ONCE:
		return octet(optarg, 1, &o->use_once);
	case OPT_GET_MR:
		return octet(optarg, 1, &o->use_get_mr);
	case OPT_FENCE:
		return octet(optarg, 1, &o->use_fence);
	case OPT_CACHE:
		return octet(optarg, 1, &o->cache_mrs);
	case OPT_NOTIFY:
		return octet(optarg, 1, &ignored);
	case OPT_ALIGN:
		return number(optarg, tool_page_bytes(), &o->alignment);
	case OPT_OUTLIERS:
		return number(optarg, UINT32_MAX, &o->outlier_us);
	case 'o':
		o->is_one_way = 1;
		break;
	case 'v':
		o->is_verified = 1;
		break;
	case 'V':
		o->is_traced = 1;
		break;
	case 'z':
		o->is_summary_only = 1;
		break;
	case 'R':
		o->wants_rtprio = 1;
		break;
	case 'c':
		o->wants_cpu = true;
		break;
	case OPT_KEYS:
		o->key_o_meter = 1;
		break;
	case OPT_PARAMS:
		o->shows_params = 1;
		break;
	case OPT_PERFDATA:
		o->shows_perfdata = 1;
		break;
	case OPT_HISTOGRAM:
		o->wants_histogram = true;
		break;
	case OPT_RESET:
		o->wants_reset = true;
		break;
	case OPT_ASYNC:
		o->is_async = 1;
		break;
	case OPT_HELP:
		return tool_print(help);
	case OPT_VERSION:
		return tool_version();
	default: /* -h and what is unknown */
		fputs(help, stderr);
		return TOOL_USAGE;
	}
	return -1;
}

const char *stress_check(const struct stress_opts *o)
{
	if (o->req_bytes < STRESS_HEADER)
		return "req size must be at least 63 bytes";
	if (o->ack_bytes < STRESS_HEADER)
		return "ack size must be at least 63 bytes";
	if (o->req_bytes > STRESS_MESSAGE_MAX || o->ack_bytes > STRESS_MESSAGE_MAX)
		return "a message has at most 1 MiB: choose smaller requests and acks";
	if (o->tasks < 1 || o->tasks > STRESS_TASKS_MAX)
		return "the number of tasks must be from 1 to 1024";
	if (o->port + o->tasks > UINT16_MAX || o->port == 0)
		return "the tasks need the ports after the base port: choose one from 1 to 65535 less the tasks";
	if (o->depth < 1)
		return "the depth must be at least 1";
	if ((uint64_t)o->tasks * o->tasks * o->depth * sizeof(uint64_t) > STRESS_FLOW_BYTES_MAX)
		return "so many tasks and outstanding requests need more than 1 GiB: choose fewer";
	if (o->vector > 512 || o->rw_mode > 2)
		return "-I must be from 0 to 512, and -M from 0 to 2";
	return NULL;
}

int stress_parse(struct stress_opts *o, int argc, char **argv)
{
	const char *why;
	int c, rc;

	*o = (struct stress_opts){.depth = 1,
				  .req_bytes = 1024,
				  .ack_bytes = STRESS_HEADER,
				  .port = 4000,
				  .tasks = 1,
				  .uses_cong_monitor = 1,
				  .use_fence = 1,
				  .vector = 1,
				  .outlier_us = UINT32_MAX};
	while ((c = getopt_long(argc, argv, "+s:r:p:q:a:t:d:T:Q:oD:I:M:vVzRch", options, NULL)) !=
	       -1) {
		rc = one(o, c);
		if (rc >= 0)
			return rc;
	}
	if (o->tasks == UINT16_MAX)
		o->tasks = 1;
	o->is_active = o->send_addr != 0;
	if (o->cache_mrs && (!o->use_get_mr || o->use_once)) {
		tool_error("--rdma-cache-mrs needs --rdma-use-get-mr 1, without --rdma-use-once");
		return 1;
	}
	if (o->wants_reset && !o->is_active) {
		tool_error("--reset needs the address of the other side: give it with -s");
		return 1;
	}
	why = stress_check(o);
	if (why) {
		tool_error("%s", why);
		return 1;
	}
	return -1;
}
