/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record's thread: clients, their requests, their answers. Nothing here waits except
 * epoll_wait(), which has no timeout while there are no clients, and a ping's first millisecond. A hostile client can only
 * hurt itself: there are few of them, each request has its time, every length is checked, and whoever comes too many is closed.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/record_server.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "urds/urds.h"

#define FOREIGN_MAX 8u	     /* clients that are not ours: the owner's user always gets in */
#define DRAIN_NS URDS_SEC(5) /* for an answer to be read */
#define INFO_MAX (64u << 20) /* bytes of one answer */
#define SPIN_MS 1	     /* a ping's answer that soon is timed without the way through epoll */

/* One socket to ping from, and its last ping. */
struct slot {
	struct urds_sock *sock; /* NULL until used */
	int fd;			/* of the socket, in the epoll set */
	urds_ns sent;
	uint16_t tag;
	bool is_pending; /* no answer came yet */
};

struct client {
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
	struct slot slots[URDS_REC_SLOTS];
};

struct server {
	struct urds_record_server base;
	int epoll_fd, wake_fd;
	struct client clients[URDS_REC_CLIENTS_MAX];
	uint8_t msg[URDS_REC_MSG_MAX]; /* the thread's */
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

static void slot_close(struct server *s, struct slot *slot)
{
	if (!slot->sock)
		return;
	if (slot->fd >= 0)
		epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, slot->fd, NULL);
	urds_close(slot->sock);
	*slot = (struct slot){.fd = -1};
}

static void client_close(struct server *s, struct client *c)
{
	unsigned i;

	for (i = 0; i < URDS_REC_SLOTS; i++)
		slot_close(s, &c->slots[i]);
	free(c->out);
	c->out = NULL;
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
		if (c->fd >= 0 && !c->is_ours && (!found || c->heard < found->heard))
			found = c;
	return found;
}

