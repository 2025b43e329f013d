/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Signals, in a thread of their own, where any call may be made; time.
 */
#include "system.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static sigset_t set;
static void (*on_stop)(void), (*on_reset)(void), (*on_alarm)(void);

static void *signals(void *arg)
{
	int sig;

	while (sigwait(&set, &sig) == 0) {
		if (sig == SIGUSR1)
			on_reset();
		else if (sig == SIGALRM)
			on_alarm();
		else
			on_stop();
	}
	return arg;
}

void system_init(void)
{
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void system_signals(void (*stop)(void), void (*reset)(void))
{
	pthread_t thread;

	on_stop = stop;
	on_reset = reset;
	if (pthread_create(&thread, NULL, signals, NULL) != 0)
		abort();
}

void system_alarm(unsigned seconds, void (*ring)(void))
{
	on_alarm = ring;
	alarm(seconds);
}

int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void nap_ms(unsigned ms)
{
	usleep(ms * 1000);
}
