/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record on Windows: the thread that answers on the pipes of one context.
 *
 * Each end of a pipe waits for a client, then reads a request at a time; answers are written beside that. An end that is
 * closed is freed when nothing of it is under way any more.
 */
#include "lib/record_pipe.h"

#include <stdlib.h>

#include "lib/record_request.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/ident.h"
#include "platform/net.h"
#include "platform/wake.h"
#include "urds/urds.h"

#define LISTEN_AGAIN_NS URDS_MS(100) /* where no further end could be made */
#define QUEUED_MAX (64u << 10)	     /* bytes of answers on their way to a client */
#define REQUEST_MAX 1024u	     /* longer than any request */

struct server {
	struct urds_record_server base;
	struct urds_poller *poller;
	struct urds_wake wake;
	struct end *ends; /* base.lock */
};

/* Freed by the thread only, or when there is none. */
struct end {
	struct urds_poll_op op;	     /* waiting for a client, or reading */
	struct urds_rec_asker asker; /* once it has a client */
	struct end *next;	     /* of the server */
	struct server *server;
	struct urds_record *record;
	HANDLE pipe; /* lock; INVALID_HANDLE_VALUE: closed, and the record perhaps gone */
	bool has_client;
	bool is_reading;  /* or waiting for a client: @op is under way */
	size_t queued;	  /* bytes being written */
	unsigned writes;  /* under way */
	unsigned watches; /* slots whose event may still come */
	uint8_t msg[REQUEST_MAX];
};

/* An answer on its way. */
struct writing {
	struct urds_poll_op op;
	struct end *end;
	size_t len;
	uint8_t bytes[];
};

/* A slot's socket that is looked after: the system waits for its event, and posts it. */
struct watching {
	struct urds_poll_op op;
	struct end *end;
	unsigned slot;
	SOCKET fd;
	HANDLE event, wait;
	_Atomic bool is_posted;
	bool is_over;
};

static struct server *server_of(struct urds_record_server *base)
{
	return urds_container_of(base, struct server, base);
}

static struct end *end_of(struct urds_rec_asker *c)
{
	return urds_container_of(c, struct end, asker);
}

/* ---------------------------------------------------------------- ends; the lock is held */

static void end_close(struct end *e)
{
	if (e->pipe == INVALID_HANDLE_VALUE)
		return;
	CancelIoEx(e->pipe, NULL);
	CloseHandle(e->pipe);
	e->pipe = INVALID_HANDLE_VALUE;
}

/* @ok: what starting the operation returned. False: there will be no packet. (A message that is too long has one.) */
static bool is_under_way(BOOL ok)
{
	return ok || GetLastError() == ERROR_IO_PENDING || GetLastError() == ERROR_MORE_DATA;
}

static void end_done(struct urds_poll_op *op, uint32_t bytes, int err);

/* Takes @pipe. Return: 0 or negative. */
static int listen_with(struct urds_record *r, HANDLE pipe)
{
	struct server *s = server_of(r->server);
	struct end *e = calloc(1, sizeof(*e));
	int rc;

	if (!e) {
		CloseHandle(pipe);
		return -URDS_ENOMEM;
	}
	*e = (struct end){.op.done = end_done, .server = s, .record = r, .pipe = pipe};
	rc = urds_poller_attach(s->poller, (intptr_t)pipe);
	if (rc == 0 && !is_under_way(ConnectNamedPipe(pipe, urds_poll_overlapped(&e->op))))
		/* Somebody is here already, or was. */
		rc = GetLastError() == ERROR_PIPE_CONNECTED || GetLastError() == ERROR_NO_DATA
			     ? urds_poller_post(s->poller, &e->op, 0)
			     : -urds_err_from_system(GetLastError());
	if (rc < 0) {
		CloseHandle(pipe);
		free(e);
		return rc;
	}
	e->is_reading = true;
	e->next = s->ends;
	s->ends = e;
	return 0;
}

