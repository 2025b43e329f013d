/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One task of urds stress: a socket that keeps up to depth requests outstanding to every task of the peer
 * and acks theirs in order. Requests and acks of a flow share one sequence; every header is checked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress.h"

#define WAIT_MS 100
#define CONGESTED_MS \
	10 /* the library wakes only a blocked send when a port clears, and we must read: try again */

enum { OP_REQUEST = 1, OP_ACK = 2 };
enum { REQ_TX, REQ_RX, BYTES, TX_NS, RTT_NS, RTT_COUNT };

struct stress_flow {
	uint32_t tx_seq, rx_seq;
	uint32_t req_next, req_oldest, outstanding; /* ours */
	uint32_t rx_next, ack_next, unacked;	    /* theirs */
};

struct header {
	uint32_t seq;
	uint32_t from, to;
	uint16_t from_port, to_port, index;
	uint8_t op;
};

static void add(struct stress_task *t, int which, uint64_t n)
{
	/* One writer: the task. */
	atomic_store_explicit(&t->counts[which],
			      atomic_load_explicit(&t->counts[which], memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static void header_put(uint8_t *p, const struct header *h)
{
	memset(p, 0, STRESS_HEADER);
	p = stress_put(p, h->seq, 4);
	p = stress_put(p, h->from, 4);
	p = stress_put(p, h->to, 4);
	p = stress_put(p, h->from_port, 2);
	p = stress_put(p, h->to_port, 2);
	p = stress_put(p, h->index, 2);
	*p = h->op;
}

static struct header header_get(const uint8_t *p)
{
	struct header h;

	h.seq = stress_get(&p, 4);
	h.from = stress_get(&p, 4);
	h.to = stress_get(&p, 4);
	h.from_port = (uint16_t)stress_get(&p, 2);
	h.to_port = (uint16_t)stress_get(&p, 2);
	h.index = (uint16_t)stress_get(&p, 2);
	h.op = *p;
	return h;
}

static void row(const char *name, uint32_t want, uint32_t got, bool is_addr)
{
	struct in_addr a = {.s_addr = htonl(want)}, b = {.s_addr = htonl(got)};
	char x[INET_ADDRSTRLEN], y[INET_ADDRSTRLEN];

	if (is_addr) {
		inet_ntop(AF_INET, &a, x, sizeof(x));
		inet_ntop(AF_INET, &b, y, sizeof(y));
	} else {
		snprintf(x, sizeof(x), "%u", want);
		snprintf(y, sizeof(y), "%u", got);
	}
	printf("%10s %15s %s %15s\n", name, x, want == got ? " =" : "!=", y);
}

static int bogus(struct stress_task *t, const struct header *want, const struct header *got)
{
	struct in_addr a = {.s_addr = htonl(want->from)};
	char text[INET_ADDRSTRLEN];

	tool_out_lock();
	if (atomic_exchange(&t->run->has_open_line, false))
		printf("\n");
	printf("%10s %15s %s %15s\n", "member", "expected", "eq", "got");
	row("seq", want->seq, got->seq, false);
	row("from_addr", want->from, got->from, true);
	row("from_port", want->from_port, got->from_port, false);
	row("to_addr", want->to, got->to, true);
	row("to_port", want->to_port, got->to_port, false);
	row("index", want->index, got->index, false);
	row("op", want->op, got->op, false);
	(void)tool_flush();
	tool_out_unlock();
	tool_error("header from %s:%u to id %u bogus", inet_ntop(AF_INET, &a, text, sizeof(text)),
		   want->from_port, t->id);
	return -1;
}

static int send_one(struct stress_task *t, unsigned peer, uint8_t op)
{
	const struct stress_opts *o = &t->run->o;
	struct stress_flow *f = &t->flows[peer];
	uint32_t len = op == OP_REQUEST ? o->req_bytes : o->ack_bytes;
	struct header h = {.seq = f->tx_seq,
			   .from = ntohl(t->run->self.s_addr),
			   .to = ntohl(t->run->peer.s_addr),
			   .from_port = (uint16_t)(o->port + 1 + t->id),
			   .to_port = (uint16_t)(o->port + 1 + peer),
			   .index = (uint16_t)(op == OP_REQUEST ? f->req_next : f->ack_next),
			   .op = op};
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(h.to_port), .sin_addr = t->run->peer};
	uint64_t start, now;

	header_put(t->out, &h);
	start = tool_now_ns();
	if (urds_sendto(t->sock, t->out, len, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) <
	    0) {
		if (errno == EAGAIN || errno == ENOBUFS)
			return errno;
		tool_error("sendto() failed, errno: %d (%s): %s", errno, tool_strerror(errno),
			   urds_reason());
		return -1;
	}
	now = tool_now_ns();
	f->tx_seq++;
	add(t, BYTES, len);
	if (op == OP_ACK) {
		f->ack_next = (f->ack_next + 1) % o->depth;
		f->unacked--;
		return 0;
	}
	t->sent_ns[(size_t)peer * o->depth + f->req_next] = start;
	f->req_next = (f->req_next + 1) % o->depth;
	f->outstanding++;
	add(t, REQ_TX, 1);
	add(t, TX_NS, now - start);
	return 0;
}

/* Return: 0, EAGAIN when the send buffer is full, ENOBUFS when a flow is congested, -1 (said). */
static int send_all(struct stress_task *t)
{
	const struct stress_opts *o = &t->run->o;
	bool sends_requests = o->is_active || !o->is_one_way;
	int rc, result = 0;
	unsigned i;

	for (i = 0; i < o->tasks; i++) {
		struct stress_flow *f = &t->flows[i];

		rc = 0;
		while (rc == 0 && f->unacked)
			rc = send_one(t, i, OP_ACK);
		while (rc == 0 && sends_requests && f->outstanding < o->depth)
			rc = send_one(t, i, OP_REQUEST);
		if (rc == EAGAIN || rc < 0)
			return rc;
		if (rc)
			result = rc;
	}
	return result;
}

static void acked(struct stress_task *t, unsigned peer)
{
	const struct stress_opts *o = &t->run->o;
	struct stress_flow *f = &t->flows[peer];
	uint64_t rtt = tool_now_ns() - t->sent_ns[(size_t)peer * o->depth + f->req_oldest];
	uint64_t us = rtt / 1000;
	int bucket = 0;

	f->req_oldest = (f->req_oldest + 1) % o->depth;
	f->outstanding--;
	add(t, RTT_NS, rtt);
	add(t, RTT_COUNT, 1);
	if (us > o->outlier_us)
		fprintf(stderr, "Found RTT = 0x%llx\n", (unsigned long long)us);
	while (us >> (bucket + 1) && bucket < STRESS_BUCKETS)
		bucket++;
	if (bucket < STRESS_BUCKETS)
		atomic_fetch_add_explicit(&t->buckets[bucket], 1, memory_order_relaxed);
}

/* A message of @len bytes (may be more than the buffer has) at t->in. Return: 0, or -1 (said). */
static int take(struct stress_task *t, size_t len, const struct sockaddr_in *from)
{
	const struct stress_opts *o = &t->run->o;
	uint16_t from_port = ntohs(from->sin_port);
	unsigned peer = from_port - o->port - 1u;
	struct header h, want;
	struct stress_flow *f;
	size_t first = 0, bad, body;
	char text[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &from->sin_addr, text, sizeof(text));
	if (from->sin_addr.s_addr != t->run->peer.s_addr || peer >= o->tasks) {
		tool_error(
			"a message from %s:%u, which is no task of the other side: keep other programs "
			"from these ports",
			text, from_port);
		return -1;
	}
	if (len < STRESS_HEADER) {
		tool_error("a message of %zu bytes from %s:%u, shorter than a header", len, text,
			   from_port);
		return -1;
	}
	h = header_get(t->in);
	f = &t->flows[peer];
	if (t->in[60] && h.seq < f->rx_seq) /* sent again by a peer that was not sure */
		return 0;
	want = (struct header){.seq = f->rx_seq,
			       .from = ntohl(from->sin_addr.s_addr),
			       .to = ntohl(t->run->self.s_addr),
			       .from_port = from_port,
			       .to_port = (uint16_t)(o->port + 1 + t->id),
			       .index = (uint16_t)(h.op == OP_ACK ? f->req_oldest : f->rx_next),
			       .op = h.op == OP_ACK ? OP_ACK : OP_REQUEST};
	if (h.seq != want.seq || h.from != want.from || h.to != want.to ||
	    h.from_port != want.from_port || h.to_port != want.to_port || h.index != want.index ||
	    h.op != want.op)
		return bogus(t, &want, &h);
	if (len != (h.op == OP_REQUEST ? o->req_bytes : o->ack_bytes)) {
		tool_error("a message from %s:%u has %zu bytes, not the agreed size", text,
			   from_port, len);
		return -1;
	}
	if (h.op == OP_ACK ? !f->outstanding : f->unacked >= o->depth) {
		tool_error("%s from %s:%u that is beyond what is outstanding",
			   h.op == OP_ACK ? "an ack" : "a request", text, from_port);
		return -1;
	}
	body = len - STRESS_HEADER;
	bad = o->is_verified ? stress_corrupted(t->in + STRESS_HEADER, body, &first) : 0;
	if (bad) {
		stress_say(
			"%sAn incoming message has a corrupted payload at offset %zu; %zu out of %zu bytes "
			"corrupted\n",
			atomic_exchange(&t->run->has_open_line, false) ? "\n" : "", first, bad,
			body);
		tool_error("header from %s:%u to id %u good, payload bad", text, from_port, t->id);
		return -1;
	}
	f->rx_seq++;
	add(t, BYTES, len);
	if (h.op == OP_ACK) {
		acked(t, peer);
		return 0;
	}
	f->rx_next = (f->rx_next + 1) % o->depth;
	f->unacked++;
	add(t, REQ_RX, 1);
	return 0;
}

static int receive_all(struct stress_task *t)
{
	const struct stress_opts *o = &t->run->o;
	size_t cap = o->req_bytes > o->ack_bytes ? o->req_bytes : o->ack_bytes;
	struct sockaddr_in from;
	socklen_t len;
	ssize_t n;

	for (;;) {
		len = sizeof(from);
		n = urds_recvfrom(t->sock, t->in, cap, MSG_DONTWAIT | MSG_TRUNC,
				  (struct sockaddr *)&from, &len);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			tool_error("cannot receive at port %u: %s", o->port + 1 + t->id,
				   urds_reason());
			return -1;
		}
		if (take(t, (size_t)n, &from) < 0)
			return -1;
	}
}

static int serve(struct stress_task *t)
{
	struct stress_run *r = t->run;
	int rc = 0, events;

	while (tool_now_ns() < r->start_ns && !atomic_load(&r->is_over))
		if (urds_wait(t->sock, POLLIN, WAIT_MS) > 0)
			break; /* the other side starts a little earlier */
	while (!atomic_load(&r->is_over)) {
		if (receive_all(t) < 0)
			return -1;
		rc = atomic_load(&r->is_stopping) ? 0 : send_all(t);
		if (rc < 0)
			return -1;
		events = rc == EAGAIN ? POLLIN | POLLOUT : POLLIN;
		if (urds_wait(t->sock, events, rc == ENOBUFS ? CONGESTED_MS : WAIT_MS) < 0 &&
		    errno != EINTR) {
			tool_error("cannot wait at port %u: %s", r->o.port + 1 + t->id,
				   urds_reason());
			return -1;
		}
	}
	return 0;
}

static void *thread(void *arg)
{
	struct stress_task *t = arg;
	int none = 0;

	t->tid = tool_thread_id();
	if (serve(t) < 0)
		atomic_compare_exchange_strong(&t->run->failed_tid, &none, t->tid);
	return NULL;
}

static int buffers(struct stress_task *t)
{
	const struct stress_opts *o = &t->run->o;
	uint64_t all = (uint64_t)o->tasks * o->depth * ((uint64_t)o->req_bytes + o->ack_bytes) * 2;
	int want = all > INT32_MAX / 2 ? INT32_MAX / 2 : (int)all, got = 0, i;
	static const int opts[] = {SO_SNDBUF, SO_RCVBUF};
	socklen_t len = sizeof(got);

	for (i = 0; i < 2; i++) {
		if (urds_setsockopt(t->sock, SOL_SOCKET, opts[i], &want, sizeof(want)) < 0 ||
		    urds_getsockopt(t->sock, SOL_SOCKET, opts[i], &got, &len) < 0)
			return -1;
		if (t->id == 0 && got / 2 < want)
			fprintf(stderr, "getsockopt(%s) returned %d, we %s %d * 2\n",
				i ? "RCVBUF" : "SNDBUF", got, i ? "need" : "wanted", want);
	}
	return 0;
}

static int open_one(struct stress_task *t)
{
	const struct stress_opts *o = &t->run->o;
	size_t cap = o->req_bytes > o->ack_bytes ? o->req_bytes : o->ack_bytes;
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)(o->port + 1 + t->id)),
				 .sin_addr = t->run->self};
	char text[INET_ADDRSTRLEN];
	int on = 1;

	t->flows = calloc(o->tasks, sizeof(*t->flows));
	t->sent_ns = calloc((size_t)o->tasks * o->depth, sizeof(*t->sent_ns));
	t->in = malloc(cap);
	t->out = calloc(1, cap);
	if (!t->flows || !t->sent_ns || !t->in || !t->out) {
		tool_error("no memory for task %u: choose a smaller depth or fewer tasks", t->id);
		return -1;
	}
	if (o->is_verified)
		stress_pattern(t->out + STRESS_HEADER, cap - STRESS_HEADER);
	t->sock = urds_socket(t->run->ctx);
	if (!t->sock || urds_bind(t->sock, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    buffers(t) < 0) {
		tool_error("cannot use %s port %u: %s",
			   inet_ntop(AF_INET, &sa.sin_addr, text, sizeof(text)), ntohs(sa.sin_port),
			   urds_reason());
		return -1;
	}
	if (o->uses_cong_monitor &&
	    urds_setsockopt(t->sock, URDS_SOL_RDS, URDS_OPT_CONG_MONITOR, &on, sizeof(on)) < 0 &&
	    errno != ENOPROTOOPT) {
		tool_error("cannot ask for congestion notices: %s", urds_reason());
		return -1;
	}
	if (o->is_traced)
		tool_error("task %u is at %s port %u", t->id,
			   inet_ntop(AF_INET, &sa.sin_addr, text, sizeof(text)),
			   ntohs(sa.sin_port));
	return 0;
}

