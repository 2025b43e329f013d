/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The event log: one line for each thing that happens to connections (include/urds/log.h has the words). Process-wide.
 * Lines go out in the thread that has something to say, which holds no lock and no role then; they never wait.
 */
#ifndef URDS_RUNTIME_EVENTLOG_H
#define URDS_RUNTIME_EVENTLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "wire/types.h"

/* enum urds_log_level */
enum eventlog_level { EVENTLOG_OFF, EVENTLOG_ERROR, EVENTLOG_WARN, EVENTLOG_INFO, EVENTLOG_DEBUG };

/* Their words. */
extern const char *const eventlog_levels[];

typedef void eventlog_fn(void *arg, int level, const char *line);

extern _Atomic int eventlog_level_;

static inline bool eventlog_wants(enum eventlog_level level)
{
	return (int)level <= atomic_load_explicit(&eventlog_level_, memory_order_relaxed);
}

/* Lines up to @level go to @fn; NULL: to @out (platform/textout.h), which is closed when something else is set. @anew: even
 * if that was said before. Waits for calls of the former function.
 * Return: 1: done; 0: not @anew, and it was said before; -URDS_ENOMEM, -URDS_EINVAL (from @fn). */
int eventlog_set(enum eventlog_level level, eventlog_fn *fn, void *arg, int out, bool anew);
bool eventlog_is_set(void);

/* @local, @remote: NULL: not said. @more: further " key=value" pairs, as printf(); what people wrote or the system said is
 * quoted by eventlog_quote(). Nothing if the level is not wanted, or the line is held back. Any thread, any handler. */
void eventlog(enum eventlog_level level, const char *event, const struct urds_addr *local,
	      const struct urds_addr *remote, const char *more, ...)
	__attribute__((format(printf, 5, 6)));

/* @text as one value in quotes: no control characters, quotes and backslashes marked. Cut if it does not fit. Return: @buf. */
char *eventlog_quote(char *buf, size_t cap, const char *text);

#endif
