/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record's thread: clients, and how their requests come in. Nothing here waits except
 * epoll_wait(), which has no timeout while there are no clients but descriptors for them, and a ping's first millisecond. A hostile client can only
 * hurt itself: there are few of them, each request has its time, every length is checked, and whoever comes too many is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/record_request.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "urds/urds.h"

#define FOREIGN_MAX 8u /* clients that are not ours: the owner's user always gets in */
/* Out of descriptors, listeners rest for so long: nobody tells when there are some again. */
#define STARVED_NS URDS_MS(100)

struct client {
	struct urds_rec_asker asker;
	int fd; /* -1: free. Written under server.lock, for fork and drop */
};

struct server {
	struct urds_record_server base;
	int epoll_fd, wake_fd;
	urds_ns accept_at; /* the listeners rest until then; 0: they do not */
	struct client clients[URDS_REC_CLIENTS_MAX];
};

/* What an epoll event is about, in its 64 bits: a kind in the low 3 (pointers are aligned to 8). */
enum watch {
	WATCH_WAKE = 0,
	WATCH_LISTENER = 1, /* and the record's address */
	WATCH_CLIENT = 2,   /* and its index << 8 */
	WATCH_SLOT = 3,	    /* and client << 8 | slot << 16 */
};

static struct server *server_of(struct urds_record_server *base)
{
	return urds_container_of(base, struct server, base);
}

static int watch(struct server *s, int fd, uint64_t what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = what};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -URDS_ENOMEM : 0;
}

static uint64_t client_watch(struct server *s, struct client *c)
{
	return (uint64_t)(c - s->clients) << 8 | WATCH_CLIENT;
}

static void client_close(struct server *s, struct client *c)
{
	urds_rec_asker_end(&c->asker);
	urds_lock_acquire(&s->base.lock);
	urds_fds_close(c->fd);
	c->fd = -1;
	urds_lock_release(&s->base.lock);
}

/* Of the clients that are not ours, or of all, the one silent for longest. */
static struct client *longest_silent_foreign(struct server *s)
{
	struct client *found = NULL, *c;

	for (c = s->clients; c < s->clients + URDS_REC_CLIENTS_MAX; c++)
		if (c->fd >= 0 && !c->asker.is_ours &&
		    (!found || c->asker.heard < found->asker.heard))
			found = c;
	return found;
}

static unsigned count(struct server *s, bool all)
{
	unsigned n = 0, i;

	for (i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		n += s->clients[i].fd >= 0 && (all || !s->clients[i].asker.is_ours);
	return n;
}

static struct client *free_client(struct server *s)
{
	struct client *c;

	for (c = s->clients; c < s->clients + URDS_REC_CLIENTS_MAX; c++)
		if (c->fd < 0)
			return c;
	return NULL;
}

/* Room for a client: NULL if it has to go away again. */
static struct client *admit(struct server *s, bool is_ours)
{
	struct client *c;

	if (count(s, true) == URDS_REC_CLIENTS_MAX ||
	    (!is_ours && count(s, false) == FOREIGN_MAX)) {
		c = longest_silent_foreign(s);
		if (!c)
			return NULL;
		client_close(s, c);
	}
	return free_client(s);
}

static uint64_t listener_watch(struct urds_record *r)
{
	return (uintptr_t)r | WATCH_LISTENER;
}

/* Under server.lock. @at: 0, or until when they rest. */
static void listeners_rest(struct server *s, urds_ns at)
{
	s->accept_at = at;
	for (struct urds_record *r = s->base.records; r; r = r->next) {
		struct epoll_event ev = {.events = at ? 0 : EPOLLIN, .data.u64 = listener_watch(r)};

		epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, (int)r->name.listener, &ev);
	}
}

/* Return: when to call this again. */
static urds_ns resume_accepts(struct server *s, urds_ns now)
{
	if (!s->accept_at)
		return URDS_NEVER;
	if (now < s->accept_at)
		return s->accept_at;
	urds_lock_acquire(&s->base.lock);
	listeners_rest(s, 0);
	urds_lock_release(&s->base.lock);
	return URDS_NEVER;
}

