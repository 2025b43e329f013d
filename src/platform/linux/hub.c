/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/hub.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "urds/errno.h"

int urds_hub_new(struct urds_hub *h)
{
	int rc;

	h->at = URDS_NEVER;
	urds_fds_enter();
	h->fd = urds_fds_made(epoll_create1(EPOLL_CLOEXEC));
	if (h->fd < 0)
		return -urds_err_from_errno(errno);
	urds_fds_enter();
	h->timer_fd = urds_fds_made(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	rc = h->timer_fd < 0 ? -urds_err_from_errno(errno) : urds_hub_add(h, h->timer_fd);
	if (rc < 0)
		urds_hub_free(h);
	return rc;
}

void urds_hub_free(struct urds_hub *h)
{
	if (h->timer_fd >= 0)
		urds_fds_close(h->timer_fd);
	urds_fds_close(h->fd);
}

int urds_hub_add(struct urds_hub *h, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(h->fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -urds_err_from_errno(errno) : 0;
}

void urds_hub_arm(struct urds_hub *h, urds_ns at)
{
	/* Zero would disarm; arming makes it unreadable if it had passed. */
	struct itimerspec t = {.it_value.tv_nsec = 0};

	if (at == h->at)
		return; /* if it has passed meanwhile it is readable, as it should be */
	h->at = at;
	if (at != URDS_NEVER) {
		t.it_value.tv_sec = (time_t)(at / 1000000000u);
		t.it_value.tv_nsec = (long)(at % 1000000000u);
		if (at == 0)
			t.it_value.tv_nsec = 1;
	}
	(void)timerfd_settime(h->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}
