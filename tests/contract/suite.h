/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the cases of the contract suite have in common: a bed with a listener, connections on it,
 * and the checks that every case ends with.
 */
#ifndef URDS_TESTS_CONTRACT_SUITE_H
#define URDS_TESTS_CONTRACT_SUITE_H

#include "bed.h"
#include "platform/clock.h"
#include "tap.h"

static struct bed *bed;
static struct door door; /* listens on bed->b */
static struct urds_listener *listener;
static struct ep *eps[1200];
static size_t ep_n;

#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		urds_ns end_ = urds_clock_ns() + URDS_SEC(20);                                     \
		while (!(cond)) {                                                                  \
			if (urds_clock_ns() > end_)                                                \
				T_FAIL("waited in vain: %s (seed %" PRIu64 ")", #cond, rnd_state); \
			bed->pump(bed, URDS_MS(20));                                               \
		}                                                                                  \
	} while (0)

#define NEEDS(what)                                  \
	do {                                         \
		if (!(bed->can & (what)))            \
			T_NOT_HERE("cannot " #what); \
	} while (0)

static void begin(void)
{
	memset(&door, 0, sizeof(door));
	ep_n = 0;
	ep_bad_bytes = 0;
	if (bed->open(bed) < 0) {
		if (bed == &bed_tcp6 || bed == &bed_tcp_link_local)
			T_SKIP("no such address here");
		T_FAIL("the bed does not open");
	}
	CHECK_EQ(bed->t->connect->listen(bed->t, &bed->b, &door, &listener), 0);
}

static struct ep *dial_lane(const struct urds_addr *from, const struct urds_addr *to, int lane)
{
	struct ep *e = eps[ep_n++] = ep_new(bed->t, 2);
	int rc = bed->t->connect->dial(bed->t, from, to, lane, e, &e->l);

	if (rc < 0) {
		e->connect_err = rc;
		e->connected = 1;
		e->closed = 1;
		e->l = NULL;
	}
	return e;
}

static struct ep *dial(void)
{
	return dial_lane(&bed->a, &bed->b, -1);
}

/* A connection: @x dialled, @y accepted. */
static void join(struct ep **x, struct ep **y)
{
	size_t before = door.n;

	*x = dial();
	WAIT_FOR((*x)->connected && door.n > before);
	CHECK_EQ((*x)->connect_err, 0);
	*y = door.in[before];
}

static void one_end(struct ep *e)
{
	if (e->l && !e->is_closed)
		ep_close(e, URDS_CLOSE_NOW);
	WAIT_FOR(e->closed);
	CHECK_EQ(e->closed, 1);
	CHECK_EQ(e->late, 0);
	CHECK(e->connected <= 1);
	ep_free(e);
}

/* Closes what is open; every link is told exactly once that it is gone, and nothing after its
 * close. */
static void end(void)
{
	if (listener) {
		bed->t->connect->unlisten(listener);
		listener = NULL;
		WAIT_FOR(door.unlistened == 1);
	}
	bed->pump(bed, 0);
	for (size_t i = 0; i < ep_n; i++)
		one_end(eps[i]);
	for (size_t i = 0; i < door.n; i++)
		one_end(door.in[i]);
	CHECK_EQ(ep_bad_bytes, 0);
	bed->close(bed);
}

static void drain_to(struct ep *e, uint64_t pos)
{
	WAIT_FOR((ep_drain(e), e->rx_pos >= pos));
	CHECK_EQ(e->rx_pos, pos);
}

static void send_to(struct ep *x, struct ep *y, uint64_t bytes)
{
	uint64_t target = x->tx_pos + bytes;

	while (x->tx_pos < target) {
		long n = ep_tx(x, (size_t)(target - x->tx_pos), 8);

		CHECK(n >= 0);
		if (x->tx_pos < target) {
			ep_drain(y);
			bed->pump(bed, URDS_MS(5));
		}
	}
}

#endif