/* Level-triggered: one client per event. The record may be gone since the event was made. */
static void on_listener(struct server *s, struct urds_record *r)
{
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t len = sizeof(cred);
	struct client *c;
	struct urds_record *known;
	struct urds_addr addr;
	bool is_ours;
	int fd = -1;

	urds_lock_acquire(&s->base.lock);
	for (known = s->base.records; known && known != r; known = known->next)
		;
	if (known) {
		addr = r->addr;
		urds_fds_enter();
		fd = urds_fds_made(
			accept4((int)r->name.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
			listeners_rest(s, urds_clock_ns() + STARVED_NS);
	}
	urds_lock_release(&s->base.lock);
	if (fd < 0)
		return;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	is_ours = cred.uid == 0 || cred.uid == geteuid();
	c = admit(s, is_ours);
	if (!c) {
		urds_fds_close(fd);
		return;
	}
	urds_lock_acquire(&s->base.lock);
	c->fd = fd;
	urds_rec_asker_begin(&c->asker, &s->base, &addr, is_ours);
	urds_lock_release(&s->base.lock);
	if (watch(s, fd, client_watch(s, c)) < 0)
		client_close(s, c);
}

static void on_client(struct server *s, struct client *c)
{
	uint8_t *msg = s->base.msg;
	ssize_t n;

	if (c->asker.out) {
		urds_rec_stream(&c->asker);
		return;
	}
	n = recv(c->fd, msg, sizeof(s->base.msg), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (size_t)n > sizeof(s->base.msg))
		c->asker.is_dead = true;
	else
		urds_rec_request(&c->asker, (size_t)n);
}

/* ---------------------------------------------------------------- what requests need of the system */

static struct client *client_of(struct urds_rec_asker *a)
{
	return urds_container_of(a, struct client, asker);
}

int urds_rec_put(struct urds_rec_asker *a, const uint8_t *msg, size_t len)
{
	struct client *c = client_of(a);
	struct server *s = server_of(a->server);
	struct epoll_event ev = {.data.u64 = client_watch(s, c)};
	bool is_full;

	if (send(c->fd, msg, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 0;
	is_full = errno == EAGAIN || errno == ENOBUFS;
	if (!is_full || !a->out)
		return is_full ? -URDS_EAGAIN : -URDS_ENOTCONN;
	ev.events = EPOLLOUT;
	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
	return -URDS_EAGAIN;
}

void urds_rec_streamed(struct urds_rec_asker *a)
{
	struct client *c = client_of(a);
	struct server *s = server_of(a->server);
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = client_watch(s, c)};

	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

int urds_rec_slot_watch(struct urds_rec_asker *a, unsigned i)
{
	struct server *s = server_of(a->server);
	uint64_t what = (uint64_t)i << 16 | (uint64_t)(client_of(a) - s->clients) << 8 | WATCH_SLOT;
	int fd = urds_fd(a->slots[i].sock);

	a->slots[i].watch = fd;
	return fd < 0 ? -URDS_EMFILE : watch(s, fd, what);
}

void urds_rec_slot_unwatch(struct urds_rec_asker *a, unsigned i)
{
	epoll_ctl(server_of(a->server)->epoll_fd, EPOLL_CTL_DEL, (int)a->slots[i].watch, NULL);
}

/* ---------------------------------------------------------------- the thread */

/* Closes who is done or late. Return: milliseconds until the next is late, or listeners have rested; -1: neither. */
static int sweep(struct server *s)
{
	urds_ns now = urds_clock_ns(), next = resume_accepts(s, now), end;
	struct client *c;

	for (c = s->clients; c < s->clients + URDS_REC_CLIENTS_MAX; c++) {
		if (c->fd < 0)
			continue;
		end = c->asker.heard + urds_rec_patience(&c->asker);
		if (c->asker.is_dead || end <= now)
			client_close(s, c);
		else if (end < next)
			next = end;
	}
	return next == URDS_NEVER ? -1 : (int)((next - now) / URDS_MS(1)) + 1;
}

static void dispatch(struct server *s, uint64_t what)
{
	struct client *c = &s->clients[what >> 8 & (URDS_REC_CLIENTS_MAX - 1)];
	uint64_t rung;
	ssize_t n;

	switch ((enum watch)(what & 7)) {
	case WATCH_WAKE:
		n = read(s->wake_fd, &rung, sizeof(rung));
		(void)n;
		break;
	case WATCH_LISTENER:
		on_listener(s, (struct urds_record *)(uintptr_t)(what & ~(uint64_t)7));
		break;
	case WATCH_CLIENT:
		if (c->fd >= 0)
			on_client(s, c);
		break;
	case WATCH_SLOT:
		if (c->fd >= 0)
			urds_rec_on_slot(&c->asker, what >> 16 & (URDS_REC_SLOTS - 1));
		break;
	}
}

/* One event per wait: what it is about still exists when it is looked at. */
bool urds_rec_step(struct urds_record_server *base, bool wait, int *next_ms)
{
	struct server *s = server_of(base);
	struct epoll_event ev;

	*next_ms = sweep(s);
	if (epoll_wait(s->epoll_fd, &ev, 1, wait ? *next_ms : 0) != 1)
		return false;
	dispatch(s, ev.data.u64);
	return true;
}

int urds_rec_fd(const struct urds_record_server *base)
{
	return ((const struct server *)(const void *)base)->epoll_fd;
}

void urds_rec_end(struct urds_record_server *base)
{
	struct server *s = server_of(base);

	for (unsigned i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		if (s->clients[i].fd >= 0)
			client_close(s, &s->clients[i]);
}

/* ---------------------------------------------------------------- the server, for record.c */

int urds_rec_server_new(struct urds_record_server **out)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return -URDS_ENOMEM;
	for (unsigned i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		s->clients[i].fd = -1;
	urds_fds_enter();
	s->wake_fd = urds_fds_made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	urds_fds_enter();
	s->epoll_fd = urds_fds_made(epoll_create1(EPOLL_CLOEXEC));
	if (s->epoll_fd < 0 || s->wake_fd < 0 || watch(s, s->wake_fd, WATCH_WAKE) < 0) {
		urds_rec_server_free(&s->base);
		return -URDS_EMFILE;
	}
	*out = &s->base;
	return 0;
}

void urds_rec_server_free(struct urds_record_server *base)
{
	struct server *s = server_of(base);

	urds_fds_close(s->epoll_fd);
	urds_fds_close(s->wake_fd);
	free(s);
}

void urds_rec_server_wake(struct urds_record_server *base)
{
	uint64_t one = 1;
	ssize_t n = write(server_of(base)->wake_fd, &one, sizeof(one));

	(void)n; /* EAGAIN: rung already */
}

int urds_rec_open(struct urds_record *r)
{
	return watch(server_of(r->server), (int)r->name.listener, listener_watch(r));
}

/* The name goes while the lock is held: the thread never sees a closed listener. */
void urds_rec_close(struct urds_record *r)
{
	struct server *s = server_of(r->server);

	urds_rec_give_up(&r->name);
	for (unsigned i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		if (s->clients[i].fd >= 0 && urds_addr_eq(&s->clients[i].asker.addr, &r->addr))
			s->clients[i].asker.is_dead = true;
}

void urds_rec_give_up(struct urds_rec_name *name)
{
	urds_fds_close((int)name->listener);
}
