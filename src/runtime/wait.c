/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who drives the wire, and how calls wait.
 *
 * A blocked call becomes the leader: it sits in the poller itself and reads what comes, so nothing is handed from
 * thread to thread. While it does, and for a moment after, it has the lease and the loop thread keeps out;
 * otherwise the loop thread is in the poller. Further blocked calls sleep on a futex each.
 *
 * No lock and no role is held in a blocking system call. A call that is left there by cancellation gives back
 * what it had when its thread ends; one left by longjmp from a signal handler when its thread calls again, and
 * until then the loop thread stands in for a leader that is gone.
 */
#include "runtime/engine.h"

#include <pthread.h>
#include <signal.h>

#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/futex.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

/* The loop thread stays away this long after a caller drove. Renewed by each call. */
#define LEASE_NS URDS_MS(10)
/* How long it leaves callers alone that read the wire without blocking. */
#define BUSY_NS URDS_MS(1)
/* A leader that saw nothing for this long hands over to the loop thread and sleeps on its futex. */
#define LEAD_IDLE_NS URDS_MS(100)
/* A spin that misses this often in a row is not tried for a while. */
#define SPIN_MISSES_MAX 16
#define SPIN_RETRY 64

/* How far below the frame of a wait the frames of a handler that interrupts it begin at least, and how far below
 * it those of a later call from the same place may reach. */
#define FRAME_SLACK 512

enum call_state { CALL_OUT = 0, CALL_IN, CALL_BLOCKED };

/* Only its own thread touches it; handlers that interrupt that thread too, hence the order of things. */
struct thread_state {
	struct waiter w;
	bool in_use;
	volatile sig_atomic_t state; /* enum call_state */
	volatile sig_atomic_t below; /* the state to go back to: CALL_BLOCKED in a handler's call */
	struct urds_ctx *leads;	     /* its leader, needs no bell; or NULL */
	unsigned misses, skipped;
	char *frame;		    /* of the wait */
	volatile uintptr_t *mark;   /* in that frame; holds its own address + serial while the frame lives */
	uintptr_t serial;
	struct urds_poll_batch batch;
};

static _Thread_local struct thread_state me __attribute__((tls_model("initial-exec")));

static void list_take_off(struct wait_list *l, struct urds_request *r);
static bool is_on_list(const struct wait_list *l, const struct urds_request *r);
static void set_asleep(struct urds_ctx *e, struct waiter *w, bool asleep);
static void promote_sleeper(struct urds_ctx *e);

/* ---------------------------------------------------------------- calls and their threads */

/* A call of this thread was left in its wait by longjmp or cancellation: what it had is given back. */
static void abandon(struct thread_state *t)
{
	struct waiter *w = &t->w;
	struct urds_ctx *e = t->leads;
	struct urds_sock *s = w->holds;

	t->leads = NULL;
	t->state = CALL_IN;
	if (w->list && atomic_load(&s->e->is_dead)) { /* the parent's, or leaked for our sake: nobody is there */
		w->list = NULL;
		memset(&t->batch, 0, sizeof t->batch);
		e = NULL;
	}
	if (w->list) {
		bool woken;

		set_asleep(s->e, w, false);
		urds_lock_acquire(w->lock);
		woken = urds_request_is_over(&w->req);
		if (is_on_list(w->list, &w->req))
			list_take_off(w->list, &w->req);
		if (woken && w->list->first)
			wait_list_wake(s->e, w->list, 1, 0); /* what it was woken for is another's now */
		urds_lock_release(w->lock);
	}
	urds_poller_dispatch(&t->batch);
	if (e) {
		atomic_store(&e->lease, 0);
		atomic_store(&e->leader, 0);
		engine_kick(e);
		promote_sleeper(e);
	}
	if (w->list) {
		w->list = NULL;
		if (w->is_any)
			atomic_fetch_sub(&s->any_waiters, 1);
		if (w->holds_peer)
			peer_drop(w->holds_peer);
		sock_drop(s);
	}
	t->in_use = false;
	t->state = CALL_OUT;
}

