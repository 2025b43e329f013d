/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record: taking, dropping, fork, and the life of the thread.
 */
#include "lib/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record_server.h"
#include "platform/errno.h"
#include "platform/process.h"

/* Guards the list of servers and start and stop of their threads; never held while asking an owner,
 * joining a thread or calling back. */
static struct urds_lock all_lock;
static struct urds_record_server *all;

static struct urds_record_server *server_find(struct urds_ctx *ctx)
{
	struct urds_record_server *s;

	for (s = all; s; s = s->next)
		if (s->ctx == ctx)
			return s;
	return NULL;
}

static void serve(void *server)
{
	struct urds_record_server *s = server;
	int next_ms;

	while (!atomic_load(&s->is_stopping))
		urds_rec_step(s, true, &next_ms);
	urds_rec_end(s);
}

static int server_new(const struct urds_record_cfg *cfg, struct urds_record_server **out)
{
	struct urds_record_server *s;
	int rc = urds_rec_server_new(&s);

	if (rc < 0)
		return rc;
	urds_lock_init(&s->lock);
	urds_lock_init(&s->step_lock);
	s->ctx = cfg->ctx;
	s->info = cfg->info;
	urds_rec_ident_self(&s->ident, cfg->mode);
	s->watch = cfg->watch;
	if (!cfg->watch)
		rc = urds_thread_start(&s->thread, "urds-record", serve, s);
	else if (urds_rec_fd(s) >= 0)
		rc = cfg->watch(cfg->ctx, urds_rec_fd(s));
	if (rc < 0)
		urds_rec_server_free(s);
	else
		*out = s;
	return rc;
}

/* Only one caller gets here per server: whoever set is_stopping first. */
static void server_stop(struct urds_record_server *s)
{
	urds_rec_server_wake(s);
	urds_thread_join(&s->thread);
	if (s->watch) {
		(void)s->watch(s->ctx, -1);
		urds_lock_acquire(&s->step_lock);
		urds_rec_end(s);
		urds_lock_release(&s->step_lock);
	}
}

/* Around fork. What prepare takes, parent or child gives back: more than the checker can follow. */
static void fork_prepare(void) URDS_UNCHECKED
{
	struct urds_record_server *s;

	urds_lock_acquire(&all_lock);
	for (s = all; s; s = s->next)
		urds_lock_acquire(&s->lock);
}

static void fork_parent(void) URDS_UNCHECKED
{
	struct urds_record_server *s;

	for (s = all; s; s = s->next)
		urds_lock_release(&s->lock);
	urds_lock_release(&all_lock);
}

/* The thread did not survive; of the descriptors, all of which the engine's handler closes, an inherited listener
 * would keep the address after its owner's death. */
static void fork_child(void) URDS_UNCHECKED
{
	all = NULL;
	urds_lock_init(&all_lock);
}

/* Registered after the engine's handlers, so that prepare runs before theirs and takes our locks first. */
static void fork_handlers(void)
{
	urds_at_fork(fork_prepare, fork_parent, fork_child);
}

int urds_record_take(const struct urds_addr *a, const struct urds_record_cfg *cfg,
		     struct urds_record **out, char *why, size_t why_cap)
{
	struct urds_record_server *s;
	struct urds_record *r = calloc(1, sizeof(*r));
	static struct urds_once fork_once;
	char unused[1];
	int rc;

	urds_once(&fork_once, fork_handlers);
	if (!why || why_cap == 0) {
		why = unused;
		why_cap = sizeof(unused);
	}
	why[0] = '\0';
	if (!r) {
		snprintf(why, why_cap, "no memory for an ownership record");
		return -URDS_ENOMEM;
	}
	rc = urds_rec_take(a, &r->name, why, why_cap);
	if (rc < 0)
		goto undo_alloc;
	r->addr = *a;

	urds_lock_acquire(&all_lock);
	s = server_find(cfg->ctx);
	rc = 0;
	if (!s) {
		rc = server_new(cfg, &s);
		if (rc == 0) {
			s->next = all;
			all = s;
		}
	} else if (s->is_stopping) {
		rc = -URDS_EBADF;
	}
	if (rc == 0) {
		r->server = s;
		urds_lock_acquire(&r->server->lock);
		r->next = s->records;
		s->records = r;
		rc = urds_rec_open(r);
		urds_lock_release(&r->server->lock);
	}
	urds_lock_release(&all_lock);
	if (rc == 0) {
		*out = r;
		return 0;
	}
	snprintf(why, why_cap, "cannot start the ownership service: %s",
		 strerror(urds_err_to_errno(rc)));
	if (r->server) {
		urds_record_drop(r);
		return rc;
	}
	urds_rec_give_up(&r->name);
undo_alloc:
	free(r);
	return rc;
}

int urds_record_progress(struct urds_ctx *ctx)
{
	struct urds_record_server *s;
	int next_ms = -1;

	urds_lock_acquire(&all_lock);
	s = server_find(ctx);
	if (!s || !s->watch || atomic_load(&s->is_stopping)) {
		urds_lock_release(&all_lock);
		return -1;
	}
	/* Whoever frees it waits for that; another thread that is at it will do. */
	if (!urds_lock_try(&s->step_lock)) {
		urds_lock_release(&all_lock);
		return -1;
	}
	urds_lock_release(&all_lock);
	/* Events without end leave the rest to the next call: the descriptor stays readable. */
	for (int i = 0; i < 64 && urds_rec_step(s, false, &next_ms); i++)
		;
	urds_lock_release(&s->step_lock);
	return next_ms;
}

void urds_record_drop(struct urds_record *r)
{
	struct urds_record_server *s, **sp;
	struct urds_record **p;
	bool must_stop = false, is_last;

	if (!r)
		return;
	s = r->server;
	urds_lock_acquire(&all_lock);
	urds_lock_acquire(&r->server->lock);
	for (p = &s->records; *p != r; p = &(*p)->next)
		;
	*p = r->next;
	urds_rec_close(r);
	is_last = !s->records;
	urds_lock_release(&r->server->lock);
	if (is_last)
		must_stop = !atomic_exchange(&s->is_stopping, true);
	else
		urds_rec_server_wake(s);
	urds_lock_release(&all_lock);
	free(r);
	if (!is_last)
		return;
	if (must_stop)
		server_stop(s);
	/* Only now, so that a fork in the meantime finds its descriptors. */
	urds_lock_acquire(&all_lock);
	for (sp = &all; *sp != s; sp = &(*sp)->next)
		;
	*sp = s->next;
	urds_lock_release(&all_lock);
	urds_rec_server_free(s);
}

void urds_record_stop(struct urds_ctx *ctx)
{
	struct urds_record_server *s;
	bool must_stop = false;

	urds_lock_acquire(&all_lock);
	s = server_find(ctx);
	if (s)
		must_stop = !atomic_exchange(&s->is_stopping, true);
	urds_lock_release(&all_lock);
	if (must_stop)
		server_stop(s);
}
