/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finding the insides of a running context.
 */
#ifndef URDS_TESTS_INSIDE_H
#define URDS_TESTS_INSIDE_H

#include <stdlib.h>

#include "platform/net.h"
#include "runtime/engine.h"

#ifdef _WIN32
#include "platform/windows/win.h"

/* URDS_TEST_OLD_WINDOWS: everything newer than Windows 7 is done without. */
static void __attribute__((constructor)) old_or_not(void)
{
	if (getenv("URDS_TEST_OLD_WINDOWS"))
		urds_win_pretend_old();
}
#endif

static inline struct urds_addr v4(const char *ip)
{
	struct urds_addr a = {{[10] = 0xff, 0xff}, 0};

	inet_pton(AF_INET, ip, a.ip + 12);
	return a;
}

/* With a reference, or NULL. */
static inline struct peer *peer_to(struct urds_ctx *e, const char *local, const char *remote)
{
	struct urds_addr l = v4(local), r = v4(remote);

	return peer_find(e, &l, &r);
}

#endif
