/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model checker's search: sites, choices, states seen, and the threads as coroutines.
 */
/* Coroutines switch by longjmp(), also to frames further up; the fortified one refuses. */
#undef _FORTIFY_SOURCE

#include "model_impl.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mc_state mc;
bool mc_unreduced;
struct mc_site mc_sites[MC_SITES];
int mc_nsites;

enum { J_SWITCH = 1, J_DONE, J_PRUNED, J_FAILED };

/* ---- sites ---- */

static int site_find(const char *name)
{
	for (int i = 0; i < mc_nsites; i++)
		if (strcmp(mc_sites[i].name, name) == 0)
			return i;
	if (mc_nsites == MC_SITES)
		abort();
	mc_sites[mc_nsites].name = name;
	return mc_nsites++;
}

/* The order of a site in this run. */
int mc_mo(int *cache, const char *name, int order)
{
	if (*cache == 0) {
		*cache = 1 + site_find(name);
		mc_sites[*cache - 1].order = (unsigned char)order;
		mc_sites[*cache - 1].seen = true;
	}
	if (*cache == mc.sabotaged) {
		if (mc.how == MC_RELAXED)
			order = memory_order_relaxed;
		else
			order |= MO_DROPPED;
	}
	return order | *cache << 8;
}

/* Notes that the site can be dropped; says whether it is. */
bool mc_dropped(int mo)
{
	if (MO_SITE(mo))
		mc_sites[MO_SITE(mo) - 1].writes = true;
	return (mo & MO_DROPPED) != 0;
}

/* ---- hashing ---- */

uint64_t mc_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

void mc_note(uint64_t outcome)
{
	struct thread *t = &mc.threads[mc.self];

	t->hash = mc_mix(t->hash, outcome + 1);
}

static void seen_grow(void)
{
	uint64_t *old = mc.seen;
	size_t old_size = mc.seen_size;

	mc.seen_size = old_size ? old_size * 2 : 1u << 16;
	mc.seen = calloc(mc.seen_size, sizeof(*mc.seen));
	if (!mc.seen)
		abort();
	for (size_t i = 0; i < old_size; i++) {
		size_t k;

		if (!old[i])
			continue;
		for (k = old[i] & (mc.seen_size - 1); mc.seen[k]; k = (k + 1) & (mc.seen_size - 1))
			;
		mc.seen[k] = old[i];
	}
	free(old);
}

/* Remembers this state; true if it is new. */
static bool state_is_new(void)
{
	uint64_t h = 1;
	size_t k;

	if (mc_unreduced)
		return true;
	for (int i = 1; i <= mc.nthreads; i++)
		h = mc_mix(h, mc.threads[i].hash);
	for (int i = 0; i < mc.nlocs; i++)
		h = mc_mix(h, mc.locs[i].hash);
	h += !h;
	if (mc.seen_n * 2 >= mc.seen_size)
		seen_grow();
	for (k = h & (mc.seen_size - 1); mc.seen[k]; k = (k + 1) & (mc.seen_size - 1))
		if (mc.seen[k] == h)
			return false;
	mc.seen[k] = h;
	mc.seen_n++;
	return true;
}

/* ---- the search ---- */

int mc_pick(int n)
{
	if (n <= 1)
		return 0;
	if (mc.pos == mc.nchoices) {
		if (mc.nchoices == MAX_CHOICES)
			mc_fail("more than %d choices", MAX_CHOICES);
		mc.choices[mc.nchoices].chosen = 0;
		mc.choices[mc.nchoices].of = (uint16_t)n;
		mc.nchoices++;
	}
	if (mc.choices[mc.pos].of != n) {
		fprintf(stderr, "model: a run is not determined by its choices\n");
		abort();
	}
	return mc.choices[mc.pos++].chosen;
}

/* Makes the next sequence of choices; false when there is none. */
static bool next_choices(void)
{
	while (mc.nchoices > 0) {
		if (mc.choices[mc.nchoices - 1].chosen + 1 < mc.choices[mc.nchoices - 1].of) {
			mc.choices[mc.nchoices - 1].chosen++;
			return true;
		}
		mc.nchoices--;
	}
	return false;
}

