/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What of this host would stop urds, or make it less useful: the order of the checks, and the one of the address.
 */
#include "doctor.h"

#include <errno.h>

static void address(struct doctor *d)
{
	struct tool_addr at = *d->src;
	tool_sock s = tool_sock_open(at.sa.ss_family, SOCK_STREAM, false);
	int err;

	/* What is there already has been said; this is about the address. */
	tool_port_set(&at, 0);
	err = s == TOOL_NO_SOCK ? tool_sock_error() : tool_sock_bind_again(s, tool_sa(&at), at.len);
	if (s != TOOL_NO_SOCK)
		tool_sock_close(s);
	if (err == EADDRNOTAVAIL)
		doctor_say(d, DOCTOR_STOP, "address", doctor_words.address,
			   "%s is not an address of this host", at.text);
	else if (err)
		doctor_say(d, DOCTOR_STOP, "address",
			   "see whether a sandbox or security module forbids it",
			   "a TCP socket cannot be bound to %s: %s", at.text, tool_strerror(err));
	else
		doctor_say(d, DOCTOR_OK, "address", NULL, "%s is an address of this host", at.text);
}

void doctor_host(struct doctor *d)
{
	doctor_port(d, doctor_kernel(d));
	if (d->src)
		address(d);
	doctor_limits(d);
}