/* Is the wait that this thread was in gone, and we are not in a handler on top of it? */
static bool __attribute__((noinline, no_sanitize("address", "thread"))) is_abandoned(void)
{
	stack_t ss;

	if (sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_ONSTACK))
		return false;
	if ((char *)__builtin_frame_address(0) + FRAME_SLACK > me.frame)
		return true;
	/* A later call, deeper than that one was: then its frame was written over. */
	return *me.mark != (uintptr_t)me.mark + me.serial;
}

static bool __attribute__((noinline)) call_enter_slow(void)
{
	if (me.state == CALL_IN)
		return false;
	if (is_abandoned()) {
		abandon(&me);
		me.state = CALL_IN;
		return true;
	}
	me.below = CALL_BLOCKED;
	me.state = CALL_IN;
	return true;
}

bool call_enter(void)
{
	if (me.state != CALL_OUT)
		return call_enter_slow();
	me.state = CALL_IN;
	return true;
}

void call_leave(void)
{
	sig_atomic_t below = me.below;

	me.below = CALL_OUT;
	me.state = below;
}

bool call_is_blocked(void)
{
	return me.state == CALL_BLOCKED;
}

static pthread_key_t exit_key;
static struct urds_once exit_once;

static void thread_exits(void *arg)
{
	struct thread_state *t = arg;

	if (t->state == CALL_BLOCKED)
		abandon(t);
}

static void make_key(void)
{
	pthread_key_create(&exit_key, thread_exits);
}

/* ---------------------------------------------------------------- waiters */

struct waiter *waiter_get(void)
{
	if (me.in_use)
		return NULL;
	urds_once(&exit_once, make_key);
	if (!pthread_getspecific(exit_key))
		pthread_setspecific(exit_key, &me);
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
	urds_lock_acquire(w->lock);
	if (is_on_list(w->list, &w->req))
		list_take_off(w->list, &w->req);
	urds_lock_release(w->lock);
	w->list = NULL;
	me.in_use = false;
}