void mc_event(const char *what, const char *name, uint64_t a, uint64_t b, int mo)
{
	struct event *e;

	if (mc.ntrace == (int)(sizeof(mc.trace) / sizeof(mc.trace[0])))
		return;
	e = &mc.trace[mc.ntrace++];
	e->thread = mc.self;
	snprintf(e->what, sizeof(e->what), "%s", what);
	e->name = name;
	e->a = a;
	e->b = b;
	e->mo = mo;
}

void mc_print_trace(void)
{
	static const char *const orders[] = {"rlx", "con", "acq", "rel", "acq_rel", "sc"};

	for (int i = 0; i < mc.ntrace; i++) {
		const struct event *e = &mc.trace[i];

		printf("#   T%d %-10s %-24s %llu -> %llu %s%s %s\n", e->thread, e->what,
		       e->name ? e->name : "", (unsigned long long)e->a, (unsigned long long)e->b,
		       orders[MO_ORDER(e->mo) % 6], e->mo & MO_DROPPED ? " DROPPED" : "",
		       MO_SITE(e->mo) ? mc_sites[MO_SITE(e->mo) - 1].name : "");
	}
}

void mc_fail(const char *fmt, ...)
{
	va_list ap;
	int n;

	n = snprintf(mc.res.why, sizeof(mc.res.why), "T%d: ", mc.self);
	va_start(ap, fmt);
	vsnprintf(mc.res.why + n, sizeof(mc.res.why) - (size_t)n, fmt, ap);
	va_end(ap);
	mc.res.failed = true;
	_longjmp(mc.main, J_FAILED);
}

int mc_choose(int n)
{
	int c = mc_pick(n);

	mc_note((uint64_t)c);
	mc_event("choose", NULL, (uint64_t)n, (uint64_t)c, 0);
	return c;
}

int mc_self(void)
{
	return mc.self;
}

/* ---- threads ---- */

static bool enabled(const struct thread *t)
{
	switch (t->pending) {
	case P_RUN:
		return true;
	case P_LOCK:
		return mc.mutexes[t->on].owner < 0;
	case P_WAIT:
	case P_DONE:
		break;
	}
	return false;
}

/* Picks who goes next and goes there. Returns when it is the caller's turn. */
static void schedule(void)
{
	struct thread *me = &mc.threads[mc.self];
	int can[NTHREADS], n = 0, live = 0, pick;

	/* The running thread first: the first runs have few switches and make readable traces. */
	if (mc.self && enabled(me))
		can[n++] = mc.self;
	for (int i = 1; i <= mc.nthreads; i++) {
		live += mc.threads[i].pending != P_DONE;
		if (i != mc.self && enabled(&mc.threads[i]))
			can[n++] = i;
	}
	if (n == 0 && live == 0)
		_longjmp(mc.main, J_DONE);
	if (n == 0) {
		int stuck = 1;

		while (mc.threads[stuck].pending == P_DONE)
			stuck++;
		mc_fail("deadlock: T%d waits for ever %s", stuck,
			mc.threads[stuck].pending == P_LOCK ? "for a mutex" : "in futex_wait");
	}
	if (++mc.steps > MAX_STEPS)
		mc_fail("does not end within %d steps", MAX_STEPS);
	if (n > 1) {
		if (mc.pos >= mc.prefix && !state_is_new())
			_longjmp(mc.main, J_PRUNED);
		pick = can[mc_pick(n)];
	} else {
		pick = can[0];
	}
	if (pick == mc.self)
		return;
	mc.self = pick;
	if (_setjmp(me->jb) == 0)
		_longjmp(mc.threads[pick].jb, J_SWITCH);
}

void mc_step(enum pending pending, int on)
{
	struct thread *t = &mc.threads[mc.self];

	if (mc.self == 0)
		return;
	t->pending = pending;
	t->on = on;
	if (mc.starting) {
		if (_setjmp(t->jb) == 0)
			_longjmp(mc.main, J_SWITCH);
	} else {
		schedule();
	}
	t->pending = P_RUN;
	t->steps++;
}

uint16_t mc_step_name(void)
{
	return (uint16_t)(mc.self << 12 | mc.threads[mc.self].steps);
}

static void thread_body(void)
{
	/* A run begins, and an abandoned one ends, with a jump to here. */
	if (_setjmp(mc.threads[mc.self].base) == 0)
		_longjmp(mc.main, J_SWITCH);
	mc.test->thread[mc.self - 1]();
	mc.threads[mc.self].pending = P_DONE;
	if (mc.starting)
		_longjmp(mc.main, J_SWITCH);
	schedule();
	abort();
}

