/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who drives the wire, and how calls wait.
 *
 * A blocked call becomes the leader: it sits in the poller itself and reads what comes, so nothing is handed from
 * thread to thread. While it does, and for a moment after, the loop thread keeps out and only sees to timers;
 * otherwise the loop thread is in the poller. Further blocked calls sleep on a futex each.
 *
 * A leader that was left by longjmp is relieved by the loop thread, which also looks again at all it may have been
 * told of (call.c).
 */
#include "runtime/call.h"

#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/futex.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

/* While a caller reads the wire the loop thread only looks in this often: for timers ... */
#define TICK_NS URDS_MS(10)
/* ... and, where callers do not block, for the other connections. */
#define BUSY_NS URDS_MS(1)
/* A leader that saw nothing for this long is sent to sleep on its futex, and the loop thread takes over. */
#define LEAD_IDLE_NS URDS_MS(100)
/* A leader that was lost is called again this often: it may only have been slow. */
#define CALL_AGAIN_NS URDS_SEC(1)
/* A listener without a descriptor tries again this often: it is not told when the program closes one. */
#define STARVED_NS URDS_MS(100)
/* A spin that misses this often in a row is not tried for a while. */
#define SPIN_MISSES_MAX 16
#define SPIN_RETRY 64
/* Between two looks at a stream, some 3 us: reading its bytes as they drip in would slow its sender down. */
#define STREAM_PAUSES 64

#define me call_me

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
	if ((me.leads != e || e->cfg.no_threads) &&
	    atomic_load_explicit(&e->next_deadline, memory_order_relaxed) != URDS_NEVER)
		timer_run(e, urds_clock_ns());
	engine_run_loop(e);
}

bool engine_has_work(struct urds_ctx *e)
{
	return urds_loop_pending(e->loop) || atomic_load(&e->ready) || atomic_load(&e->dirty);
}

/* @hot: a path that news is expected of, with a reference of the caller's, or NULL. */
static int fetch_and_dispatch(struct urds_ctx *e, struct path *hot, urds_ns timeout)
{
	int n;

	me.has_waited = true;
	call_block();
	n = urds_poller_fetch(e->poller, timeout, &me.batch);
	call_unblock();
	/* The usual case, in short. Whatever its connection is by now, to read it is right. */
	if (n == 1 && hot &&
	    urds_poll_batch_take(
		    &me.batch, atomic_load_explicit(&hot->poll_key, memory_order_relaxed),
		    atomic_load(&hot->is_tx_short) ? URDS_POLL_IN : URDS_POLL_IN | URDS_POLL_OUT))
		path_receive(hot);
	else if (n > 0)
		urds_poller_dispatch(&me.batch);
	return n;
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
	if (engine_has_work(e))
		until = now;
	atomic_store_explicit(&e->poll_until, until, memory_order_relaxed);
	urds_count(e, URDS_C_poll_calls, 1);
	n = fetch_and_dispatch(e, NULL,
			       until == URDS_NEVER ? URDS_NEVER
			       : until > now	   ? until - now
						   : 0);
	return n;
}

/* The loop thread, out of the poller, until @until or a kick. */
static void nap(struct urds_ctx *e, urds_ns until)
{
	urds_doorbell_arm(&e->loop_bell);
	if (!atomic_load(&e->stop))
		urds_futex_wait(&e->loop_bell.word, URDS_DOORBELL_ASLEEP, until);
	urds_doorbell_disarm(&e->loop_bell);
}

/* Rings bring everyone out of the poller; they are taken by the one they are for. If that one is not there, anybody
 * takes them, for it will look before it comes again. It may come between that look and the taking, and be rung for
 * anew: so the taker looks again, and rings for it. Return: was it taken? */
static bool take_for(struct urds_wake *w, bool (*is_there)(struct urds_ctx *e), struct urds_ctx *e)
{
	if (is_there(e))
		return false;
	urds_wake_take(w);
	if (!is_there(e))
		return true;
	urds_wake_ring(w);
	return false;
}

/* A leader that was replaced may still be in the poller: the loop thread leaves its ring there for a while. */
static bool leader_is_there(struct urds_ctx *e)
{
	return atomic_load(&e->lead_inside) || (atomic_load(&e->lead_lost) && !me.takes_lead);
}

static bool loop_is_there(struct urds_ctx *e)
{
	return atomic_load(&e->loop_polls);
}

void lead_rung(struct urds_wake *w)
{
	struct urds_ctx *e = urds_container_of(w, struct urds_ctx, lead_wake);

	if (me.leads == e)
		urds_wake_take(w);
	else if (!take_for(w, leader_is_there, e))
		me.saw_lead = true;
}

