/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A context's life: start, nodes, fork, end.
 */
#include "runtime/engine.h"

#include <stdlib.h>

#include "platform/clock.h"
#include "platform/futex.h"
#include "platform/random.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

static struct urds_lock all_lock;
static struct urds_ctx *all; /* contexts of this process, for fork and exit */

const char *const urds_counter_names[URDS_C_MAX] = {
#define X(name) #name,
	URDS_COUNTERS(X)
#undef X
};

/* ---------------------------------------------------------------- fork and exit */

/* A prepare that waits for every lock of every context would deadlock with a signal handler; the child uses
 * nothing but the list, so only that is held. */
static void fork_prepare(void) URDS_UNCHECKED
{
	urds_lock_acquire(&all_lock);
	sock_fork(URDS_FORK_PREPARE);
	urds_fds_fork(URDS_FORK_PREPARE);
}

static void fork_parent(void) URDS_UNCHECKED
{
	urds_fds_fork(URDS_FORK_PARENT);
	sock_fork(URDS_FORK_PARENT);
	urds_lock_release(&all_lock);
}

/* The parent's connections and listeners must not live on here: an inherited listener would swallow connections. */
static void fork_child(void) URDS_UNCHECKED
{
	urds_fds_fork(URDS_FORK_CHILD);
	sock_fork(URDS_FORK_CHILD);
	for (struct urds_ctx *e = all; e; e = e->next)
		atomic_store(&e->is_dead, true);
	urds_lock_release(&all_lock);
}

static void at_exit(void)
{
	struct urds_ctx *e;

	while ((e = all) != NULL) {
		if (atomic_load(&e->is_dead)) {
			urds_lock_acquire(&all_lock);
			all = e->next;
			urds_lock_release(&all_lock);
			continue;
		}
		engine_free(e, URDS_SEC(2));
	}
}

static void process_setup(void)
{
	urds_at_fork(fork_prepare, fork_parent, fork_child);
	urds_at_exit(at_exit);
}

/* ---------------------------------------------------------------- contexts */

static void *loop_block_get(void *u, unsigned n64k)
{
	struct urds_ctx *e = u;

	return e->pool.mem.ops->block_get(&e->pool.mem, n64k);
}

static void loop_block_put(void *u, void *block, unsigned n64k)
{
	struct urds_ctx *e = u;

	e->pool.mem.ops->block_put(&e->pool.mem, block, n64k);
}

static bool loop_is_local(void *u, const struct urds_addr *a)
{
	struct urds_ctx *e = u;

	return e->tcp->resolve->is_local(e->tcp, a);
}

int engine_new(const struct engine_config *cfg, struct urds_ctx **out)
{
	static struct urds_once once;
	struct urds_ctx *e = calloc(1, sizeof *e);
	struct urds_tcp_config tcp = {.port = cfg->tcp_port};
	struct urds_loop_config loop = {.block_get = loop_block_get,
					.block_put = loop_block_put,
					.is_local = loop_is_local,
					.u = e};
	int rc = urds_process_init();

	if (rc < 0 || !e) {
		free(e);
		return rc < 0 ? rc : -URDS_ENOMEM;
	}
	urds_once(&once, process_setup);
	e->cfg = *cfg;
	urds_pool_init(&e->pool, cfg->memory_max);
	e->bound.mem = &e->pool.mem;
	do
		e->incarnation = (uint32_t)urds_random64();
	while (e->incarnation == 0);
	atomic_init(&e->next_deadline, URDS_NEVER);
	e->extra_fd = -1;
	if (cfg->no_threads) {
		/* The program is to be rung: progress.c. */
		atomic_init(&e->loop_polls, 1);
		atomic_init(&e->poll_until, URDS_NEVER);
	}
	rc = urds_poller_new(&e->poller);
	if (rc < 0)
		goto undo_ctx;
	rc = urds_wake_init_held(&e->lead_wake, e->poller, lead_rung);
	if (rc < 0)
		goto undo_poller;
	rc = urds_wake_init_held(&e->loop_wake, e->poller, loop_rung);
	if (rc < 0)
		goto undo_lead_wake;
	rc = urds_tcp_new(&tcp, e->poller, &engine_sink, e, &e->tcp);
	if (rc < 0)
		goto undo_wake;
	rc = urds_loop_new(&loop, &engine_sink, e, &e->loop);
	if (rc < 0)
		goto undo_tcp;
	urds_lock_acquire(&all_lock);
	e->next = all;
	all = e;
	urds_lock_release(&all_lock);
	*out = e;
	return 0;

undo_tcp:
	urds_tcp_free(e->tcp);
undo_wake:
	urds_wake_fini(&e->loop_wake);
undo_lead_wake:
	urds_wake_fini(&e->lead_wake);
undo_poller:
	urds_poller_free(e->poller);
undo_ctx:
	urds_pool_fini(&e->pool);
	free(e);
	return rc;
}

