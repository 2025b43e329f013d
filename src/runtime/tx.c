/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Transmitting: whoever has appended sends what is there, one thread at a time per path; bursts are gathered.
 */
#include "runtime/engine.h"

#include "platform/clock.h"
#include "platform/futex.h"
#include "transport/loop/loop.h"

#define ROUNDS_MAX 8 /* of notes from other threads; then the role is passed on */
#define SENDS_MAX 8  /* send calls in one round */

/* Idle ticks of the flusher before it parks: waking it for each burst would cost a third of the rate. */
#define FLUSH_IDLE_TICKS 40
/* A stream is one that went on for so many ticks and again as many. */
#define FLUSH_STREAM_TICKS 8

static void apply_freed(struct urds_log_freed_list *f)
{
	for (size_t i = 0; i < f->n; i++) {
		sock_freed(f->v[i].owner, f->v[i].msgs, f->v[i].bytes);
		sock_drop(f->v[i].owner);
	}
}

void path_release_acked(struct path *h, struct urds_link *l)
{
	unsigned kind = atomic_load_explicit(&h->kind, memory_order_relaxed);
	struct urds_log_freed_list freed;
	uint64_t seq = 0, pos = 0;
	urds_ns now = 0;
	bool more;

	if (kind == URDS_KIND_URDS) {
		seq = atomic_load_explicit(&h->ack_seen, memory_order_acquire);
		if (seq < h->tx.log.tail_seq)
			return;
	} else if (kind == URDS_KIND_KERNEL && l) {
		seq = atomic_load_explicit(&h->ack_seen, memory_order_acquire); /* by a fence */
		if (seq < h->tx.log.tail_seq) {
			seq = 0;
			if (!atomic_exchange_explicit(&h->wants_sample, false,
						      memory_order_relaxed))
				return;
			pos = h->peer->e->cfg.no_tcp_acks ? URDS_UNKNOWN : l->t->data->acked(l);
			h->is_fenced = h->wants_fence = pos == URDS_UNKNOWN;
			if (h->is_fenced)
				return;
			now = urds_clock_ns();
		}
	} else {
		return;
	}
	do {
		urds_lock_acquire(&h->append);
		more = seq ? urds_log_ack_seq(&h->tx.log, seq, &freed)
			   : urds_path_tx_acked(&h->tx, pos, now, &freed);
		urds_path_tx_freed(&h->tx, &freed);
		/* A close may be waiting for the append lock to disown its messages and free the socket. */
		for (size_t i = 0; i < freed.n; i++)
			sock_hold(freed.v[i].owner);
		urds_lock_release(&h->append);
		apply_freed(&freed);
	} while (more);
}

/* @due is right before @armed is seen; of two that arm it at once either may say when. */
static void arm(struct path *h, _Atomic bool *armed, _Atomic urds_ns *due, urds_ns delay)
{
	urds_ns at;

	if (atomic_load_explicit(armed, memory_order_relaxed))
		return;
	at = urds_clock_ns() + delay;
	atomic_store_explicit(due, at, memory_order_relaxed);
	if (!atomic_exchange(armed, true))
		timer_earlier(h->peer, at);
}

void path_hurry(struct path *h)
{
	atomic_store(&h->wants_sample, true);
	atomic_store(&h->wants_ack, true);
	path_transmit(h);
}

void ack_later(struct path *h)
{
	arm(h, &h->ack_timer, &h->ack_due, URDS_ACK_DELAY_NS);
}

static void arm_poll(struct path *h)
{
	arm(h, &h->poll_armed, &h->poll_due, URDS_ACK_POLL_MIN_NS);
}

/* Role held. Return: true if the transport is full or there is nothing more. The map's lock is taken only where a map
 * may go out: more than the checker can follow. */
static bool send_once(struct path *h, struct urds_link *l, struct urds_tx_env *env) URDS_UNCHECKED;

