/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds - Reliable Datagram Sockets in user mode: the public interface.
 *
 * A socket is bound to one local address and port and exchanges reliable, ordered datagrams with
 * sockets at any other address; all traffic between two addresses shares one connection, which is made,
 * kept and repaired behind the scenes. The calls mirror those of an AF_RDS socket: they return what
 * the socket call returns, and on failure -1 with errno set (urds_errno() is the same on all systems).
 *
 * Threads: every function may be called from any thread, on one socket from several threads at once,
 * unless its comment says otherwise.
 * Signals: urds_open(), urds_shutdown(), urds_claim(), urds_socket() and urds_reset() are not for signal handlers; the
 * others fail with EAGAIN in a handler that interrupted another call at its work.
 * Windows: the same calls with Winsock's types; urds/system.h adds what Winsock lacks. Times are a struct timeval there
 * too. Winsock is started by the first urds_open().
 * Fork: in a child all contexts of the parent are dead; calls on them fail with EBADF. The child
 * may open its own.
 */
#ifndef URDS_URDS_H
#define URDS_URDS_H

#include <stddef.h>
#include <stdint.h>

#include "urds/errno.h"
#include "urds/peer.h"
#include "urds/system.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define URDS_API __attribute__((visibility("default")))
#else
#define URDS_API
#endif

/* The numbers of <linux/rds.h>, under names that do not collide with it. */
#define URDS_SOL_RDS 276
#define URDS_OPT_CANCEL_SENT_TO 1 /* set: sockaddr. Drops unacknowledged messages to it */
#define URDS_OPT_RECVERR 5
#define URDS_OPT_CONG_MONITOR 6
#define URDS_OPT_TRANSPORT 8 /* SO_RDS_TRANSPORT. get: 2 TCP, 3 loopback (127/8, ::1), -1 unbound */
#define URDS_OPT_UNACKED \
	30001 /* urds's own. get: messages sent, and neither acknowledged nor cancelled */

#define URDS_INFO_COUNTERS 10000
#define URDS_INFO_CONNECTIONS 10001
#define URDS_INFO_SEND_MESSAGES 10003
#define URDS_INFO_RETRANS_MESSAGES 10004
#define URDS_INFO_RECV_MESSAGES 10005
#define URDS_INFO_SOCKETS 10006
#define URDS_INFO_TCP_SOCKETS 10007
#define URDS_INFO6_CONNECTIONS 10011
#define URDS_INFO6_SEND_MESSAGES 10012
#define URDS_INFO6_RETRANS_MESSAGES 10013
#define URDS_INFO6_RECV_MESSAGES 10014
#define URDS_INFO6_SOCKETS 10015
#define URDS_INFO6_TCP_SOCKETS 10016
/* URDS_INFO_PEERS, urds's own: urds/peer.h */

struct urds_ctx;
struct urds_sock;

#define URDS_CONFIG_NO_EXT 0x01u    /* behave as a kernel on the wire: no urds extension */
#define URDS_CONFIG_NO_SPIN 0x02u   /* never spin before sleeping */
#define URDS_CONFIG_NO_RECORD 0x04u /* take no ownership record (tests) */

#define URDS_CONFIG_NO_TCP_ACKS \
	0x10u /* ask kernels what they have, as if TCP did not say (tests) */
#define URDS_CONFIG_NO_THREADS \
	0x08u /* start no thread: the program's event loop calls urds_progress() */

/* Set @size = sizeof(struct urds_config) and zero the rest: 0 means the default of each field. */
struct urds_config {
	size_t size;
	uint32_t flags;	    /* URDS_CONFIG_* */
	uint32_t paths;	    /* connections per peer that we offer, 1, 2, 4 or 8; default 1 */
	uint32_t spin_us;   /* longest spin before a blocking receive sleeps; default 50 */
	uint32_t tcp_port;  /* default 16385; another one only for closed experiments */
	uint32_t peers_max; /* peers remembered at once; default 131072 */
	uint32_t reserved[7];
	uint64_t memory_max; /* bytes of message memory; default 1/4 of the machine's */
	const char *
		peers; /* networks to talk to, "10.0.0.0/8,fd00::/8,192.0.2.7"; NULL or "": all. Connections from
			      * others are reset before anything is kept of them, sends to others fail with EACCES */
};

/**
 * urds_open() - make a context: an instance of the engine, which owns the addresses its sockets bind.
 * @cfg: settings, copied; NULL for defaults and the URDS_* environment variables.
 * @out: the context.
 * Return: 0, or -1 with EINVAL, ENOMEM, EMFILE. Nothing is listened on before the first bind.
 */
URDS_API int urds_open(const struct urds_config *cfg, struct urds_ctx **out);

/**
 * urds_shutdown() - close a context and all its sockets.
 * Stops accepting, flushes queued messages for up to 2 s (to peers that are connected or being connected to; 0.3 s to
 * those that refuse), closes its connections in order. Blocking
 * calls in other threads return EBADF. Those that work on @ctx itself (urds_progress() and such) are waited for, and fail
 * with EBADF from here on, as long as not 16 more contexts were shut down. @ctx NULL: the process default. At exit this
 * happens by itself.
 * Return: 0, or -1 with EBADF: it was shut down, or another thread is doing that; or it is the parent's, in a fork child.
 */
