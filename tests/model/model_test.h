/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the checks of the primitives share: a primitive has scenarios, which must all hold, and
 * sabotages, each of which at least one scenario must notice.
 */
#ifndef URDS_TESTS_MODEL_TEST_H
#define URDS_TESTS_MODEL_TEST_H

#include <stdatomic.h>

#include "model.h"
#include "tap.h"

struct sabotage {
	enum mc_how how;
	const char *site;
};

static inline void model_holds(const struct mc_test *t)
{
	struct mc_result r = mc_explore(t, MC_INTACT, NULL);

	printf("# %s: %" PRIu64 " executions explored, %" PRIu64 " states\n", t->name, r.executions,
	       r.states);
	if (r.failed) {
		mc_print_trace();
		T_FAIL("%s", r.why);
	}
}

static inline void model_fails(const struct mc_test *const *t, size_t n, enum mc_how how,
			       const char *site)
{
	for (size_t i = 0; i < n; i++) {
		struct mc_result r = mc_explore(t[i], how, site);

		if (r.failed) {
			printf("# noticed by %s after %" PRIu64 " executions: %s\n", t[i]->name,
			       r.executions, r.why);
			return;
		}
	}
	T_FAIL("sabotage of %s is not noticed", site);
}

/* Is there a sabotage for every order that is not relaxed, and for every step? Runs last. */
static inline void model_sabotages_complete(const struct mc_test *const *t, size_t nt,
					    const struct sabotage *s, size_t n)
{
	bool missing = false;

	if (mc_nsites == 0)
		for (size_t i = 0; i < nt; i++)
			mc_explore(t[i], MC_INTACT, NULL);
	for (int i = 0; i < mc_nsites; i++) {
		bool relaxed = false, dropped = false;

		for (size_t k = 0; k < n; k++)
			if (strcmp(s[k].site, mc_sites[i].name) == 0) {
				relaxed |= s[k].how == MC_RELAXED;
				dropped |= s[k].how == MC_DROPPED;
			}
		if (!relaxed && mc_sites[i].order != memory_order_relaxed) {
			printf("# not sabotaged: %s relaxed\n", mc_sites[i].name);
			missing = true;
		}
		if (!dropped && mc_sites[i].writes) {
			printf("# not sabotaged: %s dropped\n", mc_sites[i].name);
			missing = true;
		}
		if (!mc_sites[i].seen) {
			printf("# no such site: %s\n", mc_sites[i].name);
			missing = true;
		}
	}
	CHECK(!missing);
}

/* Cases and main() of MODEL_PRIMITIVE from two lists: SCENARIOS(X) of X(name), each with a test_name; SABOTAGES(X) of
 * X(site, DROPPED, dropped) or X(site, RELAXED, relaxed). */
#define MODEL_PASTE(a, b) a##__sabotage_##b
#define MODEL_EXPAND(a, b) MODEL_PASTE(a, b)
#define MODEL_NAME(rest) MODEL_EXPAND(MODEL_PRIMITIVE, rest)
#define MODEL_T_RUN(name) T_RUN(name);
#define MODEL_SCENARIO(name)               \
	static void name(void)             \
	{                                  \
		model_holds(&test_##name); \
	}
#define MODEL_SABOTAGE(site, HOW, how)                                                             \
	static void MODEL_NAME(site##_##how)(void)                                                 \
	{                                                                                          \
		model_fails(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), MC_##HOW, #site); \
	}
#define MODEL_SCENARIO_REF(name) &test_##name,
#define MODEL_SABOTAGE_REF(site, HOW, how) {MC_##HOW, #site},
#define MODEL_SCENARIO_RUN(name) T_RUN(name);
#define MODEL_SABOTAGE_RUN(site, HOW, how) MODEL_T_RUN(MODEL_NAME(site##_##how))

#define MODEL_MAIN(SCENARIOS, SABOTAGES)                                                       \
	static const struct mc_test *const scenarios[] = {SCENARIOS(MODEL_SCENARIO_REF)};      \
	static const struct sabotage sabotages[] = {SABOTAGES(MODEL_SABOTAGE_REF)};            \
	SCENARIOS(MODEL_SCENARIO)                                                              \
	SABOTAGES(MODEL_SABOTAGE)                                                              \
	static void MODEL_NAME(misses_no_site)(void)                                           \
	{                                                                                      \
		model_sabotages_complete(scenarios, sizeof(scenarios) / sizeof(scenarios[0]),  \
					 sabotages, sizeof(sabotages) / sizeof(sabotages[0])); \
	}                                                                                      \
	int main(int argc, char **argv)                                                        \
	{                                                                                      \
		T_INIT(argc, argv);                                                            \
		SCENARIOS(MODEL_SCENARIO_RUN)                                                  \
		SABOTAGES(MODEL_SABOTAGE_RUN)                                                  \
		MODEL_T_RUN(MODEL_NAME(misses_no_site))                                        \
		return t_done();                                                               \
	}

#endif
