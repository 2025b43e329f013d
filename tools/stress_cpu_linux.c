/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urds stress asks of the processors of a Linux host: SCHED_IDLE and SCHED_RR, clocks of threads, /proc/stat.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stress.h"

#define CPUS_MAX 8192u /* the largest a Linux kernel is built for */

static const char *list(const cpu_set_t *usable, unsigned **which, unsigned *n)
{
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	unsigned cpu;

	*which = malloc((size_t)CPU_COUNT_S(size, usable) * sizeof(**which));
	if (!*which)
		return strerror(ENOMEM);
	for (cpu = 0, *n = 0; cpu < CPUS_MAX; cpu++)
		if (CPU_ISSET_S(cpu, size, usable))
			(*which)[(*n)++] = cpu;
	return NULL;
}

const char *stress_cpus(unsigned **which, unsigned *n)
{
	cpu_set_t *usable = CPU_ALLOC(CPUS_MAX);
	const char *why;

	if (!usable)
		return strerror(ENOMEM);
	why = sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), usable) < 0 ? strerror(errno)
									 : list(usable, which, n);
	CPU_FREE(usable);
	return why;
}

const char *stress_cpu_leave(pthread_t t, unsigned cpu, uintptr_t *clock)
{
	const struct sched_param none = {.sched_priority = 0};
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	cpu_set_t *one = CPU_ALLOC(CPUS_MAX);
	clockid_t id = 0;
	int err;

	if (!one)
		return strerror(ENOMEM);
	CPU_ZERO_S(size, one);
	CPU_SET_S(cpu, size, one);
	err = pthread_setaffinity_np(t, size, one);
	CPU_FREE(one);
	if (!err)
		err = pthread_setschedparam(t, SCHED_IDLE, &none);
	if (!err)
		err = pthread_getcpuclockid(t, &id);
	*clock = (uintptr_t)id;
	return err ? strerror(err) : NULL;
}

uint64_t stress_cpu_ns(uintptr_t clock)
{
	struct timespec t;

	if (clock_gettime((clockid_t)clock, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *stress_real_time(bool has_soakers)
{
	const struct sched_param p = {.sched_priority = 1};
	static char why[128];

	if (sched_setscheduler(0, SCHED_RR, &p) == 0)
		return NULL;
	snprintf(why, sizeof(why), "%s; start this with privilege, too", strerror(errno));
	return why;
}

struct stress_host stress_host_now(void)
{
	unsigned long long v[8] = {0}, intr = 0;
	struct stress_host h = {0};
	FILE *f = fopen("/proc/stat", "re");
	char *line = NULL;
	size_t cap = 0;
	int i;

	while (f && getline(&line, &cap, f) > 0) {
		if (strncmp(line, "cpu ", 4) == 0)
			sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1],
			       &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
		else if (sscanf(line, "intr %llu", &intr) == 1)
			break;
	}
	free(line);
	if (f)
		fclose(f);
	for (i = 0; i < 8; i++)
		h.all += v[i];
	h.user = v[0] + v[1];
	h.system = v[2];
	h.idle = v[3] + v[4];
	h.irq = v[5] + v[6];
	h.intr = intr;
	return h;
}
