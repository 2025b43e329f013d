/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/process.h"

#include <pthread.h>
#include <stdlib.h>

int urds_process_init(void)
{
	return 0;
}

void urds_at_exit(void (*fn)(void))
{
	atexit(fn);
}

void urds_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	pthread_atfork(prepare, parent, child);
}
