/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random runs.
 */
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>

/* A program on the host of @of that has nothing to do with RDS, or says so. */
struct stray {
	struct vhost v;
	struct vend *e;
	unsigned
		mood; /* 0: holds; 1: garbage; 2: half a header; 3: a huge length; 4: a probe of its own */
};

static void stray_accepted(struct vhost *h, struct vend *e, const struct urds_addr *from,
			   uint16_t port)
{
	(void)h, (void)from, (void)port;
	v_close(e, true);
}

static void stray_dialled(struct vhost *h, struct vend *e, bool ok)
{
	struct stray *s = urds_container_of(h, struct stray, v);
	struct urds_probe p = {.has_npaths = true,
			       .npaths = 8,
			       .has_sport_idx = true,
			       .has_urds = true,
			       .urds_version = 1,
			       .caps = 63,
			       .incarnation = 4711};
	uint8_t b[200] = {0};

	if (!ok) {
		v_close(e, false);
		s->e = NULL;
		return;
	}
	switch (s->mood) {
	case 1:
		memset(b, 0xa7, sizeof b);
		v_write(e, b, sizeof b);
		break;
	case 2:
		v_write(e, b, 20);
		break;
	case 3:
		b[7] = 1;
		memset(b + 16, 0xff, 4);
		v_write(e, b, 60);
		break;
	case 4:
		urds_probe_put(b, false, UINT64_MAX - 5, &p);
		v_write(e, b, 48);
		break;
	}
}

static void stray_ready(struct vhost *h, struct vend *e)
{
	struct stray *s = urds_container_of(h, struct stray, v);

	if (v_is_over(e) && s->e == e) {
		v_close(e, false);
		s->e = NULL;
	}
}

static const struct vhost_ops stray_ops = {stray_accepted, stray_dialled, stray_ready};

struct run {
	struct world w;
	struct stray stray[4];
	enum scenario_kind kind;
	unsigned faults, restarts;
	int dead; /* side that is down, or -1 */
	urds_ns until;
};

static urds_ns some_late(struct sim *s)
{
	switch (sim_below(s, 4)) {
	case 0:
		return 0;
	case 1:
		return URDS_US(sim_below(s, 2000));
	case 2:
		return URDS_MS(sim_below(s, 200));
	default:
		return sim_below(s, 4) ? URDS_MS(5) : URDS_NEVER;
	}
}

static void ev_back(void *arg, uint64_t side)
{
	struct run *r = arg;

	TRACE(&r->w.sim, "side %d is back", (int)side);
	world_restart(&r->w, (int)side);
	r->dead = -1;
}

static void ev_cont(void *arg, uint64_t side)
{
	struct run *r = arg;

	TRACE(&r->w.sim, "side %d goes on", (int)side);
	if (r->w.u[side].is_alive)
		v_cont(&r->w.u[side].v);
}

static void ev_fault(void *arg, uint64_t a)
{
	struct run *r = arg;
	struct sim *s = &r->w.sim;
	struct vconn *c;
	int side = (int)sim_below(s, 2);

	(void)a;
	if (check_is_complete(&r->w.check) || s->now >= r->until)
		return;
	r->faults++;
	switch (sim_below(s, 12)) {
	default:
		/* A kernel that connects again and again to a stopped process fills the places to park, and
		 * takes what TCP acknowledges there for delivered: lost, and known to be (A1). */
		if (r->w.mode != WORLD_UU && (r->w.u[0].v.is_stopped || r->w.u[1].v.is_stopped))
			break;
		c = v_any(s);
		if (c)
			v_cut(c, some_late(s), some_late(s));
		break;
	case 8:
		c = v_any(s);
		if (c && sim_below(s, 6) == 0)
			v_hole(c);
		break;
	case 9:
		if (!world_is_kernel(&r->w, side) && r->w.u[side].is_alive) {
			TRACE(s, "side %d is stopped", side);
			r->w.u[side].v.is_stopped = true;
			sim_at(s, s->now + URDS_MS(sim_below(s, 4000)), ev_cont, r, (uint64_t)side);
		}
		break;
	case 10: {
		struct stray *st = &r->stray[sim_below(s, 4)];
		struct urds_addr to = sim_addr(2 - (unsigned)side);

		if (r->kind != SCENARIO_STRAYS || st->e || world_is_kernel(&r->w, !side))
			break;
		st->v.ops = &stray_ops;
		st->v.sim = s;
		st->v.addr = sim_addr((unsigned)side + 1); /* dials from the peer's own address */
		st->mood = sim_below(s, 4);
		st->e = v_dial(&st->v, &to, (uint16_t)(32768 + sim_below(s, 20000)));
		st->e->owner = st;
		TRACE(s, "a stray, mood %u, dials side %d", st->mood, !side);
		break;
	}
	case 11:
		if (r->kind != SCENARIO_RESTARTS || r->dead >= 0 || r->restarts >= 3)
			break;
		r->restarts++;
		r->dead = side;
		TRACE(s, "side %d is killed", side);
		world_kill(&r->w, side);
		sim_at(s, s->now + URDS_MS(1 + sim_below(s, 300)), ev_back, r, (uint64_t)side);
		break;
	}
	/* As above: a kernel must not lose more connections than may be parked, and each that dies without a word takes
	 * the second of a challenge to be found out. */
	sim_at(s,
	       s->now + URDS_US(sim_below(s, sim_below(s, 3) ? 600 : 300000)) +
		       (r->w.mode != WORLD_UU ? URDS_MS(60) : 0),
	       ev_fault, r, 0);
}

