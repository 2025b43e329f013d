/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model checker: the search, the threads (coroutines) and the memory model. See model.h.
 */
/* Coroutines switch by longjmp(), also to frames further up; the fortified one refuses. */
#undef _FORTIFY_SOURCE

#include "model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define NTHREADS (MC_THREADS + 1) /* 0 is setup and finish */
#define MAX_LOCS 16
#define MAX_STORES 24 /* of one location in one run */
#define MAX_PLAIN 32
#define MAX_MUTEX 4
#define MAX_CHOICES 512
#define MAX_STEPS 300
#define STACK_BYTES (128u * 1024u)

/* What a thread knows: per location a store, per thread how much of it happened before. */
struct view {
	uint8_t store[MAX_LOCS];
	uint16_t clock[NTHREADS];
};

struct store {
	uint64_t value;
	struct view released;
	uint16_t name; /* thread and step that wrote it: the same in every interleaving */
	bool has_rmw;  /* a read-modify-write follows it immediately */
};

struct loc {
	const volatile void *addr;
	const char *name;
	uint64_t mask, hash; /* hash: of the modification order */
	struct store stores[MAX_STORES];
	uint8_t order[MAX_STORES], rank[MAX_STORES]; /* inverse of one another */
	uint16_t accessed[NTHREADS];
	int n;
	bool retired;
	/* as a futex */
	uint8_t bucket[MAX_LOCS];
	uint16_t bucket_last;
	uint8_t waiters; /* mask of threads */
};

struct mutex {
	int owner; /* -1: free */
	uint16_t last;
	struct view view;
};

struct plain {
	const volatile void *addr;
	uint16_t wrote_at, read_at[NTHREADS];
	int writer;
};

enum pending { P_RUN, P_LOCK, P_WAIT, P_DONE };

struct thread {
	jmp_buf jb, base;
	ucontext_t uc;
	bool has_context;
	struct view cur, acq,
	    rel; /* acq: what an acquire fence would add; rel: at last release fence */
	uint64_t hash;
	uint16_t steps;
	enum pending pending;
	int on; /* P_LOCK: the mutex; P_WAIT: the location */
};

struct event {
	int thread;
	char what[12];
	const char *name;
	uint64_t a, b;
	int mo;
};

static struct {
	const struct mc_test *test;
	enum mc_how how;
	int sabotaged; /* 1 + index of the site, or 0 */
	int nthreads;  /* test threads, 1..nthreads */

	struct thread threads[NTHREADS];
	struct loc locs[MAX_LOCS];
	struct mutex mutexes[MAX_MUTEX];
	struct plain plains[MAX_PLAIN];
	int nlocs, nmutexes, nplains;
	uint8_t sc_store[MAX_LOCS];
	uint16_t sc_last;

	struct {
		uint16_t chosen, of;
	} choices[MAX_CHOICES];
	int nchoices, pos, prefix;

	int self;      /* the running thread */
	bool starting; /* threads run up to their first step */
	int steps;
	jmp_buf main;
	struct event trace[MAX_STEPS + 64];
	int ntrace;

	uint64_t *seen; /* open addressing; 0 is empty */
	size_t seen_size, seen_n;
	struct mc_result res;
} mc;

struct mc_site mc_sites[MC_SITES];
int mc_nsites;

enum { J_SWITCH = 1, J_DONE, J_PRUNED, J_FAILED };

/* ---- sites ---- */

#define MO_DROPPED 0x80
#define MO_ORDER(mo) ((mo)&0x7f)
#define MO_SITE(mo) ((mo) >> 8)

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

/* The order of a site in this run: order | dropped | (1 + site) << 8. */
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
static bool dropped(int mo)
{
	if (MO_SITE(mo))
		mc_sites[MO_SITE(mo) - 1].writes = true;
	return (mo & MO_DROPPED) != 0;
}

static bool acquires(int mo)
{
	mo = MO_ORDER(mo);
	return mo == memory_order_acquire || mo == memory_order_consume ||
	       mo == memory_order_acq_rel || mo == memory_order_seq_cst;
}