static void listen_again(struct urds_record *r)
{
	HANDLE pipe = urds_rec_pipe_new(&r->addr, false);

	/* If it fails the thread tries again. */
	if (pipe != INVALID_HANDLE_VALUE)
		(void)listen_with(r, pipe);
}

static bool listens(const struct urds_record *r)
{
	const struct end *e = server_of(r->server)->ends;

	while (e && (e->record != r || e->has_client || e->pipe == INVALID_HANDLE_VALUE))
		e = e->next;
	return e != NULL;
}

/* Room for one more client? */
static bool admit(struct server *s)
{
	struct end *oldest = NULL;
	unsigned n = 0;

	for (struct end *e = s->ends; e; e = e->next) {
		if (!e->has_client || e->pipe == INVALID_HANDLE_VALUE)
			continue;
		n++;
		if (!e->asker.is_ours && (!oldest || e->asker.heard < oldest->asker.heard))
			oldest = e;
	}
	if (n < URDS_REC_CLIENTS_MAX)
		return true;
	if (oldest)
		end_close(oldest);
	return oldest != NULL;
}

static void on_client(struct end *e)
{
	struct urds_ident who;
	bool has_room = admit(e->server), is_ours;
	ULONG pid;

	listen_again(e->record);
	is_ours = GetNamedPipeClientProcessId(e->pipe, &pid) && urds_ident_of((uint32_t)pid, &who);
	e->has_client = true;
	urds_rec_asker_begin(&e->asker, &e->server->base, &e->record->addr, is_ours);
	if (!has_room)
		end_close(e);
}

static void end_free(struct end *e)
{
	struct end **at;

	for (at = &e->server->ends; *at != e; at = &(*at)->next)
		;
	*at = e->next;
	free(e);
}

/* ---------------------------------------------------------------- ends, by the thread */

/* After whatever happened to @e: reads on, or ends it. */
static void settle(struct end *e)
{
	struct server *s = e->server;
	bool is_closed;

	urds_lock_acquire(&s->base.lock);
	if (e->has_client && e->asker.is_dead)
		end_close(e);
	if (e->pipe != INVALID_HANDLE_VALUE && !e->is_reading && !e->asker.out) {
		e->is_reading = is_under_way(ReadFile(e->pipe, e->msg, sizeof(e->msg), NULL,
						      urds_poll_overlapped(&e->op)));
		if (!e->is_reading)
			end_close(e);
	}
	is_closed = e->pipe == INVALID_HANDLE_VALUE;
	urds_lock_release(&s->base.lock);
	if (!is_closed)
		return;
	if (e->has_client)
		urds_rec_asker_end(&e->asker);
	urds_lock_acquire(&s->base.lock);
	if (!e->is_reading && e->writes == 0 && e->watches == 0)
		end_free(e);
	urds_lock_release(&s->base.lock);
}

static void end_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct end *e = urds_container_of(op, struct end, op);
	struct server *s = e->server;
	bool is_open, is_request;

	urds_lock_acquire(&s->base.lock);
	e->is_reading = false;
	is_open = e->pipe != INVALID_HANDLE_VALUE;
	is_request = e->has_client;
	if (is_open && !is_request && atomic_load(&s->base.is_stopping)) {
		listen_again(e->record);
		end_close(e);
	} else if (is_open && !is_request) {
		on_client(e);
	}
	if (is_open && err < 0)
		end_close(e);
	urds_lock_release(&s->base.lock);
	if (is_open && is_request && err == 0) {
		memcpy(s->base.msg, e->msg, bytes);
		urds_rec_request(&e->asker, bytes);
	}
	settle(e);
}

/* ---------------------------------------------------------------- what requests need of the system */

static void write_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct writing *w = urds_container_of(op, struct writing, op);
	struct end *e = w->end;

	e->writes--;
	e->queued -= w->len;
	free(w);
	if (err < 0)
		e->asker.is_dead = true;
	else if (e->asker.out)
		urds_rec_stream(&e->asker);
	settle(e);
}