int stress_tasks_open(struct stress_run *r)
{
	unsigned i;

	r->tasks = calloc(r->o.tasks, sizeof(*r->tasks));
	if (!r->tasks || urds_open(NULL, &r->ctx) < 0) {
		tool_error("cannot start: %s", r->tasks ? urds_reason() : "no memory");
		return -1;
	}
	for (i = 0; i < r->o.tasks; i++) {
		r->tasks[i].run = r;
		r->tasks[i].id = i;
		if (open_one(&r->tasks[i]) < 0)
			return -1;
	}
	return 0;
}

int stress_tasks_start(struct stress_run *r)
{
	unsigned i;
	int err;

	for (i = 0; i < r->o.tasks; i++) {
		err = pthread_create(&r->tasks[i].thread, NULL, thread, &r->tasks[i]);
		if (err) {
			tool_error("cannot start task %u: %s; choose fewer tasks", i,
				   tool_strerror(err));
			return -1;
		}
		r->tasks[i].has_thread = true;
	}
	return 0;
}

void stress_tasks_end(struct stress_run *r)
{
	unsigned i;

	atomic_store(&r->is_over, true);
	for (i = 0; r->tasks && i < r->o.tasks; i++) {
		struct stress_task *t = &r->tasks[i];

		if (t->has_thread)
			pthread_join(t->thread, NULL);
		if (t->sock)
			urds_close(t->sock);
		free(t->flows);
		free(t->sent_ns);
		free(t->in);
		free(t->out);
	}
	free(r->tasks);
	r->tasks = NULL;
	if (r->ctx)
		urds_shutdown(r->ctx);
}
