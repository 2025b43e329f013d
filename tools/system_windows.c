/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The system is Windows.
 */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char tool_lists_addresses[] = "ipconfig";

/* Winsock is started for the sockets of ours; the library does that for its own. */
void tool_system_init(void)
{
	WSADATA wsa;
	int err = WSAStartup(MAKEWORD(2, 2), &wsa);

	if (err) {
		fprintf(stderr, "urds: cannot start Winsock: error %d\n", err);
		exit(1);
	}
}

const char *tool_base_name(char *buf, size_t cap, const char *argv0)
{
	const char *begin = argv0;
	size_t n;

	for (const char *p = argv0; *p; p++)
		if (*p == '\\' || *p == '/' || *p == ':')
			begin = p + 1;
	n = strlen(begin);
	if (n > 4 && _stricmp(begin + n - 4, ".exe") == 0)
		n -= 4;
	snprintf(buf, cap, "%.*s", (int)n, begin);
	return buf;
}

static HANDLE end;
static bool is_first_only;

/* In a thread of its own. */
static BOOL WINAPI on_end(DWORD event)
{
	if (is_first_only && tool_ends_noted())
		TerminateProcess(GetCurrentProcess(), (UINT)CONTROL_C_EXIT);
	SetEvent(end);
	/* After the return of any other than these the process ends at once. */
	if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
		Sleep(INFINITE);
	return TRUE;
}

void tool_ends_block(void)
{
	end = CreateEventA(NULL, TRUE, FALSE, NULL);
	if (!end || !SetConsoleCtrlHandler(on_end, TRUE)) {
		fprintf(stderr, "urds: cannot learn when to end: error %lu\n", GetLastError());
		exit(1);
	}
}

void tool_ends_wait(void)
{
	WaitForSingleObject(end, INFINITE);
}

void tool_ends_note(void)
{
	tool_ends_block();
}

void tool_ends_note_first(void)
{
	is_first_only = true;
	tool_ends_block();
}

bool tool_ends_noted(void)
{
	return WaitForSingleObject(end, 0) == WAIT_OBJECT_0;
}

/* Consoles before Windows 10 do not. */
bool tool_is_terminal(void)
{
	HANDLE out = GetStdHandle(STD_OUTPUT_HANDLE);
	DWORD mode;

	return GetConsoleMode(out, &mode) &&
	       SetConsoleMode(out, mode | 4 /* ENABLE_VIRTUAL_TERMINAL_PROCESSING */);
}

void tool_out_lock(void)
{
	_lock_file(stdout);
}

void tool_out_unlock(void)
{
	_unlock_file(stdout);
}

int tool_thread_id(void)
{
	return (int)GetCurrentThreadId();
}

unsigned tool_page_bytes(void)
{
	SYSTEM_INFO info;

	GetSystemInfo(&info);
	return info.dwPageSize;
}

void tool_unset_env(const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "%s=", name);
	_putenv(text);
}

void tool_ignore_broken_pipes(void)
{
}

/* Numbers that the C library has no words for. */
static const struct {
	int err, code;
	const char *text;
} errors[] = {
	{EADDRINUSE, WSAEADDRINUSE, "Address already in use"},
	{EADDRNOTAVAIL, WSAEADDRNOTAVAIL, "Cannot assign requested address"},
	{EAFNOSUPPORT, WSAEAFNOSUPPORT, "Address family not supported"},
	{ECANCELED, WSA_OPERATION_ABORTED, "Operation canceled"},
	{ECONNABORTED, WSAECONNABORTED, "Connection aborted"},
	{ECONNREFUSED, WSAECONNREFUSED, "Connection refused"},
	{ECONNRESET, WSAECONNRESET, "Connection reset by peer"},
	{EDESTADDRREQ, WSAEDESTADDRREQ, "Destination address required"},
	{EHOSTUNREACH, WSAEHOSTUNREACH, "No route to host"},
	{EINPROGRESS, WSAEWOULDBLOCK, "Operation now in progress"},
	{EMSGSIZE, WSAEMSGSIZE, "Message too long"},
	{ENETDOWN, WSAENETDOWN, "Network is down"},
	{ENETUNREACH, WSAENETUNREACH, "Network is unreachable"},
	{ENOBUFS, WSAENOBUFS, "No buffer space available"},
	{ENOPROTOOPT, WSAENOPROTOOPT, "Protocol not available"},
	{ENOTCONN, WSAENOTCONN, "Not connected"},
	{EOPNOTSUPP, WSAEOPNOTSUPP, "Operation not supported"},
	{EPROTO, 0, "Protocol error"},
	{EPROTOTYPE, WSAEPROTOTYPE, "Wrong type for the protocol"},
	{ETIMEDOUT, WSAETIMEDOUT, "Connection timed out"},
	{EWOULDBLOCK, 0, "Operation would block"},
	/* These it has. */
	{EACCES, WSAEACCES, NULL},
	{EINVAL, WSAEINVAL, NULL},
	{EMFILE, WSAEMFILE, NULL},
	{EINTR, WSAEINTR, NULL},
	{EHOSTUNREACH, WSAEHOSTDOWN, NULL},
};

#define ERRORS (sizeof(errors) / sizeof(errors[0]))

const char *tool_strerror(int err)
{
	for (size_t i = 0; i < ERRORS; i++)
		if (errors[i].err == err && errors[i].text)
			return errors[i].text;
	return strerror(err);
}

