/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/wake.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"

static void ready(struct urds_poll_src *src, unsigned events)
{
	struct urds_wake *w = urds_container_of(src, struct urds_wake, src);

	/* The counter is never read: edge-triggered, every write is an edge of its own, and 2^64 of
	 * them do not happen. Clear first: a ring from here on must write again. */
	if (!w->is_held)
		(void)atomic_exchange_explicit(&w->is_rung, 0, memory_order_acq_rel);
	if (w->rung)
		w->rung(w);
}

int urds_wake_setup_(struct urds_wake *w, struct urds_poller *p, void (*rung)(struct urds_wake *w),
		     bool is_held)
{
	int fd, rc;

	urds_fds_enter();
	fd = urds_fds_made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (fd < 0)
		return -urds_err_from_errno(errno);
	w->src.ready = ready;
	w->poller = p;
	w->rung = rung;
	w->fd = fd;
	w->is_held = is_held;
	atomic_init(&w->is_rung, 0);
	rc = urds_poller_add(p, &w->src, fd, URDS_POLL_IN | (is_held ? URDS_POLL_LEVEL : 0));
	if (rc < 0)
		goto undo_fd;
	return 0;

undo_fd:
	urds_fds_close(fd);
	return rc;
}

void urds_wake_take(struct urds_wake *w)
{
	uint64_t count;

	/* Read first: a ring in between writes nothing, and whoever takes looks afterwards. */
	(void)urds_sys_read((int)w->fd, &count, sizeof(count));
	(void)atomic_exchange_explicit(&w->is_rung, 0, memory_order_acq_rel);
}

void urds_wake_fini(struct urds_wake *w)
{
	urds_poller_del(w->poller, &w->src, w->fd);
	urds_poller_retire(w->poller, &w->src, NULL);
	urds_fds_close((int)w->fd);
}

void urds_wake_ring(struct urds_wake *w)
{
	const uint64_t one = 1;
	int saved;

	if (atomic_exchange_explicit(&w->is_rung, 1, memory_order_acq_rel) != 0)
		return;
	saved = errno;
	while (urds_sys_write((int)w->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = saved;
}