/* Creates the coroutine of thread @i, once per process; its stack is kept. */
static void thread_create(int i)
{
	struct thread *t = &mc.threads[i];
	char *stack;

	if (t->has_context)
		return;
	t->has_context = true;
	stack = malloc(STACK_BYTES);
	if (!stack || getcontext(&t->uc) < 0)
		abort();
	t->uc.uc_stack.ss_sp = stack;
	t->uc.uc_stack.ss_size = STACK_BYTES;
	t->uc.uc_link = NULL;
	makecontext(&t->uc, thread_body, 0);
	mc.self = i;
	if (_setjmp(mc.main) == 0)
		setcontext(&t->uc);
	mc.self = 0;
}

/* ---- a run ---- */

static void run_reset(void)
{
	mc.nlocs = mc.nmutexes = mc.nplains = 0;
	memset(mc.sc_store, 0, sizeof(mc.sc_store));
	mc.sc_last = 0;
	mc.pos = 0;
	mc.prefix = mc.nchoices;
	mc.self = 0;
	mc.steps = 0;
	mc.ntrace = 0;
	memset(&mc.threads[0].cur, 0, sizeof(struct view));
	memset(&mc.threads[0].acq, 0, sizeof(struct view));
	memset(&mc.threads[0].rel, 0, sizeof(struct view));
	mc.threads[0].cur.clock[0] = 1;
	mc.threads[0].steps = 0;
	mc.threads[0].hash = 0;
}

static void thread_reset(int i)
{
	struct thread *t = &mc.threads[i];

	t->cur = mc.threads[0].cur;
	t->cur.clock[i] = 1;
	t->acq = t->rel = t->cur;
	/* What setup did happened before; what this thread did up to here is not released. */
	t->rel.clock[i] = 0;
	t->hash = (uint64_t)i;
	t->steps = 0;
	t->pending = P_RUN;
	memcpy(t->jb, t->base, sizeof(t->jb));
}

static void finish_join(void)
{
	for (int i = 1; i <= mc.nthreads; i++)
		mc_join(&mc.threads[0].cur, &mc.threads[i].cur);
	mc.self = 0;
}

static void run_once(void)
{
	static int i;

	run_reset();
	switch (_setjmp(mc.main)) {
	case 0:
		mc.test->setup();
		mc_tick();
		break;
	default:
		return;
	}
	mc.starting = true;
	for (i = 1; i <= mc.nthreads; i++) {
		thread_reset(i);
		mc.self = i;
		switch (_setjmp(mc.main)) {
		case 0:
			_longjmp(mc.threads[i].jb, J_SWITCH);
		case J_SWITCH:
			break;
		default:
			return;
		}
	}
	mc.starting = false;
	mc.self = 0;
	switch (_setjmp(mc.main)) {
	case 0:
		schedule();
		/* fall through: never returns to thread 0 */
	case J_DONE:
		break;
	default:
		return;
	}
	if (mc.test->finish && _setjmp(mc.main) == 0) {
		finish_join();
		mc.test->finish();
	}
}

struct mc_result mc_explore(const struct mc_test *t, enum mc_how how, const char *site)
{
	memset(&mc.res, 0, sizeof(mc.res));
	mc.test = t;
	mc.how = how;
	mc.sabotaged = 0;
	if (how != MC_INTACT) {
		int i = site_find(site);

		mc.sabotaged = 1 + i;
		if (how == MC_RELAXED)
			mc_sites[i].relaxed = true;
		else
			mc_sites[i].dropped = true;
	}
	mc.nchoices = 0;
	mc.seen_n = 0;
	if (mc.seen)
		memset(mc.seen, 0, mc.seen_size * sizeof(*mc.seen));
	for (mc.nthreads = 0; mc.nthreads < MC_THREADS && t->thread[mc.nthreads]; mc.nthreads++)
		thread_create(mc.nthreads + 1);
	do {
		run_once();
		mc.res.executions++;
	} while (!mc.res.failed && next_choices());
	mc.res.states = mc.seen_n;
	free(mc.seen);
	mc.seen = NULL;
	mc.seen_size = 0;
	return mc.res;
}
