/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The table of peers: found by (local, remote) address, made on demand, kept while anything needs them.
 */
#include "runtime/engine.h"

#include <stdlib.h>

#include "platform/clock.h"

static uint32_t hash(const struct urds_addr *local, const struct urds_addr *remote)
{
	return urds_addr_hash(remote, urds_addr_hash(local, 0));
}

static struct peer **slot_of(struct urds_ctx *e, const struct urds_addr *local,
			     const struct urds_addr *remote)
{
	return &e->heads[hash(local, remote) & (e->heads_size - 1)];
}

static struct peer *find(struct urds_ctx *e, const struct urds_addr *local,
			 const struct urds_addr *remote)
{
	struct peer *p = e->heads ? *slot_of(e, local, remote) : NULL;

	while (p && !(urds_addr_eq(&p->core.remote, remote) && urds_addr_eq(&p->core.local, local)))
		p = p->hash_next;
	return p;
}

struct peer *peer_find(struct urds_ctx *e, const struct urds_addr *local,
		       const struct urds_addr *remote)
{
	struct peer *p;

	urds_rwlock_read_acquire(&e->table);
	p = find(e, local, remote);
	if (p)
		peer_hold(p);
	urds_rwlock_read_release(&e->table);
	return p;
}

static bool grow(struct urds_ctx *e)
{
	uint32_t was = e->heads_size, size = was ? was * 2 : 16;
	struct peer **old = e->heads, **heads = calloc(size, sizeof *heads);

	if (!heads)
		return old != NULL;
	e->heads = heads;
	e->heads_size = size;
	for (uint32_t i = 0; i < was; i++) {
		struct peer *p = old[i], *next;

		for (; p; p = next) {
			struct peer **s = slot_of(e, &p->core.local, &p->core.remote);

			next = p->hash_next;
			p->hash_next = *s;
			*s = p;
		}
	}
	free(old);
	return true;
}

/* Table lock held for writing. A peer that nothing is connected to and nothing waits for: it makes room. */
static struct peer *evict_one(struct urds_ctx *e)
{
	for (uint32_t i = 0; i < e->heads_size; i++)
		for (struct peer *p = e->heads[i]; p; p = p->hash_next) {
			bool is_idle;

			if (atomic_load(&p->refs) != 1)
				continue;
			urds_lock_acquire(&p->lock); /* its timer may run all the same */
			is_idle = urds_peer_is_idle(&p->core) && peer_pending(p) == 0;
			urds_lock_release(&p->lock);
			if (is_idle)
				return p;
		}
	return NULL;
}

/* Table lock held for writing. Its counters outlive it (A4). */
static void remember(struct urds_ctx *e, struct peer *p)
{
	struct urds_remembered r = {.local = p->core.local, .remote = p->core.remote};

	if (!p->core.is_proven && !p->past)
		return;
	if (p->past)
		r = *p->past;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);

		if (!h)
			continue;
		r.next_tx[i] = h->tx.log.next_seq;
		r.next_rx[i] = h->rx.next_rx;
	}
	urds_memory_add(&e->past, &e->pool.mem, &r);
}

static void unlink_peer(struct urds_ctx *e, struct peer *p)
{
	struct peer **s = slot_of(e, &p->core.local, &p->core.remote);

	while (*s != p)
		s = &(*s)->hash_next;
	*s = p->hash_next;
	e->npeers--;
	urds_lock_acquire(&e->count_lock);
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_if(p, i);

		if (h)
			path_counted(h);
	}
	urds_lock_release(&e->count_lock);
	urds_lock_acquire(&e->timer_lock);
	p->is_gone = true;
	urds_lock_release(&e->timer_lock);
	timer_set(p, URDS_NEVER);
}

static struct peer *peer_new(struct node *n, const struct urds_addr *remote)
{
	struct urds_ctx *e = n->e;
	struct peer *p = urds_alloc(&e->pool.mem, sizeof *p);
	struct urds_remembered past;

	if (!p)
		return NULL;
	urds_peer_init(&p->core, &e->pool.mem, &n->addr, remote, e->cfg.paths, e->cfg.ext);
	urds_lock_init(&p->lock);
	atomic_init(&p->refs, 2); /* the table's and the caller's */
	p->e = e;
	p->node = n;
	p->deadline = URDS_NEVER;
	if (urds_memory_take(&e->past, &n->addr, remote, &past)) {
		p->past = urds_alloc(&e->pool.mem, sizeof past);
		if (p->past)
			*p->past = past;
	}
	return p;
}