static bool releases(int mo)
{
	mo = MO_ORDER(mo);
	return mo == memory_order_release || mo == memory_order_acq_rel ||
	       mo == memory_order_seq_cst;
}

static bool is_sc(int mo)
{
	return MO_ORDER(mo) == memory_order_seq_cst;
}

/* ---- hashing ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

static void note(uint64_t outcome)
{
	struct thread *t = &mc.threads[mc.self];

	t->hash = mix(t->hash, outcome + 1);
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

	if (mc.test->unreduced)
		return true;
	for (int i = 1; i <= mc.nthreads; i++)
		h = mix(h, mc.threads[i].hash);
	for (int i = 0; i < mc.nlocs; i++)
		h = mix(h, mc.locs[i].hash);
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

static int choose(int n)
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

static void event(const char *what, const char *name, uint64_t a, uint64_t b, int mo)
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
	int c = choose(n);

	note((uint64_t)c);
	event("choose", NULL, (uint64_t)n, (uint64_t)c, 0);
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
		pick = can[choose(n)];
	} else {
		pick = can[0];
	}
	if (pick == mc.self)
		return;
	mc.self = pick;
	if (_setjmp(me->jb) == 0)
		_longjmp(mc.threads[pick].jb, J_SWITCH);
}

/* Every step of a thread that others can notice begins here. */
static void step(enum pending pending, int on)
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

static uint16_t step_name(void)
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

/* ---- views ---- */

static uint8_t later(const struct loc *l, uint8_t a, uint8_t b)
{
	return l->rank[a] >= l->rank[b] ? a : b;
}

static void join_stores(uint8_t *into, const uint8_t *from)
{
	for (int i = 0; i < mc.nlocs; i++)
		into[i] = later(&mc.locs[i], into[i], from[i]);
}

static void join(struct view *into, const struct view *from)
{
	join_stores(into->store, from->store);
	for (int i = 0; i <= mc.nthreads; i++)
		if (into->clock[i] < from->clock[i])
			into->clock[i] = from->clock[i];
}

/* What the thread does from now on is not covered by what it released before. */
static void tick(void)
{
	mc.threads[mc.self].cur.clock[mc.self]++;
}

/* ---- atomics ---- */

static struct loc *loc_find(const volatile void *p)
{
	struct loc *l = NULL;

	for (int i = 0; i < mc.nlocs; i++)
		if (mc.locs[i].addr == p)
			l = &mc.locs[i];
	if (!l)
		mc_fail("an atomic that setup did not initialise");
	if (l->retired)
		mc_fail("%s is touched after its memory went away", l->name);
	l->accessed[mc.self] = mc.threads[mc.self].cur.clock[mc.self];
	return l;
}

static void insert(struct loc *l, uint8_t after, uint64_t v, const struct view *released)
{
	struct thread *t = &mc.threads[mc.self];
	int at = l->n ? l->rank[after] + 1 : 0;
	uint8_t id = (uint8_t)l->n;

	if (l->n == MAX_STORES)
		mc_fail("more than %d stores to %s", MAX_STORES, l->name);
	for (int i = l->n; i > at; i--) {
		l->order[i] = l->order[i - 1];
		l->rank[l->order[i]] = (uint8_t)i;
	}
	l->n++;
	l->order[at] = id;
	l->rank[id] = (uint8_t)at;
	l->stores[id].value = v & l->mask;
	l->stores[id].name = step_name();
	l->stores[id].has_rmw = false;
	t->cur.store[l - mc.locs] = id;
	l->stores[id].released = *released;
	l->stores[id].released.store[l - mc.locs] = id;
	l->hash = 0;
	for (int i = 0; i < l->n; i++)
		l->hash = mix(l->hash, l->stores[l->order[i]].name);
}

