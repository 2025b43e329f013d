/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Names of ownership records on Windows, and asking an owner. A name is a mutex that exists, which is what makes it one
 * process's, and a pipe of the same name, which says whose. Both vanish with the process.
 */
#include "lib/record_pipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sddl.h>
#include <winternl.h>

#include "lib/record_codec.h"
#include "lib/record_link.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/ident.h"
#include "urds/owner.h"

#define NAME L"urds-owner-"
#define NAME_MAX_CHARS 128
#define BUFFER_BYTES 65536

const char urds_rec_look_at[] = "a list of mutexes (\\BaseNamedObjects\\urds-owner-ADDRESS)";
const char urds_rec_listed_in[] = "\\BaseNamedObjects";
const char urds_rec_needs[] = "named pipes are needed";

static void name_of(wchar_t *out, const wchar_t *where, const struct urds_addr *a)
{
	char text[URDS_ADDR_STRLEN + 16];
	size_t n;

	(void)urds_rec_text(text, sizeof(text), a);
	n = wcslen(where);
	memcpy(out, where, n * sizeof(*out));
	memcpy(out + n, NAME, sizeof(NAME));
	n += sizeof(NAME) / sizeof(wchar_t) - 1;
	for (size_t i = 0; i <= strlen(text); i++)
		out[n + i] = (unsigned char)text[i];
}

HANDLE urds_rec_pipe_new(const struct urds_addr *a, bool first)
{
	SECURITY_ATTRIBUTES sa = {.nLength = sizeof(sa)};
	wchar_t name[NAME_MAX_CHARS];
	HANDLE h = INVALID_HANDLE_VALUE;
	DWORD err;

	/* Others: reading and writing, not FILE_CREATE_PIPE_INSTANCE. */
	if (!ConvertStringSecurityDescriptorToSecurityDescriptorW(
		    L"D:P(A;;0x12019b;;;AU)(A;;GA;;;OW)(A;;GA;;;SY)", SDDL_REVISION_1,
		    &sa.lpSecurityDescriptor, NULL))
		return h;
	name_of(name, L"\\\\.\\pipe\\", a);
	h = CreateNamedPipeW(name,
			     PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED |
				     (first ? FILE_FLAG_FIRST_PIPE_INSTANCE : 0),
			     PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_REJECT_REMOTE_CLIENTS,
			     PIPE_UNLIMITED_INSTANCES, BUFFER_BYTES, BUFFER_BYTES, 0, &sa);
	err = GetLastError();
	LocalFree(sa.lpSecurityDescriptor);
	SetLastError(err);
	return h;
}

/* What another has made, and may not let us look at, is taken. */
static int in_use_or(DWORD err)
{
	return err == ERROR_ALREADY_EXISTS || err == ERROR_ACCESS_DENIED ||
			       err == ERROR_PIPE_BUSY || err == ERROR_INVALID_HANDLE
		       ? -URDS_EADDRINUSE
		       : -urds_err_from_system(err);
}

int urds_rec_listen(const struct urds_addr *a, struct urds_rec_name *out)
{
	wchar_t name[NAME_MAX_CHARS];
	HANDLE guard, pipe;
	int rc;

	name_of(name, L"Global\\", a);
	guard = CreateMutexW(NULL, FALSE, name);
	if (!guard)
		return in_use_or(GetLastError());
	if (GetLastError() == ERROR_ALREADY_EXISTS) {
		CloseHandle(guard);
		return -URDS_EADDRINUSE;
	}
	pipe = urds_rec_pipe_new(a, true);
	if (pipe == INVALID_HANDLE_VALUE) {
		rc = in_use_or(GetLastError());
		CloseHandle(guard);
		return rc;
	}
	*out = (struct urds_rec_name){(intptr_t)pipe, (intptr_t)guard};
	return 0;
}

/* ---------------------------------------------------------------- asking */

static DWORD ms_until(urds_ns end)
{
	urds_ns now = urds_clock_ns();

	return end > now ? (DWORD)((end - now) / URDS_MS(1)) + 1 : 0;
}

