/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/windows/win.h"

#include <stdatomic.h>

static _Atomic bool is_old;

void urds_win_pretend_old(void)
{
	atomic_store(&is_old, true);
}

bool urds_win_is_old(void)
{
	return atomic_load(&is_old);
}

FARPROC urds_win_newer(const char *dll, const char *name)
{
	HMODULE m;

	if (urds_win_is_old())
		return NULL;
	/* Loaded for good: threads may be inside its functions at any time. */
	m = LoadLibraryA(dll);
	return m ? GetProcAddress(m, name) : NULL;
}
