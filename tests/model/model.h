/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A small exhaustive model checker for protocols of a few threads on C11 atomics.
 *
 * A test is a setup, two or three thread functions and a finish; the checker runs it again and
 * again, each time with another sequence of choices - which thread goes next, which store a load
 * reads, where in modification order a store goes - until there are no more.
 *
 * Memory: every atomic location keeps all its stores in modification order; every thread has a view
 * (per location, the oldest store it may still read). A store carries the view it releases, an
 * acquire joins it; read-modify-writes continue release sequences (C11 as amended by C++20: a plain
 * store by the same thread does not). Sequentially consistent fences exchange views with one global
 * view, in the order they run, which is the RC11 rule for fences. A failing compare-and-swap may
 * read a stale store, a succeeding one follows the store it read. Not modelled: load buffering
 * (reading what a later store of another thread depends on; RC11 forbids it), spurious failure of
 * weak compare-and-swap, mixed-size access. Seq_cst loads and stores exchange views of their own
 * location only; the headers under test use no seq_cst but fences.
 *
 * Plain variables go through MC_R and MC_W, which find data races by vector clocks. Variables
 * touched directly are ghosts: the protocol must not depend on them, and they may only record what
 * follows from what threads read, not the order threads happened to run in.
 *
 * Reduction: the state of a run is determined by what each thread has read and by the modification
 * orders, not by how threads were interleaved. States are remembered by a 64-bit hash and continued
 * once. That is exact but for hash collisions (with a million states: one in 10^7).
 *
 * Sabotage: each atomic operation of a header names its site (URDS_MO). The checker can weaken one
 * site to relaxed, or drop it: a store or fence does nothing, a read-modify-write changes nothing
 * and reports success.
 */
#ifndef URDS_TESTS_MODEL_H
#define URDS_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MC_THREADS 4
#define MC_SITES 48

struct mc_test {
	const char *name;
	void (*setup)(void); /* atomic_init() of every location, MC_W of plain variables */
	void (*thread[MC_THREADS])(void);
	void (*finish)(void); /* after all threads were joined; may use everything */
};

enum mc_how { MC_INTACT, MC_RELAXED, MC_DROPPED };

struct mc_result {
	bool failed;
	char why[200];
	uint64_t executions, states;
};

/* @site: NULL with MC_INTACT. Stops at the first failure. */
struct mc_result mc_explore(const struct mc_test *t, enum mc_how how, const char *site);
/* Explore every interleaving, remembering no states: to check the reduction itself. */
extern bool mc_unreduced;
/* The steps of the last failing run. */
void mc_print_trace(void);

/* For test code. */
void mc_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define MC_ASSERT(cond)                                          \
	do {                                                     \
		if (!(cond))                                     \
			mc_fail("line %d: %s", __LINE__, #cond); \
	} while (0)
int mc_choose(int n); /* 0..n-1, all explored */
int mc_self(void);    /* 0: setup or finish; else 1.. */

struct mc_mutex {
	int id;
};
void mc_mutex_init(struct mc_mutex *m);
void mc_lock(struct mc_mutex *m);
void mc_unlock(struct mc_mutex *m);

void mc_plain(const volatile void *p, bool write, const char *name);
#define MC_R(v) (mc_plain(&(v), false, #v), (v))
#define MC_W(v, val) (mc_plain(&(v), true, #v), (void)((v) = (val)))

/* futex(2): false when the word was not @val. Waking does not order memory by itself. */
bool mc_futex_wait(const volatile void *p, uint32_t val);
void mc_futex_wake(const volatile void *p);
/* membarrier(2): a fence in every thread, one after the other. Site "membarrier" can be dropped. */
void mc_membarrier(void);
/* The location's memory goes away: everything others did to it must have happened before, and
 * nobody touches it any more. */
void mc_retire(const volatile void *p);

/* Sites seen since the process started. */
struct mc_site {
	const char *name;
	unsigned char order;	     /* as written in the header */
	bool writes;		     /* store, read-modify-write or fence: can be dropped */
	bool seen, relaxed, dropped; /* relaxed, dropped: a sabotage was run */
};
extern struct mc_site mc_sites[MC_SITES];
extern int mc_nsites;

/* For model_atomics.h. */
int mc_mo(int *cache, const char *name, int order);
void mc_init(const volatile void *p, size_t size, uint64_t v, const char *name);
uint64_t mc_load(const volatile void *p, int mo);
void mc_store(const volatile void *p, uint64_t v, int mo);
bool mc_cas(const volatile void *p, uint64_t *expected, uint64_t v, int mo, int fail_mo);
enum mc_rmw { MC_XCHG, MC_ADD, MC_SUB, MC_OR, MC_AND };
uint64_t mc_rmw(const volatile void *p, enum mc_rmw op, uint64_t v, int mo);
void mc_fence(int mo);

#endif
