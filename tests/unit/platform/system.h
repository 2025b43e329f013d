/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a program has to do on some system before the platform's functions work.
 */
#ifndef URDS_TESTS_PLATFORM_SYSTEM_H
#define URDS_TESTS_PLATFORM_SYSTEM_H

#ifdef _WIN32
#include <stdlib.h>

#include "platform/windows/win.h"

/* URDS_TEST_OLD_WINDOWS: everything newer than Windows 7 is done without. */
static inline void system_init(void)
{
	WSADATA wsa;

	if (WSAStartup(MAKEWORD(2, 2), &wsa) != 0)
		abort();
	if (getenv("URDS_TEST_OLD_WINDOWS"))
		urds_win_pretend_old();
}
#else
static inline void system_init(void)
{
}
#endif

#endif
