/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Links opened, used and closed by several threads while others dispatch, with locks as a runtime
 * would have them. Run under the thread and address sanitizers this is the proof of close().
 */
#include <unistd.h>

#include "host.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/futex.h"
#include "platform/lock.h"
#include "platform/thread.h"
#include "tap.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

#define MAGIC 0xfeedu
#define DISPATCHERS 2
#define CHURNERS 2
#define SLOTS 16

#ifdef _WIN32
#define TCP_KNOWS_ACKS false
#else
#define TCP_KNOWS_ACKS true
#endif

struct user {
	uint32_t magic;
	struct urds_lock rx, tx; /* closing takes both, tx first */
	struct urds_link *l URDS_GUARDED_BY(rx);
	bool is_closed;
	_Atomic uint32_t refs;	/* the link's and the churner's */
	_Atomic bool is_inside; /* a sink call: they must not overlap */
	_Atomic bool is_up;	/* on_connected() or on_accept() was there */
};

static struct urds_transport *t;
static struct urds_poller *poller;
static struct urds_addr a, b;
static bool knows_acks; /* this transport, on this system */
static _Atomic bool stop_churn, stop_dispatch, unlistened;
static _Atomic int made, gone, bad;
static _Atomic uint64_t moved;

static struct user *user_new(uint32_t refs)
{
	struct user *u = calloc(1, sizeof(*u));

	u->magic = MAGIC;
	atomic_init(&u->refs, refs);
	return u;
}

static void user_put(struct user *u)
{
	if (atomic_fetch_sub(&u->refs, 1) != 1)
		return;
	u->magic = 0;
	free(u);
}

static struct user *heard(struct urds_link *l)
{
	struct user *u = l->user;

	if (u->magic != MAGIC)
		atomic_fetch_add(&bad, 1);
	return u;
}

static struct user *enter(struct urds_link *l)
{
	struct user *u = heard(l);

	if (atomic_exchange(&u->is_inside, true) || !atomic_load(&u->is_up))
		atomic_fetch_add(&bad, 1);
	return u;
}

static void leave(struct urds_link *l)
{
	atomic_store(&heard(l)->is_inside, false);
}

/* tx and rx held. */
static void shut(struct user *u)
{
	if (u->is_closed)
		return;
	u->is_closed = true;
	if (u->l)
		t->connect->close(u->l, (uintptr_t)u / 64 % 2 ? URDS_CLOSE_NOW : URDS_CLOSE_RESET);
}

static bool read_all(struct user *u)
{
	char buf[3000];
	struct urds_iov v = {buf, sizeof(buf)};
	size_t got;
	bool ended = false;

	urds_lock_acquire(&u->rx);
	while (!u->is_closed && !ended) {
		enum urds_rx_how how = t->data->rx(u->l, &v, 1, &got);

		if (how == URDS_RX_WAIT)
			break;
		ended = how == URDS_RX_ENDED;
		atomic_fetch_add(&moved, got);
	}
	urds_lock_release(&u->rx);
	return ended;
}

static void close_user(struct user *u)
{
	urds_lock_acquire(&u->tx);
	urds_lock_acquire(&u->rx);
	shut(u);
	urds_lock_release(&u->rx);
	urds_lock_release(&u->tx);
}

static void on_readable(struct urds_link *l, bool ended)
{
	struct user *u = enter(l);

	if (read_all(u))
		close_user(u);
	leave(l); /* the user is still there */
}

static void on_writable(struct urds_link *l)
{
	struct user *u = enter(l);
	char buf[2000] = {0};
	struct urds_iov v = {buf, sizeof(buf)};
	size_t taken, freed;

	urds_lock_acquire(&u->tx);
	if (!u->is_closed)
		(void)t->data->tx(u->l, &v, 1, &taken, &freed);
	urds_lock_release(&u->tx);
	leave(l);
}

static void on_connected(struct urds_link *l, int err)
{
	struct user *u = heard(l);

	atomic_store(&u->is_up, true);
	enter(l);
	if (err)
		close_user(u);
	leave(l);
}

