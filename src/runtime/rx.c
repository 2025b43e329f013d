/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Receiving: reads a path's connection, decodes, delivers. One thread at a time per path, whichever was told
 * that there is something.
 */
#include "runtime/engine.h"

#include "platform/clock.h"
#include "platform/cpu.h"

/* Read from one path before others have their turn. */
#define DRIVE_BYTES (128u << 10)
/* What a connection that must go has brought until then: far more than a receive buffer, and beyond one no byte
 * was acknowledged when that was decided. */
#define DROP_BYTES (64u << 20)
/* The CPU of the peer's packets is asked for once in so many drives; it changes when a scheduler moves a process. */
#define CPU_AGE_MAX 64
/* Memory was short: look again after this. */
#define NOMEM_RETRY_NS URDS_MS(10)

/* ---------------------------------------------------------------- the ready list */

static void push_ready(struct urds_ctx *e, struct path *h)
{
	struct path *top = atomic_load_explicit(&e->ready, memory_order_relaxed);

	do {
		h->ready_next = top;
	} while (!atomic_compare_exchange_weak_explicit(&e->ready, &top, h, memory_order_release,
							memory_order_relaxed));
}

void ready_push(struct path *h)
{
	if (atomic_exchange(&h->is_ready, true))
		return;
	peer_hold(h->peer);
	push_ready(h->peer->e, h);
}

bool ready_run(struct urds_ctx *e)
{
	struct path *h, *next;

	if (!atomic_load_explicit(&e->ready, memory_order_relaxed))
		return false;
	h = atomic_exchange_explicit(&e->ready, NULL, memory_order_acquire);
	for (; h; h = next) {
		next = h->ready_next;
		atomic_store(&h->is_ready, false);
		path_receive(h);
		peer_drop(h->peer);
	}
	return true;
}

/* ---------------------------------------------------------------- delivery */

/* Items [0, n) are DATA for one port. Return: true if the node's map changed. */
static bool deliver(struct path *h, const struct urds_rx_item *v, size_t n)
{
	struct peer *p = h->peer;
	struct urds_ctx *e = p->e;
	struct urds_bound *b;
	bool flipped = false;
	size_t done = 0;

	urds_rwlock_read_acquire(&e->table);
	b = urds_bindtab_find(&e->bound, &p->core.local, v[0].dport);
	if (b) {
		struct urds_sock *s = urds_container_of(b, struct urds_sock, bound);
		unsigned news;

		urds_lock_acquire(&s->rx_lock);
		news = urds_rxq_put(&s->rxq, &p->core.remote, v, n, &done);
		if (e->on_queued)
			for (size_t i = 0; i < done; i++)
				e->on_queued(e->hook_arg, &p->core.remote, &v[i]);
		if (s->hot != h) {
			peer_uncache(s->hot);
			s->hot = peer_cache(h);
		}
		if (news & (URDS_RXQ_CONGESTED | URDS_RXQ_CLEAR))
			flipped = sock_flip(s, (news & URDS_RXQ_CONGESTED) != 0) != NULL;
		if (news & (URDS_RXQ_NOMEM | URDS_RXQ_DISCARDED)) {
			s->rxq.overflowed = true;
			urds_count(e, URDS_C_sock_overflowed, 1);
		}
		sock_rx_news(s, news, done);
		urds_lock_release(&s->rx_lock);
		urds_count_own(&h->counts[PATH_C_recv_queued], done);
		if ((news & URDS_RXQ_FILLED) &&
		    atomic_load_explicit(&s->is_watched, memory_order_relaxed))
			sock_token(s, SOCK_IN);
	} else {
		urds_count(e, URDS_C_recv_drop_no_sock, n);
	}
	urds_rwlock_read_release(&e->table);
	for (; done < n; done++)
		urds_buf_drop(v[done].buf);
	return flipped;
}

static void pong(struct path *h, uint16_t port)
{
	struct peer *p = h->peer;
	int rc = -URDS_EAGAIN;

	urds_count(p->e, URDS_C_recv_ping, 1);
	urds_lock_acquire(&p->lock);
	/* As the kernel: a congested pinger gets none. */
	if (!urds_remotemap_test(&p->rmap, port)) {
		urds_lock_acquire(&h->append);
		rc = urds_path_tx_post(&h->tx, 0, port, NULL);
		urds_lock_release(&h->append);
	}
	urds_lock_release(&p->lock);
	urds_count(p->e, rc < 0 ? URDS_C_pong_dropped : URDS_C_send_pong, 1);
}

void peer_new_map(struct peer *p, const uint8_t *map)
{
	struct urds_congmap_diff d;
	uint8_t *was;
	int port;

	urds_lock_acquire(&p->lock);
	if (urds_remotemap_update(&p->rmap, &p->e->pool.mem, map, &was, &d) == 0) {
		atomic_store(&p->congested, p->rmap.congested);
		while (was && (port = urds_congmap_diff_next(&d)) >= 0)
			wait_list_wake_port(p->e, &p->cong_waiters, (uint16_t)port);
		urds_remotemap_free_old(&p->e->pool.mem, was);
	}
	urds_lock_release(&p->lock);
}

