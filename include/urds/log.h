/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds/log.h - what happens to connections, as lines of text.
 *
 *	time=2026-01-31T12:00:00.123456Z level=warn event=drop local=192.0.2.1 remote=192.0.2.2 fault=lost
 *	reason="reset by peer"
 *
 * (in one line). One process has one log, of all its contexts. It is off unless the environment has URDS_LOG=LEVEL or
 * URDS_LOG=LEVEL:FILE when the first context is opened, or the program asks for it here.
 *
 * A line that repeats is held back: of one event and one remote address five at once pass, and one per second; the next that
 * passes says suppressed=N. Neither a full pipe nor a full disk holds up the engine: what cannot be written at once is
 * counted likewise.
 */
#ifndef URDS_LOG_H
#define URDS_LOG_H

#include "urds/urds.h"

#ifdef __cplusplus
extern "C" {
#endif

enum urds_log_level {
	URDS_LOG_OFF,
	URDS_LOG_ERROR, /* urds itself cannot go on: no memory, no descriptors */
	URDS_LOG_WARN,	/* a connection was lost, not made, or refused */
	URDS_LOG_INFO,	/* connections are made and come up; calls that fail */
	URDS_LOG_DEBUG, /* what a peer turns out to be */
};

/* @level: enum urds_log_level. @line: without a newline, gone after the call. Called by any thread, threads of urds included, with no lock held; it must
 * not block, must not call urds, and is not left by longjmp. */
typedef void urds_log_fn(void *arg, int level, const char *line);

/**
 * urds_log_to() - lines up to @level go to @fn from now on; in place of what URDS_LOG said.
 * @fn: NULL: to standard error.
 *
 * Once it has returned the function that was there before is not called any more; it waits for calls that are
 * going on. Any thread; not from a log function.
 *
 * Return: 0, or -1 with EINVAL (no such level; from a log function), ENOMEM.
 */
URDS_API int urds_log_to(enum urds_log_level level, urds_log_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
