/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the modes of urdspeer share.
 */
#ifndef URDSPEER_H
#define URDSPEER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "system.h"
#include "urds/urds.h"
#include "verify.h"

enum { EXIT_CHECK = 1, EXIT_USAGE = 2, PEERS_MAX = 8 };

struct addr {
	struct sockaddr_storage ss;
	socklen_t len;
	struct vf_end end;
};

struct options {
	struct addr local, peer[PEERS_MAX]; /* only exchange has more than one */
	const char *peer_text[PEERS_MAX];
	bool has_local;
	unsigned npeers;
	const char *sizes;
	uint64_t send, recv, big, empty, recv_big, recv_empty, count, size;
	uint32_t seed;
	unsigned pairs, timeout_s, stall_s, linger_s, hold_s, seconds, window;
	int sndbuf, rcvbuf; /* bytes; 0: the default */
	uint32_t config;    /* URDS_CONFIG_* */
	unsigned paths;
	int argc; /* what is left */
	char **argv;
};

extern const char usage_text[];
/* Exits if they make no sense. */
void parse_options(struct options *o, int argc, char **argv);

extern volatile sig_atomic_t peer_stop; /* SIGTERM or SIGINT came, or Ctrl-C */
extern struct urds_ctx *peer_ctx;

__attribute__((format(PEER_PRINTF, 1, 2))) void say(const char *format, ...);
/* What failed, and why according to urds; exits. */
__attribute__((noreturn, format(PEER_PRINTF, 1, 2))) void fail(const char *format, ...);
struct addr parse_addr(const char *text);
struct addr addr_plus(const struct addr *a, unsigned ports);
bool addr_same(const struct addr *a, const struct sockaddr_storage *ss);
/* A bound socket whose calls wait for at most 100 ms. */
struct urds_sock *open_sock(const struct options *o, const struct addr *local);
/* Waits until nothing of this process is unacknowledged. false: still something after the time. */
bool linger(struct urds_sock *s, unsigned seconds);
/* Lines "counter NAME VALUE" of those that are not 0. */
void say_counters(struct urds_sock *s);
/* Was the failure of a call only that it would have had to wait longer? */
bool only_busy(void);

int mode_exchange(struct options *o);
int mode_echo(struct options *o);

#endif
