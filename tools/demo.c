/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds demo: two nodes on this machine, each its own process. Pings, a verified exchange while connections
 * are broken, a table of rates; the last line says what came of it. This process has no engine: it starts
 * the nodes, tells them what to do, limits the time, and adds up.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "demo.h"
#include "tool.h"

#define NODES 2
#define MESSAGES 110000u     /* both directions together */
#define MESSAGES_MIN 100000u /* fewer are no success */
#define KILLS_EACH 6u
#define KILLS_MIN 5u
#define LIMIT_S 28
#define RATE_MS 400

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
	pid_t pid;
	int fd;
	bool is_waiting; /* for its answer */
	char line[DEMO_LINE_MAX];
	uint64_t sent, received, kills; /* progress */
};

struct demo {
	struct child c[NODES];
	uint64_t end_ns;
	unsigned limit_s;
	uint64_t messages, messages_min;
	bool drop, has_terminal, has_progress;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

/* @parent: so that a parent that died before the next line is noticed. */
static void become_node(int fd, const char *self, const char *peer, pid_t parent)
{
	char exe[4096], number[16];
	char *args[] = {(char *)(uintptr_t) "urds",
			(char *)(uintptr_t) "demo",
			(char *)(uintptr_t) "--node",
			number,
			(char *)(uintptr_t)self,
			(char *)(uintptr_t)peer,
			NULL};
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(TOOL_FAILED);
	snprintf(number, sizeof(number), "%d", fd);
	/* By name where possible, for emulators and checkers that know only real names. */
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = '\0';
		execv(exe, args);
	}
	execv("/proc/self/exe", args);
	_exit(127);
}

static int start(struct demo *d, int i)
{
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0) {
		tool_error("cannot make a control channel: %s", strerror(errno));
		return -1;
	}
	d->c[i].pid = fork();
	if (d->c[i].pid == 0) {
		int fd = dup(fds[1]); /* this one survives exec */

		if (fd >= 0)
			become_node(fd, addresses[i], addresses[1 - i], parent);
		_exit(TOOL_FAILED);
	}
	close(fds[1]);
	d->c[i].fd = fds[0];
	if (d->c[i].pid < 0) {
		tool_error("cannot start a process: %s", strerror(errno));
		return -1;
	}
	d->c[i].is_waiting = true; /* for its first "ok" */
	return 0;
}

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

/* Return: 0, or -1 (said). */
static int on_line(struct demo *d, int i, const char *what)
{
	struct child *c = &d->c[i];
	ssize_t n = recv(c->fd, c->line, sizeof(c->line) - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	c->line[n > 0 ? n : 0] = '\0';
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
	if (strncmp(c->line, "error ", 6) == 0)
		tool_error("node %s: %s", addresses[i], c->line + 6);
	else
		tool_error("node %s (pid %d) ended while it should %s", addresses[i], (int)c->pid,
			   what);
	return -1;
}

/* Until every node that was told something has answered. Return: 0, or -1 (said). */
static int answers(struct demo *d, const char *what)
{
	struct pollfd p[NODES];
	uint64_t now;
	int i, n;

	for (;;) {
		for (i = n = 0; i < NODES; i++) {
			p[i] = (struct pollfd){.fd = d->c[i].is_waiting ? d->c[i].fd : -1,
					       .events = POLLIN};
			n += d->c[i].is_waiting;
		}
		if (n == 0)
			return 0;
		now = tool_now_ns();
		if (now >= d->end_ns || interrupted) {
			clear_progress(d);
			if (interrupted)
				tool_error("interrupted; the nodes are stopped");
			else
				tool_error(
					"not finished within %u s: still waiting for a node to %s; "
					"is this machine very busy? (--time-limit)",
					d->limit_s, what);
			return -1;
		}
		if (poll(p, NODES, (int)((d->end_ns - now) / 1000000u) + 1) < 0)
			continue;
		for (i = 0; i < NODES; i++)
			if (p[i].fd >= 0 && p[i].revents && on_line(d, i, what) < 0)
				return -1;
	}
}

static void tell(struct demo *d, int i, const char *line)
{
	d->c[i].is_waiting = true;
	/* If it is gone, answers() finds out. */
	(void)send(d->c[i].fd, line, strlen(line), MSG_NOSIGNAL);
}

/* Ends a node. Return: -1 if it did not end well (said). */
static int reap(struct demo *d, int i, bool is_success)
{
	uint64_t end = tool_now_ns() + (is_success ? 4000000000u : 0u);
	struct timespec step = {0, 2000000};
	struct child *c = &d->c[i];
	int status = 0;

	if (c->pid <= 0)
		return 0;
	while (waitpid(c->pid, &status, WNOHANG) == 0) {
		if (tool_now_ns() >= end) {
			kill(c->pid, SIGKILL);
			waitpid(c->pid, NULL, 0);
			if (is_success)
				tool_error("node %s did not end when told to", addresses[i]);
			return -1;
		}
		nanosleep(&step, NULL);
	}
	if (is_success && status)
		tool_error("node %s ended with %s %d", addresses[i],
			   WIFSIGNALED(status) ? "signal" : "status",
			   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return status ? -1 : 0;
}

static int stop(struct demo *d, bool is_success)
{
	int i, rc = 0;

	for (i = 0; i < NODES && is_success; i++)
		tell(d, i, "quit");
	for (i = 0; i < NODES; i++) {
		if (reap(d, i, is_success) < 0)
			rc = -1;
		if (d->c[i].fd >= 0)
			close(d->c[i].fd);
	}
	return rc;
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
			return -1;
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
		return -1;
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
		return -1;
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
	for (i = 0; i < NODES; i++)
		if (sscanf(d->c[i].line, "ok %" SCNu64, &n) == 1)
			t->retransmitted += n;
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

	if (start(d, 0) < 0 || start(d, 1) < 0)
		goto done;
	printf("demo: node %s is pid %d, node %s is pid %d\n", addresses[0], (int)d->c[0].pid,
	       addresses[1], (int)d->c[1].pid);
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
	if (fflush(stdout) != 0)
		rc = -1;
	return rc == 0 && is_good(d, &t) ? TOOL_OK : TOOL_FAILED;
}

static void catch_signals(void)
{
	static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal};
	size_t i;

	for (i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++)
		sigaction(sigs[i], &sa, NULL);
}

static bool is_fault(const char *name)
{
	return strcmp(name, "drop") == 0;
}

int tool_demo(int argc, char **argv)
{
	struct demo d = {.limit_s = LIMIT_S, .messages = MESSAGES, .messages_min = MESSAGES_MIN};
	const char *fault = getenv("URDS_DEMO_FAULT");
	int c, node = -1;
	long long n;

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
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
			node = (int)tool_number(optarg);
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
		return demo_node(node, argv[optind], argv[optind + 1]);
	if (optind != argc)
		return tool_usage("no argument is needed: not '%s'", argv[optind]);
	if (fault && *fault) {
		if (!is_fault(fault))
			return tool_usage("there is no fault '%s'; only 'drop'", fault);
		d.drop = true;
	}
	for (c = 0; c < NODES; c++)
		d.c[c].fd = -1;
	d.has_terminal = isatty(STDOUT_FILENO) == 1;
	d.end_ns = tool_now_ns() + d.limit_s * 1000000000ull;
	catch_signals();
	return run(&d);
}