static bool is_in(const struct urds_addr *a, const struct urds_net *n)
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	/* An IPv4 network counts from bit 96; one of IPv6 holds no IPv4 address, however wide it is. */
	return urds_addr_is_v4(a) == urds_addr_is_v4(&n->addr) &&
	       memcmp(a->ip, n->addr.ip, whole) == 0 &&
	       (rest == 0 || ((a->ip[whole] ^ n->addr.ip[whole]) >> (8 - rest)) == 0);
}

bool peer_is_allowed(struct urds_ctx *e, const struct urds_addr *a)
{
	bool is_ours;

	for (size_t i = 0; i < e->cfg.nnets; i++)
		if (is_in(a, &e->cfg.nets[i]))
			return true;
	if (e->cfg.nnets == 0)
		return true;
	urds_rwlock_read_acquire(&e->table);
	is_ours = node_find(e, a) != NULL;
	urds_rwlock_read_release(&e->table);
	return is_ours;
}

struct peer *peer_get(struct node *n, const struct urds_addr *remote)
{
	struct urds_ctx *e = n->e;
	struct peer *p = peer_find(e, &n->addr, remote), *victim = NULL;

	if (p)
		return p;
	urds_rwlock_write_acquire(&e->table);
	p = find(e, &n->addr, remote);
	if (p) {
		peer_hold(p);
		goto out;
	}
	if (e->npeers >= e->cfg.peers_max) {
		victim = evict_one(e);
		if (!victim)
			goto out;
		remember(e, victim);
		unlink_peer(e, victim);
	}
	if (e->npeers >= e->heads_size && !grow(e))
		goto out;
	p = peer_new(n, remote);
	if (p) {
		struct peer **s = slot_of(e, &n->addr, remote);

		p->is_loop = node_find(e, remote) != NULL;
		p->hash_next = *s;
		*s = p;
		e->npeers++;
	}
out:
	urds_rwlock_write_release(&e->table);
	if (victim)
		peer_drop(victim);
	return p;
}

