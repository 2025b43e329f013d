/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Message memory. All payload lies in buffers made of 64 KiB blocks that the owner of the engine hands
 * out (regions, one mapping each, so that a NIC or another process may know them); bookkeeping comes
 * from an ordinary allocator behind the same table. Core allocates through nothing else.
 *
 * A buffer is shared by reference: a 64 KiB stream chunk is held by its path and by every message that
 * is a slice of it. The count is the only thing here that threads share.
 */
#ifndef URDS_CORE_BUF_H
#define URDS_CORE_BUF_H

#include <stdatomic.h>

#include "core/limits.h"

struct urds_mem;

struct urds_mem_ops {
	/* Zeroed, or NULL. */
	void *(*alloc)(struct urds_mem *m, size_t bytes);
	void (*free)(struct urds_mem *m, void *p, size_t bytes);
	/* @blocks contiguous blocks, 64 KiB aligned, contents undefined; NULL: none left. */
	void *(*block_get)(struct urds_mem *m, unsigned blocks);
	void (*block_put)(struct urds_mem *m, void *p, unsigned blocks);
};

struct urds_mem {
	const struct urds_mem_ops *ops;
};

static inline void *urds_alloc(struct urds_mem *m, size_t bytes)
{
	return m->ops->alloc(m, bytes);
}

/* @p may be NULL. */
static inline void urds_free(struct urds_mem *m, void *p, size_t bytes)
{
	if (p)
		m->ops->free(m, p, bytes);
}

#define URDS_BUF_HEAD 64u /* one cache line */

struct urds_buf {
	_Atomic(uint32_t) refs;
	uint32_t blocks;
	struct urds_mem *mem;
	uint32_t used; /* the filler's own: bytes of data filled */
};

static inline uint8_t *urds_buf_data(struct urds_buf *b)
{
	return (uint8_t *)b + URDS_BUF_HEAD;
}

static inline uint32_t urds_buf_cap(const struct urds_buf *b)
{
	return b->blocks * URDS_BLOCK_BYTES - URDS_BUF_HEAD;
}

/* Blocks that hold @bytes of data. */
static inline unsigned urds_buf_blocks(size_t bytes)
{
	return (unsigned)((bytes + URDS_BUF_HEAD + URDS_BLOCK_BYTES - 1) / URDS_BLOCK_BYTES);
}

/* One reference, or NULL. */
static inline struct urds_buf *urds_buf_new(struct urds_mem *m, unsigned blocks)
{
	struct urds_buf *b = m->ops->block_get(m, blocks);

	if (!b)
		return NULL;
	atomic_init(&b->refs, 1);
	b->blocks = blocks;
	b->mem = m;
	b->used = 0;
	return b;
}

static inline void urds_buf_hold(struct urds_buf *b, uint32_t n)
{
	atomic_fetch_add_explicit(&b->refs, n, memory_order_relaxed);
}

static inline void urds_buf_drop_n(struct urds_buf *b, uint32_t n)
{
	if (atomic_fetch_sub_explicit(&b->refs, n, memory_order_acq_rel) != n)
		return;
	b->mem->ops->block_put(b->mem, b, b->blocks);
}

/* @b may be NULL. */
static inline void urds_buf_drop(struct urds_buf *b)
{
	if (b)
		urds_buf_drop_n(b, 1);
}

/* Is the caller's reference the only one? Then nobody else can make more. */
static inline bool urds_buf_is_sole(struct urds_buf *b)
{
	return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

#endif
