/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the operations of rows share: their words, and the words of their answers.
 */
#ifndef URDS_TESTS_ROWS_OPS_H
#define URDS_TESTS_ROWS_OPS_H

#include "world.h"

/* An operation under way. */
struct call {
	struct world *w;
	int n;
	char *word[16];
	char *out;
	size_t room;
	struct urds_sock *s; /* what word 1 names, made if there was none of that name */
};

struct op {
	const char *name;
	int words; /* at least, with its own */
	void (*fn)(struct call *c);
};
extern const struct op rows_waiting_ops[]; /* ends with one without a name */

void put(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The number, or the name of the error. */
void put_result(struct call *c, long long rc);
void put_endpoint(struct call *c, const struct sockaddr_storage *ss, socklen_t len);

/* What follows the word @key, or NULL. */
const char *option(const struct call *c, const char *key);
int number(const char *word, int otherwise);
/* "A:1", "B:1", "192.0.2.9:1", "[::1]:1", "family:0"; "-" is no address. Return: its length. */
socklen_t address(const struct call *c, const char *word, struct sockaddr_storage *ss);
struct urds_sock *sock_named(struct world *w, const char *name);
/* It is closed, or about to be. */
void sock_forget(struct world *w, const struct urds_sock *s);

/* One message of @size bytes, which are 0, 1, 2... */
ssize_t send_pattern(struct urds_sock *s, const struct sockaddr_storage *to, socklen_t tolen,
		     size_t size, int flags);
#define ROWS_BYTES (8u << 20)

#endif
