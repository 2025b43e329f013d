/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/ident.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void find_exe(char *out, size_t size)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *name;
	char *gone;

	if (n <= 0) {
		snprintf(out, size, "?");
		return;
	}
	path[n] = '\0';
	/* What the kernel appends when the file was replaced while running, as upgrades do. */
	gone = strstr(path, " (deleted)");
	if (gone)
		*gone = '\0';
	name = strrchr(path, '/');
	snprintf(out, size, "%.*s", (int)size - 1, name ? name + 1 : path);
}

void urds_ident_self(struct urds_ident *out)
{
	char buf[4096];
	struct passwd pw, *found = NULL;
	uid_t uid = geteuid();

	memset(out, 0, sizeof(*out));
	out->pid = (uint32_t)getpid();
	out->uid = (uint32_t)uid;
	if (getpwuid_r(uid, &pw, buf, sizeof(buf), &found) == 0 && found)
		snprintf(out->user, sizeof(out->user), "%.*s", (int)sizeof(out->user) - 1,
			 pw.pw_name);
	else
		snprintf(out->user, sizeof(out->user), "%u", (unsigned)uid);
	find_exe(out->exe, sizeof(out->exe));
}
