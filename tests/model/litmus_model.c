/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The checker checked: litmus tests whose outcome under C11 is known. One table row is one program;
 * the forbidden or allowed outcome is an assertion in its finish.
 */
#include <stdatomic.h>

#include "model_atomics.h"
#include "model_test.h"

#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release
#define SC memory_order_seq_cst

static _Atomic(uint32_t) x, y, z;
static uint32_t r1, r2, r3, r4;
static uint32_t data;
static struct mc_mutex mutex;

static void setup(void)
{
	atomic_init(&x, 0);
	atomic_init(&y, 0);
	atomic_init(&z, 0);
	mc_mutex_init(&mutex);
	r1 = r2 = r3 = r4 = 9;
	MC_W(data, 0);
}

#define LD(v, mo) ((uint32_t)atomic_load_explicit(&(v), mo))
#define ST(v, n, mo) atomic_store_explicit(&(v), n, mo)
#define FENCE(mo) atomic_thread_fence(mo)
#define XCHG(v, n, mo) ((uint32_t)atomic_exchange_explicit(&(v), n, mo))

/* clang-format off */
#define THREAD(name, ...) static void name(void) { __VA_ARGS__ }
/* clang-format on */
/* The outcome @bad is a failure. */
#define PROGRAM2(name, t1, t2, bad)  \
	static void name##_end(void) \
	{                            \
		MC_ASSERT(!(bad));   \
	}                            \
	static const struct mc_test test_##name = {#name, setup, {t1, t2, NULL}, name##_end}
#define PROGRAM3(name, t1, t2, t3, bad) \
	static void name##_end(void)    \
	{                               \
		MC_ASSERT(!(bad));      \
	}                               \
	static const struct mc_test test_##name = {#name, setup, {t1, t2, t3}, name##_end}

static void forbidden(const struct mc_test *t)
{
	model_holds(t);
}

static void allowed(const struct mc_test *t)
{
	struct mc_result r = mc_explore(t, MC_INTACT, NULL);

	printf("# %s: %" PRIu64 " executions explored: %s\n", t->name, r.executions, r.why);
	CHECK(r.failed);
}

static void found(const struct mc_test *t, const char *what)
{
	struct mc_result r = mc_explore(t, MC_INTACT, NULL);

	printf("# %s: %" PRIu64 " executions explored: %s\n", t->name, r.executions, r.why);
	CHECK(r.failed);
	CHECK(strstr(r.why, what));
}

/* Store buffering: both may miss the other's store, unless both fence. */
THREAD(sb_rlx_1, ST(x, 1, RLX); r1 = LD(y, RLX);)
THREAD(sb_rlx_2, ST(y, 1, RLX); r2 = LD(x, RLX);)
THREAD(sb_ra_1, ST(x, 1, REL); r1 = LD(y, ACQ);)
THREAD(sb_ra_2, ST(y, 1, REL); r2 = LD(x, ACQ);)
THREAD(sb_sc_1, ST(x, 1, SC); r1 = LD(y, SC);)
THREAD(sb_sc_2, ST(y, 1, SC); r2 = LD(x, SC);)
THREAD(sb_fence_1, ST(x, 1, RLX); FENCE(SC); r1 = LD(y, RLX);)
THREAD(sb_fence_2, ST(y, 1, RLX); FENCE(SC); r2 = LD(x, RLX);)
THREAD(sb_heavy_2, ST(y, 1, RLX); mc_membarrier(); r2 = LD(x, RLX);)
PROGRAM2(sb_relaxed, sb_rlx_1, sb_rlx_2, r1 == 0 && r2 == 0);
PROGRAM2(sb_acquire_release, sb_ra_1, sb_ra_2, r1 == 0 && r2 == 0);
PROGRAM2(sb_seq_cst, sb_sc_1, sb_sc_2, r1 == 0 && r2 == 0);
PROGRAM2(sb_fences, sb_fence_1, sb_fence_2, r1 == 0 && r2 == 0);
PROGRAM2(sb_one_fence, sb_fence_1, sb_rlx_2, r1 == 0 && r2 == 0);
PROGRAM2(sb_membarrier, sb_rlx_1, sb_heavy_2, r1 == 0 && r2 == 0);

static void litmus__store_buffering(void)
{
	allowed(&test_sb_relaxed);
	allowed(&test_sb_acquire_release);
	allowed(&test_sb_one_fence);
	forbidden(&test_sb_seq_cst);
	forbidden(&test_sb_fences);
	forbidden(&test_sb_membarrier);
}

