/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Is this a transport? The same cases for every one: contract_test BED [CASE], ends_test BED [CASE]. Sizes and pieces
 * are random; URDS_TEST_SEED replays a run. What the two have in common: a bed with a listener, connections on it, and
 * the checks that every case ends with.
 */
#ifndef URDS_TESTS_CONTRACT_SUITE_H
#define URDS_TESTS_CONTRACT_SUITE_H

#include "bed.h"
#include "host.h"
#include "platform/addr.h"
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
	char text[URDS_ADDR_STRLEN];

	memset(&door, 0, sizeof(door));
	ep_n = 0;
	ep_bad_bytes = 0;
	if (bed->address && !host_address(bed->address, text, sizeof(text)))
		T_SKIP("this host has no such address");
	if (bed->open(bed) < 0)
		T_FAIL("the bed does not open");
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

/* Kernels move bytes on behind our back: full is when it stays full. */
static void fill(struct ep *x)
{
	int full = 0;

	while (full < 3) {
		long n = ep_tx(x, 1 << 20, 4);

		CHECK(n >= 0);
		full = n == 0 ? full + 1 : 0;
		bed->pump(bed, URDS_MS(5));
		CHECK(x->tx_pos < (64u << 20));
	}
}

/* The bed that is asked for. False: there is none (said). */
static bool suite_init(int argc, char **argv)
{
	static struct bed *const beds[] = {&bed_tcp4,	      &bed_tcp6,    &bed_tcp_link_local,
					   &bed_tcp_in_place, &bed_loop,    &bed_null,
					   &bed_unix_pair,    &bed_tcp_pair};
	const char *seed = getenv("URDS_TEST_SEED");

	for (size_t i = 0; argc > 1 && i < sizeof(beds) / sizeof(beds[0]); i++)
		if (strcmp(argv[1], beds[i]->name) == 0)
			bed = beds[i];
	if (!bed) {
		fprintf(stderr, "usage: %s BED [CASE]\n", argv[0]);
		return false;
	}
	T_INIT(argc - 1, argv + 1);
	rnd_state = seed ? strtoull(seed, NULL, 0) : urds_clock_ns();
	printf("# %s; replay: URDS_TEST_SEED=%" PRIu64 "\n", bed->name, rnd_state);
	host_init(300);
	return true;
}

#endif
