/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * --show-perfdata: a line of comma-separated values per second, with the engine's counters and with what
 * the system says of its processors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_element.h"
#include "stress.h"

#define COUNTERS_MAX 256u
#define COUNTER_BYTES 40u

struct snapshot {
	uint64_t ns;
	struct stress_host host;
	size_t n;
	struct info_counter counters[COUNTERS_MAX];
};

struct stress_perf {
	struct snapshot last, now;
};

static int take(struct snapshot *s, struct urds_sock *sock)
{
	uint8_t rows[COUNTERS_MAX * COUNTER_BYTES];
	socklen_t len = sizeof(rows);
	size_t i;

	s->ns = tool_now_ns();
	if (urds_getsockopt(sock, URDS_SOL_RDS, URDS_INFO_COUNTERS, rows, &len) !=
	    (int)COUNTER_BYTES) {
		tool_error("cannot read the counters: %s; leave --show-perfdata out",
			   urds_reason());
		return -1;
	}
	s->n = (size_t)len / COUNTER_BYTES;
	for (i = 0; i < s->n; i++)
		s->counters[i] = info_counter_get(rows + i * COUNTER_BYTES);
	s->host = stress_host_now();
	return 0;
}

int stress_perf_header(struct stress_run *r)
{
	size_t i;

	r->perf = calloc(1, sizeof(*r->perf));
	if (!r->perf) {
		tool_error("no memory for --show-perfdata");
		return -1;
	}
	if (take(&r->perf->last, r->tasks[0].sock) < 0)
		return -1;
	tool_out_lock();
	printf("::nr_tasks:count,req_size:bytes,ack_size:bytes,rdma_size:bytes,req_sent:count,thruput:kB/s,"
	       "thruput_rdma_in:kB/s,thruput_rdma_out:kB/s,tx_delay:microseconds,rtt:microseconds,cpu:percent");
	for (i = 0; i < r->perf->last.n; i++) {
		const char *name = r->perf->last.counters[i].name;

		printf(",%s:%s", name, strstr(name, "_bytes") ? "bytes" : "count");
	}
	printf(",user:percent,system:percent,idle:percent,irq:percent,intr:count\n");
	(void)tool_flush();
	tool_out_unlock();
	return 0;
}

static double share(uint64_t now, uint64_t last, const struct stress_host *a,
		    const struct stress_host *b)
{
	/* The kernel may take back a tick of idle time. */
	if (now <= last || b->all <= a->all)
		return 0;
	return 100.0 * (double)(now - last) / (double)(b->all - a->all);
}

int stress_perf_row(struct stress_run *r, const struct stress_rates *n)
{
	struct stress_perf *p = r->perf;
	const struct stress_host *a = &p->last.host, *b = &p->now.host;
	double s;
	size_t i;

	if (take(&p->now, r->tasks[0].sock) < 0)
		return -1;
	s = (double)(p->now.ns - p->last.ns) / 1e9;
	tool_out_lock();
	printf("::%u,%u,%u,%u,%llu,%f,%f,%f,%f,%f,%f", r->o.tasks, r->o.req_bytes, r->o.ack_bytes,
	       r->o.rdma_bytes, (unsigned long long)n->tx, n->kbytes, 0.0, 0.0, n->tx_us, n->rtt_us,
	       n->cpu < 0 ? 0 : n->cpu);
	for (i = 0; i < p->now.n; i++)
		printf(",%f", (double)(p->now.counters[i].value - p->last.counters[i].value) / s);
	printf(",%f,%f,%f,%f,%f\n", share(b->user, a->user, a, b),
	       share(b->system, a->system, a, b), share(b->idle, a->idle, a, b),
	       share(b->irq, a->irq, a, b),
	       b->intr > a->intr ? (double)(b->intr - a->intr) / s : 0.0);
	(void)tool_flush();
	tool_out_unlock();
	p->last = p->now;
	return 0;
}
