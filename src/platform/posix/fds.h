/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every descriptor of the library in this process (but files that are read at once), so that a fork child can close what it inherited: kept open
 * there, a listener would swallow the parent's connections and a name would outlive its owner. A fork must not
 * come between a descriptor and its entry here, so it is made and closed under one process-wide lock:
 *
 *	urds_fds_enter();
 *	fd = urds_fds_made(socket(...));
 *
 * The call between the two must not block. Thread-safe; nothing here is a cancellation point.
 */
#ifndef URDS_PLATFORM_POSIX_FDS_H
#define URDS_PLATFORM_POSIX_FDS_H

#include <stddef.h>

#include "platform/process.h"

void urds_fds_enter(void);
/* Return: @fd, with errno as it was. Enters it, if it is one, and leaves. */
int urds_fds_made(int fd);
/* As above for several; with @n 0 it only leaves. */
void urds_fds_made_all(const int *fds, size_t n);
/* Ignores -1. errno is kept. */
void urds_fds_close(int fd);

#endif
