/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * enum urds_err <-> the system's errno, one table. Include as "platform/errno.h".
 */
#ifndef URDS_PLATFORM_ERRNO_H
#define URDS_PLATFORM_ERRNO_H

/* @urds_err: positive or negative enum urds_err. The positive errno applications know; EIO for a
 * number we do not know, 0 for 0. */
int urds_err_to_errno(int urds_err);

/* @errno_value: positive errno. The positive enum urds_err; URDS_EIO for what has no better name,
 * 0 for 0. */
int urds_err_from_errno(int errno_value);

#ifdef _WIN32
/* @code: of GetLastError() or WSAGetLastError(), or an overlapped operation's Win32 error. As above. */
int urds_err_from_system(unsigned long code);
#endif

/* "URDS_ECONG" for logs; never NULL. */
const char *urds_err_name(int urds_err);

#endif
