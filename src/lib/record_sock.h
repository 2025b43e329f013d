/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ownership records by AF_UNIX: connections to owners.
 */
#ifndef URDS_LIB_RECORD_SOCK_H
#define URDS_LIB_RECORD_SOCK_H

#include "lib/record_name.h"

/* A connection to the owner of @a whose credentials @who has (as far as the system knows them).
 * Return: a blocking descriptor, -URDS_ENOTCONN (nobody), -URDS_ETIMEDOUT, -URDS_EMFILE, -URDS_EIO. */
int urds_rec_dial(const struct urds_addr *a, urds_ns end, struct urds_owner *who);

/* One message each way. A clean end is -URDS_ENOTCONN. Return: 0 / bytes, or a negative urds_err. */
int urds_rec_send(int fd, const uint8_t *p, size_t len, urds_ns end);
int urds_rec_recv(int fd, uint8_t *p, size_t cap, urds_ns end);

/* urds_rec_ask() on an open connection. */
int urds_rec_ident(int fd, urds_ns end, struct urds_owner *out);

#endif
