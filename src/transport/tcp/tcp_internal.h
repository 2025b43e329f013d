/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of transport/tcp share: the transport, a link, a listener.
 *
 * tcp.c     the transport
 * link.c    the life of a link, the order of its events
 * dial.c    from which port
 * resolve.c addresses
 *
 * And per system, in a folder: sock.c (sockets), connect.c (listen, accept, one dial), link.c (from the system's events
 * to ours, the end), data.c (bytes).
 */
#ifndef URDS_TRANSPORT_TCP_INTERNAL_H
#define URDS_TRANSPORT_TCP_INTERNAL_H

#include "platform/lock.h"
#include "platform/net.h"
#include "transport/tcp/tcp.h"

#ifdef _WIN32
#include "transport/tcp/windows/ops.h"
typedef SOCKET tcp_sock;
#define TCP_NO_SOCK INVALID_SOCKET
/* What to try a bind with: Wine 8 binds datagrams to IPv4 addresses of other hosts too. */
#define TCP_BIND_PROBE SOCK_STREAM
#else
typedef int tcp_sock;
#define TCP_NO_SOCK (-1)
#define TCP_BIND_PROBE SOCK_DGRAM
#endif

struct tcp_listener {
	struct urds_listener base;
	struct tcp_listener *next, **pprev; /* in tcp.listeners */
	tcp_sock fd;
	bool is_starved; /* connections wait for a descriptor; under tcp.lock */
	_Atomic bool is_closed;
#ifdef _WIN32
	struct tcp_listener_ops sys;
#else
	struct urds_poll_src src;
#endif
};

struct tcp {
	struct urds_transport base;
	struct urds_tcp_config cfg; /* defaults filled in */
	uint16_t port_lo, port_hi;  /* source ports of dials with a lane, both included */
	struct urds_poller *poller;
	struct urds_lock lock; /* the lists and the spare; never held over a sink call */
	struct tcp_link *links URDS_GUARDED_BY(lock);
	struct tcp_listener *listeners URDS_GUARDED_BY(lock);
	_Atomic bool any_starved;
#ifdef _WIN32
	struct tcp_winsock sys;
#else
	int spare_fd URDS_GUARDED_BY(lock); /* given up to accept and reset when none is left */
	_Atomic bool lacks_spare;
#endif
	struct urds_tcp_stats stats;
};

#define TCP_BUSY 0x80000000u	 /* a thread is at it */
#define TCP_RELEASED 0x40000000u /* to_release grew */

struct tcp_link {
	struct urds_link base;
	struct tcp_link *next, **pprev; /* in tcp.links */
	tcp_sock fd;
	struct urds_lock lock; /* what is registered or under way, against close */
	_Atomic uint32_t
		refs; /* the owner's until close (then the poller's), an accept's, an operation's */
	_Atomic uint32_t pending; /* URDS_POLL_* to handle, and the two above */
	_Atomic bool is_connecting;
	_Atomic bool is_closed;	     /* no sink call starts any more */
	_Atomic bool is_tx_short;    /* the last tx() was not taken whole: on_writable() is owed */
	_Atomic bool is_broken;	     /* an error was seen: the system reports it once only */
	_Atomic uint64_t to_release; /* bytes, for on_tx_released() */
	uint32_t tx_calls, rx_calls; /* by the holder of the direction */
#ifdef _WIN32
	struct tcp_link_ops sys;
#else
	struct urds_poll_src src;
	bool is_tcp;		  /* not a socketpair */
	bool is_registered;	  /* in the poller; under lock */
	_Atomic bool is_fin_sent; /* our FIN counts as one byte in the kernel's queue */
	uint64_t written;	  /* bytes the kernel took; by the holder of the tx direction */
#endif
};

/* A link for @fd, which may be TCP_NO_SOCK yet, with @refs references; NULL: no memory, @fd still the caller's. */
struct tcp_link *urds_tcp_link_new(struct tcp *t, tcp_sock fd, void *user, bool is_connecting,
				   uint32_t refs);
