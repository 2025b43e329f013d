/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Links inside one process: two ends joined by bounded byte pipes. There is no descriptor: events
 * wait in a queue until somebody calls urds_loop_run(). An idle pair owns no buffer.
 */
#ifndef URDS_TRANSPORT_LOOP_H
#define URDS_TRANSPORT_LOOP_H

#include "transport/transport.h"

struct urds_loop_config {
	unsigned pipe_n64k; /* capacity of one direction in 64 KiB; 0: 4 */
	/* @n64k * 64 KiB, or NULL (the link is then reset). These two are called with a lock of the
	 * transport held: they must not call it back. */
	void *(*block_get)(void *u, unsigned n64k);
	void (*block_put)(void *u, void *block, unsigned n64k);
	/* The queue was empty and is not any more. From any thread, no lock held. May be NULL. */
	void (*kick)(void *u);
	/* May @a be listened on? NULL: any address. */
	bool (*is_local)(void *u, const struct urds_addr *a);
	void *u; /* passed to the four */
};

/* @sink is borrowed until free; @config is copied. */
int urds_loop_new(const struct urds_loop_config *config, const struct urds_link_sink *sink,
		  void *user, struct urds_transport **out);
/* Every link closed, every listener gone, nobody in urds_loop_run(). */
void urds_loop_free(struct urds_transport *t);

/* Dispatches what was queued when it was called. Any thread, several at once.
 * Return: links dispatched; what is queued meanwhile is left (kick tells). */
size_t urds_loop_run(struct urds_transport *t);

/* Is there anything to run? Cheap, no lock. */
bool urds_loop_pending(struct urds_transport *t);

extern const struct urds_data_ops urds_loop_data;
extern const struct urds_connect_ops urds_loop_connect;
extern const struct urds_resolve_ops urds_loop_resolve;

#endif
