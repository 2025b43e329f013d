/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finding the insides of a running context.
 */
#ifndef URDS_TESTS_INSIDE_H
#define URDS_TESTS_INSIDE_H

#include "platform/net.h"
#include "runtime/engine.h"

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
