/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Verified streams (PROTOCOL.md).
 */
#include "verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define G UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)(v >> 32));
	put32(p + 4, (uint32_t)v);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

/* Little-endian, a shorter end filled with zeros. */
static uint64_t word(const uint8_t *p, size_t len)
{
	uint8_t b[8] = {0};
	uint64_t v = 0;

	memcpy(b, p, len < 8 ? len : 8);
	for (int i = 0; i < 8; i++)
		v |= (uint64_t)b[i] << (8 * i);
	return v;
}

static uint64_t hash_more(uint64_t h, const uint8_t *p, size_t len)
{
	for (; len > 0; p += 8, len = len > 8 ? len - 8 : 0) {
		h = (h ^ word(p, len)) * UINT64_C(0x100000001b3);
		h ^= h >> 32;
	}
	return h;
}

static uint64_t hash_of(const uint8_t *msg, uint32_t len)
{
	uint64_t h = hash_more(UINT64_C(0xcbf29ce484222325), msg, 24);

	return hash_more(h, msg + VF_HDR, len - VF_HDR);
}

static uint32_t fnv32(uint32_t h, const uint8_t *p, size_t n)
{
	while (n-- > 0)
		h = (h ^ *p++) * 0x01000193u;
	return h;
}

static uint32_t end_hash(uint32_t h, const struct vf_end *e)
{
	uint8_t port[2] = {(uint8_t)(e->port >> 8), (uint8_t)e->port};

	return fnv32(fnv32(h, e->addr, 16), port, 2);
}

static const char *classes(struct vf_stream *s, const char *text)
{
	while (*text) {
		unsigned low, high, weight;
		int n = 0;

		if (s->nclasses == VF_CLASSES)
			return "too many size classes";
		if (sscanf(text, "%u-%u*%u%n", &low, &high, &weight, &n) != 3 || low > high ||
		    high > VF_MAX || weight == 0)
			return "sizes are LOW-HIGH*WEIGHT,...";
		s->class[s->nclasses].low = low;
		s->class[s->nclasses].high = high;
		s->class[s->nclasses++].weight = weight;
		s->weights += weight;
		text += n;
		if (*text == ',')
			text++;
		else if (*text)
			return "sizes are LOW-HIGH*WEIGHT,...";
	}
	return s->nclasses ? NULL : "no size class";
}

