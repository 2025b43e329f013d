/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rdspeer: the kernel's side of the interop tests.  Plain AF_RDS socket calls, static, no code of
 * urds.  Every line of output is flushed, so that a test can wait for it.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t peer_stop;

static const char usage_text[] =
	"usage: rdspeer MODE ...\n"
	"  exchange --local ADDR:PORT --peer ADDR:PORT --send N --recv N [--seed S] [--sizes SPEC]\n"
	"           [--big K] [--empty E] [--recv-big K] [--recv-empty E] [--pairs P] [--linger S]\n"
	"           [--fault drop|dup|swap|corrupt[:any|empty|short|long][@N]]\n"
	"                      verified messages both ways (PROTOCOL.md); counts are for each pair\n"
	"  show --local ADDR:PORT --peer ADDR:PORT --send N ... [--count N]\n"
	"                      size and first bytes of the messages from local to peer\n"
	"  selfcheck [--seed S]  test the checker of exchange, without sockets\n"
	"  serve ADDR:PORT     send every message back to its sender\n"
	"  sink ADDR:PORT [--hold S] [--count N]   receive, throw away; first wait S seconds\n"
	"  flood --local ADDR:PORT --peer ADDR:PORT [--size B] [--count N]   send until told to stop\n"
	"  ping ADDR [-I ADDR] [-c N] [--interval MS]   empty messages to port 0\n"
	"  catrecv ADDR:PORT [-o FILE]       payloads to standard output, until an empty message\n"
	"  catsend ADDR:PORT [-l ADDR[:PORT]] [-i FILE]   standard input in 64 KiB messages\n"
	"  info NAME|NUMBER [--raw]          a list of the kernel (counters, connections, tcp, ...)\n"
	"options of all: --timeout S (120) --stall S (30; 0 bytes moved) --sndbuf B (4 MiB) --rcvbuf "
	"B\n"
	"           --seconds S (stop after) --no-monitor (no RDS_CONG_MONITOR)\n"
	"exit status: 0 well, 1 a check or a system call failed or time ran out, 2 usage\n";

static void on_signal(int sig)
{
	(void)sig;
	peer_stop = 1;
}

static void on_alarm(int sig)
{
	static const char text[] = "timeout\n";

	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0) {
	}
	_exit(EXIT_CHECK);
}

/* Waits for @events at most @ms, less if told to stop. */
static void wait_fd(int fd, short events, int ms)
{
	struct pollfd p = {.fd = fd, .events = events};

	poll(&p, 1, ms);
}

/* Sends one message, waiting for room; false: told to stop. */
static bool send_all(int fd, const void *buf, size_t len, const struct addr *to)
{
	while (rds_send(fd, buf, len, to) < 0) {
		if (peer_stop)
			return false;
		if (errno == EAGAIN)
			wait_fd(fd, POLLOUT, 100);
		else
			poll(NULL, 0, 10);
	}
	return true;
}

/* Receives one message; -1: told to stop or @end_ms came. */
static ssize_t receive(int fd, void *buf, struct addr *from, int64_t end_ms)
{
	uint64_t cong;

	while (!peer_stop && now_ms() < end_ms) {
		ssize_t n = rds_recv(fd, buf, STREAM_MAX, from, &cong);

		if (n >= 0)
			return n;
		if (n == -1)
			wait_fd(fd, POLLIN, 100);
	}
	return -1;
}

static struct addr need_addr(struct options *o)
{
	if (o->argc < 1) {
		fputs(usage_text, stderr);
		exit(EXIT_USAGE);
	}
	return parse_addr(o->argv[0], true);
}

static uint8_t *buffer(void)
{
	uint8_t *b = calloc(1, STREAM_MAX);

	if (!b)
		fail("memory");
	return b;
}

static int64_t end_of(const struct options *o)
{
	return o->seconds ? now_ms() + (int64_t)o->seconds * 1000 : INT64_MAX;
}

struct meter {
	const char *word;
	uint64_t messages, bytes;
	int64_t start, said;
};

static void meter_add(struct meter *m, size_t bytes)
{
	int64_t now = now_ms();

	m->messages++;
	m->bytes += bytes;
	if (now - m->said < 1000)
		return;
	m->said = now;
	say("progress %s %llu bytes %llu", m->word, (unsigned long long)m->messages,
	    (unsigned long long)m->bytes);
}

