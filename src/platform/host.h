/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What this machine has, for defaults.
 */
#ifndef URDS_PLATFORM_HOST_H
#define URDS_PLATFORM_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of main memory, or 0: not known. */
uint64_t urds_host_memory(void);

/* The largest socket buffer, to send (or to receive), that the system lets anybody set, or UINT64_MAX. */
uint64_t urds_host_buf_max(bool to_send);

#endif
