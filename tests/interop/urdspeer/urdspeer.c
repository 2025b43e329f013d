/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urdspeer: our side of the interop tests, on the public interface only. Takes the words of the guest's
 * rdspeer and prints its lines. SIGUSR1 breaks all connections to the peers, as a network failure would (not on Windows).
 */
#include "urdspeer.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t peer_stop;
struct urds_ctx *peer_ctx;

void say(const char *format, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	va_list ap;

	pthread_mutex_lock(&lock);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

void fail(const char *format, ...)
{
	va_list ap;

	fputs("urdspeer: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, ": %s (%s)\n", urds_reason(), strerror(errno));
	_exit(EXIT_CHECK);
}

static void set_end(struct addr *a)
{
	memset(&a->end, 0, sizeof a->end);
	if (a->ss.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&a->ss;

		memset(a->end.addr + 10, 0xff, 2);
		memcpy(a->end.addr + 12, &in->sin_addr, 4);
		a->end.port = ntohs(in->sin_port);
	} else {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->ss;

		memcpy(a->end.addr, &in6->sin6_addr, 16);
		a->end.port = ntohs(in6->sin6_port);
	}
}

/* ADDR:PORT or [IPV6]:PORT. */
struct addr parse_addr(const char *text)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM},
			*ai;
	const char *colon = strrchr(text, ':');
	struct addr a = {0};
	char host[64];
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (!colon || n == 0 || n >= sizeof host) {
		fprintf(stderr, "urdspeer: '%s' is not ADDR:PORT\n", text);
		exit(EXIT_USAGE);
	}
	memcpy(host, text, n);
	host[n] = 0;
	if (getaddrinfo(host, colon + 1, &hints, &ai) != 0) {
		fprintf(stderr, "urdspeer: '%s' is not ADDR:PORT\n", text);
		exit(EXIT_USAGE);
	}
	memcpy(&a.ss, ai->ai_addr, ai->ai_addrlen);
	a.len = (socklen_t)ai->ai_addrlen;
	freeaddrinfo(ai);
	set_end(&a);
	return a;
}

struct addr addr_plus(const struct addr *a, unsigned ports)
{
	struct addr b = *a;
	uint16_t port = htons((uint16_t)(a->end.port + ports));

	if (b.ss.ss_family == AF_INET)
		((struct sockaddr_in *)&b.ss)->sin_port = port;
	else
		((struct sockaddr_in6 *)&b.ss)->sin6_port = port;
	set_end(&b);
	return b;
}

bool addr_same(const struct addr *a, const struct sockaddr_storage *ss)
{
	struct addr b = {.ss = *ss};

	set_end(&b);
	return memcmp(&a->end, &b.end, sizeof b.end) == 0;
}

bool only_busy(void)
{
	return errno == EAGAIN || errno == ETIMEDOUT || errno == ENOBUFS || errno == EINTR ||
	       errno == ENOMEM;
}

static void open_ctx(const struct options *o)
{
	struct urds_config c = {.size = sizeof c, .flags = o->config, .paths = o->paths};

	if (urds_open(&c, &peer_ctx) < 0)
		fail("open");
}

struct urds_sock *open_sock(const struct options *o, const struct addr *local)
{
	struct timeval tick = {.tv_usec = 100000};
	struct urds_sock *s = urds_socket(peer_ctx);

	if (!s || urds_bind(s, (const struct sockaddr *)&local->ss, local->len) < 0)
		fail("socket");
	if (urds_setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof tick) < 0 ||
	    urds_setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) < 0 ||
	    (o->sndbuf &&
	     urds_setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &o->sndbuf, sizeof o->sndbuf) < 0) ||
	    (o->rcvbuf &&
	     urds_setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &o->rcvbuf, sizeof o->rcvbuf) < 0))
		fail("options");
	return s;
}

static bool list_is_empty(struct urds_sock *s, int list)
{
	uint8_t buf[1024];
	socklen_t len = sizeof buf;

	return urds_getsockopt(s, URDS_SOL_RDS, list, buf, &len) > 0 && len == 0;
}

bool linger(struct urds_sock *s, unsigned seconds)
{
	int64_t end = now_ms() + (int64_t)seconds * 1000;

	while (!list_is_empty(s, URDS_INFO6_SEND_MESSAGES) ||
	       !list_is_empty(s, URDS_INFO6_RETRANS_MESSAGES)) {
		if (now_ms() >= end)
			return false;
		nap_ms(10);
	}
	return true;
}

