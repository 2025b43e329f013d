/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Events come from the poller. A link's memory and its descriptor live until no thread is inside one of its
 * events (poller.h), so that a reader's descriptor number cannot be reused under it.
 */
#include "transport/tcp/linux/register.h"

#include <assert.h>
#include <errno.h>

#include "platform/errno.h"

/* The answer to our connect(): true if the rest of the event is to be handled. */
bool urds_tcp_link_connected(struct tcp_link *l, unsigned events)
{
	const struct urds_link_sink *sink = l->base.t->sink;
	int err = 0;
	socklen_t len = sizeof(err);

	if (!(events & (URDS_POLL_OUT | URDS_POLL_ERR | URDS_POLL_HUP)))
		return false;
	if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	atomic_store_explicit(&l->is_connecting, false, memory_order_release);
	if (err == ECONNRESET || err == EPIPE) {
		/* Refusal is ECONNREFUSED; this was reset after it had been established, perhaps
		 * with bytes to read. Reading SO_ERROR took the error away, so remember it. */
		atomic_store_explicit(&l->is_broken, true, memory_order_release);
		err = 0;
	}
	sink->on_connected(&l->base, err ? -urds_err_from_errno(err) : 0);
	return err == 0;
}

static void ready(struct urds_poll_src *src, unsigned events)
{
	urds_tcp_link_events(urds_container_of(src, struct tcp_link, src), events);
}

int urds_tcp_link_register(struct tcp_link *l)
{
	struct tcp *t = urds_tcp_of(l->base.t);
	int rc = 0;

	urds_lock_acquire(&l->lock);
	if (!urds_tcp_link_is_closed(l)) {
		l->src.ready = ready;
		rc = urds_poller_add(t->poller, &l->src, l->fd,
				     URDS_POLL_IN | URDS_POLL_OUT | URDS_POLL_RDHUP);
		l->is_registered = rc == 0;
	}
	urds_lock_release(&l->lock);
	return rc;
}

static void retired(struct urds_poll_src *src)
{
	urds_tcp_link_put(urds_container_of(src, struct tcp_link, src));
}

void urds_tcp_link_shutdown(struct urds_link *base)
{
	struct tcp_link *l = urds_tcp_link_of(base);

	/* The flag after the deed: taken too early it would make a byte look acknowledged. Fails
	 * when there is no connection any more, and then there is no FIN either. */
	if (shutdown(l->fd, SHUT_WR) == 0)
		atomic_store_explicit(&l->is_fin_sent, true, memory_order_release);
}

void urds_tcp_link_close(struct urds_link *base, enum urds_close_how how)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	struct tcp *t = urds_tcp_of(base->t);
	bool was_registered;

	if (how == URDS_CLOSE_RESET)
		urds_tcp_sock_no_linger(l->fd);
	urds_lock_acquire(&l->lock);
	assert(!urds_tcp_link_is_closed(l));
	atomic_store_explicit(&l->is_closed, true, memory_order_release);
	was_registered = l->is_registered;
	urds_lock_release(&l->lock);
	if (was_registered) {
		urds_poller_del(t->poller, &l->src, l->fd);
		urds_poller_retire(t->poller, &l->src, retired);
	} else {
		urds_tcp_link_put(l);
	}
}

int urds_tcp_adopt(struct urds_transport *base, intptr_t handle, void *user, struct urds_link **out)
{
	struct tcp *t = urds_tcp_of(base);
	int fd = (int)handle, domain = 0, protocol = 0, rc;
	socklen_t len = sizeof(int);
	struct tcp_link *l;
	bool is_tcp;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
		return urds_tcp_sock_error();
	len = sizeof(int);
	(void)getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);
	/* rx() and tx() pass MSG_DONTWAIT, so the descriptor's own mode does not matter. */
	is_tcp = (domain == AF_INET || domain == AF_INET6) && protocol == IPPROTO_TCP;
	if (is_tcp)
		urds_tcp_set_options(t, fd);
	l = urds_tcp_link_new(t, fd, user, false, 1);
	if (!l)
		return -URDS_ENOMEM;
	l->is_tcp = is_tcp;
	*out = &l->base;
	rc = urds_tcp_link_register(l);
	if (rc < 0) {
		l->fd = -1; /* still the caller's */
		urds_tcp_link_put(l);
	}
	return rc;
}

void urds_tcp_rearm(struct urds_transport *base)
{
	struct tcp *t = urds_tcp_of(base);

	urds_lock_acquire(&t->lock);
	for (struct tcp_listener *ls = t->listeners; ls; ls = ls->next)
		(void)urds_poller_rearm(t->poller, &ls->src, ls->fd, URDS_POLL_IN);
	for (struct tcp_link *l = t->links; l; l = l->next) {
		urds_lock_acquire(&l->lock);
		if (l->is_registered && !atomic_load_explicit(&l->is_closed, memory_order_relaxed))
			(void)urds_poller_rearm(t->poller, &l->src, l->fd,
						URDS_POLL_IN | URDS_POLL_OUT | URDS_POLL_RDHUP);
		urds_lock_release(&l->lock);
	}
	urds_lock_release(&t->lock);
}
