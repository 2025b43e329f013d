/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "runtime/fault_text.h"

#include <stdio.h>
#include <string.h>

#include "platform/errno.h"
#include "platform/words.h"
#include "urds/errno.h"
#include "urds/peer.h"

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

static const struct {
	const char *word, *text;
} faults[] = {
	[URDS_FAULT_NONE] = {"none", "nothing"},
	[URDS_FAULT_DIAL] = {"dial", "the attempt failed"},
	[URDS_FAULT_NO_ANSWER] = {"no_answer", "no answer to a connection attempt for"},
	[URDS_FAULT_DEAD] = {"dead", "no answer for"},
	[URDS_FAULT_LOST] = {"lost", "the connection failed"},
	[URDS_FAULT_LOST_EARLY] = {"lost_early", "the connection failed"},
	[URDS_FAULT_CLOSED] = {"closed", "closed by peer"},
	[URDS_FAULT_CLOSED_EARLY] = {"closed_early", "closed by peer before it said anything"},
	[URDS_FAULT_NOT_RDS] = {"not_rds", "what answers there does not speak RDS"},
	[URDS_FAULT_MUTE] = {"mute", "it connected and said nothing, while others waited"},
	[URDS_FAULT_MISPLACED] = {"misplaced", "another connection of the peer took its place"},
	[URDS_FAULT_RESET] = {"reset", "reset on request of this host"},
};

const char *urds_fault_word(unsigned fault)
{
	return fault < COUNT(faults) ? faults[fault].word : "unknown";
}

/* Errors of connections in the words people look for, whatever the system says. NULL: as the system says. */
static const char *error_text(int err)
{
	switch (urds_err_from_errno(err)) {
	case URDS_ECONNREFUSED:
		return "connection refused";
	case URDS_ECONNRESET:
		return "reset by peer";
	case URDS_EUNREACH:
		return "no route to host";
	case URDS_ETIMEDOUT:
		return "no answer: TCP gave up";
	case URDS_ENOMEM:
		return "no memory";
	case URDS_EMFILE:
		return urds_words.many_files;
	default:
		return NULL;
	}
}

char *urds_fault_text(char *buf, size_t cap, unsigned fault, int err, uint32_t ms)
{
	const char *why = error_text(err);

	if (fault >= COUNT(faults))
		snprintf(buf, cap, "fault %u, which this release does not know", fault);
	else if (err)
		snprintf(buf, cap, "%s%s", why ? why : strerror(err),
			 fault == URDS_FAULT_LOST_EARLY ? " before it said anything" : "");
	else if (ms)
		snprintf(buf, cap, "%s %.*f s", faults[fault].text, ms < 10000 ? 1 : 0,
			 ms / 1000.0);
	else
		snprintf(buf, cap, "%s", faults[fault].text);
	return buf;
}