const char *tool_gai_error(int rc)
{
	switch (rc) {
	case EAI_NONAME:
		return "Name or service not known";
	case EAI_AGAIN:
		return "Temporary failure in name resolution";
	case EAI_FAMILY:
		return "Address family not supported";
	default:
		return gai_strerrorA(rc);
	}
}

uint64_t tool_now_ns(void)
{
	LARGE_INTEGER f, n;

	QueryPerformanceFrequency(&f);
	QueryPerformanceCounter(&n);
	return (uint64_t)(n.QuadPart / f.QuadPart) * 1000000000u +
	       (uint64_t)(n.QuadPart % f.QuadPart) * 1000000000u / (uint64_t)f.QuadPart;
}

/* FILETIME counts 100 ns from 1601. */
uint64_t tool_date_ns(void)
{
	FILETIME t;

	GetSystemTimeAsFileTime(&t);
	return ((((uint64_t)t.dwHighDateTime << 32) | t.dwLowDateTime) - 116444736000000000u) *
	       100u;
}

bool tool_local_time(time_t t, struct tm *out)
{
	return localtime_s(out, &t) == 0;
}

void tool_bytes(void)
{
	_setmode(_fileno(stdin), _O_BINARY);
	_setmode(_fileno(stdout), _O_BINARY);
}

ssize_t tool_read(void *buf, size_t len)
{
	return _read(_fileno(stdin), buf, len > INT_MAX ? INT_MAX : (unsigned)len);
}

ssize_t tool_write(const void *buf, size_t len)
{
	return _write(_fileno(stdout), buf, len > INT_MAX ? INT_MAX : (unsigned)len);
}

/* Takes @s. Return: it, or INVALID_SOCKET. */
static SOCKET nonblocking(SOCKET s)
{
	u_long on = 1;

	if (s == INVALID_SOCKET || ioctlsocket(s, (long)FIONBIO, &on) == 0)
		return s;
	closesocket(s);
	return INVALID_SOCKET;
}

tool_sock tool_sock_open(int family, int type, bool is_nonblocking)
{
	SOCKET s = WSASocketW(family, type, 0, NULL, 0,
			      WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);

	return is_nonblocking ? nonblocking(s) : s;
}

tool_sock tool_sock_accept(tool_sock listener, struct sockaddr_in *from)
{
	int len = sizeof(*from);
	SOCKET s = accept(listener, (struct sockaddr *)from, &len);

	if (s != INVALID_SOCKET)
		SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
	return nonblocking(s);
}

void tool_sock_close(tool_sock s)
{
	closesocket(s);
}

ssize_t tool_sock_send(tool_sock s, const void *buf, size_t len)
{
	return send(s, buf, (int)(len > INT_MAX ? INT_MAX : len), 0);
}

static int errno_of(int code)
{
	for (size_t i = 0; i < ERRORS; i++)
		if (errors[i].code && errors[i].code == code)
			return errors[i].err;
	return EIO;
}

int tool_sock_error(void)
{
	return errno_of(WSAGetLastError());
}

bool tool_sock_would_wait(void)
{
	return WSAGetLastError() == WSAEWOULDBLOCK;
}

int tool_sock_pending(tool_sock s)
{
	socklen_t len = sizeof(int);
	int code;

	if (getsockopt(s, SOL_SOCKET, SO_ERROR, (char *)&code, &len) != 0)
		return tool_sock_error();
	return code ? errno_of(code) : 0;
}

/* Nothing is asked for: an address is free again when its socket is closed. */
int tool_sock_bind_again(tool_sock s, const struct sockaddr *sa, socklen_t len)
{
	return bind(s, sa, len) != 0 ? tool_sock_error() : 0;
}

/* By select(), for WSAPoll() of older releases says nothing of a connection that has failed. */
int tool_poll(struct pollfd *v, unsigned n, uint64_t timeout_ns)
{
	uint64_t us = timeout_ns / 1000u + 1, max = 1000000000000u;
	struct timeval limit;
	fd_set in, out, failed;
	unsigned count = 0;
	int rc;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&failed);
	for (unsigned i = 0; i < n; i++) {
		v[i].revents = 0;
		if ((intptr_t)v[i].fd < 0)
			continue;
		if (++count > FD_SETSIZE) {
			errno = EINVAL;
			return -1;
		}
		if (v[i].events & POLLIN)
			FD_SET(v[i].fd, &in);
		if (v[i].events & POLLOUT)
			FD_SET(v[i].fd, &out);
		FD_SET(v[i].fd, &failed);
	}
	us = us > max ? max : us;
	if (!count) {
		Sleep((DWORD)(us / 1000u > INT_MAX ? INT_MAX : us / 1000u));
		return 0;
	}
	limit = (struct timeval){(long)(us / 1000000u), (long)(us % 1000000u)};
	rc = select(0, &in, &out, &failed, &limit);
	if (rc < 0) {
		errno = tool_sock_error();
		return -1;
	}
	rc = 0;
	for (unsigned i = 0; i < n; i++) {
		if ((intptr_t)v[i].fd < 0)
			continue;
		v[i].revents = (short)((FD_ISSET(v[i].fd, &in) ? POLLIN : 0) |
				       (FD_ISSET(v[i].fd, &out) ? POLLOUT : 0) |
				       (FD_ISSET(v[i].fd, &failed) ? POLLERR : 0));
		rc += v[i].revents != 0;
	}
	return rc;
}
