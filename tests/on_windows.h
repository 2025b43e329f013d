/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What tests of the running engine take from POSIX, as far as Windows can do it.
 */
#ifndef URDS_TESTS_ON_WINDOWS_H
#define URDS_TESTS_ON_WINDOWS_H

/* The engine's own way to include Winsock. */
#include "platform/net.h"

#include <process.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Flags that no call of ours knows. */
#define MSG_CONFIRM 0x800
#define MSG_EOR 0x80
#define MSG_NOSIGNAL 0x4000

#define CMSG_FIRSTHDR(m) ((struct cmsghdr *)(m)->msg_control)
#define pthread_tryjoin_np _pthread_tryjoin

/* Not for programs that are started from here. */
static inline bool is_cloexec(int fd)
{
	DWORD flags = HANDLE_FLAG_INHERIT;

	return GetHandleInformation((HANDLE)(intptr_t)fd, &flags) && !(flags & HANDLE_FLAG_INHERIT);
}

static inline int poll(struct pollfd *v, unsigned long n, int timeout_ms)
{
	int rc = WSAPoll(v, n, timeout_ms);

	/* POLLIN is two bits there, and one of them comes back. */
	for (unsigned long i = 0; rc > 0 && i < n; i++)
		if (v[i].revents & POLLIN)
			v[i].revents |= POLLIN;
	return rc;
}

#define close_socket closesocket

static inline VOID CALLBACK alarm_rings_(PVOID arg, BOOLEAN timed_out)
{
	printf("# no end\n");
	fflush(stdout);
	_exit(1);
}

/* Ends a test that hangs. */
static inline unsigned alarm(unsigned s)
{
	HANDLE t;

	if (!CreateTimerQueueTimer(&t, NULL, alarm_rings_, NULL, s * 1000, 0, WT_EXECUTEONLYONCE))
		abort();
	return 0;
}

/* There are no namespaces, so programs that listen take turns, each with the programs that it starts, until it ends. Winsock
 * is needed before the library is. */
static inline bool own_network(void)
{
	WSADATA wsa;

	if (!getenv("URDS_TEST_TURN")) {
		HANDLE turn = CreateMutexA(NULL, FALSE, "urds-tests");
		DWORD rc = turn ? WaitForSingleObject(turn, INFINITE) : WAIT_FAILED;

		if ((rc != WAIT_OBJECT_0 && rc != WAIT_ABANDONED) ||
		    _putenv("URDS_TEST_TURN=1") != 0)
			abort();
	}
	if (WSAStartup(MAKEWORD(2, 2), &wsa) != 0)
		abort();
	return false;
}

#endif
