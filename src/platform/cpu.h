/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processor under our feet.
 */
#ifndef URDS_PLATFORM_CPU_H
#define URDS_PLATFORM_CPU_H

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

/* The CPU this thread runs on, or -1. Out of date as soon as it is returned. */
int urds_cpu_current(void);

#endif
