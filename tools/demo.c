/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds demo: two nodes on this machine, each its own process. Pings, a verified exchange while connections
 * are broken, a table of rates; the last line says what came of it. This process has no engine: it starts
 * the nodes, tells them what to do, limits the time, and adds up.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define NODES 2
#define MESSAGES 110000u     /* both directions together */
#define MESSAGES_MIN 100000u /* fewer are no success */
#define KILLS_EACH 6u
#define KILLS_MIN 5u
#define LIMIT_S 28
#define RATE_MS 400
#define TICK_NS 100000000u /* not every system's wait is ended by Ctrl-C */

static const char help[] =
	"usage: urds demo [--fault drop] [--messages N] [--time-limit SECONDS]\n"
	"\n"
	"Runs two nodes, 127.0.0.1 and 127.0.0.2, as two processes; no root, no network, nothing\n"
	"installed. They ping each other, exchange messages of 0 bytes to 1 MiB in both directions at once\n"
	"while their connection is broken again and again with data under way, check every byte, and\n"
	"measure how fast messages go. The last line is the result:\n"
	"\n"
	"  demo: sent N received N lost 0 duplicated 0 reordered 0 kills K retransmitted R\n"
	"\n"
	"  --fault drop           throw one delivered message away before it is checked: the demo must fail\n"
	"                         (also by the environment: URDS_DEMO_FAULT=drop)\n"
	"  --messages N           how many, both directions together; default 110000\n"
	"  --time-limit SECONDS   default 28\n"
	"  --help                 this text\n"
	"  --version              the release\n"
	"\n"
	"Exit status: 0 everything arrived once and in order in spite of at least 5 kills; 1 it did not,\n"
	"or the nodes could not run; 2 bad usage.\n";

enum { OPT_FAULT = 256, OPT_MESSAGES, OPT_LIMIT, OPT_NODE };

