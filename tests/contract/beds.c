/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The transports the suite runs on. The last two are the TCP data table under a connector and a
 * resolver that are not its own.
 */
#include "bed.h"

#include <assert.h>
#include <stdlib.h>

#include "host.h"
#include "null_transport.h"
#include "platform/addr.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

static void set_addr(struct urds_addr *a, const char *text)
{
	int rc = urds_addr_parse(a, text);

	assert(rc == 0);
	(void)rc;
}

static int tcp_open(struct bed *b, const char *x, const char *y, const char *distant)
{
	struct urds_tcp_config cfg = {.port = host_port(20000),
				      .sends_in_place = b->sends_in_place};
	int rc = urds_poller_new(&b->poller);

	assert(rc == 0);
	rc = urds_tcp_new(&cfg, b->poller, &ep_sink, NULL, &b->t);
	assert(rc == 0);
	set_addr(&b->a, x);
	set_addr(&b->b, y);
	set_addr(&b->distant, distant);
	return b->t->resolve->is_local(b->t, &b->a) ? 0 : -1;
}

static void tcp_close(struct bed *b)
{
	urds_tcp_free(b->t);
	urds_poller_free(b->poller);
}

static void tcp_pump(struct bed *b, urds_ns timeout_ns)
{
	(void)urds_poller_wait(b->poller, timeout_ns);
}

static int tcp4_open(struct bed *b)
{
	return tcp_open(b, "127.0.0.1", "127.0.0.2", "192.0.2.77");
}

static bool is_loopback6(const struct urds_addr *a)
{
	struct urds_addr one;

	set_addr(&one, "::1");
	return urds_addr_eq(a, &one);
}

static int tcp6_open(struct bed *b)
{
	return tcp_open(b, "::1", "::1", "2001:db8::77");
}

static int link_local_open(struct bed *b)
{
	char text[URDS_ADDR_STRLEN];

	if (!host_address(b->address, text, sizeof(text)))
		return -1;
	return tcp_open(b, text, text, "2001:db8::77");
}

static unsigned loop_blocks;
static bool loop_kicked;

static void *block_get(void *u, unsigned n64k)
{
	loop_blocks++;
	return malloc((size_t)n64k << 16);
}

static void block_put(void *u, void *block, unsigned n64k)
{
	loop_blocks--;
	free(block);
}

static void loop_kick(void *u)
{
	loop_kicked = true;
}

static bool loop_is_local(void *u, const struct urds_addr *a)
{
	return !urds_addr_eq(a, &((struct bed *)u)->distant);
}

static int loop_open(struct bed *b)
{
	struct urds_loop_config cfg = {.block_get = block_get,
				       .block_put = block_put,
				       .kick = loop_kick,
				       .is_local = loop_is_local,
				       .u = b};

	set_addr(&b->a, "10.0.0.1");
	set_addr(&b->b, "10.0.0.2");
	set_addr(&b->distant, "10.9.9.9");
	return urds_loop_new(&cfg, &ep_sink, NULL, &b->t);
}

static void loop_close(struct bed *b)
{
	urds_loop_free(b->t);
	/* An idle or dead pair owns nothing. */
	assert(loop_blocks == 0);
}

static void loop_pump(struct bed *b, urds_ns timeout_ns)
{
	/* As a runtime does: only when told. */
	if (!loop_kicked)
		return;
	loop_kicked = false;
	(void)urds_loop_run(b->t);
}

static int null_open(struct bed *b)
{
	b->t = null_new(&ep_sink);
	set_addr(&b->a, "10.0.0.1");
	set_addr(&b->b, "10.0.0.2");
	return 0;
}

static void null_close(struct bed *b)
{
	null_free(b->t);
}

static void null_pump(struct bed *b, urds_ns timeout_ns)
{
	(void)null_run(b->t);
}

/* The foreign connector: one listener, connections are pairs handed to the TCP data table. */
static struct urds_listener *pair_door;

static int pair_listen(struct urds_transport *t, const struct urds_addr *addr, void *user,
		       struct urds_listener **out)
{
	if (pair_door)
		return -URDS_EADDRINUSE;
	*out = pair_door = calloc(1, sizeof(*pair_door));
	pair_door->t = t;
	pair_door->addr = *addr;
	pair_door->user = user;
	return 0;
}

static void pair_unlisten(struct urds_listener *ls)
{
	ls->t->sink->on_unlistened(ls);
	free(ls);
	pair_door = NULL;
}

