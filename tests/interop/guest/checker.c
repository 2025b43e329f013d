/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The check of a verified stream.  Messages with a header say which they are; those without are
 * compared with the next expected one, and wait in limbo for the next header when they differ.
 */
#include "checker.h"

#include <stdlib.h>
#include <string.h>

int checker_init(struct checker *c, const struct stream *s)
{
	memset(c, 0, sizeof(*c));
	c->stream = *s;
	c->got = calloc(1, s->spec->count / 8 + 1);
	c->scratch = malloc(STREAM_MAX);
	return c->got && c->scratch ? 0 : -1;
}

void checker_fini(struct checker *c)
{
	free(c->got);
	free(c->scratch);
}

static bool is_got(const struct checker *c, uint64_t i)
{
	return c->got[i / 8] >> (i % 8) & 1;
}

static void mark(struct checker *c, uint64_t i)
{
	c->got[i / 8] |= (uint8_t)(1u << (i % 8));
	c->n_got++;
}

static bool matches(struct checker *c, uint64_t i, const uint8_t *buf, size_t len)
{
	return stream_size(&c->stream, i) == len &&
	       stream_message(&c->stream, i, c->scratch) == len &&
	       memcmp(c->scratch, buf, len) == 0;
}

#define NOWHERE UINT64_MAX

/* The first index in [from, to) in state @got that this message can be. */
static uint64_t find(struct checker *c, uint64_t from, uint64_t to, bool got,
		     const struct checker_limbo *m)
{
	for (uint64_t i = from; i < to; i++) {
		if (is_got(c, i) == got && matches(c, i, m->bytes, m->len))
			return i;
	}
	return NOWHERE;
}

static uint64_t find_size(const struct checker *c, uint64_t to, uint32_t len)
{
	for (uint64_t i = 0; i < to; i++) {
		if (!is_got(c, i) && stream_size(&c->stream, i) == len)
			return i;
	}
	return NOWHERE;
}

#define GAP_MAX 1024u /* short messages of a gap that are looked at */

/* The messages without header that are missing from [from, to). */
static unsigned gap_of(struct checker *c, uint64_t from, uint64_t to, uint64_t *gap)
{
	unsigned n = 0;

	for (uint64_t i = from; i < to && n < GAP_MAX; i++) {
		if (!is_got(c, i) && stream_size(&c->stream, i) < STREAM_HEADER)
			gap[n++] = i;
	}
	return n;
}

/* Takes out of limbo what is in order: the longest common subsequence with what is missing. */
static void settle_order(struct checker *c, uint64_t to)
{
	static uint64_t gap[GAP_MAX];
	static uint16_t best[CHECKER_LIMBO_MAX + 1][GAP_MAX + 1];
	static bool same[CHECKER_LIMBO_MAX][GAP_MAX];
	unsigned n = c->n_limbo, g = gap_of(c, c->expected, to, gap), kept = 0;

	for (unsigned j = 0; j < g; j++) {
		uint32_t len = stream_message(&c->stream, gap[j], c->scratch);

		for (unsigned i = 0; i < n; i++)
			/* if something behind it came before, it is not in order */
			same[i][j] = c->limbo[i].len == len &&
				     c->limbo[i].expected == c->expected &&
				     memcmp(c->limbo[i].bytes, c->scratch, len) == 0;
	}
	memset(best[n], 0, sizeof(best[n]));
	for (unsigned i = n; i-- > 0;) {
		best[i][g] = 0;
		for (unsigned j = g; j-- > 0;) {
			uint16_t skip = best[i + 1][j] > best[i][j + 1] ? best[i + 1][j]
									: best[i][j + 1];
			uint16_t use = (uint16_t)(best[i + 1][j + 1] + 1);

			best[i][j] = same[i][j] && use > skip ? use : skip;
		}
	}
	for (unsigned i = 0, j = 0; i < n; i++) {
		while (j < g && best[i][j] == best[i][j + 1])
			j++;
		if (j < g && same[i][j] && best[i][j] == best[i + 1][j + 1] + 1) {
			mark(c, gap[j++]);
			c->received++;
		} else {
			c->limbo[kept++] = c->limbo[i];
		}
	}
	c->n_limbo = kept;
}

