/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sockets of the public interface: how a call on one begins and ends, their life, and what they are ready for. Their addresses:
 * name.c, messages: message.c, options: option.c.
 */
#include "lib/api.h"

#include "platform/clock.h"
#include "platform/net.h"
#include "platform/words.h"
#include "runtime/call.h"

void urds_leave(struct urds_sock *s)
{
	sock_drop(s);
	call_leave();
}

bool urds_enter(struct urds_sock *s, const char *what)
{
	if (!call_enter()) {
		urds_fail(URDS_EAGAIN, "%s: in a signal handler that interrupted another call",
			  what);
		return false;
	}
	if (!s || !sock_try_hold(s)) {
		call_leave();
		urds_fail(URDS_EBADF, "%s: %s", what, s ? "the socket is closed" : "no socket");
		return false;
	}
	if (atomic_load_explicit(&s->e->is_dead, memory_order_relaxed)) {
		urds_leave(s);
		urds_fail(
			URDS_EBADF,
			"%s: the socket belongs to the parent process, or its context was shut down; open a "
			"context of your own",
			what);
		return false;
	}
	if (atomic_load_explicit(&s->is_closed, memory_order_relaxed)) {
		urds_leave(s);
		urds_fail(URDS_EBADF, "%s: the socket is closed", what);
		return false;
	}
	return true;
}

struct urds_sock *urds_socket(struct urds_ctx *ctx)
{
	struct urds_ctx *e = urds_ctx_enter(ctx, "urds_socket");
	struct urds_sock *s;
	int rc;

	if (!e)
		return NULL;
	rc = sock_new(e, &s);
	engine_leave(e);
	if (rc < 0) {
		urds_fail(-rc,
			  rc == -URDS_ENOMEM
				  ? "urds_socket: out of memory"
				  : "urds_socket: the context belongs to the parent process or is "
				    "being shut down");
		return NULL;
	}
	return s;
}

static const char *close_why(int rc)
{
	switch (-rc) {
	case URDS_ETIMEDOUT:
		return "the time of SO_LINGER is over";
	case URDS_EINTR:
		return "interrupted by a signal";
	default:
		return "its context was shut down";
	}
}

int urds_close(struct urds_sock *s)
{
	urds_ns until;
	int rc = 0;

	if (!urds_enter(s, "urds_close"))
		return -1;
	if (sock_lingers(s, &until)) {
		if (call_me.in_use) {
			urds_leave(s);
			return urds_fail(URDS_EAGAIN,
					 "urds_close: a handler that interrupted a waiting call "
					 "cannot wait, as SO_LINGER says; the socket is open");
		}
		rc = sock_linger(s, until);
	}
	sock_close(s);
	urds_leave(s);
	if (rc < 0)
		return urds_fail(
			-rc,
			"urds_close: %s: the socket is closed, and what was not acknowledged is cancelled",
			close_why(rc));
	return 0;
}

/* ---------------------------------------------------------------- readiness */

int urds_fd(struct urds_sock *s)
{
	int fd;

	if (!urds_enter(s, "urds_fd"))
		return -1;
	fd = sock_fd(s);
	if (fd < 0)
		fd = fd == -URDS_EBADF ? urds_fail(-fd, "urds_fd: the socket was closed")
		     : fd == -URDS_EAGAIN || fd == -URDS_ENOMEM
			     ? urds_fail(-fd, "urds_fd: no thread to watch the wire: %s",
					 urds_words.threads)
			     : urds_fail(-fd, "urds_fd: no descriptor: %s", urds_words.files);
	urds_leave(s);
	return fd;
}

int urds_set_nonblock(struct urds_sock *s, int on)
{
	if (!urds_enter(s, "urds_set_nonblock"))
		return -1;
	atomic_store(&s->is_nonblock, on != 0);
	urds_leave(s);
	return 0;
}

static const char *wait_why(int rc)
{
	switch (-rc) {
	case URDS_EINTR:
		return "interrupted by a signal";
	case URDS_EAGAIN:
		return "a handler that interrupted a waiting call cannot wait";
	case URDS_ENOMEM:
		return "out of memory";
	default:
		return "the socket was closed";
	}
}

int urds_wait(struct urds_sock *s, int events, int timeout_ms)
{
	int want = (events & POLLIN ? SOCK_IN : 0) | (events & POLLOUT ? SOCK_OUT : 0), rc;
	urds_ns deadline = timeout_ms < 0 ? URDS_NEVER : urds_clock_ns() + URDS_MS(timeout_ms);

	if (!urds_enter(s, "urds_wait"))
		return -1;
	rc = sock_wait(s, want, deadline);
	urds_leave(s);
	if (rc < 0)
		return urds_fail(-rc, "urds_wait: %s", wait_why(rc));
	return (rc & SOCK_IN ? POLLIN : 0) | (rc & SOCK_OUT ? POLLOUT : 0);
}
