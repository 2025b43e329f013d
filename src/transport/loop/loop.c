/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections inside one process, and the queue that stands in for a poller.
 */
#include "transport/loop/loop_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "platform/addr.h"

static void enqueue(struct loop *t, struct loop_end *e) URDS_HOLDS(&t->lock)
{
	e->is_queued = true;
	e->next = NULL;
	e->prev = t->last;
	if (t->last)
		t->last->next = e;
	else
		t->first = e;
	t->last = e;
	atomic_fetch_add_explicit(&t->queued, 1, memory_order_relaxed);
}

static void dequeue(struct loop *t, struct loop_end *e) URDS_HOLDS(&t->lock)
{
	if (e->prev)
		e->prev->next = e->next;
	else
		t->first = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		t->last = e->prev;
	e->is_queued = false;
	atomic_fetch_sub_explicit(&t->queued, 1, memory_order_relaxed);
}

static void kick(struct loop *t)
{
	if (t->cfg.kick)
		t->cfg.kick(t->cfg.u);
}

void urds_loop_post(struct loop *t, struct loop_end *e, uint32_t events)
{
	bool was_empty = false;

	urds_lock_acquire(&t->lock);
	if (!e->is_closed) {
		e->events |= events;
		/* While it runs, whoever runs it looks again. */
		if (!e->is_queued && !e->is_running) {
			was_empty = !t->first;
			enqueue(t, e);
		}
	}
	urds_lock_release(&t->lock);
	if (was_empty)
		kick(t);
}

/* @e is closed and nobody is inside one of its sink calls. */
static void end_gone(struct loop *t, struct loop_end *e, bool tell)
{
	struct loop_pair *pair = e->pair;
	bool is_last;

	if (tell && t->base.sink->on_closed)
		t->base.sink->on_closed(&e->base);
	urds_lock_acquire(&t->lock);
	is_last = --pair->open_ends == 0;
	urds_lock_release(&t->lock);
	if (!is_last)
		return;
	urds_loop_pipe_fini(t, &pair->pipe[0]);
	urds_loop_pipe_fini(t, &pair->pipe[1]);
	free(pair);
}

static void listener_put(struct loop *t, struct loop_listener *ls)
{
	bool is_last;

	urds_lock_acquire(&t->lock);
	is_last = --ls->refs == 0;
	urds_lock_release(&t->lock);
	if (!is_last)
		return;
	if (t->base.sink->on_unlistened)
		t->base.sink->on_unlistened(&ls->base);
	free(ls);
}

static bool is_closed(struct loop *t, const struct loop_end *e)
{
	bool yes;

	urds_lock_acquire(&t->lock);
	yes = e->is_closed;
	urds_lock_release(&t->lock);
	return yes;
}

static void dispatch(struct loop *t, struct loop_end *e, uint32_t events)
{
	const struct urds_link_sink *sink = t->base.sink;

	if ((events & LOOP_CONNECTED) && !is_closed(t, e))
		sink->on_connected(&e->base, e->connect_err);
	if (e->connect_err < 0)
		return;
	if ((events & LOOP_READABLE) && !is_closed(t, e))
		sink->on_readable(&e->base, (events & LOOP_ENDED) != 0);
	if ((events & LOOP_WRITABLE) && !is_closed(t, e))
		sink->on_writable(&e->base);
}

/* The listener went away before @e was reported: the sink never heard of it. */
static void abandon(struct loop *t, struct loop_end *e)
{
	urds_lock_acquire(&t->lock);
	e->is_closed = true;
	urds_lock_release(&t->lock);
	urds_loop_pipe_close(e, true);
	end_gone(t, e, false);
}

