/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/cpu.h"

#include "platform/windows/win.h"

int urds_cpu_current(void)
{
	PROCESSOR_NUMBER n;

	GetCurrentProcessorNumberEx(&n);
	return n.Group * 64 + n.Number;
}
