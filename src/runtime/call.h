/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What call.c and wait.c know about the thread they run in.
 */
#ifndef URDS_RUNTIME_CALL_H
#define URDS_RUNTIME_CALL_H

#include <signal.h>

#include "platform/leave.h"
#include "runtime/engine.h"

enum call_state { CALL_OUT = 0, CALL_IN, CALL_BLOCKED };

/* Only its own thread touches it; handlers that interrupt that thread too, hence the order of things. */
struct call_thread {
	struct waiter w;
	bool in_use;
	volatile sig_atomic_t state; /* enum call_state */
	volatile sig_atomic_t below; /* the state to go back to: CALL_BLOCKED in a handler's call */
	bool is_loop;		     /* the loop thread */
	bool saw_lead,
		takes_lead; /* the loop thread: met a ring for the leader; there is none any more */
	struct urds_ctx *leads;	  /* drives it as the leader: needs no bell; or NULL */
	unsigned misses, skipped; /* spins */
	bool has_sent;		  /* since the last spin: this is no stream */
	bool has_waited;	  /* since the last send: that is in no burst */
	bool is_watched;	  /* its end is */
	struct urds_frame frame;  /* of the wait */
	struct urds_poll_batch batch;
};

extern _Thread_local struct call_thread call_me
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

bool call_enter_slow(void);

/* Around every call of the public interface that works on a socket. False: this is a signal handler, and the call
 * it interrupted may hold a lock: -URDS_EAGAIN. */
static inline bool call_enter(void)
{
	if (call_me.state != CALL_OUT)
		return call_enter_slow();
	call_me.state = CALL_IN;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static inline void call_leave(void)
{
	sig_atomic_t below = call_me.below;

	atomic_signal_fence(memory_order_seq_cst);
	call_me.below = CALL_OUT;
	call_me.state = below;
}

/* Around a blocking system call: nothing is held. */
static inline void call_block(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	call_me.state = CALL_BLOCKED;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void call_unblock(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	call_me.state = CALL_IN;
	atomic_signal_fence(memory_order_seq_cst);
}

/* Blocked calls asleep on their futex, one of which may have to lead. */
void set_asleep(struct urds_ctx *e, struct waiter *w, bool asleep);
/* Some sleeper is told that there is no leader. */
void promote_sleeper(struct urds_ctx *e);
/* @t leads no more. Return: had it been relieved? Then the loop thread drives. */
bool lead_ends(struct urds_ctx *e, struct call_thread *t);

#endif
