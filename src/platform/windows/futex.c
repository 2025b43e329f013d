/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * WaitOnAddress where there is one (Windows 8); elsewhere a few buckets of a lock and a condition variable, chosen by the
 * word's address.
 */
#include "platform/futex.h"

#include "platform/clock.h"
#include "platform/windows/win.h"

#define SYNCH_DLL "api-ms-win-core-synch-l1-2-0.dll"
#define BUCKETS 64u

static BOOL(WINAPI *wait_on)(volatile VOID *, PVOID, SIZE_T, DWORD);
static VOID(WINAPI *wake_one)(PVOID);
static VOID(WINAPI *wake_all)(PVOID);
static INIT_ONCE once = INIT_ONCE_STATIC_INIT; /* not ours, which waits on a futex */

static struct {
	SRWLOCK lock;
	CONDITION_VARIABLE changed;
	_Atomic uint32_t sleepers;
} bucket[BUCKETS]; /* all zero: SRWLOCK_INIT, CONDITION_VARIABLE_INIT */

static BOOL CALLBACK find_all(PINIT_ONCE o, PVOID arg, PVOID *out)
{
	wake_one = (VOID(WINAPI *)(PVOID))(void (*)(void))urds_win_newer(SYNCH_DLL,
									 "WakeByAddressSingle");
	wake_all = (VOID(WINAPI *)(PVOID))(void (*)(void))urds_win_newer(SYNCH_DLL,
									 "WakeByAddressAll");
	if (wake_one && wake_all)
		wait_on = (BOOL(WINAPI *)(volatile VOID *, PVOID, SIZE_T, DWORD))(
			void (*)(void))urds_win_newer(SYNCH_DLL, "WaitOnAddress");
	return TRUE;
}

static void find(void)
{
	(void)InitOnceExecuteOnce(&once, find_all, NULL, NULL);
}

static unsigned bucket_of(const void *word)
{
	return (unsigned)(((uintptr_t)word >> 2) * 2654435761u >> 16) % BUCKETS;
}

/* Rounded up: waking before the deadline would make the caller spin to it. */
static DWORD ms_until(urds_ns deadline)
{
	urds_ns now, ms;

	if (deadline == URDS_NEVER)
		return INFINITE;
	now = urds_clock_ns();
	if (now >= deadline)
		return 0;
	ms = (deadline - now + 999999u) / 1000000u;
	return ms < INFINITE ? (DWORD)ms : INFINITE - 1;
}

static void sleep_in_bucket(_Atomic uint32_t *word, uint32_t val, DWORD ms)
{
	unsigned b = bucket_of(word);

	AcquireSRWLockExclusive(&bucket[b].lock);
	/* Before the look: a waker that finds nobody has changed the word before. */
	atomic_fetch_add(&bucket[b].sleepers, 1);
	if (atomic_load(word) == val)
		(void)SleepConditionVariableSRW(&bucket[b].changed, &bucket[b].lock, ms, 0);
	atomic_fetch_sub(&bucket[b].sleepers, 1);
	ReleaseSRWLockExclusive(&bucket[b].lock);
}

int urds_futex_wait(_Atomic uint32_t *word, uint32_t val, urds_ns deadline)
{
	DWORD saved = GetLastError(), ms = ms_until(deadline);
	int rc = 0;

	find();
	if (ms == 0) {
		rc = atomic_load(word) == val ? -URDS_ETIMEDOUT : 0;
	} else {
		if (wait_on)
			(void)wait_on((void *)(uintptr_t)word, &val, sizeof(val), ms);
		else
			sleep_in_bucket(word, val, ms);
		if (deadline != URDS_NEVER && urds_clock_ns() >= deadline &&
		    atomic_load(word) == val)
			rc = -URDS_ETIMEDOUT;
	}
	SetLastError(saved);
	return rc;
}

void urds_futex_wake(_Atomic uint32_t *word, int n)
{
	DWORD saved = GetLastError();
	unsigned b = bucket_of(word);

	find();
	if (wait_on) {
		(n == 1 ? wake_one : wake_all)((void *)(uintptr_t)word);
	} else {
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&bucket[b].sleepers) > 0) {
			/* All: others sleep here for other words. The lock, so that none is between look and sleep. */
			AcquireSRWLockExclusive(&bucket[b].lock);
			ReleaseSRWLockExclusive(&bucket[b].lock);
			WakeAllConditionVariable(&bucket[b].changed);
		}
	}
	SetLastError(saved);
}
