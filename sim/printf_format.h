/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How a printf-like function of the simulator says that it is one.
 */
#ifndef SIM_PRINTF_FORMAT_H
#define SIM_PRINTF_FORMAT_H

/* C11's conversions everywhere; mingw's "printf" means the old ones of msvcrt. */
#ifdef __MINGW32__
#include <stdio.h>
#define SIM_PRINTF(f, a) __attribute__((format(__MINGW_PRINTF_FORMAT, f, a)))
#else
#define SIM_PRINTF(f, a) __attribute__((format(printf, f, a)))
#endif

#endif
