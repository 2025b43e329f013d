/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who leads: rings reach the one they are for, whoever else meets them; a call that was asleep and leads comes out at once;
 * a leader that was left by longjmp is replaced. Built with urds_wake_take() wrapped.
 */
#include <setjmp.h>

#include "two.h"

/* ---------------------------------------------------------------- rings */

void __real_urds_wake_take(struct urds_wake *w);
void __wrap_urds_wake_take(struct urds_wake *w);

/* What happens between the look whether somebody is there and the taking. */
static void (*_Atomic meanwhile)(struct urds_ctx *e);

void __wrap_urds_wake_take(struct urds_wake *w)
{
	void (*fn)(struct urds_ctx *) = atomic_exchange(&meanwhile, NULL);

	if (fn)
		fn(ca);
	__real_urds_wake_take(w);
}

static void leader_comes_and_is_rung(struct urds_ctx *e)
{
	atomic_store(&e->lead_inside, true);
	urds_doorbell_arm(&e->lead_bell);
	CHECK(urds_doorbell_ring(&e->lead_bell));
	urds_wake_ring(&e->lead_wake);
}

static void loop_comes_and_is_rung(struct urds_ctx *e)
{
	atomic_store(&e->loop_polls, 1);
	urds_wake_ring(&e->loop_wake);
}

