/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Waits for many descriptors, edge-triggered, from any number of threads at once.
 *
 * Who may be called when:
 *  - ready() of one source may run on two threads at the same time (a second edge while the first
 * is being handled). Sources that mind serialise themselves (transport/tcp does).
 *  - Once urds_poller_del() has returned, ready() does not *start* any more; one that had started,
 *    on another thread or further up this thread's stack, may still be running.
 *  - Hence a source's memory goes through urds_poller_retire(): its free function runs as soon as
 * no ready() of that source is running - at once, inside retire(), or on the thread whose ready()
 *    is the last to return. A thread parked in urds_poller_wait() delays nothing.
 *  - What the free function closes (the descriptor) stays valid for a ready() still running.
 */
#ifndef URDS_PLATFORM_POLLER_H
#define URDS_PLATFORM_POLLER_H

#include "wire/types.h"

#define URDS_POLL_IN 1u
#define URDS_POLL_OUT 2u
#define URDS_POLL_ERR 4u    /* always reported */
#define URDS_POLL_HUP 8u    /* always reported: both directions ended */
#define URDS_POLL_RDHUP 16u /* the other end sends no more */
#define URDS_POLL_LEVEL \
	32u /* to add() and rearm(): reported for as long as it is so, to every waiter */

struct urds_poller;

/* Embed in whatever owns the descriptor. Set @ready before add; the rest is the poller's. */
struct urds_poll_src {
	void (*ready)(struct urds_poll_src *src, unsigned events);
	void (*free_fn)(struct urds_poll_src *src);
	uint32_t slot;
};

int urds_poller_new(struct urds_poller **out);
/* Every source retired, no thread waiting. */
void urds_poller_free(struct urds_poller *p);

#ifndef _WIN32
/* Edge-triggered: @events are reported once per change, and at once for what is already so; a
 * report carries everything that is so at that time. ready() may run before this returns. Return:
 * 0, -URDS_ENOMEM, or another negative urds_err. */
int urds_poller_add(struct urds_poller *p, struct urds_poll_src *src, intptr_t fd, unsigned events);

/* Reports again what is so now, as if just added. */
int urds_poller_rearm(struct urds_poller *p, struct urds_poll_src *src, intptr_t fd,
		      unsigned events);

/* Before closing @fd. See above for what still may run. */
void urds_poller_del(struct urds_poller *p, struct urds_poll_src *src, intptr_t fd);

/* After del, exactly once: @src may not be added again before @free_fn (which may be NULL) ran. */
void urds_poller_retire(struct urds_poller *p, struct urds_poll_src *src,
			void (*free_fn)(struct urds_poll_src *src));
#else
/* Windows tells what has been done, not what could be: nothing is registered, and each operation that was started brings
 * exactly one packet, also when it failed or was cancelled. What it works on must live until then. */
struct urds_poll_op {
	uint64_t overlapped[4]; /* the system's OVERLAPPED: pass urds_poll_overlapped() */
	/* @bytes moved; @err: 0 or a negative urds_err. May start the operation again, or free @op. */
	void (*done)(struct urds_poll_op *op, uint32_t bytes, int err);
};

/* Zeroed, for one start. Call before each. */
struct _OVERLAPPED *urds_poll_overlapped(struct urds_poll_op *op);
/* Was started, and is not done yet; whether its packet has come is another question. Any thread. */
static inline bool urds_poll_op_waits(const struct urds_poll_op *op)
{
	const volatile uint64_t *status = &op->overlapped[0];

	return *status == 0x103; /* STATUS_PENDING */
}
/* Operations on @handle (a socket, a pipe, opened for overlapped use) report to @p from now on, also those that succeed at
 * once. Return: 0 or negative. */
int urds_poller_attach(struct urds_poller *p, intptr_t handle);
/* A packet of no operation: @op is done() with @bytes, soon. Return: 0 or -URDS_ENOMEM. */
int urds_poller_post(struct urds_poller *p, struct urds_poll_op *op, uint32_t bytes);
#endif

/* Waits for one batch of events and dispatches it on this thread. @timeout_ns is a duration; 0 polls;
 * URDS_NEVER. The one cancellation point is the system's wait inside (none with 0), where nothing is
 * held; a cancellation that arrives together with events dispatches them first.
 * Return: events taken (> 0), 0 timed out, -URDS_EINTR. */
int urds_poller_wait(struct urds_poller *p, urds_ns timeout_ns);

/* The same in two steps, for a caller that may be left in the first by cancellation or longjmp. The batch, all
 * zero at first, must outlive that: events that were fetched and not dispatched are edges that nobody
 * would see again. dispatch() of a batch that holds nothing does nothing. */
#define URDS_POLL_BATCH 32
#ifdef _WIN32
#define URDS_POLL_WORDS 4
#else
#define URDS_POLL_WORDS 2
#endif
struct urds_poll_batch {
	struct urds_poller *poller;
	struct {
		uint64_t word[URDS_POLL_WORDS];
	} event[URDS_POLL_BATCH];
};
int urds_poller_fetch(struct urds_poller *p, urds_ns timeout_ns, struct urds_poll_batch *b);
void urds_poller_dispatch(struct urds_poll_batch *b);

#ifndef _WIN32
/* What the events of @src are told from others' by, never 0, and never that of another source, however much later. While
 * @src is registered. */
uint64_t urds_poller_key(const struct urds_poller *p, const struct urds_poll_src *src);
/* If the event of the batch, which holds one, has this key and says nothing but @events, it is taken out. */
bool urds_poll_batch_take(struct urds_poll_batch *b, uint64_t key, unsigned events);
#else
/* There, what an event brings is lost with it. */
static inline bool urds_poll_batch_take(struct urds_poll_batch *b, uint64_t key, unsigned events)
{
	return false;
}
#endif

/* A descriptor that polls readable while urds_poller_wait(p, 0) would find something, or -1. */
intptr_t urds_poller_fd(const struct urds_poller *p);

#endif
