/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/region.h"

#include <assert.h>
#include <stdint.h>

#include "platform/windows/win.h"

/* Between giving back the large piece and asking for the aligned part of it another thread may take it. */
#define TRIES 64

void *urds_region_map(size_t bytes)
{
	assert(bytes >= 4096 && (bytes & (bytes - 1)) == 0);
	if (bytes > SIZE_MAX / 2)
		return NULL;
	for (int i = 0; i < TRIES; i++) {
		char *raw = VirtualAlloc(NULL, bytes * 2, MEM_RESERVE, PAGE_NOACCESS);
		uintptr_t at = ((uintptr_t)raw + bytes - 1) & ~(uintptr_t)(bytes - 1);
		void *region;

		if (!raw)
			return NULL;
		(void)VirtualFree(raw, 0, MEM_RELEASE);
		/* Reserved and committed in one go: released in one go. Pages are made when touched. */
		region = VirtualAlloc((void *)at, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
		if (region == (void *)at)
			return region;
		if (region)
			(void)VirtualFree(region, 0, MEM_RELEASE);
		else if (GetLastError() != ERROR_INVALID_ADDRESS)
			return NULL;
	}
	return NULL;
}

void urds_region_unmap(void *region, size_t bytes)
{
	BOOL ok = VirtualFree(region, 0, MEM_RELEASE);

	assert(ok);
	(void)ok;
}

void urds_region_decommit(void *part, size_t bytes)
{
	/* Its contents need not be kept; the pages themselves stay ours to write to. */
	(void)VirtualAlloc(part, bytes, MEM_RESET, PAGE_READWRITE);
}
