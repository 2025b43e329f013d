/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What it means that somebody listens on TCP port 16385.
 */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>

/* Is it in the way of the address that matters? */
static bool concerns(const struct doctor *d, const struct doctor_listener *q)
{
	return !d->src || q->is_any || tool_addr_same(&q->at, d->src);
}

/* It is urds: not in the way, but the address is taken. */
static bool is_owner(struct doctor *d, const struct doctor_listener *q)
{
	struct urds_owner who;
	char text[192];

	if (q->is_any || urds_owner_ident(tool_sa(&q->at), q->at.len, &who) < 0)
		return false;
	tool_owner_text(&who, text, sizeof(text));
	if (!who.answered)
		doctor_say(d, DOCTOR_STOP, "port", doctor_words.stopped,
			   "%s is owned by %s, which does not answer: is it stopped?", q->at.text,
			   text);
	else
		doctor_say(
			d, DOCTOR_OK, "port", NULL,
			"%s is owned by %s: another program cannot own it as well, and the tools use it through that one",
			q->at.text, text);
	return true;
}

static void foreign(struct doctor *d, const struct doctor_listeners *l,
		    const struct doctor_listener *q, const char *kernel_remedy)
{
	const char *what = q->is_any ? "every address" : q->at.text;

	if (q->pid)
		doctor_say(
			d, DOCTOR_STOP, "port",
			"end that program, or have it listen on another port: RDS has only this one",
			"pid %ld (%s, %s) listens on TCP port %u of %s", q->pid, q->program,
			q->user, DOCTOR_PORT, what);
	else if (kernel_remedy && q->is_any)
		doctor_say(
			d, DOCTOR_STOP, "port", kernel_remedy,
			"the kernel's own RDS (module rds_tcp) listens on TCP port %u of every address",
			DOCTOR_PORT);
	else if (l->has_hidden)
		doctor_say(
			d, DOCTOR_STOP, "port", doctor_words.hidden,
			"a process (%s), which this user may not look into, listens on TCP port %u of %s",
			q->user, DOCTOR_PORT, what);
	else
		doctor_say(d, DOCTOR_STOP, "port", doctor_words.elsewhere,
			   "something that is no process here (%s) listens on TCP port %u of %s",
			   q->user, DOCTOR_PORT, what);
}

void doctor_port(struct doctor *d, const char *kernel_remedy)
{
	struct doctor_listeners *l = calloc(1, sizeof(*l));
	bool any = false;
	size_t i;

	if (!l) {
		doctor_say(d, DOCTOR_STOP, "port", "free some memory",
			   "no memory to look at listeners");
		return;
	}
	doctor_listeners_get(l, d->proc);
	for (i = 0; i < l->n; i++) {
		if (!concerns(d, &l->v[i]))
			continue;
		any = true;
		if (!is_owner(d, &l->v[i]))
			foreign(d, l, &l->v[i], kernel_remedy);
	}
	if (!any)
		doctor_say(d, DOCTOR_OK, "port", NULL, "nothing listens on TCP port %u of %s",
			   DOCTOR_PORT, d->src ? d->src->text : "any address");
	free(l);
}