void say_counters(struct urds_sock *s)
{
	struct {
		char name[32];
		uint64_t value;
	} list[256];
	socklen_t len = sizeof list;

	if (urds_getsockopt(s, URDS_SOL_RDS, URDS_INFO_COUNTERS, list, &len) != (int)sizeof list[0])
		fail("counters");
	for (size_t i = 0; i < len / sizeof list[0]; i++)
		if (list[i].value)
			say("counter %.32s %llu", list[i].name, (unsigned long long)list[i].value);
}

static uint8_t *buffer(void)
{
	uint8_t *b = calloc(1, VF_MAX);

	if (!b)
		fail("memory");
	return b;
}

static struct addr need_addr(const struct options *o)
{
	if (o->argc < 1) {
		fputs(usage_text, stderr);
		exit(EXIT_USAGE);
	}
	return parse_addr(o->argv[0]);
}

static int64_t end_of(const struct options *o)
{
	return o->seconds ? now_ms() + (int64_t)o->seconds * 1000 : INT64_MAX;
}

static bool send_all(struct urds_sock *s, const void *buf, size_t len,
		     const struct sockaddr_storage *to)
{
	while (urds_sendto(s, buf, len, 0, (const struct sockaddr *)to, sizeof *to) < 0) {
		if (!only_busy())
			fail("send");
		if (peer_stop)
			return false;
	}
	return true;
}

static int mode_serve(struct options *o)
{
	struct addr local = need_addr(o);
	struct urds_sock *s = open_sock(o, &local);
	int64_t end = end_of(o);
	uint8_t *buf = buffer();
	uint64_t n = 0;

	say("ready");
	while (!peer_stop && now_ms() < end && (!o->count || n < o->count)) {
		struct sockaddr_storage from;
		socklen_t flen = sizeof from;
		ssize_t len = urds_recvfrom(s, buf, VF_MAX, 0, (struct sockaddr *)&from, &flen);

		if (len < 0 && only_busy())
			continue;
		if (len < 0)
			fail("receive");
		if (!send_all(s, buf, (size_t)len, &from))
			break;
		memset(buf, 0xa5, (size_t)len);
		n++;
	}
	linger(s, o->linger_s);
	say("done served %llu", (unsigned long long)n);
	return 0;
}

/* Numbered messages (the first 8 bytes, big-endian) from any number of senders. */
struct source {
	struct vf_end from;
	uint16_t to;
	uint64_t next, gaps, wrong;
};

