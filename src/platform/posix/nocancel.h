/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * System calls that are no cancellation points. The engine runs in its callers' threads and holds locks and roles
 * around calls that do not block: a pthread_cancel() that took effect in one of them would leave those held
 * for ever. It may take effect in the waits only, where nothing is held.
 */
#ifndef URDS_PLATFORM_POSIX_NOCANCEL_H
#define URDS_PLATFORM_POSIX_NOCANCEL_H

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline ssize_t urds_sys_send(int fd, const void *p, size_t len, int flags)
{
	return syscall(SYS_sendto, fd, p, len, flags, NULL, 0);
}

static inline ssize_t urds_sys_recv(int fd, void *p, size_t len, int flags)
{
	return syscall(SYS_recvfrom, fd, p, len, flags, NULL, NULL);
}

static inline ssize_t urds_sys_write(int fd, const void *p, size_t len)
{
	return syscall(SYS_write, fd, p, len);
}

static inline ssize_t urds_sys_read(int fd, void *p, size_t len)
{
	return syscall(SYS_read, fd, p, len);
}

static inline int urds_sys_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	return (int)syscall(SYS_connect, fd, to, len);
}

static inline int urds_sys_accept(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	return (int)syscall(SYS_accept4, fd, from, len, flags);
}

static inline int urds_sys_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags);
}

static inline int urds_sys_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

#endif