/* An urds peer's messages are acknowledged when there are many, when it asks, or after a while. */
static bool ack_due(struct path *h, const struct urds_rx_batch *b)
{
	uint32_t unacked;

	if (b->wire_bytes == 0)
		return false;
	unacked = atomic_fetch_add_explicit(&h->rx_unacked, b->wire_bytes, memory_order_release) +
		  b->wire_bytes;
	urds_cpu_fence_after_rmw(); /* or a timer that runs out just now is taken for armed: peer_timer() */
	if (!h->rx.urds)
		return false;
	if (unacked >= URDS_ACK_BYTES || b->ack_wanted) {
		urds_path_tx_want_ack(&h->tx);
		urds_count_own(&h->counts[PATH_C_acks_sent], 1);
		return true;
	}
	ack_later(h);
	return false;
}

/* Is @it the pong to a fence? Then what was before the fence has been taken in. */
static bool is_fence(struct path *h, const struct urds_rx_item *it)
{
	struct urds_ctx *e = h->peer->e;
	bool is_bound;
	uint64_t seq;

	if (it->sport != URDS_PING_PORT || it->len != 0 || it->dport < URDS_FENCE_PORT_MIN ||
	    it->dport > URDS_FENCE_PORT_MAX)
		return false;
	urds_rwlock_read_acquire(&e->table);
	is_bound = urds_bindtab_find(&e->bound, &h->peer->core.local, it->dport) != NULL;
	urds_rwlock_read_release(&e->table);
	if (is_bound)
		return false;
	urds_lock_acquire(&h->append);
	seq = urds_path_tx_fenced(&h->tx, it->dport);
	urds_lock_release(&h->append);
	if (seq == 0)
		return false;
	if (seq > atomic_load_explicit(&h->ack_seen, memory_order_relaxed))
		atomic_store_explicit(&h->ack_seen, seq, memory_order_release);
	return true;
}

static void handle(struct path *h, struct urds_rx_batch *b)
{
	struct urds_ctx *e = h->peer->e;
	bool transmit = false, acked = false, flipped = false;
	size_t i = 0;

	if (b->headers > 0 && !h->is_heard) {
		h->is_heard = true;
		path_heard(h, urds_rx_has_probe(b));
	}
	if (b->dropped_old)
		urds_count(e, URDS_C_recv_drop_old_seq, b->dropped_old);
	while (i < b->n) {
		struct urds_rx_item *it = &b->v[i];
		size_t n = 1;

		switch (it->kind) {
		case URDS_RX_DATA:
			if (is_fence(h, it)) {
				urds_buf_drop(it->buf);
				acked = true;
				break;
			}
			while (i + n < b->n && b->v[i + n].kind == URDS_RX_DATA &&
			       b->v[i + n].dport == it->dport)
				n++;
			flipped |= deliver(h, it, n);
			break;
		case URDS_RX_PING:
			pong(h, it->sport);
			transmit = true;
			break;
		case URDS_RX_PROBE:
		case URDS_RX_ANSWER:
			path_probed(h, urds_rx_probe_sort(b), &b->probe);
			break;
		case URDS_RX_MAP:
			urds_count(e, URDS_C_cong_update_received, 1);
			peer_new_map(h->peer, it->payload);
			urds_buf_drop(it->buf);
			break;
		case URDS_RX_CONTROL:
			urds_buf_drop(
				it->buf); /* no control we asked for: unknown ones are skipped */
			break;
		}
		i += n;
	}
	/* Queued first, acknowledged after. */
	atomic_store_explicit(&h->rx_ack, urds_path_rx_ack(&h->rx), memory_order_release);
	if (b->ack_seen > atomic_load_explicit(&h->ack_seen, memory_order_relaxed)) {
		atomic_store_explicit(&h->ack_seen, b->ack_seen, memory_order_release);
		acked = true;
	}
	transmit |= ack_due(h, b);
	if (transmit)
		path_transmit(h);
	else if (acked)
		path_acked(h);
	if (flipped)
		maps_push(h->peer->node);
}

/* ---------------------------------------------------------------- reading */

/* Return: 0 all decoded, negative: the connection must end. */
static int decode(struct path *h)
{
	struct urds_rx_batch b;
	int rc;

	do {
		rc = urds_path_rx_next(&h->rx, &b);
		handle(h, &b);
	} while (rc > 0);
	if (rc == -URDS_EPROTO) {
		h->is_foreign = true;
		urds_count(h->peer->e, URDS_C_conn_protocol_error, 1);
	}
	return rc;
}

enum drive { DRIVE_DONE, DRIVE_MORE, DRIVE_END };

/* Rx role held: reads until there is nothing, or enough. What was read is added to *sum. */
static enum drive drive(struct path *h, struct urds_link *l, size_t *sum)
{
	size_t total = 0;

