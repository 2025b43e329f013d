/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/ident.h"

#include <stdio.h>
#include <string.h>

#include "platform/windows/win.h"

/* @text in UTF-8, cut between two characters if it does not fit; "?" if it is none. */
static void put(char *out, size_t size, const wchar_t *text)
{
	char utf8[MAX_PATH * 4];
	size_t n;

	if (WideCharToMultiByte(CP_UTF8, 0, text, -1, utf8, sizeof(utf8), NULL, NULL) <= 0) {
		snprintf(out, size, "?");
		return;
	}
	n = strlen(utf8);
	if (n >= size) {
		n = size - 1;
		while (n > 0 && ((unsigned char)utf8[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(out, utf8, n);
	out[n] = '\0';
}

void urds_ident_self(struct urds_ident *out)
{
	wchar_t user[257] = L"?", path[MAX_PATH] = L"?", *name;
	DWORD n = sizeof(user) / sizeof(user[0]);

	memset(out, 0, sizeof(*out));
	out->pid = (uint32_t)GetCurrentProcessId();
	if (!GetUserNameW(user, &n))
		wcscpy(user, L"?");
	put(out->user, sizeof(out->user), user);
	/* Of a longer path the end is missing, and with it the name. */
	n = GetModuleFileNameW(NULL, path, MAX_PATH);
	if (n == 0 || n == MAX_PATH)
		wcscpy(path, L"?");
	name = wcsrchr(path, L'\\');
	put(out->exe, sizeof(out->exe), name ? name + 1 : path);
}