static int pair_dial(struct urds_transport *t, const struct urds_addr *local,
		     const struct urds_addr *remote, int lane, void *user, struct urds_link **out)
{
	int (*make)(intptr_t fd[2]) = *(int (**)(intptr_t[2]))t->user, rc;
	intptr_t fd[2];
	struct urds_link *in;

	if (!pair_door || !urds_addr_eq(&pair_door->addr, remote))
		return -URDS_ECONNREFUSED;
	if (make(fd) < 0)
		return -URDS_EMFILE;
	rc = urds_tcp_adopt(t, fd[0], user, out);
	assert(rc == 0);
	rc = urds_tcp_adopt(t, fd[1], NULL, &in);
	assert(rc == 0);
	t->sink->on_accept(pair_door, in, local, (uint16_t)(40000 + (lane < 0 ? 0 : lane)));
	/* Before we return, as the contract allows. */
	t->sink->on_connected(*out, 0);
	return 0;
}

static bool pair_is_local(struct urds_transport *t, const struct urds_addr *a)
{
	return a->ip[15] != 9;
}

static int pair_source_for(struct urds_transport *t, const struct urds_addr *to,
			   struct urds_addr *from)
{
	return urds_addr_parse(from, "10.0.0.1");
}

static int pair_name(struct urds_transport *t, const char *name, struct urds_addr *out)
{
	return urds_addr_parse(out, strcmp(name, "other") == 0 ? "10.0.0.2" : name);
}

static const struct urds_resolve_ops pair_resolve = {pair_is_local, pair_source_for, pair_name};
static struct urds_connect_ops pair_connect;

static int pair_open(struct bed *b, int (**make)(intptr_t fd[2]))
{
	int rc = tcp_open(b, "10.0.0.1", "10.0.0.2", "10.0.0.9");

	(void)rc; /* those are not this host's: the TCP resolver's opinion does not count here */
	pair_connect = urds_tcp_connect;
	pair_connect.listen = pair_listen;
	pair_connect.unlisten = pair_unlisten;
	pair_connect.dial = pair_dial;
	b->t->connect = &pair_connect;
	b->t->resolve = &pair_resolve;
	b->t->user = make;
	return 0;
}

static int (*make_unix)(intptr_t fd[2]) = host_unix_pair;
static int (*make_tcp)(intptr_t fd[2]) = host_tcp_pair;

static int unix_pair_open(struct bed *b)
{
	return pair_open(b, &make_unix);
}

static int tcp_pair_open(struct bed *b)
{
	return pair_open(b, &make_tcp);
}

#define CAN_ALL 511u
#ifdef _WIN32
/* What the other end has acknowledged is not told, a reset throws away what had not been read, and a closed link goes when its
 * last packet has come. */
#define CAN_TCP (CAN_ALL & ~(CAN_ACK | CAN_KEEP | CAN_CLOSE))
#else
#define CAN_TCP CAN_ALL
#endif

#define BED(n, c, o, x, p, ...)                                                    \
	{                                                                          \
		.name = n, .can = c, .open = o, .close = x, .pump = p, __VA_ARGS__ \
	}

struct bed bed_tcp4 = BED("tcp4", CAN_TCP, tcp4_open, tcp_close, tcp_pump);
struct bed bed_tcp6 = BED("tcp6", CAN_TCP, tcp6_open, tcp_close, tcp_pump, .address = is_loopback6);
struct bed bed_tcp_link_local = BED("tcp-link-local", CAN_TCP, link_local_open, tcp_close, tcp_pump,
				    .address = urds_addr_is_link_local);
/* Wine ends such sends in the middle then, and in place others are behind them. */
struct bed bed_tcp_in_place = BED("tcp-in-place", CAN_TCP & ~CAN_HALF, tcp4_open, tcp_close,
				  tcp_pump, .sends_in_place = true);
struct bed bed_loop = BED("loop", CAN_ALL, loop_open, loop_close, loop_pump);
struct bed bed_null = BED("null", CAN_REFUSE | CAN_RESET | CAN_EXCLUDE | CAN_HALF, null_open,
			  null_close, null_pump);
struct bed bed_unix_pair = BED("unix-pair", CAN_REFUSE | CAN_EXCLUDE | CAN_CLOSE | CAN_HALF,
			       unix_pair_open, tcp_close, tcp_pump);
struct bed bed_tcp_pair =
	BED("tcp-pair", CAN_TCP & ~(CAN_CHECK_ADDR | CAN_LANE), tcp_pair_open, tcp_close, tcp_pump);
