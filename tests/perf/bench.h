/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the two halves of the speed check share: the runs themselves, and raw TCP.
 */
#ifndef URDS_TESTS_PERF_BENCH_H
#define URDS_TESTS_PERF_BENCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HDR 48 /* what urds adds to a message: raw TCP sends as much */

/* Both processes and their parent see this. */
struct shared {
	_Atomic int ready, go;
	_Atomic uint16_t port;
	double seconds; /* of the measured part */
	uint64_t tx_calls, rx_calls, polls, messages;
	double cpu
		[2]; /* processor seconds of the receiver, the sender: whole process, measured part */
};

extern struct shared *sh;

enum raw_wait {
	RAW_BLOCK, /* in recv() */
	RAW_EPOLL, /* in epoll_wait(), then a recv() that does not wait: whoever can be woken by anything else needs both */
	RAW_SPIN,  /* not at all: recv() again and again */
};

struct job {
	size_t size;  /* payload */
	size_t count; /* messages, or round trips */
	size_t chunk; /* raw: bytes per send; 0: one message */
	int threads;
	unsigned flags; /* URDS_CONFIG_*; raw round trips: enum raw_wait */
};

double now(void);
/* Ends the process. */
void die(const char *what);
/* Ready; returns when everybody is. */
void barrier(void);

void raw_tx(const struct job *j);
void raw_rx(const struct job *j);
/* @role 1 measures. */
void raw_rtt(const struct job *j, int role);

#endif
