/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A descriptor that a program can poll, and whose readiness we decide: one end of a connected pair. Readable while the
 * token, a byte, lies in it; not writable while it is filled. The other end, and both directions, are ours.
 *
 * The token by one thread at a time, filling by one thread at a time, both beside one another.
 */
#ifndef URDS_PLATFORM_PAIR_H
#define URDS_PLATFORM_PAIR_H

#include <stdbool.h>
#include <stdint.h>

/* Neither readable nor blocked; [0] is the program's, a SOCKET on Windows. Return: 0 or negative. */
int urds_pair_new(intptr_t fds[2]);
/* Return: does the token lie in it now? */
bool urds_pair_put(const intptr_t fds[2]);
bool urds_pair_take(const intptr_t fds[2]);
void urds_pair_fill(const intptr_t fds[2]);
void urds_pair_drain(const intptr_t fds[2]);
/* The token lies in it, or it is not filled: whoever waits for edges is told so once more. */
void urds_pair_again_in(const intptr_t fds[2]);
void urds_pair_again_out(const intptr_t fds[2]);
/* Whoever is in one of the above comes out and finds a pair that is of no use; the numbers stay taken until it is closed. */
void urds_pair_shut(const intptr_t fds[2]);
void urds_pair_close(const intptr_t fds[2]);

#endif
