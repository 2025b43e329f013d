/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What idle paths and peers keep: rest and waking, chunks of unread messages, remembered counters, and what happens
 * when there is no memory to go on with.
 */
#include "platform/clock.h"
#include "two.h"

static bool rests(struct urds_ctx *e, const char *local, const char *remote)
{
	struct peer *p = peer_to(e, local, remote);
	bool yes = false;

	if (p) {
		urds_lock_acquire(&p->lock);
		yes = p->rest.link != NULL;
		urds_lock_release(&p->lock);
		peer_drop(p);
	}
	return yes;
}

/* Paths go to rest, and go on from there: in either direction, by a ping, after a reset, with a map. */
static void rest_and_wake(void)
{
	struct sockaddr_in la, lb;
	uint64_t n = 0;

	two_open();
	ca->cfg.rest_ns = cb->cfg.rest_ns = URDS_MS(50);
	la = in4(ip_a, 0);
	lb = in4(ip_b, 0);
	for (unsigned round = 0; round < 5; round++) {
		struct urds_sock *a = sock_at(ca, ip_a, 4000), *b = sock_at(cb, ip_b, 4000);
		uint8_t m[1000];

		CHECK(a && b && connect4(a, ip_b, 4000) == 0 && connect4(b, ip_a, 4000) == 0);
		CHECK_EQ(set_timeo(a, SO_RCVTIMEO, 10000 * slow()), 0);
		CHECK_EQ(set_timeo(b, SO_RCVTIMEO, 10000 * slow()), 0);
		if (round == 2) {
			CHECK_EQ(send4(b, NULL, 0, 0, ip_a, 0), 0);
			CHECK_EQ(urds_recv(b, m, sizeof m, 0), 0);
		}
		if (round == 3)
			CHECK_EQ(urds_reset(ca, (struct sockaddr *)&la, (struct sockaddr *)&lb), 1);
		if (round == 4)
			CHECK_EQ(set_int(b, SOL_SOCKET, SO_RCVBUF, 1), 0);
		for (unsigned i = 0; i < 100; i++, n++) {
			struct urds_sock *from = (round ^ i) & 1 ? a : b, *to = from == a ? b : a;

			fill_msg(m, sizeof m, n);
			CHECK_EQ(urds_send(from, m, sizeof m, 0), sizeof m);
			CHECK_EQ(urds_recv(to, m, sizeof m, 0), sizeof m);
			CHECK(check_msg(m, sizeof m, n));
		}
		CHECK_EQ(urds_close(a), 0);
		CHECK_EQ(urds_close(b), 0);
		EVENTUALLY(rests(ca, ip_a, ip_b) && rests(cb, ip_b, ip_a));
		CHECK_EQ(atomic_load(&ca->pool.used), 0);
	}
	two_close();
}
PAIR(rest_and_wake)

static uint64_t queued_at(struct urds_ctx *e)
{
	uint64_t all[URDS_C_MAX];

	engine_counters(e, all);
	return all[URDS_C_recv_queued];
}

/* A thousand messages that come one at a time and lie unread do not hold a block each; and when they are read, nothing
 * is held, although the sockets keep their paths. */
static void lone_messages(void)
{
	struct urds_sock *a, *b;
	uint8_t m[6];
	uint64_t queued;

	two_open();
	ca->cfg.rest_ns = cb->cfg.rest_ns = URDS_MS(50);
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && connect4(a, ip_b, 4000) == 0);
	for (unsigned i = 0; i < 1000; i++) {
		queued = queued_at(cb);
		CHECK_EQ(urds_send(a, "lonely", 6, 0), 6);
		EVENTUALLY(queued_at(cb) > queued);
		if (i == 500)
			nap_ms(200); /* nothing passes for a while */
	}
	CHECK(atomic_load(&cb->pool.used) <= 8 * URDS_BLOCK_BYTES);
	for (unsigned i = 0; i < 1000; i++)
		CHECK_EQ(urds_recv(b, m, sizeof m, 0), 6);
	EVENTUALLY(atomic_load(&cb->pool.used) == 0);
	for (unsigned i = 0; i < 3; i++) { /* and once more, after all timers have run out */
		EVENTUALLY(atomic_load(&cb->next_deadline) == URDS_NEVER);
		CHECK_EQ(urds_send(a, "lonely", 6, 0), 6);
		CHECK_EQ(urds_recv(b, m, sizeof m, 0), 6);
		EVENTUALLY(atomic_load(&cb->pool.used) == 0);
	}
	CHECK_EQ(atomic_load(&cb->kept_chunks), 0);
	two_close();
}
PAIR(lone_messages)

