/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads of our own, who am I, and doing a thing once.
 */
#ifndef URDS_PLATFORM_THREAD_H
#define URDS_PLATFORM_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct urds_thread {
	uintptr_t handle; /* the system's */
	bool is_running;  /* started and not joined */
};

/* Runs @fn(@arg) with every signal blocked, so that handlers run on the application's threads only.
 * @name is copied; Linux shows 15 bytes of it. Return: 0, -URDS_ENOMEM, -URDS_EAGAIN (limit). */
int urds_thread_start(struct urds_thread *t, const char *name, void (*fn)(void *arg), void *arg);

/* Waits for the end. Does nothing if not running. Never from @t itself. */
void urds_thread_join(struct urds_thread *t);

/* Unlike any other live thread of the process; never 0; kept through fork. Costs one TLS access. */
uintptr_t urds_thread_id(void);

/* Lets another thread run, if one waits for this processor. */
void urds_thread_yield(void);

struct urds_once {
	_Atomic uint32_t state; /* 0 not yet, 1 running, 2 done */
};

void urds_once_slow_(struct urds_once *o, void (*fn)(void));

/* @fn has run, once, when this returns. */
static inline void urds_once(struct urds_once *o, void (*fn)(void))
{
	if (atomic_load_explicit(&o->state, memory_order_acquire) != 2)
		urds_once_slow_(o, fn);
}

#endif