static void on_accept(struct urds_listener *ls, struct urds_link *l, const struct urds_addr *from,
		      uint16_t port)
{
	struct user *u = user_new(1);

	if (ls->user != &stop_churn)
		atomic_fetch_add(&bad, 1);
	atomic_fetch_add(&made, 1);
	urds_lock_acquire(&u->rx);
	u->l = l;
	u->is_up = true;
	l->user = u;
	urds_lock_release(&u->rx);
	if (port % 16 == 0)
		close_user(u);
}

static void on_closed(struct urds_link *l)
{
	user_put(heard(l));
	atomic_fetch_add(&gone, 1);
}

static void unexpected(struct urds_link *l, size_t n)
{
	atomic_fetch_add(&bad, 1);
}

/* Only of links whose acked() is not known: the others copy. */
static void on_released(struct urds_link *l, size_t n)
{
	if (n == 0 || knows_acks)
		atomic_fetch_add(&bad, 1);
}

static void on_unlistened(struct urds_listener *ls)
{
	atomic_store(&unlistened, true);
}

static const struct urds_link_sink sink = {
	.on_readable = on_readable,
	.on_writable = on_writable,
	.on_rx = unexpected,
	.on_tx_released = on_released,
	.on_connected = on_connected,
	.on_accept = on_accept,
	.on_closed = on_closed,
	.on_unlistened = on_unlistened,
};

