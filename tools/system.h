/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the commands need of the system beyond C, where systems differ: system_posix.c, system_windows.c.
 */
#ifndef URDS_TOOLS_SYSTEM_H
#define URDS_TOOLS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "urds/system.h"

#ifdef _WIN32
/* After <winsock2.h>. */
#include <iphlpapi.h>
#include <mswsock.h>
#define cmsghdr _WSACMSGHDR
#define CMSG_SPACE WSA_CMSG_SPACE
#define CMSG_LEN WSA_CMSG_LEN
typedef SOCKET tool_sock;
#define TOOL_NO_SOCK INVALID_SOCKET
/* The format that our C library's printf really has. */
#define TOOL_PRINTF __gnu_printf__
#else
#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
typedef int tool_sock;
#define TOOL_NO_SOCK (-1)
#define TOOL_PRINTF __printf__
#endif

/* The command that lists the addresses of this host. */
extern const char tool_lists_addresses[];

/* Before anything else, once. Ends us if there can be no start. */
void tool_system_init(void);

/* The command that @argv0 names: without folders, and without ".exe". */
const char *tool_base_name(char *buf, size_t cap, const char *argv0);

/* From here on nothing but tool_ends_wait() notices that the user, or the system, wants this command to end. Before there are
 * threads. */
void tool_ends_block(void);
void tool_ends_wait(void);
/* From here on that is noticed by who asks, and a second time makes no difference. */
void tool_ends_note(void);
/* The same for the first time, and the second one ends us as if nothing had been asked for. */
void tool_ends_note_first(void);
bool tool_ends_noted(void);

/* Is standard output one that understands escape sequences? */
bool tool_is_terminal(void);

/* Several calls of printf() as one: nothing of another thread's comes between. */
void tool_out_lock(void);
void tool_out_unlock(void);

/* Of the calling thread, as the system's own tools name it. */
int tool_thread_id(void);

unsigned tool_page_bytes(void);

/* For the library, too. */
void tool_unset_env(const char *name);

/* Writing to a reader that has gone is an error, and not the end. */
void tool_ignore_broken_pipes(void);

/* Of errno values, and of getaddrinfo()'s. */
const char *tool_strerror(int err);
const char *tool_gai_error(int rc);

uint64_t tool_now_ns(void);
/* Since 1970. */
uint64_t tool_date_ns(void);
bool tool_local_time(time_t t, struct tm *out);

/* Standard input and output as bytes, unchanged. Both wait. Return: bytes, or -1 and errno. */
void tool_bytes(void);
ssize_t tool_read(void *buf, size_t len);
ssize_t tool_write(const void *buf, size_t len);

/* Not for programs that are started from here. */
tool_sock tool_sock_open(int family, int type, bool is_nonblocking);
/* The next connection of a listener; both are non-blocking. TOOL_NO_SOCK: there is none, or see tool_sock_error(). */
tool_sock tool_sock_accept(tool_sock listener, struct sockaddr_in *from);
void tool_sock_close(tool_sock s);
/* As send(); a connection that has gone is an error, and no signal. */
ssize_t tool_sock_send(tool_sock s, const void *buf, size_t len);
/* Why the last call on a socket failed: a value of errno, EINPROGRESS for a connection that is on its way. */
int tool_sock_error(void);
/* Did it fail only because a non-blocking socket would have had to wait, or because of a signal? */
bool tool_sock_would_wait(void);
/* Of a connection that was on its way: 0, or why it failed. */
int tool_sock_pending(tool_sock s);
/* Any address that is not in use now, whatever was there a minute ago. Return: 0 or an errno. */
int tool_sock_bind_again(tool_sock s, const struct sockaddr *sa, socklen_t len);
/* As ppoll() does it; descriptors below 0 are passed over. Without any it sleeps. Return: how many are ready, 0 also after
 * a signal, or -1 and errno when the system will not wait: for one, of more descriptors than the process may have. */
int tool_poll(struct pollfd *v, unsigned n, uint64_t timeout_ns);

#endif