int urds_rec_put(struct urds_rec_asker *c, const uint8_t *msg, size_t len)
{
	struct end *e = end_of(c);
	struct writing *w;
	bool ok = false;

	if (e->queued > 0 && e->queued + len > QUEUED_MAX)
		return -URDS_EAGAIN;
	w = calloc(1, sizeof(*w) + len);
	if (!w)
		return -URDS_ENOMEM;
	w->op.done = write_done;
	w->end = e;
	w->len = len;
	memcpy(w->bytes, msg, len);
	urds_lock_acquire(&e->server->base.lock);
	if (e->pipe != INVALID_HANDLE_VALUE)
		ok = is_under_way(WriteFile(e->pipe, w->bytes, (DWORD)len, NULL,
					    urds_poll_overlapped(&w->op)));
	urds_lock_release(&e->server->base.lock);
	if (!ok) {
		free(w);
		return -URDS_ENOTCONN;
	}
	e->writes++;
	e->queued += len;
	return 0;
}

/* settle() sees it. */
void urds_rec_streamed(struct urds_rec_asker *c)
{
}

static void watch_free(struct watching *w)
{
	w->end->watches--;
	CloseHandle(w->event);
	free(w);
}

static void watch_post(struct watching *w)
{
	if (!atomic_exchange(&w->is_posted, true) &&
	    urds_poller_post(w->end->server->poller, &w->op, 0) < 0)
		atomic_store(&w->is_posted, false); /* the answer is lost, as one on the wire is */
}

static void watch_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct watching *w = urds_container_of(op, struct watching, op);
	struct end *e = w->end;

	atomic_store(&w->is_posted, false);
	if (w->is_over) {
		watch_free(w);
	} else {
		urds_rec_on_slot(&e->asker, w->slot);
		/* An event comes for the first of many only. */
		if (urds_wait(e->asker.slots[w->slot].sock, POLLIN, 0) > 0)
			watch_post(w);
	}
	settle(e);
}

/* In a thread of the system's. */
static VOID CALLBACK event_came(PVOID arg, BOOLEAN timed_out)
{
	struct watching *w = arg;

	ResetEvent(w->event);
	watch_post(w);
}

int urds_rec_slot_watch(struct urds_rec_asker *c, unsigned i)
{
	struct watching *w = calloc(1, sizeof(*w));
	int fd = urds_fd(c->slots[i].sock);

	if (!w)
		return -URDS_ENOMEM;
	w->op.done = watch_done;
	w->end = end_of(c);
	w->slot = i;
	w->fd = (SOCKET)fd;
	w->event = CreateEventW(NULL, TRUE, FALSE, NULL);
	if (fd < 0 || !w->event || WSAEventSelect(w->fd, w->event, FD_READ) != 0 ||
	    !RegisterWaitForSingleObject(&w->wait, w->event, event_came, w, INFINITE,
					 WT_EXECUTEINWAITTHREAD)) {
		if (w->event)
			CloseHandle(w->event);
		free(w);
		return -URDS_EMFILE;
	}
	w->end->watches++;
	c->slots[i].watch = (intptr_t)w;
	return 0;
}

void urds_rec_slot_unwatch(struct urds_rec_asker *c, unsigned i)
{
	struct watching *w = (struct watching *)c->slots[i].watch;

	WSAEventSelect(w->fd, NULL, 0);
	UnregisterWaitEx(w->wait, INVALID_HANDLE_VALUE); /* no event comes from here on */
	w->is_over = true;
	if (!atomic_load(&w->is_posted))
		watch_free(w);
}

/* ---------------------------------------------------------------- the thread */

