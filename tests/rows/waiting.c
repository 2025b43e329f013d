/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Operations of rows that repeat or watch a call, or wait for a state, and what rows begin with.
 */
#include "ops.h"

#include <stdarg.h>

#define WAIT_S 20

/* The sockets of a world: an operation that blocks is ended by another thread. */
static pthread_mutex_t socks_lock = PTHREAD_MUTEX_INITIALIZER;

static struct urds_sock *find_or_make(struct world *w, const char *name)
{
	struct urds_sock *s;
	unsigned i = 0;

	while (i < w->nsocks && strcmp(w->socks[i].name, name) != 0)
		i++;
	if (i < w->nsocks)
		return w->socks[i].s;
	if (i == sizeof w->socks / sizeof w->socks[0] || (name[0] != 'a' && name[0] != 'b'))
		return NULL;
	s = urds_socket(name[0] == 'a' ? w->a : w->b);
	snprintf(w->socks[i].name, sizeof w->socks[i].name, "%s", name);
	w->socks[i].s = s;
	w->nsocks++;
	return s;
}

struct urds_sock *sock_named(struct world *w, const char *name)
{
	struct urds_sock *s;

	pthread_mutex_lock(&socks_lock);
	s = find_or_make(w, name);
	pthread_mutex_unlock(&socks_lock);
	return s;
}

void sock_forget(struct world *w, const struct urds_sock *s)
{
	pthread_mutex_lock(&socks_lock);
	for (unsigned i = 0; i < w->nsocks; i++)
		if (w->socks[i].s == s)
			w->socks[i].s = NULL;
	pthread_mutex_unlock(&socks_lock);
}

static int own(struct urds_ctx *ctx, const char *ip)
{
	struct sockaddr_in a = in4(ip, 0);

	if (urds_claim(ctx, (struct sockaddr *)&a, sizeof a) == 0)
		return 0;
	printf("# %s\n", urds_reason());
	return -1;
}

int world_open(struct world *w, bool is_tcp)
{
	memset(w, 0, sizeof *w);
	w->ip_b = is_tcp ? ADDR_B : ADDR_A;
	w->a = ctx_open(URDS_CONFIG_NO_RECORD);
	w->b = is_tcp ? ctx_open(URDS_CONFIG_NO_RECORD) : w->a;
	/* To a kernel its addresses are always its own. */
	return w->a && w->b && own(w->a, ADDR_A) == 0 && own(w->b, w->ip_b) == 0 ? 0 : -1;
}

void world_close_socks(struct world *w)
{
	pthread_mutex_lock(&socks_lock);
	for (unsigned i = 0; i < w->nsocks; i++)
		if (w->socks[i].s)
			urds_close(w->socks[i].s);
	w->nsocks = 0;
	pthread_mutex_unlock(&socks_lock);
}

int world_close(struct world *w)
{
	int rc = 0;

	world_close_socks(w);
	if (w->a && urds_shutdown(w->a) < 0)
		rc = -1;
	if (w->b && w->b != w->a && urds_shutdown(w->b) < 0)
		rc = -1;
	w->a = w->b = NULL;
	return rc;
}

/* ---------------------------------------------------------------- states */

/* Messages at @port of ADDR_A or B that wait to be read. */
static unsigned queued_at(struct urds_sock *s, uint16_t port)
{
	uint8_t table[26 * 256];
	socklen_t len = sizeof table;
	unsigned n = 0;

	if (urds_getsockopt(s, URDS_SOL_RDS, URDS_INFO_RECV_MESSAGES, table, &len) < 0)
		return 0;
	for (size_t i = 0; i + 26 <= len; i += 26)
		n += table[i + 20] == port >> 8 && table[i + 21] == (port & 0xff);
	return n;
}

static bool wait_queued(struct call *c, struct urds_sock *s, unsigned want)
{
	uint64_t end = now_ns() + (uint64_t)WAIT_S * slow() * 1000000000u;
	struct sockaddr_in at;
	socklen_t len = sizeof at;

	if (urds_getsockname(s, (struct sockaddr *)&at, &len) < 0)
		return false;
	while (queued_at(s, ntohs(at.sin_port)) != want) {
		if (now_ns() > end) {
			put(c, ROWS_BAD ": %u messages wait, not %u",
			    queued_at(s, ntohs(at.sin_port)), want);
			return false;
		}
		nap_ms(1);
	}
	return true;
}

static void op_queued(struct call *c)
{
	if (wait_queued(c, c->s, (unsigned)number(c->word[2], 0)))
		put(c, "0");
}

