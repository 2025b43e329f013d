/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds stress: rds-stress's options, control protocol, messages and output, in both roles.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stress.h"

static int real_time(struct stress_run *r)
{
	const char *why = r->o.wants_rtprio ? stress_real_time(r->soak != NULL) : NULL;

	if (!why)
		return 0;
	tool_error("no real-time scheduling (-R): %s, or have the active side leave -R out", why);
	return -1;
}

static int dots(struct stress_run *r)
{
	uint64_t next = tool_now_ns();
	int i, ended;

	r->start_ns = next + 2000000000u;
	stress_soak_go(r);
	if (stress_tasks_start(r) < 0)
		return -1;
	stress_say("Starting up");
	atomic_store(&r->has_open_line, true);
	for (i = 0; i < 4; i++) {
		next += 1000000000u;
		ended = stress_peer_ended(r, next);
		if (ended < 0)
			return -1;
		if (ended) {
			stress_say("\n");
			tool_error(
				"the other side ended the test while it started: see what it says");
			return -1;
		}
		if (atomic_load(&r->failed_tid) || tool_ends_noted())
			break;
		stress_say(".");
		if (tool_flush() < 0)
			return -1;
	}
	if (atomic_exchange(&r->has_open_line, false))
		stress_say("\n");
	if (atomic_load(&r->failed_tid)) {
		tool_error("child pid %d exited with status 1", atomic_load(&r->failed_tid));
		return -1;
	}
	return real_time(r);
}

static int test(struct stress_run *r)
{
	if (r->self.s_addr == r->peer.s_addr) {
		tool_error(
			"both sides have the same address: give this one another local address with -r");
		return 1;
	}
	if (r->o.is_active && r->o.shows_params)
		stress_params(&r->o);
	if (r->o.is_active && stress_send_options(r) < 0)
		return 1;
	if (r->o.is_active)
		stress_say("negotiated options, tasks will start in 2 seconds\n");
	if (stress_tasks_open(r) < 0 ||
	    (r->o.is_active ? stress_go_active(r) : stress_go_passive(r)) < 0)
		return tool_ends_noted() ? 0 : 1;
	if (!r->o.is_active)
		stress_say("negotiated options, tasks will start in 2 seconds\n");
	if (dots(r) < 0)
		return 1;
	return stress_watch(r);
}

/* As rds-stress, asks what is there before it connects, if it knows the local address. */
static int meet_and_test(struct stress_run *r)
{
	bool knows_self = r->o.is_active && r->o.recv_addr;

	if (knows_self && stress_probe(r) < 0)
		return 1;
	if ((r->o.is_active ? stress_connect(r) : stress_accept(r)) < 0)
		return tool_ends_noted() ? 0 : 1;
	if (r->o.is_active && !knows_self && stress_probe(r) < 0)
		return 1;
	return test(r);
}

int tool_stress(int argc, char **argv)
{
	struct stress_run r = {.control = TOOL_NO_SOCK};
	int rc = stress_parse(&r.o, argc, argv);

	if (rc >= 0)
		return rc;
	if (r.o.wants_reset)
		return stress_reset(&r.o);
	tool_ends_note_first();
	if (r.o.wants_cpu && stress_soak_start(&r) < 0)
		rc = TOOL_FAILED;
	else
		rc = meet_and_test(&r);
	stress_tasks_end(&r);
	stress_soak_end(&r);
	free(r.perf);
	if (r.control != TOOL_NO_SOCK)
		tool_sock_close(r.control);
	return rc;
}