static bool send_once(struct path *h, struct urds_link *l, struct urds_tx_env *env)
{
	struct node *n = h->peer->node;
	struct urds_iov iov[URDS_TX_IOV_MAX];
	struct urds_tx_done done;
	size_t bytes, taken = 0, released = 0, nv;
	uint64_t sent_ack;
	bool map;

	/* One look: a flip after it is the next round's, with its own bits. */
	env->map = NULL;
	env->map_gen = atomic_load_explicit(&n->map_gen, memory_order_relaxed);
	map = urds_path_tx_owes_map(&h->tx, env->map_gen);
	if (map) {
		urds_lock_acquire(&n->map_lock);
		env->map = urds_localmap_bits(&n->map);
		env->map_gen = atomic_load_explicit(&n->map_gen, memory_order_relaxed);
	}
	atomic_store_explicit(&h->gathered, 0, memory_order_relaxed);
	nv = urds_path_tx_gather(&h->tx, env, iov, URDS_TX_IOV_MAX, &bytes, &sent_ack);
	if (map)
		urds_lock_release(&n->map_lock);
	if (nv == 0)
		return true;
	if (sent_ack) {
		/* Reads what receivers added, so that it sees how far they had come (handle()). */
		(void)atomic_exchange_explicit(&h->rx_unacked, 0, memory_order_acq_rel);
		env->ack = atomic_load_explicit(&h->rx_ack, memory_order_acquire);
		/* More came in while this ack was being written, and its wish for an ack may have been
		 * taken for ours. */
		if (env->ack != sent_ack)
			urds_path_tx_want_ack(&h->tx);
	}
	urds_count_own(&h->counts[PATH_C_tx_calls], 1);
	/* Up before the call: another thread may be told of room before this one sees that there was too little. */
	atomic_store_explicit(&h->is_tx_short, true, memory_order_release);
	if (l->t->data->tx(l, iov, nv, &taken, &released) < 0) {
		urds_path_tx_taken(&h->tx, 0, &done);
		ready_push(h); /* the receive half finds out how it ended */
		engine_kick(h->peer->e);
		return true;
	}
	urds_path_tx_taken(&h->tx, taken, &done);
	if (done.retransmitted)
		urds_count(h->peer->e, URDS_C_send_retransmitted, done.retransmitted);
	if (done.maps)
		urds_count(h->peer->e, URDS_C_cong_update_queued, done.maps);
	if (taken < bytes) {
		urds_count(h->peer->e, URDS_C_tcp_sndbuf_full, 1);
		return true;
	}
	atomic_store_explicit(&h->is_tx_short, false, memory_order_release);
	/* Whatever was committed or wanted since left a note, but for what this round itself wants. */
	return !urds_path_tx_has_more(&h->tx, env);
}

/* What was cancelled and passed over leaves nothing to acknowledge. */
static void release_tombs(struct path *h)
{
	struct urds_log_freed_list freed;

	urds_lock_acquire(&h->append);
	urds_log_ack_seq(&h->tx.log, 0, &freed);
	urds_lock_release(&h->append);
}

/* The peer may never be there: what was cancelled must not wait for it. A gather that nothing is taken of. */
static void pass_tombs(struct path *h)
{
	struct urds_iov one;
	uint32_t again;
	size_t bytes;

	urds_log_gather(&h->tx.log, &one, 1, 1, 0, false, &bytes);
	urds_log_taken(&h->tx.log, 0, 0, &again);
	release_tombs(h);
}

static void fence(struct path *h)
{
	uint16_t port = (uint16_t)(URDS_FENCE_PORT_MIN +
				   h->fences % (URDS_FENCE_PORT_MAX - URDS_FENCE_PORT_MIN + 1));

	urds_lock_acquire(&h->append);
	/* Pongs of ours that are not acknowledged must not keep us from answering. */
	if (h->wants_fence || h->tx.posted >= URDS_PONGS_MAX / 2)
		h->fences += urds_path_tx_fence(&h->tx, port, urds_clock_ns());
	urds_lock_release(&h->append);
	h->wants_fence = false;
}

static void release_own(struct path *h)
{
	struct urds_log_freed_list freed; /* nobody else's */
	uint64_t seq;
	bool more;

	urds_lock_acquire(&h->append);
	seq = urds_path_tx_own_only(&h->tx);
	more = seq != 0;
	while (more) {
		more = urds_log_ack_seq(&h->tx.log, seq, &freed);
		urds_path_tx_freed(&h->tx, &freed);
	}
	urds_lock_release(&h->append);
}

static void transmit_round(struct path *h)
{
	struct urds_link *l = atomic_load_explicit(&h->link, memory_order_acquire);
	struct peer *p = h->peer;
	struct urds_tx_env env = {0};
	struct urds_probe us;
	int sends = 0;

	if (!l) {
		if (atomic_load_explicit(&h->tx.log.tombs, memory_order_relaxed) > 0)
			pass_tombs(h);
		return;
	}
	path_release_acked(h, l);
	if (atomic_load_explicit(&h->is_ending, memory_order_relaxed))
		return;
	if (h->is_fenced)
		fence(h);
	if (atomic_load_explicit(&h->tx.want, memory_order_relaxed) & URDS_WANT_PROBE) {
		urds_peer_probe(&p->core, p->e->incarnation, &us);
		env.us = &us;
	}
	if (atomic_load_explicit(&h->kind, memory_order_relaxed) == URDS_KIND_URDS) {
		env.ack = atomic_load_explicit(&h->rx_ack, memory_order_acquire);
		env.want_ack = atomic_load_explicit(&h->wants_ack, memory_order_relaxed) &&
			       atomic_exchange_explicit(&h->wants_ack, false, memory_order_relaxed);
	}
	while (sends < SENDS_MAX && !send_once(h, l, &env))
		sends++;
	if (h->is_fenced)
		release_own(h);
	if (sends == SENDS_MAX) /* perhaps not all: soon again, after others had their turn */
		path_gather(h, urds_clock_ns());
	if (atomic_load(&h->tx.want) & URDS_WANT_ACK)
		ack_later(h); /* no room, or no memory for it */
	if (atomic_load_explicit(&h->tx.log.tombs, memory_order_relaxed) > 0)
		release_tombs(h);
	if (urds_log_has_pending(&h->tx.log))
		arm_poll(h);
}

