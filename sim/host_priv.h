/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the two halves of a virtual host share: connections (host.c), and time, programs, life (host_life.c).
 */
#ifndef URDS_SIM_HOST_PRIV_H
#define URDS_SIM_HOST_PRIV_H

#include "host.h"

extern const struct vhost_ops host_ops;

struct hpeer *host_peer(struct host *h, const struct urds_addr *a);
void host_do_out(struct hpeer *hp, struct urds_peer_out *out, struct vend *link);
void host_transmit(struct hpeer *hp, unsigned slot);
/* Asks TCP what a kernel has acknowledged. */
void host_ack_pos(struct hpeer *hp, unsigned slot);
void host_read_all(struct host *h, struct hsock *s);
/* Sets the timer to the next deadline. */
void host_arm(struct host *h);

#endif
