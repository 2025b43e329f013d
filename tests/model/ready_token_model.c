/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * runtime/ready_token.h checked: deliverers, receivers and a watcher; the token ends up where the
 * queue and the watch say.
 *
 * Queue length and watch are relaxed on purpose: only the token's word may make them visible.
 */
#include <stdatomic.h>

#define URDS_MODEL_ATOMICS "model_atomics.h"
#define MODEL_PRIMITIVE ready_token
#include "runtime/ready_token.h"
#include "model_test.h"

static struct urds_ready_token tok;
static _Atomic(uint32_t) queued, watched;
static uint32_t bytes; /* in the pair; plain: one thread at a time makes system calls */

static void setup(void)
{
	atomic_init(&tok.word, 0);
	atomic_init(&queued, 0);
	atomic_init(&watched, 1);
	MC_W(bytes, 0);
}

static void update(void)
{
	bool on;

	if (!urds_ready_enter(&tok))
		return;
	do {
		bool want = atomic_load_explicit(&watched, memory_order_relaxed) &&
			    atomic_load_explicit(&queued, memory_order_relaxed);

		on = urds_ready_is_on(&tok);
		MC_ASSERT(MC_R(bytes) == on);
		if (want && !on) {
			MC_W(bytes, MC_R(bytes) + 1);
			on = true;
		} else if (!want && on) {
			MC_W(bytes, MC_R(bytes) - 1);
			on = false;
		}
	} while (urds_ready_leave(&tok, on));
}

static void deliver(void)
{
	if (atomic_fetch_add_explicit(&queued, 1, memory_order_relaxed) == 0)
		update();
}

/* Takes all there is. */
static void receive(void)
{
	if (atomic_exchange_explicit(&queued, 0, memory_order_relaxed) != 0)
		update();
}

static void deliver_receive(void)
{
	deliver();
	receive();
}

static void watch(void)
{
	atomic_store_explicit(&watched, 1, memory_order_relaxed);
	update();
}

static void unwatch(void)
{
	atomic_store_explicit(&watched, 0, memory_order_relaxed);
	update();
}

static void setup_unwatched(void)
{
	setup();
	atomic_store_explicit(&watched, 0, memory_order_relaxed);
}

static void setup_queued(void)
{
	setup();
	deliver();
}

static void finish(void)
{
	bool want = atomic_load_explicit(&watched, memory_order_relaxed) &&
		    atomic_load_explicit(&queued, memory_order_relaxed);

	MC_ASSERT(MC_R(bytes) == want);
	MC_ASSERT(urds_ready_is_on(&tok) == want);
	/* Nobody is the changer, and nothing is left to do. */
	MC_ASSERT(urds_ready_enter(&tok));
	MC_ASSERT(!urds_ready_leave(&tok, want));
	MC_ASSERT(urds_ready_is_on(&tok) == want);
}

#define TEST(name, ...) static const struct mc_test test_##name = {#name, __VA_ARGS__}
TEST(ready_token__2_threads, setup, {deliver, receive}, finish);
TEST(ready_token__3_threads, setup, {deliver, deliver, receive}, finish);
TEST(ready_token__watch, setup_unwatched, {deliver, watch}, finish);
TEST(ready_token__watch_3_threads, setup_unwatched, {deliver, watch, receive}, finish);
TEST(ready_token__unwatch, setup_queued, {deliver_receive, unwatch}, finish);
TEST(ready_token__emptied_and_filled, setup_queued, {deliver, receive, receive}, finish);

#define SCENARIOS(X)                    \
	X(ready_token__2_threads)       \
	X(ready_token__3_threads)       \
	X(ready_token__watch)           \
	X(ready_token__watch_3_threads) \
	X(ready_token__unwatch)         \
	X(ready_token__emptied_and_filled)

#define SABOTAGES(X)                       \
	X(ready_acquire, RELAXED, relaxed) \
	X(ready_acquire, DROPPED, dropped) \
	X(ready_dirty, RELAXED, relaxed)   \
	X(ready_dirty, DROPPED, dropped)   \
	X(ready_release, RELAXED, relaxed) \
	X(ready_release, DROPPED, dropped) \
	X(ready_again, RELAXED, relaxed)   \
	X(ready_again, DROPPED, dropped)

MODEL_MAIN(SCENARIOS, SABOTAGES)
