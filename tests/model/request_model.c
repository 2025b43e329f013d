/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * runtime/request.h checked: an owner that waits, claimers, a timer; one of them wins, the owner
 * sleeps no longer than that, and nobody touches the block afterwards.
 */
#include <stdatomic.h>

#define URDS_MODEL_ATOMICS "model_atomics.h"
#define MODEL_PRIMITIVE request
#include "runtime/request.h"
#include "model_test.h"

static struct urds_request req;
static uint32_t arg, out; /* the operation's input and output, plain */
static int claims[MC_THREADS + 1], cancels[MC_THREADS + 1], woken[MC_THREADS + 1]; /* ghosts */
static int result;
static bool retires;
static struct mc_mutex
	sleepers; /* guards the two: as the runtime's list of sleepers, and its leader */
static bool is_asleep, is_led, is_listed;
static _Atomic(uint32_t) bell; /* where a leader sleeps instead */

static void setup_idle(void)
{
	memset(claims, 0, sizeof(claims));
	memset(cancels, 0, sizeof(cancels));
	memset(woken, 0, sizeof(woken));
	urds_request_init(&req, 5);
	mc_plain(&req.result, true, "result");
	MC_W(req.deadline, 5);
	MC_W(arg, 0);
	MC_W(out, 0);
	result = 77;
	retires = false;
}

static void setup_queued(void)
{
	setup_idle();
	MC_W(arg, 3);
	urds_request_queue(&req);
}

static void setup_one_user(void)
{
	setup_queued();
	retires = true;
}

static void setup_led(void)
{
	setup_queued();
	mc_mutex_init(&sleepers);
	MC_W(is_asleep, false);
	MC_W(is_led, true);
	atomic_init(&bell, 0);
}

static void setup_listed(void)
{
	setup_queued();
	mc_mutex_init(&sleepers);
	MC_W(is_listed, true);
}

/* The owner's end: the block is its own again. */
static void over(void)
{
	result = urds_request_result(&req);
	if (result == 1) {
		MC_ASSERT(MC_R(out) == 4);
		mc_plain(&req.result, false, "result");
		MC_W(arg, 9);
		if (retires)
			mc_retire(&req.state);
	} else {
		MC_W(arg, 9);
		if (result == -URDS_ETIMEDOUT)
			MC_W(req.deadline, 9);
	}
}

static void wait_over(void)
{
	uint32_t word;

	while (urds_request_sleep(&req, &word))
		mc_futex_wait(&req.state, word);
	over();
}

static void owner(void)
{
	wait_over();
}

/* Queues here, and gives up at once; if that is too late, waits. */
static void owner_impatient(void)
{
	bool wake;

	MC_W(arg, 3);
	urds_request_queue(&req);
	cancels[mc_self()] += urds_request_cancel(&req, URDS_EINTR, &wake);
	if (cancels[mc_self()])
		MC_ASSERT(!wake);
	wait_over();
}

/* Looks without sleeping, as a poll of an asynchronous request does; sleeps if it is not over. */
static void owner_polls(void)
{
	if (urds_request_is_over(&req))
		over();
	else
		wait_over();
}

static void claimer(void)
{
	if (!urds_request_claim(&req))
		return;
	claims[mc_self()]++;
	MC_ASSERT(MC_R(arg) == 3);
	MC_W(out, 4);
	mc_plain(&req.result, true, "result");
	if (urds_request_complete(&req, 1)) {
		woken[mc_self()]++;
		mc_futex_wake(&req.state);
	}
}

/* Reads the deadline before; if the cancel wins, that read is over before the owner goes on. */
static void timer(void)
{
	bool wake;

	if (MC_R(req.deadline) != 5)
		return;
	if (urds_request_cancel(&req, URDS_ETIMEDOUT, &wake)) {
		cancels[mc_self()]++;
		if (wake)
			mc_futex_wake(&req.state);
	}
}

static bool set_asleep(bool asleep)
{
	bool led;

	mc_lock(&sleepers);
	MC_W(is_asleep, asleep);
	led = MC_R(is_led);
	mc_unlock(&sleepers);
	return led;
}

/* Sleeps until there is no leader, and then elsewhere; if nobody may claim it, that is all. */
static void lead_when_free(bool until_over)
{
	uint32_t word;

	while (!urds_request_is_over(&req)) {
		if (!set_asleep(false)) {
			if (urds_request_is_sleepy(&req))
				urds_request_awake(&req);
			while (until_over && !urds_request_is_over(&req) &&
			       !atomic_load_explicit(&bell, memory_order_acquire))
				mc_futex_wait(&bell, 0);
			MC_ASSERT(!until_over || urds_request_is_over(&req));
			break;
		}
		/* In this order: a leader that leaves after the look finds the waiter's bit. */
		set_asleep(true);
		if (urds_request_sleep(&req, &word) && set_asleep(true))
			mc_futex_wait(&req.state, word);
	}
	set_asleep(false);
}

static void owner_leads(void)
{
	lead_when_free(true);
	over();
}

static void owner_only_leads(void)
{
	lead_when_free(false);
}

