/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdlib.h>

#include "platform/clock.h"
#include "platform/futex.h"
#include "platform/lock.h"
#include "platform/thread.h"
#include "system.h"
#include "tap.h"
#include "wire/types.h"

#define THREADS 4
#define ROUNDS 30000

static struct urds_lock lock;
static struct urds_rwlock rwlock;
static uint64_t left, right; /* plain on purpose */
static _Atomic uint64_t sink_sum;

static void spend(int n)
{
	for (volatile int i = 0; i < n; i++)
		;
}

static void run_all(void (*fn)(void *arg))
{
	struct urds_thread t[THREADS] = {0};

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(urds_thread_start(&t[i], "lock", fn, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		urds_thread_join(&t[i]);
}

static void count_up(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		/* Long holds now and then, so that others get to sleep. */
		if (i % 7 == 0) {
			while (!urds_lock_try(&lock))
				;
			left++;
			urds_lock_release(&lock);
			continue;
		}
		urds_lock_acquire(&lock);
		left++;
		spend(i % 1000 == 0 ? 20000 : 5);
		urds_lock_release(&lock);
	}
}

static void lock__excludes(void)
{
	left = 0;
	run_all(count_up);
	CHECK_EQ(left, THREADS * ROUNDS);
	CHECK_EQ(atomic_load(&lock.word), 0);
}

static void read_or_write(void *arg)
{
	uint64_t bad = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if ((i + (int)(uintptr_t)arg) % 16 == 0) {
			urds_rwlock_write_acquire(&rwlock);
			left++;
			spend(i % 512 == 0 ? 20000 : 5);
			right++;
			urds_rwlock_write_release(&rwlock);
		} else {
			urds_rwlock_read_acquire(&rwlock);
			bad += left != right;
			spend(i % 1000 == 0 ? 20000 : 1);
			urds_rwlock_read_release(&rwlock);
		}
	}
	atomic_fetch_add(&sink_sum, bad);
}

static void rwlock__readers_never_see_half_a_write(void)
{
	left = right = 0;
	run_all(read_or_write);
	CHECK_EQ(atomic_load(&sink_sum), 0);
	CHECK_EQ(left, right);
	CHECK_EQ(left, THREADS * ROUNDS / 16);
	CHECK_EQ(atomic_load(&rwlock.word) & ~URDS_RW_PENDING, 0);
}

/* A lock inside an object that its last holder frees: release must not touch it afterwards. */
struct object {
	struct urds_lock lock;
	struct urds_rwlock rwlock;
	int users;
};

static struct object *_Atomic shared;

static void leave(void *arg)
{
	struct object *o = atomic_load(&shared);
	bool is_last;

	urds_rwlock_read_acquire(&o->rwlock);
	spend(50);
	urds_rwlock_read_release(&o->rwlock);
	urds_lock_acquire(&o->lock);
	urds_rwlock_write_acquire(&o->rwlock);
	is_last = --o->users == 0;
	urds_rwlock_write_release(&o->rwlock);
	urds_lock_release(&o->lock);
	if (is_last)
		free(o);
}

static void lock__may_be_freed_by_its_last_holder(void)
{
	for (int i = 0; i < 200; i++) {
		struct object *o = calloc(1, sizeof(*o));

		o->users = THREADS;
		atomic_store(&shared, o);
		run_all(leave);
	}
}

static _Atomic uint32_t word;

static void futex__times_out(void)
{
	urds_ns t0 = urds_clock_ns();

	CHECK_EQ(urds_futex_wait(&word, 0, t0 + URDS_MS(30)), -URDS_ETIMEDOUT);
	CHECK(urds_clock_ns() - t0 >= URDS_MS(30));
	CHECK_EQ(urds_futex_wait(&word, 0, 1), -URDS_ETIMEDOUT); /* long past */
	CHECK_EQ(urds_futex_wait(&word, 1, URDS_NEVER), 0);	 /* differs */
	CHECK_EQ(urds_futex_wait(&word, 1, 1), 0);
}

static void sleeper(void *arg)
{
	while (atomic_load(&word) == 0)
		(void)urds_futex_wait(&word, 0, URDS_NEVER);
	atomic_fetch_add(&word, 1);
}

static void futex__wakes(void)
{
	struct urds_thread t[THREADS] = {0};

	atomic_store(&word, 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(urds_thread_start(&t[i], "sleeper", sleeper, NULL), 0);
	(void)urds_futex_wait(&word, 0, urds_clock_ns() + URDS_MS(20));
	atomic_store(&word, 1);
	urds_futex_wake(&word, THREADS);
	for (int i = 0; i < THREADS; i++)
		urds_thread_join(&t[i]);
	CHECK_EQ(atomic_load(&word), 1 + THREADS);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	system_init();
	T_RUN(lock__excludes);
	T_RUN(rwlock__readers_never_see_half_a_write);
	T_RUN(lock__may_be_freed_by_its_last_holder);
	T_RUN(futex__times_out);
	T_RUN(futex__wakes);
	return t_done();
}