/* Not with the right that GENERIC_WRITE brings, to make further ends. The owner may learn who asks, and no more. */
static HANDLE open_pipe(const wchar_t *name)
{
	return CreateFileW(name,
			   FILE_READ_DATA | FILE_WRITE_DATA | FILE_READ_ATTRIBUTES |
				   FILE_WRITE_ATTRIBUTES | SYNCHRONIZE,
			   0, NULL, OPEN_EXISTING,
			   FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION,
			   NULL);
}

/* The pipe, or INVALID_HANDLE_VALUE and *err. */
static HANDLE connect_to(const struct urds_addr *a, urds_ns end, int *err)
{
	wchar_t name[NAME_MAX_CHARS];
	HANDLE h;
	DWORD code, ms;

	name_of(name, L"\\\\.\\pipe\\", a);
	for (;;) {
		h = open_pipe(name);
		if (h != INVALID_HANDLE_VALUE)
			return h;
		code = GetLastError();
		ms = ms_until(end);
		if (code == ERROR_PIPE_BUSY && ms > 0) {
			(void)WaitNamedPipeW(name, ms);
			continue;
		}
		*err = code == ERROR_PIPE_BUSY || code == ERROR_ACCESS_DENIED ? -URDS_ETIMEDOUT
		       : code == ERROR_FILE_NOT_FOUND			      ? -URDS_ENOTCONN
						      : -urds_err_from_system(code);
		return h;
	}
}

struct urds_rec_link {
	HANDLE pipe;
	OVERLAPPED rd, wr;
	bool is_reading; /* into @msg */
	uint8_t msg[URDS_REC_MSG_MAX];
};

int urds_rec_dial(const struct urds_addr *a, urds_ns end, struct urds_owner *who,
		  struct urds_rec_link **out)
{
	struct urds_rec_link *l = calloc(1, sizeof(*l));
	DWORD mode = PIPE_READMODE_MESSAGE;
	struct urds_ident server;
	ULONG pid = 0;
	int rc = -URDS_ENOMEM;

	memset(who, 0, sizeof(*who));
	if (!l)
		return rc;
	l->rd.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
	l->wr.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
	l->pipe = INVALID_HANDLE_VALUE;
	if (!l->rd.hEvent || !l->wr.hEvent)
		goto undo;
	l->pipe = connect_to(a, end, &rc);
	if (l->pipe == INVALID_HANDLE_VALUE)
		goto undo;
	if (!GetNamedPipeServerProcessId(l->pipe, &pid))
		pid = 0;
	who->is_ours = urds_ident_of((uint32_t)pid, &server);
	who->pid = (int)pid;
	snprintf(who->user, sizeof(who->user), "%s", server.user);
	snprintf(who->program, sizeof(who->program), "%.63s", server.exe);
	rc = -URDS_ENOTCONN; /* it went meanwhile */
	if (!SetNamedPipeHandleState(l->pipe, &mode, NULL, NULL))
		goto undo;
	*out = l;
	return 0;

undo:
	urds_rec_hang_up(l);
	return rc;
}

void urds_rec_hang_up(struct urds_rec_link *l)
{
	DWORD n;

	if (l->is_reading) {
		CancelIoEx(l->pipe, &l->rd);
		(void)GetOverlappedResult(l->pipe, &l->rd, &n, TRUE);
	}
	if (l->pipe != INVALID_HANDLE_VALUE)
		CloseHandle(l->pipe);
	if (l->rd.hEvent)
		CloseHandle(l->rd.hEvent);
	if (l->wr.hEvent)
		CloseHandle(l->wr.hEvent);
	free(l);
}

static int error_of(DWORD code)
{
	if (code == ERROR_OPERATION_ABORTED)
		return -URDS_ETIMEDOUT;
	if (code == ERROR_MORE_DATA)
		return -URDS_EPROTO;
	if (code == ERROR_BROKEN_PIPE || code == ERROR_NO_DATA || code == ERROR_PIPE_NOT_CONNECTED)
		return -URDS_ENOTCONN;
	return -urds_err_from_system(code);
}

int urds_rec_send(struct urds_rec_link *l, const uint8_t *p, size_t len, urds_ns end)
{
	DWORD n;

	if (!WriteFile(l->pipe, p, (DWORD)len, NULL, &l->wr) && GetLastError() != ERROR_IO_PENDING)
		return error_of(GetLastError());
	if (WaitForSingleObject(l->wr.hEvent, ms_until(end)) != WAIT_OBJECT_0)
		CancelIoEx(l->pipe, &l->wr);
	return GetOverlappedResult(l->pipe, &l->wr, &n, TRUE) ? 0 : error_of(GetLastError());
}

