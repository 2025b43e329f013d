/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Message memory of a context: 4 MiB regions, one mapping each, cut into 64 KiB blocks. Also counts the
 * bookkeeping that core allocates, so that a leak is a number.
 */
#ifndef URDS_RUNTIME_MEM_H
#define URDS_RUNTIME_MEM_H

#include "core/buf.h"
#include "platform/lock.h"

struct urds_region;

struct urds_pool {
	struct urds_mem mem;
	struct urds_lock lock;
	struct urds_region *regions; /* those with a free block first */
	uint64_t bytes_max;	     /* of regions */
	uint64_t mapped;	     /* bytes of regions */
	_Atomic uint64_t used;	     /* bytes of blocks handed out; lock to write */
	_Atomic uint64_t small;	     /* bytes of ordinary allocations */
};

void urds_pool_init(struct urds_pool *p, uint64_t bytes_max);
/* Something has become idle: gives back regions that were kept for the next burst. */
void urds_pool_trim(struct urds_pool *p);
/* Everything was given back. */
void urds_pool_fini(struct urds_pool *p);

/* Are new claims to be refused (nine tenths used)? Leaves room for what must still be received. */
static inline bool urds_pool_is_tight(const struct urds_pool *p)
{
	return atomic_load_explicit(&p->used, memory_order_relaxed) > p->bytes_max / 10 * 9;
}

#endif
