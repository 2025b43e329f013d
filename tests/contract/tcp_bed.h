/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One TCP transport on 127.0.0.1, listening, for the tests of what only TCP has.
 */
#ifndef URDS_TESTS_CONTRACT_TCP_BED_H
#define URDS_TESTS_CONTRACT_TCP_BED_H

#include <unistd.h>

#include "bed.h"
#include "host.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/net.h"
#include "tap.h"
#include "transport/tcp/tcp.h"

static struct urds_poller *poller;
static struct urds_transport *t;
static struct urds_listener *listener;
static struct door door;
static struct urds_addr here;
static uint16_t port;

#define WAIT_FOR(cond)                                               \
	do {                                                         \
		urds_ns end_ = urds_clock_ns() + URDS_SEC(10);       \
		while (!(cond)) {                                    \
			if (urds_clock_ns() > end_)                  \
				T_FAIL("waited in vain: %s", #cond); \
			(void)urds_poller_wait(poller, URDS_MS(20)); \
		}                                                    \
	} while (0)

static void begin(const struct urds_tcp_config *extra)
{
	struct urds_tcp_config cfg = extra ? *extra : (struct urds_tcp_config){0};

	memset(&door, 0, sizeof(door));
	ep_bad_bytes = 0;
	cfg.port = port = host_port(26000);
	CHECK_EQ(urds_addr_parse(&here, "127.0.0.1"), 0);
	CHECK_EQ(urds_poller_new(&poller), 0);
	CHECK_EQ(urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t), 0);
	CHECK_EQ(t->connect->listen(t, &here, &door, &listener), 0);
}

static void end(void)
{
	if (listener)
		t->connect->unlisten(listener);
	listener = NULL;
	for (size_t i = 0; i < door.n; i++) {
		if (door.in[i]->l && !door.in[i]->is_closed)
			ep_close(door.in[i], URDS_CLOSE_NOW);
		WAIT_FOR(door.in[i]->closed);
		CHECK_EQ(door.in[i]->late, 0);
		ep_free(door.in[i]);
	}
	CHECK_EQ(ep_bad_bytes, 0);
	urds_tcp_free(t);
	urds_poller_free(poller);
}

static T_UNUSED struct ep *dial(int lane)
{
	struct ep *e = ep_new(t, 2);
	int rc = t->connect->dial(t, &here, &here, lane, e, &e->l);

	if (rc < 0)
		e->connect_err = rc;
	return e;
}

static void join(struct ep **x, struct ep **y)
{
	size_t n = door.n;

	*x = dial(-1);
	WAIT_FOR((*x)->connected && door.n > n);
	CHECK_EQ((*x)->connect_err, 0);
	*y = door.in[n];
}

static void finish(struct ep *e)
{
	if (e->l && !e->is_closed)
		ep_close(e, URDS_CLOSE_NOW);
	WAIT_FOR(!e->l);
	CHECK_EQ(e->late, 0);
	ep_free(e);
}

static T_UNUSED void names_and_sources(void)
{
	struct urds_addr a, from;

	begin(NULL);
	CHECK_EQ(t->resolve->name(t, "localhost", &a), 0);
	CHECK(t->resolve->is_local(t, &a));
	CHECK_EQ(t->resolve->name(t, "127.9.9.9", &a), 0);
	CHECK(t->resolve->is_local(t, &a));
	CHECK_EQ(t->resolve->source_for(t, &a, &from), 0);
	CHECK(t->resolve->is_local(t, &from));
	CHECK_EQ(t->resolve->name(t, "no such host", &a), -URDS_EINVAL);
	CHECK_EQ(t->resolve->name(t, "", &a), -URDS_EINVAL);
	CHECK_EQ(urds_addr_parse(&a, "::"), 0);
	CHECK_EQ(t->resolve->source_for(t, &a, &from), -URDS_EUNREACH);
	end();
}

#endif
