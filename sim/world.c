/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Setting up a pair of hosts and running it.
 */
#include "world.h"

#include <assert.h>

const char *const world_mode_name[] = {"urds-urds", "urds-kernel", "kernel-urds"};

struct host_conf world_conf(void)
{
	return (struct host_conf){.paths = 1, .ext = true, .sndbuf = 4u << 20, .rcvbuf = 4u << 20};
}

bool world_is_kernel(const struct world *w, int side)
{
	return (w->mode == WORLD_UK && side == 1) || (w->mode == WORLD_KU && side == 0);
}

static void bind_side(struct world *w, int side)
{
	static const uint16_t ports[] = {PORT_A, PORT_B};

	for (int i = 0; i < 2; i++) {
		if (world_is_kernel(w, side))
			kernel_bind(&w->k, ports[i]);
		else
			host_bind(&w->u[side], ports[i]);
	}
}

void world_init(struct world *w, enum world_mode mode, uint64_t seed, const struct host_conf *conf)
{
	memset(w, 0, sizeof *w);
	w->mode = mode;
	sim_init(&w->sim, seed);
	w->check.flows = w->flows;
	for (int side = 0; side < 2; side++) {
		unsigned last = (unsigned)side + 1;

		if (world_is_kernel(w, side))
			kernel_init(&w->k, &w->sim, &w->check, last, 3 - last);
		else
			host_init(&w->u[side], &w->sim, &w->check, last, conf);
		bind_side(w, side);
	}
	w->started = w->sim.now;
}

struct flow *world_flow(struct world *w, int from, uint16_t sport, uint16_t dport)
{
	struct flow *f = &w->flows[w->check.n++];

	assert(w->check.n <= WORLD_FLOWS);
	f->from = sim_addr((unsigned)from + 1);
	f->to = sim_addr(2 - (unsigned)from);
	f->sport = sport;
	f->dport = dport;
	return f;
}

void world_kick(struct world *w)
{
	for (int side = 0; side < 2; side++) {
		if (world_is_kernel(w, side))
			kernel_kick(&w->k);
		else
			host_kick(&w->u[side]);
	}
}

static bool is_quiet(const struct world *w, const char **why)
{
	for (int side = 0; side < 2; side++)
		if (world_is_kernel(w, side) ? !kernel_is_quiet(&w->k, why)
					     : !host_is_quiet(&w->u[side], why))
			return false;
	return true;
}

bool world_run(struct world *w, urds_ns limit)
{
	urds_ns until = w->sim.now + limit;
	const char *why = "";

	world_kick(w);
	w->completed = 0;
	for (;;) {
		bool more = sim_step(&w->sim, until);

		if (w->check.error[0])
			return false;
		if (check_is_complete(&w->check)) {
			if (!w->completed)
				w->completed = w->sim.now;
			if (is_quiet(w, &why))
				return true;
		}
		if (!more)
			break;
	}
	if (!check_is_complete(&w->check)) {
		for (unsigned i = 0; i < w->check.n; i++) {
			const struct flow *f = &w->flows[i];

			if (f->got < f->n)
				check_fail(
					&w->check,
					"no progress: flow %u: %u planned, %u sent, %u delivered",
					i, f->n, f->sent, f->got);
		}
	} else {
		check_fail(&w->check, "not quiet: %s", why);
	}
	return false;
}

void world_pass(struct world *w, urds_ns time)
{
	urds_ns until = w->sim.now + time;

	while (sim_step(&w->sim, until))
		;
}

void world_kill(struct world *w, int side)
{
	if (world_is_kernel(w, side))
		kernel_kill(&w->k);
	else
		host_kill(&w->u[side]);
}

void world_restart(struct world *w, int side)
{
	if (world_is_kernel(w, side))
		kernel_restart(&w->k);
	else
		host_restart(&w->u[side]);
	bind_side(w, side);
	world_kick(w);
}

bool world_fini(struct world *w)
{
	for (int side = 0; side < 2; side++) {
		if (world_is_kernel(w, side)) {
			kernel_fini(&w->k);
		} else if (w->u[side].is_alive) {
			host_fini(&w->u[side]);
		}
	}
	sim_fini(&w->sim);
	return !w->check.error[0];
}