int engine_start(struct urds_ctx *e)
{
	int rc = 0;

	if (e->cfg.no_threads)
		return 0;
	urds_lock_acquire(&e->start_lock);
	if (!e->loop_thread.is_running)
		rc = urds_thread_start(&e->loop_thread, "urds-loop", loop_main, e);
	if (rc == 0 && !e->flush_thread.is_running)
		rc = urds_thread_start(&e->flush_thread, "urds-flush", flusher_main, e);
	urds_lock_release(&e->start_lock);
	return rc;
}

/* ---------------------------------------------------------------- nodes */

struct node *node_find(struct urds_ctx *e, const struct urds_addr *a)
{
	struct node *n = e->nodes;

	while (n && !urds_addr_eq(&n->addr, a))
		n = n->next;
	return n;
}

/* node_lock held. It came to nothing, but peers may have been made of it meanwhile: it waits for the next try. */
static void node_lose(struct node *n)
{
	n->next = n->e->lost;
	n->e->lost = n;
}

/* node_lock held. */
static struct node *node_lost(struct urds_ctx *e, const struct urds_addr *a)
{
	struct node **at = &e->lost, *n;

	while (*at && !urds_addr_eq(&(*at)->addr, a))
		at = &(*at)->next;
	n = *at;
	if (n)
		*at = n->next;
	return n;
}

static int node_new(struct urds_ctx *e, const struct urds_addr *a, struct node **out)
{
	struct node *n = node_lost(e, a);
	int rc = 0;

	if (!n)
		n = urds_alloc(&e->pool.mem, sizeof *n);
	if (!n)
		return -URDS_ENOMEM;
	n->e = e;
	n->addr = *a;
	if (e->take_record && e->cfg.record)
		rc = e->take_record(n);
	if (rc < 0)
		node_lose(n);
	else
		*out = n;
	return rc;
}

static int node_listen(struct node *n)
{
	struct urds_ctx *e = n->e;
	int rc = e->tcp->connect->listen(e->tcp, &n->addr, n, &n->tcp);

	if (rc < 0)
		return rc;
	rc = e->loop->connect->listen(e->loop, &n->addr, n, &n->loop);
	if (rc < 0)
		e->tcp->connect->unlisten(n->tcp);
	if (rc < 0)
		n->tcp = n->loop = NULL;
	return rc;
}

static void node_link(struct node *n)
{
	struct urds_ctx *e = n->e;

	urds_rwlock_write_acquire(&e->table);
	n->next = e->nodes;
	e->nodes = n;
	urds_rwlock_write_release(&e->table);
}

static void node_unlink(struct node *n)
{
	struct node **at;

	urds_rwlock_write_acquire(&n->e->table);
	for (at = &n->e->nodes; *at != n; at = &(*at)->next)
		;
	*at = n->next;
	urds_rwlock_write_release(&n->e->table);
}

/* An address that was another owner's, or nobody's, is ours now: its connections run in memory from here on. */
static void now_ours(struct peer *p, void *arg)
{
	const struct urds_addr *a = arg;

	if (urds_addr_eq(&p->core.remote, a) && !atomic_exchange(&p->is_loop, true))
		peer_reset(p);
}

/* Connections that came while the address looked like ours. */
static void not_ours(struct peer *p, void *arg)
{
	if (urds_addr_eq(&p->core.local, arg))
		peer_reset(p);
}

