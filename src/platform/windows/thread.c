/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/thread.h"

#include <assert.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>

#include "platform/windows/win.h"
#include "wire/types.h"

struct start {
	void (*fn)(void *arg);
	void *arg;
	wchar_t name[16];
};

static struct urds_once once;
static HRESULT(WINAPI *describe)(HANDLE, PCWSTR); /* Windows 10 */

static void find(void)
{
	describe = (HRESULT(WINAPI *)(HANDLE, PCWSTR))(void (*)(void))urds_win_newer(
		"kernel32.dll", "SetThreadDescription");
}

static unsigned __stdcall run(void *p)
{
	struct start s = *(struct start *)p;

	free(p);
	urds_once(&once, find);
	if (describe)
		(void)describe(GetCurrentThread(), s.name);
	s.fn(s.arg);
	return 0;
}

int urds_thread_start(struct urds_thread *t, const char *name, void (*fn)(void *arg), void *arg)
{
	struct start *s = calloc(1, sizeof(*s));
	uintptr_t h;

	if (!s)
		return -URDS_ENOMEM;
	s->fn = fn;
	s->arg = arg;
	for (size_t i = 0; name[i] && i < sizeof(s->name) / sizeof(s->name[0]) - 1; i++)
		s->name[i] = (unsigned char)name[i];
	h = _beginthreadex(NULL, 0, run, s, 0, NULL);
	if (h == 0) {
		free(s);
		return -URDS_EAGAIN;
	}
	t->handle = h;
	t->is_running = true;
	return 0;
}

void urds_thread_join(struct urds_thread *t)
{
	DWORD rc;

	if (!t->is_running)
		return;
	rc = WaitForSingleObject((HANDLE)t->handle, INFINITE);
	assert(rc == WAIT_OBJECT_0);
	(void)rc;
	CloseHandle((HANDLE)t->handle);
	t->is_running = false;
}

uintptr_t urds_thread_id(void)
{
	return GetCurrentThreadId();
}

void urds_thread_yield(void)
{
	(void)SwitchToThread();
}
