/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections to owners, by the system's means.
 */
#ifndef URDS_LIB_RECORD_LINK_H
#define URDS_LIB_RECORD_LINK_H

#include "lib/record_name.h"

struct urds_rec_link;

/* A connection to the owner of @a whose credentials @who has (as far as the system knows them).
 * Return: 0, -URDS_ENOTCONN (nobody), -URDS_ETIMEDOUT (there is one, and it cannot be talked to), -URDS_EMFILE, -URDS_ENOMEM, -URDS_EIO. */
int urds_rec_dial(const struct urds_addr *a, urds_ns end, struct urds_owner *who,
		  struct urds_rec_link **out);
void urds_rec_hang_up(struct urds_rec_link *l);

/* One message each way. A clean end is -URDS_ENOTCONN. Return: 0 / bytes, or a negative urds_err. */
int urds_rec_send(struct urds_rec_link *l, const uint8_t *p, size_t len, urds_ns end);
int urds_rec_recv(struct urds_rec_link *l, uint8_t *p, size_t cap, urds_ns end);

/* Until there is something to receive, or @timeout_ms (-1: for ever) have passed. Return: 1, 0, or negative. */
int urds_rec_wait(struct urds_rec_link *l, int timeout_ms);

/* urds_rec_ask() on an open connection. */
int urds_rec_ident(struct urds_rec_link *l, urds_ns end, struct urds_owner *out);

#endif
