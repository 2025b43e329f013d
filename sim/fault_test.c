/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Single faults with a promise about time.
 */
#include "tap.h"
#include "world.h"

static struct world w;

static void begin(enum world_mode mode)
{
	struct host_conf c = world_conf();

	world_init(&w, mode, 7, &c);
	for (int side = 0; side < 2; side++) {
		struct flow *f = world_flow(&w, side, PORT_A, PORT_A);

		f->n = 20;
		for (unsigned i = 0; i < f->n; i++)
			f->len[i] = 100 * i;
	}
}

static void run(urds_ns limit)
{
	if (!world_run(&w, limit))
		T_FAIL("%s: %s", world_mode_name[w.mode], w.check.error);
}

static void finish(void)
{
	if (!world_fini(&w))
		T_FAIL("%s: %s", world_mode_name[w.mode], w.check.error);
}

/* More to send, from @side only. */
static void more(int side, unsigned n)
{
	struct flow *f = &w.flows[side];

	for (; n > 0; n--)
		f->len[f->n++] = 1000;
}

/* Both send at once, with delays that make their connections cross. */
static void fault__crossing_connects(void)
{
	for (int mode = WORLD_UU; mode <= WORLD_KU; mode++)
		for (unsigned d0 = 0; d0 < 6; d0++)
			for (unsigned d1 = 0; d1 < 6; d1++) {
				begin((enum world_mode)mode);
				w.u[0].v.accept_delay = URDS_US(20 * d0);
				w.u[1].v.accept_delay = URDS_US(20 * d1);
				w.k.v.accept_delay = URDS_US(20 * d0);
				run(URDS_SEC(2));
				finish();
			}
}

/* One end has lost the connection, the other does not know and has nothing to send. */
static void fault__half_open_heals_within_2_s(void)
{
	for (int mode = WORLD_UU; mode <= WORLD_KU; mode++)
		for (int blind = 0; blind < 2; blind++)
			for (int side = 0; side < 2; side++) {
				if (world_is_kernel(&(struct world){.mode = (enum world_mode)mode},
						    blind))
					continue; /* a kernel waits for its keep-alive: not ours to mend */
				begin((enum world_mode)mode);
				run(URDS_SEC(2));
				world_pass(&w, URDS_SEC(3));
				v_cut(v_any(&w.sim), blind == 0 ? URDS_NEVER : 0,
				      blind == 1 ? URDS_NEVER : 0);
				world_pass(&w, URDS_MS(10));
				more(side, 3);
				run(URDS_SEC(4));
				if (w.completed > w.sim.now ||
				    w.completed - w.started > URDS_SEC(3) + URDS_SEC(2))
					T_FAIL("%s, end %d blind, %d sends: %llu ms",
					       world_mode_name[mode], blind, side,
					       (unsigned long long)((w.completed - w.started) /
								    1000000));
				finish();
			}
}

/* Packets vanish: found out within 30 s, and nothing is lost. */
static void fault__black_hole_is_noticed_within_30_s(void)
{
	for (int mode = WORLD_UU; mode <= WORLD_KU; mode++)
		for (int side = 0; side < 2; side++) {
			begin((enum world_mode)mode);
			run(URDS_SEC(2));
			v_hole(v_any(&w.sim));
			more(side, 3);
			run(URDS_SEC(33));
			finish();
		}
}

/* A stopped process is not dead: its TCP answers. */
static void fault__stopped_for_60_s_keeps_its_connection(void)
{
	for (int mode = WORLD_UU; mode <= WORLD_KU; mode++) {
		int stopped = mode == WORLD_UK ? 0 : 1;
		uint64_t drops;

		begin((enum world_mode)mode);
		run(URDS_SEC(2));
		drops = w.u[0].drops + w.u[1].drops;
		w.u[stopped].v.is_stopped = true;
		more(!stopped, 50);
		world_kick(&w);
		world_pass(&w, URDS_SEC(60));
		CHECK_EQ(w.u[0].drops + w.u[1].drops, drops);
		v_cont(&w.u[stopped].v);
		run(URDS_SEC(2));
		CHECK_EQ(w.u[0].drops + w.u[1].drops, drops);
		finish();
	}
}

/* The first message after a restart of either end. */
static void fault__restart_heals_within_2_s(void)
{
	for (int mode = WORLD_UU; mode <= WORLD_KU; mode++)
		for (int side = 0; side < 2; side++)
			for (int sender = 0; sender < 2; sender++) {
				begin((enum world_mode)mode);
				run(URDS_SEC(2));
				world_kill(&w, side);
				world_pass(&w, URDS_MS(500));
				more(sender, 3);
				world_restart(&w, side);
				run(URDS_SEC(2));
				finish();
			}
}

/* A kernel loses one connection after the other and says more on each, while we are stopped. It has forgotten what our
 * TCP acknowledged (A1). As many as there are places to park, beside the one that we have. */
static void fault__what_a_kernel_said_on_many_lost_connections_arrives(void)
{
	begin(WORLD_KU);
	run(URDS_SEC(2));
	w.u[1].v.is_stopped = true;
	for (unsigned i = 0; i < URDS_PARKED_MAX; i++) {
		more(0, 1);
		world_kick(&w);
		world_pass(&w, URDS_MS(2));
		v_cut(v_any(&w.sim), 0, URDS_NEVER);
		world_pass(&w, URDS_MS(2));
	}
	more(0, 1);
	world_kick(&w);
	world_pass(&w, URDS_MS(2));
	v_cont(&w.u[1].v);
	run(URDS_SEC(5));
	finish();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(fault__crossing_connects);
	T_RUN(fault__half_open_heals_within_2_s);
	T_RUN(fault__black_hole_is_noticed_within_30_s);
	T_RUN(fault__stopped_for_60_s_keeps_its_connection);
	T_RUN(fault__restart_heals_within_2_s);
	T_RUN(fault__what_a_kernel_said_on_many_lost_connections_arrives);
	return t_done();
}
