/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections: listen and accept, dial with a chosen source port.
 */
#include "transport/tcp/tcp_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/addr.h"
#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"
#include "platform/random.h"

/* All of these in use is a host in trouble; a dial must not take milliseconds then. */
#define PORT_TRIES 512
/* Connections taken in a row: whoever makes them without end does not keep this thread from the rest. */
#define ACCEPTS_MAX 64

static void set_int(int fd, int level, int name, int value)
{
	/* None of these is worth failing a connection for. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15 */
#endif

/* No TCP_USER_TIMEOUT: it would also end a connection whose other end answers every window probe
 * while its process is stopped. Whether a peer is dead is decided with silence() by the runtime. */
void urds_tcp_set_options(const struct tcp *t, int fd)
{
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	/* A host that was away, or has restarted, is asked again soon, not after as long as it was away. Less
	 * than this would let Linux give up (15 times) before we would. */
	set_int(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, 1500);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)t->cfg.keepalive_idle_s);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)t->cfg.keepalive_intvl_s);
	set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)t->cfg.keepalive_cnt);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	/* Before connect and listen: the receive buffer decides the window scale of the SYN. */
	if (t->cfg.sndbuf_bytes)
		set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)t->cfg.sndbuf_bytes);
	if (t->cfg.rcvbuf_bytes)
		set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)t->cfg.rcvbuf_bytes);
}

static int socket_for(const struct tcp *t, const struct urds_addr *a)
{
	int family = urds_addr_is_v4(a) ? AF_INET : AF_INET6, fd;

	urds_fds_enter();
	fd = urds_fds_made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
	if (fd < 0)
		return errno == ENOBUFS ? -URDS_ENOMEM : -urds_err_from_errno(errno);
	if (family == AF_INET6)
		set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	urds_tcp_set_options(t, fd);
	return fd;
}

static void reset_fd(int fd)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	urds_fds_close(fd);
}

static void accepted(struct tcp *t, struct tcp_listener *ls, int fd,
		     const struct sockaddr_storage *ss, socklen_t len)
{
	struct urds_addr from;
	struct tcp_link *l;
	uint16_t port;

	if (urds_addr_from_sockaddr(&from, &port, (const struct sockaddr *)ss, len) < 0 ||
	    (port == t->cfg.port && urds_addr_eq(&from, &ls->base.addr)))
		goto refuse; /* a socket connected to itself */
	urds_tcp_set_options(t, fd);
	l = urds_tcp_link_new(t, fd, NULL, false, true, 2);
	if (!l)
		goto refuse;
	urds_tcp_count(&t->stats.accepts, 1);
	t->base.sink->on_accept(&ls->base, &l->base, &from, port);
	/* Only now that the sink has set user; what arrived meanwhile is reported at once. */
	if (urds_tcp_link_register(l) < 0) {
		atomic_store_explicit(&l->is_broken, true, memory_order_release);
		(void)shutdown(fd, SHUT_RDWR);
		t->base.sink->on_readable(&l->base, true);
	}
	urds_tcp_link_put(l);
	return;

refuse:
	urds_tcp_count(&t->stats.accepts_refused, 1);
	reset_fd(fd);
}

void urds_tcp_get_spare(struct tcp *t)
{
	if (t->spare_fd < 0) {
		urds_fds_enter();
		t->spare_fd = urds_fds_made(urds_sys_open("/dev/null", O_RDONLY | O_CLOEXEC));
	}
	atomic_store_explicit(&t->lacks_spare, t->spare_fd < 0, memory_order_relaxed);
}

/* No descriptor left: give up the spare for a moment, so that the other end hears of it now instead
 * of filling our accept queue with bytes nobody will read. False: leave them waiting. */
