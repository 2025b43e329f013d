/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds ping: rds-ping's options, lines and exit codes. Eight sockets in turn, each a slot for one request;
 * a reply is matched by the socket it comes to. Unlike the original it never stalls on a lost reply: a
 * slot that waits is passed over, and when all wait the oldest request is given up.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "ping.h"
#include "tool.h"

static const char help[] =
	"usage: urds ping [-c count] [-i interval] [-I source] [-Q tos] [--json] destination\n"
	"\n"
	"Asks the RDS node at an address (IPv4, IPv6, or a name) for a sign of life.\n"
	"\n"
	"  -c count     end after that many replies, or one interval after that many requests\n"
	"  -i interval  seconds between requests (decimal; or with suffix ms, us); default 1\n"
	"  -I source    local address to ping from; default: the one packets would leave from. An\n"
	"               address that another process of yours owns is used through that process\n"
	"  -Q tos       type of service; only 0\n"
	"  --json       a JSON object on a line for each reply or error\n"
	"  --help       this text\n"
	"  --version    the release\n"
	"\n"
	"Exit status: 0 a reply came, 1 none came, or an error.\n";

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"json", no_argument, NULL, 'J'},
	{NULL, 0, NULL, 0},
};

#define DEFAULT_INTERVAL_NS 1000001000u

struct request {
	unsigned long long id;
	uint64_t sent_ns;
	bool is_pending, has_line;
};

struct run {
	unsigned long long count; /* 0: for ever */
	uint64_t interval_ns;
	struct tool_addr dest;
	struct pinger p;
	struct request slots[PING_SLOTS];
	unsigned next;
	unsigned long long sent, replies, errors;
	bool has_hinted, is_json;
};

static int usage(const char *complaint)
{
	fprintf(stderr,
		"%s version %s\n%s\n"
		"usage: %s [-c count] [-i interval] [-I source] [-Q tos] destination\n",
		tool_name, urds_version(), complaint, tool_name);
	return 1;
}

/* Seconds, or with ms, msec, us, usec. 0: not a time. */
static uint64_t interval(const char *text)
{
	static const struct {
		const char *suffix;
		double scale;
	} units[] = {{"", 1e9}, {"ms", 1e6}, {"msec", 1e6}, {"us", 1e3}, {"usec", 1e3}};
	char *end;
	double v;
	size_t i;

	if (strspn(text, "0123456789.") == 0)
		return 0;
	v = strtod(text, &end);
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].suffix) != 0)
			continue;
		v *= units[i].scale;
		return v >= 1 && v < 1e18 ? (uint64_t)v : 0;
	}
	return 0;
}

static int line_json(struct run *r, const struct request *q, uint64_t rtt_ns,
		     const struct tool_addr *from, int err)
{
	struct json_object *o = tool_json_new();

	tool_json_number(o, "request", q->id);
	tool_json_text(o, "destination", r->dest.text);
	if (from) {
		tool_json_number(o, "rtt_ns", rtt_ns);
		tool_json_text(o, "from", from->text);
		tool_json_flag(o, "duplicate", q->has_line);
	}
	if (err)
		tool_json_text(o, "error", tool_strerror(err));
	return tool_json_print(o, false);
}

static void line(struct run *r, struct request *q, uint64_t rtt_ns, const struct tool_addr *from,
		 int err)
{
	r->errors += err != 0;
	if (r->is_json) {
		if (line_json(r, q, rtt_ns, from, err) != TOOL_OK)
			exit(TOOL_FAILED);
		q->has_line = true;
		return;
	}
	printf(" %3llu:", q->id);
	if (from) {
		printf(" %llu usec", (unsigned long long)(rtt_ns / 1000));
		if (!tool_addr_same(from, &r->dest))
			printf(" (%s)", from->text);
		if (q->has_line)
			printf(" DUP!");
	}
	if (err)
		printf(" ERROR: %s", tool_strerror(err));
	printf("\n");
	q->has_line = true;
	if (err == EINVAL && !r->has_hinted) {
		printf("      Maybe your kernel does not support rds ping yet\n");
		r->has_hinted = true;
	}
	if (tool_flush() < 0) /* whoever reads a pipe wants each line when it comes */
		exit(TOOL_FAILED);
}

/* The next slot in turn that does not wait, else the one that has waited longest. */
static unsigned choose(struct run *r)
{
	unsigned i, slot, oldest = 0;

	for (i = 0; i < PING_SLOTS; i++) {
		slot = (r->next + i) % PING_SLOTS;
		if (!r->slots[slot].is_pending)
			return slot;
		if (r->slots[slot].sent_ns < r->slots[oldest].sent_ns)
			oldest = slot;
	}
	return oldest;
}

