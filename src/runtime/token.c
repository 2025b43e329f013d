/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The descriptor of a socket: one end of an AF_UNIX pair. Readable: a byte lies in it. Not writable: the pair is
 * filled. Kept up only once the descriptor was asked for.
 *
 * Who waits for edges (EPOLLET) has to be told of each one, also of a change that came and went while another thread
 * was telling of an earlier one. So where the state is as it should be, but may have been another meanwhile, it is
 * told again: an edge too many is harmless.
 */
#include "runtime/engine.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/posix/nocancel.h"

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
		char c = 0;

		on = urds_ready_is_on(&s->token);
		if (want && !on)
			on = urds_sys_send(s->fds[1], &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
		else if (!want && on)
			on = urds_sys_recv(s->fds[0], &c, 1, MSG_DONTWAIT) != 1;
		else if (want && again &&
			 urds_sys_send(s->fds[1], &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
			(void)urds_sys_recv(s->fds[0], &c, 1, MSG_DONTWAIT); /* one is left */
		again = true;
	} while (urds_ready_leave(&s->token, on));
}

static void update_full(struct urds_sock *s, bool again)
{
	bool on;

	if (!urds_ready_enter(&s->blocked))
		return;
	do {
		static char fill[1024];
		bool want = wants_full(s);

		on = urds_ready_is_on(&s->blocked);
		if (want && !on) {
			while (urds_sys_send(s->fds[0], fill, sizeof fill,
					     MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
				;
			on = true;
		} else if (!want && on) {
			while (urds_sys_recv(s->fds[1], fill, sizeof fill, MSG_DONTWAIT) > 0)
				;
			on = false;
		} else if (!want && again &&
			   urds_sys_send(s->fds[0], fill, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) {
			/* Taking it out is what tells of room. */
			(void)urds_sys_recv(s->fds[1], fill, 1, MSG_DONTWAIT);
		}
		again = true;
	} while (urds_ready_leave(&s->blocked, on));
}

void sock_token(struct urds_sock *s, int news)
{
	update_in(s, (news & SOCK_IN) != 0);
	update_full(s, (news & SOCK_OUT) != 0);
}

int sock_fd(struct urds_sock *s)
{
	struct urds_ctx *e = s->e;
	int pair[2], small = 1;

	urds_lock_acquire(&e->start_lock);
	if (s->fds[0] < 0) {
		int rc;

		urds_fds_enter();
		rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);
		urds_fds_made_all(pair, rc < 0 ? 0 : 2);
		if (rc < 0) {
			int err = urds_err_from_errno(errno);

			urds_lock_release(&e->start_lock);
			return -err;
		}
		/* Few writes fill it. */
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
		s->fds[0] = pair[0];
		s->fds[1] = pair[1];
	}
	urds_lock_release(&e->start_lock);
	if (!atomic_exchange(&s->is_watched, true)) {
		/* From here on the loop thread reads the wire: the application sits in a poll of its own. */
		atomic_fetch_add(&e->watchers, 1);
		engine_start(e);
		engine_kick(e);
	}
	sock_token(s, 0);
	return s->fds[0];
}

void sock_close_fds(struct urds_sock *s)
{
	if (atomic_exchange(&s->is_watched, false))
		atomic_fetch_sub(&s->e->watchers, 1);
	urds_lock_acquire(&s->e->start_lock);
	if (s->fds[0] >= 0) {
		/* A changer at work meanwhile writes to a shut pair, never to a stranger's descriptor:
		 * the numbers are given back with the last reference. */
		shutdown(s->fds[0], SHUT_RDWR);
	}
	urds_lock_release(&s->e->start_lock);
}