static const struct option options[] = {
	{"fault", required_argument, NULL, OPT_FAULT},
	{"messages", required_argument, NULL, OPT_MESSAGES},
	{"time-limit", required_argument, NULL, OPT_LIMIT},
	{"node", required_argument, NULL, OPT_NODE}, /* how this command starts its nodes */
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static const char *const addresses[NODES] = {"127.0.0.1", "127.0.0.2"};

struct child {
	struct demo_process p;
	bool is_waiting;	  /* for its answer */
	char line[DEMO_LINE_MAX]; /* the last whole one */
	char in[DEMO_LINE_MAX];	  /* of the next one */
	size_t in_len;
	uint64_t sent, received, kills; /* progress */
};

struct demo {
	struct child c[NODES];
	uint64_t end_ns;
	unsigned limit_s;
	uint64_t messages, messages_min;
	bool drop, has_terminal, has_progress;
};

static void clear_progress(struct demo *d)
{
	if (d->has_progress)
		fputs("\r\033[K", stdout);
	d->has_progress = false;
}

/* On a terminal only, so that logs hold results and nothing else. */
static void show_progress(struct demo *d)
{
	if (!d->has_terminal)
		return;
	printf("\r\033[K  %3.0f %%  %" PRIu64 " sent, %" PRIu64 " received, %" PRIu64 " kills",
	       100.0 * (double)(d->c[0].received + d->c[1].received) / (double)d->messages,
	       d->c[0].sent + d->c[1].sent, d->c[0].received + d->c[1].received,
	       d->c[0].kills + d->c[1].kills);
	fflush(stdout);
	d->has_progress = true;
}

/* A whole line of a node. Return: 0, or -1 (said). */
static int on_line(struct demo *d, int i)
{
	struct child *c = &d->c[i];

	if (sscanf(c->line, "progress %" SCNu64 " %" SCNu64 " %" SCNu64, &c->sent, &c->received,
		   &c->kills) == 3) {
		show_progress(d);
		return 0;
	}
	if (strncmp(c->line, "ok", 2) == 0) {
		c->is_waiting = false;
		return 0;
	}
	clear_progress(d);
	tool_error("node %s: %s", addresses[i],
		   strncmp(c->line, "error ", 6) == 0 ? c->line + 6 : c->line);
	return -1;
}

/* Its channel has something. Return: 0, or -1 (said). */
static int on_channel(struct demo *d, int i, const char *what)
{
	struct child *c = &d->c[i];
	ssize_t n = recv(c->p.channel, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);
	char *end;

	if (n < 0 && tool_sock_error() == EINTR)
		return 0;
	if (n <= 0) {
		clear_progress(d);
		tool_error("node %s (pid %d) ended while it should %s", addresses[i], c->p.pid,
			   what);
		return -1;
	}
	c->in_len += (size_t)n;
	while ((end = memchr(c->in, '\n', c->in_len)) != NULL) {
		size_t len = (size_t)(end - c->in);

		memcpy(c->line, c->in, len);
		c->line[len] = '\0';
		c->in_len -= len + 1;
		memmove(c->in, end + 1, c->in_len);
		if (on_line(d, i) < 0)
			return -1;
	}
	if (c->in_len < sizeof(c->in))
		return 0;
	clear_progress(d);
	tool_error("node %s (pid %d) says more than a line holds", addresses[i], c->p.pid);
	return -1;
}

/* Until every node that was told something has answered. Return: 0, or -1 (said). */
static int answers(struct demo *d, const char *what)
{
	struct pollfd p[NODES];
	uint64_t now, left;
	int i, n;

	for (;;) {
		for (i = n = 0; i < NODES; i++) {
			/* Also of one that has nothing to say now: it may end. */
			p[i] = (struct pollfd){.fd = d->c[i].p.channel, .events = POLLIN};
			n += d->c[i].is_waiting;
		}
		if (n == 0)
			return 0;
		now = tool_now_ns();
		if (now >= d->end_ns || tool_ends_noted()) {
			clear_progress(d);
			if (tool_ends_noted())
				tool_error("interrupted; the nodes are stopped");
			else
				tool_error(
					"not finished within %u s: still waiting for a node to %s; "
					"is this machine very busy? (--time-limit)",
					d->limit_s, what);
			return -1;
		}
		left = d->end_ns - now;
		if (tool_poll(p, NODES, left < TICK_NS ? left : TICK_NS) < 0) {
			clear_progress(d);
			tool_error("cannot wait for the nodes: %s", tool_strerror(errno));
			return -1;
		}
		if (tool_ends_noted())
			continue;
		for (i = 0; i < NODES; i++)
			if (p[i].revents && on_channel(d, i, what) < 0)
				return -1;
	}
}

static void tell(struct demo *d, int i, const char *line)
{
	char text[128];

	d->c[i].is_waiting = true;
	snprintf(text, sizeof(text), "%s\n", line);
	/* If it is gone, answers() finds out. */
	(void)tool_sock_send(d->c[i].p.channel, text, strlen(text));
	/* What was said until now is seen once this is under way; run() looks for failures. */
	(void)tool_flush();
}

/* Ends a node. Return: -1 if it did not end well (said). */
static int reap(struct demo *d, int i, bool is_success)
{
	struct child *c = &d->c[i];
	char how[64] = "";
	int rc;

	if (c->p.pid <= 0)
		return 0;
	rc = demo_end(&c->p, is_success ? 4000000000u : 0u, how, sizeof(how));
	if (rc < 0 && is_success)
		tool_error("node %s %s", addresses[i], how);
	return rc;
}

static int stop(struct demo *d, bool is_success)
{
	int i, rc = 0;

	for (i = 0; i < NODES && is_success; i++)
		tell(d, i, "quit");
	for (i = 0; i < NODES; i++) {
		if (reap(d, i, is_success) < 0)
			rc = -1;
		if (d->c[i].p.channel != TOOL_NO_SOCK)
			tool_sock_close(d->c[i].p.channel);
	}
	return rc;
}

/* Return: -1. */
static int no_answer(const struct demo *d, int i)
{
	tool_error("node %s (pid %d) answers '%s', which means nothing", addresses[i],
		   d->c[i].p.pid, d->c[i].line);
	return -1;
}

static int pings(struct demo *d)
{
	uint64_t ns;
	unsigned got;
	int i;

	for (i = 0; i < NODES; i++) {
		tell(d, i, "ping 10");
		if (answers(d, "ping the other") < 0)
			return -1;
		if (sscanf(d->c[i].line, "ok %u %" SCNu64, &got, &ns) != 2 || got == 0) {
			tool_error(
				"node %s got no answer to its pings of %s: does something filter "
				"TCP port 16385 on the loopback interface?",
				addresses[i], addresses[1 - i]);
			return -1;
		}
		printf("demo: ping %s -> %s: %u of 10 answered, median %.0f us\n", addresses[i],
		       addresses[1 - i], got, (double)ns / 1000);
	}
	return 0;
}

struct totals {
	uint64_t sent, received, lost, duplicated, reordered, corrupt, kills, retransmitted;
};

static int exchange(struct demo *d, struct totals *t)
{
	uint64_t start = tool_now_ns(), v[7];
	char line[96];
	int i;

	for (i = 0; i < NODES; i++) {
		snprintf(line, sizeof(line), "exchange %" PRIu64 " %u %d", d->messages / NODES,
			 KILLS_EACH, d->drop && i == 1);
		tell(d, i, line);
	}
	if (answers(d, "exchange messages") < 0)
		return -1;
	clear_progress(d);
	for (i = 0; i < NODES; i++) {
		if (sscanf(d->c[i].line,
			   "ok %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			   " %" SCNu64,
			   &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6]) != 7)
			return no_answer(d, i);
		t->sent += v[0];
		t->received += v[1];
		t->lost += v[2];
		t->duplicated += v[3];
		t->reordered += v[4];
		t->corrupt += v[5];
		t->kills += v[6];
	}
	printf("demo: exchange: %" PRIu64
	       " messages of 0 B to 1 MiB, both ways at once, every byte "
	       "checked, %" PRIu64 " connections killed: %.1f s\n",
	       t->received, t->kills, (double)(tool_now_ns() - start) / 1e9);
	if (t->corrupt)
		tool_error("%" PRIu64 " messages arrived damaged", t->corrupt);
	return 0;
}