/* Its first socket takes its port before anyone can connect: messages for it may be waiting. */
static int node_make(struct urds_ctx *e, const struct urds_addr *a, struct urds_sock *s,
		     const struct urds_endpoint *at, struct node **out, void **record)
{
	struct node *n;
	int rc = e->tcp->resolve->is_local(e->tcp, a) ? node_new(e, a, &n) : -URDS_EADDRNOTAVAIL;

	if (rc < 0)
		return rc;
	node_link(n);
	rc = s ? sock_take_port(s, n, at) : 0;
	if (rc < 0)
		goto undo_node;
	rc = node_listen(n);
	if (rc < 0)
		goto undo_port;
	*out = n;
	return 0;

undo_port:
	if (s)
		sock_leave_port(s);
undo_node:
	node_unlink(n);
	*record = n->record;
	n->record = NULL;
	node_lose(n);
	return rc;
}

int node_get(struct urds_ctx *e, const struct urds_addr *a, struct urds_sock *s,
	     const struct urds_endpoint *at)
{
	void *record = NULL;
	struct node *n;
	bool is_new;
	int rc = engine_start(e);

	if (rc < 0)
		return rc;
	urds_lock_acquire(&e->node_lock);
	urds_rwlock_read_acquire(&e->table);
	n = node_find(e, a);
	urds_rwlock_read_release(&e->table);
	is_new = !n;
	if (is_new)
		rc = node_make(e, a, s, at, &n, &record);
	else if (s)
		rc = sock_take_port(s, n, at);
	urds_lock_release(&e->node_lock);
	if (record)
		e->drop_record(record);
	if (rc == 0 && is_new)
		peer_each(e, now_ours, &n->addr);
	if (rc < 0 && is_new) {
		struct urds_addr lost = *a;

		peer_each(e, not_ours, &lost);
	}
	return rc;
}

/* ---------------------------------------------------------------- the end */

/* What waits for a peer that is not connected is given this long, or as long as a connection is being made. */
#define UNLINKED_NS URDS_MS(300)

struct flush_arg {
	unsigned unsent, links;
	bool unlinked_too;
};

static bool is_dialled(struct path *h)
{
	bool is;

	urds_lock_acquire(&h->peer->lock);
	is = h->dialling || h->dials;
	urds_lock_release(&h->peer->lock);
	return is;
}

static void count_unsent(struct peer *p, void *arg)
{
	struct flush_arg *a = arg;

	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, false);

		if (!h)
			continue;
		if (!atomic_load(&h->link)) {
			a->unsent += urds_log_has_pending(&h->tx.log) &&
				     (a->unlinked_too || is_dialled(h));
			continue;
		}
		a->links++;
		if (!urds_log_is_settled(&h->tx.log)) {
			a->unsent++;
			atomic_store(&h->wants_sample, true);
			atomic_store(&h->wants_ack, true);
			path_transmit(h);
		}
	}
}

static void end_links(struct peer *p, void *arg)
{
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, false);
		struct urds_link *l;

		if (!h)
			continue;
		/* What was received and not acknowledged yet would come again to our successor. */
		if (atomic_load(&h->rx_unacked) > 0) {
			urds_path_tx_want_ack(&h->tx);
			path_transmit(h);
		}
		path_role_take(h);
		l = atomic_load(&h->link);
		if (l && !atomic_exchange(&h->is_ending, true))
			l->t->connect->shutdown(l);
		path_role_leave(h);
	}
}

static void drop_links(struct peer *p, void *arg)
{
	/* First what is parked: it would take the place of the first connection that ends, and stay. */
	for (unsigned k = 0; k < URDS_PARKED_MAX; k++) {
		struct urds_link *l;

		urds_lock_acquire(&p->lock);
		l = p->parked ? p->parked[k].link : NULL;
		if (l) {
			urds_buf_drop(p->parked[k].buf);
			unpark(p, k);
			urds_peer_unparked(&p->core, k);
		}
		urds_lock_release(&p->lock);
		if (l)
			l->t->connect->close(l, URDS_CLOSE_NOW);
	}
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct urds_link *l;
		struct path *h = peer_path_get(p, i, false);

		if (!h)
			continue;
		if (atomic_load(&h->link)) {
			atomic_store(&h->must_drop, true);
			path_receive(h);
		}
		urds_lock_acquire(&p->lock);
		l = h->dialling;
		h->dialling = NULL;
		if (l)
			l->is_given_up = true;
		urds_lock_release(&p->lock);
		if (l)
			l->t->connect->close(l, URDS_CLOSE_NOW);
	}
}

