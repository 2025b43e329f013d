/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The two clocks: instants (monotonic; all deadlines) and the date (first sequence numbers, logs).
 */
#ifndef URDS_PLATFORM_CLOCK_H
#define URDS_PLATFORM_CLOCK_H

#include "wire/types.h"

/* Monotonic; never 0, so that 0 can mean "no instant". */
urds_ns urds_clock_ns(void);

/* The same, up to some 10 ms behind, where that is cheaper. */
urds_ns urds_clock_coarse_ns(void);

/* Nanoseconds since 1970, UTC. May jump. */
uint64_t urds_wall_ns(void);

#endif
