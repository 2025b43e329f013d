/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * AF_UNIX, with packets.
 */
#include "platform/pair.h"

#include <errno.h>
#include <sys/socket.h>

#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"

int urds_pair_new(intptr_t fds[2])
{
	int pair[2], small = 1, rc;

	urds_fds_enter();
	rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);
	urds_fds_made_all(pair, rc < 0 ? 0 : 2);
	if (rc < 0)
		return -urds_err_from_errno(errno);
	/* Few writes fill it. */
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
	fds[0] = pair[0];
	fds[1] = pair[1];
	return 0;
}

bool urds_pair_put(const intptr_t fds[2])
{
	char c = 0;

	return urds_sys_send((int)fds[1], &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

bool urds_pair_take(const intptr_t fds[2])
{
	char c;

	return urds_sys_recv((int)fds[0], &c, 1, MSG_DONTWAIT) != 1;
}

void urds_pair_fill(const intptr_t fds[2])
{
	static const char fill[1024];

	while (urds_sys_send((int)fds[0], fill, sizeof fill, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
}

void urds_pair_drain(const intptr_t fds[2])
{
	char fill[1024];

	while (urds_sys_recv((int)fds[1], fill, sizeof fill, MSG_DONTWAIT) > 0)
		;
}

void urds_pair_again_in(const intptr_t fds[2])
{
	if (urds_pair_put(fds))
		(void)urds_pair_take(fds); /* one is left */
}

void urds_pair_again_out(const intptr_t fds[2])
{
	char c = 0;

	/* Taking it out is what tells of room. */
	if (urds_sys_send((int)fds[0], &c, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		(void)urds_sys_recv((int)fds[1], &c, 1, MSG_DONTWAIT);
}

void urds_pair_shut(const intptr_t fds[2])
{
	shutdown((int)fds[0], SHUT_RDWR);
}

void urds_pair_close(const intptr_t fds[2])
{
	urds_fds_close((int)fds[0]);
	urds_fds_close((int)fds[1]);
}
