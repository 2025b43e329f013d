/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What of a Windows host would stop urds: it has no RDS of its own, and no bounds that matter, but a table of who listens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

const char *doctor_kernel(struct doctor *d)
{
	doctor_say(d, DOCTOR_OK, "kernel", NULL, "Windows has no RDS that could be in the way");
	return NULL;
}

void doctor_limits(struct doctor *d)
{
	doctor_say(d, DOCTOR_OK, "files", NULL, "Windows does not bound the sockets of a process");
	doctor_say(d, DOCTOR_OK, "buffers", NULL,
		   "Windows does not bound the buffers that a program asks for");
}

/* False: nobody of that name, or the process is hidden. */
static bool user_of(HANDLE process, char *buf, size_t cap)
{
	char name[64], domain[64], token[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
	DWORD name_len = sizeof(name), domain_len = sizeof(domain), len;
	SID_NAME_USE use;
	HANDLE t;
	bool ok;

	if (!OpenProcessToken(process, TOKEN_QUERY, &t))
		return false;
	ok = GetTokenInformation(t, TokenUser, token, sizeof(token), &len) &&
	     LookupAccountSidA(NULL, ((TOKEN_USER *)(void *)token)->User.Sid, name, &name_len,
			       domain, &domain_len, &use);
	CloseHandle(t);
	if (ok)
		snprintf(buf, cap, "user %s", name);
	return ok;
}

static void add(struct doctor_listeners *l, const struct sockaddr *sa, socklen_t len, bool is_any,
		DWORD pid)
{
	struct doctor_listener *q = &l->v[l->n];
	char path[512];
	DWORD path_len = sizeof(path);
	HANDLE process;

	if (l->n == DOCTOR_LISTENERS_MAX)
		return;
	l->n++;
	tool_addr_set(&q->at, sa, len);
	q->is_any = is_any;
	q->id = pid;
	q->pid = (long)pid;
	snprintf(q->program, sizeof(q->program), "?");
	snprintf(q->user, sizeof(q->user), "of a user that this one may not ask for");
	process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid);
	if (!process)
		return;
	if (QueryFullProcessImageNameA(process, 0, path, &path_len))
		tool_base_name(q->program, sizeof(q->program), path);
	user_of(process, q->user, sizeof(q->user));
	CloseHandle(process);
}

/* In memory to be freed; NULL: there is none. */
static void *table(ULONG family)
{
	DWORD size = 4096, rc;
	void *t = NULL;

	do {
		free(t);
		t = malloc(size);
		rc = t ? GetExtendedTcpTable(t, &size, FALSE, family, TCP_TABLE_OWNER_PID_LISTENER,
					     0)
		       : NO_ERROR;
	} while (rc == ERROR_INSUFFICIENT_BUFFER);
	if (rc != NO_ERROR) {
		free(t);
		t = NULL;
	}
	return t;
}

/* Ports are in the lower two bytes, in network order. */
static bool is_ours(DWORD port)
{
	return ntohs((u_short)port) == DOCTOR_PORT;
}

void doctor_listeners_get(struct doctor_listeners *l, const char *proc)
{
	MIB_TCPTABLE_OWNER_PID *four = table(AF_INET);
	MIB_TCP6TABLE_OWNER_PID *six = table(AF_INET6);

	for (DWORD i = 0; four && i < four->dwNumEntries; i++) {
		struct sockaddr_in sin = {.sin_family = AF_INET};

		sin.sin_addr.s_addr = four->table[i].dwLocalAddr;
		if (is_ours(four->table[i].dwLocalPort))
			add(l, (struct sockaddr *)&sin, sizeof(sin), !sin.sin_addr.s_addr,
			    four->table[i].dwOwningPid);
	}
	for (DWORD i = 0; six && i < six->dwNumEntries; i++) {
		struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};

		memcpy(&sin6.sin6_addr, six->table[i].ucLocalAddr, 16);
		sin6.sin6_scope_id = six->table[i].dwLocalScopeId;
		if (is_ours(six->table[i].dwLocalPort))
			add(l, (struct sockaddr *)&sin6, sizeof(sin6),
			    IN6_IS_ADDR_UNSPECIFIED(&sin6.sin6_addr), six->table[i].dwOwningPid);
	}
	free(four);
	free(six);
}

const struct doctor_words doctor_words = {
	.has_proc = false,
	.address = "choose one that 'ipconfig' lists, or add it: netsh interface ip add address",
	.route = "see 'route print'; is the interface up, and is there a route?",
	.stopped = "continue it, or end it in the task manager",
	.hidden = "run this as administrator to learn which one it is, and end it",
	.elsewhere = "look for it with 'netstat -ano', as administrator",
};
