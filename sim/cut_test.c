/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A mixed exchange whose connection is cut at every byte of either direction: everything arrives exactly once,
 * in order, and nothing is left over.
 */
#ifdef __linux__
#include <malloc.h>
#endif

#include "tap.h"
#include "world.h"

static const uint32_t small[] = {0, 1, 100, 5000, 0, 17};
static const uint32_t large[] = {100, 70000, 0, 1048576, 3};

static void plan(struct world *w, const uint32_t *len, unsigned n)
{
	for (int side = 0; side < 2; side++) {
		struct flow *a = world_flow(w, side, PORT_A, PORT_A),
			    *b = world_flow(w, side, PORT_B, PORT_A);

		for (unsigned i = 0; i < n; i++)
			a->len[a->n++] = len[i];
		b->len[b->n++] = 33;
	}
}

struct lens {
	unsigned conn; /* the connection that carries it all */
	uint64_t bytes[2];
};

/* What a run without a cut looks like. */
static struct lens measure(enum world_mode mode, const struct host_conf *conf, const uint32_t *len,
			   unsigned n)
{
	static struct world w;
	struct lens l = {.conn = 0};

	world_init(&w, mode, 1, conf);
	plan(&w, len, n);
	if (!world_run(&w, URDS_SEC(20)))
		T_FAIL("%s, uncut: %s", world_mode_name[mode], w.check.error);
	l.conn = v_longest(&w.sim, l.bytes);
	if (!world_fini(&w))
		T_FAIL("%s, uncut: %s", world_mode_name[mode], w.check.error);
	return l;
}

static unsigned long runs, again, lost_acks;

static void cut_at(enum world_mode mode, const struct host_conf *conf, const uint32_t *len,
		   unsigned n, const struct sim_cut *cut)
{
	static struct world w;
	bool ok;

	world_init(&w, mode, 1, conf);
	plan(&w, len, n);
	w.sim.cut = *cut;
	ok = world_run(&w, URDS_SEC(60));
	runs++;
	again += w.u[0].retransmitted + w.u[1].retransmitted + w.k.retransmitted;
	lost_acks += w.u[0].dropped_old + w.u[1].dropped_old + w.k.dropped_old;
	if (!world_fini(&w) || !ok)
		T_FAIL("%s, connection %u cut at byte %" PRIu64
		       " of side %d, ack_lost %d, late %lld %lld: %s; replay: %d %d %" PRIu64
		       " %d K",
		       world_mode_name[mode], cut->conn, cut->at, cut->dir, cut->ack_lost,
		       (long long)cut->late[0], (long long)cut->late[1], w.check.error, mode,
		       cut->dir, cut->at, cut->ack_lost);
}

/* Wait patterns by offset, so that every one meets every kind of byte. */
static void lateness(struct sim_cut *c, uint64_t k)
{
	static const urds_ns late[][2] = {{0, 0},	   {URDS_MS(3), 0},
					  {0, URDS_MS(3)}, {0, URDS_NEVER},
					  {URDS_NEVER, 0}, {URDS_US(70), URDS_US(40)}};

	memcpy(c->late, late[k % 6], sizeof c->late);
}

static uint64_t stride = 1;

static void every_byte(enum world_mode mode, const struct host_conf *conf)
{
	struct lens l = measure(mode, conf, small, 6);

	runs = again = lost_acks = 0;
	for (int dir = 0; dir < 2; dir++)
		for (uint64_t at = 1; at <= l.bytes[dir]; at += stride) {
			struct sim_cut c = {.is_set = true, .conn = l.conn, .dir = dir, .at = at};

			/* Inside the map, which is 8 KiB of the same, every 7th will do. */
			c.ack_lost = (at / stride) & 1;
			lateness(&c, at / stride / 2);
			cut_at(mode, conf, small, 6, &c);
		}
	printf("# %s: %lu runs, %lu retransmitted, %lu duplicates dropped\n", world_mode_name[mode],
	       runs, again, lost_acks);
	CHECK(again > 0);
}

static void large_samples(enum world_mode mode, const struct host_conf *conf)
{
	struct lens l = measure(mode, conf, large, 5);

	runs = again = lost_acks = 0;
	for (int dir = 0; dir < 2; dir++)
		for (uint64_t at = 8000; at <= l.bytes[dir]; at += 65536) {
			static const int near[] = {-1, 0, 1, 47, 48, 49, 4096, 32768};

			for (unsigned i = 0; i < sizeof near / sizeof near[0];
			     i += (unsigned)stride) {
				struct sim_cut c = {.is_set = true,
						    .conn = l.conn,
						    .dir = dir,
						    .at = at + (uint64_t)near[i],
						    .ack_lost = i & 1};

				lateness(&c, at / 65536 + i);
				if (c.at <= l.bytes[dir])
					cut_at(mode, conf, large, 5, &c);
			}
		}
	printf("# %s: %lu runs, %lu retransmitted, %lu duplicates dropped\n", world_mode_name[mode],
	       runs, again, lost_acks);
}

#define CASES(name, mode)                          \
	static void name##__every_byte(void)       \
	{                                          \
		struct host_conf c = world_conf(); \
		every_byte(mode, &c);              \
	}                                          \
	static void name##__large(void)            \
	{                                          \
		struct host_conf c = world_conf(); \
		large_samples(mode, &c);           \
	}

CASES(cut_urds_urds, WORLD_UU)
CASES(cut_urds_kernel, WORLD_UK)
CASES(cut_kernel_urds, WORLD_KU)

/* The extension off: two urds ends are kernels to one another. */
static void cut_plain_plain__every_byte(void)
{
	struct host_conf c = world_conf();

	c.ext = false;
	every_byte(WORLD_UU, &c);
}

/* One of the cuts above again: MODE DIR AT ACK_LOST K. */
static void one(char **a)
{
	enum world_mode mode = (enum world_mode)atoi(a[0]);
	struct host_conf conf = world_conf();
	struct lens l = measure(mode, &conf, small, 6);
	struct sim_cut c = {.is_set = true,
			    .conn = l.conn,
			    .dir = atoi(a[1]),
			    .at = strtoull(a[2], NULL, 10),
			    .ack_lost = atoi(a[3])};

	lateness(&c, strtoull(a[4], NULL, 10));
	sim_trace = true;
	cut_at(mode, &conf, small, 6, &c);
}

int main(int argc, char **argv)
{
	if (argc == 6) {
		if (setjmp(t_leave) == 0)
			one(argv + 1);
		return 0;
	}
	if (getenv("URDS_SIM_STRIDE"))
		stride = strtoull(getenv("URDS_SIM_STRIDE"), NULL, 10);
#ifdef M_MMAP_THRESHOLD
	mallopt(M_MMAP_THRESHOLD, 64 << 20); /* mapping and faulting cost more than the runs */
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
	T_INIT(argc, argv);
	T_RUN(cut_urds_urds__every_byte);
	T_RUN(cut_urds_urds__large);
	T_RUN(cut_urds_kernel__every_byte);
	T_RUN(cut_urds_kernel__large);
	T_RUN(cut_kernel_urds__every_byte);
	T_RUN(cut_kernel_urds__large);
	T_RUN(cut_plain_plain__every_byte);
	return t_done();
}