static void finish(struct urds_ctx *e, struct wait_list *l, struct urds_request *r, int result)
{
	list_take_off(l, r);
	if (!urds_request_claim(r))
		return;
	if (urds_request_complete(r, result))
		urds_futex_wake(&r->state, 1);
	else if (me.leads != e && urds_doorbell_ring(&e->lead_bell))
		urds_wake_ring(&e->wake);
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

/* ---------------------------------------------------------------- driving */

static urds_ns shorter(urds_ns a, urds_ns b)
{
	return a < b ? a : b;
}

void engine_run_loop(struct urds_ctx *e)
{
	/* A handshake takes a few rounds; traffic without end is left to the next. */
	for (int i = 0; i < 16 && urds_loop_pending(e->loop); i++)
		urds_loop_run(e->loop);
}

/* What there is to do besides the poller's events. */
static void run_all(struct urds_ctx *e)
{
	engine_run_loop(e);
	ready_run(e);
	flush_dirty(e, URDS_NEVER);
	if (atomic_load_explicit(&e->next_deadline, memory_order_relaxed) != URDS_NEVER)
		timer_run(e, urds_clock_ns());
}

static bool has_work(struct urds_ctx *e)
{
	return urds_loop_pending(e->loop) || atomic_load(&e->ready) || atomic_load(&e->dirty);
}

/* Around a blocking system call: nothing is held. */
static void block(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	me.state = CALL_BLOCKED;
	atomic_signal_fence(memory_order_seq_cst);
}

static void unblock(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	me.state = CALL_IN;
	atomic_signal_fence(memory_order_seq_cst);
}

/* One visit to the poller, at most @limit long. Return: events seen, 0, or negative. */
static int poll_once(struct urds_ctx *e, urds_ns now, urds_ns limit)
{
	urds_ns until = now + limit < now ? URDS_NEVER : now + limit, next;
	int n;

	atomic_store_explicit(&e->poll_until, until, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	next = atomic_load_explicit(&e->next_deadline, memory_order_relaxed);
	until = shorter(until, next);
	if (has_work(e))
		until = now;
	atomic_store_explicit(&e->poll_until, until, memory_order_relaxed);
	urds_count(e, URDS_C_poll_calls, 1);
	block();
	n = urds_poller_fetch(e->poller, until == URDS_NEVER ? URDS_NEVER : until > now ? until - now : 0,
			      &me.batch);
	unblock();
	if (n > 0)
		urds_poller_dispatch(&me.batch);
	return n;
}

void engine_kick(struct urds_ctx *e)
{
	if (me.leads != e && urds_doorbell_ring(&e->lead_bell))
		urds_wake_ring(&e->wake);
	else if (atomic_load(&e->loop_polls))
		urds_wake_ring(&e->wake);
	else if (urds_doorbell_ring(&e->loop_bell))
		urds_futex_wake(&e->loop_bell.word, 1);
}

void engine_drive(struct urds_ctx *e)
{
	run_all(e);
	urds_count(e, URDS_C_poll_calls, 1);
	urds_poller_wait(e->poller, 0);
	run_all(e);
}

/* The loop thread, out of the poller, until @until or a kick. */
static void nap(struct urds_ctx *e, urds_ns until)
{
	urds_doorbell_arm(&e->loop_bell);
	if (!atomic_load(&e->stop))
		urds_futex_wait(&e->loop_bell.word, URDS_DOORBELL_ASLEEP, until);
	urds_doorbell_disarm(&e->loop_bell);
}

/* The leader left by longjmp and has not called again: events that it had fetched may have gone with it. */
static void replace_leader(struct urds_ctx *e)
{
	uint32_t one = 1;

	if (!atomic_compare_exchange_strong(&e->leader, &one, 0))
		return;
	urds_wake_renew(&e->wake);
	urds_tcp_rearm(e->tcp);
	promote_sleeper(e);
}

void loop_main(void *arg)
{
	struct urds_ctx *e = arg;

	while (!atomic_load(&e->stop)) {
		urds_ns now = urds_clock_ns(), lease, limit = URDS_NEVER;

		atomic_store(&e->loop_polls, 1);
		lease = atomic_load(&e->lease);
		if (now < lease && !atomic_load(&e->watchers)) {
			atomic_store(&e->loop_polls, 0);
			nap(e, shorter(lease, now + LEASE_NS));
			/* A kick in the middle of a lease: the caller may be computing. */
			if (urds_clock_ns() < atomic_load(&e->lease))
				run_all(e);
			continue;
		}
		if (!atomic_load(&e->watchers) && atomic_exchange(&e->is_busy, false)) {
			/* Callers that never block see to their own connections; the others' turn comes
			 * every so often. */
			atomic_store(&e->loop_polls, 0);
			engine_drive(e);
			nap(e, urds_clock_ns() + BUSY_NS);
			continue;
		}
		if (atomic_load(&e->leader)) {
			/* Its lease has run out. */
			if (now > lease + LEAD_IDLE_NS)
				replace_leader(e);
			else
				limit = LEAD_IDLE_NS;
		}
		poll_once(e, now, limit);
		atomic_store(&e->loop_polls, 0);
		run_all(e);
	}
}

/* ---------------------------------------------------------------- waiting */

static bool may_spin(struct urds_ctx *e, struct path *spin)
{
	struct urds_link *l;
	int cpu;

	if (!e->cfg.spin || !spin)
		return false;
	if (me.misses >= SPIN_MISSES_MAX && ++me.skipped < SPIN_RETRY)
		return false;
	me.skipped = 0;
	l = atomic_load_explicit(&spin->link, memory_order_acquire);
	/* On one CPU a spin only keeps the peer from running. */
	if (!l)
		return false;
	cpu = l->t->data->incoming_cpu(l);
	return cpu >= 0 && cpu != urds_cpu_current();
}

static void spin_on(struct urds_ctx *e, struct waiter *w, struct path *spin, urds_ns now)
{
	urds_ns until = now + URDS_US(e->cfg.spin_us);

	do {
		path_receive(spin);
		if (urds_request_is_over(&w->req)) {
			me.misses = 0;
			urds_count(e, URDS_C_spin_hits, 1);
			return;
		}
		urds_cpu_pause();
	} while (urds_clock_ns() < until);
	me.misses++;
	urds_count(e, URDS_C_spin_misses, 1);
}

/* Some sleeper is told that there is no leader. */
static void promote_sleeper(struct urds_ctx *e)
{
	if (!atomic_load(&e->nsleepers))
		return;
	urds_lock_acquire(&e->sleepers_lock);
	if (e->sleepers)
		urds_futex_wake(&e->sleepers->req.state, 1);
	urds_lock_release(&e->sleepers_lock);
}

static void set_asleep(struct urds_ctx *e, struct waiter *w, bool asleep)
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

/* Leads until @w is over, its deadline, a signal (-URDS_EINTR) or a long silence (0). */
static int lead(struct urds_ctx *e, struct waiter *w, struct path *spin)
{
	urds_ns now = urds_clock_ns(), quiet_since = now;
	int rc = 0;

	/* Renewed before the loop thread is asked to leave, so that it sees why. */
	atomic_store(&e->lease, now + LEAD_IDLE_NS + LEASE_NS);
	if (atomic_load(&e->loop_polls))
		urds_wake_ring(&e->wake);
	me.leads = e;
	run_all(e);
	while (!urds_request_is_over(&w->req)) {
		urds_ns limit = LEAD_IDLE_NS;

		if (spin && may_spin(e, spin)) {
			spin_on(e, w, spin, now);
			if (urds_request_is_over(&w->req))
				break;
		}
		now = urds_clock_ns();
		if (now >= w->req.deadline || now >= quiet_since + LEAD_IDLE_NS)
			break;
		limit = shorter(limit, w->req.deadline - now);
		atomic_store_explicit(&e->lease, now + LEAD_IDLE_NS + LEASE_NS, memory_order_relaxed);
		urds_doorbell_arm(&e->lead_bell);
		if (urds_request_is_over(&w->req)) {
			urds_doorbell_disarm(&e->lead_bell);
			break;
		}
		rc = poll_once(e, now, limit);
		urds_doorbell_disarm(&e->lead_bell);
		if (rc < 0) /* a signal; or, in a fork child, no poller any more */
			break;
		if (rc > 0)
			quiet_since = urds_clock_ns();
		run_all(e);
	}
	me.leads = NULL;
	now = urds_clock_ns();
	if (now >= quiet_since + LEAD_IDLE_NS) {
		atomic_store(&e->lease, 0);
		atomic_store(&e->leader, 0);
		if (urds_doorbell_ring(&e->loop_bell))
			urds_futex_wake(&e->loop_bell.word, 1);
	} else {
		atomic_store(&e->lease, now + LEASE_NS);
		atomic_store(&e->leader, 0);
		promote_sleeper(e);
	}
	return rc < 0 ? rc : 0;
}

static bool become_leader(struct urds_ctx *e)
{
	uint32_t none = 0;

	return !atomic_load(&e->watchers) && atomic_compare_exchange_strong(&e->leader, &none, 1);
}

/* The futex call itself is no cancellation point. */
static int sleep_cancellable(struct waiter *w, uint32_t word)
{
	int rc, type;

	block();
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	rc = urds_futex_wait(&w->req.state, word, w->req.deadline);
	pthread_setcanceltype(type, NULL);
	unblock();
	return rc;
}

int waiter_wait(struct urds_ctx *e, struct waiter *w, struct path *spin)
{
	volatile uintptr_t mark;
	bool may_lead = true;
	uint32_t word;
	int rc = 0;

	me.frame = __builtin_frame_address(0);
	me.mark = &mark;
	mark = (uintptr_t)&mark + ++me.serial;
	flush_dirty(e, URDS_NEVER);
	while (!urds_request_is_over(&w->req) && rc == 0) {
		bool wake;

		if (urds_clock_ns() >= w->req.deadline) {
			if (urds_request_cancel(&w->req, URDS_ETIMEDOUT, &wake))
				return -URDS_ETIMEDOUT;
			continue;
		}
		if (may_lead && become_leader(e)) {
			rc = lead(e, w, spin);
			/* Back here only after a silence: the loop thread has taken over. */
			may_lead = false;
			continue;
		}
		set_asleep(e, w, may_lead);
		if (urds_request_sleep(&w->req, &word)) {
			rc = sleep_cancellable(w, word);
			if (rc == -URDS_ETIMEDOUT)
				rc = 0;
		}
		set_asleep(e, w, false);
	}
	if (rc < 0 && !urds_request_is_over(&w->req)) {
		bool wake;

		if (urds_request_cancel(&w->req, URDS_EINTR, &wake))
			return rc;
	}
	while (!urds_request_is_over(&w->req))
		urds_cpu_pause(); /* claimed: its completion follows at once */
	mark = 0;
	return urds_request_result(&w->req);
}
