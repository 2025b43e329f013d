/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contexts without threads: the program's event loop watches one descriptor, and does what the loop thread and the flusher
 * would do whenever that is readable.
 *
 * Outside of engine_progress() the program counts as a loop thread in the poller: whoever has something for it rings
 * loop_wake, which makes the descriptor readable. A blocked call leads as elsewhere, and sees to timers too.
 */
#include "runtime/call.h"

#include <limits.h>

#include "platform/clock.h"

/* Rounds of one call; then the program has its turn. */
#define ROUNDS 16

int engine_hub_fd(struct urds_ctx *e)
{
	bool has_fds = false;
	int rc = 0;

	urds_lock_acquire(&e->start_lock);
	if (!e->has_hub) {
		rc = urds_hub_new(&e->hub);
		has_fds = rc == 0;
		if (rc == 0)
			rc = urds_hub_add(&e->hub, (int)urds_poller_fd(e->poller));
		if (rc == 0 && e->extra_fd >= 0)
			rc = urds_hub_add(&e->hub, e->extra_fd);
		e->has_hub = rc == 0;
		if (rc < 0 && has_fds)
			urds_hub_free(&e->hub);
	}
	if (rc == 0)
		rc = e->hub.fd;
	urds_lock_release(&e->start_lock);
	if (rc >= 0)
		urds_wake_ring(&e->loop_wake); /* what there is to do by now */
	return rc;
}

int engine_hub_watch(struct urds_ctx *e, int fd)
{
	int rc = 0;

	urds_lock_acquire(&e->start_lock);
	if (e->has_hub && fd >= 0)
		rc = urds_hub_add(&e->hub, fd);
	e->extra_fd = rc == 0 ? fd : -1;
	urds_lock_release(&e->start_lock);
	return rc;
}

/* One round. Return: is there more to do at once? */
static bool progress_once(struct urds_ctx *e, urds_ns *next)
{
	int n = engine_poll_now(e);

	/* From here on others ring: what they did before is seen below. */
	atomic_store(&e->loop_polls, 1);
	*next = engine_promise(e);
	return n > 0 || engine_has_work(e) || *next <= urds_clock_ns();
}

urds_ns engine_progress(struct urds_ctx *e, urds_ns also)
{
	urds_ns next = URDS_NEVER, accepts;
	bool more = true;

	if (!urds_lock_try(&e->progress_lock)) {
		/* Another thread is at it, and looks once more: what brought us here may be later than its last look. */
		urds_wake_ring(&e->loop_wake);
		return URDS_NEVER;
	}
	if (e->is_undriven) {
		urds_lock_release(&e->progress_lock);
		return URDS_NEVER;
	}
	call_me.is_loop = true;
	/* One that was replaced leaves its ring where it is. */
	call_me.takes_lead = atomic_load(&e->lead_lost);
	(void)engine_resume_accepts(e);
	for (int i = 0; more && i < ROUNDS; i++) {
		atomic_store(&e->loop_polls, 0);
		more = progress_once(e, &next);
	}
	call_me.is_loop = call_me.takes_lead = false;
	more = engine_leader_is_missed(e) || more;
	accepts = engine_resume_accepts(e);
	also = accepts < also ? accepts : also;
	next = more ? urds_clock_ns() : next < also ? next : also;
	urds_lock_acquire(&e->start_lock);
	if (e->has_hub)
		urds_hub_arm(&e->hub, next);
	urds_lock_release(&e->start_lock);
	urds_lock_release(&e->progress_lock);
	return next;
}