/* Until nothing that was sent waits for its acknowledgement: which may come when nobody asks. */
static void op_acknowledged(struct call *c)
{
	uint64_t end = now_ns() + (uint64_t)WAIT_S * slow() * 1000000000u;
	socklen_t len = 0;

	while (urds_getsockopt(c->s, URDS_SOL_RDS, URDS_INFO6_RETRANS_MESSAGES, NULL, &len) < 0) {
		if (now_ns() > end) {
			put(c, ROWS_BAD ": %d bytes of messages are not acknowledged", (int)len);
			return;
		}
		nap_ms(1);
		len = 0;
	}
	put(c, "0");
}

/* All that @s sent is where it goes when a ping behind it is answered; a congestion map that is due goes out behind
 * that answer, and ahead of the next one. */
static bool sync_with_b(struct call *c, struct urds_sock *s)
{
	struct sockaddr_storage b;
	socklen_t len = address(c, "B:0", &b);
	uint8_t none[1];

	for (int i = 0; i < 2; i++)
		if (send_pattern(s, &b, len, 0, 0) != 0 ||
		    urds_recv(s, none, sizeof none, 0) != 0) {
			put(c, ROWS_BAD ": no answer to a ping");
			return false;
		}
	return true;
}

static void op_sync(struct call *c)
{
	if (sync_with_b(c, c->s))
		put(c, "0");
}

/* ---------------------------------------------------------------- beginnings */

static bool step(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool step(struct call *c, const char *fmt, ...)
{
	char text[128], out[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	rows_op(c->w, text, out, sizeof out);
	if (out[0] >= '0' && out[0] <= '9')
		return true;
	put(c, ROWS_BAD ": %s: %s", fmt, out);
	return false;
}

/* A message has passed, so the connection is up. */
static void op_pair(struct call *c)
{
	if (step(c, "bind a A:4000") && step(c, "bind b B:4001") && step(c, "send a B:4001 4") &&
	    step(c, "recv b 100"))
		put(c, "0");
}

/* And two wait. */
static void op_two(struct call *c)
{
	op_pair(c);
	if (strcmp(c->out, "0") != 0 || !step(c, "send a B:4001 100") ||
	    !step(c, "send a B:4001 50") || !step(c, "queued b 2"))
		put(c, ROWS_BAD);
}

/* ---------------------------------------------------------------- many messages */

struct filled {
	unsigned n;
	long long rc; /* of the last one, or the size */
	int err;
};

static struct filled fill(struct call *c, unsigned limit)
{
	struct filled f = {0};
	struct sockaddr_storage to;
	socklen_t len = address(c, c->word[2], &to);
	size_t size = (size_t)number(c->word[3], 0);
	int flags = option(c, "mode") ? 0 : MSG_DONTWAIT;

	for (; f.n < limit; f.n++) {
		f.rc = send_pattern(c->s, &to, len, size, flags);
		if (f.rc < 0) {
			f.err = errno;
			break;
		}
	}
	return f;
}

static void put_last(struct call *c, const struct filled *f)
{
	errno = f->err;
	if (f->rc < 0)
		put_result(c, f->rc);
	else
		put(c, "ok");
}

static void op_fill(struct call *c)
{
	struct filled f = fill(c, (unsigned)number(option(c, "limit"), 100000));

	put(c, "(%u, '", f.n);
	put_last(c, &f);
	put(c, "')");
}

static void op_fill_last(struct call *c)
{
	struct filled f = fill(c, 100000);

	put_last(c, &f);
}

/* "congest a B:4001 b": one message at a time, until the port is congested. The answer is the last one's; of
 * "congest-count" how many were taken, of "congested" only that it is so. */
static void op_congest(struct call *c)
{
	struct urds_sock *to = sock_named(c->w, c->word[3]);
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->word[2], &ss);
	unsigned n = 0;
	int err;

	for (;;) {
		ssize_t rc = send_pattern(c->s, &ss, len, 1000, MSG_DONTWAIT);

		err = errno;
		if (rc < 0)
			break;
		if (++n > 100) {
			put(c, ROWS_BAD ": never congested");
			return;
		}
		if (!wait_queued(c, to, n) || !sync_with_b(c, c->s))
			return;
	}
	errno = err;
	if (err == ENOBUFS && strcmp(c->word[0], "congest-count") == 0)
		put(c, "%u", n);
	else if (err == ENOBUFS && strcmp(c->word[0], "congested") == 0)
		put(c, "0");
	else
		put_result(c, -1);
}

/* How many @word 3 has to read until @word 1 can send to @word 2 again. */
static void op_reads_until_free(struct call *c)
{
	struct urds_sock *to = sock_named(c->w, c->word[3]);
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->word[2], &ss);
	static uint8_t m[2000];

	for (unsigned n = 1; n < 100; n++) {
		if (urds_recv(to, m, sizeof m, MSG_DONTWAIT) < 0) {
			put(c, "queue empty after %u", n - 1);
			return;
		}
		if (!sync_with_b(c, c->s))
			return;
		if (send_pattern(c->s, &ss, len, 10, MSG_DONTWAIT) == 10) {
			put(c, "%u", n);
			return;
		}
	}
	put(c, "never");
}