/* The thread reads store @id. */
static void read_store(struct loc *l, uint8_t id, int mo)
{
	struct thread *t = &mc.threads[mc.self];

	t->cur.store[l - mc.locs] = id;
	join(&t->acq, &l->stores[id].released);
	if (acquires(mo))
		join(&t->cur, &l->stores[id].released);
	note(l->stores[id].name);
}

static uint8_t oldest_readable(struct loc *l, int mo)
{
	struct thread *t = &mc.threads[mc.self];
	int i = (int)(l - mc.locs);

	if (is_sc(mo))
		t->cur.store[i] = later(l, t->cur.store[i], mc.sc_store[i]);
	return l->rank[t->cur.store[i]];
}

void mc_init(const volatile void *p, size_t size, uint64_t v, const char *name)
{
	struct loc *l = &mc.locs[mc.nlocs];

	if (mc.self != 0)
		mc_fail("atomic_init outside setup");
	if (mc.nlocs == MAX_LOCS)
		mc_fail("more than %d locations", MAX_LOCS);
	memset(l, 0, offsetof(struct loc, stores));
	memset(l->accessed, 0, sizeof(l->accessed));
	l->retired = false;
	memset(l->bucket, 0, sizeof(l->bucket));
	l->bucket_last = 0;
	l->waiters = 0;
	l->addr = p;
	l->name = name;
	l->mask = size == 1 ? 0xff : size == 2 ? 0xffff : size == 4 ? 0xffffffffu : UINT64_MAX;
	l->n = 0;
	mc.nlocs++;
	insert(l, 0, v, &mc.threads[0].cur);
}

uint64_t mc_load(const volatile void *p, int mo)
{
	struct loc *l;
	uint8_t id;
	int oldest;

	step(P_RUN, 0);
	l = loc_find(p);
	oldest = oldest_readable(l, mo);
	id = l->order[l->n - 1 - choose(l->n - oldest)];
	read_store(l, id, mo);
	event("load", l->name, l->stores[id].value, l->stores[id].value, mo);
	return l->stores[id].value;
}

static void write_store(struct loc *l, uint8_t after, uint64_t v, int mo, const struct view *seq)
{
	struct thread *t = &mc.threads[mc.self];
	struct view released = releases(mo) ? t->cur : t->rel;

	if (seq)
		join(&released, seq);
	insert(l, after, v, &released);
	if (is_sc(mo))
		mc.sc_store[l - mc.locs] =
		    later(l, mc.sc_store[l - mc.locs], t->cur.store[l - mc.locs]);
	tick();
}

void mc_store(const volatile void *p, uint64_t v, int mo)
{
	uint8_t can[MAX_STORES];
	struct loc *l;
	int n = 0, oldest;

	step(P_RUN, 0);
	l = loc_find(p);
	event("store", l->name, v, v, mo);
	if (dropped(mo)) {
		note(0);
		return;
	}
	oldest = oldest_readable(l, mo);
	for (int i = l->n - 1; i >= oldest; i--)
		if (!l->stores[l->order[i]].has_rmw)
			can[n++] = l->order[i];
	write_store(l, can[choose(n)], v, mo, NULL);
	note(0);
}

/* The write half of a read-modify-write that read @id. */
static void rmw_write(struct loc *l, uint8_t id, uint64_t v, int mo)
{
	struct view seq = l->stores[id].released;

	l->stores[id].has_rmw = true;
	write_store(l, id, v, mo, &seq);
}

bool mc_cas(const volatile void *p, uint64_t *expected, uint64_t v, int mo, int fail_mo)
{
	uint8_t can[MAX_STORES], id;
	uint64_t was;
	struct loc *l;
	int n = 0, oldest;

	step(P_RUN, 0);
	l = loc_find(p);
	oldest = oldest_readable(l, mo);
	for (int i = l->n - 1; i >= oldest; i--) {
		const struct store *s = &l->stores[l->order[i]];

		if (s->value != *expected || !s->has_rmw)
			can[n++] = l->order[i];
	}
	id = can[choose(n)];
	was = l->stores[id].value;
	if (was != *expected) {
		read_store(l, id, fail_mo);
		event("cas failed", l->name, was, was, fail_mo);
		*expected = was;
		return false;
	}
	event("cas", l->name, was, v, mo);
	read_store(l, id, mo);
	if (!dropped(mo))
		rmw_write(l, id, v, mo);
	return true;
}

