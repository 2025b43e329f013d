/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The messages of a verified stream: their sizes and their bytes (PROTOCOL.md). */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15ull
#define SIZE_DOMAIN 0x73697a65ull /* "size" */

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void put_be64(uint8_t *p, uint64_t v)
{
	put_be32(p, (uint32_t)(v >> 32));
	put_be32(p + 4, (uint32_t)v);
}

static uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t get_be64(const uint8_t *p)
{
	return (uint64_t)get_be32(p) << 32 | get_be32(p + 4);
}

static uint64_t little(uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(v);
#else
	return v;
#endif
}

static uint64_t hash_word(uint64_t h, const uint8_t *p, size_t n)
{
	uint64_t w = 0;

	memcpy(&w, p, n);
	h = (h ^ little(w)) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static uint64_t hash_words(uint64_t h, const uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8)
		h = hash_word(h, p, 8);
	return len > 0 ? hash_word(h, p, len) : h;
}

static uint64_t hash_message(const uint8_t *p, size_t len)
{
	uint64_t h = hash_words(0xcbf29ce484222325ull, p, 24);

	return hash_words(h, p + STREAM_HEADER, len - STREAM_HEADER);
}

static int parse_sizes(struct stream_spec *s, const char *text)
{
	while (*text) {
		struct stream_class *c = &s->classes[s->n_classes];
		int used = 0;

		if (s->n_classes == STREAM_CLASSES ||
		    sscanf(text, "%u-%u*%u%n", &c->low, &c->high, &c->weight, &used) != 3 ||
		    c->low > c->high || c->high > STREAM_MAX || c->weight == 0 ||
		    c->weight > 100000)
			return -1;
		s->weights += c->weight;
		s->n_classes++;
		text += used;
		if (*text == ',')
			text++;
		else if (*text)
			return -1;
	}
	return s->n_classes > 0 ? 0 : -1;
}

int stream_spec_init(struct stream_spec *s, const char *sizes)
{
	char text[512];
	int n;

	s->n_classes = s->weights = 0;
	if (parse_sizes(s, sizes) < 0 || s->count > 1u << 30 || s->big > s->count ||
	    s->empty > s->count - s->big)
		return -1;
	n = snprintf(text, sizeof(text), "%llu/%llu/%llu/%s", (unsigned long long)s->count,
		     (unsigned long long)s->big, (unsigned long long)s->empty, sizes);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -1;
	s->digest = 0xcbf29ce484222325ull;
	for (int i = 0; i < n; i++)
		s->digest = (s->digest ^ (uint8_t)text[i]) * 0x100000001b3ull;
	return 0;
}

static uint32_t fnv32(uint32_t h, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x01000193u;
	return h;
}

static uint32_t hash_end(uint32_t h, const struct stream_end *e)
{
	uint8_t port[2] = {(uint8_t)(e->port >> 8), (uint8_t)e->port};

	return fnv32(fnv32(h, e->addr, sizeof(e->addr)), port, sizeof(port));
}

void stream_init(struct stream *s, const struct stream_spec *spec, const struct stream_end *from,
		 const struct stream_end *to)
{
	s->spec = spec;
	s->id = hash_end(hash_end(0x811c9dc5u, from), to);
	s->base = mix((uint64_t)spec->seed << 32 | s->id);
}

uint32_t stream_size(const struct stream *s, uint64_t index)
{
	const struct stream_spec *p = s->spec;
	uint64_t before = index * p->big / p->count; /* big ones below this index */
	uint64_t rest = p->count - p->big, j = index - before, r;

	if ((index + 1) * p->big / p->count > before)
		return STREAM_MAX;
	if ((j + 1) * p->empty / rest > j * p->empty / rest)
		return 0;
	r = mix((s->base ^ SIZE_DOMAIN) + (index + 1) * GOLDEN);
	for (uint32_t i = 0, w = (uint32_t)(r % p->weights);; i++) {
		const struct stream_class *c = &p->classes[i];

		if (w < c->weight)
			return c->low + (uint32_t)(mix(r) % (c->high - c->low + 1));
		w -= c->weight;
	}
}

static void header(const struct stream *s, enum stream_kind kind, uint64_t index, uint32_t size,
		   uint8_t *out)
{
	put_be32(out, (uint32_t)kind);
	put_be32(out + 4, s->id);
	put_be64(out + 8, index);
	put_be32(out + 16, size);
	put_be32(out + 20, s->spec->seed);
	put_be64(out + 24, hash_message(out, size));
}

uint32_t stream_message(const struct stream *s, uint64_t index, uint8_t *out)
{
	uint32_t size = stream_size(s, index), pos = size < STREAM_HEADER ? 0 : STREAM_HEADER;
	uint64_t word = mix(s->base + (index + 1) * GOLDEN);

	for (; pos < size; pos += 8) {
		uint64_t w = little(mix(word += GOLDEN));

		if (size - pos >= 8)
			memcpy(out + pos, &w, 8);
		else
			memcpy(out + pos, &w, size - pos);
	}
	if (size >= STREAM_HEADER)
		header(s, STREAM_DATA, index, size, out);
	return size;
}

void stream_control(const struct stream *s, enum stream_kind kind, uint8_t *out)
{
	header(s, kind, kind == STREAM_HELLO ? s->spec->digest : s->spec->count, STREAM_HEADER,
	       out);
}

static bool is_kind(uint32_t magic)
{
	return magic == STREAM_DATA || magic == STREAM_HELLO || magic == STREAM_HEARD ||
	       magic == STREAM_FIN || magic == STREAM_BYE;
}

int stream_parse(struct stream_head *out, const uint8_t *buf, size_t len)
{
	if (len < STREAM_HEADER || !is_kind(get_be32(buf)) || get_be32(buf + 16) != len ||
	    hash_message(buf, len) != get_be64(buf + 24))
		return -1;
	out->kind = (enum stream_kind)get_be32(buf);
	out->id = get_be32(buf + 4);
	out->index = get_be64(buf + 8);
	out->seed = get_be32(buf + 20);
	return 0;
}
