/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * runtime/doorbell.h checked: a consumer that sleeps for good is a deadlock.
 *
 * Work is published relaxed on purpose: only the bell's fences order it.
 */
#include <stdatomic.h>

#define URDS_MODEL_ATOMICS "model_atomics.h"
#define MODEL_PRIMITIVE doorbell
#include "runtime/doorbell.h"
#include "model_test.h"

static struct urds_doorbell bell;
static _Atomic(uint32_t) work;
static uint32_t expected;
static int rung[MC_THREADS + 1], armed; /* ghosts */

static void setup(void)
{
	atomic_init(&bell.word, URDS_DOORBELL_AWAKE);
	atomic_init(&work, 0);
	memset(rung, 0, sizeof(rung));
	armed = 0;
	expected = 1;
}

static void setup2(void)
{
	setup();
	expected = 2;
}

static bool none(uint32_t done)
{
	return atomic_load_explicit(&work, memory_order_relaxed) == done;
}

static void consume(bool heavy)
{
	for (uint32_t done = 0; done < expected;
	     done = (uint32_t)atomic_load_explicit(&work, memory_order_relaxed))
		while (none(done)) {
			urds_doorbell_arm(&bell);
			armed++;
			if (heavy)
				mc_membarrier();
			if (none(done))
				mc_futex_wait(&bell.word, URDS_DOORBELL_ASLEEP);
			urds_doorbell_disarm(&bell);
		}
}

static void consumer(void)
{
	consume(false);
}

static void consumer_heavy(void)
{
	consume(true);
}

static void produce(bool light)
{
	atomic_fetch_add_explicit(&work, 1, memory_order_relaxed);
	if (light ? urds_doorbell_ring_light(&bell) : urds_doorbell_ring(&bell)) {
		rung[mc_self()]++;
		mc_futex_wake(&bell.word);
	}
}

static void producer(void)
{
	produce(false);
}

static void producer2(void)
{
	produce(false);
	produce(false);
}

static void producer_light(void)
{
	produce(true);
}

static void finish(void)
{
	int n = 0;

	for (int i = 0; i <= MC_THREADS; i++)
		n += rung[i];
	/* A sleeper is woken once, and nobody is called who is awake. */
	MC_ASSERT(n <= armed);
	MC_ASSERT(!urds_doorbell_ring(&bell));
	MC_ASSERT(!urds_doorbell_ring_light(&bell));
}

#define TEST(name, ...) static const struct mc_test test_##name = {#name, __VA_ARGS__}
TEST(doorbell__2_threads, setup, {consumer, producer}, finish);
TEST(doorbell__twice, setup2, {consumer, producer2}, finish);
TEST(doorbell__3_threads, setup2, {consumer, producer, producer}, finish);
TEST(doorbell__light_2_threads, setup, {consumer_heavy, producer_light}, finish);
TEST(doorbell__light_3_threads, setup2, {consumer_heavy, producer_light, producer_light}, finish);

#define SCENARIOS(X)                 \
	X(doorbell__2_threads)       \
	X(doorbell__twice)           \
	X(doorbell__3_threads)       \
	X(doorbell__light_2_threads) \
	X(doorbell__light_3_threads)

#define SABOTAGES(X)                           \
	X(bell_arm, DROPPED, dropped)          \
	X(bell_arm_fence, RELAXED, relaxed)    \
	X(bell_arm_fence, DROPPED, dropped)    \
	X(bell_disarm, DROPPED, dropped)       \
	X(bell_ring_fence, RELAXED, relaxed)   \
	X(bell_ring_fence, DROPPED, dropped)   \
	X(bell_take_sleeper, DROPPED, dropped) \
	X(membarrier, RELAXED, relaxed)        \
	X(membarrier, DROPPED, dropped)

MODEL_MAIN(SCENARIOS, SABOTAGES)