static int request(struct run *r, uint64_t now)
{
	unsigned slot = choose(r);
	struct request *q = &r->slots[slot];
	bool gave_up = q->is_pending;
	int err;

	r->next = slot + 1;
	*q = (struct request){.id = ++r->sent, .sent_ns = now};
	err = ping_send(&r->p, slot, gave_up, &r->dest);
	if (err > 0)
		line(r, q, 0, NULL, err);
	q->is_pending = err == 0;
	return err < 0 ? -1 : 0;
}

static int reply(struct run *r, uint64_t until)
{
	struct ping_reply got;
	struct request *q;
	int n = ping_wait(&r->p, until, &got);

	if (n <= 0)
		return n;
	q = &r->slots[got.slot];
	if (q->id == 0)
		return 0;
	if (got.err == 0)
		r->replies++;
	line(r, q, got.rtt_ns, got.err ? NULL : &got.from, got.err);
	q->is_pending = false;
	return 0;
}

static int loop(struct run *r)
{
	uint64_t next = tool_now_ns(), now;

	for (;;) {
		if (r->count && r->replies >= r->count)
			break;
		now = tool_now_ns();
		if (now >= next) {
			if (r->count && r->sent >= r->count)
				break;
			if (request(r, now) < 0)
				return 1;
			next += r->interval_ns;
			if (next < now) /* stopped for a while: no burst to catch up */
				next = now + r->interval_ns;
			continue;
		}
		if (reply(r, next) < 0)
			return 1;
	}
	return r->replies ? 0 : 1;
}

static int source(struct run *r, const char *text, struct tool_addr *src)
{
	const char *why;
	int err;

	if (text) {
		why = tool_resolve(src, text, r->dest.sa.ss_family);
		if (why)
			tool_error("Unknown source address <%s>: %s; give a local %s address", text,
				   why, r->dest.sa.ss_family == AF_INET ? "IPv4" : "IPv6");
		return why ? -1 : 0;
	}
	err = tool_route(src, &r->dest);
	if (err)
		tool_error("no route to %s: %s; choose a source address with -I", r->dest.text,
			   tool_strerror(err));
	return err ? -1 : 0;
}

int tool_ping(int argc, char **argv)
{
	struct run r = {.interval_ns = DEFAULT_INTERVAL_NS};
	const char *from = NULL, *why;
	struct tool_addr src;
	long long n;
	int c, rc;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "c:i:I:Q:", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			n = *optarg ? tool_number(optarg) : 0;
			if (n < 0) {
				tool_error("Bad packet count <%s>: give a number", optarg);
				return 1;
			}
			r.count = (unsigned long long)n;
			break;
		case 'i':
			r.interval_ns = interval(optarg);
			if (!r.interval_ns) {
				tool_error("Bad wait time <%s>: give seconds, as in 0.5, or 500ms",
					   optarg);
				return 1;
			}
			break;
		case 'I':
			from = optarg;
			break;
		case 'Q':
			n = *optarg ? tool_number(optarg) : 0;
			if (n != 0) {
				tool_error("cannot set the type of service to <%s>: urds has none; "
					   "leave -Q out",
					   optarg);
				return 1;
			}
			break;
		case 'J':
			r.is_json = true;
			break;
		case 'h':
			return tool_print(help);
		case 'V':
			return tool_version();
		default:
			return usage("Unknown option");
		}
	}
	if (optind + 1 != argc)
		return usage(
			"Missing destination address"); /* as rds-ping says for too many as well */
	why = tool_resolve(&r.dest, argv[optind], AF_UNSPEC);
	if (why) {
		tool_error("Cannot parse destination address <%s>: %s; give an IPv4 or IPv6 "
			   "address, or a name",
			   argv[optind], why);
		return 1;
	}
	tool_port_set(&r.dest, 0);
	if (source(&r, from, &src) < 0 || ping_open(&r.p, &src, &r.dest) < 0)
		return 1;
	rc = loop(&r);
	if (rc && r.sent && r.errors == r.sent)
		tool_error("nothing could be sent to %s; 'urds doctor -I %s %s' says more",
			   r.dest.text, src.text, r.dest.text);
	else if (rc && !r.replies && r.sent)
		tool_error(
			"no reply from %s: is a node there ('urds listen %s'), and does TCP port "
			"16385 get through?",
			r.dest.text, r.dest.text);
	ping_close(&r.p);
	return rc;
}