uint64_t mc_rmw(const volatile void *p, enum mc_rmw op, uint64_t v, int mo)
{
	uint8_t can[MAX_STORES], id;
	uint64_t was, now = v;
	struct loc *l;
	int n = 0, oldest;

	step(P_RUN, 0);
	l = loc_find(p);
	oldest = oldest_readable(l, mo);
	for (int i = l->n - 1; i >= oldest; i--)
		if (!l->stores[l->order[i]].has_rmw)
			can[n++] = l->order[i];
	id = can[choose(n)];
	was = l->stores[id].value;
	switch (op) {
	case MC_XCHG:
		break;
	case MC_ADD:
		now = was + v;
		break;
	case MC_SUB:
		now = was - v;
		break;
	case MC_OR:
		now = was | v;
		break;
	case MC_AND:
		now = was & v;
		break;
	}
	event("rmw", l->name, was, now, mo);
	read_store(l, id, mo);
	if (!dropped(mo))
		rmw_write(l, id, now, mo);
	return was;
}

/* A fence as thread @i; @name is the step that makes it. */
static void fence_of(int i, int mo, uint16_t name)
{
	struct thread *t = &mc.threads[i];

	if (acquires(mo))
		join(&t->cur, &t->acq);
	if (is_sc(mo)) {
		join_stores(t->cur.store, mc.sc_store);
		memcpy(mc.sc_store, t->cur.store, sizeof(mc.sc_store));
		t->hash = mix(t->hash, mc.sc_last);
		mc.sc_last = name;
	}
	if (releases(mo))
		t->rel = t->cur;
	t->hash = mix(t->hash, name);
	t->cur.clock[i]++;
}

void mc_fence(int mo)
{
	if (dropped(mo) || MO_ORDER(mo) == memory_order_relaxed)
		return;
	step(P_RUN, 0);
	event("fence", NULL, 0, 0, mo);
	fence_of(mc.self, mo, step_name());
}

void mc_membarrier(void)
{
	static int cache;
	int mo = mc_mo(&cache, "membarrier", memory_order_seq_cst);

	if (dropped(mo) || MO_ORDER(mo) == memory_order_relaxed)
		return;
	for (int i = 0; i <= mc.nthreads + 1; i++) {
		int target = i == 0 || i == mc.nthreads + 1 ? mc.self : i;

		if (target == mc.self && i != 0 && i != mc.nthreads + 1)
			continue;
		step(P_RUN, 0);
		event("membarrier", NULL, 0, (uint64_t)target, mo);
		note((uint64_t)target);
		fence_of(target, mo, step_name());
	}
}

void mc_retire(const volatile void *p)
{
	struct thread *t = &mc.threads[mc.self];
	struct loc *l;

	step(P_RUN, 0);
	l = loc_find(p);
	event("retire", l->name, 0, 0, 0);
	for (int i = 1; i <= mc.nthreads; i++)
		if (i != mc.self && l->accessed[i] > t->cur.clock[i])
			mc_fail("%s goes away while T%d may still use it", l->name, i);
	l->retired = true;
	note(0);
}

/* ---- plain variables, mutexes, futexes ---- */

