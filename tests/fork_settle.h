/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The allocators of these compilers' address and thread sanitizers take no care of fork: a lock that another thread holds
 * then is held in the child for ever (seen: calloc() in the child, asleep in SizeClassAllocator64). Where one is at work, a
 * test forks while its other threads sleep.
 */
#ifndef URDS_TESTS_FORK_SETTLE_H
#define URDS_TESTS_FORK_SETTLE_H

#include "sanitized.h"

#if SANITIZED
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dirs.h"

/* Waits until no thread but this one runs, or for 2 s. */
static inline void fork_settle(void)
{
	for (int busy = 1, tries = 0; busy && tries < 2000; tries++) {
		DIR *d = dir_open("/proc/self/task");
		struct dirent *e;

		busy = 0;
		while (d && (e = readdir(d))) {
			char path[300], state = 'S';
			FILE *f;

			if (atoi(e->d_name) == gettid() || e->d_name[0] == '.')
				continue;
			snprintf(path, sizeof path, "/proc/self/task/%s/stat", e->d_name);
			f = fopen(path, "re");
			if (f) {
				if (fscanf(f, "%*d %*[^)]) %c", &state) == 1 && state == 'R')
					busy++;
				fclose(f);
			}
		}
		if (d)
			closedir(d);
		if (busy)
			usleep(1000);
	}
}
#else
static inline void fork_settle(void)
{
}
#endif

#endif
