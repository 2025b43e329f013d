/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The life of a link. Its memory and its descriptor live until no thread is inside one of its
 * events (poller.h), so that a reader's descriptor number cannot be reused under it.
 */
#include "transport/tcp/tcp_internal.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"

#define BUSY 0x80000000u /* beside the URDS_POLL_* bits in tcp_link.pending */
#define ENDED (URDS_POLL_RDHUP | URDS_POLL_HUP | URDS_POLL_ERR)

static bool is_closed(const struct tcp_link *l)
{
	return atomic_load_explicit(&l->is_closed, memory_order_acquire);
}

/* The answer to our connect(): true if the rest of the event is to be handled. */
static bool connected(struct tcp_link *l, unsigned events)
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

static void handle(struct tcp_link *l, unsigned events)
{
	const struct urds_link_sink *sink = l->base.t->sink;

	if (is_closed(l))
		return;
	if (atomic_load_explicit(&l->is_connecting, memory_order_acquire) && !connected(l, events))
		return;
	if (is_closed(l))
		return;
	if (events & (URDS_POLL_IN | ENDED))
		sink->on_readable(&l->base, (events & ENDED) != 0);
	if (is_closed(l))
		return;
	/* An edge reports everything that is so; only a tx() that was cut short waits for this. The
	 * flag stays up until a tx() is taken whole: see tx(). */
	if ((events & URDS_POLL_OUT) && atomic_load_explicit(&l->is_tx_short, memory_order_acquire))
		sink->on_writable(&l->base);
}

/* A second thread with a later edge leaves it to the one already here. */
static void ready(struct urds_poll_src *src, unsigned events)
{
	struct tcp_link *l = urds_container_of(src, struct tcp_link, src);
	uint32_t idle = BUSY;

	if (atomic_fetch_or_explicit(&l->pending, events | BUSY, memory_order_acq_rel) & BUSY)
		return;
	do {
		events = atomic_exchange_explicit(&l->pending, BUSY, memory_order_acq_rel) & ~BUSY;
		handle(l, events);
		idle = BUSY;
	} while (!atomic_compare_exchange_strong_explicit(
		&l->pending, &idle, 0, memory_order_acq_rel, memory_order_acquire));
}

struct tcp_link *urds_tcp_link_new(struct tcp *t, int fd, void *user, bool is_connecting,
				   bool is_tcp, uint32_t refs)
{
	struct tcp_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->base.t = &t->base;
	l->base.user = user;
	l->src.ready = ready;
	l->fd = fd;
	l->is_tcp = is_tcp;
	urds_lock_init(&l->lock);
	atomic_init(&l->refs, refs);
	atomic_init(&l->is_connecting, is_connecting);

	urds_lock_acquire(&t->lock);
	l->next = t->links;
	l->pprev = &t->links;
	if (l->next)
		l->next->pprev = &l->next;
	t->links = l;
	urds_lock_release(&t->lock);
	return l;
}

int urds_tcp_link_register(struct tcp_link *l)
{
	struct tcp *t = urds_tcp_of(l->base.t);
	int rc = 0;

	urds_lock_acquire(&l->lock);
	if (!is_closed(l)) {
		rc = urds_poller_add(t->poller, &l->src, l->fd,
				     URDS_POLL_IN | URDS_POLL_OUT | URDS_POLL_RDHUP);
		l->is_registered = rc == 0;
	}
	urds_lock_release(&l->lock);
	return rc;
}

void urds_tcp_link_put(struct tcp_link *l)
{
	struct tcp *t = urds_tcp_of(l->base.t);

	if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
		return;
	urds_lock_acquire(&t->lock);
	*l->pprev = l->next;
	if (l->next)
		l->next->pprev = l->pprev;
	urds_lock_release(&t->lock);
	urds_fds_close(l->fd);
	/* Not for one that the sink was never told of. */
	if (is_closed(l) && t->base.sink->on_closed)
		t->base.sink->on_closed(&l->base);
	free(l);
	if (urds_tcp_is_starved(&t->base))
		urds_tcp_unstarve(&t->base);
}

static void retired(struct urds_poll_src *src)
{
	urds_tcp_link_put(urds_container_of(src, struct tcp_link, src));
}

void urds_tcp_link_shutdown(struct urds_link *base)
{
	struct tcp_link *l = urds_container_of(base, struct tcp_link, base);

	/* The flag after the deed: taken too early it would make a byte look acknowledged. Fails
	 * when there is no connection any more, and then there is no FIN either. */
	if (shutdown(l->fd, SHUT_WR) == 0)
		atomic_store_explicit(&l->is_fin_sent, true, memory_order_release);
}

void urds_tcp_link_close(struct urds_link *base, enum urds_close_how how)
{
	struct tcp_link *l = urds_container_of(base, struct tcp_link, base);
	struct tcp *t = urds_tcp_of(base->t);
	bool was_registered;

	if (how == URDS_CLOSE_RESET) {
		const struct linger now = {.l_onoff = 1, .l_linger = 0};

		(void)setsockopt(l->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	urds_lock_acquire(&l->lock);
	assert(!is_closed(l));
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

int urds_tcp_adopt(struct urds_transport *base, int fd, void *user, struct urds_link **out)
{
	struct tcp *t = urds_tcp_of(base);
	int domain = 0, protocol = 0, rc;
	socklen_t len = sizeof(int);
	struct tcp_link *l;
	bool is_tcp;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
		return -urds_err_from_errno(errno);
	len = sizeof(int);
	(void)getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);
	/* rx() and tx() pass MSG_DONTWAIT, so the descriptor's own mode does not matter. */
	is_tcp = (domain == AF_INET || domain == AF_INET6) && protocol == IPPROTO_TCP;
	if (is_tcp)
		urds_tcp_set_options(t, fd);
	l = urds_tcp_link_new(t, fd, user, false, is_tcp, 1);
	if (!l)
		return -URDS_ENOMEM;
	*out = &l->base;
	rc = urds_tcp_link_register(l);
	if (rc < 0) {
		l->fd = -1; /* still the caller's */
		urds_tcp_link_put(l);
	}
	return rc;
}
