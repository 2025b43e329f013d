/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * From packets of the completion port to events. A link goes when the last packet has come; its socket is closed at once, and no
 * thread but the holders of its directions uses it without the link's lock.
 */
#include "transport/tcp/tcp_internal.h"

#include <assert.h>

#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/windows/win.h"

/* How long a send may take to be cancelled. */
#define STOP_NS URDS_MS(200)

void urds_tcp_op_begin(struct tcp_link *l)
{
	(void)atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
	(void)atomic_fetch_add(&urds_tcp_of(l->base.t)->sys.under_way, 1);
}

void urds_tcp_op_end(struct tcp_link *l)
{
	struct tcp *t = urds_tcp_of(l->base.t);

	urds_tcp_link_put(l);
	(void)atomic_fetch_sub(&t->sys.under_way, 1);
}

void urds_tcp_link_broke(struct tcp_link *l, int err)
{
	int none = 0;

	(void)atomic_compare_exchange_strong(&l->sys.end_err, &none, err);
	atomic_store_explicit(&l->is_broken, true, memory_order_release);
}

static void rx_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct tcp_link *l = urds_container_of(op, struct tcp_link, sys.rx);

	/* Cancelled without us having closed it: the thread that started it has ended. The next rx() starts another. */
	if (err < 0 && err != -URDS_ECANCELED)
		urds_tcp_link_broke(l, err);
	atomic_store(&l->sys.is_armed, false);
	urds_tcp_link_events(l, atomic_load(&l->is_broken) ? URDS_POLL_IN | URDS_POLL_ERR
							   : URDS_POLL_IN);
	urds_tcp_op_end(l);
}

void urds_tcp_link_arm(struct tcp_link *l)
{
	struct urds_poller *poller = urds_tcp_of(l->base.t)->poller;
	WSABUF none = {0, NULL};
	DWORD flags = 0;

	if (atomic_exchange(&l->sys.is_armed, true))
		return;
	urds_tcp_op_begin(l);
	l->sys.rx.done = rx_done;
	if (WSARecv(l->fd, &none, 1, NULL, &flags, urds_poll_overlapped(&l->sys.rx), NULL) == 0 ||
	    WSAGetLastError() == WSA_IO_PENDING)
		return;
	urds_tcp_link_broke(l, urds_tcp_sock_error());
	/* No packet comes of itself. Memory of the system's is short: it will not be for long. */
	while (urds_poller_post(poller, &l->sys.rx, 0) < 0)
		Sleep(1);
}

bool urds_tcp_link_connected(struct tcp_link *l, unsigned events)
{
	int err = l->sys.connect_err;

	if (!(events & URDS_POLL_OUT))
		return false;
	if (err == -URDS_ECONNRESET) {
		/* Refusal is ECONNREFUSED; this was reset after it had been established. */
		urds_tcp_link_broke(l, err);
		err = 0;
	}
	urds_lock_acquire(&l->lock);
	if (err == 0 && !urds_tcp_link_is_closed(l)) {
		(void)setsockopt(l->fd, SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, NULL, 0);
		atomic_store(&l->is_connecting, false); /* may be read from, written to */
		urds_tcp_link_arm(l);
	}
	urds_lock_release(&l->lock);
	if (!urds_tcp_link_is_closed(l))
		l->base.t->sink->on_connected(&l->base, err);
	return err == 0;
}

/* Starts @s, whose bytes are in @v. Under the link's lock. */
static int send_start(struct tcp_link *l, struct tcp_send *s, WSABUF *v, DWORD n)
{
	l->tx_calls++;
	urds_tcp_op_begin(l);
	if (WSASend(l->fd, v, n, NULL, 0, urds_poll_overlapped(&s->op), NULL) == 0 ||
	    WSAGetLastError() == WSA_IO_PENDING)
		return 0;
	urds_tcp_link_broke(l, urds_tcp_sock_error());
	urds_tcp_op_end(l);
	return -URDS_ECONNRESET;
}

/* Only Wine does half a send: when the other end has ended its direction meanwhile. What is kept here goes on; where
 * more sends may be behind it, in place, the stream has a hole. Under the link's lock. */
static bool send_rest(struct tcp_link *l, struct tcp_send *s, uint32_t bytes)
{
	struct tcp_link_ops *o = &l->sys;
	WSABUF v;

	if (urds_tcp_of(l->base.t)->cfg.sends_in_place || urds_tcp_link_is_closed(l))
		return false;
	s->bytes -= bytes;
	o->tail_at += bytes;
	(void)atomic_fetch_add_explicit(&l->to_release, bytes, memory_order_release);
	v.buf = (char *)o->tail + o->tail_at;
	v.len = s->bytes;
	return send_start(l, s, &v, 1) == 0;
}

