/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The demo's nodes as processes of Windows, in a job with their parent, so that they end with it. Their channels are
 * connections on loopback.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "demo.h"

static bool same_end(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* Two connected sockets. False: see tool_sock_error(). */
static bool pair(tool_sock out[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET}, from = at, mine = at;
	tool_sock l = tool_sock_open(AF_INET, SOCK_STREAM, false);
	int len = sizeof(at), from_len = sizeof(from), mine_len = sizeof(mine);
	bool ok;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	out[0] = tool_sock_open(AF_INET, SOCK_STREAM, false);
	out[1] = TOOL_NO_SOCK;
	ok = bind(l, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(l, 8) == 0 &&
	     getsockname(l, (struct sockaddr *)&at, &len) == 0 &&
	     connect(out[0], (struct sockaddr *)&at, sizeof(at)) == 0 &&
	     getsockname(out[0], (struct sockaddr *)&mine, &mine_len) == 0;
	/* Others may have connected as well. */
	while (ok && out[1] == TOOL_NO_SOCK) {
		out[1] = accept(l, (struct sockaddr *)&from, &from_len);
		ok = out[1] != TOOL_NO_SOCK;
		if (ok && !same_end(&from, &mine)) {
			tool_sock_close(out[1]);
			out[1] = TOOL_NO_SOCK;
		}
	}
	if (!ok) {
		int code = WSAGetLastError();

		tool_sock_close(out[0]);
		tool_sock_close(l);
		WSASetLastError(code);
		return false;
	}
	tool_sock_close(l);
	/* What accept() makes would be inherited. */
	if (SetHandleInformation((HANDLE)out[1], HANDLE_FLAG_INHERIT, 0))
		return true;
	tool_sock_close(out[0]);
	tool_sock_close(out[1]);
	return false;
}

/* This process and its nodes, which are born into it: all of them end when the last handle goes, which is with this process.
 * Where there can be no job in a job: a node whose channel has gone ends by itself, too. */
static void be_a_job(void)
{
	static HANDLE job;
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION limit = {0};

	if (job)
		return;
	job = CreateJobObjectA(NULL, NULL);
	limit.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
	if (job &&
	    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limit, sizeof(limit)))
		AssignProcessToJobObject(job, GetCurrentProcess());
}

/* The node gets its end of the channel through its standard input, from which demo_channel() reads it. Return: 0, or an
 * error of the system. */
static DWORD create(struct demo_process *p, tool_sock channel, const char *self, const char *peer)
{
	SECURITY_ATTRIBUTES inherit = {.nLength = sizeof(inherit), .bInheritHandle = TRUE};
	STARTUPINFOW start = {.cb = sizeof(start), .dwFlags = STARTF_USESTDHANDLES};
	static wchar_t exe[1 << 15]; /* the longest path there is */
	wchar_t line[128];
	HANDLE in, to = NULL;
	WSAPROTOCOL_INFOW info;
	PROCESS_INFORMATION q;
	DWORD err = 0, n;

	if (!GetModuleFileNameW(NULL, exe, sizeof(exe) / sizeof(exe[0])) ||
	    !CreatePipe(&in, &to, &inherit, 0))
		return GetLastError();
	start.hStdInput = in;
	start.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
	start.hStdError = GetStdHandle(STD_ERROR_HANDLE);
	swprintf(line, sizeof(line) / sizeof(line[0]), L"urds demo --node 0 %hs %hs", self, peer);
	if (!SetHandleInformation(to, HANDLE_FLAG_INHERIT, 0) ||
	    !CreateProcessW(exe, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &q)) {
		err = GetLastError();
		goto done;
	}
	p->handle = q.hProcess;
	p->pid = (int)q.dwProcessId;
	if (WSADuplicateSocketW(channel, q.dwProcessId, &info) != 0)
		err = (DWORD)WSAGetLastError();
	else if (!WriteFile(to, &info, sizeof(info), &n, NULL))
		err = GetLastError();
	CloseHandle(q.hThread);
done:
	CloseHandle(in);
	CloseHandle(to);
	return err;
}

/* A console sends Ctrl-C to all; the parent sees to it that this one ends, and says why. */
static BOOL WINAPI leave_to_parent(DWORD event)
{
	return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
}

tool_sock demo_channel(long long number)
{
	HANDLE in = GetStdHandle(STD_INPUT_HANDLE);
	WSAPROTOCOL_INFOW info;
	DWORD n;

	SetConsoleCtrlHandler(leave_to_parent, TRUE);
	if (!ReadFile(in, &info, sizeof(info), &n, NULL) || n != sizeof(info))
		return TOOL_NO_SOCK;
	return WSASocketW(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &info, 0,
			  WSA_FLAG_OVERLAPPED);
}

int demo_start(struct demo_process *p, const char *self, const char *peer)
{
	tool_sock ends[2];
	DWORD err;

	if (!pair(ends)) {
		tool_error("cannot make a control channel: %s", tool_strerror(tool_sock_error()));
		return -1;
	}
	be_a_job();
	err = create(p, ends[1], self, peer);
	if (err)
		tool_error("cannot start a process: error %lu", err);
	tool_sock_close(ends[1]);
	p->channel = ends[0];
	return err ? -1 : 0;
}

int demo_end(struct demo_process *p, uint64_t limit_ns, char *how, size_t cap)
{
	DWORD status = 0;
	int rc = 0;

	if (WaitForSingleObject(p->handle, (DWORD)(limit_ns / 1000000u)) != WAIT_OBJECT_0) {
		TerminateProcess(p->handle, TOOL_FAILED);
		WaitForSingleObject(p->handle, INFINITE);
		snprintf(how, cap, "did not end when told to");
		rc = -1;
	} else if (!GetExitCodeProcess(p->handle, &status) || status) {
		snprintf(how, cap, "ended with status %lu", status);
		rc = -1;
	}
	CloseHandle(p->handle);
	return rc;
}

static void CALLBACK too_long(void *arg, BOOLEAN timed_out)
{
	_exit(TOOL_FAILED);
}

void demo_last_resort(void)
{
	HANDLE t;

	/* The parent has a limit of its own; this is for one that is stuck. */
	if (!CreateTimerQueueTimer(&t, NULL, too_long, NULL, DEMO_LAST_RESORT_S * 1000, 0,
				   WT_EXECUTEONLYONCE))
		_exit(TOOL_FAILED);
}
