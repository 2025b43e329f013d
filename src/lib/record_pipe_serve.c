/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record on Windows: taking, dropping, and the thread that answers IDENT on the pipes of one context.
 * Other requests are refused.
 *
 * Each end of a pipe has one operation under way, all the time: it waits for a client, reads a request or writes an
 * answer. An end that is closed is freed when that operation's packet comes.
 */
#include "lib/record_pipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record.h"
#include "lib/record_codec.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/ident.h"
#include "platform/lock.h"
#include "platform/thread.h"
#include "platform/wake.h"

#define CLIENTS_MAX 16u		     /* full: the oldest one of another user goes, or the new one */
#define FIRST_NS URDS_SEC(1)	     /* for a request to come, and for the answer to be read */
#define IDLE_NS URDS_SEC(60)	     /* between requests of the same user */
#define LISTEN_AGAIN_NS URDS_MS(100) /* where no further end could be made */

enum end_state { LISTENING, READING, WRITING };

struct end {
	struct urds_poll_op op;
	struct end *next; /* of the server */
	struct urds_record_server *server;
	struct urds_record *record;
	HANDLE pipe; /* INVALID_HANDLE_VALUE: closed */
	enum end_state state;
	bool is_ours;
	urds_ns until; /* client: when it has been silent for too long */
	uint8_t msg[URDS_REC_HDR_LEN + 512];
};

struct urds_record {
	struct urds_record *next; /* of the server */
	struct urds_record_server *server;
	struct urds_addr addr;
	intptr_t guard;
	bool listens;
};

struct urds_record_server {
	struct urds_record_server *next; /* all_lock */
	struct urds_ctx *ctx;
	struct urds_rec_ident ident;
	struct urds_poller *poller;
	struct urds_wake wake;
	struct urds_thread thread;
	_Atomic bool is_stopping;
	struct urds_lock lock; /* what follows; inside all_lock */
	struct urds_record *records;
	struct end *ends;
};

/* Guards the list of servers, start and stop of their threads; never held while asking an owner or joining a thread. */
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

/* ---------------------------------------------------------------- ends */

static void end_close(struct end *e)
{
	if (e->pipe == INVALID_HANDLE_VALUE)
		return;
	CancelIoEx(e->pipe, NULL);
	CloseHandle(e->pipe);
	e->pipe = INVALID_HANDLE_VALUE;
}

/* Nothing of it is under way. */
static void end_free(struct end *e)
{
	struct end **at;

	for (at = &e->server->ends; *at != e; at = &(*at)->next)
		;
	*at = e->next;
	end_close(e);
	free(e);
}

/* @ok: what starting the operation returned. False: there will be no packet. (A message that is too long has one.) */
static bool is_under_way(BOOL ok)
{
	return ok || GetLastError() == ERROR_IO_PENDING || GetLastError() == ERROR_MORE_DATA;
}

static bool end_read(struct end *e)
{
	e->state = READING;
	return is_under_way(
		ReadFile(e->pipe, e->msg, sizeof(e->msg), NULL, urds_poll_overlapped(&e->op)));
}

static bool end_write(struct end *e, int len)
{
	e->state = WRITING;
	return len >= 0 && is_under_way(WriteFile(e->pipe, e->msg, (DWORD)len, NULL,
						  urds_poll_overlapped(&e->op)));
}

static void end_done(struct urds_poll_op *op, uint32_t bytes, int err);

/* Takes @pipe. Return: 0 or negative. */
static int listen_with(struct urds_record *r, HANDLE pipe)
{
	struct urds_record_server *s = r->server;
	struct end *e = calloc(1, sizeof(*e));
	int rc;

	if (!e) {
		CloseHandle(pipe);
		return -URDS_ENOMEM;
	}
	*e = (struct end){.op.done = end_done,
			  .server = s,
			  .record = r,
			  .pipe = pipe,
			  .state = LISTENING,
			  .until = URDS_NEVER,
			  .next = s->ends};
	s->ends = e;
	rc = urds_poller_attach(s->poller, (intptr_t)pipe);
	if (rc == 0 && !is_under_way(ConnectNamedPipe(pipe, urds_poll_overlapped(&e->op))))
		rc = GetLastError() == ERROR_PIPE_CONNECTED ? urds_poller_post(s->poller, &e->op, 0)
							    : -urds_err_from_system(GetLastError());
	if (rc < 0)
		end_free(e);
	r->listens = rc == 0;
	return rc;
}

