/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections: AcceptEx() on sockets that wait, and ConnectEx().
 */
#include "transport/tcp/tcp_internal.h"

#include <stdlib.h>

#include "platform/addr.h"
#include "platform/errno.h"

#define RESET_TRIES 64

static void listener_put(struct tcp_listener *ls)
{
	const struct urds_link_sink *sink = ls->base.t->sink;

	if (atomic_fetch_sub(&ls->sys.refs, 1) != 1)
		return;
	if (sink->on_unlistened)
		sink->on_unlistened(&ls->base);
	free(ls);
}

static int accept_start(struct tcp *t, struct tcp_listener *ls, struct tcp_accept *a)
	URDS_HOLDS(&t->lock)
{
	DWORD n, code = ERROR_IO_PENDING;
	int rc = urds_tcp_socket(t, &ls->base.addr, &a->fd);

	if (rc < 0)
		return rc;
	(void)atomic_fetch_add(&ls->sys.refs, 1);
	(void)atomic_fetch_add(&t->sys.under_way, 1);
	/* Each of these resets was one connection's, gone before it was looked at. */
	for (int i = 0; i < RESET_TRIES; i++) {
		code = t->sys.accept_ex(ls->fd, a->fd, a->addrs, 0, TCP_ACCEPT_ADDR_BYTES,
					TCP_ACCEPT_ADDR_BYTES, &n, urds_poll_overlapped(&a->op))
			       ? ERROR_IO_PENDING
			       : (DWORD)WSAGetLastError();
		if (code != WSAECONNRESET)
			break;
	}
	if (code == ERROR_IO_PENDING)
		return 0;
	(void)atomic_fetch_sub(&t->sys.under_way, 1);
	(void)atomic_fetch_sub(&ls->sys.refs, 1); /* never the last: the caller has one */
	urds_tcp_sock_close(a->fd);
	a->fd = INVALID_SOCKET;
	return -urds_err_from_system(code);
}

/* Every place that is free, unless the listener goes. Too few sockets: somebody will say when there are more. */
void urds_tcp_listener_resume(struct tcp *t, struct tcp_listener *ls)
{
	for (int i = 0; i < TCP_ACCEPTS; i++) {
		struct tcp_accept *a = &ls->sys.accept[i];

		if (atomic_load(&ls->is_closed))
			return;
		if (a->fd != INVALID_SOCKET || accept_start(t, ls, a) == 0)
			continue;
		urds_tcp_count(&t->stats.accepts_failed, 1);
		ls->is_starved = true;
		atomic_store_explicit(&t->any_starved, true, memory_order_relaxed);
		return;
	}
}

static void accepted(struct tcp *t, struct tcp_listener *ls, SOCKET fd,
		     const struct sockaddr *from_sa, int from_len)
{
	struct urds_addr from;
	struct tcp_link *l;
	uint16_t port;

	if (urds_addr_from_sockaddr(&from, &port, from_sa, (size_t)from_len) < 0 ||
	    (port == t->cfg.port && urds_addr_eq(&from, &ls->base.addr)))
		goto refuse; /* a socket connected to itself */
	urds_tcp_set_options(t, fd);
	if (urds_tcp_sock_prepare(t, fd) < 0)
		goto refuse;
	l = urds_tcp_link_new(t, fd, NULL, false, 2);
	if (!l)
		goto refuse;
	/* What comes from here on is reported when the sink has set user. */
	(void)urds_tcp_link_enter(l, 0);
	urds_tcp_link_arm(l);
	urds_tcp_count(&t->stats.accepts, 1);
	t->base.sink->on_accept(&ls->base, &l->base, &from, port);
	urds_tcp_link_leave(l);
	urds_tcp_link_put(l);
	return;

refuse:
	urds_tcp_count(&t->stats.accepts_refused, 1);
	urds_tcp_sock_no_linger(fd);
	urds_tcp_sock_close(fd);
}

static void accept_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct tcp_accept *a = urds_container_of(op, struct tcp_accept, op);
	struct tcp_listener *ls = a->ls;
	struct tcp *t = urds_tcp_of(ls->base.t);
	bool is_closed = atomic_load(&ls->is_closed);
	struct sockaddr *local, *remote;
	struct sockaddr_storage from;
	int local_len, from_len = 0;
	SOCKET fd = a->fd;

	if (err == 0 && !is_closed) {
		t->sys.accept_addrs(a->addrs, 0, TCP_ACCEPT_ADDR_BYTES, TCP_ACCEPT_ADDR_BYTES,
				    &local, &local_len, &remote, &from_len);
		if (from_len > (int)sizeof(from))
			from_len = sizeof(from);
		memcpy(&from, remote, (size_t)from_len);
		(void)setsockopt(fd, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, (char *)&ls->fd,
				 sizeof(ls->fd));
	}
	if (err < 0 && err != -URDS_ECANCELED)
		urds_tcp_count(&t->stats.accepts_failed, 1);
	urds_lock_acquire(&t->lock);
	a->fd = INVALID_SOCKET;
	urds_tcp_listener_resume(t, ls);
	urds_lock_release(&t->lock);
	if (err == 0 && !is_closed) {
		accepted(t, ls, fd, (struct sockaddr *)&from, from_len);
	} else {
		if (err == 0) /* nobody is going to hear of it here */
			urds_tcp_sock_no_linger(fd);
		urds_tcp_sock_close(fd);
	}
	listener_put(ls);
	(void)atomic_fetch_sub(&t->sys.under_way, 1);
}