/* Waits for a message, or for the end. Return: 1, 0 after the time, or negative. */
static int await(struct urds_rec_link *l, DWORD ms)
{
	if (!l->is_reading) {
		if (!ReadFile(l->pipe, l->msg, sizeof(l->msg), NULL, &l->rd) &&
		    GetLastError() != ERROR_IO_PENDING && GetLastError() != ERROR_MORE_DATA)
			return error_of(GetLastError());
		l->is_reading = true;
	}
	return WaitForSingleObject(l->rd.hEvent, ms) == WAIT_OBJECT_0;
}

int urds_rec_recv(struct urds_rec_link *l, uint8_t *p, size_t cap, urds_ns end)
{
	int rc = await(l, ms_until(end));
	DWORD n;

	if (rc <= 0)
		return rc < 0 ? rc : -URDS_ETIMEDOUT;
	l->is_reading = false;
	if (!GetOverlappedResult(l->pipe, &l->rd, &n, TRUE))
		return error_of(GetLastError());
	if (n > cap)
		return -URDS_EPROTO;
	memcpy(p, l->msg, n);
	return (int)n;
}

/* An end is something to receive too. */
int urds_rec_wait(struct urds_rec_link *l, int timeout_ms)
{
	int rc = await(l, timeout_ms < 0 ? INFINITE : (DWORD)timeout_ms);

	return rc < 0 ? 1 : rc;
}

/* ---------------------------------------------------------------- finding */

/* Both documented, and in no import library. */
typedef NTSTATUS(NTAPI *open_directory_fn)(HANDLE *, ACCESS_MASK, OBJECT_ATTRIBUTES *);
typedef NTSTATUS(NTAPI *query_directory_fn)(HANDLE, void *, ULONG, BOOLEAN, BOOLEAN, ULONG *,
					    ULONG *);
struct entry {
	UNICODE_STRING name, type;
};

#define DIRECTORY_MAY_QUERY 1

static FARPROC in_ntdll(const char *name)
{
	return GetProcAddress(GetModuleHandleA("ntdll.dll"), name);
}

/* Of an owner: what follows the prefix, as text. */
static bool owner_in(const struct entry *e, char *text, size_t size)
{
	size_t skip = sizeof(NAME) / sizeof(wchar_t) - 1, n = e->name.Length / sizeof(wchar_t);

	if (n <= skip || n - skip >= size || memcmp(e->name.Buffer, NAME, skip * sizeof(wchar_t)))
		return false;
	for (size_t i = skip; i < n; i++)
		text[i - skip] = (char)(e->name.Buffer[i] < 128 ? e->name.Buffer[i] : '?');
	text[n - skip] = '\0';
	return true;
}

int urds_rec_find(struct urds_addr **out, size_t *n)
{
	open_directory_fn open =
		(open_directory_fn)(void (*)(void))in_ntdll("NtOpenDirectoryObject");
	query_directory_fn query =
		(query_directory_fn)(void (*)(void))in_ntdll("NtQueryDirectoryObject");
	wchar_t where[] = L"\\BaseNamedObjects";
	UNICODE_STRING name = {sizeof(where) - sizeof(wchar_t), sizeof(where), where};
	OBJECT_ATTRIBUTES at = {.Length = sizeof(at), .ObjectName = &name};
	char text[URDS_ADDR_STRLEN + 16];
	union {
		struct entry e;
		char room[4096];
	} one;
	ULONG context = 0, len;
	HANDLE dir;
	int rc = 0;

	*out = NULL;
	*n = 0;
	if (!open || !query || open(&dir, DIRECTORY_MAY_QUERY, &at) < 0)
		return -URDS_EACCES;
	for (BOOLEAN first = TRUE; rc == 0 && *n < URDS_REC_OWNERS_MAX; first = FALSE) {
		/* Ends with STATUS_NO_MORE_ENTRIES, which is positive. */
		if (query(dir, &one, sizeof(one), TRUE, first, &context, &len) != 0)
			break;
		if (owner_in(&one.e, text, sizeof(text)))
			rc = urds_rec_found(out, n, text);
	}
	CloseHandle(dir);
	return rc;
}
