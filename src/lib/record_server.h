/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Inside the ownership record: one server per context, and its records. Their life is the same everywhere (record.c); how they
 * listen and answer is a system's (record_serve.c, record_pipe_serve.c).
 */
#ifndef URDS_LIB_RECORD_SERVER_H
#define URDS_LIB_RECORD_SERVER_H

#include <stdatomic.h>

#include "lib/record.h"
#include "lib/record_codec.h"
#include "lib/record_name.h"
#include "platform/lock.h"
#include "platform/thread.h"

#define URDS_REC_CLIENTS_MAX \
	16u /* full: the longest silent one of another user goes, then the caller */
#define URDS_REC_FIRST_NS \
	URDS_SEC(1) /* for the first request to come, and for another user's next one */
#define URDS_REC_IDLE_NS URDS_SEC(60) /* between requests of the same user */

struct urds_record {
	struct urds_record *next; /* of the server; server.lock */
	struct urds_record_server *server;
	struct urds_addr addr;
	struct urds_rec_name name;
};

/* The head of a system's own. */
struct urds_record_server {
	struct urds_record_server *next; /* of all; record.c's lock */
	struct urds_ctx *ctx;
	urds_record_info_fn *info;
	struct urds_rec_ident ident;
	struct urds_thread thread;
	int (*watch)(struct urds_ctx *ctx, int fd); /* NULL: a thread serves */
	struct urds_lock step_lock; /* without a thread: whoever serves; inside record.c's lock */
	_Atomic bool is_stopping;
	struct urds_lock lock; /* records, and who the clients are; inside record.c's lock */
	struct urds_record *records;
	uint8_t msg[URDS_REC_MSG_MAX]; /* the thread's: a request, then its answer */
};

/* ---- a system's part */

/* Without a thread. Return: 0 or negative. */
int urds_rec_server_new(struct urds_record_server **out);
/* No record is left, and no thread. */
void urds_rec_server_free(struct urds_record_server *s);
/* Gets the thread to look at is_stopping, and at the clients of records that went. */
void urds_rec_server_wake(struct urds_record_server *s);
/* Listens with @r->name, which stays @r's also when this fails. Return: 0 or negative. */
int urds_rec_open(struct urds_record *r) URDS_HOLDS(&r->server->lock);
/* The name goes, and its clients. */
void urds_rec_close(struct urds_record *r) URDS_HOLDS(&r->server->lock);
/* The same for a name of no record. */
void urds_rec_give_up(struct urds_rec_name *name);
/* One event at most. *next_ms: when something is due, or -1; @wait: waits until then. Return: was there an event? */
bool urds_rec_step(struct urds_record_server *s, bool wait, int *next_ms);
void urds_rec_end(struct urds_record_server *s);
/* Readable when there is an event; negative: this system has none. */
int urds_rec_fd(const struct urds_record_server *s);

#endif