static void meter_end(const struct meter *m)
{
	say("done %s %llu bytes %llu ms %lld", m->word, (unsigned long long)m->messages,
	    (unsigned long long)m->bytes, (long long)(now_ms() - m->start));
}

static struct meter meter_start(const char *word)
{
	int64_t now = now_ms();

	return (struct meter){.word = word, .start = now, .said = now};
}

static int mode_serve(struct options *o)
{
	struct addr local = need_addr(o), from;
	int fd = rds_socket(&local, o);
	uint8_t *buf = buffer();
	int64_t end = end_of(o);
	ssize_t n;

	say("ready");
	struct meter m = meter_start("served");
	while ((!o->count || m.messages < o->count) && (n = receive(fd, buf, &from, end)) >= 0) {
		if (!send_all(fd, buf, (size_t)n, &from))
			break;
		meter_add(&m, (size_t)n);
	}
	rds_linger(fd, &local, o->linger_s * 1000);
	meter_end(&m);
	return 0;
}

static int mode_sink(struct options *o)
{
	struct addr local = need_addr(o), from;
	int fd = rds_socket(&local, o);
	uint8_t *buf = buffer();
	int64_t end = end_of(o);
	ssize_t n;

	say("ready");
	for (int64_t go = now_ms() + (int64_t)o->hold_s * 1000; now_ms() < go && !peer_stop;)
		poll(NULL, 0, 20);
	struct meter m = meter_start("received");
	if (o->hold_s)
		say("reading");
	while ((!o->count || m.messages < o->count) && (n = receive(fd, buf, &from, end)) >= 0)
		meter_add(&m, (size_t)n);
	meter_end(&m);
	return 0;
}

static int mode_flood(struct options *o)
{
	int fd = rds_socket(&o->local, o);
	uint8_t *buf = buffer();
	int64_t end = end_of(o);

	say("ready");
	struct meter m = meter_start("sent");
	while (!peer_stop && now_ms() < end && (!o->count || m.messages < o->count)) {
		for (int i = 0; i < 8 && o->size >= 8; i++)
			buf[i] = (uint8_t)(m.messages >> (56 - 8 * i)); /* numbered */
		if (!send_all(fd, buf, o->size, &o->peer))
			break;
		meter_add(&m, o->size);
	}
	rds_linger(fd, &o->local, o->linger_s * 1000);
	meter_end(&m);
	return 0;
}

/* The address from which this machine would reach @to. */
static struct addr source_for(const struct addr *to)
{
	struct addr a = {.len = sizeof(a.ss)}, dst = addr_with_port(to, 16385);
	int fd = socket(to->ss.ss_family, SOCK_DGRAM, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&dst.ss, dst.len) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a.ss, &a.len) < 0)
		fail("no route to %s", addr_text(to));
	close(fd);
	return addr_with_port(&a, 0);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int mode_ping(struct options *o)
{
	if (o->argc < 1) {
		fputs(usage_text, stderr);
		return EXIT_USAGE;
	}
	struct addr to = parse_addr(o->argv[0], false), from;
	struct addr local = o->source ? parse_addr(o->source, false) : source_for(&to);
	int fd = rds_socket(&local, o);
	uint8_t *buf = buffer();
	uint64_t want = o->count ? o->count : 1, got = 0;

	to = addr_with_port(&to, 0);
	for (uint64_t i = 0; i < want && !peer_stop; i++) {
		int64_t t = now_us();

		if (!send_all(fd, buf, 0, &to))
			break;
		if (receive(fd, buf, &from, now_ms() + (int64_t)o->stall_s * 1000) < 0) {
			say("no reply from %s", addr_text(&to));
			break;
		}
		say("reply from %s usec %lld", addr_text(&from), (long long)(now_us() - t));
		got++;
		if (i + 1 < want)
			poll(NULL, 0, (int)o->interval_ms);
	}
	say("done sent %llu received %llu", (unsigned long long)want, (unsigned long long)got);
	return got == want ? 0 : EXIT_CHECK;
}

