/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/thread.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "wire/types.h"

struct start {
	void (*fn)(void *arg);
	void *arg;
	char name[16];
};

static void *run(void *p)
{
	struct start s = *(struct start *)p;

	free(p);
	(void)pthread_setname_np(pthread_self(), s.name);
	s.fn(s.arg);
	return NULL;
}

int urds_thread_start(struct urds_thread *t, const char *name, void (*fn)(void *arg), void *arg)
{
	struct start *s = malloc(sizeof(*s));
	sigset_t all, old;
	pthread_t id;
	int rc;

	if (!s)
		return -URDS_ENOMEM;
	s->fn = fn;
	s->arg = arg;
	strncpy(s->name, name, sizeof(s->name) - 1);
	s->name[sizeof(s->name) - 1] = '\0';
	/* Inherited: there is no moment at which the new thread could run a handler. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&id, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		free(s);
		return rc == ENOMEM ? -URDS_ENOMEM : -URDS_EAGAIN;
	}
	t->handle = (uintptr_t)id;
	t->is_running = true;
	return 0;
}

void urds_thread_join(struct urds_thread *t)
{
	int rc;

	if (!t->is_running)
		return;
	rc = pthread_join((pthread_t)t->handle, NULL);
	assert(rc == 0);
	(void)rc;
	t->is_running = false;
}

uintptr_t urds_thread_id(void)
{
	static _Thread_local char here;

	return (uintptr_t)&here;
}

void urds_thread_yield(void)
{
	sched_yield();
}