static bool no_timer_for_100_ms(struct urds_ctx *e)
{
	for (unsigned i = 0; i < 100; i++, nap_ms(1))
		if (atomic_load(&e->next_deadline) != URDS_NEVER)
			return false;
	return true;
}

/* The memory and the timers of further paths. */
static void further_paths_come_to_rest(void)
{
	struct urds_config cfg = {.size = sizeof cfg, .flags = URDS_CONFIG_NO_RECORD, .paths = 4};
	struct urds_sock *a[16], *b;
	struct urds_ctx *e[2];
	uint8_t m[6];

	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(urds_open(&cfg, &e[i]), 0);
		e[i]->cfg.rest_ns = URDS_MS(50);
	}
	serial++;
	snprintf(ip_a, sizeof ip_a, "127.11.%u.1", serial);
	snprintf(ip_b, sizeof ip_b, "127.11.%u.2", serial);
	b = sock_at(e[1], ip_b, 4000);
	CHECK(b);
	for (unsigned i = 0; i < 16; i++) {
		a[i] = sock_at(e[0], ip_a, 5000 + i);
		CHECK(a[i] && connect4(a[i], ip_b, 4000) == 0);
	}
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 16; i++) {
			CHECK_EQ(urds_send(a[i], "lonely", 6, 0), 6);
			if (round == 0)
				CHECK_EQ(urds_recv(b, m, sizeof m, 0), 6);
		}
		for (unsigned i = 0; round == 1 && i < 16; i++)
			CHECK_EQ(urds_recv(b, m, sizeof m, 0), 6);
		for (unsigned i = 0; i < 2; i++) {
			EVENTUALLY(atomic_load(&e[i]->pool.used) == 0);
			EVENTUALLY(no_timer_for_100_ms(e[i]));
		}
	}
	CHECK_EQ(urds_shutdown(e[0]), 0);
	CHECK_EQ(urds_shutdown(e[1]), 0);
}

/* Many times to rest and out of it, by several threads, against the timer. */
static void *rest_in_turn(void *arg)
{
	struct worker *w = arg;
	char to[24];

	for (unsigned i = 0; i < w->n; i++) {
		struct urds_sock *s = urds_socket(ca);
		uint8_t b[8];

		EXPECT(s && bind4(s, ip_a, 0) == 0, errno);
		snprintf(to, sizeof to, "%.*s.%u", (int)(strrchr(ip_b, '.') - ip_b), ip_b,
			 10 + (w->tag * 7 + i) % 20);
		EXPECT(send4(s, NULL, 0, 0, to, 0) == 0, errno);
		EXPECT(urds_recv(s, b, sizeof b, 0) == 0, errno);
		EXPECT(urds_close(s) == 0, errno);
		if (i % 16 == 15)
			nap_ms(2 + i / 16 % 16); /* about when they rest */
	}
	return NULL;
}

static void rest_against_use(void)
{
	static struct worker w[4];

	two_open();
	ca->cfg.rest_ns = cb->cfg.rest_ns = URDS_MS(5);
	CHECK(sock_at(ca, ip_a, 0));
	for (unsigned i = 10; i < 30; i++) {
		char ip[24];

		snprintf(ip, sizeof ip, "%.*s.%u", (int)(strrchr(ip_b, '.') - ip_b), ip_b, i);
		CHECK(sock_at(cb, ip, 0));
	}
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.n = 500, .tag = i};
		start(&w[i], rest_in_turn);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(w[i].id, NULL);
	CHECK_THREADS();
	two_close();
}
PAIR(rest_against_use)

