/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * runtime/tx_role.h checked: threads post work and enter; nothing posted stays behind.
 *
 * The posts are relaxed on purpose: only the role's word may make them visible to a holder.
 */
#include <stdatomic.h>

#define URDS_MODEL_ATOMICS "model_atomics.h"
#define MODEL_PRIMITIVE tx_role
#include "runtime/tx_role.h"
#include "model_test.h"

static struct urds_tx_role role;
static _Atomic(uint32_t) posted[MC_THREADS];
static uint32_t rounds;	      /* plain, the holder's */
static int limit;	      /* rounds before the role is passed on */
static bool sent[MC_THREADS]; /* ghost: some round saw the post */
static bool owed[MC_THREADS]; /* ghost: thread was told by pass() that there may be more */
static uint32_t enters[MC_THREADS + 1]; /* ghost */

static void setup(void)
{
	atomic_init(&role.word, URDS_TX_ROLE_FREE);
	for (int i = 0; i < MC_THREADS; i++) {
		atomic_init(&posted[i], 0);
		sent[i] = owed[i] = false;
		enters[i + 1] = 0;
	}
	MC_W(rounds, 0);
	limit = 3;
}

static void setup_pass(void)
{
	setup();
	limit = 1;
}

static void round_of(void)
{
	MC_W(rounds, MC_R(rounds) + 1);
	for (int i = 0; i < MC_THREADS - 1; i++)
		if (atomic_load_explicit(&posted[i], memory_order_relaxed))
			sent[i] = true;
}

static bool enter_and_send(void)
{
	enters[mc_self()]++;
	if (!urds_tx_role_enter(&role))
		return false;
	for (int n = 1;; n++) {
		round_of();
		if (n == limit)
			return urds_tx_role_pass(&role);
		if (!urds_tx_role_leave(&role))
			return false;
	}
}

static void poster(void)
{
	int me = mc_self() - 1;

	atomic_store_explicit(&posted[me], 1, memory_order_relaxed);
	owed[me] = enter_and_send();
}

/* Whoever is told that there is more sees to it itself, by entering again. */
static void poster_insists(void)
{
	int me = mc_self() - 1;

	atomic_store_explicit(&posted[me], 1, memory_order_relaxed);
	while (enter_and_send())
		continue;
}

static void finish(void)
{
	bool more = false;
	uint32_t n = 0;

	MC_ASSERT(!urds_tx_role_is_held(&role));
	for (int i = 0; i < MC_THREADS; i++)
		more |= owed[i];
	/* Every round has its reason: a role that was free, or a note. */
	for (int i = 1; i <= MC_THREADS; i++)
		n += enters[i];
	MC_ASSERT(MC_R(rounds) <= n);
	for (int i = 0; i < MC_THREADS; i++)
		if (atomic_load_explicit(&posted[i], memory_order_relaxed))
			MC_ASSERT(sent[i] || more);
	/* Free, with no note left over. */
	MC_ASSERT(urds_tx_role_enter(&role));
	(void)MC_R(rounds);
	MC_ASSERT(!urds_tx_role_leave(&role));
	MC_ASSERT(!urds_tx_role_is_held(&role));
}

#define TEST(name, ...) static const struct mc_test test_##name = {#name, __VA_ARGS__}
TEST(tx_role__2_threads, setup, {poster, poster}, finish);
TEST(tx_role__3_threads, setup, {poster, poster, poster}, finish);
TEST(tx_role__passed_on, setup_pass, {poster, poster, poster}, finish);
TEST(tx_role__passed_on_and_entered, setup_pass, {poster_insists, poster_insists, poster_insists},
     finish);

#define SCENARIOS(X)          \
	X(tx_role__2_threads) \
	X(tx_role__3_threads) \
	X(tx_role__passed_on) \
	X(tx_role__passed_on_and_entered)

#define SABOTAGES(X)                       \
	X(enter_acquire, RELAXED, relaxed) \
	X(enter_acquire, DROPPED, dropped) \
	X(enter_note, RELAXED, relaxed)    \
	X(enter_note, DROPPED, dropped)    \
	X(leave_release, RELAXED, relaxed) \
	X(leave_release, DROPPED, dropped) \
	X(leave_note, RELAXED, relaxed)    \
	X(leave_note, DROPPED, dropped)    \
	X(pass_release, RELAXED, relaxed)  \
	X(pass_release, DROPPED, dropped)

MODEL_MAIN(SCENARIOS, SABOTAGES)
