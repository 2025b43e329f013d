/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds/owner.h - who owns the addresses of this host, and what the owners know.
 *
 * An address belongs to one process at a time, which says so in an ownership record. Any user may ask
 * who it is; its state, its pings and its resets are for its own user and for root. Records are seen
 * within one network namespace, like the addresses; on Windows on the whole host.
 *
 * All calls return within about a second when an owner hangs (urds_owner_info(): 5 s), and
 * fail with -1 and errno; urds_reason() has the sentence. Those that take an address also fail with EINVAL (not a whole
 * one), those that ask with EPROTO (an answer of another release) and EMFILE. They may be called from any thread; one
 * struct urds_owner_ping belongs to one thread at a time.
 */
#ifndef URDS_OWNER_H
#define URDS_OWNER_H

#include "urds/urds.h"

#ifdef __cplusplus
extern "C" {
#endif

struct urds_owner {
	uint64_t instance; /* of the context: owners of several addresses repeat it; 0: no answer */
	int pid;	   /* from the system, not from the owner; 0: in another pid namespace */
	unsigned uid;	   /* likewise; 0 on Windows */
	int answered;  /* 0: it exists and does not answer (stopped?); what follows is guessed */
	int is_ours;   /* it serves this user: info, ping and reset are possible */
	char user[64]; /* name of @uid, or its number */
	char mode[16]; /* "embedded" */
	char version[32];
	char program[64];
	uint32_t reserved[8];
};

/**
 * urds_owner_list() - the owned addresses of this network namespace, sorted.
 * @v: room for @cap addresses; NULL with 0 to count.
 * Return: how many there are (may exceed @cap), or -1 with EACCES, ENOMEM.
 */
URDS_API int urds_owner_list(struct sockaddr_storage *v, size_t cap);

/**
 * urds_owner_ident() - who owns @addr?
 * Return: 0 (also for an owner that does not answer, see @answered), or -1 with ENOTCONN (nobody),
 * EINVAL.
 */
URDS_API int urds_owner_ident(const struct sockaddr *addr, socklen_t len, struct urds_owner *out);

/**
 * urds_owner_info() - a snapshot of one URDS_INFO_* source of the context that owns @addr.
 * @buf: set to memory the caller frees with free(), NULL if there is nothing.
 * @size: set to its bytes.
 * Return: the size of one element (> 0), or -1 with ENOTCONN (nobody owns it), EACCES (another
 * user does), ETIMEDOUT, ENOPROTOOPT (no such source), ENOSPC (over 64 MiB), ENOMEM.
 */
URDS_API int urds_owner_info(const struct sockaddr *addr, socklen_t len, int id, void **buf,
			     size_t *size);

/**
 * urds_owner_reset() - urds_reset() in the process that owns @local.
 * Return: connections broken, or -1 with ENOTCONN (no owner or no such peer), EACCES, ETIMEDOUT.
 */
URDS_API int urds_owner_reset(const struct sockaddr *local, socklen_t len,
			      const struct sockaddr *peer, socklen_t peer_len);

#define URDS_OWNER_PING_SLOTS 8

struct urds_owner_ping;

struct urds_owner_pong {
	unsigned slot;
	int err;	 /* 0, or the errno of a ping that could not be sent */
	uint64_t rtt_ns; /* measured by the owner */
	struct sockaddr_storage from;
};

/**
 * urds_owner_ping_open() - send pings from an address that another process of this user owns.
 * Return: 0, or -1 with ENOTCONN, EACCES, ETIMEDOUT, ENOMEM.
 */
URDS_API int urds_owner_ping_open(const struct sockaddr *addr, socklen_t len,
				  struct urds_owner_ping **out);

/**
 * urds_owner_ping_send() - one ping. What comes back, or could not be sent, is read by
 * urds_owner_ping_recv().
 * @slot: 0..URDS_OWNER_PING_SLOTS - 1: a socket of the owner. A slot that is still waiting gives its
 *        ping up. More than one answer to a ping is reported once each.
 * Return: 0, or -1 with EINVAL, ENOTCONN (the owner is gone), ETIMEDOUT, EAGAIN.
 */
URDS_API int urds_owner_ping_send(struct urds_owner_ping *p, unsigned slot,
				  const struct sockaddr *dest, socklen_t len);

/* Return: 1 and *@out, 0 after @timeout_ms (-1: none), -1 with ENOTCONN (the owner is gone), EINTR. */
URDS_API int urds_owner_ping_recv(struct urds_owner_ping *p, struct urds_owner_pong *out,
				  int timeout_ms);
URDS_API void urds_owner_ping_close(struct urds_owner_ping *p);

#ifdef __cplusplus
}
#endif

#endif
