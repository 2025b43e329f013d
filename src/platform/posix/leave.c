/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/leave.h"

#include <signal.h>
#include <unwind.h>

#include "platform/thread.h"

/* How far below the frame of a wait the frames of a handler that interrupts it begin at least, and how far below
 * it those of a later call from the same place may reach. */
#define FRAME_SLACK 512

struct walk {
	uintptr_t frame, ip, fn;
	bool is_found, is_passed;
};

/* The frames from here outwards; each is told with its lower end and where it goes on. */
static _Unwind_Reason_Code step(struct _Unwind_Context *c, void *arg)
{
	struct walk *w = arg;

	if (_Unwind_GetCFA(c) > w->frame) {
		/* @frame is in the one before. */
		w->is_passed = true;
		w->is_found = (uintptr_t)_Unwind_FindEnclosingFunction((void *)w->ip) == w->fn;
		return _URC_END_OF_STACK;
	}
	w->ip = _Unwind_GetIP(c) - 1;
	return _URC_NO_REASON;
}

bool __attribute__((noinline, no_sanitize("address", "thread")))
urds_frame_is_left(const struct urds_frame *f, uintptr_t fn, const char *here)
{
	struct walk w = {.frame = (uintptr_t)f->address, .fn = fn};
	stack_t ss;

	if (sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_ONSTACK))
		return false;
	if (here + FRAME_SLACK > f->address)
		return true;
	_Unwind_Backtrace(step, &w);
	if (w.is_passed)
		return !w.is_found;
	/* Some function does not say how to unwind it. If the wait is gone its frame was written over, as a rule. */
	return *f->mark != (uintptr_t)f->mark + f->serial;
}

/* A socket's wait is gone on with after a stop, and after a handler that was installed with SA_RESTART if it has no
 * time limit. Handlers for what a thread does to itself are of no account: crash reporters install them. */
bool urds_wait_is_interrupted(bool never_restarted)
{
	struct sigaction sa;

	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (sig != SIGSEGV && sig != SIGBUS && sig != SIGFPE && sig != SIGILL &&
		    sig != SIGTRAP && sig != SIGABRT && sig != SIGSYS &&
		    sigaction(sig, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL &&
		    sa.sa_handler != SIG_IGN && (never_restarted || !(sa.sa_flags & SA_RESTART)))
			return true;
	return false;
}

static struct urds_once once;
static pthread_key_t key;
static _Atomic(void (*)(void *arg)) told;

static void make_key(void)
{
	pthread_key_create(&key, atomic_load_explicit(&told, memory_order_relaxed));
}

bool urds_thread_at_exit(void (*fn)(void *arg), void *arg)
{
	atomic_store_explicit(&told, fn, memory_order_relaxed); /* all bring the same */
	urds_once(&once, make_key);
	return pthread_setspecific(key, arg) == 0;
}
