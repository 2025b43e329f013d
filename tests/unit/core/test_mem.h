/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A memory for core that counts what is out and can fail the Nth request. What it hands out is filled
 * with rubbish (blocks) or zero (allocations), as the contract says. Also a small random generator.
 */
#ifndef URDS_TESTS_TEST_MEM_H
#define URDS_TESTS_TEST_MEM_H

#include <stdlib.h>
#ifdef _WIN32
#include <malloc.h>
#endif

#include "core/buf.h"

struct test_mem {
	struct urds_mem m;
	size_t bytes, blocks; /* out now */
	size_t peak_blocks;
	unsigned long calls;
	unsigned long fail_at; /* this call fails; 0: none */
	bool fail_all;
};

static inline bool test_mem_fails(struct test_mem *t)
{
	return ++t->calls == t->fail_at || t->fail_all;
}

static inline void *test_mem_alloc(struct urds_mem *m, size_t bytes)
{
	struct test_mem *t = urds_container_of(m, struct test_mem, m);
	void *p = test_mem_fails(t) ? NULL : calloc(1, bytes);

	if (p)
		t->bytes += bytes;
	return p;
}

static inline void test_mem_free(struct urds_mem *m, void *p, size_t bytes)
{
	urds_container_of(m, struct test_mem, m)->bytes -= bytes;
	free(p);
}

static inline void *test_mem_block_get(struct urds_mem *m, unsigned blocks)
{
	struct test_mem *t = urds_container_of(m, struct test_mem, m);
	size_t bytes = (size_t)blocks * URDS_BLOCK_BYTES;
	void *p = NULL;

	if (!test_mem_fails(t))
#ifdef _WIN32
		p = _aligned_malloc(bytes, URDS_BLOCK_BYTES);
#else
		p = aligned_alloc(URDS_BLOCK_BYTES, bytes);
#endif
	if (!p)
		return NULL;
	memset(p, 0xa5, bytes < 4096 ? bytes : 4096);
	t->blocks += blocks;
	if (t->blocks > t->peak_blocks)
		t->peak_blocks = t->blocks;
	return p;
}

static inline void test_mem_block_put(struct urds_mem *m, void *p, unsigned blocks)
{
	urds_container_of(m, struct test_mem, m)->blocks -= blocks;
#ifdef _WIN32
	_aligned_free(p);
#else
	free(p);
#endif
}

static inline struct urds_mem *test_mem_init(struct test_mem *t)
{
	static const struct urds_mem_ops ops = {test_mem_alloc, test_mem_free, test_mem_block_get,
						test_mem_block_put};

	memset(t, 0, sizeof *t);
	t->m.ops = &ops;
	return &t->m;
}

/* splitmix64 */
static inline uint64_t test_rnd(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint32_t test_below(uint64_t *s, uint32_t n)
{
	return (uint32_t)(test_rnd(s) % n);
}

/* What payload byte @i of message @id must be: different from message to message. */
static inline uint8_t test_byte(uint64_t id, uint32_t i)
{
	return (uint8_t)((id * 151u) ^ i ^ (i >> 8));
}

#endif
