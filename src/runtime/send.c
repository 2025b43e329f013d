/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The send half of a socket: the way to a destination, waiting for room and for its port, and what is gathered.
 */
#include "runtime/call.h"

#include <string.h>

#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/thread.h"
#include "runtime/eventlog.h"
#include "transport/loop/loop.h"

/* A thread that sends again within this of its last return ... */
#define BURST_GAP_NS URDS_US(2)
/* ... this many times in a row is in a burst, and gathers. */
#define BURST_STREAK 4
#define GATHER_BYTES 65536u
#define GATHER_BYTES_BIG 262144u /* for messages of a page or more */
/* ... and for so many is a stream, which gathers for longer: with 50 us its sends would be small on a slow processor. */
#define STREAM_STREAK 1000

/* A kernel peer's acknowledgements are not events: a sender waiting for room looks this often. */
#define ROOM_POLL_MIN_NS URDS_US(100)

/* In a burst the clock is read for one message in so many: the flusher keeps the 50 us anyway. */
#define BURST_CLOCK 16

/* ... and the connection is read after one transmit in so many. */
#define BURST_RECEIVE 2

static _Thread_local struct {
	urds_ns last_return;
	unsigned streak, transmits;
} burst __attribute__((tls_model("initial-exec")));

/* The path to @to, with a reference on its peer for the caller. */
static int route(struct urds_sock *s, const struct urds_addr *to, struct path **out)
{
	struct node *n = s->node;
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
	if (!peer_is_allowed(s->e, to)) {
		urds_count(s->e, URDS_C_conn_refused, 1);
		eventlog(EVENTLOG_WARN, "refused", &s->bound.at.addr, to,
			 " reason=\"to send there: in none of the networks of URDS_PEERS\"");
		return -URDS_EACCES;
	}
	p = n ? peer_get(n, to) : NULL; /* its bind may fail meanwhile */
	if (!p)
		return -URDS_ENOMEM;
	urds_lock_acquire(&p->lock);
	h = peer_path(p, urds_peer_slot_for(&p->core, s->bound.at.port, peer_pending(p)));
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

/* 0: not congested. */
static int wait_uncongested(struct urds_sock *s, struct peer *p, uint16_t port, bool dontwait,
			    urds_ns deadline)
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
		rc = sock_wait_on(s, &p->cong_waiters, &p->lock, p, port, deadline, NULL);
		if (rc < 0)
			return rc;
		if (atomic_load(&s->is_closed))
			return -URDS_EBADF;
	}
	return 0;
}

void path_sample(struct path *h)
{
	atomic_store_explicit(&h->wants_sample, true, memory_order_relaxed);
	path_transmit(h);
}

/* tx_lock held. Charges @len to the send buffer; when half of it is in use it is time to hear what has arrived. Return: 0
 * or negative: -URDS_EAGAIN: there is no room now. */
static int charge(struct urds_sock *s, struct path *h, uint32_t len)
{
	int rc = urds_txq_charge(&s->txq, len);

	if (rc == 0 && s->txq.queued * 2 > s->txq.sndbuf) {
		/* Of an urds peer, and of a kernel's TCP: each takes back its own. */
		if (!atomic_load_explicit(&h->wants_ack, memory_order_relaxed))
			atomic_store_explicit(&h->wants_ack, true, memory_order_relaxed);
		if (!atomic_load_explicit(&h->wants_sample, memory_order_relaxed))
			atomic_store_explicit(&h->wants_sample, true, memory_order_relaxed);
	}
	return rc;
}

static int charge_locked(struct urds_sock *s, struct path *h, uint32_t len)
{
	int rc;

	urds_lock_acquire(&s->tx_lock);
	rc = charge(s, h, len);
	urds_lock_release(&s->tx_lock);
	return rc;
}

/* Return: 0: look again, or negative. */
static int wait_for_acks(struct urds_sock *s, struct path *h, urds_ns *step, urds_ns deadline)
{
	urds_ns until = deadline;
	int rc;

	if (atomic_load(&h->kind) == URDS_KIND_KERNEL && urds_clock_ns() + *step < deadline)
		until = urds_clock_ns() + *step;
	urds_lock_acquire(&s->tx_lock);
	if (atomic_load(&s->is_closed) || urds_txq_has_room(&s->txq)) {
		urds_lock_release(&s->tx_lock);
		return atomic_load(&s->is_closed) ? -URDS_EBADF : 0;
	}
	rc = sock_wait_on(s, &s->tx_waiters, &s->tx_lock, h->peer, 0, until, NULL);
	if (rc == -URDS_ETIMEDOUT && until != deadline) {
		*step = *step * 2 < URDS_ROOM_POLL_MAX_NS ? *step * 2 : URDS_ROOM_POLL_MAX_NS;
		path_sample(h);
		rc = 0;
	}
	return rc;
}