static bool is_rung(const struct urds_wake *w)
{
#ifdef _WIN32
	/* Whoever meets its packet posts it anew while this is so. */
	return atomic_load(&w->is_rung) != 0;
#else
	struct pollfd p = {.fd = (int)urds_wake_fd(w), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
#endif
}

/* The context of these has no threads: nothing is bound. */
static void ring_for_nobody_is_taken(void)
{
	ca = ctx_open(0);
	CHECK(ca);
	urds_wake_ring(&ca->lead_wake);
	lead_rung(&ca->lead_wake);
	CHECK(!is_rung(&ca->lead_wake));
	urds_wake_ring(&ca->loop_wake);
	loop_rung(&ca->loop_wake);
	CHECK(!is_rung(&ca->loop_wake));
	CHECK_EQ(urds_shutdown(ca), 0);
}

static void ring_for_a_leader_is_left(void)
{
	ca = ctx_open(0);
	CHECK(ca);
	atomic_store(&ca->lead_inside, true);
	urds_wake_ring(&ca->lead_wake);
	lead_rung(&ca->lead_wake);
	CHECK(is_rung(&ca->lead_wake));
	atomic_store(&ca->lead_inside, false);
	CHECK_EQ(urds_shutdown(ca), 0);
}

static void leader_that_comes_as_a_ring_is_taken_has_its_own(void)
{
	ca = ctx_open(0);
	CHECK(ca);
	urds_wake_ring(&ca->lead_wake); /* late, and for one who has gone */
	atomic_store(&meanwhile, leader_comes_and_is_rung);
	lead_rung(&ca->lead_wake);
	CHECK(!atomic_load(&meanwhile));
	CHECK(is_rung(&ca->lead_wake));
	atomic_store(&ca->lead_inside, false);
	CHECK_EQ(urds_shutdown(ca), 0);
}

static void loop_that_comes_as_a_ring_is_taken_has_its_own(void)
{
	ca = ctx_open(0);
	CHECK(ca);
	urds_wake_ring(&ca->loop_wake);
	atomic_store(&meanwhile, loop_comes_and_is_rung);
	loop_rung(&ca->loop_wake);
	CHECK(!atomic_load(&meanwhile));
	CHECK(is_rung(&ca->loop_wake));
	atomic_store(&ca->loop_polls, 0);
	CHECK_EQ(urds_shutdown(ca), 0);
}

/* ---------------------------------------------------------------- leaders */

static void *recv_one(void *arg)
{
	struct worker *w = arg;
	uint8_t b[8];

	EXPECT(urds_recv(w->s, b, sizeof b, 0) == 1, errno);
	w->count = now_ns();
	return NULL;
}

static bool is_led_from_inside(struct urds_ctx *e)
{
	return atomic_load(&e->leader) && atomic_load(&e->lead_inside);
}

/* Is some call asleep on its futex, or as good as? */
static bool has_sleeper(struct urds_ctx *e)
{
	bool has;

	urds_lock_acquire(&e->sleepers_lock);
	has = e->sleepers && (atomic_load(&e->sleepers->req.state) & URDS_REQUEST_WAITER);
	urds_lock_release(&e->sleepers_lock);
	return has;
}

/* A call that slept, and then became the leader, comes out when another thread completes it, not when a
 * timer or its relief rings next (9 ms to 110 ms later). The best of several rounds: this machine may be busy. */
static void promoted_leader_is_woken(void)
{
	struct urds_sock *r[2], *s;
	uint64_t best = UINT64_MAX;

	variant = LOOP;
	two_open();
	s = sock_at(ca, ip_a, 5000);
	r[0] = sock_at(ca, ip_b, 4000);
	r[1] = sock_at(ca, ip_b, 4001);
	CHECK(s && r[0] && r[1]);
	for (unsigned round = 0; round < 10; round++) {
		struct worker w[2] = {{.s = r[0]}, {.s = r[1]}};
		uint64_t sent;

		start(&w[0], recv_one);
		EVENTUALLY(is_led_from_inside(ca));
		start(&w[1], recv_one);
		EVENTUALLY(has_sleeper(ca));
		CHECK_EQ(send4(s, "1", 1, 0, ip_b, 4000), 1);
		pthread_join(w[0].id, NULL);
		/* If the first was relieved meanwhile there is no leader any more, and nothing to see. */
		for (uint64_t end = now_ns() + 200000000;
		     !is_led_from_inside(ca) && now_ns() < end;)
			nap_ms(1);
		sent = now_ns();
		CHECK_EQ(send4(s, "2", 1, 0, ip_b, 4001), 1);
		pthread_join(w[1].id, NULL);
		best = w[1].count - sent < best ? w[1].count - sent : best;
	}
	CHECK_THREADS();
	printf("# woken after %llu us\n", (unsigned long long)best / 1000);
	CHECK(best < 4000000);
	two_close();
}

#ifndef _WIN32
static _Thread_local sigjmp_buf out;
static _Thread_local volatile sig_atomic_t may_jump;
static _Atomic bool has_jumped, may_end;

static void jump(int sig)
{
	(void)sig;
	if (may_jump && call_is_blocked())
		siglongjmp(out, 1);
}

static void *jump_and_stay(void *arg)
{
	struct worker *w = arg;
	char b[8];

	if (sigsetjmp(out, 1) == 0) {
		may_jump = 1;
		while (urds_recv(w->s, b, sizeof b, 0) < 0 && errno == EINTR)
			;
		EXPECT(false, errno); /* only the jump leads out */
	}
	may_jump = 0;
	atomic_store(&has_jumped, true);
	while (!atomic_load(&may_end))
		nap_ms(1);
	return NULL;
}

static void *keep_busy(void *arg)
{
	struct worker *w = arg;
	char b[8];

	while (!atomic_load(&w->stop)) {
		EXPECT(urds_recv(w->s, b, sizeof b, MSG_DONTWAIT) < 0 && errno == EAGAIN, errno);
		sched_yield();
	}
	return NULL;
}

/* A leader that was left by longjmp, by a thread that does not call again, is replaced although another thread sees to
 * the connections all the time. */
static void lost_leader_is_replaced_while_others_are_busy(void)
{
	struct sigaction sa = {.sa_handler = jump};
	struct worker j, k;

	variant = LOOP;
	two_open();
	j = (struct worker){.s = sock_at(ca, ip_b, 4000)};
	k = (struct worker){.s = sock_at(ca, ip_b, 4001)};
	CHECK(j.s && k.s);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	start(&j, jump_and_stay);
	EVENTUALLY(is_led_from_inside(ca));
	start(&k, keep_busy);
	while (!atomic_load(&has_jumped)) {
		pthread_kill(j.id, SIGUSR1);
		nap_ms(1);
	}
	EVENTUALLY(!atomic_load(&ca->leader));
	atomic_store(&k.stop, true);
	pthread_join(k.id, NULL);
	atomic_store(&may_end, true);
	pthread_join(j.id, NULL);
	CHECK_THREADS();
	two_close();
}

#endif

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(ring_for_nobody_is_taken);
	T_RUN(ring_for_a_leader_is_left);
	T_RUN(leader_that_comes_as_a_ring_is_taken_has_its_own);
	T_RUN(loop_that_comes_as_a_ring_is_taken_has_its_own);
	T_RUN(promoted_leader_is_woken);
#ifndef _WIN32 /* nothing leaves a call there */
	T_RUN(lost_leader_is_replaced_while_others_are_busy);
#endif
	return t_done();
}
