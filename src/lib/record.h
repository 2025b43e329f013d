/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record: what makes one process the owner of an address. A listener on an abstract
 * AF_UNIX name (Windows: a mutex and a named pipe) made from the address, so that it is scoped by network namespace like the address and
 * vanishes with its process. It is taken before port 16385, and answers who owns the address, and to
 * the same user what the owner knows.
 *
 * One small thread per context serves all its records: started by the first take, blocked without any
 * system call while nobody asks, ended by the last drop. It blocks all signals and calls only the
 * public API (urds_socket, bind, sendto, recvfrom, wait, fd, close, reset) and the info callback, with no
 * lock of its own held during those calls.
 */
#ifndef URDS_LIB_RECORD_H
#define URDS_LIB_RECORD_H

#include "wire/types.h"

struct urds_ctx;
struct urds_record;

/* What the owner knows: fills at most @cap bytes of the elements of source @id, sets *need to the bytes
 * of all. Return: size of one element (> 0), also when *need > @cap (what is in @buf is then
 * not used); -URDS_ENOPROTOOPT for an unknown source, another negative urds_err. Called
 * from the record's thread with no lock held. */
typedef int urds_record_info_fn(struct urds_ctx *ctx, int id, void *buf, size_t cap, size_t *need);

struct urds_record_cfg {
	struct urds_ctx *ctx; /* borrowed until the last drop, or stop */
	const char *mode;     /* "embedded"; copied */
	urds_record_info_fn *info;
	/* NULL: a thread serves; else there is none, and urds_record_progress() is to be called whenever @fd is readable. */
	int (*watch)(struct urds_ctx *ctx, int fd);
};

#define URDS_RECORD_WHY_MAX 320u

/**
 * urds_record_take() - become the owner of @a.
 * @why: one sentence when this fails: who owns it and what to do. May be NULL with 0.
 * Return: 0, or -URDS_EADDRINUSE, -URDS_EMFILE, -URDS_ENOMEM, -URDS_EIO (nothing is held then).
 * Blocks: up to 1 s, when another owner hangs. Call with no lock of the engine held that the
 * info callback or the public API of the same context needs.
 */
int urds_record_take(const struct urds_addr *a, const struct urds_record_cfg *cfg,
		     struct urds_record **out, char *why, size_t why_cap);

/* Serves who asks, without waiting, in a context without a thread for it. Return: ms after which it is to be called again; -1:
 * none. One thread at a time. */
int urds_record_progress(struct urds_ctx *ctx);

/* Gives the address up. The last one of a context stops its thread first. NULL is fine. Call with no
 * lock of the engine held. */
void urds_record_drop(struct urds_record *r);

/* First step of urds_shutdown(): ends the thread, closes the sockets it made; the addresses stay
 * owned until dropped (who asks learns the pid; "does not answer"). Idempotent. */
void urds_record_stop(struct urds_ctx *ctx);

/* Fork takes care of itself: in the child every descriptor is closed and everything forgotten (the thread
 * did not survive; its memory is not freed). What the parent's records were is then invalid in the child:
 * no drop. */

/* Provided by the API's code: notes the failure for this thread (errno, urds_errno(), urds_reason())
 * and returns -1. @err is a positive urds_err. */
int urds_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
