/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the two halves of the checker share: model.c (the search and the threads) and memory.c (the
 * memory model).
 */
#ifndef URDS_TESTS_MODEL_IMPL_H
#define URDS_TESTS_MODEL_IMPL_H

#include "model.h"

#include <setjmp.h>
#include <ucontext.h>

#define NTHREADS (MC_THREADS + 1) /* 0 is setup and finish */
#define MAX_LOCS 16
#define MAX_STORES 24 /* of one location in one run */
#define MAX_PLAIN 32
#define MAX_MUTEX 4
#define MAX_CHOICES 512
#define MAX_STEPS 300
#define STACK_BYTES (128u * 1024u)

/* What a thread knows: per location a store, per thread how much of it happened before. */
struct view {
	uint8_t store[MAX_LOCS];
	uint16_t clock[NTHREADS];
};

struct store {
	uint64_t value;
	struct view released;
	uint16_t name; /* thread and step that wrote it: the same in every interleaving */
	bool has_rmw;  /* a read-modify-write follows it immediately */
};

struct loc {
	const volatile void *addr;
	const char *name;
	uint64_t mask, hash; /* hash: of the modification order */
	struct store stores[MAX_STORES];
	uint8_t order[MAX_STORES], rank[MAX_STORES]; /* inverse of one another */
	uint16_t accessed[NTHREADS];
	int n;
	bool retired;
	/* as a futex */
	uint8_t bucket[MAX_LOCS];
	uint16_t bucket_last;
	uint8_t waiters; /* mask of threads */
};

struct mutex {
	int owner; /* -1: free */
	uint16_t last;
	struct view view;
};

struct plain {
	const volatile void *addr;
	uint16_t wrote_at, read_at[NTHREADS];
	int writer;
};

enum pending { P_RUN, P_LOCK, P_WAIT, P_DONE };

struct thread {
	jmp_buf jb, base;
	ucontext_t uc;
	bool has_context;
	struct view cur, acq,
		rel; /* acq: what an acquire fence would add; rel: at last release fence */
	uint64_t hash;
	uint16_t steps;
	enum pending pending;
	int on; /* P_LOCK: the mutex; P_WAIT: the location */
};

struct event {
	int thread;
	char what[12];
	const char *name;
	uint64_t a, b;
	int mo;
};

struct mc_state {
	const struct mc_test *test;
	enum mc_how how;
	int sabotaged; /* 1 + index of the site, or 0 */
	int nthreads;  /* test threads, 1..nthreads */

	struct thread threads[NTHREADS];
	struct loc locs[MAX_LOCS];
	struct mutex mutexes[MAX_MUTEX];
	struct plain plains[MAX_PLAIN];
	int nlocs, nmutexes, nplains;
	uint8_t sc_store[MAX_LOCS];
	uint16_t sc_last;

	struct {
		uint16_t chosen, of;
	} choices[MAX_CHOICES];
	int nchoices, pos, prefix;

	int self;      /* the running thread */
	bool starting; /* threads run up to their first step */
	int steps;
	jmp_buf main;
	struct event trace[MAX_STEPS + 64];
	int ntrace;

	uint64_t *seen; /* open addressing; 0 is empty */
	size_t seen_size, seen_n;
	struct mc_result res;
};

extern struct mc_state mc;

/* An order as the operations get it: order | dropped | (1 + site) << 8. */
#define MO_DROPPED 0x80
#define MO_ORDER(mo) ((mo)&0x7f)
#define MO_SITE(mo) ((mo) >> 8)

/* Every step of a thread that others can notice begins here. @on: P_LOCK, the mutex; P_WAIT, the
 * location. */
void mc_step(enum pending pending, int on);
uint16_t mc_step_name(void);
/* A choice of the search: 0..n-1. */
int mc_pick(int n);
/* What a step read or did, as far as it makes this run differ from another. */
void mc_note(uint64_t outcome);
uint64_t mc_mix(uint64_t h, uint64_t v);
void mc_event(const char *what, const char *name, uint64_t a, uint64_t b, int mo);
bool mc_dropped(int mo);

/* memory.c, for the search. */
void mc_join(struct view *into, const struct view *from);
void mc_tick(void);

#endif