static void op_drain(struct call *c)
{
	static uint8_t m[2000];
	unsigned n = 0;

	while (urds_recv(c->s, m, sizeof m, MSG_DONTWAIT) >= 0)
		n++;
	put(c, "%u", n);
}

/* The longest message that is not EMSGSIZE. */
static void op_largest(struct call *c)
{
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->word[2], &ss);
	size_t low = 0, high = ROWS_BYTES;

	while (low < high) {
		size_t mid = (low + high + 1) / 2;
		ssize_t rc = send_pattern(c->s, &ss, len, mid, MSG_DONTWAIT);

		if (rc < 0 && errno == EMSGSIZE)
			high = mid - 1;
		else
			low = mid;
	}
	put(c, "largest %zu", low);
}

/* "from-ports 4000 16 192.0.2.99:5": one send from each of them, which may take a second. */
static void op_from_ports(struct call *c)
{
	unsigned first = (unsigned)number(c->word[1], 0), n = (unsigned)number(c->word[2], 0);
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->n > 3 ? c->word[3] : "-", &ss);
	unsigned returned = 0, failed = 0, late = 0;

	for (unsigned i = 0; i < n; i++) {
		struct urds_sock *s = sock_at(c->w->a, ADDR_A, first + i);
		uint64_t since = now_ns();
		ssize_t rc;

		if (!s || set_timeo(s, SO_SNDTIMEO, 1000) < 0) {
			put(c, ROWS_BAD ": port %u", first + i);
			return;
		}
		rc = send_pattern(s, &ss, len, 4, 0);
		if (seconds_since(since) > 2.5 * slow())
			late++;
		else if (rc == 4)
			returned++;
		else
			failed++;
		urds_close(s);
	}
	put(c, "%u return 4, %u fail, %u still block after 2.5 s", returned, failed, late);
}

/* ---------------------------------------------------------------- watching */

/* "poll b 500 IN|OUT": what the descriptor says, at once or within that many ms. */
static void op_poll(struct call *c)
{
	struct pollfd p = {.fd = urds_fd(c->s),
			   .events = (short)((strstr(c->word[3], "IN") ? POLLIN : 0) |
					     (strstr(c->word[3], "OUT") ? POLLOUT : 0))};
	static const struct {
		short bit;
		const char *name;
	} bits[] = {{POLLIN, "IN"}, {POLLOUT, "OUT"}, {POLLERR, "ERR"}, {POLLHUP, "HUP"}};
	const char *between = "";

	if (p.fd < 0 || poll(&p, 1, number(c->word[2], 0)) < 0) {
		put_result(c, -1);
		return;
	}
	for (int i = 0; i < 4; i++)
		if (p.revents & bits[i].bit) {
			put(c, "%s%s", between, bits[i].name);
			between = "|";
		}
	if (p.revents == 0)
		put(c, "none");
}

/* "timed send a B:5 4": and how long it took. */
static void op_timed(struct call *c)
{
	char text[128] = "", out[256];
	uint64_t since = now_ns();

	for (int i = 1; i < c->n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 1 ? " " : "",
			 c->word[i]);
	rows_op(c->w, text, out, sizeof out);
	put(c, "%s after %.1f s", out, seconds_since(since));
}

/* A child closes the socket, which there is not its own. */
static void op_fork_close(struct call *c)
{
	pid_t pid = spawn();
	int st;

	if (pid == 0)
		_exit(urds_close(c->s) == -1 && errno == EBADF ? 0 : 1);
	st = pid < 0 ? -1 : reap_within(pid, WAIT_S);
	if (st == 0)
		put(c, "0");
	else
		put(c, ROWS_BAD ": the child's close: %d", st);
}

/* Those without a socket as word 1 have 1 word here. */
const struct op rows_waiting_ops[] = {
	{"pair", 1, op_pair},
	{"two", 1, op_two},
	{"timed", 1, op_timed},
	{"from-ports", 1, op_from_ports},
	{"queued", 3, op_queued},
	{"acknowledged", 2, op_acknowledged},
	{"sync", 2, op_sync},
	{"fill", 4, op_fill},
	{"fill-last", 4, op_fill_last},
	{"congest", 4, op_congest},
	{"congest-count", 4, op_congest},
	{"congested", 4, op_congest},
	{"reads-until-free", 4, op_reads_until_free},
	{"drain", 2, op_drain},
	{"largest", 3, op_largest},
	{"poll", 4, op_poll},
	{"fork-close", 2, op_fork_close},
	{NULL, 0, NULL},
};
