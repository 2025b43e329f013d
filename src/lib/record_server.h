/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Inside the ownership record: one server per context, its records (record.c: take, drop, fork) and its
 * clients (record_serve.c: accept, requests, answers). A hostile client can only hurt itself: there are
 * few of them, each request has its time, every length is checked, and whoever comes too many is closed.
 */
#ifndef URDS_LIB_RECORD_SERVER_H
#define URDS_LIB_RECORD_SERVER_H

#include <stdatomic.h>

#include "lib/record.h"
#include "lib/record_codec.h"
#include "platform/lock.h"
#include "platform/thread.h"

#define URDS_REC_CLIENTS_MAX \
	16u /* full: the longest silent one of another user goes, then the caller */
#define URDS_REC_FOREIGN_MAX 8u /* of them not ours: the owner's user always gets in */
#define URDS_REC_FIRST_NS \
	URDS_SEC(1) /* for the first request to come, and for another user's next one */
#define URDS_REC_IDLE_NS URDS_SEC(60) /* between requests of the same user */
#define URDS_REC_DRAIN_NS URDS_SEC(5) /* for an answer to be read */
#define URDS_REC_INFO_MAX (64u << 20) /* bytes of one answer */
#define URDS_REC_SPIN_MS 1 /* a ping's answer that soon is timed without the way through epoll */

struct urds_sock;

struct urds_record {
	struct urds_record *next; /* of the server; server.lock */
	struct urds_record_server *server;
	struct urds_addr addr;
	int fd; /* the listener */
};

/* One socket to ping from, and its last ping. */
struct urds_rec_slot {
	struct urds_sock *sock; /* NULL until used */
	int fd;			/* of the socket, in the epoll set */
	urds_ns sent;
	uint16_t tag;
	bool is_pending; /* no answer came yet */
};

struct urds_rec_client {
	int fd; /* -1: free. Written under server.lock, for fork and drop */
	struct urds_addr addr;
	bool is_ours; /* same user, or root */
	bool has_asked;
	_Atomic bool is_dead; /* its record was dropped: to be closed by the thread */
	urds_ns heard;	      /* last request, or progress of an answer */
	uint8_t *out;	      /* an INFO answer on its way; NULL: none */
	size_t out_len, out_off;
	uint32_t out_element;
	uint16_t out_tag;
	struct urds_rec_slot slots[URDS_REC_SLOTS];
};

struct urds_record_server {
	struct urds_record_server *next; /* of all; record.c's lock */
	struct urds_ctx *ctx;
	urds_record_info_fn *info;
	uint64_t instance;
	struct urds_rec_ident ident;
	struct urds_thread thread;
	bool has_no_thread;
	struct urds_lock step_lock; /* without a thread: whoever serves; inside record.c's lock */
	int epoll_fd, wake_fd;
	_Atomic bool is_stopping;
	bool has_stopped;
	struct urds_lock lock; /* records, client[].fd; inside record.c's lock */
	struct urds_record *records;
	struct urds_rec_client clients[URDS_REC_CLIENTS_MAX];
	uint8_t msg[URDS_REC_MSG_MAX]; /* the thread's */
};

/* What an epoll event is about, in its 64 bits: a kind in the low 3 (pointers are aligned to 8). */
enum urds_rec_watch {
	URDS_REC_WATCH_WAKE = 0,
	URDS_REC_WATCH_LISTENER = 1, /* and the record's address */
	URDS_REC_WATCH_CLIENT = 2,   /* and its index << 8 */
	URDS_REC_WATCH_SLOT = 3,     /* and client << 8 | slot << 16 */
};

void urds_rec_serve(void *server); /* the thread */
/* One event at most. *next_ms: when something is due, or -1; @wait: waits until then. Return: was there an event? */
bool urds_rec_step(struct urds_record_server *s, bool wait, int *next_ms);
void urds_rec_end(struct urds_record_server *s);

#endif
