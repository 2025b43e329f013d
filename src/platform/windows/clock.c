/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/clock.h"

#include "platform/thread.h"
#include "platform/windows/win.h"

/* 100 ns from 1601 to 1970 */
#define EPOCH 116444736000000000ull

static struct urds_once once;
static uint64_t frequency; /* never changes while the system runs */
static VOID(WINAPI *precise)(LPFILETIME);

static void find(void)
{
	LARGE_INTEGER f;

	QueryPerformanceFrequency(&f);
	frequency = (uint64_t)f.QuadPart;
	precise = (VOID(WINAPI *)(LPFILETIME))(void (*)(void))urds_win_newer(
		"kernel32.dll", "GetSystemTimePreciseAsFileTime");
}

urds_ns urds_clock_ns(void)
{
	LARGE_INTEGER t;
	uint64_t now;

	urds_once(&once, find);
	QueryPerformanceCounter(&t);
	/* In two steps: ticks times 10^9 would overflow after half an hour at 10 MHz. */
	now = (uint64_t)t.QuadPart / frequency * 1000000000u +
	      (uint64_t)t.QuadPart % frequency * 1000000000u / frequency;
	return now != 0 ? now : 1;
}

/* GetTickCount64() has another zero than the counter: nothing cheaper shows the same time. */
urds_ns urds_clock_coarse_ns(void)
{
	return urds_clock_ns();
}

uint64_t urds_wall_ns(void)
{
	FILETIME ft;

	urds_once(&once, find);
	if (precise)
		precise(&ft);
	else
		GetSystemTimeAsFileTime(&ft);
	return (((uint64_t)ft.dwHighDateTime << 32 | ft.dwLowDateTime) - EPOCH) * 100u;
}
