/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/host.h"

#include <stdio.h>
#include <unistd.h>

uint64_t urds_host_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

uint64_t urds_host_buf_max(bool to_send)
{
	FILE *f = fopen(to_send ? "/proc/sys/net/core/wmem_max" : "/proc/sys/net/core/rmem_max",
			"re");
	unsigned long v;
	bool is_known;

	if (!f)
		return UINT64_MAX;
	is_known = fscanf(f, "%lu", &v) == 1;
	fclose(f);
	return is_known ? v : UINT64_MAX;
}
