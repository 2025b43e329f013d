/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of a transport, in three tables that can be replaced one by one: resolve (names, local
 * ownership, source addresses), connect (dial, accept, knock, close) and data (bytes). A transport
 * moves bytes between two addresses in order; it knows nothing of the RDS protocol, never calls core/,
 * and reports to whoever gave it a sink. It never blocks.
 *
 * Threads: the functions of one link are called by one thread at a time per direction (the holder of
 * path.tx for tx/acked, of path.rx for rx, of the peer's lock for dial and shutdown; close: of all
 * three). Different links are independent. The sink is called from urds_poller_wait()'s caller, from
 * urds_loop_run()'s, or from inside the call that caused the event, never with a lock of the
 * transport held. Sink calls of one link do not overlap, and on_connected comes before the others.
 *
 * End of life: close() cannot wait for a sink call that another thread is in the middle of (it may be
 * waiting for the lock the closer holds). So the link stays readable, with its user pointer, until
 * that call returns; on_closed() tells when. Nor can it wait for operations that a completion port reports.
 */
#ifndef URDS_TRANSPORT_H
#define URDS_TRANSPORT_H

#include <stdatomic.h>

#include "wire/types.h"

struct urds_transport;
struct urds_link;
struct urds_listener;

#define URDS_UNKNOWN UINT64_MAX /* acked(): this transport cannot tell */

enum urds_link_end {
	URDS_LINK_EOF,	 /* the other end closed its direction after all its bytes */
	URDS_LINK_RESET, /* reset, timed out, or any other error, end_err: bytes may be missing */
};

/* How rx() answered. */
enum urds_rx_how {
	URDS_RX_NOW, /* *got bytes are in the buffers (> 0) */
	URDS_RX_WAIT, /* nothing there; the buffers are the caller's again; on_readable() will come */
	URDS_RX_POSTED, /* the buffers are the transport's until on_rx() */
	URDS_RX_ENDED	/* *got = 0 and the stream has ended: link->end says how */
};

/* What happens to links. Every slot is mandatory but the last two. */
struct urds_link_sink {
	/* Bytes, an end or an error can be had by calling rx(). Edge-triggered: reported once per change,
	 * so rx() must be called until it answers WAIT (or, for a stream socket, until it got less than
	 * was asked for and @ended is false). */
	void (*on_readable)(struct urds_link *l, bool ended);
	/* A tx() that took less than all may now take more. */
	void (*on_writable)(struct urds_link *l);
	/* Completion of a posted rx(): @got bytes, or 0 = ended (link->end). */
	void (*on_rx)(struct urds_link *l, size_t got);
	/* @bytes of earlier tx() buffers may be reused. */
	void (*on_tx_released)(struct urds_link *l, size_t bytes);
	/* The dial that made @l succeeded (0) or failed (negative urds_err; @l may only be closed). */
	void (*on_connected)(struct urds_link *l, int err);
	/* A connection came in; takes @l. @from_port is the other end's transport port. */
	void (*on_accept)(struct urds_listener *ls, struct urds_link *l,
			  const struct urds_addr *from, uint16_t from_port);
	/* After close(), once, from inside it or from the thread of the sink call it overtook, or, when the
	 * system completes what was under way, from urds_poller_wait()'s caller: @l is about to be freed and nobody looks at l->user any more. May be NULL. */
	void (*on_closed)(struct urds_link *l);
	/* The same after unlisten(). May be NULL. */
	void (*on_unlistened)(struct urds_listener *ls);
};

/* The common head of every transport's link. */
struct urds_link {
	struct urds_transport *t;
	_Atomic(void *)
		user; /* the sink's own: set by it, whatever calls are going on; never read by the transport */
	bool is_given_up; /* the sink's own too: it is about to close it */
	int16_t end_err; /* with URDS_LINK_RESET, for people: a negative urds_err, or 0: not known */
	enum urds_link_end end; /* valid once rx answered ENDED */
};

struct urds_listener {
	struct urds_transport *t;
	struct urds_addr addr;
	void *user;
};

