/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the examples share: the headers that differ between systems, an address made of text, words about failures.
 */
#ifndef EXAMPLES_NET_H
#define EXAMPLES_NET_H

#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>
#define poll WSAPoll
#else
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <urds/urds.h>

#define PORT 4000

/* Return: 1, or 0 if @text is no IPv4 address. */
static inline int address(const char *text, int port, struct sockaddr_in *out)
{
	memset(out, 0, sizeof *out);
	out->sin_family = AF_INET;
	out->sin_port = htons((unsigned short)port);
	return inet_pton(AF_INET, text, &out->sin_addr) == 1;
}

/* What follows prints why main() ends, and returns its exit status. */

static inline int usage(const char *program, const char *arguments)
{
	fprintf(stderr, "usage: %s %s\n", program, arguments);
	return 2;
}

/* After a call of urds, which explains itself in a sentence. */
static inline int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, urds_reason());
	return 1;
}

static inline int fail_poll(void)
{
	perror("poll");
	return 1;
}

static inline int differs(const char *sent, const char *got, int len)
{
	fprintf(stderr, "sent '%s', got '%.*s'\n", sent, len, got);
	return 1;
}

#endif
