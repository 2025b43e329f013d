/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds stress: what its files share. The options travel over the control connection; one task is one
 * thread with one socket at port P + 1 + i, and exchanges messages with all tasks of the peer.
 */
#ifndef URDS_TOOLS_STRESS_H
#define URDS_TOOLS_STRESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "tool.h"

#define STRESS_HEADER 63u
#define STRESS_MESSAGE_MAX (1u << 20)
#define STRESS_TASKS_MAX 1024u
#define STRESS_FLOW_BYTES_MAX (1ull << 30) /* memory for outstanding requests of all tasks */
#define STRESS_BUCKETS 16

struct stress_opts {
	uint32_t depth, req_bytes, ack_bytes, rdma_bytes;
	uint32_t send_addr, recv_addr; /* host order; 0: not given */
	uint16_t port, tasks;
	uint32_t time_s;
	uint8_t is_summary_only, wants_rtprio, is_traced, is_verified, shows_params, shows_perfdata;
	uint8_t uses_cong_monitor, use_once, use_get_mr, use_fence, cache_mrs, key_o_meter;
	uint8_t is_one_way, rw_mode;
	uint32_t vector, alignment, retries;
	uint8_t tos, is_async;
	/* these do not travel */
	bool is_active, wants_cpu, wants_histogram, wants_reset;
	uint32_t outlier_us;
};

struct stress_counts {
	uint64_t req_tx, req_rx, bytes, tx_ns, rtt_ns, rtt_count;
};

/* What a line says: of a second, or of the whole test. */
struct stress_rates {
	uint64_t tx, rx; /* requests */
	double kbytes;	 /* of requests and acks both ways, a second */
	double tx_us, rtt_us;
	double cpu; /* busy percent; -1: not measured */
};

struct stress_run;
struct stress_soak;
struct stress_perf;

struct stress_task {
	struct stress_run *run;
	unsigned id;
	pthread_t thread;
	bool has_thread;
	int tid;
	struct urds_sock *sock;
	struct stress_flow *flows; /* one per task of the peer */
	uint64_t *sent_ns;	   /* tasks * depth */
	uint8_t *in, *out;
	_Atomic uint64_t counts[6]; /* as in struct stress_counts */
	_Atomic uint64_t buckets[STRESS_BUCKETS];
};

struct stress_run {
	struct stress_opts o;
	struct in_addr self, peer;
	struct urds_ctx *ctx;
	struct stress_task *tasks;
	struct stress_soak *soak; /* NULL without -c */
	struct stress_perf *perf; /* NULL without --show-perfdata; ours to free */
	tool_sock control;
	uint64_t start_ns;
	_Atomic bool is_stopping, is_over; /* receive only; end */
	_Atomic bool has_open_line;	   /* the dots: a task starts a new line */
	_Atomic int failed_tid;		   /* 0: none */
};

/* Numbers on the wire, most significant byte first. */
static inline uint8_t *stress_put(uint8_t *p, uint32_t v, unsigned bytes)
{
	while (bytes--)
		*p++ = (uint8_t)(v >> 8 * bytes);
	return p;
}

static inline uint32_t stress_get(const uint8_t **p, unsigned bytes)
{
	uint32_t v = 0;

	while (bytes--)
		v = v << 8 | *(*p)++;
	return v;
}

/* stress_opts.c. -1: go on, else the exit code. */
int stress_parse(struct stress_opts *o, int argc, char **argv);
/* NULL, or why the values cannot be run. */
const char *stress_check(const struct stress_opts *o);

/* stress_control.c: all say themselves what goes wrong and return 0 or -1. */
int stress_connect(struct stress_run *r);
int stress_accept(struct stress_run *r);
int stress_send_options(struct stress_run *r);
int stress_go_active(struct stress_run *r);
int stress_go_passive(struct stress_run *r);
/* Waits until @until_ns, the end of this command, or that of a task. Return: 1 if the peer ended the test before, 0, or -1 (said). */
int stress_peer_ended(struct stress_run *r, uint64_t until_ns);

/* stress_task.c */
int stress_tasks_open(struct stress_run *r);
int stress_tasks_start(struct stress_run *r);
void stress_tasks_end(struct stress_run *r);

/* stress_cpu_linux.c, stress_cpu_windows.c: what is asked of the processors. Return: NULL, or why not, which is
 * good until the next call. */
/* Those that this process may use. Caller frees *@which. */
const char *stress_cpus(unsigned **which, unsigned *n);
/* From here on @t runs there, and only when nothing else wants to. @clock: of its processor time, while it is not joined. */
const char *stress_cpu_leave(pthread_t t, unsigned cpu, uintptr_t *clock);
uint64_t stress_cpu_ns(uintptr_t clock);
/* Real-time scheduling; @has_soakers: with -c. The reason says what to do here, and ends without a stop. */
const char *stress_real_time(bool has_soakers);

/* Times of all processors in units of the system's, and interrupts, since it started. */
struct stress_host {
	uint64_t user, system, idle, irq, all, intr;
};

/* What the system does not say is 0. */
struct stress_host stress_host_now(void);

/* stress_soak.c: -c. Says itself what goes wrong and returns 0 or -1. */
int stress_soak_start(struct stress_run *r);
/* From here on what is left over is used up. */
void stress_soak_go(struct stress_run *r);
/* Processor time that was left over so far, per processor; 0 without -c. */
uint64_t stress_soak_ns(const struct stress_run *r);
void stress_soak_end(struct stress_run *r);

/* stress_perf.c: both say themselves what goes wrong and return 0 or -1. */
int stress_perf_header(struct stress_run *r);
int stress_perf_row(struct stress_run *r, const struct stress_rates *n);

/* stress_probe.c. 0, or -1 (said) if -D or --async asks for what is not there. */
int stress_probe(struct stress_run *r);
/* --reset. Return: exit code. */
int stress_reset(const struct stress_opts *o);

/* stress_check.c */
void stress_pattern(uint8_t *p, size_t len);
size_t stress_corrupted(const uint8_t *p, size_t len, size_t *first);

/* stress_report.c */
/* As printf(), at once and in one piece. */
void stress_say(const char *fmt, ...) __attribute__((format(TOOL_PRINTF, 1, 2)));
void stress_params(const struct stress_opts *o);
/* The test until its end. Return: exit code. */
int stress_watch(struct stress_run *r);

#endif
