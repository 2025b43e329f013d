/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A context's life: start, fork, end.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/futex.h"
#include "platform/random.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

static struct urds_lock all_lock;
static struct urds_ctx *all; /* contexts of this process, for fork and exit */
static unsigned ends;	     /* all_lock: calls of engine_free() that are not back */
static _Thread_local unsigned
	own_ends; /* of this thread: exit() in a handler that interrupted one */

/* Of contexts that were shut down (spares.h). */
#define SPARES_MIN 16

static struct spares spares; /* all_lock */

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
	ends = own_ends;
	urds_lock_release(&all_lock);
}

/* More than an end takes. */
#define ENDS_NS URDS_SEC(6)

/* Also what other threads have begun to end is sent. */
static void at_exit(void)
{
	urds_ns until = urds_clock_ns() + ENDS_NS;
	struct urds_ctx *e;
	bool others_end;

	do {
		urds_lock_acquire(&all_lock);
		while (all && atomic_load(&all->is_dead))
			all = all->next;
		e = all;
		others_end = ends > own_ends;
		urds_lock_release(&all_lock);
		if (e)
			(void)engine_free(e, URDS_SEC(2));
		else if (others_end)
			urds_sleep_until(urds_clock_ns() + URDS_MS(1));
	} while (e || (others_end && urds_clock_ns() < until));
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

_Static_assert(offsetof(struct urds_ctx, spare) == 0, "for spares_take()");

static struct urds_ctx *ctx_alloc(void)
{
	struct urds_ctx *e;

	urds_lock_acquire(&all_lock);
	e = spares_take(&spares, SPARES_MIN);
	urds_lock_release(&all_lock);
	if (!e)
		return calloc(1, sizeof *e);
	memset((char *)e + offsetof(struct urds_ctx, cfg), 0,
	       sizeof *e - offsetof(struct urds_ctx, cfg));
	return e;
}

static void ctx_free(struct urds_ctx *e)
{
	atomic_store(&e->refs, 0);
	urds_lock_acquire(&all_lock);
	spares_put(&spares, &e->spare);
	urds_lock_release(&all_lock);
}

bool engine_enter(struct urds_ctx *e)
{
	uint32_t n = atomic_load_explicit(&e->refs, memory_order_relaxed);

	while (n > 0 && !(n & CTX_ENDS))
		if (atomic_compare_exchange_weak_explicit(&e->refs, &n, n + 1, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

void engine_leave(struct urds_ctx *e)
{
	atomic_fetch_sub_explicit(&e->refs, 1, memory_order_release);
}

int engine_new(const struct engine_config *cfg, struct urds_ctx **out)
{
	static struct urds_once once;
	struct urds_ctx *e = ctx_alloc();
	struct urds_tcp_config tcp = {.port = cfg->tcp_port};
	struct urds_loop_config loop = {.block_get = loop_block_get,
					.block_put = loop_block_put,
					.is_local = loop_is_local,
					.u = e};
	int rc = urds_process_init();

	if (!e)
		return -URDS_ENOMEM;
	if (rc < 0)
		goto undo_alloc;
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
	atomic_store_explicit(&e->refs, 1, memory_order_release);
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
undo_alloc:
	ctx_free(e);
	return rc;
}

int engine_start(struct urds_ctx *e)
{
	int rc = 0;

	if (e->cfg.no_threads)
		return 0;
	urds_lock_acquire(&e->start_lock);
	if (atomic_load(&e->stop)) /* a call on a socket that was looked at before it was shut */
		rc = -URDS_EBADF;
	if (rc == 0 && !e->loop_thread.is_running)
		rc = urds_thread_start(&e->loop_thread, "urds-loop", loop_main, e);
	if (rc == 0 && !e->flush_thread.is_running)
		rc = urds_thread_start(&e->flush_thread, "urds-flush", flusher_main, e);
	urds_lock_release(&e->start_lock);
	return rc;
}

/* ---------------------------------------------------------------- the end */

/* What waits for a peer that is not connected is given this long, or as long as a connection is being made. */
#define UNLINKED_NS URDS_MS(300)
/* A call may be asking another owner who it is (lib/record_take.c), for a second. */
#define CALLS_NS URDS_SEC(3)

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
			path_hurry(h);
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
	ctx_free(e);
}

/* From here on there is no further call of the context itself, and it is no more in the list. */
static int end_begins(struct urds_ctx *e)
{
	struct urds_ctx **at;
	int rc = -URDS_EBADF;

	urds_lock_acquire(&all_lock);
	for (at = &all; *at && *at != e; at = &(*at)->next)
		;
	if (*at) {
		*at = e->next;
		atomic_fetch_or(&e->refs, CTX_ENDS);
		ends++;
		own_ends++;
		rc = 0;
	}
	urds_lock_release(&all_lock);
	return rc;
}

static void end_is_over(void)
{
	urds_lock_acquire(&all_lock);
	ends--;
	own_ends--;
	urds_lock_release(&all_lock);
}

static bool has_calls(struct urds_ctx *e)
{
	return atomic_load(&e->refs) != (CTX_ENDS | 1);
}

int engine_free(struct urds_ctx *e, urds_ns flush_ns)
{
	struct urds_sock *s;
	urds_ns end;
	int rc = end_begins(e);

	if (rc < 0)
		return rc;
	/* None of them waits long. Afterwards only calls on sockets are inside. */
	end = urds_clock_ns() + CALLS_NS;
	while (has_calls(e) && urds_clock_ns() < end)
		urds_sleep_until(urds_clock_ns() + URDS_US(100));
	end = urds_clock_ns() + flush_ns;
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
	urds_lock_acquire(&e->start_lock);
	atomic_store(&e->stop, true);
	urds_lock_release(&e->start_lock);
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
	urds_lock_acquire(&e->node_lock);
	atomic_store(&e->is_closing, true);
	urds_lock_release(&e->node_lock);
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
	while ((atomic_load(&e->nsocks) > 0 || has_calls(e)) && urds_clock_ns() < end + URDS_SEC(1))
		urds_poller_wait(e->poller, URDS_MS(1));
	/* A call that does not return: its context stays. */
	if (atomic_load(&e->nsocks) == 0 && !has_calls(e))
		destroy(e);
	end_is_over();
	return 0;
}