void path_transmit(struct path *h)
{
	if (!urds_tx_role_enter(&h->role))
		return;
	for (int round = 1;; round++) {
		transmit_round(h);
		if (round == ROUNDS_MAX) {
			if (urds_tx_role_pass(&h->role)) {
				path_gather(h, urds_clock_ns());
				engine_kick(h->peer->e);
			}
			return;
		}
		if (!urds_tx_role_leave(&h->role))
			return;
	}
}

void path_acked(struct path *h)
{
	/* No more than that: a burst in the making is not cut short by each acknowledgement of the one before. */
	if (!urds_tx_role_enter(&h->role))
		return;
	path_release_acked(h, atomic_load_explicit(&h->link, memory_order_acquire));
	if (urds_tx_role_pass(&h->role))
		path_transmit(h);
}

/* ---------------------------------------------------------------- bursts */

static void push_dirty(struct urds_ctx *e, struct path *h)
{
	struct path *top = atomic_load_explicit(&e->dirty, memory_order_relaxed);

	do {
		h->dirty_next = top;
	} while (!atomic_compare_exchange_weak_explicit(&e->dirty, &top, h, memory_order_release,
							memory_order_relaxed));
}

void path_gather(struct path *h, urds_ns until)
{
	struct urds_ctx *e = h->peer->e;

	if (atomic_load_explicit(&h->is_dirty, memory_order_relaxed) ||
	    atomic_exchange(&h->is_dirty, true))
		return;
	atomic_store_explicit(&h->gather_until, until, memory_order_relaxed);
	peer_hold(h->peer);
	push_dirty(e, h);
	if (e->cfg.no_threads)
		engine_kick(e);
	else if (urds_doorbell_ring(&e->flush_bell))
		urds_futex_wake(&e->flush_bell.word, 1);
}

bool flush_dirty(struct urds_ctx *e, urds_ns due)
{
	struct path *h, *next;
	bool any = false;

	if (!atomic_load_explicit(&e->dirty, memory_order_relaxed))
		return false;
	h = atomic_exchange_explicit(&e->dirty, NULL, memory_order_acquire);
	for (; h; h = next) {
		next = h->dirty_next;
		if (atomic_load_explicit(&h->gather_until, memory_order_relaxed) > due) {
			push_dirty(e, h);
			continue;
		}
		atomic_store(&h->is_dirty, false);
		atomic_thread_fence(
			memory_order_seq_cst); /* before what is committed is looked at: append() */
		path_transmit(h);
		peer_drop(h->peer);
		any = true;
	}
	/* What went out in memory: nobody else is told of it. */
	if (any && urds_loop_pending(e->loop))
		engine_run_loop(e);
	return any;
}

/* How long the flusher sleeps after @kept ticks in a row in which senders had flushed themselves in time. A tick costs the
 * sender's processor up to 10 us: at 50 us each that is a fifth of a stream's rate. */
static urds_ns tick(unsigned kept)
{
	return URDS_GATHER_NS << (kept / FLUSH_STREAM_TICKS < 2 ? kept / FLUSH_STREAM_TICKS : 2);
}

void flusher_main(void *arg)
{
	struct urds_ctx *e = arg;
	unsigned idle = 0, kept = 0;

	while (!atomic_load(&e->stop)) {
		if (atomic_load_explicit(&e->dirty, memory_order_relaxed)) {
			idle = 0;
			kept = flush_dirty(e, urds_clock_ns()) ? 0 : kept + 1;
		} else if (++idle > FLUSH_IDLE_TICKS) {
			urds_doorbell_arm(&e->flush_bell);
			if (!atomic_load(&e->dirty) && !atomic_load(&e->stop))
				urds_futex_wait(&e->flush_bell.word, URDS_DOORBELL_ASLEEP,
						URDS_NEVER);
			urds_doorbell_disarm(&e->flush_bell);
			idle = kept = 0;
			continue;
		}
		urds_futex_wait(&e->flush_bell.word, URDS_DOORBELL_AWAKE,
				urds_clock_ns() + tick(kept));
	}
}

/* ---------------------------------------------------------------- congestion maps */

static void push_map(struct peer *p, void *arg)
{
	struct path *h = p->node == arg ? peer_path_get(p, 0, true) : NULL;

	if (h)
		path_transmit(h);
}

void maps_push(struct node *n)
{
	peer_each(n->e, push_map, n);
}
