/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

urds_ns urds_clock_ns(void)
{
	uint64_t now = read_clock(CLOCK_MONOTONIC);

	return now != 0 ? now : 1;
}

urds_ns urds_clock_coarse_ns(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
	uint64_t now = read_clock(CLOCK_MONOTONIC_COARSE);

	return now != 0 ? now : 1;
#else
	return urds_clock_ns();
#endif
}

uint64_t urds_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}
