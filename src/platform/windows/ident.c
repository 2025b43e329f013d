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

/* @n: characters of @path; of a longer path the end is missing, and with it the name. */
static void put_exe(struct urds_ident *out, const wchar_t *path, DWORD n)
{
	const wchar_t *name = wcsrchr(path, L'\\');

	put(out->exe, sizeof(out->exe), n == 0 || n == MAX_PATH ? L"?" : name ? name + 1 : path);
}

void urds_ident_self(struct urds_ident *out)
{
	wchar_t user[257] = L"?", path[MAX_PATH] = L"";
	DWORD n = sizeof(user) / sizeof(user[0]);

	memset(out, 0, sizeof(*out));
	out->pid = (uint32_t)GetCurrentProcessId();
	if (!GetUserNameW(user, &n))
		wcscpy(user, L"?");
	put(out->user, sizeof(out->user), user);
	n = GetModuleFileNameW(NULL, path, MAX_PATH);
	put_exe(out, path, n);
}

union token_user {
	TOKEN_USER u;
	char room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
};

static bool user_of(HANDLE process, union token_user *out)
{
	HANDLE token;
	DWORD n;
	bool ok;

	if (!OpenProcessToken(process, TOKEN_QUERY, &token))
		return false;
	ok = GetTokenInformation(token, TokenUser, out, sizeof(*out), &n);
	CloseHandle(token);
	return ok;
}

bool urds_ident_of(uint32_t pid, struct urds_ident *out)
{
	HANDLE p = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid);
	wchar_t user[257], domain[257], path[MAX_PATH];
	DWORD nu = 257, nd = 257, n = MAX_PATH;
	union token_user theirs, ours;
	SID_NAME_USE use;
	bool is_ours = false;

	memset(out, 0, sizeof(*out));
	out->pid = pid;
	snprintf(out->user, sizeof(out->user), "?");
	snprintf(out->exe, sizeof(out->exe), "?");
	if (!p)
		return false;
	if (QueryFullProcessImageNameW(p, 0, path, &n))
		put_exe(out, path, n);
	if (user_of(p, &theirs)) {
		if (LookupAccountSidW(NULL, theirs.u.User.Sid, user, &nu, domain, &nd, &use))
			put(out->user, sizeof(out->user), user);
		is_ours = user_of(GetCurrentProcess(), &ours) &&
			  EqualSid(theirs.u.User.Sid, ours.u.User.Sid);
	}
	CloseHandle(p);
	return is_ours;
}
