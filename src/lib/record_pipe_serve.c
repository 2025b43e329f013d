/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record on Windows: the thread that answers IDENT on the pipes of one context. Other requests are refused.
 *
 * Each end of a pipe has one operation under way, all the time: it waits for a client, reads a request or writes an
 * answer. An end that is closed is freed when that operation's packet comes.
 */
#include "lib/record_pipe.h"

#include <stdlib.h>

#include "lib/record_server.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/ident.h"
#include "platform/wake.h"

#define LISTEN_AGAIN_NS URDS_MS(100) /* where no further end could be made */

enum end_state { LISTENING, READING, WRITING };

struct end {
	struct urds_poll_op op;
	struct end *next; /* of the server */
	struct server *server;
	struct urds_record *record;
	HANDLE pipe; /* INVALID_HANDLE_VALUE: closed */
	enum end_state state;
	bool is_ours;
	urds_ns until; /* client: when it has been silent for too long */
	uint8_t msg[URDS_REC_HDR_LEN + 512];
};

struct server {
	struct urds_record_server base;
	struct urds_poller *poller;
	struct urds_wake wake;
	struct end *ends; /* base.lock */
};

static struct server *server_of(struct urds_record_server *base)
{
	return urds_container_of(base, struct server, base);
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
	struct server *s = server_of(r->server);
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
	return rc;
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

	while (e && (e->record != r || e->state != LISTENING || e->pipe == INVALID_HANDLE_VALUE))
		e = e->next;
	return e != NULL;
}

/* Room for one more client? */
static bool admit(struct server *s)
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
	if (n < URDS_REC_CLIENTS_MAX)
		return true;
	if (oldest)
		end_close(oldest);
	return oldest != NULL;
}

static bool on_client(struct end *e)
{
	struct urds_ident who;
	ULONG pid;

	if (!admit(e->server))
		return false;
	e->is_ours = GetNamedPipeClientProcessId(e->pipe, &pid) &&
		     urds_ident_of((uint32_t)pid, &who);
	e->until = urds_clock_ns() + URDS_REC_FIRST_NS;
	return end_read(e);
}

static bool on_request(struct end *e, size_t len)
{
	struct urds_rec_hdr h;
	int n;

	if (urds_rec_hdr_get(&h, e->msg, len) < 0)
		return false;
	if (h.type == URDS_REC_IDENT)
		n = urds_rec_ident_put(e->msg, sizeof(e->msg), h.tag, &e->server->base.ident);
	else
		n = urds_rec_error_put(e->msg, sizeof(e->msg), h.type, h.tag,
				       e->is_ours ? -URDS_EOPNOTSUPP : -URDS_EACCES,
				       e->is_ours ? "an owner on Windows says who it is, no more"
						  : "only for the owner's user");
	e->until = urds_clock_ns() + URDS_REC_FIRST_NS;
	return end_write(e, n);
}

static bool on_answered(struct end *e)
{
	e->until = urds_clock_ns() + (e->is_ours ? URDS_REC_IDLE_NS : URDS_REC_FIRST_NS);
	return end_read(e);
}

static void end_done(struct urds_poll_op *op, uint32_t bytes, int err)
{
	struct end *e = urds_container_of(op, struct end, op);
	struct server *s = e->server;
	bool goes_on = false;

	urds_lock_acquire(&s->base.lock);
	if (e->pipe == INVALID_HANDLE_VALUE) {
		/* closed meanwhile; its record may be gone */
	} else if (e->state == LISTENING) {
		e->state = READING;
		listen_again(e->record);
		goes_on = err == 0 && on_client(e); /* or it went at once */
	} else if (err == 0) {
		goes_on = e->state == READING ? on_request(e, bytes) : on_answered(e);
	}
	if (!goes_on)
		end_free(e);
	urds_lock_release(&s->base.lock);
}

/* ---------------------------------------------------------------- the thread */

/* Closes who is late, listens where nobody does. Return: when to come again. */
static urds_ns sweep(struct server *s)
{
	urds_ns now = urds_clock_ns(), next = URDS_NEVER;

	urds_lock_acquire(&s->base.lock);
	for (struct end *e = s->ends; e; e = e->next) {
		if (e->until <= now)
			end_close(e);
		else if (e->until < next)
			next = e->until;
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

	urds_lock_acquire(&s->base.lock);
	for (struct end *e = s->ends; e; e = e->next)
		if (e->state != LISTENING)
			end_close(e);
	urds_lock_release(&s->base.lock);
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
