/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Regions and blocks.
 */
#include "runtime/mem.h"

#include <assert.h>
#include <stdlib.h>

#include "platform/region.h"

#define REGION_BLOCKS (URDS_REGION_BYTES / URDS_BLOCK_BYTES)
_Static_assert(REGION_BLOCKS == 64, "one word tells which blocks are free");

/* Kept mapped though empty: mapping and clearing pages costs more than a message. */
#define SPARE_BYTES (8 * URDS_REGION_BYTES)

struct urds_region {
	struct urds_region *next, *prev;
	uint8_t *base;
	uint64_t free; /* bit per block */
};

static struct urds_pool *pool_of(struct urds_mem *m)
{
	return urds_container_of(m, struct urds_pool, mem);
}

static void *small_alloc(struct urds_mem *m, size_t bytes)
{
	void *p = calloc(1, bytes);

	if (p)
		atomic_fetch_add_explicit(&pool_of(m)->small, bytes, memory_order_relaxed);
	return p;
}

static void small_free(struct urds_mem *m, void *p, size_t bytes)
{
	atomic_fetch_sub_explicit(&pool_of(m)->small, bytes, memory_order_relaxed);
	free(p);
}

/* The lowest run of @n free blocks, or -1. */
static int find_run(uint64_t free, unsigned n)
{
	uint64_t runs = free;

	for (unsigned i = 1; i < n && runs; i++)
		runs &= free >> i;
	return runs ? __builtin_ctzll(runs) : -1;
}

static uint64_t run_mask(unsigned n, unsigned at)
{
	return (n == 64 ? ~0ull : (1ull << n) - 1) << at;
}

static void region_link(struct urds_pool *p, struct urds_region *r)
{
	r->prev = NULL;
	r->next = p->regions;
	if (r->next)
		r->next->prev = r;
	p->regions = r;
}

static void region_unlink(struct urds_pool *p, struct urds_region *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		p->regions = r->next;
	if (r->next)
		r->next->prev = r->prev;
}

static struct urds_region *region_new(struct urds_pool *p)
{
	struct urds_region *r;

	if (p->mapped + URDS_REGION_BYTES > p->bytes_max)
		return NULL;
	r = malloc(sizeof *r);
	if (!r)
		return NULL;
	r->base = urds_region_map(URDS_REGION_BYTES);
	if (!r->base) {
		free(r);
		return NULL;
	}
	r->free = ~0ull;
	p->mapped += URDS_REGION_BYTES;
	region_link(p, r);
	return r;
}

static void region_free(struct urds_pool *p, struct urds_region *r)
{
	region_unlink(p, r);
	urds_region_unmap(r->base, URDS_REGION_BYTES);
	p->mapped -= URDS_REGION_BYTES;
	free(r);
}

static void *block_get(struct urds_mem *m, unsigned blocks)
{
	struct urds_pool *p = pool_of(m);
	struct urds_region *r;
	void *got = NULL;
	int at = -1;

	assert(blocks >= 1 && blocks <= REGION_BLOCKS);
	urds_lock_acquire(&p->lock);
	for (r = p->regions; r; r = r->next) {
		at = find_run(r->free, blocks);
		if (at >= 0)
			break;
	}
	if (!r && (r = region_new(p)))
		at = 0;
	if (r) {
		r->free &= ~run_mask(blocks, (unsigned)at);
		atomic_fetch_add_explicit(&p->used, (uint64_t)blocks * URDS_BLOCK_BYTES,
					  memory_order_relaxed);
		got = r->base + (size_t)at * URDS_BLOCK_BYTES;
	}
	urds_lock_release(&p->lock);
	return got;
}

static void block_put(struct urds_mem *m, void *ptr, unsigned blocks)
{
	struct urds_pool *p = pool_of(m);
	uint8_t *base = (uint8_t *)((uintptr_t)ptr & ~(uintptr_t)(URDS_REGION_BYTES - 1));
	unsigned at = (unsigned)(((uint8_t *)ptr - base) / URDS_BLOCK_BYTES);
	struct urds_region *r;

	urds_lock_acquire(&p->lock);
	for (r = p->regions; r->base != base; r = r->next)
		;
	assert(!(r->free & run_mask(blocks, at)));
	r->free |= run_mask(blocks, at);
	atomic_fetch_sub_explicit(&p->used, (uint64_t)blocks * URDS_BLOCK_BYTES,
				  memory_order_relaxed);
	if (r->free == ~0ull && p->mapped > p->used + SPARE_BYTES) {
		region_free(p, r);
	} else if (r->prev && !r->prev->free) {
		region_unlink(p, r);
		region_link(p, r);
	}
	urds_lock_release(&p->lock);
}

static const struct urds_mem_ops ops = {
	.alloc = small_alloc, .free = small_free, .block_get = block_get, .block_put = block_put};

void urds_pool_trim(struct urds_pool *p)
{
	struct urds_region *r, *next;

	urds_lock_acquire(&p->lock);
	for (r = p->regions; r; r = next) {
		next = r->next;
		if (r->free == ~0ull)
			region_free(p, r);
	}
	urds_lock_release(&p->lock);
}

void urds_pool_init(struct urds_pool *p, uint64_t bytes_max)
{
	memset(p, 0, sizeof *p);
	p->mem.ops = &ops;
	p->bytes_max = bytes_max < URDS_REGION_BYTES ? URDS_REGION_BYTES : bytes_max;
	urds_lock_init(&p->lock);
}

void urds_pool_fini(struct urds_pool *p)
{
	while (p->regions)
		region_free(p, p->regions);
}
