/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The receiver's check of a verified stream: tells loss, duplicates, wrong order and damage apart.
 */
#ifndef RDSPEER_CHECKER_H
#define RDSPEER_CHECKER_H

#include "stream.h"

#define CHECKER_LIMBO_MAX 256u /* full: it is settled without waiting for a header */

/* A message without a header that is not simply the next one: its meaning shows later. */
struct checker_limbo {
	uint64_t expected; /* the checker's when it came */
	unsigned rounds;   /* how often it found no place */
	uint32_t len;
	uint8_t bytes[STREAM_HEADER];
};

struct checker {
	struct stream stream;
	uint64_t expected; /* every index below was got, or jumped over */
	uint64_t n_got;	   /* indexes accounted for, good or corrupt */
	uint8_t *got;	   /* one bit for each index */
	uint8_t *scratch;  /* STREAM_MAX bytes */
	uint64_t received, duplicated, reordered, corrupt;
	bool is_heard, is_hello, is_fin, is_bye;
	uint64_t peer_digest; /* from HELLO */
	struct checker_limbo limbo[CHECKER_LIMBO_MAX];
	unsigned n_limbo;
};

/* Return: 0, or -1 without memory. */
int checker_init(struct checker *c, const struct stream *s);
void checker_fini(struct checker *c);
/* One message that came, in the order of coming. */
void checker_take(struct checker *c, const uint8_t *buf, size_t len);
/* No more will come. Return: the number of messages lost. */
uint64_t checker_end(struct checker *c);
/* The first range of missing messages at or after @*from. Return: is there one, [*from, *to)? */
bool checker_gap(const struct checker *c, uint64_t *from, uint64_t *to);

#endif
