/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/posix/fds.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "platform/lock.h"
#include "platform/posix/nocancel.h"

/* More than a process can have unless the system's limit (fs.nr_open) was raised. Untouched, it costs no memory. */
#define FDS_MAX (1 << 20)

static struct urds_lock lock;
static uint64_t ours[FDS_MAX / 64];
static int top; /* none of ours is as high */

static void set(int fd, bool is_ours)
{
	uint64_t bit = 1ull << (fd % 64);

	if (fd >= FDS_MAX)
		return; /* a child of such a process keeps it */
	if (is_ours)
		ours[fd / 64] |= bit;
	else
		ours[fd / 64] &= ~bit;
	if (is_ours && fd >= top)
		top = fd + 1;
}

void urds_fds_enter(void) URDS_UNCHECKED
{
	urds_lock_acquire(&lock);
}

void urds_fds_made_all(const int *fds, size_t n) URDS_UNCHECKED
{
	int err = errno;

	for (size_t i = 0; i < n; i++)
		set(fds[i], true);
	urds_lock_release(&lock);
	errno = err;
}

int urds_fds_made(int fd)
{
	urds_fds_made_all(&fd, fd >= 0);
	return fd;
}

void urds_fds_close(int fd)
{
	int err = errno;

	if (fd < 0)
		return;
	urds_lock_acquire(&lock);
	set(fd, false);
	(void)urds_sys_close(fd);
	urds_lock_release(&lock);
	errno = err;
}

void urds_fds_fork(enum urds_fork stage) URDS_UNCHECKED
{
	switch (stage) {
	case URDS_FORK_PREPARE:
		urds_lock_acquire(&lock);
		return;
	case URDS_FORK_CHILD:
		for (int i = 0; i < top; i += 64)
			for (; ours[i / 64]; ours[i / 64] &= ours[i / 64] - 1)
				(void)urds_sys_close(i + __builtin_ctzll(ours[i / 64]));
		top = 0;
		break;
	case URDS_FORK_PARENT:
		break;
	}
	urds_lock_release(&lock);
}
