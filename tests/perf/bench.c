/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds beside raw TCP on this machine: two processes, loopback, pinned to CPUs 0 and 1 (or both to one). Each
 * round measures everything once, raw and urds in turn; the table shows medians and ratios with the bound that
 * each is held to.
 *
 *	bench [--rounds N] [--only WORD|=NAME] [--check]
 *
 * --check: exit 1 if a ratio misses its bound. Absolute figures mean nothing here; ratios do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "urds/urds.h"

#define ROUNDS_MAX 25

static const char *const addr_a = "127.77.0.1", *const addr_b = "127.77.0.2";

struct shared *sh;

double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void die(const char *what)
{
	fprintf(stderr, "bench: %s: %s (%s)\n", what, strerror(errno), urds_reason());
	_exit(2);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static double cpu_start;

static double cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void barrier(void)
{
	atomic_fetch_add(&sh->ready, 1);
	while (!atomic_load(&sh->go))
		usleep(100);
	cpu_start = cpu_time();
}

/* ---------------------------------------------------------------- urds */

static struct sockaddr_in at(const char *addr, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, addr, &sin.sin_addr);
	return sin;
}

static struct urds_sock *urds_end(struct urds_ctx *ctx, const char *mine, int port,
				  const char *other, int oport)
{
	struct urds_sock *s = urds_socket(ctx);
	struct sockaddr_in m = at(mine, port), o = at(other, oport);
	int big = 4 << 20;

	if (!s)
		die("socket");
	if (urds_setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof big) < 0 ||
	    urds_setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big) < 0)
		die("sockbuf");
	if (urds_bind(s, (struct sockaddr *)&m, sizeof m) < 0)
		die("bind");
	if (urds_connect(s, (struct sockaddr *)&o, sizeof o) < 0)
		die("connect");
	return s;
}

static struct urds_ctx *open_ctx(const struct job *j)
{
	struct urds_config cfg = {.size = sizeof cfg, .flags = j->flags};
	struct urds_ctx *ctx;

	if (urds_open(&cfg, &ctx) < 0)
		die("open");
	return ctx;
}

static uint64_t counter(struct urds_sock *s, const char *name)
{
	static char buf[40 * 256];
	socklen_t len = sizeof buf;
	uint64_t v = 0;
	int each = urds_getsockopt(s, URDS_SOL_RDS, URDS_INFO_COUNTERS, buf, &len);

	for (socklen_t i = 0; each > 0 && i + (socklen_t)each <= len; i += (socklen_t)each)
		if (strcmp(buf + i, name) == 0)
			memcpy(&v, buf + i + 32, 8);
	return v;
}

struct sender {
	struct urds_sock *s;
	const struct job *j;
	size_t count;
	uint32_t id;
};

static void *sender(void *arg)
{
	struct sender *t = arg;
	char *buf = calloc(1, t->j->size);

	for (size_t i = 0; i < t->count; i++) {
		uint64_t stamp = (uint64_t)t->id << 48 | i;

		memcpy(buf, &stamp, sizeof stamp);
		if (urds_send(t->s, buf, t->j->size, 0) < 0)
			die("send");
	}
	free(buf);
	return NULL;
}

static void urds_tx(const struct job *j)
{
	struct urds_ctx *ctx = open_ctx(j);
	int n = j->threads ? j->threads : 1;
	struct sender t[8];
	pthread_t th[8];
	char c;

	for (int i = 0; i < n; i++) {
		t[i] = (struct sender){urds_end(ctx, addr_a, 4000 + i, addr_b, 5000), j,
				       j->count / (size_t)n, (uint32_t)i};
		urds_send(t[i].s, NULL, 0, 0); /* brings the connection up */
	}
	urds_recv(t[0].s, &c, 1, 0);
	barrier();
	sh->tx_calls = counter(t[0].s, "tx_calls");
	for (int i = 0; i < n; i++)
		pthread_create(&th[i], NULL, sender, &t[i]);
	for (int i = 0; i < n; i++)
		pthread_join(th[i], NULL);
	urds_recv(t[0].s, &c, 1, 0);
	sh->tx_calls = counter(t[0].s, "tx_calls") - sh->tx_calls;
	urds_shutdown(ctx);
}

