/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One node of the demo: an ordinary program that uses urds, told by its parent what to do.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo.h"

#define BUFFER_BYTES (4 << 20)
#define TICK_MS 100
#define PROGRESS_NS 100000000u
#define STALL_NS 10000000000u /* a receiver that gets nothing for that long has lost the rest */
#define GRACE_NS 500000000u   /* for stragglers, once the last message came and some are missing */
#define RTT_MAX 100000u
#define PING_WAIT_MS 2000

struct node {
	tool_sock control;
	struct tool_addr self, peer; /* with DEMO_PORT */
	struct urds_ctx *ctx;
	struct urds_sock *sock;
	uint8_t *buf;		/* DEMO_MESSAGE_MAX */
	uint64_t *times;	/* RTT_MAX */
	struct demo_stream out; /* the exchange */
	uint64_t kills_wanted;
	_Atomic uint64_t sent, kills;
	_Atomic bool is_failed;
	char why[DEMO_LINE_MAX - 16]; /* of the sending thread, when is_failed */
};

static void say(struct node *n, const char *fmt, ...) __attribute__((format(TOOL_PRINTF, 2, 3)));

static void say(struct node *n, const char *fmt, ...)
{
	char line[DEMO_LINE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	for (char *p = line; (p = strchr(p, '\n')) != NULL;)
		*p = ' ';
	strcat(line, "\n");
	/* A parent that is gone takes us with it. */
	if (tool_sock_send(n->control, line, strlen(line)) < 0)
		_Exit(TOOL_FAILED);
}

static int failed(struct node *n, const char *what)
{
	say(n, "error %s: %s", what, urds_reason());
	return -1;
}

static int open_node(struct node *n)
{
	struct timeval tick = {.tv_usec = TICK_MS * 1000};
	int bytes = BUFFER_BYTES;

	if (urds_open(NULL, &n->ctx) < 0)
		return failed(n, "cannot start");
	n->sock = urds_socket(n->ctx);
	if (!n->sock || urds_bind(n->sock, tool_sa(&n->self), n->self.len) < 0)
		return failed(n, "cannot be a node");
	if (urds_setsockopt(n->sock, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0 ||
	    urds_setsockopt(n->sock, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0 ||
	    urds_setsockopt(n->sock, SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof(tick)) < 0 ||
	    urds_setsockopt(n->sock, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick)) < 0)
		return failed(n, "cannot set buffers and time limits");
	if (urds_connect(n->sock, tool_sa(&n->peer), n->peer.len) < 0)
		return failed(n, "cannot choose the other node as destination");
	return 0;
}

static bool is_transient(void)
{
	return errno == EINTR || errno == EAGAIN || errno == ETIMEDOUT || errno == ENOBUFS;
}

/* One message to the other node, however long it takes: the parent limits the whole. */
static int send_message(struct urds_sock *s, const void *buf, size_t len)
{
	while (urds_send(s, buf, len, 0) < 0)
		if (!is_transient())
			return -1;
	return 0;
}

/* Return: length, or -1 after TICK_MS (errno transient) or with an error. */
static ssize_t receive_message(struct node *n)
{
	return urds_recv(n->sock, n->buf, DEMO_MESSAGE_MAX, 0);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

static int ping(struct node *n, unsigned count)
{
	struct tool_addr to = n->peer, from = n->self;
	struct urds_sock *s = urds_socket(n->ctx);
	unsigned i, got = 0;
	uint64_t start;

	tool_port_set(&to, 0);
	tool_port_set(&from, 0);
	if (!s || urds_bind(s, tool_sa(&from), from.len) < 0)
		return failed(n, "cannot ping");
	for (i = 0; i < count; i++) {
		start = tool_now_ns();
		if (urds_sendto(s, NULL, 0, 0, tool_sa(&to), to.len) < 0)
			return failed(n, "cannot send a ping");
		if (urds_wait(s, POLLIN, PING_WAIT_MS) <= 0 ||
		    urds_recv(s, NULL, 0, MSG_DONTWAIT) < 0)
			break;
		n->times[got++] = tool_now_ns() - start;
	}
	urds_close(s);
	say(n, "ok %u %" PRIu64, got, median(n->times, got));
	return 0;
}

/* Are there bytes that the other node has not acknowledged? Asking for no bytes of the list of such
 * messages succeeds only if it is empty. */
static bool has_unacked(struct node *n)
{
	socklen_t len = 0;

	return urds_getsockopt(n->sock, URDS_SOL_RDS, URDS_INFO_RETRANS_MESSAGES, NULL, &len) < 0 &&
	       errno == ENOSPC && len > 0;
}

/* The sending half of an exchange. Now and then, with data under way, it breaks the connection. */
static void *sender(void *arg)
{
	struct node *n = arg;
	uint64_t step = n->out.count / (n->kills_wanted + 1) + 1, next_kill = step, seq;
	uint8_t *buf = malloc(DEMO_MESSAGE_MAX);
	size_t len;

	if (!buf) {
		snprintf(n->why, sizeof(n->why), "no memory for a message");
		n->is_failed = true;
		return NULL;
	}
	for (seq = 0; seq < n->out.count; seq++) {
		len = demo_stream_fill(&n->out, seq, buf);
		if (send_message(n->sock, buf, len) < 0) {
			snprintf(n->why, sizeof(n->why), "cannot send message %" PRIu64 ": %s", seq,
				 urds_reason());
			n->is_failed = true;
			break;
		}
		memset(buf, 0xdb, len); /* ours again the moment send returned */
		n->sent++;
		if (seq >= next_kill && n->kills < n->kills_wanted && has_unacked(n) &&
		    urds_reset(n->ctx, tool_sa(&n->self), tool_sa(&n->peer)) > 0) {
			n->kills++;
			next_kill += step;
		}
	}
	free(buf);
	return NULL;
}

/* The receiving half. Return: -1 if it could not go on (said). */
static int receive_all(struct node *n, struct demo_check *c, bool drop)
{
	uint64_t drop_at = drop ? c->stream->count / 2 : UINT64_MAX, delivered = 0;
	uint64_t now = tool_now_ns(), last = now, told = now;
	ssize_t len;

	while (c->unique < c->stream->count && !n->is_failed) {
		len = receive_message(n);
		if (len < 0 && !is_transient())
			return failed(n, "cannot receive");
		/* The fault: this one was delivered, and is not looked at. */
		if (len >= 0 && delivered++ != drop_at)
			demo_check_message(c, n->buf, (size_t)len);
		now = len < 0 || delivered % 64 == 0 ? tool_now_ns() : now;
		if (len >= 0)
			last = now;
		else if (now - last > (c->next == c->stream->count ? GRACE_NS : STALL_NS))
			break;
		if (now - told >= PROGRESS_NS) {
			say(n, "progress %" PRIu64 " %" PRIu64 " %" PRIu64, n->sent, c->unique,
			    n->kills);
			told = now;
		}
	}
	return 0;
}

static int exchange(struct node *n, uint64_t count, uint64_t kills, bool drop)
{
	uint64_t seed = n->self.text[strlen(n->self.text) - 1], lost;
	uint64_t peer_seed = n->peer.text[strlen(n->peer.text) - 1];
	struct demo_stream in = {0};
	struct demo_check c = {0};
	pthread_t thread;
	int rc = -1;

	n->sent = n->kills = 0;
	n->kills_wanted = kills;
	if (demo_stream_init(&n->out, seed, count) < 0 ||
	    demo_stream_init(&in, peer_seed, count) < 0 || demo_check_init(&c, &in) < 0 ||
	    pthread_create(&thread, NULL, sender, n) != 0) {
		say(n, "error no memory or no thread for the exchange");
		goto done;
	}
	if (receive_all(n, &c, drop) < 0)
		return -1; /* the sender still uses all this; the process ends */
	pthread_join(thread, NULL);
	if (n->is_failed) {
		say(n, "error %s", n->why);
		goto done;
	}
	/* The other node sent all of its messages too, or it says why not. */
	lost = c.unique < count ? count - c.unique : 0;
	say(n,
	    "ok %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
	    n->sent, c.unique, lost, c.duplicated, c.reordered, c.corrupt, n->kills);
	rc = 0;
done:
	demo_check_fini(&c);
	demo_stream_fini(&in);
	demo_stream_fini(&n->out);
	return rc;
}

/* One way: messages of one size for a while, then an empty one. */
static int send_rate(struct node *n, size_t size, unsigned ms)
{
	uint64_t end = tool_now_ns() + (uint64_t)ms * 1000000u, count = 0;

	memset(n->buf, 0x55, size);
	do {
		if (send_message(n->sock, n->buf, size) < 0)
			return failed(n, "cannot send");
	} while (++count % 16 || tool_now_ns() < end);
	if (send_message(n->sock, NULL, 0) < 0)
		return failed(n, "cannot send");
	say(n, "ok %" PRIu64, count);
	return 0;
}

static int receive_rate(struct node *n)
{
	uint64_t start = 0, count = 0, bytes = 0;
	ssize_t len;

	for (;;) {
		len = receive_message(n);
		if (len < 0 && is_transient())
			continue;
		if (len < 0)
			return failed(n, "cannot receive");
		if (len == 0)
			break;
		if (!start) {
			start = tool_now_ns(); /* of the first, which is not counted */
			continue;
		}
		count++;
		bytes += (uint64_t)len;
	}
	say(n, "ok %" PRIu64 " %" PRIu64 " %" PRIu64, count, bytes,
	    start ? tool_now_ns() - start : 0);
	return 0;
}

static int there(struct node *n, unsigned ms)
{
	uint64_t now = tool_now_ns(), end = now + (uint64_t)ms * 1000000u, start;
	size_t got = 0;
	ssize_t len;

	memset(n->buf, 0x55, 64);
	while (now < end && got < RTT_MAX) {
		start = now;
		if (send_message(n->sock, n->buf, 64) < 0)
			return failed(n, "cannot send");
		while ((len = receive_message(n)) < 0)
			if (!is_transient())
				return failed(n, "cannot receive");
		now = tool_now_ns();
		n->times[got++] = now - start;
	}
	if (send_message(n->sock, NULL, 0) < 0)
		return failed(n, "cannot send");
	say(n, "ok %zu %" PRIu64, got, median(n->times, got));
	return 0;
}

static int back(struct node *n)
{
	uint64_t count = 0;
	ssize_t len;

	for (;;) {
		len = receive_message(n);
		if (len < 0 && is_transient())
			continue;
		if (len < 0)
			return failed(n, "cannot receive");
		if (len == 0)
			break;
		if (send_message(n->sock, n->buf, (size_t)len) < 0)
			return failed(n, "cannot send");
		count++;
	}
	say(n, "ok %" PRIu64, count);
	return 0;
}

static int retransmitted(struct node *n)
{
	uint8_t list[256 * 40];
	socklen_t len = sizeof(list), i;
	uint64_t v = 0;
	int element = urds_getsockopt(n->sock, URDS_SOL_RDS, URDS_INFO_COUNTERS, list, &len);

	if (element < 40)
		return failed(n, "cannot read the counters");
	for (i = 0; i + (socklen_t)element <= len; i += (socklen_t)element)
		if (strncmp((char *)list + i, "send_retransmitted", 32) == 0)
			memcpy(&v, list + i + 32, sizeof(v));
	say(n, "ok %" PRIu64, v);
	return 0;
}

static int step(struct node *n, const char *line)
{
	uint64_t count, kills;
	unsigned a, b, drop;

	if (sscanf(line, "ping %u", &a) == 1)
		return ping(n, a);
	if (sscanf(line, "exchange %" SCNu64 " %" SCNu64 " %u", &count, &kills, &drop) == 3)
		return exchange(n, count, kills, drop != 0);
	if (sscanf(line, "send %u %u", &a, &b) == 2 && a <= DEMO_MESSAGE_MAX)
		return send_rate(n, a, b);
	if (strcmp(line, "receive") == 0)
		return receive_rate(n);
	if (sscanf(line, "there %u", &a) == 1)
		return there(n, a);
	if (strcmp(line, "back") == 0)
		return back(n);
	if (strcmp(line, "retransmitted") == 0)
		return retransmitted(n);
	say(n, "error unknown step '%s'", line);
	return -1;
}

/* The next line of the parent, byte by byte: there are few. False: it is gone. */
static bool next_line(struct node *n, char *line, size_t cap)
{
	size_t len = 0;
	ssize_t got;

	while (len < cap) {
		got = recv(n->control, line + len, 1, 0);
		if (got < 0 && tool_sock_error() == EINTR)
			continue;
		if (got <= 0)
			return false;
		if (line[len] == '\n') {
			line[len] = '\0';
			return true;
		}
		len++;
	}
	return false;
}

int demo_node(tool_sock control, const char *self, const char *peer)
{
	struct node *n = calloc(1, sizeof(*n));
	char line[DEMO_LINE_MAX];
	int rc = -1;

	demo_last_resort();
	if (!n)
		return TOOL_FAILED;
	n->control = control;
	n->buf = malloc(DEMO_MESSAGE_MAX);
	n->times = malloc(RTT_MAX * sizeof(*n->times));
	if (!n->buf || !n->times || tool_resolve(&n->self, self, AF_UNSPEC) ||
	    tool_resolve(&n->peer, peer, AF_UNSPEC)) {
		say(n, "error no memory, or a bad address");
		goto done;
	}
	tool_port_set(&n->self, DEMO_PORT);
	tool_port_set(&n->peer, DEMO_PORT);
	rc = open_node(n);
	if (rc == 0)
		say(n, "ok");
	while (rc == 0 && next_line(n, line, sizeof(line)) && strcmp(line, "quit") != 0)
		rc = step(n, line);
	if (rc < 0)
		_Exit(TOOL_FAILED); /* a thread may still be sending */
done:
	if (n->sock)
		urds_close(n->sock);
	if (n->ctx)
		urds_shutdown(n->ctx);
	free(n->times);
	free(n->buf);
	free(n);
	return rc < 0 ? TOOL_FAILED : TOOL_OK;
}
