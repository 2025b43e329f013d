/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The names of ownership records, and asking one who it is (record_ask.c).
 */
#ifndef URDS_LIB_RECORD_NAME_H
#define URDS_LIB_RECORD_NAME_H

#include <sys/socket.h>
#include <sys/un.h>

#include "wire/types.h"

struct urds_owner;

#define URDS_REC_PREFIX "urds/owner/"

/* "\0urds/owner/192.0.2.1", "\0urds/owner/fe80::1%2". Return: the length to pass with it. */
socklen_t urds_rec_name(struct sockaddr_un *out, const struct urds_addr *a);

/* A connection to the owner of @a whose credentials @who has (as far as the system knows them).
 * Return: a blocking descriptor, -URDS_ENOTCONN (nobody), -URDS_ETIMEDOUT, -URDS_EMFILE, -URDS_EIO. */
int urds_rec_dial(const struct urds_addr *a, urds_ns end, struct urds_owner *who);

/* One message each way. A clean end is -URDS_ENOTCONN. Return: 0 / bytes, or a negative urds_err. */
int urds_rec_send(int fd, const uint8_t *p, size_t len, urds_ns end);
int urds_rec_recv(int fd, uint8_t *p, size_t cap, urds_ns end);

/* Who owns @a? Return: 0 (also when it does not answer: ->answered), -URDS_ENOTCONN (nobody; or, if
 * out->pid is set, it closed the connection at once: it ends or is overrun, ask again). */
int urds_rec_ask(const struct urds_addr *a, urds_ns end, struct urds_owner *out);

/* The same on an open connection. */
int urds_rec_ident(int fd, urds_ns end, struct urds_owner *out);

#endif
