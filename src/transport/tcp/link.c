/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The life of a link, and the order of its events. Its memory lives until no thread is inside one of them.
 */
#include "transport/tcp/tcp_internal.h"

#include <stdlib.h>

#include "platform/addr.h"

#define ENDED (URDS_POLL_RDHUP | URDS_POLL_HUP | URDS_POLL_ERR)

static void handle(struct tcp_link *l, unsigned events)
{
	const struct urds_link_sink *sink = l->base.t->sink;

	if (urds_tcp_link_is_closed(l))
		return;
	if (atomic_load_explicit(&l->is_connecting, memory_order_acquire) &&
	    !urds_tcp_link_connected(l, events))
		return;
	if (urds_tcp_link_is_closed(l))
		return;
	if (events & TCP_RELEASED) {
		uint64_t n = atomic_exchange_explicit(&l->to_release, 0, memory_order_acquire);

		if (n > 0)
			sink->on_tx_released(&l->base, (size_t)n);
		if (urds_tcp_link_is_closed(l))
			return;
	}
	if (events & (URDS_POLL_IN | ENDED))
		sink->on_readable(&l->base, (events & ENDED) != 0);
	if (urds_tcp_link_is_closed(l))
		return;
	/* An event reports everything that is so; only a tx() that was cut short waits for this. The
	 * flag stays up until a tx() is taken whole: see tx(). */
	if ((events & URDS_POLL_OUT) && atomic_load_explicit(&l->is_tx_short, memory_order_acquire))
		sink->on_writable(&l->base);
}

bool urds_tcp_link_enter(struct tcp_link *l, unsigned events)
{
	return !(atomic_fetch_or_explicit(&l->pending, events | TCP_BUSY, memory_order_acq_rel) &
		 TCP_BUSY);
}

void urds_tcp_link_leave(struct tcp_link *l)
{
	uint32_t idle, events;

	do {
		events = atomic_exchange_explicit(&l->pending, TCP_BUSY, memory_order_acq_rel) &
			 ~TCP_BUSY;
		handle(l, events);
		idle = TCP_BUSY;
	} while (!atomic_compare_exchange_strong_explicit(
		&l->pending, &idle, 0, memory_order_acq_rel, memory_order_acquire));
}

/* A second thread with a later event leaves it to the one already here. */
void urds_tcp_link_events(struct tcp_link *l, unsigned events)
{
	if (urds_tcp_link_enter(l, events))
		urds_tcp_link_leave(l);
}

struct tcp_link *urds_tcp_link_new(struct tcp *t, tcp_sock fd, void *user, bool is_connecting,
				   uint32_t refs)
{
	struct tcp_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->base.t = &t->base;
	l->base.user = user;
	l->fd = fd;
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
	urds_tcp_sock_close(l->fd);
	/* Not for one that the sink was never told of. */
	if (urds_tcp_link_is_closed(l) && t->base.sink->on_closed)
		t->base.sink->on_closed(&l->base);
	free(l);
	if (urds_tcp_is_starved(&t->base))
		urds_tcp_unstarve(&t->base);
}

void urds_tcp_link_ports(struct urds_link *base, uint16_t *local, uint16_t *remote)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	struct urds_addr a;

	*local = *remote = 0;
	if (getsockname(l->fd, (struct sockaddr *)&ss, &len) == 0)
		(void)urds_addr_from_sockaddr(&a, local, (struct sockaddr *)&ss, (size_t)len);
	len = sizeof(ss);
	if (getpeername(l->fd, (struct sockaddr *)&ss, &len) == 0)
		(void)urds_addr_from_sockaddr(&a, remote, (struct sockaddr *)&ss, (size_t)len);
}

void urds_tcp_link_calls(struct urds_link *base, uint32_t *tx_calls, uint32_t *rx_calls)
{
	struct tcp_link *l = urds_tcp_link_of(base);

	*tx_calls = l->tx_calls;
	*rx_calls = l->rx_calls;
}