void loop_rung(struct urds_wake *w)
{
	struct urds_ctx *e = urds_container_of(w, struct urds_ctx, loop_wake);

	/* Where the program stands in for the loop thread, a call that waits does its work; it rings when it leaves. */
	if (me.is_loop || (me.leads == e && e->cfg.no_threads))
		urds_wake_take(w);
	else
		take_for(w, loop_is_there, e);
}

void engine_kick(struct urds_ctx *e)
{
	if (me.leads != e && urds_doorbell_ring(&e->lead_bell))
		urds_wake_ring(&e->lead_wake);
	else if (atomic_load(&e->loop_polls))
		urds_wake_ring(&e->loop_wake);
	else if (urds_doorbell_ring(&e->loop_bell))
		urds_futex_wake(&e->loop_bell.word, 1);
}

int engine_poll_now(struct urds_ctx *e)
{
	int n;

	run_all(e);
	urds_count(e, URDS_C_poll_calls, 1);
	n = urds_poller_wait(e->poller, 0);
	run_all(e);
	return n;
}

void engine_drive(struct urds_ctx *e)
{
	(void)engine_poll_now(e);
}

/* Does a blocked call drive the poller? One that has been silent for long is relieved: it will come out. */
static bool is_led(struct urds_ctx *e, urds_ns now)
{
	urds_ns since = atomic_load(&e->led_since);

	if (since == 0)
		return false;
	if (now < since + LEAD_IDLE_NS && !atomic_load(&e->watchers))
		return true;
	if (atomic_compare_exchange_strong(&e->led_since, &since, 0) &&
	    urds_doorbell_ring(&e->lead_bell))
		urds_wake_ring(&e->lead_wake);
	return false;
}

/* A leader that was relieved has not come out: it was left by longjmp, perhaps with events in its hands, and its
 * thread has not called again. */
static void replace_leader(struct urds_ctx *e)
{
	atomic_store(&e->lead_lost, true);
	atomic_store(&e->lead_inside, false);
	atomic_store(&e->leader, 0);
	urds_tcp_rearm(e->tcp);
	promote_sleeper(e);
}

urds_ns engine_promise(struct urds_ctx *e)
{
	urds_ns next;

	atomic_store(&e->poll_until, URDS_NEVER);
	atomic_thread_fence(memory_order_seq_cst);
	next = atomic_load_explicit(&e->next_deadline, memory_order_relaxed);
	atomic_store(&e->poll_until, next);
	return next;
}

urds_ns engine_resume_accepts(struct urds_ctx *e)
{
	urds_ns now;

	if (!urds_tcp_is_starved(e->tcp))
		return URDS_NEVER;
	now = urds_clock_ns();
	if (now >= atomic_load(&e->accept_at)) {
		atomic_store(&e->accept_at, now + STARVED_NS);
		urds_tcp_unstarve(e->tcp);
	}
	return atomic_load(&e->accept_at);
}

bool engine_leader_is_missed(struct urds_ctx *e)
{
	bool is_rung = me.saw_lead;
	urds_ns now;

	me.saw_lead = false;
	if (!is_rung) {
		e->missed_since = 0;
		return false;
	}
	now = urds_clock_ns();
	if (e->missed_since == 0)
		e->missed_since = now;
	if (now < e->missed_since + LEAD_IDLE_NS)
		return false;
	e->missed_since = 0;
	replace_leader(e);
	return true;
}

/* What the loop thread remembers of a leader that does not come out. */
struct missed {
	urds_ns since; /* it was relieved; 0: none is missed */
	urds_ns again; /* when one that was replaced is called again: it may only be slow */
};

/* Return: how long the loop thread may stay in the poller. */
static urds_ns mind_leader(struct urds_ctx *e, struct missed *m, urds_ns now)
{
	if (atomic_load(&e->lead_inside) && atomic_load(&e->led_since) == 0) {
		if (m->since == 0)
			m->since = now;
		if (now < m->since + LEAD_IDLE_NS)
			return LEAD_IDLE_NS;
		replace_leader(e);
	}
	m->since = 0;
	if (!atomic_load(&e->lead_lost))
		return URDS_NEVER;
	me.takes_lead = now < m->again;
	if (!me.takes_lead) {
		m->again = now + CALL_AGAIN_NS;
		urds_wake_ring(&e->lead_wake);
	}
	return CALL_AGAIN_NS;
}

