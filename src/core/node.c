/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Congestion maps of both directions, and the bind table.
 */
#include "core/node.h"

int urds_localmap_flip(struct urds_localmap *m, struct urds_mem *mem, uint16_t port, bool congested)
{
	if (!m->bits) {
		if (!congested)
			return 0;
		m->bits = urds_alloc(mem, URDS_CONGMAP_LEN);
		if (!m->bits)
			return -URDS_ENOMEM;
	}
	if (urds_congmap_test(m->bits, port) == congested)
		return 0;
	if (congested) {
		urds_congmap_set(m->bits, port);
		m->congested++;
	} else {
		urds_congmap_clear(m->bits, port);
		m->congested--;
	}
	m->gen++;
	return 1;
}

void urds_localmap_fini(struct urds_localmap *m, struct urds_mem *mem)
{
	urds_free(mem, m->bits, URDS_CONGMAP_LEN);
	m->bits = NULL;
}

/* Bits of a word, without a compiler's helper: core imports none. */
static uint32_t count_word(uint64_t w)
{
	w -= w >> 1 & 0x5555555555555555u;
	w = (w & 0x3333333333333333u) + (w >> 2 & 0x3333333333333333u);
	w = (w + (w >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return (uint32_t)(w * 0x0101010101010101u >> 56);
}

static uint32_t count_bits(const uint8_t *map)
{
	uint32_t n = 0;
	uint64_t w;

	for (size_t i = 0; i < URDS_CONGMAP_LEN; i += sizeof w) {
		memcpy(&w, map + i, sizeof w);
		n += w ? count_word(w) : 0;
	}
	return n;
}

int urds_remotemap_update(struct urds_remotemap *m, struct urds_mem *mem, const uint8_t *now,
			  uint8_t **was, struct urds_congmap_diff *d)
{
	uint8_t *bits = NULL;
	uint32_t n = now ? count_bits(now) : 0;

	if (n > 0) {
		bits = urds_alloc(mem, URDS_CONGMAP_LEN);
		if (!bits)
			return -URDS_ENOMEM;
		memcpy(bits, now, URDS_CONGMAP_LEN);
	}
	*was = m->bits;
	m->bits = bits;
	m->congested = n;
	urds_congmap_diff_init(d, *was, bits);
	return 0;
}

void urds_remotemap_free_old(struct urds_mem *mem, uint8_t *was)
{
	urds_free(mem, was, URDS_CONGMAP_LEN);
}

static struct urds_bound **slot(const struct urds_bindtab *t, const struct urds_addr *a,
				uint16_t port)
{
	return &t->heads[urds_addr_hash(a, (uint32_t)port * 2654435761u) & (t->size - 1)];
}

struct urds_bound *urds_bindtab_find(const struct urds_bindtab *t, const struct urds_addr *a,
				     uint16_t port)
{
	struct urds_bound *b;

	if (!t->heads)
		return NULL;
	for (b = *slot(t, a, port); b; b = b->next)
		if (b->at.port == port && urds_addr_eq(&b->at.addr, a))
			return b;
	return NULL;
}

static int grow(struct urds_bindtab *t)
{
	struct urds_bindtab n = {
		.mem = t->mem, .size = t->size ? t->size * 2 : 16, .count = t->count};

	n.heads = urds_alloc(t->mem, n.size * sizeof *n.heads);
	if (!n.heads)
		return -URDS_ENOMEM;
	for (uint32_t i = 0; i < t->size; i++) {
		struct urds_bound *b = t->heads[i], *next;

		for (; b; b = next) {
			struct urds_bound **s = slot(&n, &b->at.addr, b->at.port);

			next = b->next;
			b->next = *s;
			*s = b;
		}
	}
	urds_free(t->mem, t->heads, t->size * sizeof *t->heads);
	*t = n;
	return 0;
}

int urds_bindtab_add(struct urds_bindtab *t, struct urds_bound *b)
{
	struct urds_bound **s;

	if (b->at.port <= URDS_PROBE_PORT)
		return -URDS_EINVAL;
	if (urds_bindtab_find(t, &b->at.addr, b->at.port))
		return -URDS_EADDRINUSE;
	if (t->count >= t->size && grow(t) < 0 && !t->heads)
		return -URDS_ENOMEM;
	s = slot(t, &b->at.addr, b->at.port);
	b->next = *s;
	*s = b;
	t->count++;
	return 0;
}

void urds_bindtab_remove(struct urds_bindtab *t, struct urds_bound *b)
{
	struct urds_bound **s = slot(t, &b->at.addr, b->at.port);

	while (*s != b)
		s = &(*s)->next;
	*s = b->next;
	t->count--;
}

uint16_t urds_bindtab_free_port(const struct urds_bindtab *t, const struct urds_addr *a,
				uint64_t random)
{
	const uint32_t first = URDS_PROBE_PORT + 1, n = 65536 - first;
	uint32_t at = (uint32_t)(random % n);

	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(first + (at + i) % n);

		if (!urds_bindtab_find(t, a, port))
			return port;
	}
	return 0;
}

void urds_bindtab_fini(struct urds_bindtab *t)
{
	urds_free(t->mem, t->heads, t->size * sizeof *t->heads);
	t->heads = NULL;
	t->size = t->count = 0;
}

int urds_memory_add(struct urds_memory *m, struct urds_mem *mem, const struct urds_remembered *r)
{
	if (!m->ring)
		m->ring = urds_alloc(mem, URDS_REMEMBERED_MAX * sizeof *m->ring);
	if (!m->ring)
		return -URDS_ENOMEM;
	m->ring[m->next] = *r;
	m->next = (m->next + 1) % URDS_REMEMBERED_MAX;
	if (m->count < URDS_REMEMBERED_MAX)
		m->count++;
	return 0;
}

bool urds_memory_take(struct urds_memory *m, const struct urds_addr *local,
		      const struct urds_addr *remote, struct urds_remembered *out)
{
	for (uint32_t i = 1; i <= m->count; i++) {
		struct urds_remembered *r =
			&m->ring[(m->next + URDS_REMEMBERED_MAX - i) % URDS_REMEMBERED_MAX];

		if (!urds_addr_eq(&r->remote, remote) || !urds_addr_eq(&r->local, local))
			continue;
		*out = *r;
		memset(r, 0, sizeof *r); /* matches no address */
		return true;
	}
	return false;
}

void urds_memory_fini(struct urds_memory *m, struct urds_mem *mem)
{
	urds_free(mem, m->ring, URDS_REMEMBERED_MAX * sizeof *m->ring);
	memset(m, 0, sizeof *m);
}