static void listen_again(struct urds_record *r)
{
	HANDLE pipe = urds_rec_pipe_new(&r->addr, false);

	r->listens = false; /* the thread tries again */
	if (pipe != INVALID_HANDLE_VALUE)
		(void)listen_with(r, pipe);
}

/* Room for one more client? */
static bool admit(struct urds_record_server *s)
{
	struct end *oldest = NULL;
	unsigned n = 0;

	for (struct end *e = s->ends; e; e = e->next) {
		if (e->state == LISTENING || e->pipe == INVALID_HANDLE_VALUE)
			continue;
		n++;
		if (!e->is_ours && (!oldest || e->until < oldest->until))
			oldest = e;
	}
	if (n < CLIENTS_MAX)
		return true;
	if (oldest)
		end_close(oldest);
	return oldest != NULL;
}

static bool on_client(struct end *e)
{
	struct urds_ident who;
	ULONG pid;

	listen_again(e->record);
	if (!admit(e->server))
		return false;
	e->is_ours = GetNamedPipeClientProcessId(e->pipe, &pid) &&
		     urds_ident_of((uint32_t)pid, &who);
	e->until = urds_clock_ns() + FIRST_NS;
	return end_read(e);
}

static bool on_request(struct end *e, size_t len)
{
	struct urds_rec_hdr h;
	int n;

	if (urds_rec_hdr_get(&h, e->msg, len) < 0)
		return false;
	if (h.type == URDS_REC_IDENT)
		n = urds_rec_ident_put(e->msg, sizeof(e->msg), h.tag, &e->server->ident);
	else
		n = urds_rec_error_put(e->msg, sizeof(e->msg), h.type, h.tag,
				       e->is_ours ? -URDS_EOPNOTSUPP : -URDS_EACCES,
				       e->is_ours ? "an owner on Windows says who it is, no more"
						  : "only for the owner's user");
	e->until = urds_clock_ns() + FIRST_NS;
	return end_write(e, n);
}

static bool on_answered(struct end *e)
{
	e->until = urds_clock_ns() + (e->is_ours ? IDLE_NS : FIRST_NS);
	return end_read(e);
}

static void end_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct end *e = urds_container_of(op, struct end, op);
	struct urds_record_server *s = e->server;
	bool goes_on = false;

	urds_lock_acquire(&s->lock);
	if (e->pipe == INVALID_HANDLE_VALUE) {
		/* closed meanwhile; its record may be gone */
	} else if (e->state == LISTENING) {
		if (err < 0)
			listen_again(e->record); /* a client that went at once */
		else
			goes_on = on_client(e);
	} else if (err == 0) {
		goes_on = e->state == READING ? on_request(e, bytes) : on_answered(e);
	}
	if (!goes_on)
		end_free(e);
	urds_lock_release(&s->lock);
}

/* ---------------------------------------------------------------- the thread */

/* Closes who is late, listens where nobody does. Return: when to come again. */
static urds_ns sweep(struct urds_record_server *s)
{
	urds_ns now = urds_clock_ns(), next = URDS_NEVER;

	urds_lock_acquire(&s->lock);
	for (struct end *e = s->ends; e; e = e->next) {
		if (e->until <= now)
			end_close(e);
		else if (e->until < next)
			next = e->until;
	}
	for (struct urds_record *r = s->records; r; r = r->next) {
		if (!r->listens)
			listen_again(r);
		if (!r->listens && now + LISTEN_AGAIN_NS < next)
			next = now + LISTEN_AGAIN_NS;
	}
	urds_lock_release(&s->lock);
	return next == URDS_NEVER ? URDS_NEVER : next > now ? next - now : 0;
}