static bool accept_and_reset(struct tcp *t, struct tcp_listener *ls)
{
	bool is_empty = false;
	int fd = -1;

	urds_lock_acquire(&t->lock);
	if (t->spare_fd >= 0) {
		urds_fds_close(t->spare_fd);
		t->spare_fd = -1;
		urds_fds_enter();
		fd = urds_fds_made(
			urds_sys_accept(ls->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		/* Without a descriptor, accept complains even if nobody is there. */
		is_empty = fd < 0 && errno == EAGAIN;
		if (fd >= 0)
			reset_fd(fd);
		urds_tcp_get_spare(t);
	}
	if (fd < 0 && !is_empty) {
		ls->is_starved = true;
		atomic_store_explicit(&t->any_starved, true, memory_order_relaxed);
	}
	urds_lock_release(&t->lock);
	if (fd >= 0)
		urds_tcp_count(&t->stats.accepts_refused, 1);
	return fd >= 0;
}

/* Until the queue is empty, for no further edge comes for what is already in it (B5), or has to be asked for. */
static void accept_all(struct urds_poll_src *src, unsigned events)
{
	struct tcp_listener *ls = urds_container_of(src, struct tcp_listener, src);
	struct tcp *t = urds_tcp_of(ls->base.t);
	unsigned n = 0;

	while (!atomic_load_explicit(&ls->is_closed, memory_order_acquire)) {
		struct sockaddr_storage ss;
		socklen_t len = sizeof(ss);
		int fd;

		urds_fds_enter();
		fd = urds_fds_made(urds_sys_accept(ls->fd, (struct sockaddr *)&ss, &len,
						   SOCK_CLOEXEC | SOCK_NONBLOCK));

		if (fd >= 0) {
			accepted(t, ls, fd, &ss, len);
			if (++n < ACCEPTS_MAX)
				continue;
			(void)urds_poller_rearm(t->poller, &ls->src, ls->fd, URDS_POLL_IN);
			break;
		}
		if (errno == EAGAIN || errno == EINVAL || errno == EBADF)
			break; /* empty, or unlisten() was called */
		if (errno == EINTR)
			continue;
		urds_tcp_count(&t->stats.accepts_failed, 1);
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			if (!accept_and_reset(t, ls))
				break;
		}
		/* Anything else is the fate of that one connection (ECONNABORTED, ...). */
	}
	/* Only now: connections come before the spare. */
	if (atomic_load_explicit(&t->lacks_spare, memory_order_relaxed)) {
		urds_lock_acquire(&t->lock);
		urds_tcp_get_spare(t);
		urds_lock_release(&t->lock);
	}
}

bool urds_tcp_is_starved(struct urds_transport *base)
{
	return atomic_load_explicit(&urds_tcp_of(base)->any_starved, memory_order_relaxed);
}

void urds_tcp_unstarve(struct urds_transport *base)
{
	struct tcp *t = urds_tcp_of(base);

	if (!atomic_exchange_explicit(&t->any_starved, false, memory_order_relaxed))
		return;
	urds_lock_acquire(&t->lock);
	for (struct tcp_listener *ls = t->listeners; ls; ls = ls->next) {
		if (!ls->is_starved)
			continue;
		ls->is_starved = false;
		(void)urds_poller_rearm(t->poller, &ls->src, ls->fd, URDS_POLL_IN);
	}
	urds_lock_release(&t->lock);
}

static int tcp_listen(struct urds_transport *base, const struct urds_addr *addr, void *user,
		      struct urds_listener **out)
{
	struct tcp *t = urds_tcp_of(base);
	struct sockaddr_storage ss;
	struct tcp_listener *ls;
	int fd, rc;

	if (urds_addr_is_any(addr))
		return -URDS_EINVAL;
	ls = calloc(1, sizeof(*ls));
	if (!ls)
		return -URDS_ENOMEM;
	fd = socket_for(t, addr);
	if (fd < 0) {
		rc = fd;
		goto undo_ls;
	}
	/* Lets us bind beside connections of a dead predecessor in TIME_WAIT. Two live owners still
	 * exclude each other: the second fails in bind, or in listen if both had bound first. */
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (struct sockaddr *)&ss,
		 (socklen_t)urds_addr_to_sockaddr(addr, t->cfg.port, &ss)) < 0 ||
	    listen(fd, (int)t->cfg.backlog) < 0) {
		rc = -urds_err_from_errno(errno);
		goto undo_fd;
	}
	ls->base.t = base;
	ls->base.addr = *addr;
	ls->base.user = user;
	ls->src.ready = accept_all;
	ls->fd = fd;
	*out = &ls->base;

	urds_lock_acquire(&t->lock);
	rc = urds_poller_add(t->poller, &ls->src, fd, URDS_POLL_IN);
	if (rc == 0) {
		ls->next = t->listeners;
		ls->pprev = &t->listeners;
		if (ls->next)
			ls->next->pprev = &ls->next;
		t->listeners = ls;
	}
	urds_lock_release(&t->lock);
	if (rc == 0)
		return 0;

undo_fd:
	urds_fds_close(fd);
undo_ls:
	free(ls);
	return rc;
}

static void listener_retired(struct urds_poll_src *src)
{
	struct tcp_listener *ls = urds_container_of(src, struct tcp_listener, src);
	const struct urds_link_sink *sink = ls->base.t->sink;

	urds_fds_close(ls->fd);
	if (sink->on_unlistened)
		sink->on_unlistened(&ls->base);
	free(ls);
}

