/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who listens on TCP port 16385 of Linux: /proc/net/tcp names sockets, /proc/PID/fd whose they are.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

#define STATE_LISTEN 0x0a

/* Words of 32 bits in the host's order, in hex: 1 (IPv4) or 4 (IPv6). */
static bool addr_get(struct tool_addr *out, const char *hex)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	uint32_t word[4] = {0};
	size_t n = strlen(hex) / 8, i;

	if ((n != 1 && n != 4) || strlen(hex) % 8)
		return false;
	for (i = 0; i < n; i++) {
		char part[9] = {0};

		memcpy(part, hex + 8 * i, 8);
		word[i] = (uint32_t)strtoul(part, NULL, 16);
	}
	memcpy(&four.sin_addr, &word[0], 4);
	memcpy(&six.sin6_addr, word, 16);
	if (n == 4 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
		memcpy(&four.sin_addr, &word[3], 4);
		n = 1;
	}
	if (n == 1)
		tool_addr_set(out, (struct sockaddr *)&four, sizeof(four));
	else
		tool_addr_set(out, (struct sockaddr *)&six, sizeof(six));
	return true;
}

static void read_table(struct doctor_listeners *l, const char *proc, const char *name)
{
	char path[512], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/net/%s", proc, name);
	f = fopen(path, "re");
	if (!f)
		return; /* without IPv6 there is no tcp6 */
	while (l->n < DOCTOR_LISTENERS_MAX && fgets(line, sizeof(line), f)) {
		struct doctor_listener q = {0};
		unsigned port, state, uid;
		unsigned long inode;
		char hex[33];

		if (sscanf(line,
			   " %*d: %32[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*4x %2x %*x:%*x %*x:%*x %*x %u %*d %lu",
			   hex, &port, &state, &uid, &inode) != 5 ||
		    port != DOCTOR_PORT || state != STATE_LISTEN || !addr_get(&q.at, hex))
			continue;
		q.id = inode;
		snprintf(q.user, sizeof(q.user), "uid %u", uid);
		q.is_any = strspn(hex, "0") == strlen(hex);
		l->v[l->n++] = q;
	}
	fclose(f);
}

static void found(struct doctor_listener *q, const char *proc, const char *pid)
{
	char path[512];
	FILE *f;

	q->pid = atol(pid);
	snprintf(q->program, sizeof(q->program), "?");
	snprintf(path, sizeof(path), "%s/%s/comm", proc, pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(q->program, sizeof(q->program), f))
		q->program[strcspn(q->program, "\n")] = '\0';
	fclose(f);
}

static void look_into(struct doctor_listeners *l, const char *proc, const char *pid)
{
	char path[768], target[64], wanted[64];
	struct dirent *e;
	DIR *dir;
	size_t i;

	snprintf(path, sizeof(path), "%s/%s/fd", proc, pid);
	dir = opendir(path);
	if (!dir) {
		l->has_hidden = true;
		return;
	}
	while ((e = readdir(dir)) != NULL) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s/fd/%s", proc, pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		for (i = 0; i < l->n; i++) {
			snprintf(wanted, sizeof(wanted), "socket:[%lu]", l->v[i].id);
			if (l->v[i].pid == 0 && strcmp(target, wanted) == 0)
				found(&l->v[i], proc, pid);
		}
	}
	closedir(dir);
}

static void find_processes(struct doctor_listeners *l, const char *proc)
{
	struct dirent *e;
	DIR *dir = opendir(proc);

	l->has_hidden = !dir;
	if (!dir)
		return;
	while ((e = readdir(dir)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]))
			look_into(l, proc, e->d_name);
	closedir(dir);
}

void doctor_listeners_get(struct doctor_listeners *l, const char *proc)
{
	read_table(l, proc, "tcp");
	read_table(l, proc, "tcp6");
	if (l->n)
		find_processes(l, proc);
}