static void churn(void *arg)
{
	struct user *slot[SLOTS] = {NULL};
	uint64_t rnd = 88172645463325252u + (uintptr_t)arg;
	static char buf[50000];

	while (!atomic_load(&stop_churn)) {
		struct user **s, *u;

		rnd ^= rnd << 13;
		rnd ^= rnd >> 7;
		rnd ^= rnd << 17;
		s = &slot[rnd % SLOTS];
		u = *s;
		if (!u) {
			u = user_new(2);
			/* Held, as a peer's lock would be: the answer may come at once. */
			urds_lock_acquire(&u->tx);
			urds_lock_acquire(&u->rx);
			if (t->connect->dial(t, &a, &b, (int)(rnd >> 8 & 7), u, &u->l) < 0) {
				u->is_closed = true;
				user_put(u);
			} else {
				atomic_fetch_add(&made, 1);
			}
			urds_lock_release(&u->rx);
			urds_lock_release(&u->tx);
			*s = u;
		} else if (rnd >> 16 & 3) {
			struct urds_iov v = {buf, 1 + (rnd >> 20) % sizeof(buf)};
			size_t taken, freed;

			urds_lock_acquire(&u->tx);
			if (!u->is_closed && t->data->tx(u->l, &v, 1, &taken, &freed) == 0 &&
			    (t->data->acked(u->l) != URDS_UNKNOWN) != knows_acks)
				atomic_fetch_add(&bad, 1);
			urds_lock_release(&u->tx);
			if (rnd >> 30 & 1)
				(void)read_all(u);
		} else {
			close_user(u);
			user_put(u);
			*s = NULL;
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		if (!slot[i])
			continue;
		close_user(slot[i]);
		user_put(slot[i]);
	}
}

static void dispatch_tcp(void *arg)
{
	while (!atomic_load(&stop_dispatch))
		(void)urds_poller_wait(poller, URDS_MS(2));
}

/* Only a kick makes a dispatcher run, for ever: one kick too few is a standstill. */
static _Atomic uint32_t kicks;

static void loop_kick(void *u)
{
	atomic_fetch_add(&kicks, 1);
	urds_futex_wake(&kicks, 1);
}

static void dispatch_loop(void *arg)
{
	uint32_t seen = atomic_load(&kicks) - 1;

	while (!atomic_load(&stop_dispatch)) {
		uint32_t now = atomic_load(&kicks);

		if (now == seen) {
			/* One of them spins, to meet the writer in the middle. */
			if (arg)
				urds_cpu_pause();
			else
				(void)urds_futex_wait(&kicks, now, URDS_NEVER);
			continue;
		}
		seen = now;
		(void)urds_loop_run(t);
	}
}

static void stop_dispatchers(struct urds_thread *d)
{
	stop_dispatch = true;
	atomic_fetch_add(&kicks, 1);
	urds_futex_wake(&kicks, DISPATCHERS);
	for (int i = 0; i < DISPATCHERS; i++)
		urds_thread_join(&d[i]);
}

static void run(void (*dispatch)(void *arg))
{
	struct urds_thread d[DISPATCHERS] = {0}, c[CHURNERS] = {0};
	struct urds_listener *ls;
	urds_ns end;

	made = gone = bad = 0;
	moved = 0;
	stop_churn = stop_dispatch = unlistened = false;
	CHECK_EQ(urds_addr_parse(&a, "127.0.0.1"), 0);
	CHECK_EQ(urds_addr_parse(&b, "127.0.0.2"), 0);
	CHECK_EQ(t->connect->listen(t, &b, &stop_churn, &ls), 0);
	for (int i = 0; i < DISPATCHERS; i++)
		CHECK_EQ(urds_thread_start(&d[i], "dispatch", dispatch, NULL), 0);
	for (uintptr_t i = 0; i < CHURNERS; i++)
		CHECK_EQ(urds_thread_start(&c[i], "churn", churn, (void *)(i * 77)), 0);
	usleep(1500000);
	stop_churn = true;
	for (int i = 0; i < CHURNERS; i++)
		urds_thread_join(&c[i]);
	/* Then no more come in, however late; and the accepted ends see the end of theirs, and close. */
	t->connect->unlisten(ls);
	for (end = urds_clock_ns() + URDS_SEC(20);
	     (!unlistened || gone < made) && urds_clock_ns() < end;)
		usleep(1000);
	usleep(20000);
	CHECK(unlistened);
	stop_dispatchers(d);
	CHECK_EQ(bad, 0);
	CHECK_EQ(gone, made);
	printf("# %d links, %" PRIu64 " bytes\n", made, moved);
}

/* One writer, one reader, nobody asks twice: a lost edge is a standstill. The reader stops at a
 * short read, the writer at a short write, until called. */
#define STREAM (48ull << 20)

static _Atomic uint64_t streamed;
static _Atomic uint32_t writable;
static _Atomic int up;
static struct urds_link *stream_in, *stream_out;
static _Atomic int stream_closed;

static void stream_readable(struct urds_link *l, bool ended)
{
	static char buf[70000];
	uint64_t rnd = streamed * 2654435761u;
	size_t got = 0, want;

	if (l != stream_in)
		return;
	do {
		struct urds_iov v = {buf, 0};

		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		want = v.len = 1 + (size_t)(rnd >> 33) % sizeof(buf);
		if (t->data->rx(l, &v, 1, &got) != URDS_RX_NOW)
			break;
		atomic_fetch_add(&streamed, got);
	} while (got == want);
}

static void stream_writable(struct urds_link *l)
{
	atomic_store(&writable, 1);
	urds_futex_wake(&writable, 1);
}

static void stream_connected(struct urds_link *l, int err)
{
	atomic_fetch_add(err ? &bad : &up, 1);
}

static void stream_accept(struct urds_listener *ls, struct urds_link *l,
			  const struct urds_addr *from, uint16_t port)
{
	stream_in = l;
	atomic_fetch_add(&up, 1);
}

static void stream_gone(struct urds_link *l)
{
	atomic_fetch_add(&stream_closed, 1);
}

static const struct urds_link_sink stream_sink = {
	.on_readable = stream_readable,
	.on_writable = stream_writable,
	.on_rx = unexpected,
	.on_tx_released = on_released,
	.on_connected = stream_connected,
	.on_accept = stream_accept,
	.on_closed = stream_gone,
};

static void stream(void (*dispatch)(void *arg))
{
	struct urds_thread d[DISPATCHERS] = {0};
	struct urds_listener *ls;
	static char buf[100000];
	uint64_t sent = 0, rnd = 7;
	urds_ns end = urds_clock_ns() + URDS_SEC(60);

	bad = up = stream_closed = 0;
	streamed = 0;
	stop_dispatch = false;
	CHECK_EQ(urds_addr_parse(&a, "127.0.0.1"), 0);
	CHECK_EQ(urds_addr_parse(&b, "127.0.0.2"), 0);
	CHECK_EQ(t->connect->listen(t, &b, NULL, &ls), 0);
	for (int i = 0; i < DISPATCHERS; i++)
		CHECK_EQ(urds_thread_start(&d[i], "dispatch", dispatch, i == 0 ? &d : NULL), 0);
	CHECK_EQ(t->connect->dial(t, &a, &b, -1, NULL, &stream_out), 0);
	while (up < 2 && urds_clock_ns() < end)
		usleep(1000);
	CHECK_EQ(up, 2);
	while (sent < STREAM && urds_clock_ns() < end) {
		struct urds_iov v = {buf, 0};
		size_t taken, freed;

		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		v.len = 1 + (size_t)(rnd >> 33) % (rnd >> 20 & 15 ? 500 : sizeof(buf));
		if (v.len > STREAM - sent)
			v.len = STREAM - sent;
		/* Down before the attempt: an event during it counts. */
		atomic_store(&writable, 0);
		CHECK_EQ(t->data->tx(stream_out, &v, 1, &taken, &freed), 0);
		sent += taken;
		while (taken < v.len && !atomic_load(&writable) && urds_clock_ns() < end)
			(void)urds_futex_wait(&writable, 0, end);
	}
	while (streamed < STREAM && urds_clock_ns() < end)
		usleep(1000);
	CHECK_EQ(sent, STREAM);
	CHECK_EQ(streamed, STREAM);
	CHECK_EQ(bad, 0);
	t->connect->close(stream_out, URDS_CLOSE_NOW);
	usleep(10000);
	stop_dispatchers(d);
	t->connect->close(stream_in, URDS_CLOSE_NOW);
	t->connect->unlisten(ls);
	CHECK_EQ(stream_closed, 2);
}

static void with_tcp(const struct urds_link_sink *its, void (*body)(void (*dispatch)(void *arg)),
		     bool in_place)
{
	struct urds_tcp_config cfg = {.port = host_port(15000), .sends_in_place = in_place};

	CHECK_EQ(urds_poller_new(&poller), 0);
	CHECK_EQ(urds_tcp_new(&cfg, poller, its, NULL, &t), 0);
	knows_acks = TCP_KNOWS_ACKS;
	body(dispatch_tcp);
	urds_tcp_free(t);
	urds_poller_free(poller);
}

static void tcp__churn(void)
{
	with_tcp(&sink, run, false);
}

static void tcp__no_edge_is_lost(void)
{
	with_tcp(&stream_sink, stream, false);
}

/* What is sent is never written to again, so it does not matter when it is released. */
static void tcp__no_edge_is_lost_in_place(void)
{
	if (TCP_KNOWS_ACKS)
		T_NOT_HERE("sends are copied");
	with_tcp(&stream_sink, stream, true);
}

static void *block_get(void *u, unsigned n64k)
{
	return malloc((size_t)n64k << 16);
}

static void block_put(void *u, void *block, unsigned n64k)
{
	free(block);
}

static void with_loop(const struct urds_link_sink *its, void (*body)(void (*dispatch)(void *arg)))
{
	const struct urds_loop_config cfg = {
		.pipe_n64k = 4, .block_get = block_get, .block_put = block_put, .kick = loop_kick};

	CHECK_EQ(urds_loop_new(&cfg, its, NULL, &t), 0);
	knows_acks = true;
	body(dispatch_loop);
	urds_loop_free(t);
}

static void loop__churn(void)
{
	with_loop(&sink, run);
}

static void loop__no_edge_is_lost(void)
{
	with_loop(&stream_sink, stream);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	host_init(200);
	T_RUN(tcp__churn);
	T_RUN(tcp__no_edge_is_lost);
	T_RUN(tcp__no_edge_is_lost_in_place);
	T_RUN(loop__churn);
	T_RUN(loop__no_edge_is_lost);
	return t_done();
}
