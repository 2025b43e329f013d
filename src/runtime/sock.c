/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a socket does: bind, send, receive, wait, cancel, close.
 */
#include "runtime/engine.h"

#include <stdlib.h>

#include "platform/clock.h"
#include "platform/posix/nocancel.h"
#include "platform/random.h"
#include "transport/loop/loop.h"

/* A thread that sends again within this of its last return ... */
#define BURST_GAP_NS URDS_US(2)
/* ... this many times in a row is in a burst, and gathers. */
#define BURST_STREAK 4
#define GATHER_BYTES 65536u
#define GATHER_BYTES_BIG 262144u /* for messages of a page or more */
#define GATHER_NS URDS_US(50)

/* A kernel peer's acknowledgements are not events: a sender waiting for room looks this often. */
#define ROOM_POLL_MIN_NS URDS_US(100)
#define ROOM_POLL_MAX_NS URDS_MS(5)

/* In a burst the clock is read for one message in so many: the flusher keeps the 50 us anyway. */
#define BURST_CLOCK 16

static _Thread_local struct {
	urds_ns last_return;
	unsigned streak;
} burst;

/* Memory of sockets is never given back: with a handle that was closed a call still finds refs == 0, even after its
 * context is gone, and fails with EBADF. As with descriptor numbers, a handle may come to mean a new
 * socket some day, but not before many others have been closed. */
#define SPARES_MIN 64

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
	memset((char *)s + sizeof s->refs, 0, sizeof *s - sizeof s->refs);
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
	if (stage == URDS_FORK_PREPARE)
		urds_lock_acquire(&spare_lock);
	else
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