void peer_hold(struct peer *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

static void path_free(struct path *h)
{
	struct urds_mem *mem = &h->peer->e->pool.mem;

	path_counted(h); /* what came after unlink_peer() */
	urds_path_tx_fini(&h->tx);
	urds_path_rx_reset(&h->rx);
	if (h->keeps_chunk)
		atomic_fetch_sub(&h->peer->e->kept_chunks, 1);
	urds_free(mem, h, sizeof *h);
}

void peer_drop(struct peer *p)
{
	struct urds_mem *mem = &p->e->pool.mem;

	if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (p->path0)
		path_free(p->path0);
	for (unsigned i = 0; p->more && i < URDS_PATHS_MAX - 1; i++)
		if (p->more[i])
			path_free(p->more[i]);
	urds_free(mem, p->more, (URDS_PATHS_MAX - 1) * sizeof *p->more);
	urds_free(mem, p->parked, URDS_PARKED_MAX * sizeof *p->parked);
	urds_free(mem, p->rmap.bits, URDS_CONGMAP_LEN);
	urds_free(mem, p->past, sizeof *p->past);
	urds_peer_fini(&p->core);
	urds_free(mem, p, sizeof *p);
}

struct path *peer_path_if(struct peer *p, unsigned slot)
{
	if (slot == 0)
		return p->path0;
	return p->more ? p->more[slot - 1] : NULL;
}

/* Peer lock held. */
struct path *peer_path(struct peer *p, unsigned slot)
{
	struct urds_mem *mem = &p->e->pool.mem;
	struct path *h = peer_path_if(p, slot);
	struct path **more = p->more;
	uint64_t first;

	if (h)
		return h;
	if (slot > 0 && !more) {
		more = urds_alloc(mem, (URDS_PATHS_MAX - 1) * sizeof *more);
		if (!more)
			return NULL;
	}
	h = urds_alloc(mem, sizeof *h);
	if (!h) {
		if (!p->more)
			urds_free(mem, more, (URDS_PATHS_MAX - 1) * sizeof *more);
		return NULL;
	}
	h->peer = p;
	h->slot = (uint8_t)slot;
	/* Time-based: above anything a former life of this address can have used (W2, A4). */
	first = urds_wall_ns();
	if (p->past && p->past->next_tx[slot] > first)
		first = p->past->next_tx[slot];
	if (slot == 0 && p->rest.link)
		first = p->rest.path.next_tx;
	urds_path_tx_init(&h->tx, mem, first, slot == 0);
	urds_path_rx_init(&h->rx, mem);
	if (p->past)
		h->rx.next_rx = p->past->next_rx[slot];
	atomic_init(&h->rest_at, URDS_NEVER);
	h->poll_at = h->ack_at = h->end_by = URDS_NEVER;
	urds_lock_acquire(&p->e->count_lock);
	p->more = more;
	if (slot == 0)
		p->path0 = h;
	else
		more[slot - 1] = h;
	urds_lock_release(&p->e->count_lock);
	if (slot == 0 && p->rest.link)
		path_wake(h);
	return h;
}

struct path *peer_path_awake(struct peer *p, unsigned slot)
{
	return slot == 0 && p->rest.link ? peer_path(p, 0) : peer_path_if(p, slot);
}

struct path *peer_path_get(struct peer *p, unsigned slot, bool wake)
{
	struct path *h;

	urds_lock_acquire(&p->lock);
	h = wake ? peer_path_awake(p, slot) : peer_path_if(p, slot);
	urds_lock_release(&p->lock);
	return h;
}

/* Did the program send to it, and does urds_info() say why nothing came of it? */
static bool was_tried_in_vain(struct peer *p)
{
	const struct path *h = peer_path_if(p, 0);

	return h && p->core.fault.kind != URDS_FAULT_NONE &&
	       atomic_load_explicit(&h->counts[PATH_C_send_queued], memory_order_relaxed) > 0;
}

/* Is there anything that a new peer object would not know? */
static bool is_needed(struct peer *p)
{
	return p->core.is_proven || p->past || !urds_peer_is_idle(&p->core) ||
	       peer_pending(p) != 0 || was_tried_in_vain(p);
}

void peer_collect(struct peer *p)
{
	struct urds_ctx *e = p->e;
	bool gone = false;

	urds_rwlock_write_acquire(&e->table);
	urds_lock_acquire(&p->lock);
	/* The table's reference and the caller's: nobody else can be about to queue something. */
	if (!p->is_gone && atomic_load(&p->refs) == 2 && !is_needed(p)) {
		unlink_peer(e, p);
		gone = true;
	}
	urds_lock_release(&p->lock);
	urds_rwlock_write_release(&e->table);
	if (gone)
		peer_drop(p);
}

/* How many peers are looked at for one visit to the table. */
#define EACH_MAX 32

/* Without an allocation: a socket's close must find its messages when there is no memory either. */
void peer_each(struct urds_ctx *e, void (*fn)(struct peer *p, void *arg), void *arg)
{
	struct peer *some[EACH_MAX], *last = NULL, *p;
	uint32_t at = 0, size = 0, n;

	do {
		n = 0;
		urds_rwlock_read_acquire(&e->table);
		/* Its bucket again if that one is gone or the table has grown: rather twice than never. */
		if (last && !last->is_gone && size == e->heads_size)
			p = last->hash_next;
		else
			p = at < e->heads_size ? e->heads[at] : NULL;
		size = e->heads_size;
		for (;;) {
			for (; p && n < EACH_MAX; p = p->hash_next) {
				peer_hold(p);
				some[n++] = p;
			}
			if (n == EACH_MAX || ++at >= size)
				break;
			p = e->heads[at];
		}
		urds_rwlock_read_release(&e->table);
		if (last)
			peer_drop(last);
		for (uint32_t i = 0; i < n; i++) {
			fn(some[i], arg);
			if (i < EACH_MAX - 1)
				peer_drop(some[i]);
		}
		last = n == EACH_MAX ? some[EACH_MAX - 1] : NULL;
	} while (last);
}

void peers_free(struct urds_ctx *e)
{
	struct peer *gone = NULL, *p;

	urds_rwlock_write_acquire(&e->table);
	for (uint32_t i = 0; i < e->heads_size; i++) {
		while ((p = e->heads[i]) != NULL) {
			unlink_peer(e, p);
			p->hash_next = gone;
			gone = p;
		}
	}
	urds_rwlock_write_release(&e->table);
	while ((p = gone) != NULL) {
		gone = p->hash_next;
		peer_drop(p);
	}
}
