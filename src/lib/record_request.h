/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What an owner does with a request: the same on every system. All by the record's thread, with no lock held.
 */
#ifndef URDS_LIB_RECORD_REQUEST_H
#define URDS_LIB_RECORD_REQUEST_H

#include "lib/record_server.h"

struct urds_sock;

/* One socket to ping from, and its last ping. */
struct urds_rec_slot {
	struct urds_sock *sock; /* NULL until used */
	intptr_t watch;		/* the system's; -1: none */
	urds_ns sent;
	uint16_t tag;
	bool is_pending; /* no answer came yet */
};

/* The head of a system's client. */
struct urds_rec_asker {
	struct urds_record_server *server;
	struct urds_addr addr; /* of the record */
	bool is_ours;	       /* same user, or root */
	bool has_asked;
	_Atomic bool is_dead; /* to be closed by the thread */
	urds_ns heard;	      /* last request, or progress of an answer */
	uint8_t *out;	      /* an INFO answer on its way; NULL: none, requests are read */
	size_t out_len, out_off;
	uint32_t out_element;
	uint16_t out_tag;
	struct urds_rec_slot slots[URDS_REC_SLOTS];
};

void urds_rec_asker_begin(struct urds_rec_asker *c, struct urds_record_server *s,
			  const struct urds_addr *a, bool is_ours);
/* Closes its sockets. */
void urds_rec_asker_end(struct urds_rec_asker *c);
/* Of @len bytes in server.msg. Afterwards c->is_dead and c->out say how to go on. */
void urds_rec_request(struct urds_rec_asker *c, size_t len);
/* There is room for more of c->out. */
void urds_rec_stream(struct urds_rec_asker *c);
/* The socket of slot @i may have something. */
void urds_rec_on_slot(struct urds_rec_asker *c, unsigned i);
/* How long it may be silent, from c->heard on. */
urds_ns urds_rec_patience(const struct urds_rec_asker *c);

/* ---- a system's part */

/* Sends one message, copied. Return: 0, -URDS_EAGAIN: no room now (urds_rec_stream() comes if c->out is set), or another
 * error. */
int urds_rec_put(struct urds_rec_asker *c, const uint8_t *msg, size_t len);
/* All of c->out is sent: requests are read again. */
void urds_rec_streamed(struct urds_rec_asker *c);
/* urds_rec_on_slot() from now on. Return: 0 or negative, with slot.watch -1. */
int urds_rec_slot_watch(struct urds_rec_asker *c, unsigned i);
void urds_rec_slot_unwatch(struct urds_rec_asker *c, unsigned i);

#endif
