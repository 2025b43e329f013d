/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The life of this process: what it needs before the first socket, its forks, its end.
 */
#ifndef URDS_PLATFORM_PROCESS_H
#define URDS_PLATFORM_PROCESS_H

/* Before anything that opens sockets; any number of times. Return: 0 or negative. */
int urds_process_init(void);

/* @fn runs when the program ends by exit() or by returning from main(), with all its threads alive. Never taken back. */
void urds_at_exit(void (*fn)(void));

enum urds_fork { URDS_FORK_PREPARE, URDS_FORK_PARENT, URDS_FORK_CHILD };

#ifndef _WIN32
/* pthread_atfork() */
void urds_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Around fork(): prepare, then parent or child. The child's copies of our descriptors (platform/posix/fds.h) are closed
 * without a word on the wire; nothing that used one may be used, or closed, there. */
void urds_fds_fork(enum urds_fork stage);
#else
/* There is no fork. */
static inline void urds_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
}

static inline void urds_fds_fork(enum urds_fork stage)
{
}
#endif

#endif