void loop_main(void *arg)
{
	struct urds_ctx *e = arg;
	struct missed missed = {0};

	me.is_loop = true;
	while (!atomic_load(&e->stop)) {
		urds_ns now = urds_clock_ns(), limit;

		(void)engine_resume_accepts(e);
		atomic_store(&e->loop_polls, 1);
		if (is_led(e, now)) {
			missed.since = 0;
			atomic_store(&e->loop_polls, 0);
			nap(e, now + TICK_NS);
			run_all(e);
			continue;
		}
		limit = mind_leader(e, &missed, now);
		if (!atomic_load(&e->watchers) && atomic_exchange(&e->is_busy, false)) {
			/* Callers that never block see to their own connections; the others' turn comes
			 * every so often. */
			atomic_store(&e->loop_polls, 0);
			engine_drive(e);
			me.takes_lead = me.saw_lead = false;
			nap(e, urds_clock_ns() + BUSY_NS);
			continue;
		}
		poll_once(e, now, urds_tcp_is_starved(e->tcp) ? shorter(limit, STARVED_NS) : limit);
		atomic_store(&e->loop_polls, 0);
		run_all(e);
		me.takes_lead = false;
		if (me.saw_lead) {
			/* It stays until the leader has taken it, who may still have to get a CPU. */
			me.saw_lead = false;
			nap(e, urds_clock_ns() + BUSY_NS);
		}
	}
}

/* ---------------------------------------------------------------- waiting */

static bool may_spin(struct urds_ctx *e, struct path *spin)
{
	int cpu;

	if (!e->cfg.spin || !spin)
		return false;
	if (me.misses >= SPIN_MISSES_MAX && ++me.skipped < SPIN_RETRY)
		return false;
	me.skipped = 0;
	/* On one CPU a spin only keeps the peer from running. */
	cpu = atomic_load_explicit(&spin->peer_cpu, memory_order_relaxed);
	return cpu > 0 && cpu - 1 != urds_cpu_current();
}

static void spin_on(struct urds_ctx *e, struct waiter *w, struct path *spin)
{
	urds_ns until = urds_clock_ns() + URDS_US(e->cfg.spin_us);
	unsigned pauses = me.has_sent ? 1 : STREAM_PAUSES;

	me.has_sent = false;
	me.has_waited = true;
	do {
		for (unsigned i = 0; i < pauses; i++)
			urds_cpu_pause();
		path_receive(spin);
		if (urds_request_is_over(&w->req)) {
			me.misses = 0;
			urds_count(e, URDS_C_spin_hits, 1);
			return;
		}
	} while (urds_clock_ns() < until);
	me.misses++;
	urds_count(e, URDS_C_spin_misses, 1);
}

bool lead_ends(struct urds_ctx *e, struct call_thread *t)
{
	bool relieved = true;

	t->leads = NULL;
	if (atomic_load(&e->leader) == (uintptr_t)t) {
		relieved = atomic_exchange(&e->led_since, 0) == 0;
		atomic_store_explicit(&e->lead_inside, false, memory_order_release);
		atomic_store(&e->leader, 0); /* before who sleeps is looked at: is_free() */
	} else {
		/* Replaced, for being slow: a successor's bell is disarmed, perhaps. */
		atomic_store(&e->lead_lost, false);
		urds_wake_ring(&e->lead_wake);
	}
	if (e->cfg.no_threads)
		urds_wake_ring(&e->loop_wake); /* timers are the program's again */
	return relieved;
}

/* The poller's wait is ended by every signal that has a handler, and by a stop; a socket's goes on after most of them, and
 * so does ours. */
static bool is_interruption(const struct waiter *w)
{
	return urds_wait_is_interrupted(w->is_any || w->req.deadline != URDS_NEVER);
}

/* Nobody else sees to timers and starved listeners: how long may the leader wait? Its bell is armed. */
static urds_ns timers_in(struct urds_ctx *e)
{
	urds_ns next = engine_promise(e), accepts = engine_resume_accepts(e), now = urds_clock_ns();

	next = shorter(next, accepts);
	return next == URDS_NEVER ? URDS_NEVER : next > now ? next - now : 0;
}

/* Leads until @w is over, its deadline, a signal (-URDS_EINTR), or until it is relieved (0). Timers are the loop
 * thread's meanwhile: the leader waits without a limit of its own, which is what makes its wait cheap. */
