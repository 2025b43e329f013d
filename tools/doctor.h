/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds doctor: what would stop urds on this host, or between this host and a peer.
 */
#ifndef URDS_TOOLS_DOCTOR_H
#define URDS_TOOLS_DOCTOR_H

#include "tool.h"

#define DOCTOR_PORT 16385u

struct json_object;

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_STOP };

struct doctor {
	const char *proc;	     /* "/proc", or another one */
	const struct tool_addr *src; /* the address to be owned, or NULL: any */
	struct json_object *checks;  /* NULL: as text */
	bool stops;		     /* something of level STOP was said */
};

/* One finding of @check. @remedy: what to do, or NULL. */
void doctor_say(struct doctor *d, enum doctor_level level, const char *check, const char *remedy,
		const char *fmt, ...) __attribute__((format(TOOL_PRINTF, 5, 6)));

/* ---- doctor_host.c, doctor_port.c: findings about this host */
void doctor_host(struct doctor *d);
/* @kernel_remedy: what to do if the kernel itself listens, NULL where it cannot. */
void doctor_port(struct doctor *d, const char *kernel_remedy);

/* ---- doctor_linux.c, doctor_windows.c: the same, and words of one system */
/* Return: what to do if an RDS over TCP of the kernel listens, or NULL if there is none. */
const char *doctor_kernel(struct doctor *d);
void doctor_limits(struct doctor *d);

/* Remedies. */
extern const struct doctor_words {
	bool has_proc;
	const char *address, *route, *stopped, *hidden, *elsewhere;
} doctor_words;

/* ---- doctor_proc.c, doctor_windows.c: who listens on the port */
#define DOCTOR_LISTENERS_MAX 64

struct doctor_listener {
	struct tool_addr at;
	unsigned long id; /* of the socket, or of its process */
	char user[80];	  /* "uid 1000", "user ora" */
	long pid;	  /* 0: not found */
	char program[64];
	bool is_any; /* a wildcard */
};

struct doctor_listeners {
	struct doctor_listener v[DOCTOR_LISTENERS_MAX];
	size_t n;
	bool has_hidden; /* processes that this one may not look into */
};

void doctor_listeners_get(struct doctor_listeners *l, const char *proc);

/* ---- doctor_peer.c */
enum doctor_verdict {
	DOCTOR_NO_VERDICT, /* could not be found out; said why */
	DOCTOR_NO_ROUTE,
	DOCTOR_FILTERED,
	DOCTOR_REFUSED,
	DOCTOR_CLOSED,
	DOCTOR_NOT_RDS,
	DOCTOR_KERNEL,
	DOCTOR_URDS,
};

struct doctor_peer {
	struct tool_addr src, dest;
	uint64_t limit_ns;
	enum doctor_verdict verdict;
	unsigned version;   /* of an urds end's extension; 0: not known */
	char release[32];   /* of an urds end on this host, else empty */
	uint64_t rtt_ns;    /* of its answer to a ping; 0: none came */
	char text[384];	    /* a sentence: what was seen */
	const char *remedy; /* or NULL */
};

/* @p: src, dest, limit_ns are set. */
void doctor_peer(struct doctor_peer *p);

/* ---- doctor_try.c: TCP alone */
enum doctor_try {
	DOCTOR_TRY_ERROR, /* of this host; errno */
	DOCTOR_TRY_NO_ROUTE,
	DOCTOR_TRY_NO_ANSWER,
	DOCTOR_TRY_REFUSED,
	DOCTOR_TRY_CLOSED, /* accepted, and closed or reset */
	DOCTOR_TRY_TALKS,  /* accepted, and something came */
	DOCTOR_TRY_MUTE,   /* accepted, and nothing came */
};

/* Connects from @src and sends nothing. */
enum doctor_try doctor_try(const struct tool_addr *src, const struct tool_addr *dest,
			   uint64_t limit_ns);

#endif