int urds_tcp_listen(struct urds_transport *base, const struct urds_addr *addr, void *user,
		    struct urds_listener **out)
{
	struct tcp *t = urds_tcp_of(base);
	struct sockaddr_storage ss;
	struct tcp_listener *ls;
	int rc;

	if (urds_addr_is_any(addr))
		return -URDS_EINVAL;
	ls = calloc(1, sizeof(*ls));
	if (!ls)
		return -URDS_ENOMEM;
	ls->base.t = base;
	ls->base.addr = *addr;
	ls->base.user = user;
	atomic_init(&ls->sys.refs, 1);
	for (int i = 0; i < TCP_ACCEPTS; i++) {
		ls->sys.accept[i].op.done = accept_done;
		ls->sys.accept[i].ls = ls;
		ls->sys.accept[i].fd = INVALID_SOCKET;
	}
	rc = urds_tcp_socket(t, addr, &ls->fd);
	if (rc < 0)
		goto undo_ls;
	/* Nobody may bind beside us, with SO_REUSEADDR neither, which on Windows would take connections away. */
	urds_tcp_set_int(ls->fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
	if (bind(ls->fd, (struct sockaddr *)&ss,
		 (int)urds_addr_to_sockaddr(addr, t->cfg.port, &ss)) < 0 ||
	    listen(ls->fd, (int)t->cfg.backlog) < 0)
		rc = urds_tcp_sock_error();
	else
		rc = urds_tcp_sock_prepare(t, ls->fd);
	if (rc < 0)
		goto undo_fd;
	*out = &ls->base;
	urds_lock_acquire(&t->lock);
	urds_tcp_listener_link(t, ls);
	urds_tcp_listener_resume(t, ls);
	urds_lock_release(&t->lock);
	return 0;

undo_fd:
	urds_tcp_sock_close(ls->fd);
undo_ls:
	free(ls);
	return rc;
}

void urds_tcp_unlisten(struct urds_listener *base)
{
	struct tcp_listener *ls = urds_container_of(base, struct tcp_listener, base);
	struct tcp *t = urds_tcp_of(base->t);

	urds_lock_acquire(&t->lock);
	atomic_store(&ls->is_closed, true);
	urds_tcp_listener_unlink(t, ls);
	/* Brings the packets of the accepts; who waits in the queue is reset. */
	urds_tcp_sock_close(ls->fd);
	urds_lock_release(&t->lock);
	listener_put(ls);
}

static void connect_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct tcp_link *l = urds_container_of(op, struct tcp_link, sys.rx);

	l->sys.connect_err = err;
	urds_tcp_link_events(l, URDS_POLL_OUT);
	urds_tcp_op_end(l);
}

int urds_tcp_try_dial(struct tcp_link *l, const struct urds_addr *local, uint16_t port,
		      const struct sockaddr_storage *to, socklen_t to_len)
{
	struct tcp *t = urds_tcp_of(l->base.t);
	struct sockaddr_storage from;
	SOCKET fd;
	int rc = urds_tcp_socket(t, local, &fd);

	if (rc < 0)
		return rc;
	urds_tcp_set_int(fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1);
	if (bind(fd, (struct sockaddr *)&from, (int)urds_addr_to_sockaddr(local, port, &from)) <
	    0) {
		rc = urds_tcp_sock_error();
		/* Another user's, or a range that the system keeps: the next one may do. */
		if (rc == -URDS_EACCES && port != 0)
			rc = -URDS_EADDRINUSE;
		goto undo_fd;
	}
	rc = urds_tcp_sock_prepare(t, fd);
	if (rc < 0)
		goto undo_fd;
	l->fd = fd;
	l->sys.rx.done = connect_done;
	urds_tcp_op_begin(l);
	/* When it has started, @l is its owner's, who may close it. */
	if (t->sys.connect_ex(fd, (const struct sockaddr *)to, to_len, NULL, 0, NULL,
			      urds_poll_overlapped(&l->sys.rx)) ||
	    WSAGetLastError() == ERROR_IO_PENDING)
		return 0;
	rc = urds_tcp_sock_error();
	if (rc == -URDS_EADDRNOTAVAIL)
		rc = -URDS_EADDRINUSE;
	l->fd = INVALID_SOCKET;
	urds_tcp_op_end(l);

undo_fd:
	urds_tcp_sock_close(fd);
	return rc;
}
