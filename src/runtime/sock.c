/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a socket does: bind, send, receive, wait, cancel, close.
 */
#include "runtime/engine.h"

#include <stdlib.h>
#include <string.h>

#include "platform/clock.h"
#include "platform/posix/nocancel.h"
#include "platform/random.h"
#include "transport/loop/loop.h"

/* Memory of sockets is never given back, and their locks are never reset: with a handle that was closed a call still finds
 * refs == 0, or under a lock is_closed, even after its context is gone, and fails with EBADF. As with descriptor numbers, a handle may come to mean a new
 * socket some day, but not before many others have been closed. */
#define SPARES_MIN 64

_Atomic uint32_t sock_forks;

static struct urds_lock spare_lock;
static struct urds_sock *spare_first, *spare_last; /* oldest first, by ->next */
static unsigned spares;

static struct urds_sock *sock_alloc(void)
{
	struct urds_sock *s = NULL;

	urds_lock_acquire(&spare_lock);
	if (spares > SPARES_MIN) {
		s = spare_first;
		spare_first = s->next;
		spares--;
	}
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
	s->next = NULL;
	if (spares++ > 0)
		spare_last->next = s;
	else
		spare_first = s;
	spare_last = s;
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
	s->delivered = 0;
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
	if (s->fds[0] >= 0) {
		urds_fds_close(s->fds[0]);
		urds_fds_close(s->fds[1]);
	}
	sock_free(s);
	atomic_fetch_sub_explicit(&e->pool.small, sizeof *s, memory_order_relaxed);
	atomic_fetch_sub(&e->nsocks, 1);
}

