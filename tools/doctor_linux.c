/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What of a Linux host would stop urds, or make it less useful.
 */
#include "doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The longest message of RDS. */
#define MESSAGE_MAX (1u << 20)
/* An engine without peers takes about ten; each peer takes one more. */
#define FILES_LEAST 32u
#define FILES_USEFUL 1024u

/* Does a line of @name begin with @word and a blank? */
static bool has_line(const struct doctor *d, const char *name, const char *word)
{
	char path[512], line[512];
	size_t n = strlen(word);
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", d->proc, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = strncmp(line, word, n) == 0 && line[n] == ' ';
	fclose(f);
	return found;
}

const char *doctor_kernel(struct doctor *d)
{
	bool has_tcp = has_line(d, "modules", "rds_tcp");
	bool has_rds = has_tcp || has_line(d, "modules", "rds") ||
		       has_line(d, "net/protocols", "RDS");

	if (has_tcp)
		doctor_say(
			d, DOCTOR_WARN, "kernel",
			"as root: modprobe -r rds_tcp, unless programs on this host use the kernel's RDS",
			"the kernel's RDS over TCP (module rds_tcp) is loaded: it takes TCP port %u when a network is set up",
			DOCTOR_PORT);
	else if (has_rds)
		doctor_say(
			d, DOCTOR_OK, "kernel", NULL,
			"the kernel has RDS, without the module for TCP: both can be used side by side");
	else
		doctor_say(d, DOCTOR_OK, "kernel", NULL, "the kernel's RDS is not loaded");
	return has_tcp ? "as root: modprobe -r rds_tcp, and a line 'blacklist rds_tcp' in a file of /etc/modprobe.d; or use "
			 "the kernel's RDS"
		       : NULL;
}

static void files(struct doctor *d)
{
	struct rlimit l;
	char remedy[160];

	if (getrlimit(RLIMIT_NOFILE, &l) < 0) {
		doctor_say(d, DOCTOR_WARN, "files", NULL,
			   "the limit of open files is not known: %s", tool_strerror(errno));
		return;
	}
	if (l.rlim_max == RLIM_INFINITY || l.rlim_max >= FILES_USEFUL)
		snprintf(remedy, sizeof(remedy),
			 "ulimit -n %u, or more: one for each peer, two for each watched socket",
			 l.rlim_max < 65536 ? (unsigned)l.rlim_max : 65536u);
	else
		snprintf(
			remedy, sizeof(remedy),
			"as root raise nofile in /etc/security/limits.conf, or LimitNOFILE= of the service");
	if (l.rlim_cur >= FILES_USEFUL)
		doctor_say(d, DOCTOR_OK, "files", NULL,
			   "%llu files may be open: one is needed for each peer",
			   (unsigned long long)l.rlim_cur);
	else
		doctor_say(d, l.rlim_cur < FILES_LEAST ? DOCTOR_STOP : DOCTOR_WARN, "files", remedy,
			   "only %llu files may be open, and one is needed for each peer",
			   (unsigned long long)l.rlim_cur);
}

/* Number @index (0: the first) of the file @name below proc/sys/; -1: none. */
static long long sysctl_get(const struct doctor *d, const char *name, int index)
{
	char path[512];
	long long v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/sys/%s", d->proc, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	for (int i = 0; i <= index; i++)
		if (fscanf(f, "%lld", &v) != 1)
			v = -1;
	fclose(f);
	return v;
}

static void buffers(struct doctor *d)
{
	static const struct {
		const char *path, *name, *about;
		int index;
	} v[] = {
		{"net/core/wmem_max", "net.core.wmem_max",
		 "bounds SO_SNDBUF, and with it the longest message", 0},
		{"net/core/rmem_max", "net.core.rmem_max",
		 "bounds SO_RCVBUF: what may wait unread in a socket", 0},
		{"net/ipv4/tcp_wmem", "net.ipv4.tcp_wmem",
		 "bounds what TCP has on the way to a peer", 2},
		{"net/ipv4/tcp_rmem", "net.ipv4.tcp_rmem",
		 "bounds what TCP takes from a peer at once", 2},
	};
	bool all = true;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		long long max = sysctl_get(d, v[i].path, v[i].index);
		char remedy[160];

		if (max < 0 || max >= MESSAGE_MAX) /* not readable: not of this network namespace */
			continue;
		all = false;
		if (v[i].index)
			snprintf(remedy, sizeof(remedy),
				 "as root: sysctl -w %s=\"4096 131072 4194304\"", v[i].name);
		else
			snprintf(remedy, sizeof(remedy), "as root: sysctl -w %s=%u", v[i].name,
				 MESSAGE_MAX);
		doctor_say(d, DOCTOR_WARN, "buffers", remedy,
			   "%s is %lld, less than the longest message of RDS (%u): it %s",
			   v[i].name, max, MESSAGE_MAX, v[i].about);
	}
	if (all)
		doctor_say(d, DOCTOR_OK, "buffers", NULL,
			   "the system's bounds of buffers leave room for the longest message");
}

void doctor_limits(struct doctor *d)
{
	files(d);
	buffers(d);
}

const struct doctor_words doctor_words = {
	.has_proc = true,
	.address =
		"choose one that 'ip address' lists, or add it: ip address add ADDR/PREFIX dev INTERFACE",
	.route = "see 'ip route get' with its address; is the interface up, and is there a route?",
	.stopped = "continue it (kill -CONT), or end it",
	.hidden = "run this as root to learn which one it is, and end it",
	.elsewhere = "look for it on the host, outside of this container",
};
