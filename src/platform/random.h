/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Unpredictable numbers: seeds, generation numbers, incarnations. Aborts when the system has none,
 * because what is built on them would be unsafe.
 */
#ifndef URDS_PLATFORM_RANDOM_H
#define URDS_PLATFORM_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void urds_random_fill(void *buf, size_t len);
uint64_t urds_random64(void);

#endif
