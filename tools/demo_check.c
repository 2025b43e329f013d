/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The demo's messages: made, and checked byte for byte. A message that is not the expected one is looked
 * for among all others, so that lost, duplicated, reordered and damaged ones can be told apart.
 */
#include "demo.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES (2u << 20)
#define LOOK_AHEAD \
	4096u		/* messages under 8 bytes do not hold their whole number: search that far */
#define BIG_EVERY 9000u /* one message in that many is of 1 MiB */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

int demo_stream_init(struct demo_stream *s, uint64_t seed, uint64_t count)
{
	uint64_t x;
	size_t i;

	s->seed = seed;
	s->count = count;
	s->table = malloc(TABLE_BYTES);
	if (!s->table)
		return -1;
	for (i = 0; i < TABLE_BYTES; i += sizeof(x)) {
		x = mix(seed ^ mix(i));
		memcpy(s->table + i, &x, sizeof(x));
	}
	return 0;
}

void demo_stream_fini(struct demo_stream *s)
{
	free(s->table);
	s->table = NULL;
}

static uint64_t number(const struct demo_stream *s, uint64_t seq)
{
	return mix(s->seed ^ mix(seq));
}

size_t demo_stream_size(const struct demo_stream *s, uint64_t seq)
{
	uint64_t r = number(s, seq), kind = r % 100;

	r >>= 20;
	if (seq % BIG_EVERY == BIG_EVERY / 2)
		return DEMO_MESSAGE_MAX;
	if (kind < 3)
		return 0;
	if (kind < 70)
		return 1 + r % 255;
	if (kind < 95)
		return 256 + r % (4096 - 256);
	return 4096 + r % (65536 - 4096 + 1);
}

static const uint8_t *slice(const struct demo_stream *s, uint64_t seq)
{
	return s->table + (number(s, seq) >> 40) % (TABLE_BYTES - DEMO_MESSAGE_MAX);
}

size_t demo_stream_fill(const struct demo_stream *s, uint64_t seq, uint8_t *buf)
{
	size_t len = demo_stream_size(s, seq);

	memcpy(buf, slice(s, seq), len);
	memcpy(buf, &seq, len < sizeof(seq) ? len : sizeof(seq));
	return len;
}

static bool is_message(const struct demo_stream *s, uint64_t seq, const uint8_t *buf, size_t len)
{
	size_t head = len < sizeof(seq) ? len : sizeof(seq);

	return seq < s->count && demo_stream_size(s, seq) == len && memcmp(buf, &seq, head) == 0 &&
	       memcmp(buf + head, slice(s, seq) + head, len - head) == 0;
}

int demo_check_init(struct demo_check *c, const struct demo_stream *s)
{
	memset(c, 0, sizeof(*c));
	c->stream = s;
	c->seen = calloc(s->count / 8 + 1, 1);
	return c->seen ? 0 : -1;
}

void demo_check_fini(struct demo_check *c)
{
	free(c->seen);
	c->seen = NULL;
}

static bool has_seen(const struct demo_check *c, uint64_t seq)
{
	return c->seen[seq / 8] >> (seq % 8) & 1;
}

static void note(struct demo_check *c, uint64_t seq)
{
	c->seen[seq / 8] |= (uint8_t)(1u << (seq % 8));
	c->unique++;
}

/* Which message is it? @count: none. */
static uint64_t find(const struct demo_check *c, const uint8_t *buf, size_t len)
{
	const struct demo_stream *s = c->stream;
	uint64_t seq;

	if (len >= sizeof(seq)) {
		memcpy(&seq, buf, sizeof(seq));
		return is_message(s, seq, buf, len) ? seq : s->count;
	}
	for (seq = c->next; seq < c->next + LOOK_AHEAD; seq++)
		if (is_message(s, seq, buf, len))
			return seq;
	for (seq = c->next; seq-- > 0;)
		if (is_message(s, seq, buf, len))
			return seq;
	return s->count;
}

void demo_check_message(struct demo_check *c, const uint8_t *buf, size_t len)
{
	uint64_t seq = is_message(c->stream, c->next, buf, len) ? c->next : find(c, buf, len);

	if (seq == c->stream->count) {
		c->corrupt++;
	} else if (seq >= c->next) {
		c->next = seq + 1; /* what lies between is missing for now */
		note(c, seq);
	} else if (has_seen(c, seq)) {
		c->duplicated++;
	} else {
		c->reordered++;
		note(c, seq);
	}
}