/* The leader leaves, and tells one who sleeps. */
static void leader(void)
{
	mc_lock(&sleepers);
	MC_W(is_led, false);
	if (MC_R(is_asleep)) {
		urds_request_awake(&req);
		mc_futex_wake(&req.state);
	}
	mc_unlock(&sleepers);
}

/* As claimer(), but rings where a leader sleeps unless somebody sleeps on the request. */
static void claimer_rings(void)
{
	if (!urds_request_claim(&req))
		return;
	claims[mc_self()]++;
	MC_W(out, 4);
	mc_plain(&req.result, true, "result");
	if (urds_request_complete(&req, 1)) {
		mc_futex_wake(&req.state);
	} else {
		atomic_store_explicit(&bell, 1, memory_order_release);
		mc_futex_wake(&bell);
	}
}

/* On a queue, whose lock it takes, as every claimer does: who takes it off completes it. */
static bool take_off(void)
{
	if (!MC_R(is_listed))
		return false;
	MC_W(is_listed, false);
	return true;
}

/* Done: it is on no queue, and no lock is needed to know. */
static void look_whether_done(void)
{
	if (urds_request_is_done(&req)) {
		MC_ASSERT(!MC_R(is_listed));
		over();
	} else {
		wait_over();
	}
}

static void owner_serves_itself(void)
{
	mc_lock(&sleepers);
	if (take_off()) {
		claims[mc_self()]++;
		MC_W(out, 4);
		mc_plain(&req.result, true, "result");
		urds_request_complete_own(&req, 1);
	}
	mc_unlock(&sleepers);
	look_whether_done();
}

static void claimer_takes_off(void)
{
	mc_lock(&sleepers);
	if (take_off())
		claimer();
	mc_unlock(&sleepers);
}

static void finish_unclaimed(void)
{
	MC_ASSERT(urds_request_claim(&req));
}

static void finish(void)
{
	int c = 0, x = 0;

	for (int i = 0; i <= MC_THREADS; i++) {
		c += claims[i];
		x += cancels[i];
	}
	MC_ASSERT(c + x == 1);
	MC_ASSERT(c ? result == 1 : result == -URDS_ETIMEDOUT || result == -URDS_EINTR);
}

/* Nobody slept: nobody is woken. */
static void finish_no_sleeper(void)
{
	if (urds_request_claim(&req)) {
		MC_ASSERT(!urds_request_complete(&req, 1));
	} else {
		MC_ASSERT(urds_request_is_over(&req));
		MC_ASSERT(!woken[1] && !woken[2]);
	}
	MC_ASSERT(!urds_request_claim(&req));
}

#define TEST(name, ...) static const struct mc_test test_##name = {#name, __VA_ARGS__}
TEST(request__2_threads, setup_one_user, {owner, claimer}, finish);
TEST(request__polled, setup_one_user, {owner_polls, claimer}, finish);
TEST(request__time_out, setup_queued, {owner, timer}, finish);
TEST(request__3_threads, setup_queued, {owner, claimer, timer}, finish);
TEST(request__two_claimers, setup_queued, {owner, claimer, claimer}, finish);
TEST(request__two_timers, setup_queued, {claimer, timer, owner_polls}, finish);
TEST(request__queued_and_given_up, setup_idle, {owner_impatient, claimer}, finish);
TEST(request__queued_and_given_up_3_threads, setup_idle, {owner_impatient, claimer, claimer},
     finish);
TEST(request__promoted, setup_led, {owner_only_leads, leader}, finish_unclaimed);
TEST(request__promoted_and_claimed, setup_led, {owner_leads, leader, claimer_rings}, finish);
TEST(request__serves_itself, setup_listed, {owner_serves_itself, claimer_takes_off}, finish);
TEST(request__done_is_unlisted, setup_listed, {look_whether_done, claimer_takes_off}, finish);
TEST(request__no_sleeper, setup_queued, {claimer, claimer}, finish_no_sleeper);

#define SCENARIOS(X)                              \
	X(request__2_threads)                     \
	X(request__polled)                        \
	X(request__time_out)                      \
	X(request__3_threads)                     \
	X(request__two_claimers)                  \
	X(request__two_timers)                    \
	X(request__queued_and_given_up)           \
	X(request__queued_and_given_up_3_threads) \
	X(request__promoted)                      \
	X(request__promoted_and_claimed)          \
	X(request__serves_itself)                 \
	X(request__done_is_unlisted)              \
	X(request__no_sleeper)

#define SABOTAGES(X)                            \
	X(request_queue, RELAXED, relaxed)      \
	X(request_queue, DROPPED, dropped)      \
	X(request_claim, RELAXED, relaxed)      \
	X(request_claim, DROPPED, dropped)      \
	X(request_complete, RELAXED, relaxed)   \
	X(request_complete, DROPPED, dropped)   \
	X(request_cancel, RELAXED, relaxed)     \
	X(request_cancel, DROPPED, dropped)     \
	X(request_is_over, RELAXED, relaxed)    \
	X(request_is_done, RELAXED, relaxed)    \
	X(request_sleep, RELAXED, relaxed)      \
	X(request_sleep_over, RELAXED, relaxed) \
	X(request_waiter, DROPPED, dropped)     \
	X(request_awake, DROPPED, dropped)

MODEL_MAIN(SCENARIOS, SABOTAGES)