struct urds_data_ops {
	const char *name;
	/* Sends from @v without blocking; may accept part (*taken, 0..total). Buffers stay the
	 * transport's until on_tx_released(); a transport that copies reports the release before it
	 * returns, by setting *released instead of calling the sink. Fewer than all taken:
	 * on_writable() will come.
	 * Return: 0 or -URDS_ECONNRESET (the link is dead; rx() still gives what had arrived). */
	int (*tx)(struct urds_link *l, const struct urds_iov *v, size_t n, size_t *taken,
		  size_t *released);
	enum urds_rx_how (*rx)(struct urds_link *l, const struct urds_iov *v, size_t n,
			       size_t *got);
	/* Position in the byte stream (0 = nothing) up to which the other end's transport has
	 * acknowledged our bytes, or URDS_UNKNOWN. Valid after a reset too, until close. */
	uint64_t (*acked)(struct urds_link *l);
	/* For how long the other end's transport has owed us an answer, in nanoseconds, or
	 * URDS_UNKNOWN. 0 while no byte or probe of ours is overdue. A lower bound: what has just been
	 * sent on a quiet link is not silence, nor is a stopped process whose system acknowledges
	 * zero-window probes. */
	uint64_t (*silence)(struct urds_link *l);
	/* CPU on which the other end's packets arrive, or -1. */
	int (*incoming_cpu)(struct urds_link *l);
	/* urds_poller_key() of its events, or 0: not (yet) known. NULL: there is no such thing here. */
	uint64_t (*poll_key)(struct urds_link *l);
	/* Operating system handle for a spinning reader, or -1. */
	int (*fd)(struct urds_link *l);
	/* Transport ports of both ends, for listings; 0 where there are none. */
	void (*ports)(struct urds_link *l, uint16_t *local, uint16_t *remote);
};

enum urds_close_how {
	URDS_CLOSE_NOW,	  /* everything wanted was read: plain close */
	URDS_CLOSE_RESET, /* discard both directions and let the other end know at once */
};

struct urds_connect_ops {
	/* Takes connections for @addr (never a wildcard) on the RDS port. -URDS_EADDRINUSE,
	 * -URDS_EADDRNOTAVAIL. The listener is closed with unlisten(). */
	int (*listen)(struct urds_transport *t, const struct urds_addr *addr, void *user,
		      struct urds_listener **out);
	/* No on_accept() starts after this returns; connections not yet reported are reset. */
	void (*unlisten)(struct urds_listener *ls);
	/* Starts a connection from @local to @remote's RDS port. @lane 0..7: the source port modulo 8
	 * (W5), or -1: any. The answer is on_connected(), possibly before this returns.
	 * Return: 0 and *out, or an immediate error with no link made. */
	int (*dial)(struct urds_transport *t, const struct urds_addr *local,
		    const struct urds_addr *remote, int lane, void *user, struct urds_link **out);
	/* Ends our direction: what was taken is still sent, then the other end reads EOF. */
	void (*shutdown)(struct urds_link *l);
	/* Gives @l back. No sink call for it starts after this returns, except on_closed(). May be
	 * called from inside a sink call, of @l or of another link. Buffers that are still the
	 * transport's (posted, or taken and not released) are the caller's again at on_closed(); what
	 * a completion transport had not sent from them is lost, so wait for the releases first. */
	void (*close)(struct urds_link *l, enum urds_close_how how);
};

struct urds_resolve_ops {
	/* Is @a an address of this host that sockets can be bound to? Perhaps, if there is no descriptor to ask with. */
	bool (*is_local)(struct urds_transport *t, const struct urds_addr *a);
	/* The local address from which @to would be reached, by routing. -URDS_EUNREACH. */
	int (*source_for)(struct urds_transport *t, const struct urds_addr *to,
			  struct urds_addr *from);
	/* Numeric or host name to address. -URDS_EINVAL. May block (DNS): tools only. */
	int (*name)(struct urds_transport *t, const char *name, struct urds_addr *out);
};

struct urds_transport {
	const struct urds_data_ops *data;
	const struct urds_connect_ops *connect;
	const struct urds_resolve_ops *resolve;
	const struct urds_link_sink *sink;
	void *user; /* the sink's own */
};

#endif