	if (h->rx_link != l) {
		h->rx_link = l;
		h->rx_fresh = true;
		h->cpu_age = 0;
		atomic_store_explicit(&h->poll_key, 0, memory_order_relaxed);
	}
	if (l->t->data->poll_key && atomic_load_explicit(&h->poll_key, memory_order_relaxed) == 0)
		atomic_store_explicit(&h->poll_key, l->t->data->poll_key(l), memory_order_relaxed);
	/* For whoever spins on this path: read here, where the link cannot go away. */
	if (h->peer->e->cfg.spin && h->cpu_age++ % CPU_AGE_MAX == 0) {
		int cpu = l->t->data->incoming_cpu(l);

		atomic_store_explicit(&h->peer_cpu, cpu < 0 ? 0 : cpu + 1, memory_order_relaxed);
	}
	if (h->rx.chunk && h->rx.parsed < h->rx.chunk->used &&
	    decode(h) < 0) /* bytes of a promoted connection */
		return DRIVE_END;
	for (;;) {
		struct urds_iov v[2];
		enum urds_rx_how how;
		size_t got = 0, asked = 0;
		int n;

		if (h->rx_posted) {
			uint64_t c = atomic_exchange(&h->rx_completed, 0);

			if (c == 0)
				return DRIVE_DONE;
			h->rx_posted = false;
			got = c - 1;
			how = got > 0 ? URDS_RX_NOW : URDS_RX_ENDED;
			asked = got; /* a completion says nothing about what is behind it */
		} else {
			n = urds_path_rx_space(&h->rx, v);
			if (n < 0) {
				ready_push(h);
				timer_earlier(h->peer, urds_clock_ns() + NOMEM_RETRY_NS);
				return DRIVE_DONE;
			}
			for (int i = 0; i < n; i++)
				asked += v[i].len;
			urds_count_own(&h->counts[PATH_C_rx_calls], 1);
			how = l->t->data->rx(l, v, (size_t)n, &got);
		}
		switch (how) {
		case URDS_RX_POSTED:
			h->rx_posted = true;
			continue;
		case URDS_RX_WAIT:
			h->rx_fresh = false;
			return DRIVE_DONE;
		case URDS_RX_ENDED:
			return DRIVE_END;
		case URDS_RX_NOW:
			break;
		}
		urds_path_rx_got(&h->rx, got);
		if (decode(h) < 0)
			return DRIVE_END;
		total += got;
		*sum += got;
		if (got < asked && !h->rx_fresh &&
		    !atomic_load_explicit(&h->rx_ended, memory_order_acquire))
			return DRIVE_DONE; /* a short read has drained the socket */
		if (total >= DRIVE_BYTES || waiter_is_over())
			return DRIVE_MORE;
	}
}

/* Empty ones only out of the first half, which leaves the other to those with messages in them. */
static bool may_keep(struct urds_ctx *e, bool is_empty)
{
	uint64_t max = e->pool.bytes_max / URDS_BLOCK_BYTES / URDS_KEPT_SHARE;

	if (atomic_fetch_add(&e->kept_chunks, 1) < (is_empty ? max / 2 : max))
		return true;
	atomic_fetch_sub(&e->kept_chunks, 1);
	return false;
}

void path_rx_idle(struct path *h, enum urds_rx_keep how)
{
	struct urds_ctx *e = h->peer->e;
	bool keep = h->keeps_chunk || (how != URDS_RX_KEEP_NONE && h->rx.chunk &&
				       may_keep(e, urds_buf_is_sole(h->rx.chunk)));

	urds_path_rx_idle(&h->rx, keep ? how : URDS_RX_KEEP_NONE);
	if (keep && !h->rx.chunk) {
		atomic_fetch_sub(&e->kept_chunks, 1);
		keep = false;
	}
	h->keeps_chunk = keep;
	/* It is given back when nothing has come for a while and what it holds has been read. */
	if (keep && atomic_load_explicit(&h->rest_at, memory_order_relaxed) == URDS_NEVER) {
		urds_ns at = urds_clock_ns() + e->cfg.rest_ns;

		atomic_store(&h->rest_at, at);
		timer_earlier(h->peer, at);
	}
}

/* Rx role held. What must go is read to its end as far as it is there, then ended; one that sends faster than we
 * read has no end. */
static void drop(struct path *h, struct urds_link *l)
{
	size_t sum = 0;
	enum drive d;

	do
		d = drive(h, l, &sum);
	while (d == DRIVE_MORE && sum < DROP_BYTES);
	if (atomic_load(&h->link) == l)
		path_end(h);
}

void path_receive(struct path *h)
{
	if (!urds_tx_role_enter(&h->rx_role))
		return;
	for (;;) {
		struct urds_link *l = atomic_load_explicit(&h->link, memory_order_acquire);
		enum drive d = DRIVE_DONE;
		size_t sum = 0;

		if (l && atomic_load(&h->must_drop)) {
			drop(h, l);
		} else if (l) {
			d = drive(h, l, &sum);
			if (d == DRIVE_END)
				path_end(h);
			else if (d == DRIVE_DONE)
				path_rx_idle(h, URDS_RX_KEEP_ANY);
			else
				ready_push(h);
		}
		if (!urds_tx_role_leave(&h->rx_role))
			return;
	}
}
