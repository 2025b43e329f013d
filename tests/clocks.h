/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Time in tests.
 */
#ifndef URDS_TESTS_CLOCKS_H
#define URDS_TESTS_CLOCKS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline double seconds_since(uint64_t t)
{
	return (double)(now_ns() - t) / 1e9;
}

/* Wine: most calls pass by one server, which gets its turn as others do. */
#ifdef _WIN32
#define SLOW_HERE 4
#else
#define SLOW_HERE 1
#endif

/* Under sanitizers and emulators everything takes longer. */
static inline unsigned slow(void)
{
	const char *s = getenv("URDS_TEST_SLOW");
	int n = s ? atoi(s) : SLOW_HERE;

	return n > 0 ? (unsigned)n : 1;
}

static inline void nap_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

#endif
