/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the files of transport/loop share. loop.c: the queue of events and connections; pipe.c:
 * bytes. Locks: loop.lock (queue, listeners, life of ends) and pair.lock (pipes); never one inside
 * the other.
 */
#ifndef URDS_TRANSPORT_LOOP_INTERNAL_H
#define URDS_TRANSPORT_LOOP_INTERNAL_H

#include <stdatomic.h>

#include "platform/lock.h"
#include "transport/loop/loop.h"

#define LOOP_ACCEPT 1u
#define LOOP_CONNECTED 2u
#define LOOP_READABLE 4u
#define LOOP_WRITABLE 8u
#define LOOP_ENDED 16u

struct loop_listener {
	struct urds_listener base;
	struct loop_listener *next;
	uint32_t refs; /* the owner's until unlisten, one per on_accept() running */
	bool is_closed;
};

struct loop_end {
	struct urds_link base;
	struct loop_pair *pair;
	unsigned side; /* index in pair.end; it writes pair.pipe[side] */
	/* Under loop.lock: */
	struct loop_end *next, *prev; /* in the queue */
	uint32_t events;
	bool is_queued, is_running, is_closed;
	int connect_err;
	struct loop_listener *ls; /* not yet accepted: by whom; NULL: nobody any more */
	struct urds_addr from;
	uint16_t from_port;
};

struct loop_pipe {
	uint64_t head, tail; /* bytes written, bytes read: head - tail lie in the block */
	char *block;	     /* only while there are bytes */
	bool is_writing;     /* the writer copies outside the lock */
	bool is_fin;	     /* EOF behind the bytes */
	bool is_reset;	     /* RESET behind the bytes; nothing more goes in */
	bool is_orphan;	     /* the reader has closed */
	bool wants_space;    /* a tx() was short */
};

struct loop_pair {
	struct urds_lock lock;
	struct loop_pipe pipe[2];
	struct loop_end end[2];
	unsigned open_ends; /* under loop.lock */
};

struct loop {
	struct urds_transport base;
	struct urds_loop_config cfg;
	size_t pipe_bytes;
	struct urds_lock lock;
	struct loop_end *first URDS_GUARDED_BY(lock);
	struct loop_end *last URDS_GUARDED_BY(lock);
	struct loop_listener *listeners URDS_GUARDED_BY(lock);
	uint32_t next_port URDS_GUARDED_BY(lock);
	_Atomic size_t queued; /* length of the queue; written under lock */
};

static inline struct loop *loop_of(struct urds_transport *t)
{
	return urds_container_of(t, struct loop, base);
}

/* Queues @events for @e unless it is closed; kicks. No lock held. */
void urds_loop_post(struct loop *t, struct loop_end *e, uint32_t events);

/* The pipe half of shutdown and close. */
void urds_loop_pipe_shutdown(struct loop_end *e);
void urds_loop_pipe_close(struct loop_end *e, bool reset);
/* Both ends are gone. */
void urds_loop_pipe_fini(struct loop *t, struct loop_pipe *p);

#endif
