/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The descriptor of a socket: one end of a pair (platform/pair.h). Kept up only once the descriptor was asked for.
 *
 * Who waits for edges (EPOLLET) has to be told of each one, also of a change that came and went while another thread
 * was telling of an earlier one. So where the state is as it should be, but may have been another meanwhile, it is
 * told again: an edge too many is harmless.
 */
#include "runtime/engine.h"

#include "platform/clock.h"
#include "platform/pair.h"

static bool wants_in(struct urds_sock *s)
{
	bool want;

	urds_lock_acquire(&s->rx_lock);
	want = s->rxq.count > 0 || s->rxq.overflowed;
	urds_lock_release(&s->rx_lock);
	return want;
}

static bool wants_full(struct urds_sock *s)
{
	bool want;

	urds_lock_acquire(&s->tx_lock);
	want = !urds_txq_has_room(&s->txq);
	if (s->to)
		atomic_store(&s->to->wants_room, want);
	if (want && s->to) {
		/* A kernel's acknowledgements are no events. */
		timer_earlier(s->to->peer, urds_clock_ns() + URDS_ROOM_POLL_NS);
	}
	urds_lock_release(&s->tx_lock);
	return want;
}

/* @again: it became so, or may have. */
static void update_in(struct urds_sock *s, bool again)
{
	bool on;

	if (!urds_ready_enter(&s->token))
		return;
	do {
		bool want = wants_in(s);

		on = urds_ready_is_on(&s->token);
		if (want && !on)
			on = urds_pair_put(s->fds);
		else if (!want && on)
			on = urds_pair_take(s->fds);
		else if (want && again)
			urds_pair_again_in(s->fds);
		again = true;
	} while (urds_ready_leave(&s->token, on));
}

static void update_full(struct urds_sock *s, bool again)
{
	bool on;

	if (!urds_ready_enter(&s->blocked))
		return;
	do {
		bool want = wants_full(s);

		on = urds_ready_is_on(&s->blocked);
		if (want && !on)
			urds_pair_fill(s->fds);
		else if (!want && on)
			urds_pair_drain(s->fds);
		else if (!want && again)
			urds_pair_again_out(s->fds);
		on = want;
		again = true;
	} while (urds_ready_leave(&s->blocked, on));
}

void sock_token(struct urds_sock *s, int news)
{
	if (!atomic_load_explicit(&s->is_watched, memory_order_acquire)) /* and with it fds */
		return;
	update_in(s, (news & SOCK_IN) != 0);
	update_full(s, (news & SOCK_OUT) != 0);
}

int sock_fd(struct urds_sock *s)
{
	struct urds_ctx *e = s->e;
	bool is_new = false;
	int rc = engine_start(e);

	if (rc < 0)
		return rc;
	urds_lock_acquire(&e->start_lock);
	if (atomic_load(&s->is_closed)) /* sock_close_fds() may have passed */
		rc = -URDS_EBADF;
	else if (s->fds[0] < 0)
		rc = urds_pair_new(s->fds);
	if (rc == 0 && !atomic_exchange(&s->is_watched, true)) {
		/* From here on the loop thread reads the wire: the application sits in a poll of its own. */
		atomic_fetch_add(&e->watchers, 1);
		is_new = true;
	}
	urds_lock_release(&e->start_lock);
	if (rc < 0)
		return rc;
	if (is_new)
		engine_kick(e);
	sock_token(s, 0);
	return (int)s->fds[0]; /* a SOCKET's number fits too: 32 bits of a handle mean something */
}

void sock_close_fds(struct urds_sock *s)
{
	urds_lock_acquire(&s->e->start_lock);
	if (atomic_exchange(&s->is_watched, false))
		atomic_fetch_sub(&s->e->watchers, 1);
	if (s->fds[0] >= 0) {
		/* A changer at work meanwhile writes to a shut pair, never to a stranger's descriptor:
		 * the numbers are given back with the last reference. */
		urds_pair_shut(s->fds);
	}
	urds_lock_release(&s->e->start_lock);
}