/* Takes one end off the queue and tells its sink. False: the queue is empty. */
static bool run_one(struct loop *t)
{
	struct loop_listener *ls = NULL;
	struct loop_end *e;
	uint32_t events;
	bool was_closed;

	urds_lock_acquire(&t->lock);
	e = t->first;
	if (!e) {
		urds_lock_release(&t->lock);
		return false;
	}
	dequeue(t, e);
	events = e->events;
	e->events = 0;
	e->is_running = true;
	if (events & LOOP_ACCEPT) {
		ls = e->ls;
		e->ls = NULL;
		if (ls)
			ls->refs++;
	}
	urds_lock_release(&t->lock);

	if ((events & LOOP_ACCEPT) && !ls) {
		abandon(t, e);
		return true;
	}
	if (ls) {
		t->base.sink->on_accept(&ls->base, &e->base, &e->from, e->from_port);
		listener_put(t, ls);
	}
	dispatch(t, e, events);

	urds_lock_acquire(&t->lock);
	e->is_running = false;
	was_closed = e->is_closed;
	/* urds_loop_run() kicks for what is left. */
	if (!was_closed && e->events)
		enqueue(t, e);
	urds_lock_release(&t->lock);
	if (was_closed)
		end_gone(t, e, true);
	return true;
}

size_t urds_loop_run(struct urds_transport *base)
{
	struct loop *t = loop_of(base);
	size_t todo = atomic_load_explicit(&t->queued, memory_order_relaxed), done = 0;

	while (done < todo && run_one(t))
		done++;
	/* What was queued behind a queue that was not empty has not kicked. */
	if (done > 0 && urds_loop_pending(base))
		kick(t);
	return done;
}

bool urds_loop_pending(struct urds_transport *base)
{
	return atomic_load_explicit(&loop_of(base)->queued, memory_order_relaxed) != 0;
}

static bool is_local(struct urds_transport *base, const struct urds_addr *a)
{
	struct loop *t = loop_of(base);

	if (urds_addr_is_any(a))
		return false;
	return t->cfg.is_local ? t->cfg.is_local(t->cfg.u, a) : true;
}

static int source_for(struct urds_transport *base, const struct urds_addr *to,
		      struct urds_addr *from)
{
	if (!is_local(base, to))
		return -URDS_EUNREACH;
	*from = *to;
	return 0;
}

static int name(struct urds_transport *base, const char *text, struct urds_addr *out)
{
	return urds_addr_parse(out, text);
}

static struct loop_listener **find_listener(struct loop *t, const struct urds_addr *a)
	URDS_HOLDS(&t->lock)
{
	struct loop_listener **p = &t->listeners;

	while (*p && !urds_addr_eq(&(*p)->base.addr, a))
		p = &(*p)->next;
	return p;
}

static int loop_listen(struct urds_transport *base, const struct urds_addr *addr, void *user,
		       struct urds_listener **out)
{
	struct loop *t = loop_of(base);
	struct loop_listener *ls, **p;

	if (urds_addr_is_any(addr))
		return -URDS_EINVAL;
	if (!is_local(base, addr))
		return -URDS_EADDRNOTAVAIL;
	ls = calloc(1, sizeof(*ls));
	if (!ls)
		return -URDS_ENOMEM;
	ls->base.t = base;
	ls->base.addr = *addr;
	ls->base.user = user;
	ls->refs = 1;
	*out = &ls->base;

	urds_lock_acquire(&t->lock);
	p = find_listener(t, addr);
	if (!*p) {
		*p = ls;
		ls = NULL;
	}
	urds_lock_release(&t->lock);
	if (!ls)
		return 0;
	free(ls);
	return -URDS_EADDRINUSE;
}

static void loop_unlisten(struct urds_listener *base)
{
	struct loop *t = loop_of(base->t);
	struct loop_listener *ls = urds_container_of(base, struct loop_listener, base), **p;

	urds_lock_acquire(&t->lock);
	p = find_listener(t, &base->addr);
	assert(*p == ls);
	*p = ls->next;
	/* Still queued for it: run_one() finds nobody and resets them. */
	for (struct loop_end *e = t->first; e; e = e->next)
		if (e->ls == ls)
			e->ls = NULL;
	urds_lock_release(&t->lock);
	listener_put(t, ls);
}

