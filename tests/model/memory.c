/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The model checker's memory: store histories, views, races, mutexes and futexes. See model.h.
 */
#include "model_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

void mc_join(struct view *into, const struct view *from)
{
	join_stores(into->store, from->store);
	for (int i = 0; i <= mc.nthreads; i++)
		if (into->clock[i] < from->clock[i])
			into->clock[i] = from->clock[i];
}

/* What the thread does from now on is not covered by what it released before. */
void mc_tick(void)
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
	l->stores[id].name = mc_step_name();
	l->stores[id].has_rmw = false;
	t->cur.store[l - mc.locs] = id;
	l->stores[id].released = *released;
	l->stores[id].released.store[l - mc.locs] = id;
	l->hash = 0;
	for (int i = 0; i < l->n; i++)
		l->hash = mc_mix(l->hash, l->stores[l->order[i]].name);
}

/* The thread reads store @id. */
static void read_store(struct loc *l, uint8_t id, int mo)
{
	struct thread *t = &mc.threads[mc.self];

	t->cur.store[l - mc.locs] = id;
	mc_join(&t->acq, &l->stores[id].released);
	if (acquires(mo))
		mc_join(&t->cur, &l->stores[id].released);
	mc_note(l->stores[id].name);
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

	mc_step(P_RUN, 0);
	l = loc_find(p);
	oldest = oldest_readable(l, mo);
	id = l->order[l->n - 1 - mc_pick(l->n - oldest)];
	read_store(l, id, mo);
	mc_event("load", l->name, l->stores[id].value, l->stores[id].value, mo);
	return l->stores[id].value;
}

static void write_store(struct loc *l, uint8_t after, uint64_t v, int mo, const struct view *seq)
{
	struct thread *t = &mc.threads[mc.self];
	struct view released = releases(mo) ? t->cur : t->rel;

	if (seq)
		mc_join(&released, seq);
	insert(l, after, v, &released);
	if (is_sc(mo))
		mc.sc_store[l - mc.locs] =
			later(l, mc.sc_store[l - mc.locs], t->cur.store[l - mc.locs]);
	mc_tick();
}

void mc_store(const volatile void *p, uint64_t v, int mo)
{
	uint8_t can[MAX_STORES];
	struct loc *l;
	int n = 0, oldest;

	mc_step(P_RUN, 0);
	l = loc_find(p);
	mc_event("store", l->name, v, v, mo);
	if (mc_dropped(mo)) {
		mc_note(0);
		return;
	}
	oldest = oldest_readable(l, mo);
	for (int i = l->n - 1; i >= oldest; i--)
		if (!l->stores[l->order[i]].has_rmw)
			can[n++] = l->order[i];
	write_store(l, can[mc_pick(n)], v, mo, NULL);
	mc_note(0);
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

	mc_step(P_RUN, 0);
	l = loc_find(p);
	oldest = oldest_readable(l, mo);
	for (int i = l->n - 1; i >= oldest; i--) {
		const struct store *s = &l->stores[l->order[i]];

		if (s->value != *expected || !s->has_rmw)
			can[n++] = l->order[i];
	}
	id = can[mc_pick(n)];
	was = l->stores[id].value;
	if (was != *expected) {
		read_store(l, id, fail_mo);
		mc_event("cas failed", l->name, was, was, fail_mo);
		*expected = was;
		return false;
	}
	mc_event("cas", l->name, was, v, mo);
	read_store(l, id, mo);
	if (!mc_dropped(mo))
		rmw_write(l, id, v, mo);
	return true;
}

uint64_t mc_rmw(const volatile void *p, enum mc_rmw op, uint64_t v, int mo)
{
	uint8_t can[MAX_STORES], id;
	uint64_t was, now = v;
	struct loc *l;
	int n = 0, oldest;

	mc_step(P_RUN, 0);
	l = loc_find(p);
	oldest = oldest_readable(l, mo);
	for (int i = l->n - 1; i >= oldest; i--)
		if (!l->stores[l->order[i]].has_rmw)
			can[n++] = l->order[i];
	id = can[mc_pick(n)];
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
	mc_event("rmw", l->name, was, now, mo);
	read_store(l, id, mo);
	if (!mc_dropped(mo))
		rmw_write(l, id, now, mo);
	return was;
}

/* A fence as thread @i; @name is the step that makes it. */
static void fence_of(int i, int mo, uint16_t name)
{
	struct thread *t = &mc.threads[i];

	if (acquires(mo))
		mc_join(&t->cur, &t->acq);
	if (is_sc(mo)) {
		join_stores(t->cur.store, mc.sc_store);
		memcpy(mc.sc_store, t->cur.store, sizeof(mc.sc_store));
		t->hash = mc_mix(t->hash, mc.sc_last);
		mc.sc_last = name;
	}
	if (releases(mo))
		t->rel = t->cur;
	t->hash = mc_mix(t->hash, name);
	t->cur.clock[i]++;
}

