/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The names of ownership records: taking one, finding them, asking one who it is. One file per system does it
 * (record_ask.c; record_pipe.c), the rest is the same for all (record_take.c, record_find.c).
 */
#ifndef URDS_LIB_RECORD_NAME_H
#define URDS_LIB_RECORD_NAME_H

#include "wire/types.h"

struct urds_owner;
struct urds_rec_ident;

#define URDS_REC_PREFIX "urds/owner/"
#define URDS_REC_OWNERS_MAX 65536u

/* "192.0.2.1", "fe80::1%2": what follows the prefix. Return: its length. */
size_t urds_rec_text(char *buf, size_t size, const struct urds_addr *a);

/* A name that was taken: the system's listener, and what else keeps the name, or -1. */
struct urds_rec_name {
	intptr_t listener, guard;
};

/* By one process at a time. Return: 0, -URDS_EADDRINUSE, or another negative urds_err. */
int urds_rec_listen(const struct urds_addr *a, struct urds_rec_name *out);
/* For people: what to look at where an owner does not say who it is; where owners are found; what is needed if there are no
 * names at all. */
extern const char urds_rec_look_at[], urds_rec_listed_in[], urds_rec_needs[];

/* Takes the name within a second, or says who has it. Return: as above. */
int urds_rec_take(const struct urds_addr *a, struct urds_rec_name *out, char *why, size_t cap);

/* What we say of ourselves. */
void urds_rec_ident_self(struct urds_rec_ident *out, const char *mode);

/* Who owns @a? Process and user come from the system, so that an owner that is stopped, or lies, is named all the same.
 * Return: 0 (also when it does not answer: ->answered), -URDS_ENOTCONN (nobody; or, if
 * out->pid is set, it closed the connection at once: it ends or is overrun, ask again). */
int urds_rec_ask(const struct urds_addr *a, urds_ns end, struct urds_owner *out);

/* The owned addresses, some perhaps twice; *out from malloc(), NULL if there are none. Return: 0 or a negative urds_err. */
int urds_rec_find(struct urds_addr **out, size_t *n);
/* One more at the end of what urds_rec_find() has found so far. @text: as of urds_rec_text(); of others nothing is added. */
int urds_rec_found(struct urds_addr **v, size_t *n, const char *text);

#endif