static int rate(struct demo *d, unsigned size, const char *name)
{
	uint64_t count, bytes, ns;
	char line[64];

	snprintf(line, sizeof(line), "send %u %u", size, RATE_MS);
	tell(d, 1, "receive");
	tell(d, 0, line);
	if (answers(d, "measure") < 0)
		return -1;
	if (sscanf(d->c[1].line, "ok %" SCNu64 " %" SCNu64 " %" SCNu64, &count, &bytes, &ns) != 3)
		return no_answer(d, 1);
	ns = ns ? ns : 1;
	printf("  %8s  one way     %12.0f messages/s  %8.1f MB/s\n", name,
	       (double)count * 1e9 / (double)ns, (double)bytes * 1e3 / (double)ns);
	return 0;
}

static int rates(struct demo *d)
{
	uint64_t count, ns;
	char line[64];

	printf("demo: rates from %s to %s, one thread each, one call per message:\n", addresses[0],
	       addresses[1]);
	if (rate(d, 64, "64 B") < 0 || rate(d, 8192, "8 KiB") < 0 || rate(d, 1u << 20, "1 MiB") < 0)
		return -1;
	snprintf(line, sizeof(line), "there %u", RATE_MS);
	tell(d, 1, "back");
	tell(d, 0, line);
	if (answers(d, "measure") < 0)
		return -1;
	if (sscanf(d->c[0].line, "ok %" SCNu64 " %" SCNu64, &count, &ns) != 2)
		return no_answer(d, 0);
	printf("  %8s  round trip  %12.1f us median\n", "64 B", (double)ns / 1000);
	return 0;
}

