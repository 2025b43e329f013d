/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/cpu.h"

#include <sched.h>

int urds_cpu_current(void)
{
	return sched_getcpu();
}