/* Charges @len to the send buffer, when there is room. */
static int wait_room(struct urds_sock *s, struct path *h, uint32_t len, bool dontwait,
		     urds_ns deadline)
{
	urds_ns step = ROOM_POLL_MIN_NS;
	int rc = charge_locked(s, h, len);

	if (rc != -URDS_EAGAIN)
		return rc;
	urds_count(s->e, URDS_C_send_queue_full, 1);
	path_hurry(h); /* what TCP has acknowledged may make room at once */
	if (dontwait)
		engine_drive(s->e); /* so may an ack that waits to be read */
	while ((rc = charge_locked(s, h, len)) == -URDS_EAGAIN && !dontwait) {
		rc = wait_for_acks(s, h, &step, deadline);
		if (rc < 0)
			break;
	}
	return rc;
}

static void copy_in(uint8_t *to, const struct urds_iov *iov, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (iov[i].len > 0)
			memcpy(to, iov[i].base, iov[i].len);
		to += iov[i].len;
	}
}

/* Append lock held. *have: wire bytes appended since the last transmit. */
static int claim(struct urds_sock *s, struct path *h, uint16_t dport, uint32_t len,
		 struct urds_buf *big, struct urds_log_claim *c, uint32_t *have)
{
	/* A close() disowns under this lock: nothing may be claimed for the socket after that. */
	int rc = atomic_load_explicit(&s->is_closed, memory_order_relaxed)
			 ? -URDS_EBADF
			 : urds_log_claim(&h->tx.log, len, s, dport, big, c);

	if (rc < 0)
		return rc;
	urds_count_own(&h->counts[PATH_C_send_queued], 1);
	urds_count_own(&h->counts[PATH_C_copy_from_user], len);
	/* Only a hint: a transmit that resets it meanwhile may be overwritten. */
	*have = atomic_load_explicit(&h->gathered, memory_order_relaxed) + URDS_HDR_LEN + len;
	atomic_store_explicit(&h->gathered, *have, memory_order_relaxed);
	return 0;
}

static void fill(struct urds_sock *s, uint16_t dport, struct urds_log_claim *c,
		 const struct urds_iov *iov, size_t n, uint32_t len)
{
	urds_hdr_put_data(c->wire, c->seq, len, s->bound.at.port, dport);
	copy_in(c->wire + URDS_HDR_LEN, iov, n);
	urds_log_commit(c);
}

/* Claims, fills and commits. A small one is filled under the lock, whose release is then the fence: afterwards the caller
 * looks at is_dirty, which a flusher takes away before it looks for what is committed, and one of the two has to see
 * the other's. */
static int append(struct urds_sock *s, struct path *h, uint16_t dport, const struct urds_iov *iov,
		  size_t n, uint32_t len, uint32_t *have)
{
	bool is_small = len <= URDS_QUICK_MAX;
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
	rc = claim(s, h, dport, len, big, &c, have);
	if (rc == 0 && is_small)
		fill(s, dport, &c, iov, n, len);
	urds_lock_release(&h->append);
	if (rc < 0) {
		urds_buf_drop(big);
		return rc;
	}
	if (is_small) {
		urds_cpu_fence_after_rmw();
	} else {
		fill(s, dport, &c, iov, n, len);
		atomic_thread_fence(memory_order_seq_cst);
	}
	return 0;
}

/* @have wire bytes with the message of @len that was just appended: is it left for the burst it is part of? */
static bool is_gathered(struct path *h, uint32_t have, uint32_t len, bool more)
{
	bool full = have >= (len >= 4096 ? GATHER_BYTES_BIG : GATHER_BYTES);
	bool dirty = atomic_load_explicit(&h->is_dirty, memory_order_relaxed);
	urds_ns now, wait;

	if (call_me.has_waited) {
		call_me.has_waited = false;
		burst.streak = 0;
		if (!more && !dirty)
			return false;
	}
	/* A holder of the role that is not running, with a note already, goes round for this one too; or the flusher does. */
	if (burst.streak >= BURST_STREAK && dirty && (!full || urds_tx_role_is_noted(&h->role)) &&
	    ++burst.streak % BURST_CLOCK)
		return true;
	now = urds_clock_ns();
	burst.streak = now - burst.last_return <
				       BURST_GAP_NS *
					       (burst.streak >= BURST_STREAK ? BURST_CLOCK : 1)
			       ? burst.streak + 1
			       : 0;
	burst.last_return = now;
	wait = burst.streak >= STREAM_STREAK ? URDS_GATHER_STREAM_NS : URDS_GATHER_NS;
	if ((more || burst.streak >= BURST_STREAK) && !full &&
	    (!dirty || now < atomic_load_explicit(&h->gather_until, memory_order_relaxed)) &&
	    atomic_load_explicit(&h->link, memory_order_relaxed)) {
		if (!dirty)
			path_gather(h, now + wait);
		return true;
	}
	if (have > URDS_HDR_LEN + len)
		urds_count(h->peer->e, URDS_C_gathered, 1);
	atomic_store_explicit(&h->gather_until, now + wait, memory_order_relaxed);
	return false;
}

/* References on a socket and its path's peer held. */
static void send_now(struct path *h)
{
	struct urds_ctx *e = h->peer->e;

	path_transmit(h);
	call_me.has_sent = true;
	if (burst.streak >= BURST_STREAK) {
		/* Its acknowledgements, rather than have the loop thread woken by each. */
		if (burst.transmits++ % BURST_RECEIVE == 0)
			path_receive(h);
		set_busy(e);
	}
	if (urds_loop_pending(e->loop))
		engine_run_loop(e);
	burst.last_return = urds_clock_ns();
}