static struct peer *made(struct node *n, const char *ip)
{
	struct urds_addr a = v4(ip);
	struct peer *p;

	EVENTUALLY((p = peer_get(n, &a)) !=
		   NULL); /* makes room as soon as the one before is idle */
	return p;
}

/* A full table: what was remembered of a peer is remembered again if it goes before it is heard. */
static void counters_outlive_two_evictions(void)
{
	struct urds_sock *a, *b;
	struct urds_addr local;
	struct node *n;
	struct peer *p;
	uint8_t m[8];

	variant = TCP;
	two_open();
	ca->cfg.peers_max = 1;
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && send4(a, "12345678", 8, 0, ip_b, 4000) == 8 && urds_recv(b, m, 8, 0) == 8);
	local = a->bound.at.addr;
	CHECK(sock_at(ca, ip_a, 4001)); /* keeps the address */
	CHECK_EQ(urds_close(a), 0);
	CHECK_EQ(urds_shutdown(cb), 0);
	urds_rwlock_read_acquire(&ca->table);
	n = node_find(ca, &local);
	urds_rwlock_read_release(&ca->table);
	for (unsigned i = 0; i < 3; i++) {
		peer_drop(made(n, "127.11.250.1"));
		p = made(n, ip_b);
		CHECK(!p->core.is_proven);
		CHECK(p->past && p->past->next_tx[0] > 0);
		peer_drop(p);
	}
	CHECK_EQ(urds_shutdown(ca), 0);
}

static bool has_fault(const struct urds_addr *local, const struct urds_addr *remote)
{
	struct peer *p = peer_find(ca, local, remote);
	bool yes;

	if (!p)
		return false;
	urds_lock_acquire(&p->lock);
	yes = p->core.fault.kind == URDS_FAULT_DIAL;
	urds_lock_release(&p->lock);
	peer_drop(p);
	return yes;
}

/* Also when the program gives up while an attempt is under way. */
static void a_peer_tried_in_vain_is_not_forgotten(void)
{
	struct urds_addr local, remote;
	struct urds_sock *a, *keeper; /* of the address */
	char ip[32];

	variant = TCP;
	two_open();
	keeper = sock_at(ca, ip_a, 4001);
	CHECK(keeper);
	local = keeper->bound.at.addr;
	for (unsigned i = 1; i <= 20; i++) {
		snprintf(ip, sizeof ip, "127.11.251.%u", i);
		remote = v4(ip);
		a = sock_at(ca, ip_a, 4000);
		CHECK(a && send4(a, "x", 1, MSG_DONTWAIT, ip, 4000) == 1);
		urds_close(a);
		EVENTUALLY(has_fault(&local, &remote));
	}
	urds_close(keeper);
	two_close();
}

/* ---- memory that is short */

static const struct urds_mem_ops *real_ops;
static _Atomic size_t fails_at; /* size of what cannot be had */
static _Atomic unsigned failures;

static void *alloc_or_not(struct urds_mem *mem, size_t bytes)
{
	if (bytes == atomic_load(&fails_at)) {
		atomic_fetch_add(&failures, 1);
		return NULL;
	}
	return real_ops->alloc(mem, bytes);
}

/* There is no memory for a path when the other end comes: the connection is closed, once, and made again until there is. */
static void no_memory_for_a_path(bool receiver_dials)
{
	struct urds_mem_ops ops;
	struct urds_sock *a, *b;
	uint8_t m[8];

	variant = TCP;
	serial += (serial + 1) % 2 ==
		  receiver_dials; /* odd ones: the sender has the smaller address */
	two_open();
	real_ops = cb->pool.mem.ops;
	ops = *real_ops;
	ops.alloc = alloc_or_not;
	cb->pool.mem.ops = &ops;
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	atomic_store(&failures, 0);
	atomic_store(&fails_at, sizeof(struct path));
	CHECK(a && b && send4(a, "12345678", 8, 0, ip_b, 4000) == 8);
	EVENTUALLY_S(atomic_load(&failures) >= 3, 4);
	atomic_store(&fails_at, 0);
	CHECK_EQ(set_timeo(b, SO_RCVTIMEO, 15000 * slow()), 0);
	CHECK_EQ(urds_recv(b, m, sizeof m, 0), 8);
	two_close();
}