static int loop_dial(struct urds_transport *base, const struct urds_addr *local,
		     const struct urds_addr *remote, int lane, void *user, struct urds_link **out)
{
	struct loop *t = loop_of(base);
	struct loop_listener *ls;
	struct loop_pair *pair;
	bool was_empty;
	uint32_t n;

	if (urds_addr_is_any(local) || urds_addr_is_any(remote) || lane < -1 || lane > 7)
		return -URDS_EINVAL;
	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return -URDS_ENOMEM;
	urds_lock_init(&pair->lock);
	for (unsigned i = 0; i < 2; i++) {
		pair->end[i].base.t = base;
		pair->end[i].pair = pair;
		pair->end[i].side = i;
	}
	pair->end[0].base.user = user;
	pair->end[1].from = *local;
	*out = &pair->end[0].base;

	urds_lock_acquire(&t->lock);
	ls = *find_listener(t, remote);
	/* Looks like what TCP would choose; W5 holds. */
	n = t->next_port++;
	pair->end[1].from_port =
		(uint16_t)(32768 + n % 3500 * 8 + (lane < 0 ? n / 3500 % 8 : (unsigned)lane));
	pair->open_ends = ls ? 2 : 1;
	pair->end[1].ls = ls;
	pair->end[1].is_closed = !ls;
	if (!ls) {
		pair->end[0].connect_err = -URDS_ECONNREFUSED;
		pair->pipe[0].is_reset = pair->pipe[1].is_reset = true;
	}
	/* Both under one hold: what either end does at once must come behind these at the other. */
	was_empty = !t->first;
	pair->end[0].events = LOOP_CONNECTED;
	enqueue(t, &pair->end[0]);
	if (ls) {
		pair->end[1].events = LOOP_ACCEPT;
		enqueue(t, &pair->end[1]);
	}
	urds_lock_release(&t->lock);
	if (was_empty)
		kick(t);
	return 0;
}

static void loop_shutdown(struct urds_link *base)
{
	urds_loop_pipe_shutdown(urds_container_of(base, struct loop_end, base));
}

static void loop_close(struct urds_link *base, enum urds_close_how how)
{
	struct loop *t = loop_of(base->t);
	struct loop_end *e = urds_container_of(base, struct loop_end, base);
	bool is_running;

	urds_loop_pipe_close(e, how == URDS_CLOSE_RESET);
	/* One step: from then on a thread that is running @e frees it. */
	urds_lock_acquire(&t->lock);
	assert(!e->is_closed);
	e->is_closed = true;
	if (e->is_queued)
		dequeue(t, e);
	is_running = e->is_running;
	urds_lock_release(&t->lock);
	if (!is_running)
		end_gone(t, e, true);
}

int urds_loop_new(const struct urds_loop_config *config, const struct urds_link_sink *sink,
		  void *user, struct urds_transport **out)
{
	struct loop *t = calloc(1, sizeof(*t));

	if (!t)
		return -URDS_ENOMEM;
	t->base.data = &urds_loop_data;
	t->base.connect = &urds_loop_connect;
	t->base.resolve = &urds_loop_resolve;
	t->base.sink = sink;
	t->base.user = user;
	t->cfg = *config;
	if (t->cfg.pipe_n64k == 0)
		t->cfg.pipe_n64k = 4;
	t->pipe_bytes = (size_t)t->cfg.pipe_n64k << 16;
	urds_lock_init(&t->lock);
	*out = &t->base;
	return 0;
}

void urds_loop_free(struct urds_transport *base)
{
	struct loop *t;

	if (!base)
		return;
	t = loop_of(base);
	assert(!t->listeners);
	/* Connections nobody was told of, of a listener that is gone. */
	while (run_one(t))
		;
	assert(!t->first);
	free(t);
}

const struct urds_connect_ops urds_loop_connect = {
	.listen = loop_listen,
	.unlisten = loop_unlisten,
	.dial = loop_dial,
	.shutdown = loop_shutdown,
	.close = loop_close,
};

const struct urds_resolve_ops urds_loop_resolve = {
	.is_local = is_local,
	.source_for = source_for,
	.name = name,
};
