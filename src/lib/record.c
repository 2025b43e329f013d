/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record: taking, dropping, fork, and the life of the thread, with AF_UNIX.
 */
#include "lib/record.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/record_name.h"
#include "lib/record_server.h"
#include "platform/errno.h"
#include "platform/posix/fds.h"

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

static void server_free(struct urds_record_server *s)
{
	urds_fds_close(s->epoll_fd);
	urds_fds_close(s->wake_fd);
	free(s);
}

static int watch(struct urds_record_server *s, int fd, uint64_t what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = what};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int server_new(const struct urds_record_cfg *cfg, struct urds_record_server **out)
{
	struct urds_record_server *s = calloc(1, sizeof(*s));
	unsigned i;
	int rc;

	if (!s)
		return -URDS_ENOMEM;
	for (i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		s->clients[i].fd = -1;
	urds_lock_init(&s->lock);
	urds_lock_init(&s->step_lock);
	s->ctx = cfg->ctx;
	s->info = cfg->info;
	urds_rec_ident_self(&s->ident, cfg->mode);
	urds_fds_enter();
	s->wake_fd = urds_fds_made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	urds_fds_enter();
	s->epoll_fd = urds_fds_made(epoll_create1(EPOLL_CLOEXEC));
	rc = -URDS_EMFILE;
	if (s->epoll_fd < 0 || s->wake_fd < 0 || watch(s, s->wake_fd, URDS_REC_WATCH_WAKE) < 0)
		goto undo;
	s->has_no_thread = cfg->watch != NULL;
	rc = cfg->watch ? cfg->watch(cfg->ctx, s->epoll_fd)
			: urds_thread_start(&s->thread, "urds-record", urds_rec_serve, s);
	if (rc < 0)
		goto undo;
	*out = s;
	return 0;

undo:
	server_free(s);
	return rc;
}

static void server_wake(struct urds_record_server *s)
{
	uint64_t one = 1;
	ssize_t n = write(s->wake_fd, &one, sizeof(one));

	(void)n; /* EAGAIN: rung already */
}

/* Only one caller gets here per server: whoever set is_stopping first. */
static void server_stop(struct urds_record_server *s)
{
	server_wake(s);
	urds_thread_join(&s->thread);
	if (s->has_no_thread) {
		urds_lock_acquire(&s->step_lock);
		urds_rec_end(s);
		urds_lock_release(&s->step_lock);
	}
	s->has_stopped = true;
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
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

int urds_record_take(const struct urds_addr *a, const struct urds_record_cfg *cfg,
		     struct urds_record **out, char *why, size_t why_cap)
{
	struct urds_record_server *s;
	struct urds_record *r = calloc(1, sizeof(*r));
	static struct urds_once fork_once;
	struct urds_rec_name name;
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
	rc = urds_rec_take(a, &name, why, why_cap);
	if (rc < 0)
		goto undo_alloc;
	r->fd = (int)name.listener;
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
		urds_lock_acquire(&s->lock);
		r->next = s->records;
		s->records = r;
		urds_lock_release(&s->lock);
		rc = watch(s, r->fd, (uintptr_t)r | URDS_REC_WATCH_LISTENER);
		if (rc < 0)
			rc = -URDS_ENOMEM;
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
	urds_fds_close(r->fd);
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
	if (s && (!s->has_no_thread || atomic_load(&s->is_stopping)))
		s = NULL;
	if (s)
		urds_lock_acquire(&s->step_lock); /* whoever frees it waits for that */
	urds_lock_release(&all_lock);
	if (!s)
		return -1;
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
	unsigned i;

	if (!r)
		return;
	s = r->server;
	urds_lock_acquire(&all_lock);
	urds_lock_acquire(&s->lock);
	for (p = &s->records; *p != r; p = &(*p)->next)
		;
	*p = r->next;
	/* The name goes while the lock is held: the thread never sees a closed listener. */
	urds_fds_close(r->fd);
	for (i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		if (s->clients[i].fd >= 0 && urds_addr_eq(&s->clients[i].addr, &r->addr))
			s->clients[i].is_dead = true;
	is_last = !s->records;
	urds_lock_release(&s->lock);
	if (is_last)
		must_stop = !atomic_exchange(&s->is_stopping, true);
	else
		server_wake(s);
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
	server_free(s);
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
