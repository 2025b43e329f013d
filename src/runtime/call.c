/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls of the public interface and their threads: what a signal handler may do that interrupts one, what becomes
 * of one that is left by longjmp or cancellation, and how one waits to be woken.
 *
 * A call holds no lock and no role in a blocking system call. There it may be left: by cancellation, and then it
 * gives back what it had when its thread ends; by longjmp from a handler, and then when its thread calls
 * again. Anywhere else cancellation takes no effect (platform/posix/nocancel.h), and a handler is turned away. Where there is
 * no such thing (platform/leave.h) calls only end.
 */
#include "runtime/call.h"

#include "platform/futex.h"

_Thread_local struct call_thread call_me __attribute__((tls_model("initial-exec")));
#define me call_me

static void list_take_off(struct wait_list *l, struct urds_request *r);
static bool is_on_list(const struct wait_list *l, const struct urds_request *r);

/* A call of this thread was left in its wait by longjmp or cancellation: what it had is given back. */
static void abandon(struct call_thread *t)
{
	struct waiter *w = &t->w;
	struct urds_ctx *e = t->leads;
	struct urds_sock *s = w->holds;
	bool was_asleep = w->is_asleep;

	t->state = CALL_IN;
	if (w->list &&
	    atomic_load(
		    &s->e->is_dead)) { /* the parent's, or leaked for our sake: nobody is there */
		w->list = NULL;
		w->is_asleep = false;
		memset(&t->batch, 0, sizeof t->batch);
		t->leads = e = NULL;
	}
	if (w->list) {
		bool woken;

		set_asleep(s->e, w, false);
		urds_lock_acquire(w->lock);
		woken = urds_request_is_over(&w->req);
		if (is_on_list(w->list, &w->req))
			list_take_off(w->list, &w->req);
		if (woken && w->list->first)
			wait_list_wake(s->e, w->list, 1,
				       0); /* what it was woken for is another's now */
		urds_lock_release(w->lock);
	}
	urds_poller_dispatch(&t->batch);
	if (e) {
		lead_ends(e, t);
		engine_kick(e);
		promote_sleeper(e);
	} else if (w->list && was_asleep) {
		promote_sleeper(
			s->e); /* it may have been chosen to lead, and never have come to it */
	}
	if (w->list) {
		w->list = NULL;
		if (w->is_any)
			atomic_fetch_sub(&s->any_waiters, 1);
		if (w->holds_peer)
			peer_drop(w->holds_peer);
		if (w->closes)
			sock_close(s);
		sock_drop(s);
	}
	t->in_use = false;
	t->state = CALL_OUT;
}

bool call_enter_slow(void)
{
	if (me.state == CALL_IN)
		return false;
	if (urds_frame_is_left(&me.frame, (uintptr_t)waiter_wait, __builtin_frame_address(0))) {
		abandon(&me);
		me.state = CALL_IN;
		return true;
	}
	me.below = CALL_BLOCKED;
	me.state = CALL_IN;
	return true;
}

bool call_is_blocked(void)
{
	return me.state == CALL_BLOCKED;
}

static void thread_exits(void *arg)
{
	struct call_thread *t = arg;

	t->is_watched = false; /* another destructor may call us again */
	if (t->state == CALL_BLOCKED)
		abandon(t);
}

/* ---------------------------------------------------------------- waiters */

struct waiter *waiter_get(void)
{
	if (me.in_use)
		return NULL;
	if (!me.is_watched)
		me.is_watched = urds_thread_at_exit(thread_exits, &me);
	me.in_use = true;
	me.w.is_any = false;
	return &me.w;
}

bool waiter_is_over(void)
{
	return me.leads && urds_request_is_over(&me.w.req);
}

void waiter_link(struct waiter *w, struct wait_list *l, struct urds_lock *lock, struct urds_sock *s,
		 struct peer *p)
{
	w->list = l;
	w->lock = lock;
	w->holds = s;
	w->holds_peer = p;
	w->closes = s && l == &s->tx_waiters && w->port == LINGERS;
	w->req.next = NULL;
	w->req.prev = l->last;
	if (l->last)
		l->last->next = &w->req;
	else
		l->first = &w->req;
	l->last = &w->req;
	urds_request_queue(&w->req);
}

static void list_take_off(struct wait_list *l, struct urds_request *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		l->first = r->next;
	if (r->next)
		r->next->prev = r->prev;
	else
		l->last = r->prev;
	r->next = r->prev = NULL;
}

static bool is_on_list(const struct wait_list *l, const struct urds_request *r)
{
	return r->prev || l->first == r;
}

void waiter_put(struct waiter *w)
{
	if (!urds_request_is_done(&w->req)) {
		urds_lock_acquire(w->lock);
		if (is_on_list(w->list, &w->req))
			list_take_off(w->list, &w->req);
		urds_lock_release(w->lock);
	}
	w->list = NULL;
	me.in_use = false;
}

static void finish(struct urds_ctx *e, struct wait_list *l, struct urds_request *r, int result)
{
	list_take_off(l, r);
	if (me.leads == e && r == &me.w.req) {
		urds_request_complete_own(r, result);
		return;
	}
	if (!urds_request_claim(r))
		return;
	if (urds_request_complete(r, result))
		urds_futex_wake(&r->state, 1);
	else if (me.leads != e && urds_doorbell_ring(&e->lead_bell))
		urds_wake_ring(&e->lead_wake);
}

void wait_list_wake(struct urds_ctx *e, struct wait_list *l, unsigned n, int result)
{
	for (; n > 0 && l->first; n--)
		finish(e, l, l->first, result);
}

void wait_list_wake_port(struct urds_ctx *e, struct wait_list *l, uint16_t port)
{
	struct urds_request *r = l->first, *next;

	for (; r; r = next) {
		next = r->next;
		if (urds_container_of(r, struct waiter, req)->port == port)
			finish(e, l, r, 0);
	}
}

void wait_list_wake_sock(struct urds_ctx *e, struct wait_list *l, const struct urds_sock *s)
{
	struct urds_request *r = l->first, *next;

	for (; r; r = next) {
		next = r->next;
		if (urds_container_of(r, struct waiter, req)->holds == s)
			finish(e, l, r, 0);
	}
}

/* ---------------------------------------------------------------- sleepers */

void promote_sleeper(struct urds_ctx *e)
{
	if (!atomic_load(&e->nsleepers))
		return;
	urds_lock_acquire(&e->sleepers_lock);
	if (e->sleepers) {
		urds_request_awake(&e->sleepers->req); /* it may only be about to sleep */
		urds_futex_wake(&e->sleepers->req.state, 1);
	}
	urds_lock_release(&e->sleepers_lock);
}

void set_asleep(struct urds_ctx *e, struct waiter *w, bool asleep)
{
	if (w->is_asleep == asleep)
		return;
	urds_lock_acquire(&e->sleepers_lock);
	if (asleep) {
		w->asleep_prev = NULL;
		w->asleep_next = e->sleepers;
		if (e->sleepers)
			e->sleepers->asleep_prev = w;
		e->sleepers = w;
		atomic_fetch_add(&e->nsleepers, 1);
	} else {
		if (w->asleep_prev)
			w->asleep_prev->asleep_next = w->asleep_next;
		else
			e->sleepers = w->asleep_next;
		if (w->asleep_next)
			w->asleep_next->asleep_prev = w->asleep_prev;
		atomic_fetch_sub(&e->nsleepers, 1);
	}
	w->is_asleep = asleep;
	urds_lock_release(&e->sleepers_lock);
}