const char *vf_init(struct vf_stream *s, const struct vf_end *from, const struct vf_end *to,
		    uint32_t seed, uint64_t count, uint64_t big, uint64_t empty, const char *sizes)
{
	char text[256];

	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->count = count;
	s->big = big;
	s->empty = empty;
	if (count > 1u << 30 || big + empty > count)
		return "more big and empty messages than messages";
	s->id = end_hash(end_hash(0x811c9dc5u, from), to);
	s->base = mix((uint64_t)seed << 32 | s->id);
	snprintf(text, sizeof text, "%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%s", count, big, empty,
		 sizes);
	s->digest = UINT64_C(0xcbf29ce484222325);
	for (const char *p = text; *p; p++)
		s->digest = (s->digest ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	return classes(s, sizes);
}

uint32_t vf_size(const struct vf_stream *s, uint64_t i)
{
	uint64_t b = i * s->big / s->count, j = i - b, rest = s->count - s->big, r, w;
	unsigned k;

	if ((i + 1) * s->big / s->count > b)
		return VF_MAX;
	if ((j + 1) * s->empty / rest > j * s->empty / rest)
		return 0;
	r = mix((s->base ^ 0x73697a65u) + (i + 1) * G);
	w = r % s->weights;
	for (k = 0; w >= s->class[k].weight; k++)
		w -= s->class[k].weight;
	return s->class[k].low + (uint32_t)(mix(r) % (s->class[k].high - s->class[k].low + 1));
}

/* The words of message @i, cut to @len bytes. */
static void fill(const struct vf_stream *s, uint64_t i, uint8_t *p, uint32_t len)
{
	uint64_t at = mix(s->base + (i + 1) * G);

	while (len > 0) {
		uint64_t v = mix(at += G);
		uint32_t n = len < 8 ? len : 8;
		uint8_t b[8];

		for (int k = 0; k < 8; k++)
			b[k] = (uint8_t)(v >> (8 * k));
		memcpy(p, b, n);
		p += n;
		len -= n;
	}
}

static void header(const struct vf_stream *s, uint32_t magic, uint64_t i, uint32_t len,
		   uint8_t *buf)
{
	put32(buf, magic);
	put32(buf + 4, s->id);
	put64(buf + 8, i);
	put32(buf + 16, len);
	put32(buf + 20, s->seed);
	put64(buf + 24, hash_of(buf, len));
}

uint32_t vf_make(const struct vf_stream *s, uint64_t i, uint8_t *buf)
{
	uint32_t len = vf_size(s, i);

	if (len < VF_HDR) {
		fill(s, i, buf, len);
		return len;
	}
	fill(s, i, buf + VF_HDR, len - VF_HDR);
	header(s, VF_DATA, i, len, buf);
	return len;
}

void vf_control(const struct vf_stream *s, enum vf_magic magic, uint8_t *buf)
{
	header(s, magic, magic == VF_HELLO ? s->digest : s->count, VF_HDR, buf);
}

/* ---- the receiver's check */

int vf_check_init(struct vf_check *c, const struct vf_stream *s)
{
	memset(c, 0, sizeof *c);
	c->s = s;
	c->came = calloc(s->count + 1, 1);
	c->want = malloc(VF_MAX);
	return c->came && c->want ? 0 : -1;
}

void vf_check_fini(struct vf_check *c)
{
	free(c->came);
	free(c->want);
	free(c->held);
}

static bool good_header(const struct vf_stream *s, const uint8_t *buf, uint32_t len, bool any_seed)
{
	return len >= VF_HDR && get32(buf + 4) == s->id && get32(buf + 16) == len &&
	       (any_seed || get32(buf + 20) == s->seed) && get64(buf + 24) == hash_of(buf, len);
}

uint64_t vf_index(const struct vf_stream *s, const uint8_t *buf, uint32_t len, bool any_seed,
		  uint32_t *seed)
{
	if (!good_header(s, buf, len, any_seed) || get32(buf) != VF_DATA)
		return UINT64_MAX;
	*seed = get32(buf + 20);
	return get64(buf + 8);
}

static bool is_message(struct vf_check *c, uint64_t i, const uint8_t *buf, uint32_t len)
{
	return vf_size(c->s, i) == len && vf_make(c->s, i, c->want) == len &&
	       memcmp(c->want, buf, len) == 0;
}

static void hold(struct vf_check *c, const uint8_t *buf, uint32_t len)
{
	if (c->nheld == c->held_cap) {
		size_t cap = c->held_cap ? 2 * c->held_cap : 64;
		struct vf_held *h = realloc(c->held, cap * sizeof *h);

		if (!h) {
			c->corrupt++;
			return;
		}
		c->held = h;
		c->held_cap = cap;
	}
	c->held[c->nheld].len = len;
	memcpy(c->held[c->nheld++].bytes, buf, len);
}

/* One that is in no order: late, a second time, or nonsense. */
static void misplaced(struct vf_check *c, const struct vf_held *h, uint64_t end)
{
	bool twice = false;

	for (uint64_t i = end; i-- > 0;) {
		if (!is_message(c, i, h->bytes, h->len))
			continue;
		if (!c->came[i]) {
			c->came[i] = 1;
			c->reordered++;
			return;
		}
		twice = true;
	}
	if (twice)
		c->duplicated++;
	else
		c->corrupt++;
}

/* The held short ones against the short indexes from next to @end: the longest run in order is right. */
static void resolve(struct vf_check *c, uint64_t end)
{
	size_t m = c->nheld, n = 0, i, j;
	uint64_t *index;
	uint32_t *best; /* best[i][j]: of held from i and indexes from j */
	bool *same;

	if (m == 0)
		return;
	index = malloc((size_t)(end - c->next + 1) * sizeof *index);
	for (uint64_t k = c->next; index && k < end; k++)
		if (vf_size(c->s, k) < VF_HDR)
			index[n++] = k;
	best = calloc((m + 1) * (n + 1), sizeof *best);
	same = calloc((m + 1) * (n + 1), sizeof *same);
	if (!index || !best || !same) {
		fprintf(stderr, "urdspeer: no memory for a check\n");
		exit(1);
	}
	for (i = m; i-- > 0;) {
		for (j = n; j-- > 0;) {
			uint32_t *b = &best[i * (n + 1) + j];
			uint32_t skip_held = best[(i + 1) * (n + 1) + j],
				 skip_index = best[i * (n + 1) + j + 1];

			*b = skip_held > skip_index ? skip_held : skip_index;
			same[i * (n + 1) + j] =
				is_message(c, index[j], c->held[i].bytes, c->held[i].len);
			if (same[i * (n + 1) + j] && best[(i + 1) * (n + 1) + j + 1] + 1 > *b)
				*b = best[(i + 1) * (n + 1) + j + 1] + 1;
		}
	}
	for (i = j = 0; i < m && j < n;) {
		uint32_t b = best[i * (n + 1) + j];

		if (same[i * (n + 1) + j] && b == best[(i + 1) * (n + 1) + j + 1] + 1) {
			c->came[index[j++]] = 1;
			c->right++;
			c->held[i++].len = UINT32_MAX; /* settled */
		} else if (b == best[(i + 1) * (n + 1) + j]) {
			i++;
		} else {
			j++;
		}
	}
	for (i = 0; i < m; i++)
		if (c->held[i].len != UINT32_MAX)
			misplaced(c, &c->held[i], end);
	c->nheld = 0;
	free(index);
	free(best);
	free(same);
}

static void data(struct vf_check *c, uint64_t i, const uint8_t *buf, uint32_t len)
{
	if (i >= c->s->count || !is_message(c, i, buf, len)) {
		c->corrupt++;
		return;
	}
	if (i < c->next) {
		if (c->came[i]) {
			c->duplicated++;
		} else {
			c->came[i] = 1;
			c->reordered++;
		}
		return;
	}
	resolve(c, i);
	c->came[i] = 1;
	c->right++;
	c->next = i + 1;
}

static void without_header(struct vf_check *c, const uint8_t *buf, uint32_t len)
{
	bool fits = c->next < c->s->count && vf_size(c->s, c->next) == len;

	if (len >= VF_HDR) {
		c->corrupt++;
		if (fits)
			c->came[c->next++] = 1; /* it is not missing, it is bad */
		return;
	}
	if (c->nheld == 0 && fits && is_message(c, c->next, buf, len)) {
		c->came[c->next++] = 1;
		c->right++;
		return;
	}
	hold(c, buf, len);
}

enum vf_what vf_check_put(struct vf_check *c, const uint8_t *buf, uint32_t len)
{
	if (good_header(c->s, buf, len, false)) {
		switch (get32(buf)) {
		case VF_DATA:
			c->is_heard = true;
			c->received++;
			data(c, get64(buf + 8), buf, len);
			return VF_WAS_DATA;
		case VF_HELLO:
			c->is_heard = true;
			if (get64(buf + 8) != c->s->digest)
				c->wrong_params = true;
			return VF_WAS_HELLO;
		case VF_HEARD:
			c->is_heard = true;
			return VF_WAS_HEARD;
		case VF_FIN:
			resolve(c, c->s->count);
			c->next = c->s->count;
			c->is_fin = true;
			return VF_WAS_FIN;
		case VF_BYE:
			c->is_bye = true;
			return VF_WAS_BYE;
		default:
			break;
		}
	}
	c->received++;
	without_header(c, buf, len);
	return VF_WAS_DATA;
}

uint64_t vf_check_lost(const struct vf_check *c)
{
	uint64_t lost = 0;

	for (uint64_t i = 0; i < c->s->count; i++)
		lost += !c->came[i];
	return lost;
}