void mc_fence(int mo)
{
	if (mc_dropped(mo) || MO_ORDER(mo) == memory_order_relaxed)
		return;
	mc_step(P_RUN, 0);
	mc_event("fence", NULL, 0, 0, mo);
	fence_of(mc.self, mo, mc_step_name());
}

void mc_membarrier(void)
{
	static int cache;
	int mo = mc_mo(&cache, "membarrier", memory_order_seq_cst);

	if (mc_dropped(mo) || MO_ORDER(mo) == memory_order_relaxed)
		return;
	for (int i = 0; i <= mc.nthreads + 1; i++) {
		int target = i == 0 || i == mc.nthreads + 1 ? mc.self : i;

		if (target == mc.self && i != 0 && i != mc.nthreads + 1)
			continue;
		mc_step(P_RUN, 0);
		mc_event("membarrier", NULL, 0, (uint64_t)target, mo);
		mc_note((uint64_t)target);
		fence_of(target, mo, mc_step_name());
	}
}

void mc_retire(const volatile void *p)
{
	struct thread *t = &mc.threads[mc.self];
	struct loc *l;

	mc_step(P_RUN, 0);
	l = loc_find(p);
	mc_event("retire", l->name, 0, 0, 0);
	for (int i = 1; i <= mc.nthreads; i++)
		if (i != mc.self && l->accessed[i] > t->cur.clock[i])
			mc_fail("%s goes away while T%d may still use it", l->name, i);
	l->retired = true;
	mc_note(0);
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
	mc_event(write ? "write" : "read", name, 0, 0, 0);
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

	mc_step(P_LOCK, m->id);
	mc_event("lock", NULL, (uint64_t)m->id, 0, 0);
	x->owner = mc.self;
	mc_join(&mc.threads[mc.self].cur, &x->view);
	mc_note(x->last);
}

/* Not a step of its own: giving up the mutex as early as it can only lets others do more. */
void mc_unlock(struct mc_mutex *m)
{
	struct mutex *x = &mc.mutexes[m->id];

	mc.threads[mc.self].steps++;
	mc_event("unlock", NULL, (uint64_t)m->id, 0, 0);
	x->owner = -1;
	x->last = mc_step_name();
	x->view = mc.threads[mc.self].cur;
	mc_tick();
	mc_note(0);
}

bool mc_futex_wait(const volatile void *p, uint32_t val)
{
	struct thread *t = &mc.threads[mc.self];
	struct loc *l;
	uint8_t id;

	/* The kernel reads the word and queues the caller under the bucket's lock. */
	mc_step(P_RUN, 0);
	l = loc_find(p);
	join_stores(t->cur.store, l->bucket);
	mc_note(l->bucket_last);
	id = l->order[l->n - 1 - mc_pick(l->n - l->rank[t->cur.store[l - mc.locs]])];
	read_store(l, id, memory_order_relaxed);
	mc_event("futex_wait", l->name, val, l->stores[id].value, 0);
	memcpy(l->bucket, t->cur.store, sizeof(l->bucket));
	l->bucket_last = mc_step_name();
	mc_tick();
	if (l->stores[id].value != val)
		return false;
	l->waiters |= (uint8_t)(1u << mc.self);
	mc_step(P_WAIT, (int)(l - mc.locs));
	mc_event("woken", l->name, 0, 0, 0);
	return true;
}

void mc_futex_wake(const volatile void *p)
{
	struct thread *t = &mc.threads[mc.self];
	struct loc *l = NULL;

	mc_step(P_RUN, 0);
	/* The address may be dead by now: no loc_find(). */
	for (int i = 0; i < mc.nlocs; i++)
		if (mc.locs[i].addr == p)
			l = &mc.locs[i];
	if (!l)
		mc_fail("futex_wake of an unknown address");
	join_stores(t->cur.store, l->bucket);
	mc_note(l->bucket_last);
	mc_note(l->waiters);
	mc_event("futex_wake", l->name, l->waiters, 0, 0);
	for (int i = 1; i <= mc.nthreads; i++)
		if (l->waiters & 1u << i) {
			mc.threads[i].pending = P_RUN;
			mc.threads[i].hash = mc_mix(mc.threads[i].hash, mc_step_name());
		}
	l->waiters = 0;
	memcpy(l->bucket, t->cur.store, sizeof(l->bucket));
	l->bucket_last = mc_step_name();
	mc_tick();
}
