/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Taking the name of an ownership record, or saying who has it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/record_codec.h"
#include "lib/record_name.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/futex.h"
#include "platform/ident.h"
#include "platform/random.h"
#include "platform/words.h"
#include "urds/owner.h"

#define TAKE_LIMIT_NS URDS_SEC(1)
#define TAKE_STEP_NS URDS_MS(10)

size_t urds_rec_text(char *buf, size_t size, const struct urds_addr *a)
{
	struct urds_addr bare = *a;
	size_t n;

	/* The zone as a number: names of interfaces change. */
	bare.scope = 0;
	urds_addr_format(buf, size, &bare);
	n = strlen(buf);
	if (a->scope)
		n += (size_t)snprintf(buf + n, size - n, "%%%u", a->scope);
	return n;
}

void urds_rec_ident_self(struct urds_rec_ident *out, const char *mode)
{
	struct urds_ident self;

	urds_ident_self(&self);
	out->instance = urds_random64() | 1;
	out->pid = self.pid;
	out->uid = self.uid;
	snprintf(out->mode, sizeof(out->mode), "%s", mode);
	snprintf(out->version, sizeof(out->version), "%s", urds_version());
	snprintf(out->program, sizeof(out->program), "%.63s", self.exe);
}

static void explain_owner(const struct urds_addr *a, const struct urds_owner *o, char *why,
			  size_t cap)
{
	char text[URDS_ADDR_STRLEN], pid[48];

	urds_addr_format(text, sizeof(text), a);
	if (o->pid == 0)
		snprintf(pid, sizeof(pid), "a process of another container");
	else if (o->pid == (int)getpid())
		snprintf(pid, sizeof(pid), "this process, pid %d", o->pid);
	else
		snprintf(pid, sizeof(pid), "pid %d", o->pid);
	snprintf(
		why, cap,
		"%s is owned by %s (%s, user %s)%s: an address has one owner; stop it, or use another "
		"address of this host",
		text, pid, o->program, o->user,
		o->answered ? "" : ", which does not answer (stopped, or closing)");
}

/* A name without a listener is being taken or given up: wait. */
int urds_rec_take(const struct urds_addr *a, struct urds_rec_name *out, char *why, size_t cap)
{
	urds_ns end = urds_clock_ns() + TAKE_LIMIT_NS;
	char text[URDS_ADDR_STRLEN];
	struct urds_owner owner = {0};
	int rc;

	for (;;) {
		rc = urds_rec_listen(a, out);
		if (rc == 0)
			return 0;
		urds_addr_format(text, sizeof(text), a);
		if (rc != -URDS_EADDRINUSE) {
			snprintf(why, cap, "cannot note the ownership of %s: %s (%s)", text,
				 strerror(urds_err_to_errno(rc)),
				 rc == -URDS_EMFILE ? urds_words.files : urds_rec_needs);
			return rc;
		}
		rc = urds_rec_ask(a, end, &owner);
		if (rc == 0) {
			explain_owner(a, &owner, why, cap);
			return -URDS_EADDRINUSE;
		}
		if (urds_clock_ns() >= end)
			break;
		urds_sleep_until(urds_clock_ns() + TAKE_STEP_NS);
	}
	if (owner.pid) {
		explain_owner(a, &owner, why, cap);
		return -URDS_EADDRINUSE;
	}
	snprintf(why, cap,
		 "%s is held by a process that does not say who it is: see \"" URDS_REC_PREFIX
		 "%s\" in %s, or use another address",
		 text, text, urds_rec_look_at);
	return -URDS_EADDRINUSE;
}