static void serve(void *server)
{
	struct urds_record_server *s = server;

	while (!atomic_load(&s->is_stopping))
		(void)urds_poller_wait(s->poller, sweep(s));
	/* Who comes from here on learns the process from the system, and gets no answer. */
	urds_lock_acquire(&s->lock);
	for (struct end *e = s->ends; e; e = e->next)
		if (e->state != LISTENING)
			end_close(e);
	urds_lock_release(&s->lock);
}

/* ---------------------------------------------------------------- servers */

static bool has_ends(struct urds_record_server *s)
{
	bool has;

	urds_lock_acquire(&s->lock);
	has = s->ends != NULL;
	urds_lock_release(&s->lock);
	return has;
}

/* Its thread does not run. */
static void server_free(struct urds_record_server *s)
{
	while (has_ends(s)) /* closed all, and their packets are under way */
		(void)urds_poller_wait(s->poller, URDS_MS(10));
	urds_wake_fini(&s->wake);
	urds_poller_free(s->poller);
	free(s);
}

static int server_new(const struct urds_record_cfg *cfg, struct urds_record_server **out)
{
	struct urds_record_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -URDS_ENOMEM;
	s->ctx = cfg->ctx;
	urds_rec_ident_self(&s->ident, cfg->mode);
	rc = urds_poller_new(&s->poller);
	if (rc < 0)
		goto undo_server;
	rc = urds_wake_init(&s->wake, s->poller, NULL);
	if (rc < 0)
		goto undo_poller;
	rc = urds_thread_start(&s->thread, "urds-record", serve, s);
	if (rc < 0)
		goto undo_wake;
	*out = s;
	return 0;

undo_wake:
	urds_wake_fini(&s->wake);
undo_poller:
	urds_poller_free(s->poller);
undo_server:
	free(s);
	return rc;
}

/* Only one caller gets here per server: whoever set is_stopping first. */
static void server_stop(struct urds_record_server *s)
{
	urds_wake_ring(&s->wake);
	urds_thread_join(&s->thread);
}

/* all_lock held. */
static int server_get(const struct urds_record_cfg *cfg, struct urds_record_server **out)
{
	struct urds_record_server *s = server_find(cfg->ctx);
	int rc = 0;

	if (s && atomic_load(&s->is_stopping))
		return -URDS_EBADF;
	if (!s) {
		rc = server_new(cfg, &s);
		if (rc < 0)
			return rc;
		s->next = all;
		all = s;
	}
	*out = s;
	return 0;
}

/* ---------------------------------------------------------------- records */

int urds_record_take(const struct urds_addr *a, const struct urds_record_cfg *cfg,
		     struct urds_record **out, char *why, size_t why_cap)
{
	struct urds_record_server *s = NULL;
	struct urds_record *r = calloc(1, sizeof(*r));
	struct urds_rec_name name;
	char unused[1];
	int rc;

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
	if (rc < 0) {
		free(r);
		return rc;
	}
	r->addr = *a;
	r->guard = name.guard;
	urds_lock_acquire(&all_lock);
	rc = server_get(cfg, &s);
	if (rc == 0) {
		r->server = s;
		urds_lock_acquire(&s->lock);
		r->next = s->records;
		s->records = r;
		rc = listen_with(r, (HANDLE)name.listener);
		urds_lock_release(&s->lock);
	} else {
		CloseHandle((HANDLE)name.listener);
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
	urds_rec_guard_drop(r->guard);
	free(r);
	return rc;
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
	urds_lock_acquire(&s->lock);
	for (p = &s->records; *p != r; p = &(*p)->next)
		;
	*p = r->next;
	for (struct end *e = s->ends; e; e = e->next)
		if (e->record == r)
			end_close(e);
	is_last = !s->records;
	urds_lock_release(&s->lock);
	urds_rec_guard_drop(r->guard); /* the pipe went first: whoever gets the name finds none */
	if (is_last) {
		must_stop = !atomic_exchange(&s->is_stopping, true);
		for (sp = &all; *sp != s; sp = &(*sp)->next)
			;
		*sp = s->next;
	}
	urds_lock_release(&all_lock);
	free(r);
	if (!is_last)
		return;
	if (must_stop)
		server_stop(s);
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
