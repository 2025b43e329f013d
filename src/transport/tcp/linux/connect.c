/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections: listen and accept, and one attempt to dial.
 */
#include "transport/tcp/linux/register.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/addr.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"

/* Connections taken in a row: whoever makes them without end does not keep this thread from the rest. */
#define ACCEPTS_MAX 64

static void reset(int fd)
{
	urds_tcp_sock_no_linger(fd);
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
	l = urds_tcp_link_new(t, fd, NULL, false, 2);
	if (!l)
		goto refuse;
	l->is_tcp = true;
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
	reset(fd);
}

/* Opens the spare if there is none. */
static void get_spare(struct tcp *t) URDS_HOLDS(&t->lock)
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
			reset(fd);
		get_spare(t);
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
		get_spare(t);
		urds_lock_release(&t->lock);
	}
}

void urds_tcp_listener_resume(struct tcp *t, struct tcp_listener *ls)
{
	(void)urds_poller_rearm(t->poller, &ls->src, ls->fd, URDS_POLL_IN);
}

int urds_tcp_listen(struct urds_transport *base, const struct urds_addr *addr, void *user,
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
	rc = urds_tcp_socket(t, addr, &fd);
	if (rc < 0)
		goto undo_ls;
	/* Lets us bind beside connections of a dead predecessor in TIME_WAIT. Two live owners still
	 * exclude each other: the second fails in bind, or in listen if both had bound first. */
	urds_tcp_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, (struct sockaddr *)&ss,
		 (socklen_t)urds_addr_to_sockaddr(addr, t->cfg.port, &ss)) < 0 ||
	    listen(fd, (int)t->cfg.backlog) < 0) {
		rc = urds_tcp_sock_error();
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
	if (rc == 0)
		urds_tcp_listener_link(t, ls);
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

void urds_tcp_unlisten(struct urds_listener *base)
{
	struct tcp_listener *ls = urds_container_of(base, struct tcp_listener, base);
	struct tcp *t = urds_tcp_of(base->t);

	atomic_store_explicit(&ls->is_closed, true, memory_order_release);
	urds_lock_acquire(&t->lock);
	urds_tcp_listener_unlink(t, ls);
	urds_poller_del(t->poller, &ls->src, ls->fd);
	urds_lock_release(&t->lock);
	/* Ends the listening now, even if another thread in accept_all() delays the close. */
	(void)shutdown(ls->fd, SHUT_RDWR);
	urds_poller_retire(t->poller, &ls->src, listener_retired);
}

/* EADDRINUSE and EADDRNOTAVAIL at connect are both -URDS_EADDRINUSE. */
int urds_tcp_try_dial(struct tcp_link *l, const struct urds_addr *local, uint16_t port,
		      const struct sockaddr_storage *to, socklen_t to_len)
{
	struct sockaddr_storage from;
	socklen_t from_len;
	int fd, rc = urds_tcp_socket(urds_tcp_of(l->base.t), local, &fd);

	if (rc < 0)
		return rc;
	/* Port 0 is then chosen at connect, for this destination, not for all of them at bind. */
	if (port == 0)
		urds_tcp_set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	/* No SO_REUSEADDR: a port in use must be seen here, where the next one can be tried. */
	from_len = (socklen_t)urds_addr_to_sockaddr(local, port, &from);
	if (bind(fd, (struct sockaddr *)&from, from_len) < 0) {
		rc = urds_tcp_sock_error();
		goto undo_fd;
	}
	if (urds_tcp_sock_connect(fd, to, to_len) < 0 && errno != EINPROGRESS) {
		rc = errno == EADDRNOTAVAIL ? -URDS_EADDRINUSE : urds_tcp_sock_error();
		goto undo_fd;
	}
	l->fd = fd;
	l->is_tcp = true;
	return urds_tcp_link_register(l);

undo_fd:
	urds_fds_close(fd);
	return rc;
}

/* The ports the administrator left for outgoing connections; of IPv6 too, despite the name. */
static void read_port_range(struct tcp *t)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned lo, hi;

	t->port_lo = 32768;
	t->port_hi = 60999;
	if (!f)
		return;
	/* Eight at least, or a lane could be without a port. */
	if (fscanf(f, "%u %u", &lo, &hi) == 2 && lo > 0 && hi <= 65535 && lo + 8 <= hi) {
		t->port_lo = (uint16_t)lo;
		t->port_hi = (uint16_t)hi;
	}
	(void)fclose(f);
}

int urds_tcp_sys_init(struct tcp *t)
{
	/* Without it (-1) we still run: the first EMFILE then leaves connections waiting. */
	t->spare_fd = -1;
	urds_lock_acquire(&t->lock);
	get_spare(t);
	urds_lock_release(&t->lock);
	read_port_range(t);
	return 0;
}

bool urds_tcp_sys_fini(struct tcp *t) URDS_UNCHECKED
{
	urds_fds_close(t->spare_fd);
	return true;
}