static void wake(struct peer *p, void *arg)
{
	peer_path_get(p, 0, true);
}

/* Drives until there is nothing left to send, or nobody to send it to, or @until; with @links, until there is no
 * connection. */
static void settle(struct urds_ctx *e, bool links, urds_ns until)
{
	urds_ns unlinked_until = urds_clock_ns() + UNLINKED_NS;

	for (;;) {
		urds_ns now = urds_clock_ns();
		struct flush_arg a = {.unlinked_too = now < unlinked_until};

		engine_drive(e);
		peer_each(e, count_unsent, &a);
		if ((links ? a.links : a.unsent) == 0 || now >= until)
			return;
		urds_poller_wait(e->poller, URDS_MS(5));
	}
}

static void nodes_free(struct urds_ctx *e, struct node *n)
{
	struct node *next;

	for (; n; n = next) {
		next = n->next;
		urds_localmap_fini(&n->map, &e->pool.mem);
		urds_free(&e->pool.mem, n, sizeof *n);
	}
}

static void destroy(struct urds_ctx *e)
{
	peers_free(e);
	nodes_free(e, e->nodes);
	nodes_free(e, e->lost);
	urds_bindtab_fini(&e->bound);
	urds_memory_fini(&e->past, &e->pool.mem);
	urds_tcp_free(e->tcp);
	urds_loop_free(e->loop);
	urds_wake_fini(&e->loop_wake);
	urds_wake_fini(&e->lead_wake);
	if (e->has_hub)
		urds_hub_free(&e->hub);
	urds_poller_free(e->poller);
	urds_pool_fini(&e->pool);
	free(e->heads);
	free(e->heap);
	free(e->cfg.nets);
	free(e);
}

void engine_free(struct urds_ctx *e, urds_ns flush_ns)
{
	struct urds_ctx **at;
	struct urds_sock *s;
	urds_ns end = urds_clock_ns() + flush_ns;

	urds_lock_acquire(&all_lock);
	for (at = &all; *at && *at != e; at = &(*at)->next)
		;
	if (*at)
		*at = e->next;
	urds_lock_release(&all_lock);

	urds_lock_acquire(&e->progress_lock);
	e->is_undriven = true; /* nobody else does its work any more */
	if (e->cfg.no_threads)
		atomic_store(&e->loop_polls, 0);
	urds_lock_release(&e->progress_lock);
	if (e->stop_records)
		e->stop_records(e);
	/* Nothing is sent any more from here on, or the flush would have no end. */
	while ((s = sock_first(e, true)) != NULL) {
		sock_shut(s);
		sock_drop(s);
	}
	atomic_store(&e->stop, true);
	atomic_store(&e->led_since, 0);
	urds_wake_ring(&e->loop_wake);
	atomic_store(&e->loop_bell.word, URDS_DOORBELL_AWAKE);
	urds_futex_wake(&e->loop_bell.word, 1);
	atomic_store(&e->flush_bell.word, URDS_DOORBELL_AWAKE);
	urds_futex_wake(&e->flush_bell.word, 1);
	urds_thread_join(&e->loop_thread);
	urds_thread_join(&e->flush_thread);

	peer_each(e, wake, NULL); /* none rests again: e->stop */
	settle(e, false, end);
	atomic_store(&e->is_closing, true);
	/* A kernel connects again at once: one that it believes in takes its messages to the grave. */
	for (struct node *n = e->nodes; n; n = n->next)
		e->tcp->connect->unlisten(n->tcp);
	peer_each(e, end_links, NULL);
	settle(e, true, end);
	while ((s = sock_first(e, false)) != NULL) {
		sock_close(s);
		sock_drop(s);
	}
	for (struct node *n = e->nodes; n; n = n->next) {
		e->loop->connect->unlisten(n->loop);
		if (n->record)
			e->drop_record(n->record);
	}
	peer_each(e, drop_links, NULL);
	engine_drive(e);
	atomic_store(&e->is_dead, true);
	/* Calls of other threads were woken by the closes above; the last to leave frees its socket. */
	while (atomic_load(&e->nsocks) > 0 && urds_clock_ns() < end + URDS_SEC(1))
		urds_poller_wait(e->poller, URDS_MS(1));
	if (atomic_load(&e->nsocks) > 0)
		return; /* a call that does not return: its context stays */
	destroy(e);
}