void sock_drop(struct urds_sock *s)
{
	struct urds_ctx *e = s->e;

	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return;
	urds_count(e, URDS_C_recv_delivered, s->delivered);
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

void sock_leave_port(struct urds_sock *s)
{
	urds_rwlock_write_acquire(&s->e->table);
	if (!atomic_load(&s->is_closed))
		urds_bindtab_remove(&s->e->bound, &s->bound);
	memset(&s->bound, 0, sizeof s->bound);
	s->node = NULL;
	urds_rwlock_write_release(&s->e->table);
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

/* ---------------------------------------------------------------- send */

/* The path to @to, with a reference on its peer for the caller. */
static int route(struct urds_sock *s, const struct urds_addr *to, struct path **out)
{
	struct path *h, *was;
	struct peer *p;

	urds_lock_acquire(&s->tx_lock);
	h = s->to && urds_addr_eq(&s->to_addr, to) ? s->to : NULL;
	if (h)
		peer_hold(h->peer);
	urds_lock_release(&s->tx_lock);
	if (h) {
		*out = h;
		return 0;
	}
	p = peer_get(s->node, to);
	if (!p)
		return -URDS_ENOMEM;
	urds_lock_acquire(&p->lock);
	h = peer_path(p, urds_peer_slot_for(&p->core, s->bound.at.port));
	urds_lock_release(&p->lock);
	if (!h) {
		peer_drop(p);
		return -URDS_ENOMEM;
	}
	peer_cache(h);
	urds_lock_acquire(&s->tx_lock);
	was = s->to;
	s->to = h;
	s->to_addr = *to;
	urds_lock_release(&s->tx_lock);
	peer_uncache(was);
	*out = h;
	return 0;
}

/* Waits on @l (lock held on entry, released on return) until woken. The caller has a reference on @s and, unless it
 * is NULL, @p, which go when the call is abandoned in here. */
static int wait_on(struct urds_sock *s, struct wait_list *l, struct urds_lock *lock, struct peer *p,
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

/* 0: not congested. */
static int wait_uncongested(struct urds_sock *s, struct peer *p, uint16_t port, bool dontwait, urds_ns deadline)
{
	int rc;

	while (atomic_load_explicit(&p->congested, memory_order_relaxed)) {
		urds_lock_acquire(&p->lock);
		if (!urds_remotemap_test(&p->rmap, port)) {
			urds_lock_release(&p->lock);
			return 0;
		}
		if (dontwait || atomic_load(&s->is_closed)) {
			urds_lock_release(&p->lock);
			if (!dontwait)
				return -URDS_EBADF;
			urds_count(s->e, URDS_C_cong_send_error, 1);
			return -URDS_ECONG;
		}
		urds_count(s->e, URDS_C_cong_send_blocked, 1);
		rc = wait_on(s, &p->cong_waiters, &p->lock, p, port, deadline, NULL);
		if (rc < 0)
			return rc;
		if (atomic_load(&s->is_closed))
			return -URDS_EBADF;
	}
	return 0;
}

static void sample(struct path *h)
{
	atomic_store_explicit(&h->wants_sample, true, memory_order_relaxed);
	path_transmit(h);
}

/* Charges @len to the send buffer. */
static int wait_room(struct urds_sock *s, struct path *h, uint32_t len, bool dontwait, urds_ns deadline)
{
	urds_ns step = ROOM_POLL_MIN_NS;
	int rc;

	for (unsigned tries = 0;; tries++) {
		urds_ns until = deadline;

		urds_lock_acquire(&s->tx_lock);
		rc = urds_txq_charge(&s->txq, len);
		if (rc == 0) {
			bool half = s->txq.queued * 2 > s->txq.sndbuf;

			urds_lock_release(&s->tx_lock);
			if (half && !atomic_load_explicit(&h->wants_ack, memory_order_relaxed)) {
				atomic_store_explicit(&h->wants_ack, true, memory_order_relaxed);
				atomic_store_explicit(&h->wants_sample, true, memory_order_relaxed);
			}
			return 0;
		}
		if (rc != -URDS_EAGAIN || tries == 0) {
			urds_lock_release(&s->tx_lock);
			if (rc != -URDS_EAGAIN)
				return rc;
			urds_count(s->e, URDS_C_send_queue_full, 1);
			atomic_store_explicit(&h->wants_ack, true, memory_order_relaxed);
			sample(h); /* what TCP has acknowledged may make room at once */
			if (dontwait)
				engine_drive(s->e); /* so may an ack that waits to be read */
			continue;
		}
		if (dontwait || atomic_load(&s->is_closed)) {
			urds_lock_release(&s->tx_lock);
			return dontwait ? -URDS_EAGAIN : -URDS_EBADF;
		}
		if (atomic_load(&h->kind) == URDS_KIND_KERNEL && urds_clock_ns() + step < deadline)
			until = urds_clock_ns() + step;
		rc = wait_on(s, &s->tx_waiters, &s->tx_lock, h->peer, 0, until, NULL);
		if (rc == -URDS_ETIMEDOUT && until != deadline) {
			step = step * 2 < ROOM_POLL_MAX_NS ? step * 2 : ROOM_POLL_MAX_NS;
			sample(h);
			rc = 0;
		}
		if (rc < 0)
			return rc;
		if (atomic_load(&s->is_closed))
			return -URDS_EBADF;
	}
}

static void copy_in(uint8_t *to, const struct urds_iov *iov, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (iov[i].len > 0)
			memcpy(to, iov[i].base, iov[i].len);
		to += iov[i].len;
	}
}

static int append(struct urds_sock *s, struct path *h, uint16_t dport, const struct urds_iov *iov, size_t n,
		  uint32_t len)
{
	struct urds_log_claim c;
	struct urds_buf *big = NULL;
	int rc;

	if (len > URDS_LOG_INLINE_MAX) {
		big = urds_pool_is_tight(&s->e->pool)
			      ? NULL
			      : urds_buf_new(&s->e->pool.mem, urds_buf_blocks(URDS_HDR_LEN + len));
		if (!big)
			return -URDS_ENOMEM;
	}
	urds_lock_acquire(&h->append);
	/* A close() disowns under this lock: nothing may be claimed for the socket after that. */
	rc = atomic_load_explicit(&s->is_closed, memory_order_relaxed)
		     ? -URDS_EBADF
		     : urds_log_claim(&h->tx.log, len, s, dport, big, &c);
	if (rc == 0) {
		h->queued_msgs++;
		h->queued_bytes += len;
	}
	urds_lock_release(&h->append);
	if (rc < 0) {
		urds_buf_drop(big);
		return rc;
	}
	urds_hdr_put_data(c.wire, c.seq, len, s->bound.at.port, dport);
	copy_in(c.wire + URDS_HDR_LEN, iov, n);
	urds_log_commit(&c);
	return 0;
}

static void set_busy(struct urds_ctx *e)
{
	if (!atomic_load_explicit(&e->is_busy, memory_order_relaxed))
		atomic_store_explicit(&e->is_busy, true, memory_order_relaxed);
}

/* Sends now, or leaves it for the burst it is part of. */
static void send_or_gather(struct path *h, uint32_t len, bool more)
{
	uint32_t size = URDS_HDR_LEN + len;
	uint32_t have = atomic_fetch_add_explicit(&h->gathered, size, memory_order_relaxed) + size;
	bool full = have >= (len >= 4096 ? GATHER_BYTES_BIG : GATHER_BYTES);
	bool dirty = atomic_load_explicit(&h->is_dirty, memory_order_relaxed);
	urds_ns now;

	if (burst.streak >= BURST_STREAK && dirty && !full && ++burst.streak % BURST_CLOCK)
		return;
	now = urds_clock_ns();
	burst.streak = now - burst.last_return < BURST_GAP_NS * (burst.streak >= BURST_STREAK ? BURST_CLOCK : 1)
			       ? burst.streak + 1
			       : 0;
	if ((more || burst.streak >= BURST_STREAK) && !full &&
	    (!dirty || now - atomic_load_explicit(&h->gather_since, memory_order_relaxed) < GATHER_NS) &&
	    atomic_load_explicit(&h->link, memory_order_relaxed)) {
		if (!dirty)
			path_gather(h, now);
		burst.last_return = now;
		return;
	}
	if (have > size)
		urds_count(h->peer->e, URDS_C_gathered, 1);
	atomic_store_explicit(&h->gather_since, now, memory_order_relaxed);
	path_transmit(h);
	if (burst.streak >= BURST_STREAK) {
		/* Its acknowledgements, rather than have the loop thread woken by each. */
		path_receive(h);
		set_busy(h->peer->e);
	}
	burst.last_return = urds_clock_ns();
}

/* The usual case, in one visit to the lock: the destination is the last one's, there is room, nothing of
 * its peer is congested. NULL: the long way. */
static struct path *route_and_charge(struct urds_sock *s, const struct urds_addr *to, uint32_t len)
{
	struct path *h = NULL;

	urds_lock_acquire(&s->tx_lock);
	if (s->to && urds_addr_eq(&s->to_addr, to) &&
	    !atomic_load_explicit(&s->to->peer->congested, memory_order_relaxed) &&
	    s->txq.queued * 2 <= s->txq.sndbuf && urds_txq_charge(&s->txq, len) == 0) {
		h = s->to;
		peer_hold(h->peer);
	}
	urds_lock_release(&s->tx_lock);
	return h;
}

static int route_and_wait(struct urds_sock *s, const struct urds_endpoint *to, uint32_t len, bool dontwait,
			  struct path **out)
{
	urds_ns deadline = s->sndtimeo ? urds_clock_ns() + s->sndtimeo : URDS_NEVER;
	int rc = route(s, &to->addr, out);

	if (rc < 0)
		return rc;
	rc = wait_uncongested(s, (*out)->peer, to->port, dontwait, deadline);
	if (rc == 0)
		rc = wait_room(s, *out, len, dontwait, deadline);
	if (rc < 0)
		peer_drop((*out)->peer);
	return rc;
}

int sock_send(struct urds_sock *s, const struct urds_endpoint *to, const struct urds_iov *iov, size_t n,
	      size_t len, bool dontwait, bool more)
{
	struct urds_ctx *e = s->e;
	struct path *h;
	int rc = 0;

	if (len > URDS_MSG_MAX)
		return -URDS_EMSGSIZE;
	h = route_and_charge(s, &to->addr, (uint32_t)len);
	if (!h)
		rc = route_and_wait(s, to, (uint32_t)len, dontwait, &h);
	if (rc < 0)
		return rc;
	rc = append(s, h, to->port, iov, n, (uint32_t)len);
	if (rc < 0) {
		sock_freed(s, len);
		goto out;
	}
	if (!atomic_load_explicit(&h->link, memory_order_relaxed))
		path_want(h);
	send_or_gather(h, (uint32_t)len, more);
	if (urds_loop_pending(e->loop))
		engine_run_loop(e);
	if (atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s);
out:
	peer_drop(h->peer);
	return rc;
}

void sock_freed(struct urds_sock *s, uint64_t bytes)
{
	bool was_full, room;

	urds_lock_acquire(&s->tx_lock);
	was_full = !urds_txq_has_room(&s->txq);
	s->txq.queued -= bytes;
	room = urds_txq_has_room(&s->txq);
	if (s->txq.queued == 0)
		urds_count(s->e, URDS_C_send_queue_empty, 1);
	if (room && s->tx_waiters.first)
		wait_list_wake(s->e, &s->tx_waiters, UINT32_MAX, 0);
	urds_lock_release(&s->tx_lock);
	if (!was_full || !room)
		return;
	if (atomic_load(&s->any_waiters)) {
		urds_lock_acquire(&s->rx_lock);
		wait_list_wake_port(s->e, &s->rx_waiters, ANY_EVENT);
		urds_lock_release(&s->rx_lock);
	}
	if (atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s);
}

/* ---------------------------------------------------------------- receive */

bool sock_flip(struct urds_sock *s, bool congested)
{
	struct node *n = s->node;
	int rc;

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

static int try_take(struct urds_sock *s, struct urds_rxq_ent *out, bool peek)
{
	bool flipped = false, emptied;
	int rc;

	urds_lock_acquire(&s->rx_lock);
	rc = take(s, out, peek, &flipped);
	emptied = s->rxq.count == 0;
	urds_lock_release(&s->rx_lock);
	if (flipped) {
		maps_push(s->node);
		/* A sender in this process may look again without ever driving. */
		if (urds_loop_pending(s->e->loop))
			engine_run_loop(s->e);
	}
	if (rc != 0 && emptied && atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s);
	return rc;
}

int sock_recv(struct urds_sock *s, struct urds_rxq_ent *out, bool dontwait, bool peek)
{
	struct urds_ctx *e = s->e;
	urds_ns deadline = URDS_NEVER;
	int rc;

	flush_dirty(e, URDS_NEVER);
	rc = try_take(s, out, peek);
	set_busy(e);
	if (rc == 0 && atomic_load_explicit(&e->ready, memory_order_relaxed)) {
		ready_run(e);
		rc = try_take(s, out, peek);
	}
	if (rc == 0 && dontwait) {
		engine_drive(e);
		rc = try_take(s, out, peek);
		if (rc == 0)
			return -URDS_EAGAIN;
	}
	if (rc == 0 && s->rcvtimeo)
		deadline = urds_clock_ns() + s->rcvtimeo;
	while (rc == 0) {
		struct path *spin;

		urds_lock_acquire(&s->rx_lock);
		if (s->rxq.count > 0 || s->rxq.overflowed || atomic_load(&s->is_closed)) {
			urds_lock_release(&s->rx_lock);
			rc = try_take(s, out, peek);
			continue;
		}
		spin = s->hot;
		if (spin)
			peer_hold(spin->peer);
		rc = wait_on(s, &s->rx_waiters, &s->rx_lock, spin ? spin->peer : NULL, 0, deadline, spin);
		if (spin)
			peer_drop(spin->peer);
		if (rc == 0)
			rc = try_take(s, out, peek);
	}
	return rc < 0 ? rc : 0;
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

int sock_wait(struct urds_sock *s, int events, urds_ns deadline)
{
	struct urds_ctx *e = s->e;
	int ready, rc = 0;

	flush_dirty(e, URDS_NEVER);
	ready = ready_events(s, events);
	if (ready)
		return ready;
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
		if ((events & SOCK_OUT) && urds_clock_ns() + ROOM_POLL_MAX_NS < deadline)
			until = urds_clock_ns() + ROOM_POLL_MAX_NS;
		rc = wait_on(s, &s->rx_waiters, &s->rx_lock, NULL, ANY_EVENT, until, NULL);
		if (rc == -URDS_ETIMEDOUT)
			rc = 0;
		if (rc == 0 && (events & SOCK_OUT)) {
			struct path *h;

			urds_lock_acquire(&s->tx_lock);
			h = s->to;
			if (h)
				peer_hold(h->peer);
			urds_lock_release(&s->tx_lock);
			if (h) {
				sample(h);
				peer_drop(h->peer);
			}
		}
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

	if (p->node != a->s->node || (a->to && !urds_addr_eq(&p->core.remote, a->to)))
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
	struct cancel_arg a = {.s = s, .dport = -1, .disown = true};
	bool flipped = false;

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
	urds_rwlock_write_release(&e->table);

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
	if (s->node)
		peer_each(e, cancel_at, &a);
	if (urds_loop_pending(e->loop))
		engine_run_loop(e);
	sock_close_fds(s);
	sock_drop(s);
}