static void send_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct tcp_send *s = urds_container_of(op, struct tcp_send, op);
	struct tcp_link *l = s->l;
	struct tcp_link_ops *o = &l->sys;
	bool ok = err == 0 && bytes == s->bytes, goes_on = false;

	urds_lock_acquire(&l->lock);
	if (ok) {
		uint64_t n = 0;

		/* In order, whichever thread is first. */
		s->is_done = true;
		while (o->send_n > 0 && o->send[o->send_first].is_done) {
			n += o->send[o->send_first].bytes;
			o->send_first = (o->send_first + 1) % TCP_SENDS;
			o->send_n--;
		}
		(void)atomic_fetch_add_explicit(&l->to_release, n, memory_order_release);
		if (o->wants_fin && o->send_n == 0 && !urds_tcp_link_is_closed(l))
			(void)shutdown(l->fd, SD_SEND);
	} else if (err == 0) {
		goes_on = send_rest(l, s, bytes);
	}
	urds_lock_release(&l->lock);
	if (ok) {
		urds_tcp_link_events(l, TCP_RELEASED | URDS_POLL_OUT);
	} else if (goes_on) {
		urds_tcp_link_events(l, TCP_RELEASED);
	} else {
		/* How much of it went is not known. */
		urds_tcp_link_broke(l, err < 0 ? err : -URDS_ECONNRESET);
		urds_tcp_link_events(l, URDS_POLL_IN | URDS_POLL_OUT | URDS_POLL_ERR);
	}
	urds_tcp_op_end(l);
}

int urds_tcp_link_send(struct tcp_link *l, WSABUF *v, DWORD n, uint32_t bytes)
{
	struct tcp_link_ops *o = &l->sys;
	struct tcp_send *s = &o->send[(o->send_first + o->send_n) % TCP_SENDS];

	assert(o->send_n < TCP_SENDS);
	s->op.done = send_done;
	s->l = l;
	s->bytes = bytes;
	s->is_done = false;
	o->send_n++;
	o->tail_at = 0;
	if (send_start(l, s, v, n) == 0)
		return 0;
	o->send_n--;
	return -URDS_ECONNRESET;
}

void urds_tcp_link_shutdown(struct urds_link *base)
{
	struct tcp_link *l = urds_tcp_link_of(base);

	urds_lock_acquire(&l->lock);
	l->sys.wants_fin = true;
	if (l->sys.send_n == 0)
		(void)shutdown(l->fd, SD_SEND);
	urds_lock_release(&l->lock);
}

/* What is sent under way is over before the socket is closed. Wine does the rest of a send in the thread that started it,
 * when that gets its turn, by the number of the socket: on a closed one's that would be the next connection. Under the
 * link's lock. */
static void stop_sends(struct tcp_link *l)
{
	struct tcp_link_ops *o = &l->sys;
	urds_ns until = urds_clock_ns() + STOP_NS;

	for (unsigned i = 0; i < o->send_n; i++) {
		struct urds_poll_op *op = &o->send[(o->send_first + i) % TCP_SENDS].op;

		(void)CancelIoEx((HANDLE)l->fd, (OVERLAPPED *)(void *)op->overlapped);
		while (urds_poll_op_waits(op) && urds_clock_ns() < until)
			Sleep(1);
	}
}

void urds_tcp_link_close(struct urds_link *base, enum urds_close_how how)
{
	struct tcp_link *l = urds_tcp_link_of(base);

	urds_lock_acquire(&l->lock);
	assert(!urds_tcp_link_is_closed(l));
	atomic_store_explicit(&l->is_closed, true, memory_order_release);
	if (how == URDS_CLOSE_RESET)
		urds_tcp_sock_no_linger(l->fd);
	stop_sends(l);
	/* Ends the receive that waits; the packets come. */
	urds_tcp_sock_close(l->fd);
	l->fd = INVALID_SOCKET;
	urds_lock_release(&l->lock);
	urds_tcp_link_put(l);
}

int urds_tcp_adopt(struct urds_transport *base, intptr_t handle, void *user, struct urds_link **out)
{
	struct tcp *t = urds_tcp_of(base);
	SOCKET fd = (SOCKET)handle;
	struct tcp_link *l;
	int rc;

	urds_tcp_set_options(t, fd);
	rc = urds_tcp_sock_prepare(t, fd);
	if (rc < 0)
		return rc;
	l = urds_tcp_link_new(t, fd, user, false, 1);
	if (!l)
		return -URDS_ENOMEM;
	*out = &l->base;
	urds_tcp_link_arm(l);
	return 0;
}

/* A batch of packets cannot be lost with the thread that had fetched it: nothing but TerminateThread() takes a thread out of a
 * wait, and after that nothing in the process is safe. */
void urds_tcp_rearm(struct urds_transport *base)
{
}
