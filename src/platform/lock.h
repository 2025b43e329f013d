/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two small locks, a mutex of 4 bytes and a readers-mostly lock of 4 bytes, and the annotations
 * that let clang -Wthread-safety check who holds what. Neither is recursive. A lock may be freed by
 * whoever holds it last: release touches the word once.
 */
#ifndef URDS_PLATFORM_LOCK_H
#define URDS_PLATFORM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#define URDS_TSA_(x) __attribute__((x))
#else
#define URDS_TSA_(x)
#endif

#define URDS_CAPABILITY(name) URDS_TSA_(capability(name))
/* On functions, after the parameter list: held at entry and at exit. */
#define URDS_HOLDS(...) URDS_TSA_(requires_capability(__VA_ARGS__))
#define URDS_HOLDS_SHARED(...) URDS_TSA_(requires_shared_capability(__VA_ARGS__))
#define URDS_ACQUIRES(...) URDS_TSA_(acquire_capability(__VA_ARGS__))
#define URDS_ACQUIRES_SHARED(...) URDS_TSA_(acquire_shared_capability(__VA_ARGS__))
#define URDS_TRY_ACQUIRES(ok, ...) URDS_TSA_(try_acquire_capability(ok, __VA_ARGS__))
#define URDS_RELEASES(...) URDS_TSA_(release_capability(__VA_ARGS__))
#define URDS_RELEASES_SHARED(...) URDS_TSA_(release_shared_capability(__VA_ARGS__))
#define URDS_EXCLUDES(...) URDS_TSA_(locks_excluded(__VA_ARGS__))
/* For code that hands a lock over in a way the checker cannot follow. */
#define URDS_UNCHECKED URDS_TSA_(no_thread_safety_analysis)
/* On struct members and globals. A compiler can only see a sibling member from C with late parsing
 * (clang 20 and later, -fexperimental-late-parse-attributes); elsewhere this is for the reader. */
#if defined(__clang__) && defined(URDS_LATE_PARSED_ATTRIBUTES)
#define URDS_GUARDED_BY(x) URDS_TSA_(guarded_by(x))
#else
#define URDS_GUARDED_BY(x)
#endif

/* 0 free, 1 held, 2 held and somebody may sleep. All zero is a valid free lock. */
struct URDS_CAPABILITY("mutex") urds_lock {
	_Atomic uint32_t word;
};

void urds_lock_slow_(struct urds_lock *l);
void urds_lock_wake_(struct urds_lock *l);

static inline void urds_lock_init(struct urds_lock *l)
{
	atomic_init(&l->word, 0);
}

static inline bool urds_lock_try(struct urds_lock *l) URDS_TRY_ACQUIRES(true, l) URDS_UNCHECKED;
static inline void urds_lock_acquire(struct urds_lock *l) URDS_ACQUIRES(l) URDS_UNCHECKED;
static inline void urds_lock_release(struct urds_lock *l) URDS_RELEASES(l) URDS_UNCHECKED;

static inline bool urds_lock_try(struct urds_lock *l)
{
	uint32_t free_word = 0;

	return atomic_compare_exchange_strong_explicit(&l->word, &free_word, 1,
						       memory_order_acquire, memory_order_relaxed);
}

static inline void urds_lock_acquire(struct urds_lock *l)
{
	if (!urds_lock_try(l))
		urds_lock_slow_(l);
}

static inline void urds_lock_release(struct urds_lock *l)
{
	if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
		urds_lock_wake_(l);
}

/* Low bits: readers inside. Readers hold back while a writer waits, so a reader must not enter
 * twice. All zero is a valid free lock. */
#define URDS_RW_WRITER 0x80000000u  /* a writer is inside */
#define URDS_RW_PENDING 0x40000000u /* a writer waits */
#define URDS_RW_ASLEEP 0x20000000u  /* somebody may sleep */
#define URDS_RW_READERS 0x1fffffffu

struct URDS_CAPABILITY("rwlock") urds_rwlock {
	_Atomic uint32_t word;
};

void urds_rwlock_read_slow_(struct urds_rwlock *l);
void urds_rwlock_write_slow_(struct urds_rwlock *l);
void urds_rwlock_wake_(struct urds_rwlock *l);

static inline void urds_rwlock_read_acquire(struct urds_rwlock *l)
	URDS_ACQUIRES_SHARED(l) URDS_UNCHECKED;
static inline void urds_rwlock_read_release(struct urds_rwlock *l)
	URDS_RELEASES_SHARED(l) URDS_UNCHECKED;
static inline void urds_rwlock_write_acquire(struct urds_rwlock *l) URDS_ACQUIRES(l) URDS_UNCHECKED;
static inline void urds_rwlock_write_release(struct urds_rwlock *l) URDS_RELEASES(l) URDS_UNCHECKED;

static inline void urds_rwlock_read_acquire(struct urds_rwlock *l)
{
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed);

	if ((w & (URDS_RW_WRITER | URDS_RW_PENDING)) ||
	    !atomic_compare_exchange_strong_explicit(&l->word, &w, w + 1, memory_order_acquire,
						     memory_order_relaxed))
		urds_rwlock_read_slow_(l);
}

static inline void urds_rwlock_read_release(struct urds_rwlock *l)
{
	uint32_t w = atomic_load_explicit(&l->word, memory_order_relaxed), next;

	/* One atomic step, so that the word is not touched once a writer could free it. */
	do {
		next = w - 1;
		if (!(next & URDS_RW_READERS))
			next &= ~URDS_RW_ASLEEP;
	} while (!atomic_compare_exchange_weak_explicit(&l->word, &w, next, memory_order_release,
							memory_order_relaxed));
	if ((w & URDS_RW_ASLEEP) && !(next & URDS_RW_ASLEEP))
		urds_rwlock_wake_(l);
}

static inline void urds_rwlock_write_acquire(struct urds_rwlock *l)
{
	uint32_t w = 0;

	if (!atomic_compare_exchange_strong_explicit(&l->word, &w, URDS_RW_WRITER,
						     memory_order_acquire, memory_order_relaxed))
		urds_rwlock_write_slow_(l);
}

static inline void urds_rwlock_write_release(struct urds_rwlock *l)
{
	uint32_t w = atomic_fetch_and_explicit(&l->word, ~(URDS_RW_WRITER | URDS_RW_ASLEEP),
					       memory_order_release);

	if (w & URDS_RW_ASLEEP)
		urds_rwlock_wake_(l);
}

#endif