/* Message passing: the flag arrives before what it announces, unless released and acquired. */
THREAD(mp_w_rlx, ST(x, 1, RLX); ST(y, 1, RLX);)
THREAD(mp_w_rel, ST(x, 1, RLX); ST(y, 1, REL);)
THREAD(mp_w_fence, ST(x, 1, RLX); FENCE(REL); ST(y, 1, RLX);)
THREAD(mp_r_rlx, r1 = LD(y, RLX); r2 = LD(x, RLX);)
THREAD(mp_r_acq, r1 = LD(y, ACQ); r2 = LD(x, RLX);)
THREAD(mp_r_fence, r1 = LD(y, RLX); FENCE(ACQ); r2 = LD(x, RLX);)
PROGRAM2(mp_relaxed, mp_w_rlx, mp_r_rlx, r1 == 1 && r2 == 0);
PROGRAM2(mp_release_only, mp_w_rel, mp_r_rlx, r1 == 1 && r2 == 0);
PROGRAM2(mp_acquire_only, mp_w_rlx, mp_r_acq, r1 == 1 && r2 == 0);
PROGRAM2(mp_release_acquire, mp_w_rel, mp_r_acq, r1 == 1 && r2 == 0);
PROGRAM2(mp_fences, mp_w_fence, mp_r_fence, r1 == 1 && r2 == 0);
PROGRAM2(mp_reads_something, mp_w_rel, mp_r_acq, r1 == 1 && r2 == 1);

static void litmus__message_passing(void)
{
	allowed(&test_mp_relaxed);
	allowed(&test_mp_release_only);
	allowed(&test_mp_acquire_only);
	allowed(&test_mp_reads_something);
	forbidden(&test_mp_release_acquire);
	forbidden(&test_mp_fences);
}

/* A read-modify-write in between continues the release sequence; a store does not. */
THREAD(rs_rmw, if (XCHG(y, 2, RLX) != 1) r1 = 7;)
THREAD(rs_store, if (LD(y, RLX) == 1) ST(y, 2, RLX);)
THREAD(rs_r, r2 = LD(y, ACQ); r3 = LD(x, RLX);)
PROGRAM3(rs_by_rmw, mp_w_rel, rs_rmw, rs_r, r1 != 7 && r2 == 2 && r3 == 0);
PROGRAM3(rs_by_store, mp_w_rel, rs_store, rs_r, r2 == 2 && r3 == 0);

static void litmus__release_sequence(void)
{
	forbidden(&test_rs_by_rmw);
	allowed(&test_rs_by_store);
}

/* Load buffering: C11 allows it for relaxed, we (like RC11) do not model it. Kept as a fact. */
THREAD(lb_1, r1 = LD(x, RLX); ST(y, 1, RLX);)
THREAD(lb_2, r2 = LD(y, RLX); ST(x, 1, RLX);)
PROGRAM2(lb_relaxed, lb_1, lb_2, r1 == 1 && r2 == 1);

static void litmus__load_buffering_is_not_modelled(void)
{
	forbidden(&test_lb_relaxed);
}

/* Two writers of two locations, each location ending with the other's store: the modification order
 * is not the order in which stores were made. */
THREAD(ww_1, ST(x, 1, RLX); ST(y, 2, RLX);)
THREAD(ww_2, ST(y, 1, RLX); ST(x, 2, RLX);)
THREAD(ww_1f, ST(x, 1, RLX); FENCE(SC); ST(y, 2, RLX);)
THREAD(ww_2f, ST(y, 1, RLX); FENCE(SC); ST(x, 2, RLX);)
PROGRAM2(ww_relaxed, ww_1, ww_2, LD(x, RLX) == 1 && LD(y, RLX) == 1);
PROGRAM2(ww_fences, ww_1f, ww_2f, LD(x, RLX) == 1 && LD(y, RLX) == 1);

static void litmus__two_writers(void)
{
	allowed(&test_ww_relaxed);
	forbidden(&test_ww_fences);
}

