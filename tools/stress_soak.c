/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What -c measures with: a thread per processor that runs only when nothing else does. The processor time
 * they get is what the others left over.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stress.h"

#define CPUS_MAX 8192u /* the largest a Linux kernel is built for */

struct soaker {
	pthread_t thread;
	clockid_t clock; /* its processor time */
};

struct stress_soak {
	pthread_mutex_t gate; /* ours until the test starts: until then they sleep */
	bool is_open;
	_Atomic bool is_over;
	unsigned n;
	struct soaker soakers[];
};

static void *soak(void *arg)
{
	struct stress_soak *k = arg;

	pthread_mutex_lock(&k->gate);
	pthread_mutex_unlock(&k->gate);
	while (!atomic_load_explicit(&k->is_over, memory_order_relaxed))
		;
	return NULL;
}

static int start_one(struct stress_soak *k, size_t cpu, cpu_set_t *one)
{
	const struct sched_param none = {.sched_priority = 0};
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	struct soaker *s = &k->soakers[k->n];
	int err = pthread_create(&s->thread, NULL, soak, k);

	if (err)
		return err;
	k->n++;
	CPU_ZERO_S(size, one);
	CPU_SET_S(cpu, size, one);
	err = pthread_setaffinity_np(s->thread, size, one);
	if (!err)
		err = pthread_setschedparam(s->thread, SCHED_IDLE, &none);
	return err ? err : pthread_getcpuclockid(s->thread, &s->clock);
}

static int start_all(struct stress_run *r, cpu_set_t *usable, cpu_set_t *one)
{
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX), cpu;
	struct stress_soak *k;
	int err = 0;

	if (sched_getaffinity(0, size, usable) < 0)
		return errno;
	k = calloc(1, sizeof(*k) + (size_t)CPU_COUNT_S(size, usable) * sizeof(k->soakers[0]));
	if (!k)
		return ENOMEM;
	r->soak = k;
	pthread_mutex_init(&k->gate, NULL);
	pthread_mutex_lock(&k->gate);
	for (cpu = 0; cpu < CPUS_MAX && !err; cpu++)
		if (CPU_ISSET_S(cpu, size, usable))
			err = start_one(k, cpu, one);
	return err;
}

int stress_soak_start(struct stress_run *r)
{
	cpu_set_t *usable = CPU_ALLOC(CPUS_MAX), *one = CPU_ALLOC(CPUS_MAX);
	int err = usable && one ? start_all(r, usable, one) : ENOMEM;

	CPU_FREE(usable);
	CPU_FREE(one);
	if (err) {
		tool_error("cannot measure the processors (-c): %s; leave -c out", strerror(err));
		return -1;
	}
	printf("started %u cycle soaking processes\n", r->soak->n);
	return 0;
}

void stress_soak_go(struct stress_run *r)
{
	if (!r->soak || r->soak->is_open)
		return;
	r->soak->is_open = true;
	pthread_mutex_unlock(&r->soak->gate);
}

uint64_t stress_soak_ns(const struct stress_run *r)
{
	struct timespec t;
	uint64_t all = 0;
	unsigned i;

	for (i = 0; r->soak && i < r->soak->n; i++)
		if (clock_gettime(r->soak->soakers[i].clock, &t) == 0)
			all += (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return r->soak ? all / r->soak->n : 0;
}

void stress_soak_end(struct stress_run *r)
{
	unsigned i;

	if (!r->soak)
		return;
	atomic_store(&r->soak->is_over, true);
	stress_soak_go(r);
	for (i = 0; i < r->soak->n; i++)
		pthread_join(r->soak->soakers[i].thread, NULL);
	pthread_mutex_destroy(&r->soak->gate);
	free(r->soak);
	r->soak = NULL;
}
