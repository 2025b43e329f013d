/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two hosts, flows between them, and a run to the end: all delivered, nothing left over.
 */
#ifndef URDS_SIM_WORLD_H
#define URDS_SIM_WORLD_H

#include "host.h"
#include "kernel.h"

enum world_mode {
	WORLD_UU, /* urds at both ends */
	WORLD_UK, /* urds has the smaller address, a kernel the larger: urds connects */
	WORLD_KU, /* the kernel connects */
};

extern const char *const world_mode_name[];

#define WORLD_FLOWS 6
#define PORT_A 4000
#define PORT_B 5000

struct world {
	struct sim sim;
	struct check check;
	struct flow flows[WORLD_FLOWS];
	struct host u[2]; /* side 0 has the smaller address; the side of the kernel is unused */
	struct kernel k;
	enum world_mode mode;
	urds_ns started, completed;
};

struct host_conf world_conf(void);
void world_init(struct world *w, enum world_mode mode, uint64_t seed, const struct host_conf *conf);
/* A flow from side @from; the caller sets its lengths before it runs. */
struct flow *world_flow(struct world *w, int from, uint16_t sport, uint16_t dport);
bool world_is_kernel(const struct world *w, int side);
void world_kick(struct world *w);
/* Runs until all is delivered and everything is quiet. Return: false: it is not after @limit, or a check failed;
 * check.error says why. */
bool world_run(struct world *w, urds_ns limit);
/* Runs for a while whatever happens. */
void world_pass(struct world *w, urds_ns time);
void world_kill(struct world *w, int side);
void world_restart(struct world *w, int side);
/* Also checks the memory. Return: false: check.error. */
bool world_fini(struct world *w);

#endif
