/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/textout.h"

#include <errno.h>
#include <poll.h>

#include "platform/errno.h"
#include "platform/posix/nocancel.h"

int urds_textout_open(const char *path)
{
	int fd =
		open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);

	return fd < 0 ? -urds_err_from_errno(errno) : fd;
}

void urds_textout_close(int out)
{
	(void)urds_sys_close(out);
}

bool urds_textout(int out, const char *text, size_t len)
{
	/* A pipe that is writable takes PIPE_BUF bytes at once. */
	struct pollfd p = {.fd = out, .events = POLLOUT};
	const struct timespec now = {0};
	int saved = errno;
	bool ok;

	ok = syscall(SYS_ppoll, &p, 1, &now, NULL, 0) == 1 &&
	     (p.revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL)) == POLLOUT &&
	     urds_sys_write(out, text, len) == (ssize_t)len;
	errno = saved;
	return ok;
}
