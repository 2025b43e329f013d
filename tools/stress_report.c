/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urds stress prints while the tasks work: a line per second, the average, the histogram.
 */
#include <stdarg.h>
#include <stdio.h>

#include "stress.h"

#define SECOND_NS 1000000000u

struct moment {
	uint64_t ns;
	struct stress_counts c;
	uint64_t left_ns; /* processor time nobody wanted, per processor */
};

void stress_say(const char *fmt, ...)
{
	va_list ap;

	tool_out_lock();
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	(void)tool_flush();
	tool_out_unlock();
}

static struct moment moment(const struct stress_run *r)
{
	struct moment m = {.ns = tool_now_ns()};
	uint64_t sum[6] = {0};
	unsigned i, k;

	for (i = 0; i < r->o.tasks; i++)
		for (k = 0; k < 6; k++)
			sum[k] +=
				atomic_load_explicit(&r->tasks[i].counts[k], memory_order_relaxed);
	m.c = (struct stress_counts){sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
	m.left_ns = stress_soak_ns(r);
	return m;
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static struct stress_rates rates(const struct stress_run *r, const struct moment *a,
				 const struct moment *b)
{
	double s = (double)(b->ns - a->ns) / SECOND_NS;
	struct stress_rates n = {.tx = b->c.req_tx - a->c.req_tx,
				 .rx = b->c.req_rx - a->c.req_rx,
				 .kbytes = ratio((double)(b->c.bytes - a->c.bytes) / 1024, s),
				 .rtt_us = ratio((double)(b->c.rtt_ns - a->c.rtt_ns) / 1000,
						 (double)(b->c.rtt_count - a->c.rtt_count)),
				 .cpu = -1};

	n.tx_us = ratio((double)(b->c.tx_ns - a->c.tx_ns) / 1000, (double)n.tx);
	if (r->o.wants_cpu) {
		n.cpu = 100 -
			ratio(100.0 * (double)(b->left_ns - a->left_ns), (double)(b->ns - a->ns));
		if (n.cpu < 0) /* the two clocks are not read at once */
			n.cpu = 0;
	}
	return n;
}

static void columns(const struct stress_run *r, const struct stress_rates *n, const char *end)
{
	stress_say("%4u %6llu %6llu %10.2f %10.2f %10.2f %7.2f %8.2f %5.2f%s\n", r->o.tasks,
		   (unsigned long long)n->tx, (unsigned long long)n->rx, n->kbytes, 0.0, 0.0,
		   n->tx_us, n->rtt_us, n->cpu, end);
}

static int header(struct stress_run *r)
{
	if (r->o.shows_perfdata)
		return stress_perf_header(r);
	stress_say("tsks   tx/s   rx/s  tx+rx K/s    mbi K/s    mbo K/s tx us/c   rtt us cpu %%\n");
	return 0;
}

/* Of one second. */
static int line(struct stress_run *r, const struct moment *a, const struct moment *b)
{
	struct stress_rates n = rates(r, a, b);

	if (r->o.is_summary_only)
		return 0;
	if (r->o.shows_perfdata)
		return stress_perf_row(r, &n);
	columns(r, &n, "");
	return 0;
}

static void average(const struct stress_run *r, const struct moment *a, const struct moment *b)
{
	double s = (double)(b->ns - a->ns) / SECOND_NS;
	struct stress_rates n = rates(r, a, b);

	n.tx = (uint64_t)ratio((double)n.tx, s);
	n.rx = (uint64_t)ratio((double)n.rx, s);
	columns(r, &n, "  (average)");
}

static void histogram(const struct stress_run *r)
{
	unsigned i, k;
	uint64_t n;

	printf("\nRTT histogram\nRTT (us)        \t\t    Count\n");
	for (i = 0; i < STRESS_BUCKETS; i++) {
		for (n = 0, k = 0; k < r->o.tasks; k++)
			n += atomic_load(&r->tasks[k].buckets[i]);
		printf("[%6u - %6u] \t\t %8llu\n", 1u << i, 2u << i, (unsigned long long)n);
	}
}

void stress_params(const struct stress_opts *o)
{
	bool has_any = o->use_once || o->use_get_mr || o->cache_mrs || o->alignment ||
		       !o->use_fence;

	tool_out_lock();
	printf("Options:\n  %-10s %-7u\n  %-10s %-7u\n  %-10s %-7u\n  %-10s %-7u\n  %-10s", "Tasks",
	       o->tasks, "Req size", o->req_bytes, "ACK size", o->ack_bytes, "RDMA size",
	       o->rdma_bytes, "RDMA opts");
	if (o->use_once)
		printf(" use_once");
	if (o->use_get_mr)
		printf(" use_get_mr");
	if (has_any && o->use_fence)
		printf(" use_fence");
	if (o->cache_mrs)
		printf(" cache_mrs");
	if (o->alignment)
		printf(" align=%u", o->alignment);
	printf("%s\n\n", has_any ? "" : " (defaults)");
	(void)tool_flush();
	tool_out_unlock();
}

int stress_watch(struct stress_run *r)
{
	struct moment first = moment(r), last = first, now;
	uint64_t end = r->o.is_active && r->o.time_s ? first.ns + (uint64_t)r->o.time_s * SECOND_NS
						     : UINT64_MAX;
	uint64_t next = first.ns;
	int peer_ended = 0;
	int tid;

	if (header(r) < 0)
		return 1;
	while (!peer_ended && next < end && !tool_ends_noted() && !atomic_load(&r->failed_tid) &&
	       tool_flush() == 0) {
		next += SECOND_NS;
		peer_ended = stress_peer_ended(r, next);
		if (peer_ended < 0)
			return 1;
		if (tool_now_ns() < next)
			break;
		now = moment(r);
		if (line(r, &last, &now) < 0)
			return 1;
		last = now;
	}
	now = moment(r);
	/* What is under way still arrives, and nothing new is sent. */
	atomic_store(&r->is_stopping, true);
	tool_sock_close(r->control);
	r->control = TOOL_NO_SOCK;
	tool_poll(NULL, 0, SECOND_NS);
	if (!r->o.is_summary_only)
		stress_say("---------------------------------------------\n");
	average(r, &first, &now);
	if (r->o.wants_histogram)
		histogram(r);
	if (tool_flush() < 0)
		return 1;
	tid = atomic_load(&r->failed_tid);
	if (tid) {
		tool_error("child pid %d exited with status 1", tid);
		return 1;
	}
	if (peer_ended && r->o.is_active) {
		tool_error("the other side ended the test, or its host did: see what it says");
		return 1;
	}
	return 0;
}
