/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * exit() of the C library that the program uses runs its list first; then ExitProcess() ends all other threads, wherever
 * they are, and only after that a DLL is told. So what is to happen at exit while our threads still run has to be on
 * the program's own list, not on that of this DLL.
 */
#include "platform/process.h"

#include <stdlib.h>

#include "platform/errno.h"
#include "platform/thread.h"
#include "platform/windows/win.h"

static struct urds_once once;
static int started;

static void start(void)
{
	WSADATA wsa;

	started = -urds_err_from_system((unsigned long)WSAStartup(MAKEWORD(2, 2), &wsa));
}

/* For good: descriptors of ours may be in use until the very end. */
int urds_process_init(void)
{
	urds_once(&once, start);
	return started;
}

/* Each C library has a list of its own. The program's may be any of those it has loaded; @fn is told by all that end
 * by exit(). */
static const struct {
	const char *dll, *name;
} lists[] = {
	{"msvcrt.dll", "_onexit"},
	{"ucrtbase.dll", "_crt_atexit"},
};

void urds_at_exit(void (*fn)(void))
{
	HMODULE self, m;

	/* From here on this module must not be unloaded. */
	(void)GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
					 GET_MODULE_HANDLE_EX_FLAG_PIN,
				 (const char *)(uintptr_t)fn, &self);
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		/* Both take a function without arguments, whatever it returns. */
		void *(*add)(void (*)(void)) = NULL;

		m = GetModuleHandleA(lists[i].dll);
		if (m)
			add = (void *(*)(void (*)(void)))(void (*)(void))GetProcAddress(
				m, lists[i].name);
		if (add)
			(void)add(fn);
	}
}