void urds_tcp_link_put(struct tcp_link *l);
/* Hands @events (URDS_POLL_*, TCP_RELEASED) to the sink, or leaves them to the thread that is at it already. */
void urds_tcp_link_events(struct tcp_link *l, unsigned events);
/* The same in two steps: if the first answers true, no other thread hands out events until the second. */
bool urds_tcp_link_enter(struct tcp_link *l, unsigned events);
void urds_tcp_link_leave(struct tcp_link *l);
void urds_tcp_link_ports(struct urds_link *base, uint16_t *local, uint16_t *remote);

/* ---- of the system's folder ---- */

int urds_tcp_sys_init(struct tcp *t);
/* False: the system still has memory of @t or its links, which must stay for good. */
bool urds_tcp_sys_fini(struct tcp *t);

/* Everything a dialled, accepted or listening socket gets. */
void urds_tcp_set_options(const struct tcp *t, tcp_sock fd);
void urds_tcp_set_int(tcp_sock fd, int level, int name, int value);
/* For TCP from or to @a, with those options. Return: 0 or negative. */
int urds_tcp_socket(const struct tcp *t, const struct urds_addr *a, tcp_sock *out);
/* Without options, to ask with; of type @type. */
int urds_tcp_probe_socket(const struct urds_addr *a, int type, tcp_sock *out);
/* Ignores TCP_NO_SOCK. Changes no error number. */
void urds_tcp_sock_close(tcp_sock fd);
/* The next close resets. */
void urds_tcp_sock_no_linger(tcp_sock fd);
/* As connect(), but no cancellation point. */
int urds_tcp_sock_connect(tcp_sock fd, const struct sockaddr_storage *to, socklen_t to_len);
/* The negative urds_err of the socket call that has just failed. */
int urds_tcp_sock_error(void);

/* Starts to connect @l, which has no socket yet, from @port (0: the system's choice). On success its events come, maybe
 * before this returns. -URDS_EADDRINUSE: another port may do. */
int urds_tcp_try_dial(struct tcp_link *l, const struct urds_addr *local, uint16_t port,
		      const struct sockaddr_storage *to, socklen_t to_len);
/* The answer to that: true if the rest of the event is to be handled. */
bool urds_tcp_link_connected(struct tcp_link *l, unsigned events);
int urds_tcp_listen(struct urds_transport *base, const struct urds_addr *addr, void *user,
		    struct urds_listener **out);
void urds_tcp_unlisten(struct urds_listener *base);
void urds_tcp_link_shutdown(struct urds_link *base);
void urds_tcp_link_close(struct urds_link *base, enum urds_close_how how);
/* There may be a descriptor again. */
void urds_tcp_listener_resume(struct tcp *t, struct tcp_listener *ls) URDS_HOLDS(&t->lock);

static inline struct tcp *urds_tcp_of(struct urds_transport *base)
{
	return urds_container_of(base, struct tcp, base);
}

static inline struct tcp_link *urds_tcp_link_of(struct urds_link *base)
{
	return urds_container_of(base, struct tcp_link, base);
}

static inline bool urds_tcp_link_is_closed(const struct tcp_link *l)
{
	return atomic_load_explicit(&l->is_closed, memory_order_acquire);
}

static inline void urds_tcp_count(_Atomic uint64_t *counter, uint64_t n)
{
	(void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* A new listener is in the list, one that goes is not. */
static inline void urds_tcp_listener_link(struct tcp *t, struct tcp_listener *ls)
	URDS_HOLDS(&t->lock)
{
	ls->next = t->listeners;
	ls->pprev = &t->listeners;
	if (ls->next)
		ls->next->pprev = &ls->next;
	t->listeners = ls;
}

static inline void urds_tcp_listener_unlink(struct tcp *t, struct tcp_listener *ls)
	URDS_HOLDS(&t->lock)
{
	*ls->pprev = ls->next;
	if (ls->next)
		ls->next->pprev = ls->pprev;
}

#endif