static unsigned count(struct server *s, bool all)
{
	unsigned n = 0, i;

	for (i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		n += s->clients[i].fd >= 0 && (all || !s->clients[i].is_ours);
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

/* Level-triggered: one client per event. The record may be gone since the event was made. */
static void on_listener(struct server *s, struct urds_record *r)
{
	struct ucred cred = {.uid = (uid_t)-1};
	socklen_t len = sizeof(cred);
	struct client *c;
	struct urds_record *known;
	struct urds_addr addr;
	bool is_ours;
	int fd = -1, err = 0, i;

	urds_lock_acquire(&s->base.lock);
	for (known = s->base.records; known && known != r; known = known->next)
		;
	if (known) {
		addr = r->addr;
		urds_fds_enter();
		fd = urds_fds_made(
			accept4((int)r->name.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		err = fd < 0 ? errno : 0;
	}
	urds_lock_release(&s->base.lock);
	if (fd < 0) {
		/* Out of descriptors: give the processor away rather than spin on the event. */
		if (err == EMFILE || err == ENFILE || err == ENOMEM)
			(void)poll(NULL, 0, 100);
		return;
	}
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	is_ours = cred.uid == 0 || cred.uid == geteuid();
	c = admit(s, is_ours);
	if (!c) {
		urds_fds_close(fd);
		return;
	}
	urds_lock_acquire(&s->base.lock);
	c->fd = fd;
	c->addr = addr;
	c->is_dead = false;
	urds_lock_release(&s->base.lock);
	c->is_ours = is_ours;
	c->has_asked = false;
	c->heard = urds_clock_ns();
	c->out = NULL;
	for (i = 0; i < (int)URDS_REC_SLOTS; i++)
		c->slots[i] = (struct slot){.fd = -1};
	if (watch(s, fd, client_watch(s, c)) < 0)
		client_close(s, c);
}

/* A client that does not read what it asked for is closed: answers other than INFO are small. */
static void answer(struct server *s, struct client *c, int len)
{
	if (len < 0 || send(c->fd, s->msg, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		c->is_dead = true;
}

static void refuse(struct server *s, struct client *c, uint8_t type, uint16_t tag, int status,
		   const char *text)
{
	answer(s, c, urds_rec_error_put(s->msg, sizeof(s->msg), type, tag, status, text));
}

static void watch_client(struct server *s, struct client *c, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = client_watch(s, c)};

	epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

/* Sends what the client's buffer takes; no request is read in the meantime. */
static void stream(struct server *s, struct client *c)
{
	struct urds_rec_chunk chunk = {.element = c->out_element, .total = (uint32_t)c->out_len};
	int n;

	do {
		chunk.offset = (uint32_t)c->out_off;
		chunk.bytes = c->out + c->out_off;
		chunk.len = (uint32_t)(c->out_len - c->out_off);
		if (chunk.len > URDS_REC_CHUNK_MAX)
			chunk.len = URDS_REC_CHUNK_MAX;
		n = urds_rec_chunk_put(s->msg, sizeof(s->msg), c->out_tag, &chunk);
		if (send(c->fd, s->msg, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
			if (errno != EAGAIN && errno != ENOBUFS)
				c->is_dead = true;
			else
				watch_client(s, c, EPOLLOUT);
			return;
		}
		c->out_off += chunk.len;
		c->heard = urds_clock_ns();
	} while (c->out_off < c->out_len);
	free(c->out);
	c->out = NULL;
	watch_client(s, c, EPOLLIN);
}

static void on_info(struct server *s, struct client *c, uint16_t tag, uint32_t source)
{
	size_t cap = 4096, need = 0;
	uint8_t *buf = NULL, *grown;
	int element;

	for (;;) {
		grown = realloc(buf, cap);
		if (!grown) {
			free(buf);
			refuse(s, c, URDS_REC_INFO, tag, -URDS_ENOMEM, "no memory for the answer");
			return;
		}
		buf = grown;
		element = s->base.info(s->base.ctx, (int)source, buf, cap, &need);
		if (element > 0 ? need <= cap : element != -URDS_ENOSPC)
			break;
		if (need > INFO_MAX) {
			element = -URDS_ENOSPC;
			break;
		}
		cap = (need > cap ? need : cap) + need / 4; /* it may grow between the calls */
	}
	if (element <= 0) {
		free(buf);
		refuse(s, c, URDS_REC_INFO, tag, element < 0 ? element : -URDS_EIO,
		       "the owner has no such information");
		return;
	}
	c->out = buf;
	c->out_len = need;
	c->out_off = 0;
	c->out_element = (uint32_t)element;
	c->out_tag = tag;
	stream(s, c);
}

static void pong(struct server *s, struct client *c, unsigned i,
		 const struct sockaddr_storage *from, socklen_t len)
{
	struct slot *slot = &c->slots[i];
	struct urds_rec_pong p = {.slot = (uint8_t)i, .rtt_ns = urds_clock_ns() - slot->sent};

	if (urds_addr_from_sockaddr(&p.from, NULL, (const struct sockaddr *)from, len) < 0)
		memset(&p.from, 0, sizeof(p.from));
	slot->is_pending = false;
	answer(s, c, urds_rec_pong_put(s->msg, sizeof(s->msg), slot->tag, &p));
}

/* Bounded: a peer that answers without end gets its turn again at the next event. */
static void on_slot(struct server *s, struct client *c, unsigned i)
{
	struct sockaddr_storage from;
	socklen_t len;
	unsigned turn;

	for (turn = 0; turn < 16 && c->slots[i].sock && !c->is_dead; turn++) {
		len = sizeof(from);
		if (urds_recvfrom(c->slots[i].sock, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&from,
				  &len) < 0)
			return;
		pong(s, c, i, &from, len);
	}
}

static int slot_open(struct server *s, struct client *c, unsigned i)
{
	uint64_t what = (uint64_t)i << 16 | (uint64_t)(c - s->clients) << 8 | WATCH_SLOT;
	struct slot *slot = &c->slots[i];
	struct sockaddr_storage sa;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(&c->addr, 0, &sa);

	slot->sock = urds_socket(s->base.ctx);
	if (!slot->sock)
		return -1;
	if (urds_bind(slot->sock, (struct sockaddr *)&sa, len) < 0)
		return -1;
	slot->fd = urds_fd(slot->sock);
	return slot->fd < 0 ? -1 : watch(s, slot->fd, what);
}

static void on_ping(struct server *s, struct client *c, uint16_t tag, unsigned i,
		    const struct urds_addr *dest)
{
	struct slot *slot = &c->slots[i];
	struct sockaddr_storage to;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(dest, 0, &to);

	if (slot->is_pending)
		slot_close(s, slot); /* its answer may still come: not to this ping */
	if (!slot->sock && slot_open(s, c, i) < 0)
		goto failed;
	slot->tag = tag;
	slot->sent = urds_clock_ns();
	slot->is_pending = true;
	if (urds_sendto(slot->sock, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&to, len) < 0)
		goto failed;
	if (urds_wait(slot->sock, POLLIN, SPIN_MS) > 0)
		on_slot(s, c, i);
	return;

failed:
	refuse(s, c, URDS_REC_PING, tag, -urds_errno(), urds_reason());
	slot_close(s, slot);
}

static void on_reset(struct server *s, struct client *c, uint16_t tag, const struct urds_addr *peer)
{
	struct sockaddr_storage from, to;
	socklen_t from_len = (socklen_t)urds_addr_to_sockaddr(&c->addr, 0, &from);
	int n;

	(void)from_len;
	urds_addr_to_sockaddr(peer, 0, &to);
	n = urds_reset(s->base.ctx, (struct sockaddr *)&from, (struct sockaddr *)&to);
	if (n < 0)
		refuse(s, c, URDS_REC_RESET, tag, -urds_errno(), urds_reason());
	else
		answer(s, c, urds_rec_count_put(s->msg, sizeof(s->msg), tag, (uint32_t)n));
}

/* Of a whole message. Return: false if no client of ours writes that. */
static bool request(struct server *s, struct client *c, size_t len)
{
	struct urds_rec_hdr h;
	struct urds_addr addr;
	uint32_t source;
	uint8_t slot;

	if (urds_rec_hdr_get(&h, s->msg, len) < 0)
		return false;
	if (h.type == URDS_REC_IDENT) {
		answer(s, c, urds_rec_ident_put(s->msg, sizeof(s->msg), h.tag, &s->base.ident));
		return true;
	}
	if (!c->is_ours) {
		refuse(s, c, h.type, h.tag, -URDS_EACCES, "only for the owner's user");
		return true;
	}
	switch (h.type) {
	case URDS_REC_INFO:
		if (urds_rec_info_get(&source, s->msg, len) < 0)
			return false;
		on_info(s, c, h.tag, source);
		return true;
	case URDS_REC_PING:
		if (urds_rec_ping_get(&slot, &addr, s->msg, len) < 0)
			return false;
		on_ping(s, c, h.tag, slot, &addr);
		return true;
	case URDS_REC_RESET:
		if (urds_rec_reset_get(&addr, s->msg, len) < 0)
			return false;
		on_reset(s, c, h.tag, &addr);
		return true;
	default:
		return false;
	}
}

static void on_client(struct server *s, struct client *c)
{
	ssize_t n;

	if (c->out) {
		stream(s, c);
		return;
	}
	n = recv(c->fd, s->msg, sizeof(s->msg), MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->heard = urds_clock_ns();
	c->has_asked = true;
	if (n <= 0 || (size_t)n > sizeof(s->msg) || !request(s, c, (size_t)n))
		c->is_dead = true;
}

static urds_ns patience(const struct client *c)
{
	if (c->out)
		return DRAIN_NS;
	return c->is_ours && c->has_asked ? URDS_REC_IDLE_NS : URDS_REC_FIRST_NS;
}

/* Closes who is done or late. Return: milliseconds until the next is late, -1 without clients. */
static int sweep(struct server *s)
{
	urds_ns now = urds_clock_ns(), next = URDS_NEVER, end;
	struct client *c;

	for (c = s->clients; c < s->clients + URDS_REC_CLIENTS_MAX; c++) {
		if (c->fd < 0)
			continue;
		end = c->heard + patience(c);
		if (c->is_dead || end <= now)
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
			on_slot(s, c, what >> 16 & (URDS_REC_SLOTS - 1));
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
	return watch(server_of(r->server), (int)r->name.listener, (uintptr_t)r | WATCH_LISTENER);
}

/* The name goes while the lock is held: the thread never sees a closed listener. */
void urds_rec_close(struct urds_record *r)
{
	struct server *s = server_of(r->server);

	urds_rec_give_up(&r->name);
	for (unsigned i = 0; i < URDS_REC_CLIENTS_MAX; i++)
		if (s->clients[i].fd >= 0 && urds_addr_eq(&s->clients[i].addr, &r->addr))
			s->clients[i].is_dead = true;
}

void urds_rec_give_up(struct urds_rec_name *name)
{
	urds_fds_close((int)name->listener);
}
