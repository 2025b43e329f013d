/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Large pieces of address space, aligned to their own size, so that masking a pointer finds the
 * region it lies in. Nothing is committed until touched; not inherited through fork.
 */
#ifndef URDS_PLATFORM_REGION_H
#define URDS_PLATFORM_REGION_H

#include <stddef.h>

#define URDS_REGION_BYTES ((size_t)4 << 20) /* the usual size */

/* @bytes: a power of two, at least a page; also the alignment. NULL: no memory. */
void *urds_region_map(size_t bytes);
void urds_region_unmap(void *region, size_t bytes);

/* Gives the pages of a part back; it reads as zero, or as before, until written again. Page
 * aligned. */
void urds_region_decommit(void *part, size_t bytes);

#endif
