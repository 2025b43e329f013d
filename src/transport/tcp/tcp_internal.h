/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of transport/tcp share: the transport, a link, a listener.
 *
 * tcp.c     the transport and fork
 * link.c    the life of a link, its events
 * connect.c listen, accept, dial
 * data.c    bytes
 * resolve.c addresses
 */
#ifndef URDS_TRANSPORT_TCP_INTERNAL_H
#define URDS_TRANSPORT_TCP_INTERNAL_H

#include "platform/lock.h"
#include "transport/tcp/tcp.h"

struct tcp_listener {
	struct urds_listener base;
	struct urds_poll_src src;
	struct tcp_listener *next, **pprev; /* in tcp.listeners */
	int fd;
	bool is_starved; /* connections wait for a descriptor; under tcp.lock */
	_Atomic bool is_closed;
};

struct tcp {
	struct urds_transport base;
	struct urds_tcp_config cfg; /* defaults filled in */
	uint16_t port_lo, port_hi;  /* source ports of dials with a lane, both included */
	struct urds_poller *poller;
	struct urds_lock lock; /* the lists and the spare; never held over a sink call */
	struct tcp_link *links URDS_GUARDED_BY(lock);
	struct tcp_listener *listeners URDS_GUARDED_BY(lock);
	int spare_fd URDS_GUARDED_BY(lock); /* given up to accept and reset when none is left */
	_Atomic bool any_starved, lacks_spare;
	struct urds_tcp_stats stats;
};

struct tcp_link {
	struct urds_link base;
	struct urds_poll_src src;
	struct tcp_link *next, **pprev; /* in tcp.links */
	int fd;
	bool is_tcp;		  /* not a socketpair */
	bool is_registered;	  /* in the poller; under lock */
	struct urds_lock lock;	  /* registration against close */
	_Atomic uint32_t refs;	  /* the owner's until close (then the poller's), an accept's */
	_Atomic uint32_t pending; /* URDS_POLL_* to handle, and BUSY: a thread is at it */
	_Atomic bool is_connecting;
	_Atomic bool is_closed;	     /* no sink call starts any more */
	_Atomic bool is_tx_short;    /* the last tx() was not taken whole: on_writable() is owed */
	_Atomic bool is_broken;	     /* tx() saw an error: the kernel reports it once only */
	_Atomic bool is_fin_sent;    /* our FIN counts as one byte in the kernel's queue */
	uint64_t written;	     /* bytes the kernel took; by the holder of the tx direction */
	uint32_t tx_calls, rx_calls; /* by the holder of the direction */
};

/* Everything a dialled, accepted or listening socket gets. */
void urds_tcp_set_options(const struct tcp *t, int fd);

/* A link for @fd, with @refs references; NULL: no memory, @fd still the caller's. */
struct tcp_link *urds_tcp_link_new(struct tcp *t, int fd, void *user, bool is_connecting,
				   bool is_tcp, uint32_t refs);
/* Lets events come, unless it was closed meanwhile (0 then). */
int urds_tcp_link_register(struct tcp_link *l);
void urds_tcp_link_put(struct tcp_link *l);
void urds_tcp_link_shutdown(struct urds_link *base);
void urds_tcp_link_close(struct urds_link *base, enum urds_close_how how);

/* Opens the spare if there is none. */
void urds_tcp_get_spare(struct tcp *t) URDS_HOLDS(&t->lock);

static inline struct tcp *urds_tcp_of(struct urds_transport *base)
{
	return urds_container_of(base, struct tcp, base);
}

static inline void urds_tcp_count(_Atomic uint64_t *counter, uint64_t n)
{
	(void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