static int mode_catrecv(struct options *o)
{
	struct addr local = need_addr(o), from;
	int fd = rds_socket(&local, o), out = 1;
	uint8_t *buf = buffer();
	ssize_t n;

	if (o->file && (out = open(o->file, O_WRONLY | O_CREAT | O_TRUNC, 0644)) < 0)
		fail("%s", o->file);
	fprintf(stderr, "ready\n");
	while ((n = receive(fd, buf, &from, INT64_MAX)) > 0) {
		for (ssize_t done = 0; done < n;) {
			ssize_t w = write(out, buf + done, (size_t)(n - done));

			if (w < 0)
				fail("write");
			done += w;
		}
	}
	if (n < 0 || !send_all(fd, buf, 0, &from))
		return EXIT_CHECK;
	if (out != 1 && close(out) < 0)
		fail("%s", o->file);
	rds_linger(fd, &local, o->linger_s * 1000);
	return 0;
}

static size_t read_full(int fd, uint8_t *buf, size_t room)
{
	size_t len = 0;

	while (len < room) {
		ssize_t n = read(fd, buf + len, room - len);

		if (n < 0)
			fail("read");
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return len;
}

static int mode_catsend(struct options *o)
{
	struct addr to = need_addr(o), from;
	struct addr local = o->has_local ? o->local : source_for(&to);
	int fd = rds_socket(&local, o), in = 0;
	uint8_t *buf = buffer();
	size_t n;

	if (o->file && (in = open(o->file, O_RDONLY)) < 0)
		fail("%s", o->file);
	do {
		n = read_full(in, buf, 64 * 1024);
		if (!send_all(fd, buf, n, &to))
			return EXIT_CHECK;
	} while (n > 0);
	do {
		if (receive(fd, buf, &from, INT64_MAX) < 0)
			return EXIT_CHECK;
	} while (!addr_equal(&from, &to));
	return 0;
}

static int mode_show(struct options *o)
{
	struct stream_spec spec = {
		.seed = o->seed, .count = o->send, .big = o->big, .empty = o->empty};
	struct stream_end from = addr_end(&o->local), to = addr_end(&o->peer);
	struct stream s;
	uint8_t *buf = buffer();
	char hex[2 * 48 + 1];

	if (stream_spec_init(&spec, o->sizes) < 0) {
		fprintf(stderr, "rdspeer: these counts or sizes make no sense\n");
		return EXIT_USAGE;
	}
	stream_init(&s, &spec, &from, &to);
	say("stream %08x digest %016llx", s.id, (unsigned long long)spec.digest);
	for (uint64_t i = 0; i < o->send && (!o->count || i < o->count); i++) {
		uint32_t len = stream_message(&s, i, buf);

		hex[0] = 0;
		for (uint32_t k = 0; k < len && k < 48; k++)
			snprintf(hex + 2 * k, 3, "%02x", buf[k]);
		say("%llu %u %s%s", (unsigned long long)i, len, hex, len > 48 ? "..." : "");
	}
	return 0;
}

enum {
	OPT_LOCAL = 'l',
	OPT_IN = 'i',
	OPT_OUT = 'o',
	OPT_SOURCE = 'I',
	OPT_COUNT = 'c',
	OPT_PEER = 256,
	OPT_SEND,
	OPT_RECV,
	OPT_SEED,
	OPT_SIZES,
	OPT_BIG,
	OPT_EMPTY,
	OPT_RECV_BIG,
	OPT_RECV_EMPTY,
	OPT_PAIRS,
	OPT_FAULT,
	OPT_TIMEOUT,
	OPT_STALL,
	OPT_LINGER,
	OPT_SNDBUF,
	OPT_RCVBUF,
	OPT_HOLD,
	OPT_SECONDS,
	OPT_SIZE,
	OPT_INTERVAL,
	OPT_NO_MONITOR,
	OPT_RAW
};

static const struct option long_options[] = {{"local", 1, NULL, OPT_LOCAL},
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
					     {"fault", 1, NULL, OPT_FAULT},
					     {"timeout", 1, NULL, OPT_TIMEOUT},
					     {"stall", 1, NULL, OPT_STALL},
					     {"linger", 1, NULL, OPT_LINGER},
					     {"sndbuf", 1, NULL, OPT_SNDBUF},
					     {"rcvbuf", 1, NULL, OPT_RCVBUF},
					     {"hold", 1, NULL, OPT_HOLD},
					     {"seconds", 1, NULL, OPT_SECONDS},
					     {"size", 1, NULL, OPT_SIZE},
					     {"count", 1, NULL, OPT_COUNT},
					     {"interval", 1, NULL, OPT_INTERVAL},
					     {"no-monitor", 0, NULL, OPT_NO_MONITOR},
					     {"raw", 0, NULL, OPT_RAW},
					     {NULL, 0, NULL, 0}};

static uint64_t number(uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(optarg, &end, 0);

	if (*end || end == optarg || v > max) {
		fprintf(stderr, "rdspeer: '%s' is not a number up to %llu\n", optarg,
			(unsigned long long)max);
		exit(EXIT_USAGE);
	}
	return v;
}

static void parse(struct options *o, int argc, char **argv)
{
	uint64_t recv_big = UINT64_MAX, recv_empty = UINT64_MAX;
	int c;

	*o = (struct options){.sizes = STREAM_DEFAULT_SIZES,
			      .seed = 1,
			      .pairs = 1,
			      .timeout_s = 120,
			      .stall_s = 30,
			      .linger_s = 3,
			      .sndbuf = 4 << 20,
			      .size = 1000,
			      .interval_ms = 0};
	while ((c = getopt_long(argc, argv, "l:i:o:I:c:", long_options, NULL)) != -1) {
		switch (c) {
		case OPT_LOCAL:
			o->local = parse_addr(optarg, false);
			o->has_local = true;
			break;
		case OPT_PEER:
			o->peer = parse_addr(optarg, true);
			o->has_peer = true;
			break;
		case OPT_IN:
		case OPT_OUT:
			o->file = optarg;
			break;
		case OPT_SOURCE:
			o->source = optarg;
			break;
		case OPT_COUNT:
			o->count = number(1ull << 62);
			break;
		case OPT_SEND:
			o->send = number(1u << 30);
			break;
		case OPT_RECV:
			o->recv = number(1u << 30);
			break;
		case OPT_SEED:
			o->seed = (uint32_t)number(UINT32_MAX);
			break;
		case OPT_SIZES:
			o->sizes = optarg;
			break;
		case OPT_BIG:
			o->big = number(1u << 30);
			break;
		case OPT_EMPTY:
			o->empty = number(1u << 30);
			break;
		case OPT_RECV_BIG:
			recv_big = number(1u << 30);
			break;
		case OPT_RECV_EMPTY:
			recv_empty = number(1u << 30);
			break;
		case OPT_PAIRS:
			o->pairs = (unsigned)number(64);
			break;
		case OPT_FAULT:
			o->fault = optarg;
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
			o->size = number(STREAM_MAX);
			break;
		case OPT_INTERVAL:
			o->interval_ms = (unsigned)number(60000);
			break;
		case OPT_NO_MONITOR:
			o->no_monitor = true;
			break;
		case OPT_RAW:
			o->raw = true;
			break;
		default:
			fputs(usage_text, stderr);
			exit(EXIT_USAGE);
		}
	}
	o->recv_big = recv_big == UINT64_MAX ? o->big : recv_big;
	o->recv_empty = recv_empty == UINT64_MAX ? o->empty : recv_empty;
	o->argc = argc - optind;
	o->argv = argv + optind;
}

static const struct {
	const char *name;
	int (*run)(struct options *o);
	bool needs_both; /* --local and --peer */
} modes[] = {{"exchange", mode_exchange, true},	   {"show", mode_show, true},
	     {"selfcheck", mode_selfcheck, false}, {"serve", mode_serve, false},
	     {"sink", mode_sink, false},	   {"flood", mode_flood, true},
	     {"ping", mode_ping, false},	   {"catrecv", mode_catrecv, false},
	     {"catsend", mode_catsend, false},	   {"info", mode_info, false}};

int main(int argc, char **argv)
{
	struct sigaction stop = {.sa_handler = on_signal}, late = {.sa_handler = on_alarm};
	struct options o;

	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		parse(&o, argc - 1, argv + 1);
		if (modes[i].needs_both && !(o.has_local && o.has_peer))
			break;
		sigaction(SIGTERM, &stop, NULL);
		sigaction(SIGINT, &stop, NULL);
		/* Behind the limits of the modes, so that nothing waits for ever. */
		sigaction(SIGALRM, &late, NULL);
		alarm(o.timeout_s + o.linger_s + 5);
		return modes[i].run(&o);
	}
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}
