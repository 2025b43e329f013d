/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of this folder share: calls newer than Windows 7 are looked up, never imported, and each has a way to do
 * without it that tests can force.
 */
#ifndef URDS_PLATFORM_WINDOWS_WIN_H
#define URDS_PLATFORM_WINDOWS_WIN_H

#include <stdbool.h>

/* windows.h brings the Winsock of 1993 unless that of today came first. */
#include <winsock2.h>
/* clang-format off */
#include <windows.h>
/* clang-format on */

/* The address of @name in @dll, or NULL: this system is older, or newer calls are switched off. */
FARPROC urds_win_newer(const char *dll, const char *name);

/* Tests: as if this system were Windows 7. Before anything of the library has run. */
void urds_win_pretend_old(void);
bool urds_win_is_old(void);

#endif
