/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A process that has no descriptor left.
 */
#ifndef URDS_TESTS_PLUGS_H
#define URDS_TESTS_PLUGS_H

#include <sys/resource.h>
#include <unistd.h>

#include "tap.h"

#define PLUGS 64

static struct rlimit plugs_limit;
static int plug[PLUGS];

/* No descriptor is left after this. */
static inline void plug_descriptors(void)
{
	struct rlimit few;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &plugs_limit), 0);
	for (unsigned i = 0; i < PLUGS; i++)
		plug[i] = dup(0);
	few = plugs_limit;
	few.rlim_cur = (rlim_t)plug[PLUGS - 1] + 1;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK(dup(0) < 0 && errno == EMFILE);
}

/* One is. */
static inline void pull_plug(void)
{
	CHECK_EQ(close(plug[0]), 0);
	plug[0] = -1;
}

static inline void unplug_descriptors(void)
{
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &plugs_limit), 0);
	for (unsigned i = 0; i < PLUGS; i++)
		if (plug[i] >= 0)
			CHECK_EQ(close(plug[i]), 0);
}

#endif