static uint64_t number_of(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static int mode_sink(struct options *o)
{
	struct addr local = need_addr(o);
	struct urds_sock *s[64];
	static struct source src[256];
	unsigned nsrc = 0;
	uint64_t n = 0, bytes = 0, gaps = 0, wrong = 0;
	uint8_t *buf = buffer();
	int64_t end, go;

	for (unsigned i = 0; i < o->pairs; i++) {
		struct addr a = addr_plus(&local, i);

		s[i] = open_sock(o, &a);
	}
	say("ready");
	for (go = now_ms() + (int64_t)o->hold_s * 1000; now_ms() < go && !peer_stop;)
		nap_ms(20);
	end = end_of(o);
	while (!peer_stop && now_ms() < end && (!o->count || n < o->count)) {
		bool any = false;

		for (unsigned i = 0; i < o->pairs; i++) {
			struct addr from = {.len = sizeof from.ss};
			ssize_t len;
			unsigned k;

			while ((len = urds_recvfrom(s[i], buf, VF_MAX, MSG_DONTWAIT,
						    (struct sockaddr *)&from.ss, &from.len)) >= 0) {
				any = true;
				n++;
				bytes += (uint64_t)len;
				set_end(&from);
				for (k = 0; k < nsrc; k++)
					if (memcmp(&src[k].from, &from.end, sizeof from.end) == 0 &&
					    src[k].to == i)
						break;
				if (k == nsrc && nsrc < 256)
					src[nsrc++] = (struct source){.from = from.end,
								      .to = (uint16_t)i};
				if (k < 256 && len >= 8) {
					uint64_t v = number_of(buf);

					if (v > src[k].next)
						src[k].gaps += v - src[k].next;
					if (v < src[k].next)
						src[k].wrong++;
					else
						src[k].next = v + 1;
				}
				from.len = sizeof from.ss;
			}
			if (!only_busy())
				fail("receive");
		}
		if (!any)
			urds_wait(s[0], POLLIN, 20);
	}
	for (unsigned k = 0; k < nsrc; k++) {
		gaps += src[k].gaps;
		wrong += src[k].wrong;
		say("source port %u to %u: next %llu missing %llu again %llu", src[k].from.port,
		    local.end.port + src[k].to, (unsigned long long)src[k].next,
		    (unsigned long long)src[k].gaps, (unsigned long long)src[k].wrong);
	}
	say_counters(s[0]);
	say("done received %llu bytes %llu missing %llu again %llu", (unsigned long long)n,
	    (unsigned long long)bytes, (unsigned long long)gaps, (unsigned long long)wrong);
	return gaps || wrong ? EXIT_CHECK : 0;
}

static int mode_flood(struct options *o)
{
	struct urds_sock *s = open_sock(o, &o->local);
	uint8_t *buf = buffer();
	int64_t end = end_of(o);
	uint64_t n = 0;

	say("ready");
	for (; !peer_stop && now_ms() < end && (!o->count || n < o->count); n++) {
		for (int i = 0; i < 8 && o->size >= 8; i++)
			buf[i] = (uint8_t)(n >> (56 - 8 * i));
		if (!send_all(s, buf, o->size, &o->peer[0].ss))
			break;
		memset(buf, 0xa5, 8);
	}
	linger(s, o->linger_s);
	say_counters(s);
	say("done sent %llu", (unsigned long long)n);
	return 0;
}

static int mode_show(struct options *o)
{
	struct vf_stream s;
	const char *why = vf_init(&s, &o->local.end, &o->peer[0].end, o->seed, o->send, o->big,
				  o->empty, o->sizes);
	uint8_t *buf = buffer();

	if (why) {
		fprintf(stderr, "urdspeer: %s\n", why);
		return EXIT_USAGE;
	}
	say("stream %08x digest %016llx", s.id, (unsigned long long)s.digest);
	for (uint64_t i = 0; i < o->send && (!o->count || i < o->count); i++) {
		uint32_t len = vf_make(&s, i, buf);
		char hex[2 * 48 + 1] = "";

		for (uint32_t k = 0; k < len && k < 48; k++)
			snprintf(hex + 2 * k, 3, "%02x", buf[k]);
		say("%llu %u %s%s", (unsigned long long)i, len, hex, len > 48 ? "..." : "");
	}
	return 0;
}

static struct options opt;

static void on_stop(void)
{
	peer_stop = 1;
}

static void on_reset(void)
{
	int n = 0, more;

	for (unsigned i = 0; i < opt.npeers; i++) {
		more = urds_reset(peer_ctx, (const struct sockaddr *)&opt.local.ss,
				  (const struct sockaddr *)&opt.peer[i].ss);
		n = n < 0 || more < 0 ? -1 : n + more;
	}
	say("reset %d", n);
}

static void on_alarm(void)
{
	say("timeout");
	_exit(EXIT_CHECK);
}

static const struct {
	const char *name;
	int (*run)(struct options *o);
	unsigned peers; /* at most; 0: neither --local nor --peer are needed */
} modes[] = {{"exchange", mode_exchange, PEERS_MAX},
	     {"echo", mode_echo, 1},
	     {"show", mode_show, 1},
	     {"serve", mode_serve, 0},
	     {"sink", mode_sink, 0},
	     {"flood", mode_flood, 1}};

int main(int argc, char **argv)
{
	system_init();
	for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++) {
		int status;

		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		parse_options(&opt, argc - 1, argv + 1);
		if (modes[i].peers &&
		    (!opt.has_local || opt.npeers < 1 || opt.npeers > modes[i].peers))
			break;
		open_ctx(&opt);
		system_signals(on_stop, on_reset);
		/* Behind the limits of the modes, so that nothing waits for ever. */
		system_alarm(opt.timeout_s + opt.linger_s + 10, on_alarm);
		status = modes[i].run(&opt);
		urds_shutdown(peer_ctx);
		fflush(stdout);
		_exit(status);
	}
	fputs(usage_text, stderr);
	return EXIT_USAGE;
}
