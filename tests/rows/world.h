/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where a row is performed: the two addresses of the record and sockets known by name, and operations on them that
 * answer with a text, in the words of the probe which asked the kernel.
 */
#ifndef URDS_TESTS_ROWS_WORLD_H
#define URDS_TESTS_ROWS_WORLD_H

#include "engine.h"

#define ADDR_A "192.0.2.1"
#define ADDR_B "192.0.2.2"

struct world {
	struct urds_ctx *a, *b; /* the same one in the column "loopback" */
	const char *ip_b;
	struct {
		char name[4];
		struct urds_sock *s;
	} socks[8];
	unsigned nsocks;
};

/* Return: 0, or -1 after a line that says why. */
int world_open(struct world *w, bool is_tcp);
/* Closes the sockets, which ends what is blocked in them. */
void world_close_socks(struct world *w);
int world_close(struct world *w);

/* An answer that begins so is no answer: the table is wrong. */
#define ROWS_BAD "bad operation"

/* Performs @op, "send a B:4001 4 flags n", and writes the answer. @op is cut into its words. */
void rows_op(struct world *w, char *op, char *out, size_t room);

#endif