static int counters(struct demo *d, struct totals *t)
{
	uint64_t n;
	int i;

	for (i = 0; i < NODES; i++)
		tell(d, i, "retransmitted");
	if (answers(d, "read its counters") < 0)
		return -1;
	for (i = 0; i < NODES; i++) {
		if (sscanf(d->c[i].line, "ok %" SCNu64, &n) != 1)
			return no_answer(d, i);
		t->retransmitted += n;
	}
	return 0;
}

static bool is_good(const struct demo *d, const struct totals *t)
{
	return t->sent >= d->messages_min && t->received == t->sent && !t->lost && !t->duplicated &&
	       !t->reordered && !t->corrupt && t->kills >= KILLS_MIN && t->retransmitted >= 1;
}

static int run(struct demo *d)
{
	struct totals t = {0};
	int rc = -1;

	for (int i = 0; i < NODES; i++) {
		if (demo_start(&d->c[i].p, addresses[i], addresses[1 - i]) < 0)
			goto done;
		d->c[i].is_waiting = true; /* for its first "ok" */
	}
	printf("demo: node %s is pid %d, node %s is pid %d\n", addresses[0], d->c[0].p.pid,
	       addresses[1], d->c[1].p.pid);
	if (answers(d, "start") < 0 || pings(d) < 0 || exchange(d, &t) < 0 || counters(d, &t) < 0 ||
	    rates(d) < 0)
		goto done;
	rc = 0;
done:
	if (stop(d, rc == 0) < 0)
		rc = -1;
	printf("demo: sent %" PRIu64 " received %" PRIu64 " lost %" PRIu64 " duplicated %" PRIu64
	       " reordered %" PRIu64 " kills %" PRIu64 " retransmitted %" PRIu64 "\n",
	       t.sent, t.received, t.lost, t.duplicated, t.reordered, t.kills, t.retransmitted);
	if (tool_flush() < 0)
		rc = -1;
	return rc == 0 && is_good(d, &t) ? TOOL_OK : TOOL_FAILED;
}

static bool is_fault(const char *name)
{
	return strcmp(name, "drop") == 0;
}

int tool_demo(int argc, char **argv)
{
	struct demo d = {.limit_s = LIMIT_S, .messages = MESSAGES, .messages_min = MESSAGES_MIN};
	const char *fault = getenv("URDS_DEMO_FAULT");
	long long n, node = -1;
	int c;

	while ((c = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (c) {
		case OPT_FAULT:
			fault = optarg;
			break;
		case OPT_MESSAGES:
			n = tool_number(optarg);
			if (n < 100 || n > 100000000)
				return tool_usage("--messages %s: give a number from 100", optarg);
			d.messages = (uint64_t)n & ~1ull;
			d.messages_min = d.messages;
			break;
		case OPT_LIMIT:
			n = tool_number(optarg);
			if (n < 1 || n > DEMO_LAST_RESORT_S - 10)
				return tool_usage("--time-limit %s: give seconds, 1 to %d", optarg,
						  DEMO_LAST_RESORT_S - 10);
			d.limit_s = (unsigned)n;
			break;
		case OPT_NODE:
			node = tool_number(optarg);
			break;
		case 'h':
			return tool_print(help);
		case 'V':
			return tool_version();
		default:
			return tool_usage("bad option");
		}
	}
	if (node >= 0 && argc - optind == 2)
		return demo_node(demo_channel(node), argv[optind], argv[optind + 1]);
	if (optind != argc)
		return tool_usage("no argument is needed: not '%s'", argv[optind]);
	if (fault && *fault) {
		if (!is_fault(fault))
			return tool_usage("there is no fault '%s'; only 'drop'", fault);
		d.drop = true;
	}
	for (c = 0; c < NODES; c++)
		d.c[c].p.channel = TOOL_NO_SOCK;
	d.has_terminal = tool_is_terminal();
	d.end_ns = tool_now_ns() + d.limit_s * 1000000000ull;
	tool_ends_note();
	return run(&d);
}
