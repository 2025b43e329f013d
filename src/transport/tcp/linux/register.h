/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What connect.c needs of link.c.
 */
#ifndef URDS_TRANSPORT_TCP_LINUX_REGISTER_H
#define URDS_TRANSPORT_TCP_LINUX_REGISTER_H

#include "transport/tcp/tcp_internal.h"

/* Lets events come, unless it was closed meanwhile (0 then). */
int urds_tcp_link_register(struct tcp_link *l);

#endif