/* Strange programs give up some time; a path of theirs is nobody's business, but the checks want quiet. */
static void ev_strays_leave(void *arg, uint64_t a)
{
	struct run *r = arg;

	(void)a;
	for (unsigned i = 0; i < 4; i++)
		if (r->stray[i].e) {
			v_close(r->stray[i].e, true);
			r->stray[i].e = NULL;
		}
}

static uint32_t some_len(struct sim *s, bool named)
{
	uint32_t n;

	switch (sim_below(s, 12)) {
	case 0:
		n = 0;
		break;
	case 1:
		n = 60000 + sim_below(s, 20000);
		break;
	case 2:
		n = sim_below(s, 8) ? 32700 + sim_below(s, 200) : 1048576;
		break;
	case 3:
	case 4:
		n = sim_below(s, 9000);
		break;
	default:
		n = sim_below(s, 200);
	}
	return named && n < 4 ? 4 : n;
}

bool scenario_run(enum scenario_kind kind, uint64_t seed, struct scenario_stats *st, char *error,
		  size_t len)
{
	static struct run r;
	struct host_conf conf = world_conf();
	struct sim pick;
	struct world *w = &r.w;
	bool ok;

	memset(&r, 0, sizeof r);
	r.kind = kind;
	r.dead = -1;
	sim_init(&pick, seed * 2654435761u + (uint64_t)kind);
	conf.ext = sim_below(&pick, 4) > 0;
	/* Without the extension a kill loses what TCP had acknowledged (A1): known, and shown elsewhere. */
	if (kind == SCENARIO_RESTARTS)
		conf.ext = true;
	conf.reads_late = sim_below(&pick, 4) == 0;
	conf.rcvbuf = conf.reads_late ? 20000 : URDS_RCVBUF_DEFAULT;
	conf.sndbuf = sim_below(&pick, 2) ? 1u << 20 : 4u << 20;
	world_init(w, kind == SCENARIO_RESTARTS ? WORLD_UU : (enum world_mode)sim_below(&pick, 3),
		   seed, &conf);
	if (w->mode == WORLD_UU && kind == SCENARIO_PATHS)
		for (int i = 0; i < 2; i++)
			w->u[i].conf.paths = (unsigned[]){2, 4, 8}[sim_below(&pick, 3)];
	w->sim.latency = URDS_US(sim_below(&pick, 3) ? 20 + sim_below(&pick, 300) : 20000);
	w->sim.sndbuf = sim_below(&pick, 2) ? 65536 : 1000 + sim_below(&pick, 20000);
	for (int i = 0; i < 2; i++)
		w->u[i].v.accept_delay = sim_below(&pick, 3) ? 0 : URDS_US(sim_below(&pick, 5000));
	w->k.v.accept_delay = w->u[0].v.accept_delay;
	for (int side = 0; side < 2; side++)
		for (uint32_t k = 1 + sim_below(&pick, 2); k > 0; k--) {
			struct flow *f = world_flow(w, side, k == 1 ? PORT_A : PORT_B, PORT_A);

			f->n = 1 + sim_below(&pick, 100);
			for (unsigned i = 0; i < f->n; i++)
				f->len[i] = some_len(&pick, kind == SCENARIO_RESTARTS);
		}
	r.until = w->sim.now + URDS_SEC(20);
	sim_at(&w->sim, w->sim.now + URDS_US(sim_below(&pick, 3000)), ev_fault, &r, 0);
	sim_at(&w->sim, r.until + URDS_SEC(10), ev_strays_leave, &r, 0);
	ok = world_run(w, URDS_SEC(300));
	st->runs++;
	st->steps += w->sim.steps;
	st->restarts += r.restarts;
	for (unsigned i = 0; i < w->check.n; i++)
		st->messages += w->flows[i].n;
	st->retransmitted += w->u[0].retransmitted + w->u[1].retransmitted + w->k.retransmitted;
	st->dropped += w->u[0].dropped_old + w->u[1].dropped_old + w->k.dropped_old;
	st->drops += w->u[0].drops + w->u[1].drops;
	st->evicted += w->u[0].evicted + w->u[1].evicted;
	ok &= world_fini(w);
	if (!ok)
		snprintf(error, len, "%s, after %u faults, step %llu: %s", world_mode_name[w->mode],
			 r.faults, (unsigned long long)w->sim.steps, w->check.error);
	return ok;
}
