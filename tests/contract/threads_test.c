/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Links opened, used and closed by several threads while others dispatch, with locks as a runtime
 * would have them. Run under the thread and address sanitizers this is the proof of close().
 */
#include <unistd.h>

#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/lock.h"
#include "platform/thread.h"
#include "tap.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

#define MAGIC 0xfeedu
#define DISPATCHERS 2
#define CHURNERS 2
#define SLOTS 16

struct user {
	uint32_t magic;
	struct urds_lock rx, tx; /* closing takes both, tx first */
	struct urds_link *l URDS_GUARDED_BY(rx);
	bool is_closed;
	_Atomic uint32_t refs;	 /* the link's and the churner's */
};

static struct urds_transport *t;
static struct urds_poller *poller;
static struct urds_addr a, b;
static _Atomic bool stop_churn, stop_dispatch;
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
	struct user *u = heard(l);

	if (read_all(u))
		close_user(u);
	heard(l); /* still there */
}

static void on_writable(struct urds_link *l)
{
	struct user *u = heard(l);
	char buf[2000] = {0};
	struct urds_iov v = {buf, sizeof(buf)};
	size_t taken, freed;

	urds_lock_acquire(&u->tx);
	if (!u->is_closed)
		(void)t->data->tx(u->l, &v, 1, &taken, &freed);
	urds_lock_release(&u->tx);
}

static void on_connected(struct urds_link *l, int err)
{
	struct user *u = heard(l);

	if (err)
		close_user(u);
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

static const struct urds_link_sink sink = {
	.on_readable = on_readable,
	.on_writable = on_writable,
	.on_rx = unexpected,
	.on_tx_released = unexpected,
	.on_connected = on_connected,
	.on_accept = on_accept,
	.on_closed = on_closed,
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
			/* Held, as a peer's lock would be: the answer may come before dial returns. */
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
			    t->data->acked(u->l) == URDS_UNKNOWN)
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

static void dispatch_loop(void *arg)
{
	while (!atomic_load(&stop_dispatch))
		if (urds_loop_run(t) == 0)
			usleep(100);
}

static void run(void (*dispatch)(void *arg))
{
	struct urds_thread d[DISPATCHERS] = {0}, c[CHURNERS] = {0};
	struct urds_listener *ls;
	urds_ns end;

	made = gone = bad = 0;
	moved = 0;
	stop_churn = stop_dispatch = false;
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
	/* The accepted ends see the end of theirs, and close. */
	for (end = urds_clock_ns() + URDS_SEC(20); gone < made && urds_clock_ns() < end;)
		usleep(1000);
	usleep(20000);
	t->connect->unlisten(ls);
	stop_dispatch = true;
	for (int i = 0; i < DISPATCHERS; i++)
		urds_thread_join(&d[i]);
	CHECK_EQ(bad, 0);
	CHECK_EQ(gone, made);
	printf("# %d links, %" PRIu64 " bytes\n", made, moved);
}

static void tcp(void)
{
	struct urds_tcp_config cfg = {.port = (uint16_t)(15000 + getpid() % 1000)};

	CHECK_EQ(urds_poller_new(&poller), 0);
	CHECK_EQ(urds_tcp_new(&cfg, poller, &sink, NULL, &t), 0);
	run(dispatch_tcp);
	urds_tcp_free(t);
	urds_poller_free(poller);
}

static void *block_get(void *u, unsigned n64k)
{
	return malloc((size_t)n64k << 16);
}

static void block_put(void *u, void *block, unsigned n64k)
{
	free(block);
}

static void loop(void)
{
	const struct urds_loop_config cfg = {
		.pipe_n64k = 1, .block_get = block_get, .block_put = block_put};

	CHECK_EQ(urds_loop_new(&cfg, &sink, NULL, &t), 0);
	run(dispatch_loop);
	urds_loop_free(t);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	alarm(120);
	T_RUN(tcp);
	T_RUN(loop);
	return t_done();
}
