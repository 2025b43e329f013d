/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A socket's life: made, bound, waited for, cancelled, closed. Sending and receiving: send.c, recv.c.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/pair.h"
#include "platform/random.h"
#include "transport/loop/loop.h"

/* Of sockets that were closed (spares.h). Their locks are never reset: under one, a call finds is_closed, even after its context is
 * gone. */
#define SPARES_MIN 64

_Atomic uint32_t sock_forks;

static struct urds_lock spare_lock;
static struct spares spares;

_Static_assert(offsetof(struct urds_sock, spare) == 0, "for spares_take()");

static struct urds_sock *sock_alloc(void)
{
	struct urds_sock *s;

	urds_lock_acquire(&spare_lock);
	s = spares_take(&spares, SPARES_MIN);
	urds_lock_release(&spare_lock);
	if (!s)
		return calloc(1, sizeof *s);
	memset((char *)s + offsetof(struct urds_sock, bound), 0,
	       sizeof *s - offsetof(struct urds_sock, bound));
	return s;
}

static void sock_free(struct urds_sock *s)
{
	urds_lock_acquire(&spare_lock);
	spares_put(&spares, &s->spare);
	urds_lock_release(&spare_lock);
}

void sock_fork(enum urds_fork stage) URDS_UNCHECKED
{
	if (stage == URDS_FORK_PREPARE) {
		urds_lock_acquire(&spare_lock);
		return;
	}
	if (stage == URDS_FORK_CHILD)
		atomic_fetch_add(&sock_forks, 1);
	urds_lock_release(&spare_lock);
}

int sock_new(struct urds_ctx *e, struct urds_sock **out)
{
	struct urds_sock *s;

	if (atomic_load(&e->is_dead) || atomic_load(&e->is_closing))
		return -URDS_EBADF;
	s = sock_alloc();
	if (!s)
		return -URDS_ENOMEM;
	atomic_fetch_add_explicit(&e->pool.small, sizeof *s, memory_order_relaxed);
	atomic_fetch_add(&e->nsocks, 1);
	s->e = e;
	s->forks = atomic_load(&sock_forks);
	urds_rxq_init(&s->rxq, &e->pool.mem);
	s->txq.sndbuf = URDS_SNDBUF_DEFAULT;
	s->fds[0] = s->fds[1] = -1;
	s->transport = -1;
	atomic_store_explicit(&s->refs, 1, memory_order_release);
	urds_rwlock_write_acquire(&e->table);
	s->inode = ++e->next_inode;
	s->next = e->socks;
	if (s->next)
		s->next->prev = s;
	e->socks = s;
	urds_rwlock_write_release(&e->table);
	*out = s;
	return 0;
}