/* Has this message, which is not in order, found its meaning? */
static bool settle_one(struct checker *c, const struct checker_limbo *m, uint64_t to, bool is_last)
{
	uint64_t i = c->n_got < to ? find(c, 0, to, false, m) : NOWHERE;

	if (i != NOWHERE) {
		mark(c, i);
		c->received++;
		c->reordered++;
		return true;
	}
	if (m->rounds == 0 && !is_last)
		return false;
	if (find(c, 0, to, true, m) != NOWHERE) {
		c->duplicated++;
		return true;
	}
	if (m->rounds < 3 && !is_last)
		return false;
	c->corrupt++;
	i = find_size(c, to, m->len);
	if (i != NOWHERE)
		mark(c, i);
	return true;
}

/* Everything below @to has been sent: explain what is in limbo by what is missing. */
static void settle(struct checker *c, uint64_t to, bool is_last)
{
	unsigned kept = 0;

	if (c->n_limbo == 0)
		return;
	settle_order(c, to);
	for (unsigned k = 0; k < c->n_limbo; k++) {
		struct checker_limbo *m = &c->limbo[k];

		if (settle_one(c, m, to, is_last))
			continue;
		m->rounds++;
		c->limbo[kept++] = *m;
	}
	c->n_limbo = kept;
}

static void take_index(struct checker *c, uint64_t i, const uint8_t *buf, size_t len)
{
	if (i >= c->stream.spec->count || !matches(c, i, buf, len)) {
		c->corrupt++;
		return;
	}
	if (i >= c->expected) {
		settle(c, i, false);
		mark(c, i);
		c->received++;
		c->expected = i + 1;
	} else if (!is_got(c, i)) {
		mark(c, i);
		c->received++;
		c->reordered++;
	} else {
		c->duplicated++;
	}
}

static void take_control(struct checker *c, enum stream_kind kind, uint64_t index)
{
	bool *flag = kind == STREAM_FIN ? &c->is_fin : &c->is_bye;

	if (kind == STREAM_HELLO) {
		c->is_hello = true;
		c->peer_digest = index;
		return;
	}
	if (kind == STREAM_HEARD)
		return;
	if (*flag)
		c->duplicated++;
	*flag = true;
	if (kind == STREAM_FIN) {
		settle(c, c->stream.spec->count, false);
		c->expected = c->stream.spec->count;
	}
}

/* No header for long: go on as if the messages in limbo were all there is. */
static void make_room(struct checker *c)
{
	uint64_t count = c->stream.spec->count, to = c->expected + CHECKER_LIMBO_MAX + 64;

	if (to > count)
		to = count;
	settle(c, to, false);
	while (to > c->expected && !is_got(c, to - 1))
		to--;
	c->expected = to;
	if (c->n_limbo < CHECKER_LIMBO_MAX)
		return;
	memmove(c->limbo, c->limbo + 1, sizeof(c->limbo[0]) * --c->n_limbo);
	c->corrupt++;
}

static void take_short(struct checker *c, const uint8_t *buf, size_t len)
{
	struct checker_limbo *m;

	if (c->n_limbo == 0 && c->expected < c->stream.spec->count &&
	    matches(c, c->expected, buf, len)) {
		mark(c, c->expected++);
		c->received++;
		return;
	}
	if (c->n_limbo == CHECKER_LIMBO_MAX)
		make_room(c);
	m = &c->limbo[c->n_limbo++];
	m->expected = c->expected;
	m->rounds = 0;
	m->len = (uint32_t)len;
	memcpy(m->bytes, buf, len);
}

void checker_take(struct checker *c, const uint8_t *buf, size_t len)
{
	struct stream_head h;

	c->is_heard = true;
	if (len < STREAM_HEADER) {
		take_short(c, buf, len);
	} else if (stream_parse(&h, buf, len) < 0) {
		c->corrupt++;
		/* Most likely it is the next one. */
		if (c->expected < c->stream.spec->count &&
		    stream_size(&c->stream, c->expected) == len)
			mark(c, c->expected++);
	} else if (h.id != c->stream.id || h.seed != c->stream.spec->seed) {
		c->corrupt++;
	} else if (h.kind == STREAM_DATA) {
		take_index(c, h.index, buf, len);
	} else {
		take_control(c, h.kind, h.index);
	}
}

uint64_t checker_end(struct checker *c)
{
	settle(c, c->stream.spec->count, true);
	return c->stream.spec->count - c->n_got;
}

bool checker_gap(const struct checker *c, uint64_t *from, uint64_t *to)
{
	uint64_t count = c->stream.spec->count;

	while (*from < count && is_got(c, *from))
		++*from;
	for (*to = *from; *to < count && !is_got(c, *to);)
		++*to;
	return *from < count;
}