/* Write-to-read causality: what a thread acquired it passes on by its own release. */
THREAD(wrc_1, ST(x, 1, RLX);)
THREAD(wrc_2, r1 = LD(x, RLX); ST(y, 1, RLX);)
THREAD(wrc_2ra, r1 = LD(x, ACQ); ST(y, 1, REL);)
THREAD(wrc_3, r2 = LD(y, RLX); r3 = LD(x, RLX);)
THREAD(wrc_3ra, r2 = LD(y, ACQ); r3 = LD(x, RLX);)
PROGRAM3(wrc_relaxed, wrc_1, wrc_2, wrc_3, r1 == 1 && r2 == 1 && r3 == 0);
PROGRAM3(wrc_acquire_release, wrc_1, wrc_2ra, wrc_3ra, r1 == 1 && r2 == 1 && r3 == 0);

static void litmus__write_to_read_causality(void)
{
	allowed(&test_wrc_relaxed);
	forbidden(&test_wrc_acquire_release);
}

/* Independent reads of independent writes: may two readers disagree about the order of stores? */
THREAD(iriw_w, ST(x, 1, REL);)
THREAD(iriw_wy, ST(y, 1, REL);)
THREAD(iriw_a, r1 = LD(x, ACQ); r2 = LD(y, ACQ);)
THREAD(iriw_b, r3 = LD(y, ACQ); r4 = LD(x, ACQ);)
THREAD(iriw_af, r1 = LD(x, ACQ); FENCE(SC); r2 = LD(y, ACQ);)
THREAD(iriw_bf, r3 = LD(y, ACQ); FENCE(SC); r4 = LD(x, ACQ);)
THREAD(iriw_wsc, ST(x, 1, SC);)
THREAD(iriw_wysc, ST(y, 1, SC);)
THREAD(iriw_asc, r1 = LD(x, SC); r2 = LD(y, SC);)
THREAD(iriw_bsc, r3 = LD(y, SC); r4 = LD(x, SC);)
#define IRIW(name, w1, w2, a, b)                                        \
	static void name##_end(void)                                    \
	{                                                               \
		MC_ASSERT(!(r1 == 1 && r2 == 0 && r3 == 1 && r4 == 0)); \
	}                                                               \
	static const struct mc_test test_##name = {#name, setup, {w1, w2, a, b}, name##_end}
IRIW(iriw_acquire, iriw_w, iriw_wy, iriw_a, iriw_b);
IRIW(iriw_fences, iriw_w, iriw_wy, iriw_af, iriw_bf);
IRIW(iriw_seq_cst, iriw_wsc, iriw_wysc, iriw_asc, iriw_bsc);

static void litmus__independent_reads_of_independent_writes(void)
{
	allowed(&test_iriw_acquire);
	forbidden(&test_iriw_fences);
	forbidden(&test_iriw_seq_cst);
}

/* Coherence: later reads of one location never go back. */
THREAD(co_w, ST(x, 1, RLX); ST(x, 2, RLX);)
THREAD(co_r, r1 = LD(x, RLX); r2 = LD(x, RLX);)
PROGRAM2(co_read_read, co_w, co_r, r1 == 2 && r2 == 1);

/* Read-modify-writes are atomic: no increment is lost, one exchange wins. */
THREAD(inc, atomic_fetch_add_explicit(&x, 1, RLX); atomic_fetch_add_explicit(&x, 1, RLX);)
PROGRAM3(rmw_atomic, inc, inc, inc, LD(x, RLX) != 6);

static void litmus__coherence(void)
{
	forbidden(&test_co_read_read);
	forbidden(&test_rmw_atomic);
}

/* Races on plain data. */
THREAD(race_w, MC_W(data, 1); ST(x, 1, REL);)
THREAD(race_w_late, ST(x, 1, REL); MC_W(data, 1);)
THREAD(race_r, if (LD(x, ACQ)) r1 = MC_R(data);)
THREAD(race_r_rlx, if (LD(x, RLX)) r1 = MC_R(data);)
THREAD(race_lock, mc_lock(&mutex); MC_W(data, MC_R(data) + 1); mc_unlock(&mutex);)
PROGRAM2(race_none, race_w, race_r, r1 == 0);
PROGRAM2(race_relaxed, race_w, race_r_rlx, r1 == 0);
PROGRAM2(race_late, race_w_late, race_r, false);
PROGRAM3(race_mutex, race_lock, race_lock, race_lock, MC_R(data) != 3);

static void litmus__data_race(void)
{
	forbidden(&test_race_none);
	found(&test_race_relaxed, "data race");
	found(&test_race_late, "data race");
	forbidden(&test_race_mutex);
}

