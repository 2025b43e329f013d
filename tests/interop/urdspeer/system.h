/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urdspeer needs of the system beyond C and threads: system_posix.c, system_windows.c.
 */
#ifndef URDSPEER_SYSTEM_H
#define URDSPEER_SYSTEM_H

#include <stdint.h>

#include "urds/system.h"

#ifdef _WIN32
/* The format that our C library's printf really has. */
#define PEER_PRINTF __gnu_printf__
#else
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#define PEER_PRINTF __printf__
#endif

/* Before anything else, and before there are threads. */
void system_init(void);
/* From here on @stop is called when this process shall end, and @reset on SIGUSR1, which Windows has not. */
void system_signals(void (*stop)(void), void (*reset)(void));
/* After so many seconds @ring is called. Once; after system_signals(). */
void system_alarm(unsigned seconds, void (*ring)(void));
/* Monotonic. */
int64_t now_ms(void);
void nap_ms(unsigned ms);

#endif
