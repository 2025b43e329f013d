/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A packet posted to the completion port; one at a time.
 */
#include "platform/wake.h"

#include "platform/windows/win.h"

static void post(struct urds_wake *w)
{
	if (atomic_exchange(&w->is_posted, 1) != 0)
		return;
	/* Memory of the system's is short: it will not be for long, and nobody else would wake that thread. */
	while (urds_poller_post(w->poller, &w->op, 0) < 0)
		Sleep(1);
}

static void done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct urds_wake *w = urds_container_of(op, struct urds_wake, op);

	atomic_store(&w->is_posted, 0);
	if (!w->is_held)
		(void)atomic_exchange(&w->is_rung, 0); /* a ring from here on posts again */
	if (w->rung)
		w->rung(w);
	if (w->is_held && atomic_load(&w->is_rung))
		post(w); /* not taken: for the next thread */
}

int urds_wake_setup_(struct urds_wake *w, struct urds_poller *p, void (*rung)(struct urds_wake *w),
		     bool is_held)
{
	w->op.done = done;
	w->poller = p;
	w->rung = rung;
	w->fd = -1;
	w->is_held = is_held;
	atomic_init(&w->is_rung, 0);
	atomic_init(&w->is_posted, 0);
	return 0;
}

void urds_wake_take(struct urds_wake *w)
{
	(void)atomic_exchange(&w->is_rung, 0);
}

void urds_wake_fini(struct urds_wake *w)
{
	w->rung = NULL;
	w->is_held = false;
	/* The packet that is under way lies in this memory. */
	while (atomic_load(&w->is_posted))
		(void)urds_poller_wait(w->poller, 0);
}

void urds_wake_ring(struct urds_wake *w)
{
	DWORD saved = GetLastError();

	if (atomic_exchange(&w->is_rung, 1) == 0)
		post(w);
	SetLastError(saved);
}
