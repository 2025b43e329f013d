/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of lib/ share: how a call fails, and which context is the default.
 */
#ifndef URDS_LIB_API_H
#define URDS_LIB_API_H

#include "platform/leave.h"
#include "runtime/engine.h"
#include "urds/urds.h"

/* Notes the failure for this thread: errno, urds_errno(), urds_reason(). Return: -1. @err: enum urds_err. */
int urds_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A handle given by the caller: alive, and ours (not our parent's). Holds a reference until urds_leave(). False after
 * urds_fail(). */
bool urds_enter(struct urds_sock *s, const char *what);
void urds_leave(struct urds_sock *s);

/* The context meant by @ctx: itself, or the process default, opened when needed; alive, and ours. It stays until engine_leave().
 * NULL after urds_fail(). */
struct urds_ctx *urds_ctx_enter(struct urds_ctx *ctx, const char *what);

/* urds_fail() for a failed bind or claim of @a. @is_ours: this context owns it already. */
int urds_fail_bind(int rc, const struct urds_addr *a, uint16_t port, bool is_ours);

/* A length that a caller gave: the system's type may have a sign. */
static inline size_t urds_len(socklen_t len)
{
	return (int64_t)len > 0 ? (size_t)len : 0;
}

/* ---- name.c */
/* An address that a socket may have: not 0.0.0.0, multicast, or 255.255.255.255. */
bool urds_is_unicast(const struct urds_addr *a);
/* A destination or local address: 0, or the error every such call gives. */
int urds_name_get(const struct sockaddr *sa, socklen_t len, struct urds_endpoint *out);
/* @sa: NULL, or of *len bytes: what fits. *len: the whole length. */
void urds_name_put(const struct urds_endpoint *at, struct sockaddr *sa, socklen_t *len);

/* Why the ownership record of a node could not be had, by this thread, last. */
extern _Thread_local char urds_record_why[];

#endif
