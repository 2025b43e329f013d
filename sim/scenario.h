/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A run made up from its seed: who, what is sent, what breaks and when.
 */
#ifndef URDS_SIM_SCENARIO_H
#define URDS_SIM_SCENARIO_H

#include "world.h"

enum scenario_kind {
	SCENARIO_CUTS,	   /* connections break in every way */
	SCENARIO_RESTARTS, /* and processes die and come back */
	SCENARIO_PATHS,	   /* cuts, with several paths between two urds ends */
	SCENARIO_STRAYS,   /* cuts, with strange programs connecting from the peer's address */
	SCENARIO_KINDS
};

struct scenario_stats {
	uint64_t runs, messages, retransmitted, dropped, drops, restarts, evicted, steps;
};

/* Return: true, or false and what went wrong in @error. */
bool scenario_run(enum scenario_kind kind, uint64_t seed, struct scenario_stats *st, char *error,
		  size_t len);

#endif
