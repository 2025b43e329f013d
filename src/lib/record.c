/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record: taking, dropping, fork, and the life of the thread. Linux: abstract AF_UNIX.
 */
#include "lib/record.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lib/record_name.h"
#include "lib/record_server.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/ident.h"
#include "platform/posix/fds.h"
#include "platform/random.h"
#include "urds/owner.h"

#define TAKE_LIMIT_NS URDS_SEC(1)
#define TAKE_STEP_NS URDS_MS(10)
#define BACKLOG 32

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
	struct urds_ident self;
	unsigned i;
	int rc;

	if (!s)
		return -URDS_ENOMEM;
	for (i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		s->clients[i].fd = -1;
	urds_lock_init(&s->lock);
	s->ctx = cfg->ctx;
	s->info = cfg->info;
	urds_ident_self(&self);
	s->ident.instance = urds_random64() | 1;
	s->ident.pid = self.pid;
	s->ident.uid = self.uid;
	snprintf(s->ident.mode, sizeof(s->ident.mode), "%s", cfg->mode);
	snprintf(s->ident.version, sizeof(s->ident.version), "%s", urds_version());
	snprintf(s->ident.program, sizeof(s->ident.program), "%.63s", self.exe);
	urds_fds_enter();
	s->wake_fd = urds_fds_made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	urds_fds_enter();
	s->epoll_fd = urds_fds_made(epoll_create1(EPOLL_CLOEXEC));
	rc = -URDS_EMFILE;
	if (s->epoll_fd < 0 || s->wake_fd < 0 || watch(s, s->wake_fd, URDS_REC_WATCH_WAKE) < 0)
		goto undo;
	rc = urds_thread_start(&s->thread, "urds-record", urds_rec_serve, s);
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
	s->has_stopped = true;
}

/* Binds and listens. Return: the descriptor, -URDS_EADDRINUSE, or another error. */
static int listen_on(const struct urds_addr *a)
{
	struct sockaddr_un sun;
	socklen_t len = urds_rec_name(&sun, a);
	int fd, err;

	urds_fds_enter();
	fd = urds_fds_made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -urds_err_from_errno(errno);
	if (bind(fd, (struct sockaddr *)&sun, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	err = urds_err_from_errno(errno);
	urds_fds_close(fd);
	return -err;
}

static void explain_owner(const struct urds_addr *a, const struct urds_owner *o, char *why,
			  size_t cap)
{
	char text[URDS_ADDR_STRLEN], pid[48];

	urds_addr_format(text, sizeof(text), a);
	if (o->pid == 0)
		snprintf(pid, sizeof(pid), "a process of another container");
	else if (o->pid == getpid())
		snprintf(pid, sizeof(pid), "this process, pid %d", o->pid);
	else
		snprintf(pid, sizeof(pid), "pid %d", o->pid);
	snprintf(
		why, cap,
		"%s is owned by %s (%s, user %s)%s: an address has one owner; stop it, or use another "
		"address of this host",
		text, pid, o->program, o->user,
		o->answered ? "" : ", which does not answer (stopped, or closing)");
}

/* Takes the name, or says who has it. A name without a listener is being taken or given up: wait. */
static int take_name(const struct urds_addr *a, char *why, size_t cap)
{
	struct timespec step = {0, (long)TAKE_STEP_NS};
	urds_ns end = urds_clock_ns() + TAKE_LIMIT_NS;
	char text[URDS_ADDR_STRLEN];
	struct urds_owner owner = {0};
	int fd, rc;

	for (;;) {
		fd = listen_on(a);
		if (fd >= 0)
			return fd;
		urds_addr_format(text, sizeof(text), a);
		if (fd != -URDS_EADDRINUSE) {
			snprintf(why, cap, "cannot note the ownership of %s: %s (%s)", text,
				 strerror(urds_err_to_errno(fd)),
				 fd == -URDS_EMFILE ? "raise the limit of open files"
						    : "abstract AF_UNIX sockets are needed");
			return fd;
		}
		rc = urds_rec_ask(a, end, &owner);
		if (rc == 0) {
			explain_owner(a, &owner, why, cap);
			return -URDS_EADDRINUSE;
		}
		if (urds_clock_ns() >= end)
			break;
		nanosleep(&step, NULL);
	}
	if (owner.pid) {
		explain_owner(a, &owner, why, cap);
		return -URDS_EADDRINUSE;
	}
	snprintf(why, cap,
		 "%s is held by a process that does not say who it is: see \"urds/owner/%s\" in "
		 "the output of `ss -xlp`, or use another address",
		 text, text);
	return -URDS_EADDRINUSE;
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
	rc = take_name(a, why, why_cap);
	if (rc < 0)
		goto undo_alloc;
	r->fd = rc;
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