int sock_take_port(struct urds_sock *s, struct node *n, const struct urds_endpoint *at)
{
	struct urds_ctx *e = s->e;
	int rc = -URDS_EINVAL;

	urds_rwlock_write_acquire(&e->table);
	if (s->node || atomic_load(&s->is_closed))
		goto out;
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
	urds_rwlock_write_acquire(&s->e->table);
	if (!s->is_gone) /* is_closed alone leaves it there: sock_shut() */
		urds_bindtab_remove(&s->e->bound, &s->bound);
	memset(&s->bound, 0, sizeof s->bound);
	s->node = NULL;
	s->has_left = true;
	urds_rwlock_write_release(&s->e->table);
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

/* ---------------------------------------------------------------- receive */

bool sock_flip(struct urds_sock *s, bool congested)
{
	struct node *n = s->node;
	int rc;

	if (!n)
		return false; /* it has left its port */
	urds_lock_acquire(&n->map_lock);
	rc = urds_localmap_flip(&n->map, &s->e->pool.mem, s->bound.at.port, congested);
	atomic_store(&n->map_gen, n->map.gen);
	urds_lock_release(&n->map_lock);
	return rc > 0;
}

void sock_rx_news(struct urds_sock *s, unsigned news, size_t n)
{
	if (!s->rx_waiters.first || n == 0)
		return;
	if (atomic_load_explicit(&s->any_waiters, memory_order_relaxed))
		wait_list_wake_port(s->e, &s->rx_waiters, ANY_EVENT);
	wait_list_wake(s->e, &s->rx_waiters, n < UINT32_MAX ? (unsigned)n : UINT32_MAX, 0);
}

/* rx_lock held. Return: 1 a message is in *out, 0 nothing there, or negative. */
static int take(struct urds_sock *s, struct urds_rxq_ent *out, bool peek, bool *flipped)
{
	const struct urds_rxq_ent *front = urds_rxq_front(&s->rxq);

	if (atomic_load_explicit(&s->is_closed, memory_order_relaxed))
		return -URDS_EBADF;
	if (s->rxq.overflowed) {
		s->rxq.overflowed = false;
		return -URDS_ECONG;
	}
	if (!front)
		return 0;
	if (peek) {
		*out = *front;
		if (out->buf)
			urds_buf_hold(out->buf, 1);
		if (s->rx_waiters.first) /* it is still there for somebody */
			wait_list_wake(s->e, &s->rx_waiters, 1, 0);
	} else if (urds_rxq_pop(&s->rxq, out) & URDS_RXQ_CLEAR) {
		*flipped = sock_flip(s, false);
	}
	s->delivered++;
	return 1;
}

/* rx_lock held, released here: what follows from take(), whose answer @rc is. */
static void taken(struct urds_sock *s, int rc, bool flipped) URDS_RELEASES(&s->rx_lock)
{
	bool emptied = s->rxq.count == 0;

	urds_lock_release(&s->rx_lock);
	if (flipped) {
		maps_push(s->node);
		/* A sender in this process may look again without ever driving. */
		if (urds_loop_pending(s->e->loop))
			engine_run_loop(s->e);
	}
	if (rc != 0 && emptied && atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s);
}

/* rx_lock held, released here: nothing is queued. Return: 0: look again, or negative. */
static int wait_for_message(struct urds_sock *s, urds_ns deadline) URDS_RELEASES(&s->rx_lock)
{
	struct path *spin = s->hot;
	int rc;

	if (spin)
		peer_hold(spin->peer);
	rc = sock_wait_on(s, &s->rx_waiters, &s->rx_lock, spin ? spin->peer : NULL, 0, deadline,
			  spin);
	if (spin)
		peer_drop(spin->peer);
	return rc;
}

/* As sock_send_quick(), under rx_lock; with a reference while it waits. */
int sock_recv_quick(struct urds_sock *s, void *buf, size_t cap, bool dontwait,
		    struct urds_endpoint *from, size_t *len)
{
	struct urds_ctx *e;
	const struct urds_rxq_ent *m;
	bool is_held = false;
	int rc = -URDS_EAGAIN;

	if (!sock_is_of_this_process(s))
		return rc;
	urds_lock_acquire(&s->rx_lock);
	e = s->e;
	/* Emptying a watched queue, one that is congested, or one with gathered messages beside it has consequences. */
	while (!atomic_load_explicit(&s->is_closed, memory_order_relaxed) && !s->rxq.overflowed &&
	       !s->rxq.is_congested &&
	       !atomic_load_explicit(&s->is_watched, memory_order_relaxed) &&
	       !atomic_load_explicit(&e->dirty, memory_order_relaxed)) {
		m = urds_rxq_front(&s->rxq);
		if (m && m->len <= URDS_QUICK_MAX) {
			if (cap > 0)
				memcpy(buf, m->payload, m->len < cap ? m->len : cap);
			if (from)
				*from = (struct urds_endpoint){m->from, m->sport};
			*len = m->len;
			urds_rxq_pop_copied(&s->rxq);
			s->delivered++;
			set_busy(e);
			rc = 0;
			break;
		}
		if (m || dontwait || s->rcvtimeo ||
		    atomic_load_explicit(&s->is_nonblock, memory_order_relaxed) ||
		    atomic_load_explicit(&e->ready, memory_order_relaxed) ||
		    atomic_load_explicit(&e->is_dead, memory_order_relaxed))
			break;
		if (!is_held)
			sock_hold(s);
		is_held = true;
		rc = wait_for_message(s, URDS_NEVER);
		if (rc < 0)
			goto out;
		rc = -URDS_EAGAIN;
		urds_lock_acquire(&s->rx_lock);
	}
	/* Its memory may be another socket's by the time the long way looks. */
	if (is_held && rc == -URDS_EAGAIN &&
	    atomic_load_explicit(&s->is_closed, memory_order_relaxed))
		rc = -URDS_EBADF;
	urds_lock_release(&s->rx_lock);
out:
	if (is_held)
		sock_drop(s);
	return rc;
}

int sock_recv(struct urds_sock *s, struct urds_rxq_ent *out, bool dontwait, bool peek)
{
	struct urds_ctx *e = s->e;
	urds_ns deadline = URDS_NEVER;
	bool was_ready = false, was_driven = false;
	int rc;

	flush_dirty(e, URDS_NEVER);
	set_busy(e);
	do {
		bool flipped = false;

		urds_lock_acquire(&s->rx_lock);
		rc = take(s, out, peek, &flipped);
		if (rc != 0) {
			taken(s, rc, flipped);
			return rc < 0 ? rc : 0;
		}
		if (!was_ready && atomic_load_explicit(&e->ready, memory_order_relaxed)) {
			urds_lock_release(&s->rx_lock);
			ready_run(e);
			was_ready = true;
		} else if (dontwait) {
			urds_lock_release(&s->rx_lock);
			if (was_driven)
				return -URDS_EAGAIN;
			engine_drive(e);
			was_driven = true;
		} else {
			if (s->rcvtimeo && deadline == URDS_NEVER)
				deadline = urds_clock_ns() + s->rcvtimeo;
			rc = wait_for_message(s, deadline);
		}
	} while (rc == 0);
	return rc;
}

bool sock_has_queued(struct urds_sock *s)
{
	bool has;

	urds_lock_acquire(&s->rx_lock);
	has = s->rxq.count > 0;
	urds_lock_release(&s->rx_lock);
	return has;
}

void sock_recv_done(struct urds_rxq_ent *m)
{
	urds_buf_drop(m->buf);
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

		urds_lock_acquire(&s->rx_lock);
		if (atomic_load(&s->is_closed))
			rc = -URDS_EBADF;
		urds_lock_release(&s->rx_lock);
		ready = ready_events(s, events);
		if (rc < 0 || ready || urds_clock_ns() >= deadline)
			break;
		urds_lock_acquire(&s->rx_lock);
		if ((events & SOCK_IN) && s->rxq.count > 0) {
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
		struct urds_log_freed freed;
		struct path *h;

		urds_lock_acquire(&p->lock);
		h = peer_path_if(p, i);
		urds_lock_release(&p->lock);
		if (!h)
			continue;
		urds_lock_acquire(&h->append);
		urds_log_cancel(&h->tx.log, a->s, a->dport, a->disown, &freed);
		urds_lock_release(&h->append);
		if (freed.msgs)
			sock_freed(a->s, freed.bytes);
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
	bool flipped = false;

	urds_rwlock_write_acquire(&e->table);
	atomic_store(&s->is_closed, true);
	if (s->is_gone) {
		urds_rwlock_write_release(&e->table);
		return;
	}
	s->is_gone = true;
	atomic_fetch_add(&e->moves_begun, 1);
	if (s->node)
		urds_bindtab_remove(&e->bound, &s->bound);
	if (s->next)
		s->next->prev = s->prev;
	if (s->prev)
		s->prev->next = s->next;
	else
		e->socks = s->next;
	urds_rwlock_write_release(&e->table);
	move_counts(s);
	atomic_fetch_add(&e->moves_ended, 1);

	urds_lock_acquire(&s->rx_lock);
	s->rxq.is_dead = true;
	if (s->rxq.is_congested)
		flipped = sock_flip(s, false);
	urds_rxq_fini(&s->rxq);
	wait_list_wake(e, &s->rx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->rx_lock);
	urds_lock_acquire(&s->tx_lock);
	wait_list_wake(e, &s->tx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->tx_lock);
	if (flipped)
		maps_push(s->node);
	if (s->node || s->has_left)
		cancel_all(s, true);
	if (urds_loop_pending(e->loop))
		engine_run_loop(e);
	sock_close_fds(s);
	sock_drop(s);
}
