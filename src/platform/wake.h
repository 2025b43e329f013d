/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets one thread out of urds_poller_wait(). Any number of rings before it has come out are one.
 */
#ifndef URDS_PLATFORM_WAKE_H
#define URDS_PLATFORM_WAKE_H

#include <stdatomic.h>

#include "platform/poller.h"

struct urds_wake {
#ifdef _WIN32
	struct urds_poll_op op;
	_Atomic uint32_t is_posted; /* its packet is under way */
#else
	struct urds_poll_src src;
#endif
	struct urds_poller *poller;
	void (*rung)(struct urds_wake *w); /* may be NULL */
	intptr_t fd;
	_Atomic uint32_t is_rung;
	bool is_held;
};

int urds_wake_setup_(struct urds_wake *w, struct urds_poller *p, void (*rung)(struct urds_wake *w),
		     bool is_held);

/* @rung runs in a thread of urds_poller_wait(): everything written before the ring is visible, and
 * a ring from now on leads to another call. */
static inline int urds_wake_init(struct urds_wake *w, struct urds_poller *p,
				 void (*rung)(struct urds_wake *w))
{
	return urds_wake_setup_(w, p, rung, false);
}

/* No thread is in urds_poller_wait() or about to ring. */
void urds_wake_fini(struct urds_wake *w);

/* Any thread, any signal handler. No system call while an earlier ring is pending. */
void urds_wake_ring(struct urds_wake *w);

/* The same for one thread in particular, among several that wait: the ring stays, and brings every one of them out,
 * until that thread, in its @rung, takes it. */
static inline int urds_wake_init_held(struct urds_wake *w, struct urds_poller *p,
				      void (*rung)(struct urds_wake *w))
{
	return urds_wake_setup_(w, p, rung, true);
}
/* Then look again at whatever a ring may be about. */
void urds_wake_take(struct urds_wake *w);

static inline intptr_t urds_wake_fd(const struct urds_wake *w)
{
	return w->fd;
}

#endif