/* Under tx_lock, at no reference: a socket that is not closed is not freed while the lock is held (sock_close()), and it has a
 * reference on the path it sent to last. Memory of sockets outlives them, and so do their locks. */
bool sock_send_quick(struct urds_sock *s, const struct urds_endpoint *to, const struct urds_iov *v,
		     bool more)
{
	uint32_t len = (uint32_t)v->len, have;
	struct path *h;

	if (v->len > URDS_QUICK_MAX || !sock_is_of_this_process(s))
		return false;
	urds_lock_acquire(&s->tx_lock);
	h = s->to;
	if (!to)
		to = &s->peer_at; /* all zero if it was never set: nothing was sent there */
	if (!h || atomic_load_explicit(&s->is_closed, memory_order_relaxed) ||
	    !urds_addr_eq(&s->to_addr, &to->addr) ||
	    atomic_load_explicit(&s->is_watched, memory_order_relaxed) ||
	    atomic_load_explicit(&h->peer->congested, memory_order_relaxed) ||
	    !atomic_load_explicit(&h->link, memory_order_relaxed) || charge(s, h, len) < 0)
		goto no;
	if (append(s, h, to->port, v, 1, len, &have) < 0) {
		urds_txq_release(&s->txq, 1, len);
		goto no;
	}
	if (is_gathered(h, have, len, more)) {
		/* The holder waits for this processor, perhaps; what piles up meanwhile would be cold when it is sent. */
		bool yields = have >= GATHER_BYTES_BIG && urds_tx_role_is_noted(&h->role);

		urds_lock_release(&s->tx_lock);
		if (yields)
			urds_thread_yield();
		return true;
	}
	sock_hold(s);
	peer_hold(h->peer);
	urds_lock_release(&s->tx_lock);
	send_now(h);
	peer_drop(h->peer);
	sock_drop(s);
	return true;

no:
	urds_lock_release(&s->tx_lock);
	return false;
}

static int route_and_wait(struct urds_sock *s, const struct urds_endpoint *to, uint32_t len,
			  bool dontwait, struct path **out)
{
	urds_ns limit = atomic_load_explicit(&s->sndtimeo, memory_order_relaxed);
	urds_ns deadline = limit ? urds_clock_ns() + limit : URDS_NEVER;
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

int sock_send(struct urds_sock *s, const struct urds_endpoint *to, const struct urds_iov *iov,
	      size_t n, size_t len, bool dontwait, bool more)
{
	uint32_t have = 0;
	struct path *h;
	int rc;

	if (len > URDS_MSG_MAX)
		return -URDS_EMSGSIZE;
	rc = route_and_wait(s, to, (uint32_t)len, dontwait, &h);
	if (rc < 0)
		return rc;
	rc = append(s, h, to->port, iov, n, (uint32_t)len, &have);
	if (rc < 0) {
		sock_freed(s, 1, len);
		goto out;
	}
	if (!atomic_load_explicit(&h->link, memory_order_relaxed))
		path_want(h);
	if (!is_gathered(h, have, (uint32_t)len, more))
		send_now(h);
	if (atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s, 0);
out:
	peer_drop(h->peer);
	return rc;
}

/* tx_lock held, released here: what follows where there may be room that was not there. */
static void room_made(struct urds_sock *s, bool was_full) URDS_RELEASES(&s->tx_lock)
{
	bool room = urds_txq_has_room(&s->txq);

	if (room && s->tx_waiters.first)
		wait_list_wake_port(s->e, &s->tx_waiters, 0);
	urds_lock_release(&s->tx_lock);
	if (!was_full || !room)
		return;
	if (atomic_load(&s->any_waiters)) {
		urds_lock_acquire(&s->rx_lock);
		wait_list_wake_port(s->e, &s->rx_waiters, ANY_EVENT);
		urds_lock_release(&s->rx_lock);
	}
	if (atomic_load_explicit(&s->is_watched, memory_order_relaxed))
		sock_token(s, SOCK_OUT);
}

void sock_freed(struct urds_sock *s, uint64_t msgs, uint64_t bytes)
{
	bool was_full;

	urds_lock_acquire(&s->tx_lock);
	was_full = !urds_txq_has_room(&s->txq);
	urds_txq_release(&s->txq, msgs, bytes);
	if (s->txq.queued == 0)
		s->emptied++;
	if (s->txq.msgs == 0 && s->tx_waiters.first)
		wait_list_wake_port(s->e, &s->tx_waiters, LINGERS);
	room_made(s, was_full);
}

void sock_set_sndbuf(struct urds_sock *s, uint32_t limit)
{
	bool was_full;

	urds_lock_acquire(&s->tx_lock);
	was_full = !urds_txq_has_room(&s->txq);
	s->txq.sndbuf = limit;
	room_made(s, was_full);
	if (!was_full) /* it may be full now */
		sock_token(s, 0);
}