URDS_API int urds_shutdown(struct urds_ctx *ctx);

/**
 * urds_context_fd() - what an event loop watches in place of threads of ours.
 * @ctx: one with URDS_CONFIG_NO_THREADS.
 *
 * The descriptor is readable, level-triggered, while urds_progress() has something to do. It stays the same, belongs to
 * the context, and is closed with it; only watch it. So do not sit in a poll of it while another thread shuts the context
 * down: nothing ends that poll.
 *
 * Return: the descriptor, or -1 with EINVAL (a context with threads, or NULL), EMFILE, ENOMEM, EBADF (shut down; in a fork child),
 * EOPNOTSUPP (Windows: call urds_progress() whenever the time that it returned has passed, and every few ms while something
 * is expected).
 */
URDS_API int urds_context_fd(struct urds_ctx *ctx);

/**
 * urds_progress() - do what there is to do in a context without threads: accept and make connections, read and acknowledge
 * what came, send what can go, answer other processes. Does not block. Connections live by it: a context that nobody drives
 * for seconds is dead to its peers. Blocking calls of this context work, and drive it while they wait.
 * Any thread; of two at once one returns at once.
 * Return: milliseconds after which it is to be called again although the descriptor is not readable then (who watches
 * that need not care: it becomes readable), INT_MAX: none; or -1 with EINVAL, EBADF (as above), EAGAIN (a handler).
 */
URDS_API int urds_progress(struct urds_ctx *ctx);

/**
 * urds_claim() - own an address without binding a socket: accept its connections, answer its pings.
 * Return: 0, or -1 with EADDRNOTAVAIL, EADDRINUSE (urds_reason() names the owner), EINVAL, EACCES, EMFILE, EAGAIN (no
 * thread could be started), ENOMEM, EBADF.
 */
URDS_API int urds_claim(struct urds_ctx *ctx, const struct sockaddr *addr, socklen_t len);

/* One sentence about the last failure in this thread: what was tried, on what, what to do. Never
 * NULL; valid until the next call of this thread. */
URDS_API const char *urds_reason(void);

/* The portable number (enum urds_err) of the last failure in this thread. */
URDS_API int urds_errno(void);

/**
 * urds_socket() - a new, unbound socket of @ctx (NULL: the process default, opened when needed).
 * Return: the socket, to be closed with urds_close(), or NULL with ENOMEM, EBADF; for the default context also with
 * what urds_open() fails with.
 */
URDS_API struct urds_sock *urds_socket(struct urds_ctx *ctx);

/**
 * urds_close() - end a socket.
 * Unbinds, drops what was received and not read, cancels what was sent and not acknowledged (which may be all of it: to
 * have it sent out, set SO_LINGER, wait for an answer, or leave the socket to urds_shutdown() or the end of the program).
 * Calls of other threads that wait on @s return EBADF.
 *
 * With SO_LINGER (a struct linger with l_onoff, and l_linger seconds above 0; below 0 is for ever) it waits so long for
 * everything to be acknowledged, urds_set_nonblock() or not. Calls of other threads fail with EBADF from its beginning on.
 *
 * Return: 0: with SO_LINGER all that was sent is acknowledged (or was cancelled before); or -1 with EBADF, EAGAIN (a
 * handler; with SO_LINGER also one that interrupted a waiting call). With SO_LINGER also, the socket being closed and the rest cancelled
 * all the same, ETIMEDOUT: the time is over; EINTR; EBADF: its context was shut down meanwhile.
 */
URDS_API int urds_close(struct urds_sock *s);

/**
 * urds_bind() - take a local address (never 0.0.0.0) and port (0: a free one).
 * Return: 0, or -1 with EINVAL (malformed, port 1, already bound), EADDRNOTAVAIL (not an address of
 * this host; ENOPROTOOPT if URDS_OPT_TRANSPORT was set), EADDRINUSE (port taken, or another process owns the address: see
 * urds_reason()), EACCES, EMFILE, EAGAIN (no thread could be started), ENOMEM, EBADF.
 */
URDS_API int urds_bind(struct urds_sock *s, const struct sockaddr *addr, socklen_t len);

/* Sets the default destination; local only, repeatable, filters nothing. -1 with EINVAL, EAFNOSUPPORT, EDESTADDRREQ
 * (0.0.0.0), EPROTOTYPE (IPv6, not unicast), EBADF. urds_getpeername(): ENOTCONN before that. */
URDS_API int urds_connect(struct urds_sock *s, const struct sockaddr *addr, socklen_t len);
URDS_API int urds_getsockname(struct urds_sock *s, struct sockaddr *addr, socklen_t *len);
URDS_API int urds_getpeername(struct urds_sock *s, struct sockaddr *addr, socklen_t *len);

