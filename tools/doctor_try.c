/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A TCP connection to a peer's RDS port, and what comes of it without a word of ours: to an RDS node with the smaller
 * address this is a knock, which it closes; one with the larger address keeps the place of a path for it until we close.
 */
#include "doctor.h"

#include <errno.h>

/* An RDS node that does not want the connection closes it at once. */
#define LISTEN_NS 1500000000u

/* Return: 1 it is ready, 0 not in time, or -1 and errno. */
static int wait_for(tool_sock fd, short events, uint64_t until_ns)
{
	struct pollfd p = {.fd = fd, .events = events};
	uint64_t now;

	while ((now = tool_now_ns()) < until_ns) {
		int n = tool_poll(&p, 1, until_ns - now + 1000000u);

		if (n != 0)
			return n;
	}
	return 0;
}

static enum doctor_try by_errno(int err)
{
	switch (err) {
	case ENETUNREACH:
	case EHOSTUNREACH:
	case ENETDOWN:
#ifdef EHOSTDOWN
	case EHOSTDOWN:
#endif
		return DOCTOR_TRY_NO_ROUTE;
	case ETIMEDOUT:
	case EACCES: /* this host's own filter */
	case EPERM:
		return DOCTOR_TRY_NO_ANSWER;
	case ECONNREFUSED:
		return DOCTOR_TRY_REFUSED;
	case ECONNRESET:
		return DOCTOR_TRY_CLOSED;
	default:
		errno = err;
		return DOCTOR_TRY_ERROR;
	}
}

static enum doctor_try connected(tool_sock fd, int *err)
{
	char byte;
	ssize_t n = wait_for(fd, POLLIN, tool_now_ns() + LISTEN_NS);

	*err = n < 0 ? errno : 0;
	if (n <= 0)
		return n < 0 ? DOCTOR_TRY_ERROR : DOCTOR_TRY_MUTE;
	n = recv(fd, &byte, 1, 0); /* non-blocking */
	return n > 0 ? DOCTOR_TRY_TALKS : DOCTOR_TRY_CLOSED;
}

enum doctor_try doctor_try(const struct tool_addr *src, const struct tool_addr *dest,
			   uint64_t limit_ns)
{
	tool_sock fd = tool_sock_open(dest->sa.ss_family, SOCK_STREAM, true);
	int err = 0, n;
	struct tool_addr from = *src, to = *dest;
	enum doctor_try what;

	if (fd == TOOL_NO_SOCK) {
		errno = tool_sock_error();
		return DOCTOR_TRY_ERROR;
	}
	tool_port_set(&from, 0);
	tool_port_set(&to, DOCTOR_PORT);
	if (bind(fd, tool_sa(&from), from.len) < 0) {
		what = DOCTOR_TRY_ERROR;
		err = tool_sock_error();
	} else if (connect(fd, tool_sa(&to), to.len) < 0 &&
		   (err = tool_sock_error()) != EINPROGRESS) {
		what = by_errno(err);
	} else if ((n = wait_for(fd, POLLOUT, tool_now_ns() + limit_ns)) <= 0) {
		err = n < 0 ? errno : 0;
		what = n < 0 ? DOCTOR_TRY_ERROR : DOCTOR_TRY_NO_ANSWER;
	} else if ((err = tool_sock_pending(fd)) != 0) {
		what = by_errno(err);
	} else {
		what = connected(fd, &err);
	}
	tool_sock_close(fd);
	errno = err;
	return what;
}
