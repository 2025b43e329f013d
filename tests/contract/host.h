/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the tests of transports ask of the system below, one file per system.
 */
#ifndef URDS_TESTS_CONTRACT_HOST_H
#define URDS_TESTS_CONTRACT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/types.h"

/* First in main(). A program that has not ended after @limit_s is ended: a hang is a failure with its place, not a stuck
 * build. */
void host_init(unsigned limit_s);

/* A port from @base on, for tests that run beside this one to have another. Never 16385: another test, or a real owner, may be
 * at work on this host. The same for the life of the process. */
uint16_t host_port(uint16_t base);

/* Descriptors, or handles, of this process. */
size_t host_fd_count(void);

/* An address of this host that @fits, as text of up to @size bytes. */
bool host_address(bool (*fits)(const struct urds_addr *a), char *text, size_t size);

/* Two connected stream sockets: 0 or -1. */
int host_tcp_pair(intptr_t fd[2]);
int host_unix_pair(intptr_t fd[2]); /* -1 where there is no such thing */

#endif