static int lead(struct urds_ctx *e, struct waiter *w, struct path *spin)
{
	int rc = 0;

	/* Before the loop thread is asked to leave, so that it sees why. */
	atomic_store(&e->led_since, urds_clock_coarse_ns());
	if (atomic_load(&e->loop_polls) && !e->cfg.no_threads)
		urds_wake_ring(&e->loop_wake);
	me.leads = e;
	run_all(e);
	while (!urds_request_is_over(&w->req)) {
		urds_ns limit = URDS_NEVER;

		if (spin && may_spin(e, spin)) {
			spin_on(e, w, spin);
			if (urds_request_is_over(&w->req))
				break;
		}
		if (w->req.deadline != URDS_NEVER) {
			urds_ns now = urds_clock_ns();

			if (now >= w->req.deadline)
				break;
			limit = w->req.deadline - now;
		}
		atomic_store_explicit(&e->lead_inside, true, memory_order_relaxed);
		urds_doorbell_arm(
			&e->lead_bell); /* a fence, before it is seen whether it was relieved */
		if (atomic_load(&e->led_since) == 0 || urds_request_is_over(&w->req)) {
			urds_doorbell_disarm(&e->lead_bell);
			break;
		}
		if (e->cfg.no_threads) /* whoever sets an earlier timer from here on rings */
			limit = shorter(limit, timers_in(e));
		if (engine_has_work(e))
			limit = 0;
		urds_count_own(&e->lead_polls, 1);
		rc = fetch_and_dispatch(e, spin, limit);
		urds_doorbell_disarm(&e->lead_bell);
		if (rc == -URDS_EINTR && !is_interruption(w))
			rc = 0;
		if (rc < 0) /* a signal; or, in a fork child, no poller any more */
			break;
		run_all(e);
		if (urds_request_is_over(&w->req))
			break;
		/* Woken for something else. */
		if (rc > 0 && atomic_load(&e->led_since) != 0)
			atomic_store(&e->led_since, urds_clock_coarse_ns());
	}
	if (!lead_ends(e, &me)) {
		atomic_store_explicit(&e->is_busy, true, memory_order_relaxed);
		promote_sleeper(e);
	}
	return rc < 0 ? rc : 0;
}

static bool is_free(struct urds_ctx *e)
{
	return (!atomic_load(&e->watchers) || e->cfg.no_threads) && atomic_load(&e->leader) == 0;
}

static bool become_leader(struct urds_ctx *e)
{
	uintptr_t none = 0;

	return is_free(e) && atomic_compare_exchange_strong(&e->leader, &none, (uintptr_t)&me);
}

/* The futex call itself is no cancellation point. */
static int sleep_cancellable(struct waiter *w, uint32_t word)
{
	urds_ns until = w->req.deadline;
	int rc, was;

	/* After a handler with SA_RESTART the system goes on with a sleep without a limit; a wait for readiness ends then,
	 * as poll() does. */
	if (w->is_any && until == URDS_NEVER)
		until = urds_clock_ns() + URDS_SEC(3600);
	call_block();
	was = urds_cancel_anywhere();
	rc = urds_futex_wait(&w->req.state, word, until);
	urds_cancel_anywhere_back(was);
	call_unblock();
	return rc;
}

/* The mark has to be in the real frame, not in one that a sanitizer keeps elsewhere. */
int __attribute__((no_sanitize("address")))
waiter_wait(struct urds_ctx *e, struct waiter *w, struct path *spin)
{
	volatile uintptr_t mark;
	bool may_lead = true, has_slept = false;
	uint32_t word;
	int rc = 0;

	me.frame.address = __builtin_frame_address(0);
	me.frame.mark = &mark;
	mark = (uintptr_t)&mark + ++me.frame.serial;
	flush_dirty(e, URDS_NEVER);
	while (!urds_request_is_over(&w->req) && rc == 0) {
		bool wake;

		if (w->req.deadline != URDS_NEVER && urds_clock_ns() >= w->req.deadline) {
			if (urds_request_cancel(&w->req, URDS_ETIMEDOUT, &wake))
				return -URDS_ETIMEDOUT;
			continue;
		}
		if (may_lead && become_leader(e)) {
			if (urds_request_is_sleepy(&w->req))
				urds_request_awake(
					&w->req); /* who completes it has to ring the bell */
			rc = lead(e, w, spin);
			/* Back here only when relieved: the loop thread has taken over. */
			may_lead = false;
			continue;
		}
		set_asleep(e, w, may_lead);
		has_slept = may_lead;
		/* A leader that left before it could see us here has called nobody; one that leaves after this look
		 * changes the word. */
		if (urds_request_sleep(&w->req, &word) && !(may_lead && is_free(e))) {
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
	if (has_slept && is_free(e))
		promote_sleeper(
			e); /* chosen to lead, perhaps, when it had already what it waited for */
	while (!urds_request_is_over(&w->req))
		urds_cpu_pause(); /* claimed: its completion follows at once */
	mark = 0;
	return urds_request_result(&w->req);
}