static void urds_rx(const struct job *j)
{
	struct urds_ctx *ctx = open_ctx(j);
	struct urds_sock *s = urds_end(ctx, addr_b, 5000, addr_a, 4000);
	int n = j->threads ? j->threads : 1;
	char *buf = malloc(j->size);
	uint64_t next[8] = {0};
	double start;

	memset(buf, 0, j->size);
	for (int i = 0; i < n; i++)
		urds_recv(s, buf, 0, 0);
	urds_send(s, NULL, 0, 0);
	barrier();
	sh->rx_calls = counter(s, "rx_calls");
	sh->polls = counter(s, "poll_calls");
	start = now();
	for (size_t i = 0; i < j->count / (size_t)n * (size_t)n; i++) {
		uint64_t stamp;

		if (urds_recv(s, buf, j->size, 0) != (ssize_t)j->size)
			die("recv");
		memcpy(&stamp, buf, sizeof stamp);
		if (stamp != ((stamp >> 48) << 48 | next[stamp >> 48]++)) {
			fprintf(stderr, "bench: message %zu out of order\n", i);
			_exit(2);
		}
	}
	sh->seconds = now() - start;
	sh->rx_calls = counter(s, "rx_calls") - sh->rx_calls;
	sh->polls = counter(s, "poll_calls") - sh->polls;
	sh->messages = j->count;
	urds_send(s, NULL, 0, 0);
	urds_shutdown(ctx);
}

static void urds_rtt(const struct job *j, int role)
{
	struct urds_ctx *ctx = open_ctx(j);
	struct urds_sock *s = role == 1 ? urds_end(ctx, addr_a, 4000, addr_b, 5000)
					: urds_end(ctx, addr_b, 5000, addr_a, 4000);
	char *buf = calloc(1, j->size);
	double start;

	if (role == 1) {
		urds_send(s, NULL, 0, 0);
		urds_recv(s, buf, j->size, 0);
	} else {
		urds_recv(s, buf, j->size, 0);
		urds_send(s, NULL, 0, 0);
	}
	barrier();
	if (role == 1) {
		sh->tx_calls = counter(s, "tx_calls");
		sh->rx_calls = counter(s, "rx_calls");
		sh->polls = counter(s, "poll_calls");
	}
	start = now();
	for (size_t i = 0; i < j->count; i++) {
		if (role == 1 && urds_send(s, buf, j->size, 0) < 0)
			die("send");
		if (urds_recv(s, buf, j->size, 0) != (ssize_t)j->size)
			die("recv");
		if (role == 0 && urds_send(s, buf, j->size, 0) < 0)
			die("send");
	}
	if (role == 1) {
		sh->seconds = now() - start;
		sh->tx_calls = counter(s, "tx_calls") - sh->tx_calls;
		sh->rx_calls = counter(s, "rx_calls") - sh->rx_calls;
		sh->polls = counter(s, "poll_calls") - sh->polls;
		sh->messages = j->count;
	}
	urds_shutdown(ctx);
}

/* ---------------------------------------------------------------- runs */

enum kind { RAW_STREAM, RAW_RTT, URDS_STREAM, URDS_RTT };

struct run {
	const char *name;
	enum kind kind;
	struct job j;
	int cpu_a, cpu_b;
	int hogs;
	double v[ROUNDS_MAX];	   /* messages per second, or microseconds per round trip */
	double cpu[2][ROUNDS_MAX]; /* nanoseconds of processor time per message: receiver, sender */
	double tx, rx, polls;	   /* system calls per message, last round */
};

static pid_t spawn(const struct run *r, int role)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	pin(role ? r->cpu_a : r->cpu_b);
	switch (r->kind) {
	case RAW_STREAM:
		(role ? raw_tx : raw_rx)(&r->j);
		break;
	case RAW_RTT:
		raw_rtt(&r->j, role);
		break;
	case URDS_STREAM:
		(role ? urds_tx : urds_rx)(&r->j);
		break;
	case URDS_RTT:
		urds_rtt(&r->j, role);
		break;
	}
	sh->cpu[role] = cpu_time() - cpu_start;
	_exit(0);
}

static pid_t hog(int cpu)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	pin(cpu);
	for (volatile unsigned i = 0;; i++)
		;
}