static void tcp_unlisten(struct urds_listener *base)
{
	struct tcp_listener *ls = urds_container_of(base, struct tcp_listener, base);
	struct tcp *t = urds_tcp_of(base->t);

	atomic_store_explicit(&ls->is_closed, true, memory_order_release);
	urds_lock_acquire(&t->lock);
	*ls->pprev = ls->next;
	if (ls->next)
		ls->next->pprev = ls->pprev;
	urds_poller_del(t->poller, &ls->src, ls->fd);
	urds_lock_release(&t->lock);
	/* Ends the listening now, even if another thread in accept_all() delays the close. */
	(void)shutdown(ls->fd, SHUT_RDWR);
	urds_poller_retire(t->poller, &ls->src, listener_retired);
}

/* One attempt from @port (0: the kernel's choice). Return: fd or error; EADDRINUSE and
 * EADDRNOTAVAIL at connect are both -URDS_EADDRINUSE: another port may do. */
static int try_dial(const struct tcp *t, const struct urds_addr *local, uint16_t port,
		    const struct sockaddr_storage *to, socklen_t to_len)
{
	int fd = socket_for(t, local), rc;
	struct sockaddr_storage from;
	socklen_t from_len;

	if (fd < 0)
		return fd;
	/* Port 0 is then chosen at connect, for this destination, not for all of them at bind. */
	if (port == 0)
		set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	/* No SO_REUSEADDR: a port in use must be seen here, where the next one can be tried. */
	from_len = (socklen_t)urds_addr_to_sockaddr(local, port, &from);
	if (bind(fd, (struct sockaddr *)&from, from_len) < 0) {
		rc = -urds_err_from_errno(errno);
		goto undo_fd;
	}
	if (urds_sys_connect(fd, (const struct sockaddr *)to, to_len) == 0 || errno == EINPROGRESS)
		return fd;
	rc = errno == EADDRNOTAVAIL ? -URDS_EADDRINUSE : -urds_err_from_errno(errno);

undo_fd:
	urds_fds_close(fd);
	return rc;
}

static int dial_from_lane(const struct tcp *t, const struct urds_addr *local, unsigned lane,
			  const struct sockaddr_storage *to, socklen_t to_len)
{
	unsigned first = t->port_lo + ((lane - t->port_lo) & 7), count, start;
	int rc = -URDS_EADDRINUSE;

	count = (t->port_hi - first) / 8 + 1;
	start = (unsigned)(urds_random64() % count);
	for (unsigned i = 0; i < count && i < PORT_TRIES; i++) {
		unsigned port = first + (start + i) % count * 8;

		/* Never the service port: it would keep our own listener from binding. */
		if (port == t->cfg.port || port == URDS_TCP_PORT)
			continue;
		rc = try_dial(t, local, (uint16_t)port, to, to_len);
		if (rc != -URDS_EADDRINUSE)
			break;
	}
	return rc;
}

static int tcp_dial(struct urds_transport *base, const struct urds_addr *local,
		    const struct urds_addr *remote, int lane, void *user, struct urds_link **out)
{
	struct tcp *t = urds_tcp_of(base);
	struct urds_addr target = *remote;
	struct sockaddr_storage to;
	struct tcp_link *l;
	socklen_t to_len;
	int fd, rc;

	if (urds_addr_is_any(local) || urds_addr_is_any(remote) || lane < -1 || lane > 7 ||
	    urds_addr_is_v4(local) != urds_addr_is_v4(remote))
		return -URDS_EINVAL;
	if (urds_addr_is_link_local(remote) && remote->scope == 0)
		target.scope = local->scope;
	to_len = (socklen_t)urds_addr_to_sockaddr(&target, t->cfg.port, &to);
	urds_tcp_count(&t->stats.dials, 1);
	fd = lane < 0 ? try_dial(t, local, 0, &to, to_len)
		      : dial_from_lane(t, local, (unsigned)lane, &to, to_len);
	if (fd < 0)
		return fd;
	l = urds_tcp_link_new(t, fd, user, true, true, 1);
	if (!l) {
		urds_fds_close(fd);
		return -URDS_ENOMEM;
	}
	*out = &l->base; /* before the answer can come */
	rc = urds_tcp_link_register(l);
	if (rc < 0)
		urds_tcp_link_put(l);
	return rc;
}

const struct urds_connect_ops urds_tcp_connect = {
	.listen = tcp_listen,
	.unlisten = tcp_unlisten,
	.dial = tcp_dial,
	.shutdown = urds_tcp_link_shutdown,
	.close = urds_tcp_link_close,
};
