/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/host.h"

#include "platform/windows/win.h"

uint64_t urds_host_memory(void)
{
	MEMORYSTATUSEX m = {.dwLength = sizeof m};

	return GlobalMemoryStatusEx(&m) ? m.ullTotalPhys : 0;
}

/* There is no such limit. */
uint64_t urds_host_buf_max(bool to_send)
{
	return UINT64_MAX;
}
