/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A completion port.
 */
#include "platform/poller.h"

#include <stdlib.h>

#include "platform/errno.h"
#include "platform/windows/win.h"

struct urds_poller {
	HANDLE port;
};

_Static_assert(sizeof(OVERLAPPED) == sizeof(((struct urds_poll_op *)0)->overlapped),
	       "urds_poll_op.overlapped");
_Static_assert(sizeof(OVERLAPPED_ENTRY) * URDS_POLL_BATCH ==
		       sizeof(((struct urds_poll_batch *)0)->event),
	       "a batch is an array of the system's");

static OVERLAPPED_ENTRY *entries_of(struct urds_poll_batch *b)
{
	return (OVERLAPPED_ENTRY *)(void *)b->event;
}

OVERLAPPED *urds_poll_overlapped(struct urds_poll_op *op)
{
	memset(op->overlapped, 0, sizeof(op->overlapped));
	return (OVERLAPPED *)(void *)op->overlapped;
}

int urds_poller_new(struct urds_poller **out)
{
	struct urds_poller *p = calloc(1, sizeof(*p));

	if (!p)
		return -URDS_ENOMEM;
	/* As many threads at once as there are: who waits is the runtime's business. */
	p->port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 0xffff);
	if (!p->port) {
		int rc = -urds_err_from_system(GetLastError());

		free(p);
		return rc;
	}
	*out = p;
	return 0;
}

void urds_poller_free(struct urds_poller *p)
{
	if (!p)
		return;
	CloseHandle(p->port);
	free(p);
}

int urds_poller_attach(struct urds_poller *p, intptr_t handle)
{
	return CreateIoCompletionPort((HANDLE)handle, p->port, 0, 0)
		       ? 0
		       : -urds_err_from_system(GetLastError());
}

int urds_poller_post(struct urds_poller *p, struct urds_poll_op *op, uint32_t bytes)
{
	return PostQueuedCompletionStatus(p->port, bytes, 0, urds_poll_overlapped(op))
		       ? 0
		       : -URDS_ENOMEM;
}

/* Rounded up: waking before the deadline would make the caller spin to it. */
static DWORD ms_of(urds_ns timeout_ns)
{
	urds_ns ms = timeout_ns / 1000000u + (timeout_ns % 1000000u != 0);

	if (timeout_ns == URDS_NEVER)
		return INFINITE;
	return ms < INFINITE ? (DWORD)ms : INFINITE - 1;
}

int urds_poller_fetch(struct urds_poller *p, urds_ns timeout_ns, struct urds_poll_batch *b)
{
	ULONG n = 0;

	b->poller = p;
	if (!GetQueuedCompletionStatusEx(p->port, entries_of(b), URDS_POLL_BATCH, &n,
					 ms_of(timeout_ns), FALSE)) {
		DWORD code = GetLastError();

		memset(b->event, 0, sizeof(b->event));
		return code == WAIT_TIMEOUT ? 0 : -urds_err_from_system(code);
	}
	if (n < URDS_POLL_BATCH)
		memset(&b->event[n], 0, (URDS_POLL_BATCH - n) * sizeof(b->event[0]));
	return (int)n;
}

/* The status in an OVERLAPPED is of the kernel's kind; this is what GetOverlappedResult() makes of it. */
static int error_of(OVERLAPPED *ov)
{
	static ULONG(WINAPI * convert)(LONG);
	LONG status = (LONG)ov->Internal;

	if (status >= 0)
		return 0;
	if (!convert) /* in every Windows; all threads find the same */
		convert = (ULONG(WINAPI *)(LONG))(void (*)(void))GetProcAddress(
			GetModuleHandleA("ntdll.dll"), "RtlNtStatusToDosError");
	return -urds_err_from_system(convert(status));
}

void urds_poller_dispatch(struct urds_poll_batch *b)
{
	OVERLAPPED_ENTRY *e = entries_of(b);

	for (int i = 0; i < URDS_POLL_BATCH && e[i].lpOverlapped; i++) {
		OVERLAPPED *ov = e[i].lpOverlapped;
		struct urds_poll_op *op =
			urds_container_of((void *)ov, struct urds_poll_op, overlapped);

		e[i].lpOverlapped = NULL;
		op->done(op, e[i].dwNumberOfBytesTransferred, error_of(ov));
	}
}

int urds_poller_wait(struct urds_poller *p, urds_ns timeout_ns)
{
	struct urds_poll_batch b;
	int n = urds_poller_fetch(p, timeout_ns, &b);

	if (n > 0)
		urds_poller_dispatch(&b);
	return n;
}

/* A completion port cannot be polled. */
intptr_t urds_poller_fd(const struct urds_poller *p)
{
	return -1;
}