static void no_memory_for_a_path_that_is_accepted(void)
{
	no_memory_for_a_path(false);
}

static void no_memory_for_a_path_that_is_knocked_for(void)
{
	no_memory_for_a_path(true);
}

/* At rest there is no path, and nothing pending. */
static bool is_all_released(struct peer *p)
{
	bool yes;

	urds_lock_acquire(&p->lock);
	yes = !p->path0 || !urds_log_has_pending(&p->path0->tx.log);
	urds_lock_release(&p->lock);
	return yes;
}

/* What is acknowledged is released without more traffic, a sender's memory with it. */
static void acknowledged_messages_are_released(void)
{
	struct urds_sock *a, *b;
	struct peer *p;
	uint8_t m[16];

	two_open();
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && connect4(a, ip_b, 4000) == 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 10; i++)
			CHECK_EQ(urds_send(a, "release me", 10, 0), 10);
		for (unsigned i = 0; i < 10; i++)
			CHECK_EQ(urds_recv(b, m, sizeof m, 0), 10);
		p = peer_to(ca, ip_a, ip_b);
		CHECK(p != NULL);
		EVENTUALLY(is_all_released(p));
		peer_drop(p);
	}
	two_close();
}
PAIR(acknowledged_messages_are_released)

static void *reads_all(void *arg)
{
	struct worker *w = arg;
	uint8_t m[1024];

	while (w->count < w->n && urds_recv(w->s, m, sizeof m, 0) == sizeof m)
		w->count++;
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Who waits for room hears of it when the peer acknowledges, not when some timer comes round: by every way to wait. */
static void room_is_told_at_once(void)
{
	static uint64_t took[6000];
	struct worker w = {.n = 2000};
	struct pollfd fd = {.events = POLLOUT};
	unsigned waits = 0;
	uint8_t m[1024] = {0};

	two_open();
	for (unsigned way = 0; way < 3; way++) { /* in the send, in urds_wait(), in poll() */
		struct urds_sock *a = sock_at(ca, ip_a, 4000), *b = sock_at(cb, ip_b, 4000);
		int size = 2 * sizeof m, big = 4 << 20;

		CHECK(a && b && connect4(a, ip_b, 4000) == 0);
		CHECK_EQ(urds_setsockopt(a, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size), 0);
		/* No congestion: that is another thing to wait for. */
		CHECK_EQ(urds_setsockopt(b, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big), 0);
		if (way == 2)
			fd.fd = urds_fd(a);
		w.s = b;
		w.count = 0;
		start(&w, reads_all);
		for (unsigned i = 0; i < w.n; i++) {
			urds_ns t0 = urds_clock_ns();
			ssize_t rc = urds_send(a, m, sizeof m, way == 0 ? 0 : MSG_DONTWAIT);

			while (rc < 0 && urds_errno() == URDS_EAGAIN) {
				if (way == 1)
					CHECK_EQ(urds_wait(a, POLLOUT, 10000 * slow()), POLLOUT);
				else
					CHECK_EQ(poll(&fd, 1, 10000 * slow()), 1);
				rc = urds_send(a, m, sizeof m, MSG_DONTWAIT);
			}
			CHECK_EQ(rc, sizeof m);
			took[waits++] = urds_clock_ns() - t0;
		}
		pthread_join(w.id, NULL);
		CHECK_EQ(w.count, w.n);
		qsort(took, waits, sizeof took[0], by_time);
		CHECK(took[waits / 2] < URDS_MS(5) * slow());
		CHECK(took[waits * 9 / 10] < URDS_MS(15) * slow());
		waits = 0;
		urds_close(a);
		urds_close(b);
	}
	two_close();
}
PAIR(room_is_told_at_once)

static void *reads_counters(void *arg)
{
	struct worker *w = arg;
	uint64_t was[URDS_C_MAX] = {0}, all[URDS_C_MAX];

	while (!atomic_load(&w->stop)) {
		engine_counters(cb, all);
		for (int i = 0; i < URDS_C_MAX; i++)
			EXPECT(all[i] >= was[i], i);
		memcpy(was, all, sizeof was);
		w->count++;
	}
	return NULL;
}

/* While the sockets and the paths that keep counts go, and give them away. */
static void counters_never_run_backwards(void)
{
	struct worker w = {0};
	uint64_t all[URDS_C_MAX];
	uint8_t m[8];

	two_open();
	ca->cfg.rest_ns = cb->cfg.rest_ns = URDS_MS(1);
	start(&w, reads_counters);
	for (unsigned i = 0; i < 300; i++) {
		struct urds_sock *a = sock_at(ca, ip_a, 4000), *b = sock_at(cb, ip_b, 4000);

		CHECK(a && b);
		CHECK_EQ(send4(a, "count", 5, 0, ip_b, 4000), 5);
		CHECK_EQ(urds_recv(b, m, sizeof m, 0), 5);
		urds_close(a);
		urds_close(b);
		if (i % 10 == 0)
			nap_ms(3);
	}
	atomic_store(&w.stop, true);
	pthread_join(w.id, NULL);
	CHECK_THREADS();
	CHECK(w.count > 0);
	engine_counters(cb, all);
	CHECK_EQ(all[URDS_C_recv_delivered], 300);
	CHECK_EQ(all[URDS_C_recv_queued], 300);
	two_close();
}
PAIR(counters_never_run_backwards)

static void *closes(void *arg)
{
	struct worker *w = arg;

	EXPECT(urds_close(w->s) == 0, 0);
	return NULL;
}

static void *finds_one_delivered(void *arg)
{
	uint64_t all[URDS_C_MAX];

	(void)arg;
	engine_counters(cb, all);
	EXPECT(all[URDS_C_recv_delivered] == 1, (int)all[URDS_C_recv_delivered]);
	return NULL;
}

/* Whoever moves what a socket has counted may be held up as long as it likes. */
static void counters_of_a_close_that_is_held_up(void)
{
	struct worker reader = {0}, closer = {0};
	struct urds_sock *a, *b;
	uint8_t m[8];

	variant = TCP;
	two_open();
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4000);
	CHECK(a && b && send4(a, "count", 5, 0, ip_b, 4000) == 5);
	CHECK_EQ(urds_recv(b, m, sizeof m, 0), 5);
	urds_lock_acquire(&b->rx_lock);
	closer.s = b;
	start(&closer, closes);
	EVENTUALLY(atomic_load(&b->is_closed));
	start(&reader, finds_one_delivered);
	nap_ms(30); /* for the reader to see what it should not */
	urds_lock_release(&b->rx_lock);
	pthread_join(closer.id, NULL);
	pthread_join(reader.id, NULL);
	CHECK_THREADS();
	urds_close(a);
	two_close();
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	RUN_PAIR(rest_and_wake);
	RUN_PAIR(rest_against_use);
	RUN_PAIR(lone_messages);
	RUN_PAIR(acknowledged_messages_are_released);
	RUN_PAIR(room_is_told_at_once);
	RUN_PAIR(counters_never_run_backwards);
	T_RUN(counters_of_a_close_that_is_held_up);
	T_RUN(further_paths_come_to_rest);
	T_RUN(counters_outlive_two_evictions);
	T_RUN(a_peer_tried_in_vain_is_not_forgotten);
	T_RUN(no_memory_for_a_path_that_is_accepted);
	T_RUN(no_memory_for_a_path_that_is_knocked_for);
	return t_done();
}
