/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One descriptor that is readable while any of several is, or once an instant has passed: what an event loop of the program
 * watches in place of a thread of ours.
 */
#ifndef URDS_PLATFORM_HUB_H
#define URDS_PLATFORM_HUB_H

#include "wire/types.h"

struct urds_hub {
	int fd; /* the program's to watch */
	int timer_fd;
	urds_ns at; /* that it is armed for */
};

/* Return: 0, or -URDS_EMFILE, -URDS_ENOMEM; -URDS_EOPNOTSUPP where the system has nothing of the kind. */
int urds_hub_new(struct urds_hub *h);
void urds_hub_free(struct urds_hub *h);
/* @fd leaves by being closed. */
int urds_hub_add(struct urds_hub *h, int fd);
/* In place of the instant before; URDS_NEVER: none. */
void urds_hub_arm(struct urds_hub *h, urds_ns at);

#endif