void mc_plain(const volatile void *p, bool write, const char *name)
{
	struct view *cur = &mc.threads[mc.self].cur;
	struct plain *v = NULL;

	for (int i = 0; i < mc.nplains; i++)
		if (mc.plains[i].addr == p)
			v = &mc.plains[i];
	if (!v) {
		if (mc.nplains == MAX_PLAIN)
			mc_fail("more than %d plain variables", MAX_PLAIN);
		v = &mc.plains[mc.nplains++];
		memset(v, 0, sizeof(*v));
		v->addr = p;
	}
	event(write ? "write" : "read", name, 0, 0, 0);
	if (v->wrote_at > cur->clock[v->writer])
		mc_fail("data race: %s, with a write by T%d", name, v->writer);
	if (!write) {
		v->read_at[mc.self] = cur->clock[mc.self];
		return;
	}
	for (int i = 0; i <= mc.nthreads; i++)
		if (v->read_at[i] > cur->clock[i])
			mc_fail("data race: write of %s, with a read by T%d", name, i);
	v->writer = mc.self;
	v->wrote_at = cur->clock[mc.self];
}

void mc_mutex_init(struct mc_mutex *m)
{
	if (mc.nmutexes == MAX_MUTEX)
		abort();
	m->id = mc.nmutexes++;
	mc.mutexes[m->id].owner = -1;
	mc.mutexes[m->id].last = 0;
	mc.mutexes[m->id].view = mc.threads[0].cur;
}

void mc_lock(struct mc_mutex *m)
{
	struct mutex *x = &mc.mutexes[m->id];

	step(P_LOCK, m->id);
	event("lock", NULL, (uint64_t)m->id, 0, 0);
	x->owner = mc.self;
	join(&mc.threads[mc.self].cur, &x->view);
	note(x->last);
}

/* Not a step of its own: giving up the mutex as early as it can only lets others do more. */
void mc_unlock(struct mc_mutex *m)
{
	struct mutex *x = &mc.mutexes[m->id];

	mc.threads[mc.self].steps++;
	event("unlock", NULL, (uint64_t)m->id, 0, 0);
	x->owner = -1;
	x->last = step_name();
	x->view = mc.threads[mc.self].cur;
	tick();
	note(0);
}

bool mc_futex_wait(const volatile void *p, uint32_t val)
{
	struct thread *t = &mc.threads[mc.self];
	struct loc *l;
	uint8_t id;

	/* The kernel reads the word and queues the caller under the bucket's lock. */
	step(P_RUN, 0);
	l = loc_find(p);
	join_stores(t->cur.store, l->bucket);
	note(l->bucket_last);
	id = l->order[l->n - 1 - choose(l->n - l->rank[t->cur.store[l - mc.locs]])];
	read_store(l, id, memory_order_relaxed);
	event("futex_wait", l->name, val, l->stores[id].value, 0);
	memcpy(l->bucket, t->cur.store, sizeof(l->bucket));
	l->bucket_last = step_name();
	tick();
	if (l->stores[id].value != val)
		return false;
	l->waiters |= (uint8_t)(1u << mc.self);
	step(P_WAIT, (int)(l - mc.locs));
	event("woken", l->name, 0, 0, 0);
	return true;
}

void mc_futex_wake(const volatile void *p)
{
	struct thread *t = &mc.threads[mc.self];
	struct loc *l = NULL;

	step(P_RUN, 0);
	/* The address may be dead by now: no loc_find(). */
	for (int i = 0; i < mc.nlocs; i++)
		if (mc.locs[i].addr == p)
			l = &mc.locs[i];
	if (!l)
		mc_fail("futex_wake of an unknown address");
	join_stores(t->cur.store, l->bucket);
	note(l->bucket_last);
	note(l->waiters);
	event("futex_wake", l->name, l->waiters, 0, 0);
	for (int i = 1; i <= mc.nthreads; i++)
		if (l->waiters & 1u << i) {
			mc.threads[i].pending = P_RUN;
			mc.threads[i].hash = mix(mc.threads[i].hash, step_name());
		}
	l->waiters = 0;
	memcpy(l->bucket, t->cur.store, sizeof(l->bucket));
	l->bucket_last = step_name();
	tick();
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
		join(&mc.threads[0].cur, &mc.threads[i].cur);
	mc.self = 0;
}

static void run_once(void)
{
	static int i;

	run_reset();
	switch (_setjmp(mc.main)) {
	case 0:
		mc.test->setup();
		tick();
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
