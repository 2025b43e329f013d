/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urds stress asks of the processors of a Windows host.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stress.h"

#include <winternl.h>

#define GROUP_MAX \
	64u /* processors of a group, which is what a process has unless it asks for more */

static const char *last_error(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "error %lu", GetLastError());
	return text;
}

const char *stress_cpus(unsigned **which, unsigned *n)
{
	DWORD_PTR usable, all;
	unsigned cpu;

	if (!GetProcessAffinityMask(GetCurrentProcess(), &usable, &all))
		return last_error();
	if (!usable)
		return "this process has processors of several groups";
	*which = malloc(GROUP_MAX * sizeof(**which));
	if (!*which)
		return "no memory";
	for (cpu = 0, *n = 0; cpu < GROUP_MAX; cpu++)
		if (usable >> cpu & 1)
			(*which)[(*n)++] = cpu;
	return NULL;
}

const char *stress_cpu_leave(pthread_t t, unsigned cpu, uintptr_t *clock)
{
	HANDLE h = pthread_gethandle(t);

	*clock = (uintptr_t)h;
	if (!SetThreadAffinityMask(h, (DWORD_PTR)1 << cpu) ||
	    !SetThreadPriority(h, THREAD_PRIORITY_IDLE))
		return last_error();
	return NULL;
}

static uint64_t count(const FILETIME *t)
{
	return (uint64_t)t->dwHighDateTime << 32 | t->dwLowDateTime;
}

uint64_t stress_cpu_ns(uintptr_t clock)
{
	FILETIME start, end, kernel, user;

	if (!GetThreadTimes((HANDLE)clock, &start, &end, &kernel, &user))
		return 0;
	return (count(&kernel) + count(&user)) * 100u;
}

/* Of the whole process: the system gives a thread no priority that the class of its process has not. Its lowest would then be
 * above every other process. */
const char *stress_real_time(bool has_soakers)
{
	HANDLE self = GetCurrentProcess();
	DWORD before = GetPriorityClass(self);
	static char why[64];

	if (has_soakers)
		return "on Windows it is the whole process that gets it, so that -c cannot give way to others; "
		       "leave -c out";
	if (!SetPriorityClass(self, REALTIME_PRIORITY_CLASS)) {
		snprintf(why, sizeof(why), "%s; start this as an administrator, too", last_error());
		return why;
	}
	if (GetPriorityClass(self) == REALTIME_PRIORITY_CLASS)
		return NULL;
	/* A user without the privilege gets less, and no error. */
	SetPriorityClass(self, before);
	return "Windows gave less; start this as an administrator, too";
}

/* Interrupts, and the time of these and of what they put off: Windows counts it as the kernel's. */
static void interrupts(struct stress_host *h)
{
	SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION v[GROUP_MAX];
	ULONG len = 0;

	if (NtQuerySystemInformation(SystemProcessorPerformanceInformation, v, sizeof(v), &len) < 0)
		return;
	for (ULONG i = 0; i < len / sizeof(v[0]); i++) {
		h->irq += (uint64_t)v[i].Reserved1[0].QuadPart +
			  (uint64_t)v[i].Reserved1[1].QuadPart;
		h->intr += v[i].Reserved2;
	}
}

struct stress_host stress_host_now(void)
{
	FILETIME idle, kernel, user;
	struct stress_host h = {0};
	uint64_t busy;

	if (!GetSystemTimes(&idle, &kernel, &user))
		return h;
	interrupts(&h);
	h.user = count(&user);
	h.idle = count(&idle);
	h.all = count(&kernel) + h.user; /* the kernel's have the idle ones in them */
	busy = h.all - h.user - h.idle;
	h.system = busy > h.irq ? busy - h.irq : 0;
	return h;
}