void sock_hold(struct urds_sock *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

bool sock_try_hold(struct urds_sock *s)
{
	uint32_t n = atomic_load_explicit(&s->refs, memory_order_relaxed);

	while (n > 0)
		if (atomic_compare_exchange_weak_explicit(&s->refs, &n, n + 1, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

static void move_counts(struct urds_sock *s)
{
	urds_lock_acquire(&s->rx_lock);
	urds_count(s->e, URDS_C_recv_delivered, s->delivered);
	urds_count(s->e, URDS_C_copy_to_user, s->copied);
	s->delivered = s->copied = 0;
	urds_lock_release(&s->rx_lock);
	urds_lock_acquire(&s->tx_lock);
	urds_count(s->e, URDS_C_send_queue_empty, s->emptied);
	s->emptied = 0;
	urds_lock_release(&s->tx_lock);
}

void sock_drop(struct urds_sock *s)
{
	struct urds_ctx *e = s->e;

	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	move_counts(s); /* of calls that were under way when it was closed */
	peer_uncache(s->hot);
	peer_uncache(s->to);
	urds_rxq_fini(&s->rxq);
	if (s->fds[0] >= 0)
		urds_pair_close(s->fds);
	sock_free(s);
	atomic_fetch_sub_explicit(&e->pool.small, sizeof *s, memory_order_relaxed);
	atomic_fetch_sub(&e->nsocks, 1);
}

int sock_take_port(struct urds_sock *s, struct node *n, const struct urds_endpoint *at)
{
	struct urds_ctx *e = s->e;
	int rc;

	urds_rwlock_write_acquire(&e->table);
	if (s->node || atomic_load(&s->is_closed)) {
		rc = s->node ? -URDS_EINVAL : -URDS_EBADF;
		goto out;
	}
	s->bound.at = *at;
	if (at->port == 0)
		s->bound.at.port = urds_bindtab_free_port(&e->bound, &at->addr, urds_random64());
	rc = s->bound.at.port ? urds_bindtab_add(&e->bound, &s->bound) : -URDS_EADDRINUSE;
	if (rc < 0)
		memset(&s->bound, 0, sizeof s->bound);
	else
		s->node = n;
out:
	urds_rwlock_write_release(&e->table);
	return rc;
}

static void cancel_all(struct urds_sock *s, bool disown);

void sock_leave_port(struct urds_sock *s)
{
	struct node *flipped = NULL;

	urds_rwlock_write_acquire(&s->e->table);
	if (!s->is_gone) /* is_closed alone leaves it there: sock_shut() */
		urds_bindtab_remove(&s->e->bound, &s->bound);
	/* What came meanwhile may have filled the queue, and who empties it finds no node any more; bound again, the next message
	 * says so of its new port. @s->bound stays as it is: a call that has seen the node reads it. */
	urds_lock_acquire(&s->rx_lock);
	if (s->rxq.is_congested)
		flipped = sock_flip(s, false);
	s->rxq.is_congested = false;
	s->node = NULL;
	urds_lock_release(&s->rx_lock);
	s->has_left = true;
	urds_rwlock_write_release(&s->e->table);
	if (flipped)
		maps_push(flipped);
	cancel_all(s, false); /* what it has sent meanwhile: from an address that is not ours */
}

int sock_bind(struct urds_sock *s, const struct urds_endpoint *at)
{
	int rc;

	if (at->port == URDS_PROBE_PORT || s->node)
		return -URDS_EINVAL;
	rc = node_get(s->e, &at->addr, s, at);
	if (rc == -URDS_EADDRNOTAVAIL && s->transport >= 0) {
		s->transport = -1; /* a failed bind forgets the preset, as in the kernel */
		rc = -URDS_ENOPROTOOPT;
	}
	return rc;
}

/* ---------------------------------------------------------------- waiting */

int sock_wait_on(struct urds_sock *s, struct wait_list *l, struct urds_lock *lock, struct peer *p,
		 uint16_t port, urds_ns deadline, struct path *spin) URDS_RELEASES(lock)
{
	struct waiter *w = waiter_get();
	int rc;

	if (!w) {
		urds_lock_release(lock);
		return -URDS_EAGAIN;
	}
	urds_request_init(&w->req, deadline);
	w->port = port;
	w->is_any = l == &s->rx_waiters && port == ANY_EVENT;
	waiter_link(w, l, lock, s, p);
	urds_lock_release(lock);
	rc = waiter_wait(s->e, w, spin);
	waiter_put(w);
	return rc;
}

/* ---------------------------------------------------------------- wait, cancel, close */

static int ready_events(struct urds_sock *s, int events)
{
	int ready = 0;

	if (events & SOCK_IN) {
		urds_lock_acquire(&s->rx_lock);
		if (s->rxq.count > 0 || s->rxq.overflowed)
			ready |= SOCK_IN;
		urds_lock_release(&s->rx_lock);
	}
	if (events & SOCK_OUT) {
		urds_lock_acquire(&s->tx_lock);
		if (urds_txq_has_room(&s->txq))
			ready |= SOCK_OUT;
		urds_lock_release(&s->tx_lock);
	}
	return ready;
}

/* What the destination of the last message has acknowledged may make room. */
static void sample_destination(struct urds_sock *s)
{
	struct path *h;

	urds_lock_acquire(&s->tx_lock);
	h = s->to;
	if (h)
		peer_hold(h->peer);
	urds_lock_release(&s->tx_lock);
	if (!h)
		return;
	path_sample(h);
	peer_drop(h->peer);
}

int sock_wait(struct urds_sock *s, int events, urds_ns deadline)
{
	struct urds_ctx *e = s->e;
	int ready, rc = 0;

	flush_dirty(e, URDS_NEVER);
	ready = ready_events(s, events);
	if (ready)
		return ready;
	if (events & SOCK_OUT)
		sample_destination(s);
	engine_drive(e);
	atomic_fetch_add(&s->any_waiters, 1);
	while (rc == 0) {
		urds_ns until = deadline;

		if (atomic_load(&s->is_closed))
			rc = -URDS_EBADF;
		ready = ready_events(s, events);
		if (rc < 0 || ready || urds_clock_ns() >= deadline)
			break;
		urds_lock_acquire(&s->rx_lock);
		/* Or closed meanwhile: whoever does that wakes only who waits already. */
		if (atomic_load(&s->is_closed) || ((events & SOCK_IN) && s->rxq.count > 0)) {
			urds_lock_release(&s->rx_lock);
			continue;
		}
		/* Room at a kernel peer, or made between the look and the wait, is found by looking again. */
		if ((events & SOCK_OUT) && urds_clock_ns() + URDS_ROOM_POLL_MAX_NS < deadline)
			until = urds_clock_ns() + URDS_ROOM_POLL_MAX_NS;
		rc = sock_wait_on(s, &s->rx_waiters, &s->rx_lock, NULL, ANY_EVENT, until, NULL);
		if (rc == -URDS_ETIMEDOUT)
			rc = 0;
		if (rc == 0 && (events & SOCK_OUT))
			sample_destination(s);
	}
	atomic_fetch_sub(&s->any_waiters, 1);
	return rc < 0 ? rc : ready;
}

struct cancel_arg {
	struct urds_sock *s;
	const struct urds_addr *to; /* NULL: anyone */
	int dport;
	bool disown;
};

static void cancel_at(struct peer *p, void *arg)
{
	struct cancel_arg *a = arg;

	if ((p->node != a->s->node && !a->s->has_left) ||
	    (a->to && !urds_addr_eq(&p->core.remote, a->to)))
		return;
	if (a->disown) {
		urds_lock_acquire(&p->lock);
		wait_list_wake_sock(p->e, &p->cong_waiters, a->s);
		urds_lock_release(&p->lock);
	}
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, false);
		struct urds_log_freed freed;

		if (!h)
			continue;
		urds_lock_acquire(&h->append);
		urds_log_cancel(&h->tx.log, a->s, a->dport, a->disown, &freed);
		urds_lock_release(&h->append);
		if (!freed.msgs)
			continue;
		sock_freed(a->s, freed.msgs, freed.bytes);
		/* With a connection they are passed over as it goes on; without one now. */
		if (!atomic_load_explicit(&h->link, memory_order_relaxed))
			path_transmit(h);
	}
}

void sock_cancel(struct urds_sock *s, const struct urds_endpoint *to)
{
	struct cancel_arg a = {.s = s, .to = &to->addr, .dport = to->port};

	peer_each(s->e, cancel_at, &a);
}

static void cancel_all(struct urds_sock *s, bool disown)
{
	struct cancel_arg a = {.s = s, .dport = -1, .disown = disown};

	peer_each(s->e, cancel_at, &a);
}

static void wake_congested(struct peer *p, void *arg)
{
	urds_lock_acquire(&p->lock);
	wait_list_wake_sock(p->e, &p->cong_waiters, arg);
	urds_lock_release(&p->lock);
}

void sock_shut(struct urds_sock *s)
{
	struct urds_ctx *e = s->e;

	atomic_store(&s->is_closed, true);
	urds_lock_acquire(&s->rx_lock);
	wait_list_wake(e, &s->rx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->rx_lock);
	urds_lock_acquire(&s->tx_lock);
	wait_list_wake(e, &s->tx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->tx_lock);
	peer_each(e, wake_congested, s);
}

struct urds_sock *sock_first(struct urds_ctx *e, bool unshut)
{
	struct urds_sock *s;

	urds_rwlock_read_acquire(&e->table);
	for (s = e->socks; s && unshut && atomic_load(&s->is_closed); s = s->next)
		;
	if (s)
		sock_hold(s);
	urds_rwlock_read_release(&e->table);
	return s;
}

void sock_close(struct urds_sock *s)
{
	struct urds_ctx *e = s->e;
	struct node *flipped = NULL;

	urds_rwlock_write_acquire(&e->table);
	atomic_store(&s->is_closed, true);
	if (s->is_gone) {
		urds_rwlock_write_release(&e->table);
		return;
	}
	s->is_gone = true;
	if (s->node)
		urds_bindtab_remove(&e->bound, &s->bound);
	if (s->next)
		s->next->prev = s->prev;
	if (s->prev)
		s->prev->next = s->next;
	else
		e->socks = s->next;
	move_counts(s); /* with the table: a reader of the counters finds them once */
	urds_rwlock_write_release(&e->table);

	urds_lock_acquire(&s->rx_lock);
	s->rxq.is_dead = true;
	if (s->rxq.is_congested)
		flipped = sock_flip(s, false);
	urds_rxq_fini(&s->rxq);
	wait_list_wake(e, &s->rx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->rx_lock);
	urds_lock_acquire(&s->tx_lock);
	s->is_spent = s->txq.msgs > 0;
	wait_list_wake(e, &s->tx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->tx_lock);
	if (flipped)
		maps_push(flipped);
	if (s->node || s->has_left)
		cancel_all(s, true);
	if (urds_loop_pending(e->loop))
		engine_run_loop(e);
	sock_close_fds(s);
	sock_drop(s);
}
