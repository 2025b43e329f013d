/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What -c measures with: a thread per processor that runs only when nothing else does. The processor time
 * they get is what the others left over.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stress.h"

struct soaker {
	pthread_t thread;
	uintptr_t clock; /* its processor time */
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

static const char *start_all(struct stress_run *r, const unsigned *cpus, unsigned n)
{
	struct stress_soak *k = calloc(1, sizeof(*k) + n * sizeof(k->soakers[0]));
	const char *why = NULL;
	struct soaker *s;
	int err;

	if (!k)
		return "no memory";
	r->soak = k;
	pthread_mutex_init(&k->gate, NULL);
	pthread_mutex_lock(&k->gate);
	while (k->n < n && !why) {
		s = &k->soakers[k->n];
		err = pthread_create(&s->thread, NULL, soak, k);
		why = err ? tool_strerror(err) : stress_cpu_leave(s->thread, cpus[k->n], &s->clock);
		k->n += !err;
	}
	return why;
}

int stress_soak_start(struct stress_run *r)
{
	unsigned *cpus = NULL, n = 0;
	const char *why = stress_cpus(&cpus, &n);

	if (!why)
		why = start_all(r, cpus, n);
	free(cpus);
	if (why) {
		tool_error("cannot measure the processors (-c): %s; leave -c out", why);
		return -1;
	}
	stress_say("started %u cycle soaking processes\n", r->soak->n);
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
	uint64_t all = 0;
	unsigned i;

	for (i = 0; r->soak && i < r->soak->n; i++)
		all += stress_cpu_ns(r->soak->soakers[i].clock);
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
