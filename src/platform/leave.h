/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How a call of ours may end other than by returning: a signal handler jumps out of it, or its thread is cancelled, or
 * a handler runs on top of it. Windows has none of that: nothing there runs in a thread that waits.
 */
#ifndef URDS_PLATFORM_LEAVE_H
#define URDS_PLATFORM_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

/* A function on the stack of this thread, as it noted it itself. */
struct urds_frame {
	char *address; /* __builtin_frame_address(0) */
	volatile uintptr_t
		*mark; /* in that frame; holds its own address + serial while the frame lives */
	uintptr_t serial;
};

#ifndef _WIN32
#include <pthread.h>

/* Is the frame of @fn gone? No, if we are in a handler on top of it. @here: the caller's own frame. */
bool urds_frame_is_left(const struct urds_frame *f, uintptr_t fn, const char *here);

/* Does this process handle signals in a way that ends a wait with EINTR? @never_restarted: also those that go on with a
 * wait (SA_RESTART). */
bool urds_wait_is_interrupted(bool never_restarted);

/* @fn(@arg) when this thread ends, also by cancellation; @fn is the same in every call. False: no memory. */
bool urds_thread_at_exit(void (*fn)(void *arg), void *arg);

/* Around calls that open files and ask other processes: pthread_cancel() takes effect in waits only, where it
 * leaves nothing half done (platform/posix/nocancel.h). */
static inline int urds_cancel_off(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void urds_cancel_back(int was)
{
	pthread_setcancelstate(was, NULL);
}

/* Around a wait that is no cancellation point itself. */
static inline int urds_cancel_anywhere(void)
{
	int was;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &was);
	return was;
}

static inline void urds_cancel_anywhere_back(int was)
{
	pthread_setcanceltype(was, NULL);
}
#else
static inline bool urds_frame_is_left(const struct urds_frame *f, uintptr_t fn, const char *here)
{
	return false;
}

static inline bool urds_wait_is_interrupted(bool never_restarted)
{
	return false;
}

/* What ends a thread in its wait (TerminateThread) tells nobody. */
static inline bool urds_thread_at_exit(void (*fn)(void *arg), void *arg)
{
	return true;
}

static inline int urds_cancel_off(void)
{
	return 0;
}

static inline void urds_cancel_back(int was)
{
}

static inline int urds_cancel_anywhere(void)
{
	return 0;
}

static inline void urds_cancel_anywhere_back(int was)
{
}
#endif

#endif