static void measure(struct run *r, int round)
{
	pid_t p[2], h[2] = {0};
	int bad = 0, status;

	memset(sh, 0, sizeof *sh);
	p[0] = spawn(r, 0);
	p[1] = spawn(r, 1);
	while (atomic_load(&sh->ready) < 2) {
		usleep(1000);
		if (waitpid(p[0], &status, WNOHANG) > 0 || waitpid(p[1], &status, WNOHANG) > 0) {
			fprintf(stderr, "bench: %s: a process ended early\n", r->name);
			exit(2);
		}
	}
	for (int i = 0; i < r->hogs; i++)
		h[i] = hog(i);
	atomic_store(&sh->go, 1);
	for (int i = 0; i < 2; i++)
		if (waitpid(p[i], &status, 0) < 0 || status != 0)
			bad = 1;
	for (int i = 0; i < r->hogs; i++) {
		kill(h[i], SIGKILL);
		waitpid(h[i], NULL, 0);
	}
	if (bad) {
		fprintf(stderr, "bench: %s failed\n", r->name);
		exit(2);
	}
	if (r->kind == RAW_RTT || r->kind == URDS_RTT)
		r->v[round] = sh->seconds / (double)r->j.count * 1e6;
	else
		r->v[round] = (double)r->j.count / sh->seconds;
	for (int i = 0; i < 2; i++)
		r->cpu[i][round] = sh->cpu[i] / (double)r->j.count * 1e9;
	if (sh->messages) {
		r->tx = (double)sh->tx_calls / (double)sh->messages;
		r->rx = (double)sh->rx_calls / (double)sh->messages;
		r->polls = (double)sh->polls / (double)sh->messages;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median_of(const double *from, int rounds)
{
	double v[ROUNDS_MAX];

	memcpy(v, from, (size_t)rounds * sizeof *v);
	qsort(v, (size_t)rounds, sizeof *v, by_value);
	return v[rounds / 2];
}

static double median(const struct run *r, int rounds)
{
	return median_of(r->v, rounds);
}

/* clang-format off */
static struct run runs[] = {
	{.name = "raw 64 B, a send each", .kind = RAW_STREAM, .j = {64, 200000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "raw 64 B, 64 KiB sends", .kind = RAW_STREAM, .j = {64, 8000000, 65536, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "urds 64 B", .kind = URDS_STREAM, .j = {64, 4000000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "urds 64 B, 4 threads", .kind = URDS_STREAM, .j = {64, 4000000, 0, 4, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "raw 8 KiB, a send each", .kind = RAW_STREAM, .j = {8192, 200000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "urds 8 KiB", .kind = URDS_STREAM, .j = {8192, 200000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "raw 1 MiB, a send each", .kind = RAW_STREAM, .j = {1 << 20, 3000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "urds 1 MiB", .kind = URDS_STREAM, .j = {1 << 20, 3000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "raw round trip, 2 CPUs", .kind = RAW_RTT, .j = {64, 20000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "bare epoll + recv, 2 CPUs", .kind = RAW_RTT, .j = {64, 20000, 0, 0, RAW_EPOLL}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "bare spin on recv, 2 CPUs", .kind = RAW_RTT, .j = {64, 20000, 0, 0, RAW_SPIN}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "urds blocking, 2 CPUs", .kind = URDS_RTT, .j = {64, 20000, 0, 0, URDS_CONFIG_NO_SPIN}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "urds spinning, 2 CPUs", .kind = URDS_RTT, .j = {64, 20000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 0},
	{.name = "raw round trip, 1 CPU", .kind = RAW_RTT, .j = {64, 20000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 0, .hogs = 0},
	{.name = "bare epoll + recv, 1 CPU", .kind = RAW_RTT, .j = {64, 20000, 0, 0, RAW_EPOLL}, .cpu_a = 0, .cpu_b = 0, .hogs = 0},
	{.name = "urds blocking, 1 CPU", .kind = URDS_RTT, .j = {64, 20000, 0, 0, URDS_CONFIG_NO_SPIN}, .cpu_a = 0, .cpu_b = 0, .hogs = 0},
	{.name = "urds spinning, 1 CPU", .kind = URDS_RTT, .j = {64, 20000, 0, 0, 0}, .cpu_a = 0, .cpu_b = 0, .hogs = 0},
	{.name = "raw round trip, hogs", .kind = RAW_RTT, .j = {64, 500, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 2},
	{.name = "urds spinning, hogs", .kind = URDS_RTT, .j = {64, 500, 0, 0, 0}, .cpu_a = 0, .cpu_b = 1, .hogs = 2},
};
/* clang-format on */

static int is_wanted(const struct run *r, const char *only)
{
	return only[0] == '=' ? !strcmp(r->name, only + 1) : strstr(r->name, only) != NULL;
}

enum {
	R_ONE,
	R_BULK,
	U_64,
	U_64T,
	R_8K,
	U_8K,
	R_1M,
	U_1M,
	R_2,
	E_2,
	S_2,
	U_2B,
	U_2S,
	R_1,
	E_1,
	U_1B,
	U_1S,
	R_H,
	U_H,
	NRUNS
};

static const struct {
	const char *text;
	int of, to;
	double bound;
	int at_least;
	int floor; /* the run that no library of this kind can beat, or 0: there is none */
} ratios[] = {
	{"64 B one way / raw send each", U_64, R_ONE, 40, 1, 0},
	{"64 B one way / raw bulk", U_64, R_BULK, 0.3, 1, 0},
	{"64 B, 4 threads / 1 thread", U_64T, U_64, 1, 1, 0},
	{"8 KiB / raw send each", U_8K, R_8K, 1.5, 1, 0},
	{"1 MiB / raw send each", U_1M, R_1M, 0.85, 1, 0},
	{"round trip, both block, 2 CPUs / raw", U_2B, R_2, 1.10, 0, E_2},
	{"round trip, adaptive spin, 2 CPUs / raw", U_2S, R_2, 0.35, 0, S_2},
	{"round trip, both block, 1 CPU / raw", U_1B, R_1, 1.10, 0, E_1},
	{"round trip, adaptive spin, 1 CPU / raw", U_1S, R_1, 1.10, 0, E_1},
	{"round trip beside 2 hogs / raw beside them", U_H, R_H, 1.5, 0, 0},
};

int main(int argc, char **argv)
{
	static const struct option options[] = {{"rounds", 1, NULL, 'r'},
						{"only", 1, NULL, 'o'},
						{"check", 0, NULL, 'c'},
						{NULL, 0, NULL, 0}};
	int rounds = 5, check = 0, opt, missed = 0;
	const char *only = NULL;

	while ((opt = getopt_long(argc, argv, "r:o:c", options, NULL)) != -1) {
		if (opt == 'r')
			rounds = atoi(optarg);
		else if (opt == 'o')
			only = optarg;
		else if (opt == 'c')
			check = 1;
		else
			return 2;
	}
	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "bench: --rounds must be 1 to %d\n", ROUNDS_MAX);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		die("mmap");
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < NRUNS; i++)
			if (!only || is_wanted(&runs[i], only))
				measure(&runs[i], round);
	printf("%-28s %14s  %9s %9s   system calls per message\n", "median of the rounds", "",
	       "cpu ns tx", "cpu ns rx");
	for (int i = 0; i < NRUNS; i++) {
		const struct run *r = &runs[i];

		if (only && !is_wanted(r, only))
			continue;
		printf("%-28s ", r->name);
		if (r->kind == RAW_RTT || r->kind == URDS_RTT)
			printf("%11.2f us", median(r, rounds));
		else
			printf("%10.0f m/s", median(r, rounds));
		printf("  %9.0f %9.0f", median_of(r->cpu[1], rounds), median_of(r->cpu[0], rounds));
		if (r->tx > 0)
			printf("   %.4f / %.4f / %.4f", r->tx, r->rx, r->polls);
		printf("\n");
	}
	for (size_t i = 0; i < sizeof ratios / sizeof *ratios && !only; i++) {
		double x = median(&runs[ratios[i].of], rounds) /
			   median(&runs[ratios[i].to], rounds);
		int ok = ratios[i].at_least ? x >= ratios[i].bound : x <= ratios[i].bound;

		missed += !ok;
		printf("%-46s %7.2f  (%s %.2f)  %s", ratios[i].text, x,
		       ratios[i].at_least ? ">=" : "<=", ratios[i].bound, ok ? "ok" : "MISSED");
		if (ratios[i].floor)
			printf("; %s: %.2f", runs[ratios[i].floor].name,
			       median(&runs[ratios[i].floor], rounds) /
				       median(&runs[ratios[i].to], rounds));
		printf("\n");
	}
	return check && missed ? 1 : 0;
}
