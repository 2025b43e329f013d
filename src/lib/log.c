/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The event log as programs and the environment see it, and the words for what happens to peers.
 */
#include "urds/log.h"

#include <errno.h>
#include <string.h>

#include "lib/api.h"
#include "lib/settings.h"
#include "platform/errno.h"
#include "platform/textout.h"
#include "runtime/eventlog.h"
#include "runtime/fault_text.h"

_Static_assert((int)URDS_LOG_OFF == (int)EVENTLOG_OFF &&
		       (int)URDS_LOG_ERROR == (int)EVENTLOG_ERROR &&
		       (int)URDS_LOG_WARN == (int)EVENTLOG_WARN &&
		       (int)URDS_LOG_INFO == (int)EVENTLOG_INFO &&
		       (int)URDS_LOG_DEBUG == (int)EVENTLOG_DEBUG,
	       "one numbering");

int urds_log_to(enum urds_log_level level, urds_log_fn *fn, void *arg)
{
	int rc;

	if ((unsigned)level > URDS_LOG_DEBUG)
		return urds_fail(URDS_EINVAL,
				 "urds_log_to: %d is no level: they are URDS_LOG_OFF to _DEBUG",
				 (int)level);
	rc = eventlog_set((enum eventlog_level)level, fn, arg, URDS_TEXTOUT_STDERR, true);
	if (rc == -URDS_EINVAL)
		return urds_fail(URDS_EINVAL, "urds_log_to: called by a log function");
	return rc < 0 ? urds_fail(-rc, "urds_log_to: out of memory") : 0;
}

/* LEVEL, or LEVEL:FILE. */
static int set(struct urds_settings *s, const char *text)
{
	const char *file = strchr(text, ':');
	size_t len = file ? (size_t)(file - text) : strlen(text);
	int level = 0, out = URDS_TEXTOUT_STDERR, rc;

	while (level <= URDS_LOG_DEBUG && (strlen(eventlog_levels[level]) != len ||
					   strncmp(eventlog_levels[level], text, len) != 0))
		level++;
	if (level > URDS_LOG_DEBUG || (file && !file[1]))
		return urds_fail(URDS_EINVAL,
				 "urds_open: %s = %s: give off, error, warn, info or debug, and "
				 "':FILE' if it is not to go to standard error",
				 urds_settings_name(s, URDS_SET_LOG), text);
	if (file && level != URDS_LOG_OFF) {
		out = urds_textout_open(file + 1);
		if (out < 0)
			return urds_fail(-out, "urds_open: %s = %s: cannot write to that file: %s",
					 urds_settings_name(s, URDS_SET_LOG), text,
					 strerror(errno));
	}
	rc = eventlog_set((enum eventlog_level)level, NULL, NULL, out, false);
	if (rc <= 0 && out != URDS_TEXTOUT_STDERR)
		urds_textout_close(out);
	return rc < 0 ? urds_fail(-rc, "urds_open: out of memory") : 0;
}

int urds_log_setup(struct urds_settings *s)
{
	const char *text = s->text[URDS_SET_LOG];

	return !text || eventlog_is_set() ? 0 : set(s, text);
}

void urds_log_call(int err, const char *reason)
{
	char quoted[768];

	/* They are how a program waits. */
	if (err == URDS_EAGAIN || err == URDS_ECONG || err == URDS_EINTR || err == URDS_ETIMEDOUT)
		return;
	eventlog(EVENTLOG_INFO, "call_failed", NULL, NULL, " error=%s reason=%s",
		 urds_err_name(err), eventlog_quote(quoted, sizeof quoted, reason));
}

const char *urds_peer_fault_word(const struct urds_info_peer *p)
{
	return urds_fault_word(p->fault);
}

char *urds_peer_fault_text(const struct urds_info_peer *p, char *buf, size_t cap)
{
	return urds_fault_text(buf, cap, p->fault, (int)p->fault_errno, p->fault_ms);
}