/* A wake-up between look and sleep is lost unless the word tells. */
THREAD(nap, if (LD(x, RLX) == 0) mc_futex_wait(&y, 0);)
THREAD(wake, ST(x, 1, RLX); mc_futex_wake(&y);)
THREAD(wake_word, ST(x, 1, RLX); ST(y, 1, RLX); mc_futex_wake(&y);)
PROGRAM2(lost_wakeup, nap, wake, false);
PROGRAM2(kept_wakeup, nap, wake_word, false);
static struct mc_mutex m2;

static void setup2(void)
{
	setup();
	mc_mutex_init(&m2);
}
THREAD(ab, mc_lock(&mutex); mc_lock(&m2); mc_unlock(&m2); mc_unlock(&mutex);)
THREAD(ba, mc_lock(&m2); mc_lock(&mutex); mc_unlock(&mutex); mc_unlock(&m2);)
static const struct mc_test test_deadlock = {"deadlock", setup2, {ab, ba}, NULL};
THREAD(spin_read, while (LD(x, RLX) == 0) continue;)
PROGRAM2(endless, spin_read, spin_read, false);
THREAD(gone, if (LD(x, RLX)) mc_retire(&z);)
THREAD(user, (void)LD(z, RLX); ST(x, 1, RLX);)
PROGRAM2(use_after, user, gone, false);

static void litmus__deadlock_and_lost_wake_up(void)
{
	found(&test_lost_wakeup, "waits for ever");
	forbidden(&test_kept_wakeup);
	found(&test_deadlock, "deadlock");
	found(&test_endless, "does not end");
	found(&test_use_after, "goes away");
}

/* Remembering states loses no outcome: the same set of results as from every interleaving. */
static bool outcomes[3][256];
static int outcomes_of;

static void collect(void)
{
	uint32_t last = (uint32_t)LD(x, RLX) << 6 | (uint32_t)LD(y, RLX) << 4;

	outcomes[outcomes_of][(last ^ (r1 | r2 << 1 | r3 << 2 | r4 << 3)) & 255] = true;
}

static void same_outcomes(const char *name, void (*a)(void), void (*b)(void), void (*c)(void))
{
	const struct mc_test t = {name, setup, {a, b, c}, collect};
	struct mc_result r[2];

	memset(outcomes, 0, sizeof(outcomes));
	for (outcomes_of = 0; outcomes_of < 2; outcomes_of++) {
		mc_unreduced = outcomes_of == 1;
		r[outcomes_of] = mc_explore(&t, MC_INTACT, NULL);
		mc_unreduced = false;
		CHECK(!r[outcomes_of].failed);
	}
	printf("# %s: %" PRIu64 " executions, unreduced %" PRIu64 "\n", name, r[0].executions,
	       r[1].executions);
	CHECK(memcmp(outcomes[0], outcomes[1], sizeof(outcomes[0])) == 0);
}

THREAD(mix_1, ST(x, 1, RLX); FENCE(SC); r1 = XCHG(y, 2, ACQ); r2 = LD(x, ACQ);)
THREAD(mix_2, ST(y, 1, REL); r3 = LD(x, RLX); ST(x, 2, REL); FENCE(SC); r4 = LD(y, RLX);)
THREAD(mix_3, ST(y, 3, RLX); (void)XCHG(x, 3, REL); ST(x, 0, RLX);)

static void litmus__reduction_keeps_every_outcome(void)
{
	same_outcomes("sb", sb_rlx_1, sb_rlx_2, NULL);
	same_outcomes("sb fences", sb_fence_1, sb_fence_2, NULL);
	same_outcomes("ww", ww_1, ww_2, sb_fence_1);
	same_outcomes("wrc", wrc_1, wrc_2ra, wrc_3ra);
	same_outcomes("mix 2", mix_1, mix_2, NULL);
	same_outcomes("mix 3", mix_1, wrc_3ra, mix_3);
	same_outcomes("mp", mp_w_rel, rs_rmw, rs_r);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(litmus__store_buffering);
	T_RUN(litmus__message_passing);
	T_RUN(litmus__release_sequence);
	T_RUN(litmus__load_buffering_is_not_modelled);
	T_RUN(litmus__two_writers);
	T_RUN(litmus__write_to_read_causality);
	T_RUN(litmus__independent_reads_of_independent_writes);
	T_RUN(litmus__coherence);
	T_RUN(litmus__data_race);
	T_RUN(litmus__deadlock_and_lost_wake_up);
	T_RUN(litmus__reduction_keeps_every_outcome);
	return t_done();
}
