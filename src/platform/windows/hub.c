/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A completion port cannot be watched together with the sockets of a program.
 */
#include "platform/hub.h"

#include "urds/errno.h"

int urds_hub_new(struct urds_hub *h)
{
	return -URDS_EOPNOTSUPP;
}

void urds_hub_free(struct urds_hub *h)
{
}

int urds_hub_add(struct urds_hub *h, int fd)
{
	return -URDS_EOPNOTSUPP;
}

void urds_hub_arm(struct urds_hub *h, urds_ns at)
{
}
