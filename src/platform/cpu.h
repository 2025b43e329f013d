/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processor under our feet.
 */
#ifndef URDS_PLATFORM_CPU_H
#define URDS_PLATFORM_CPU_H

#include <stdatomic.h>

/* One step of a spin: tells the core, and a hypervisor, that we wait. */
static inline void urds_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH >= 7)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* After a read-modify-write of whatever order: nothing before is seen after what follows. On x86 the write itself was
 * a full fence. */
static inline void urds_cpu_fence_after_rmw(void)
{
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The CPU this thread runs on, or -1. Out of date as soon as it is returned. */
int urds_cpu_current(void);

#endif
