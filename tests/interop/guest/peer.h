/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the modes of rdspeer share: kernel RDS sockets, addresses, time, lines of output. */
#ifndef RDSPEER_PEER_H
#define RDSPEER_PEER_H

#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "checker.h"

/* Numbers of the kernel's interface, written down here so that no header is needed. */
#define RDS_FAMILY 21
#define RDS_LEVEL 276
#define RDS_OPT_CONG_MONITOR 6
#define RDS_CMSG_CONG 5
#define RDS_INFO_FIRST 10000
#define RDS_INFO6_SEND 10012
#define RDS_INFO6_RETRANS 10013

enum { EXIT_CHECK = 1, EXIT_USAGE = 2 };

struct addr {
	struct sockaddr_storage ss;
	socklen_t len;
};

struct options {
	struct addr local, peer;
	bool has_local, has_peer;
	const char *source, *file, *sizes, *fault;
	uint64_t send, recv, big, empty, recv_big, recv_empty, count, size;
	uint32_t seed;
	unsigned pairs, timeout_s, stall_s, linger_s, hold_s, seconds;
	unsigned interval_ms;
	int sndbuf, rcvbuf; /* bytes, 0: the system's default */
	bool no_monitor, raw;
	int argc; /* what is left */
	char **argv;
};

extern volatile sig_atomic_t peer_stop; /* SIGTERM or SIGINT came */

/* One line to standard output, flushed. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* One line to standard error with errno, and exit. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
int64_t now_ms(void);

/* Exits on text that is no address.  @need_port: "A" alone is refused, else it means port 0. */
struct addr parse_addr(const char *text, bool need_port);
const char *addr_text(const struct addr *a); /* of the last eight calls */
uint16_t addr_port(const struct addr *a);
struct addr addr_with_port(const struct addr *a, uint16_t port);
bool addr_equal(const struct addr *a, const struct addr *b);
struct stream_end addr_end(const struct addr *a);

/* A bound non-blocking socket; exits on failure. */
int rds_socket(const struct addr *local, const struct options *o);
/* Return: bytes; -1: nothing now (errno EAGAIN or ENOBUFS: congested). Exits on other failures. */
ssize_t rds_send(int fd, const void *buf, size_t len, const struct addr *to);
/* Return: bytes; -1: nothing now; -2: no message, but *@cong has the ports (modulo 64) that
 * cleared. */
ssize_t rds_recv(int fd, void *buf, size_t room, struct addr *from, uint64_t *cong);
/* Messages of socket @local that the peer's kernel has not acknowledged; -1: cannot tell. */
int rds_unacked(int fd, const struct addr *local);
/* An info list. Return: bytes in *@out (malloc'ed), *@item the size of one; -1 with errno. */
ssize_t rds_info(int fd, int id, uint8_t **out, size_t *item);
/* Waits until @local's messages are acknowledged, at most @limit_ms. */
void rds_linger(int fd, const struct addr *local, unsigned limit_ms);

int mode_exchange(struct options *o);
int mode_info(struct options *o);
int mode_selfcheck(struct options *o);

#endif
