/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the subcommands share: messages, addresses as users write them, sources chosen by routing. A
 * tool uses the public headers, libc and system.h, nothing else.
 */
#ifndef URDS_TOOLS_TOOL_H
#define URDS_TOOLS_TOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "system.h"
#include "urds/owner.h"
#include "urds/urds.h"

/* Exit codes of all tools but ping and info, which have those of rds-ping and rds-info (0 and 1). */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

int tool_listen(int argc, char **argv);
int tool_ping(int argc, char **argv);
int tool_cat(int argc, char **argv);
int tool_doctor(int argc, char **argv);
int tool_demo(int argc, char **argv);
int tool_info(int argc, char **argv);
int tool_stress(int argc, char **argv);

extern const char *tool_name; /* "urds cat", "rds-ping": starts every message */

/* "NAME: message" on stderr. */
void tool_error(const char *fmt, ...) __attribute__((format(TOOL_PRINTF, 1, 2)));

/* What was printed goes out. Blocks as the reader does. Return: 0, or -1 (said the first time) if this, or anything printed
 * before, did not. */
int tool_flush(void);

/* For --help and --version: prints to stdout, returns the exit code. */
int tool_print(const char *text);
int tool_version(void);

/* A bad command line: message, how to get help. Returns TOOL_USAGE. */
int tool_usage(const char *fmt, ...) __attribute__((format(TOOL_PRINTF, 1, 2)));

#define TOOL_ADDR_TEXT 64

struct tool_addr {
	struct sockaddr_storage sa;
	socklen_t len;
	char text[TOOL_ADDR_TEXT]; /* numeric, without port */
};

/* Numbers or a name; @family AF_UNSPEC, AF_INET or AF_INET6. NULL, or why not. */
const char *tool_resolve(struct tool_addr *out, const char *text, int family);
/* "ADDR:PORT", "[IPV6]:PORT", "NAME:PORT". NULL, or why not. */
const char *tool_endpoint(struct tool_addr *out, const char *text);
void tool_addr_set(struct tool_addr *out, const struct sockaddr *sa, socklen_t len);
bool tool_addr_same(const struct tool_addr *a, const struct tool_addr *b); /* ports aside */
void tool_port_set(struct tool_addr *a, uint16_t port);
uint16_t tool_port(const struct tool_addr *a);

/* The address packets to @dest would leave from. 0, or an errno. */
int tool_route(struct tool_addr *out, const struct tool_addr *dest);

const struct sockaddr *tool_sa(const struct tool_addr *a);

/* A number in C notation with an optional suffix k, m or g (x1024). -1: not a number. */
long long tool_number(const char *text);

/* "4711 (oracle, user ora)" */
const char *tool_owner_text(const struct urds_owner *o, char *buf, size_t cap);

#endif
