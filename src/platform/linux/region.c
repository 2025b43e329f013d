/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/region.h"

#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

void *urds_region_map(size_t bytes)
{
	char *raw, *region;
	size_t before;

	assert(bytes >= 4096 && (bytes & (bytes - 1)) == 0);
	if (bytes > SIZE_MAX / 2)
		return NULL;
	/* Ask for twice as much; the aligned piece in it is kept. */
	raw = mmap(NULL, bytes * 2, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return NULL;
	before = (bytes - ((uintptr_t)raw & (bytes - 1))) & (bytes - 1);
	region = raw + before;
	if (before > 0)
		(void)munmap(raw, before);
	(void)munmap(region + bytes, bytes - before);
	/* A NIC writes here: after fork the pages must stay the parent's. */
	if (madvise(region, bytes, MADV_DONTFORK) < 0) {
		(void)munmap(region, bytes);
		return NULL;
	}
	return region;
}

void urds_region_unmap(void *region, size_t bytes)
{
	int rc = munmap(region, bytes);

	assert(rc == 0);
	(void)rc;
}

void urds_region_decommit(void *part, size_t bytes)
{
	(void)madvise(part, bytes, MADV_DONTNEED);
}
