/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ctrl-C, a timer, time; Winsock, which is needed before the library starts it.
 */
#include "system.h"

#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

static void (*on_stop)(void), (*on_alarm)(void);

static BOOL WINAPI ctrl(DWORD kind)
{
	on_stop();
	return TRUE;
}

static VOID CALLBACK timer(PVOID arg, BOOLEAN is_timeout)
{
	on_alarm();
}

void system_init(void)
{
	WSADATA wsa;

	/* Lines end as they do on the other side. */
	if (WSAStartup(MAKEWORD(2, 2), &wsa) != 0 || _setmode(_fileno(stdout), _O_BINARY) < 0 ||
	    _setmode(_fileno(stderr), _O_BINARY) < 0)
		abort();
}

void system_signals(void (*stop)(void), void (*reset)(void))
{
	on_stop = stop;
	if (!SetConsoleCtrlHandler(ctrl, TRUE))
		abort();
}

void system_alarm(unsigned seconds, void (*ring)(void))
{
	HANDLE t;

	on_alarm = ring;
	if (!CreateTimerQueueTimer(&t, NULL, timer, NULL, seconds * 1000, 0, WT_EXECUTEONLYONCE))
		abort();
}

int64_t now_ms(void)
{
	return (int64_t)GetTickCount64();
}

void nap_ms(unsigned ms)
{
	Sleep(ms);
}
