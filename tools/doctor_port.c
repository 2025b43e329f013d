/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who listens on TCP port 16385: /proc/net/tcp names sockets, /proc/PID/fd whose they are.
 */
#include "doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENERS_MAX 64
#define STATE_LISTEN 0x0a

struct listener {
	struct tool_addr at;
	unsigned long inode;
	unsigned uid;
	long pid; /* 0: not found */
	char program[32];
	bool is_any; /* a wildcard */
};

struct listeners {
	struct listener v[LISTENERS_MAX];
	size_t n;
	bool has_hidden; /* processes that this one may not look into */
};

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

static void read_table(struct listeners *l, const char *proc, const char *name)
{
	char path[512], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/net/%s", proc, name);
	f = fopen(path, "re");
	if (!f)
		return; /* without IPv6 there is no tcp6 */
	while (l->n < LISTENERS_MAX && fgets(line, sizeof(line), f)) {
		struct listener q = {0};
		unsigned port, state;
		char hex[33];

		if (sscanf(line,
			   " %*d: %32[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*4x %2x %*x:%*x %*x:%*x %*x %u %*d %lu",
			   hex, &port, &state, &q.uid, &q.inode) != 5 ||
		    port != DOCTOR_PORT || state != STATE_LISTEN || !addr_get(&q.at, hex))
			continue;
		q.is_any = strspn(hex, "0") == strlen(hex);
		l->v[l->n++] = q;
	}
	fclose(f);
}

static void found(struct listener *q, const char *proc, const char *pid)
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

static void look_into(struct listeners *l, const char *proc, const char *pid)
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
			snprintf(wanted, sizeof(wanted), "socket:[%lu]", l->v[i].inode);
			if (l->v[i].pid == 0 && strcmp(target, wanted) == 0)
				found(&l->v[i], proc, pid);
		}
	}
	closedir(dir);
}

static void find_processes(struct listeners *l, const char *proc)
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

/* Is it in the way of the address that matters? */
static bool concerns(const struct doctor *d, const struct listener *q)
{
	return !d->src || q->is_any || tool_addr_same(&q->at, d->src);
}

/* It is urds: not in the way, but the address is taken. */
static bool is_owner(struct doctor *d, const struct listener *q)
{
	struct urds_owner who;
	char text[192];

	if (q->is_any || urds_owner_ident(tool_sa(&q->at), q->at.len, &who) < 0)
		return false;
	tool_owner_text(&who, text, sizeof(text));
	if (!who.answered)
		doctor_say(d, DOCTOR_STOP, "port", "continue it (kill -CONT), or end it",
			   "%s is owned by %s, which does not answer: is it stopped?", q->at.text,
			   text);
	else
		doctor_say(
			d, DOCTOR_OK, "port", NULL,
			"%s is owned by %s: another program cannot own it as well, and the tools use it through that one",
			q->at.text, text);
	return true;
}

static void foreign(struct doctor *d, const struct listeners *l, const struct listener *q,
		    bool kernel_has_rds_tcp)
{
	const char *what = q->is_any ? "every address" : q->at.text;

	if (q->pid)
		doctor_say(
			d, DOCTOR_STOP, "port",
			"end that program, or have it listen on another port: RDS has only this one",
			"pid %ld (%s, uid %u) listens on TCP port %u of %s", q->pid, q->program,
			q->uid, DOCTOR_PORT, what);
	else if (kernel_has_rds_tcp && q->is_any)
		doctor_say(
			d, DOCTOR_STOP, "port",
			"as root: modprobe -r rds_tcp, and a line 'blacklist rds_tcp' in a file of /etc/modprobe.d; or use "
			"the kernel's RDS",
			"the kernel's own RDS (module rds_tcp) listens on TCP port %u of every address",
			DOCTOR_PORT);
	else if (l->has_hidden)
		doctor_say(
			d, DOCTOR_STOP, "port",
			"run this as root to learn which one it is, and end it",
			"a process of uid %u, which this user may not look into, listens on TCP port %u of %s",
			q->uid, DOCTOR_PORT, what);
	else
		doctor_say(
			d, DOCTOR_STOP, "port",
			"look for it on the host, outside of this container",
			"something that is no process here (uid %u) listens on TCP port %u of %s",
			q->uid, DOCTOR_PORT, what);
}

void doctor_port(struct doctor *d, bool kernel_has_rds_tcp)
{
	struct listeners *l = calloc(1, sizeof(*l));
	bool any = false;
	size_t i;

	if (!l) {
		doctor_say(d, DOCTOR_STOP, "port", "free some memory",
			   "no memory to look at listeners");
		return;
	}
	read_table(l, d->proc, "tcp");
	read_table(l, d->proc, "tcp6");
	if (l->n)
		find_processes(l, d->proc);
	for (i = 0; i < l->n; i++) {
		if (!concerns(d, &l->v[i]))
			continue;
		any = true;
		if (!is_owner(d, &l->v[i]))
			foreign(d, l, &l->v[i], kernel_has_rds_tcp);
	}
	if (!any)
		doctor_say(d, DOCTOR_OK, "port", NULL, "nothing listens on TCP port %u of %s",
			   DOCTOR_PORT, d->src ? d->src->text : "any address");
	free(l);
}
