/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 *	run [--kind cuts|restarts|paths|strays] [--seed S] [--count N] [--trace]
 *
 * Runs N random scenarios from seed S on; what failed can be run again by its seed alone.
 */
#include "scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	static const char *const kinds[SCENARIO_KINDS] = {"cuts", "restarts", "paths", "strays"};
	struct scenario_stats st = {0};
	unsigned long long seed = 1, count = 1, failed = 0;
	int kind = 0;
	char error[400];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--trace"))
			sim_trace = true;
		else if (i + 1 == argc)
			goto usage;
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--count"))
			count = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--kind")) {
			i++;
			for (kind = 0; kind < SCENARIO_KINDS && strcmp(argv[i], kinds[kind]);
			     kind++)
				;
			if (kind == SCENARIO_KINDS)
				goto usage;
		} else
			goto usage;
	}
	for (unsigned long long s = seed; s < seed + count; s++)
		if (!scenario_run((enum scenario_kind)kind, s, &st, error, sizeof error)) {
			failed++;
			printf("# seed %llu: %s; replay: sim/run --kind %s --seed %llu --trace\n",
			       s, error, kinds[kind], s);
		}
	printf("# %s, seeds %llu to %llu: %" PRIu64 " messages, %" PRIu64 " retransmitted, %" PRIu64
	       " duplicates dropped, %" PRIu64 " connections lost, %" PRIu64 " evicted, %" PRIu64
	       " restarts, %" PRIu64 " steps\n",
	       kinds[kind], seed, seed + count - 1, st.messages, st.retransmitted, st.dropped,
	       st.drops, st.evicted, st.restarts, st.steps);
	printf("%sok 1 - %s\n1..1\n", failed ? "not " : "", kinds[kind]);
	return failed != 0;

usage:
	fprintf(stderr,
		"usage: run [--kind cuts|restarts|paths|strays] [--seed S] [--count N] [--trace]\n");
	return 2;
}
