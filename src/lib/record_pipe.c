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

/* The pipe, or INVALID_HANDLE_VALUE with *err: 0 if there is one and it is too busy, or not for us. */
static HANDLE dial(const struct urds_addr *a, urds_ns end, int *err)
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
		*err = code == ERROR_PIPE_BUSY || code == ERROR_ACCESS_DENIED ? 0
		       : code == ERROR_FILE_NOT_FOUND			      ? -URDS_ENOTCONN
						      : -urds_err_from_system(code);
		return h;
	}
}

/* One operation that was started with @ov, and @ok what that returned. Return: bytes, or a negative urds_err. */
static int finish(HANDLE h, OVERLAPPED *ov, BOOL ok, urds_ns end)
{
	DWORD n = 0, code = ok ? 0 : GetLastError();

	if (ok || code == ERROR_IO_PENDING) {
		if (!ok && WaitForSingleObject(ov->hEvent, ms_until(end)) != WAIT_OBJECT_0)
			CancelIo(h);
		code = GetOverlappedResult(h, ov, &n, TRUE) ? 0 : GetLastError();
	}
	if (code == ERROR_OPERATION_ABORTED)
		return -URDS_ETIMEDOUT;
	if (code == ERROR_BROKEN_PIPE || code == ERROR_NO_DATA || code == ERROR_PIPE_NOT_CONNECTED)
		return -URDS_ENOTCONN;
	return code ? -urds_err_from_system(code) : (int)n;
}

static int ident(HANDLE h, urds_ns end, struct urds_owner *out)
{
	DWORD mode = PIPE_READMODE_MESSAGE;
	uint8_t msg[URDS_REC_HDR_LEN + 512];
	OVERLAPPED ov = {.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL)};
	int n = urds_rec_empty_put(msg, sizeof(msg), URDS_REC_IDENT, 0);

	if (!ov.hEvent)
		return -URDS_ENOMEM;
	if (!SetNamedPipeHandleState(h, &mode, NULL, NULL))
		n = -URDS_ENOTCONN;
	else
		n = finish(h, &ov, WriteFile(h, msg, (DWORD)n, NULL, &ov), end);
	if (n >= 0)
		n = finish(h, &ov, ReadFile(h, msg, sizeof(msg), NULL, &ov), end);
	CloseHandle(ov.hEvent);
	return n < 0 ? n : urds_rec_ident_read(out, msg, (size_t)n);
}

int urds_rec_ask(const struct urds_addr *a, urds_ns end, struct urds_owner *out)
{
	struct urds_ident who;
	ULONG pid = 0;
	HANDLE h;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	h = dial(a, end, &rc);
	if (h == INVALID_HANDLE_VALUE) {
		snprintf(out->user, sizeof(out->user), "?");
		snprintf(out->program, sizeof(out->program), "?");
		return rc;
	}
	if (!GetNamedPipeServerProcessId(h, &pid))
		pid = 0;
	out->is_ours = urds_ident_of((uint32_t)pid, &who);
	out->pid = (int)pid;
	snprintf(out->user, sizeof(out->user), "%s", who.user);
	snprintf(out->program, sizeof(out->program), "%.63s", who.exe);
	rc = ident(h, end, out);
	CloseHandle(h);
	return rc == -URDS_ENOTCONN ? rc : 0;
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