/**
 * urds_sendmsg() - queue one datagram for reliable, in-order delivery.
 * @flags: MSG_DONTWAIT, URDS_MSG_MORE, or 0; others fail with EOPNOTSUPP.
 *
 * Success means queued, not delivered: the payload is copied before return and counts against
 * SO_SNDBUF until the peer acknowledged it. Length 0 is a real message; port 0 is a ping, answered
 * by an empty message from port 0. An unreachable peer is no error: messages wait for it.
 *
 * Return: payload bytes, or -1 with
 *   EAGAIN      no room in the send buffer (non-blocking)
 *   ENOBUFS     the destination port is congested (non-blocking)
 *   ETIMEDOUT   SO_SNDTIMEO expired while waiting for either
 *   EMSGSIZE    longer than SO_SNDBUF or 1 MiB
 *   EACCES      to an address in none of urds_config.peers
 *   ENOTCONN    unbound, or no destination
 *   EINVAL, EOPNOTSUPP, EINTR, ENOMEM, EBADF
 * Blocks: while full or congested, unless MSG_DONTWAIT or urds_set_nonblock().
 */
URDS_API ssize_t urds_sendmsg(struct urds_sock *s, const struct msghdr *msg, int flags);
URDS_API ssize_t urds_sendto(struct urds_sock *s, const void *buf, size_t len, int flags,
			     const struct sockaddr *to, socklen_t tolen);
URDS_API ssize_t urds_send(struct urds_sock *s, const void *buf, size_t len, int flags);

#define URDS_MSG_MORE \
	0x8000 /* more will follow at once: the message may wait for them, 50 us, in a long stream some 250 us */

/**
 * urds_recvmsg() - take the next datagram.
 * @flags: MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC.
 * A longer datagram is cut: MSG_TRUNC is set and the rest is lost.
 * Return: bytes copied (with MSG_TRUNC given: the datagram's length), or -1 with EAGAIN, ETIMEDOUT
 * (SO_RCVTIMEO), EINTR, EBADF, or ENOBUFS: once after the queue was discarded because a peer ignored congestion.
 */
URDS_API ssize_t urds_recvmsg(struct urds_sock *s, struct msghdr *msg, int flags);
URDS_API ssize_t urds_recvfrom(struct urds_sock *s, void *buf, size_t len, int flags,
			       struct sockaddr *from, socklen_t *fromlen);
URDS_API ssize_t urds_recv(struct urds_sock *s, void *buf, size_t len, int flags);

/* Several datagrams per call. @len of each: bytes sent or received. Return: how many, at least 1, or -1
 * as for a single one. Receiving blocks for the first only. */
struct urds_mmsg {
	struct msghdr hdr;
	size_t len;
};
URDS_API int urds_send_batch(struct urds_sock *s, struct urds_mmsg *v, unsigned n, int flags);
URDS_API int urds_recv_batch(struct urds_sock *s, struct urds_mmsg *v, unsigned n, int flags);

/* SOL_SOCKET: SO_SNDBUF, SO_RCVBUF (and the FORCE forms), SO_SNDTIMEO, SO_RCVTIMEO, SO_LINGER, SO_TIMESTAMP,
 * SO_ERROR, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_REUSEADDR (no effect). URDS_SOL_RDS: URDS_OPT_* and,
 * for get, URDS_INFO_*, which return the size of one element (> 0). */
URDS_API int urds_setsockopt(struct urds_sock *s, int level, int opt, const void *val,
			     socklen_t len);
URDS_API int urds_getsockopt(struct urds_sock *s, int level, int opt, void *val, socklen_t *len);
URDS_API int urds_set_nonblock(struct urds_sock *s, int on);

/* A descriptor for poll, select and epoll (on Windows a SOCKET, for WSAPoll, select and WSAEventSelect): readable when a datagram waits, writable when the send
 * buffer has room. Owned by the socket; never read, write or close it. -1 with EMFILE, EBADF. */
URDS_API int urds_fd(struct urds_sock *s);

/**
 * urds_wait() - wait until @s is ready.
 * @events: POLLIN, POLLOUT. @timeout_ms: -1 for ever.
 * Return: the ready ones of @events, 0 after the time, or -1 with EINTR, EBADF.
 */
URDS_API int urds_wait(struct urds_sock *s, int events, int timeout_ms);

/**
 * urds_reset() - break the connections between two addresses, as a network failure would.
 * Queued messages stay; the connection is made anew and they are sent again. For tests and operators.
 * Return: connections broken, or -1 with EINVAL, EBADF, or ENOTCONN when there is no such peer.
 */
URDS_API int urds_reset(struct urds_ctx *ctx, const struct sockaddr *local,
			const struct sockaddr *peer);

URDS_API const char *urds_version(void);

/* The last error of a peer, @p->fault: one word, for programs ("none", "dial", "no_answer", "dead", "lost", "lost_early", "closed",
 * "closed_early", "not_rds", "mute", "misplaced", "reset"; "unknown" for one that is newer than this library); and a phrase for people,
 * terminated, cut if it does not fit in @cap bytes. Return: the word, constant; @buf. Any thread. */
URDS_API const char *urds_peer_fault_word(const struct urds_info_peer *p);
URDS_API char *urds_peer_fault_text(const struct urds_info_peer *p, char *buf, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