/* Closes who is late, listens where nobody does. Return: when to come again. */
static urds_ns sweep(struct server *s)
{
	urds_ns now = urds_clock_ns(), next = URDS_NEVER, end;

	urds_lock_acquire(&s->base.lock);
	for (struct end *e = s->ends; e; e = e->next) {
		if (!e->has_client || e->pipe == INVALID_HANDLE_VALUE)
			continue;
		end = e->asker.heard + urds_rec_patience(&e->asker);
		if (end <= now)
			end_close(e); /* what is under way ends, and with it all of it */
		else if (end < next)
			next = end;
	}
	for (struct urds_record *r = s->base.records; r; r = r->next) {
		if (listens(r))
			continue;
		listen_again(r);
		if (now + LISTEN_AGAIN_NS < next)
			next = now + LISTEN_AGAIN_NS;
	}
	urds_lock_release(&s->base.lock);
	return next == URDS_NEVER ? URDS_NEVER : next > now ? next - now : 0;
}

/* A client, closed now if it was not; with sockets, perhaps. */
static struct end *some_client(struct server *s)
{
	struct end *e;

	urds_lock_acquire(&s->base.lock);
	for (e = s->ends; e && !e->has_client; e = e->next)
		;
	if (e)
		end_close(e);
	urds_lock_release(&s->base.lock);
	return e;
}

bool urds_rec_step(struct urds_record_server *base, bool wait, int *next_ms)
{
	struct server *s = server_of(base);
	urds_ns next = sweep(s);

	*next_ms = next == URDS_NEVER ? -1 : (int)(next / URDS_MS(1)) + 1;
	return urds_poller_wait(s->poller, wait ? next : 0) > 0;
}

int urds_rec_fd(const struct urds_record_server *base)
{
	return -1;
}

/* Who comes from here on learns the process from the system, and gets no answer. */
void urds_rec_end(struct urds_record_server *base)
{
	struct server *s = server_of(base);

	for (struct end *e; (e = some_client(s)) != NULL;) {
		urds_rec_asker_end(&e->asker);
		(void)urds_poller_wait(s->poller, URDS_MS(10));
	}
}

/* ---------------------------------------------------------------- the server, for record.c */

int urds_rec_server_new(struct urds_record_server **out)
{
	struct server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -URDS_ENOMEM;
	rc = urds_poller_new(&s->poller);
	if (rc < 0)
		goto undo_server;
	rc = urds_wake_init(&s->wake, s->poller, NULL);
	if (rc < 0)
		goto undo_poller;
	*out = &s->base;
	return 0;

undo_poller:
	urds_poller_free(s->poller);
undo_server:
	free(s);
	return rc;
}

static bool has_ends(struct server *s)
{
	bool has;

	urds_lock_acquire(&s->base.lock);
	has = s->ends != NULL;
	urds_lock_release(&s->base.lock);
	return has;
}

void urds_rec_server_free(struct urds_record_server *base)
{
	struct server *s = server_of(base);

	while (has_ends(s)) /* all are closed, and their packets under way */
		(void)urds_poller_wait(s->poller, URDS_MS(10));
	urds_wake_fini(&s->wake);
	urds_poller_free(s->poller);
	free(s);
}

void urds_rec_server_wake(struct urds_record_server *base)
{
	urds_wake_ring(&server_of(base)->wake);
}

int urds_rec_open(struct urds_record *r)
{
	HANDLE pipe = (HANDLE)r->name.listener;

	r->name.listener = (intptr_t)INVALID_HANDLE_VALUE; /* an end's from here on */
	return listen_with(r, pipe);
}

void urds_rec_close(struct urds_record *r)
{
	for (struct end *e = server_of(r->server)->ends; e; e = e->next)
		if (e->record == r)
			end_close(e);
	urds_rec_give_up(&r->name);
}

/* The pipe first: whoever gets the name finds none. */
void urds_rec_give_up(struct urds_rec_name *name)
{
	if ((HANDLE)name->listener != INVALID_HANDLE_VALUE)
		CloseHandle((HANDLE)name->listener);
	CloseHandle((HANDLE)name->guard);
}
