/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The descriptor in every kind of wait: select, epoll by level, by edge, once, nested, added before bind; and edges that
 * come while another thread is telling of an earlier one. Built with syscall() wrapped.
 */
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "two.h"

#define NOBODY "127.10.250.250"

static struct urds_sock *a, *b;
static int ep;

static void sockets_open(void)
{
	two_open();
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4001);
	CHECK(a && b && connect4(a, ip_b, 4001) == 0);
	ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(ep >= 0);
}

static void sockets_close(void)
{
	close(ep);
	two_close();
}

static void add(int set, int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.fd = fd};

	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
}

/* The events of the one descriptor in @set, 0 after @ms. */
static int events_of(int set, int ms)
{
	struct epoll_event ev;
	int n = epoll_wait(set, &ev, 1, ms);

	CHECK(n >= 0);
	return n > 0 ? (int)ev.events : 0;
}

static int soon(void)
{
	return 10000 * (int)slow();
}

static ssize_t take(struct urds_sock *s)
{
	char m[16];

	return urds_recv(s, m, sizeof m, MSG_DONTWAIT);
}

static unsigned fill_towards(struct urds_sock *s, const char *ip)
{
	static uint8_t m[1000];
	unsigned n = 0;

	while (send4(s, m, sizeof m, MSG_DONTWAIT, ip, 5) == (ssize_t)sizeof m)
		n++;
	CHECK_EQ(errno, EAGAIN);
	return n;
}

/* ---------------------------------------------------------------- select */

static int select_on(int fd, bool in, bool out, int ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};
	fd_set r, w;

	FD_ZERO(&r);
	FD_ZERO(&w);
	if (in)
		FD_SET(fd, &r);
	if (out)
		FD_SET(fd, &w);
	CHECK(fd < FD_SETSIZE && select(fd + 1, &r, &w, NULL, &tv) >= 0);
	return (FD_ISSET(fd, &r) ? POLLIN : 0) | (FD_ISSET(fd, &w) ? POLLOUT : 0);
}

static void select__in_and_out(void)
{
	int fd_a, fd_b;

	sockets_open();
	fd_a = urds_fd(a);
	fd_b = urds_fd(b);
	CHECK_EQ(select_on(fd_b, true, true, 0), POLLOUT);
	CHECK_EQ(urds_send(a, "x", 1, 0), 1);
	CHECK_EQ(select_on(fd_b, true, false, soon()), POLLIN);
	CHECK_EQ(select_on(fd_b, true, true, 0), POLLIN | POLLOUT);
	CHECK_EQ(take(b), 1);
	EVENTUALLY(select_on(fd_b, true, true, 0) == POLLOUT);
	fill_towards(a, NOBODY);
	EVENTUALLY(select_on(fd_a, true, true, 0) == 0);
	CHECK_EQ(cancel4(a, NOBODY, 5), 0);
	CHECK_EQ(select_on(fd_a, true, true, soon()), POLLOUT);
	sockets_close();
}
PAIR(select__in_and_out)

/* ---------------------------------------------------------------- epoll */

static void epoll__level(void)
{
	sockets_open();
	add(ep, urds_fd(b), EPOLLIN | EPOLLOUT);
	CHECK_EQ(events_of(ep, 0), EPOLLOUT);
	CHECK_EQ(urds_send(a, "x", 1, 0), 1);
	CHECK_EQ(urds_send(a, "y", 1, 0), 1);
	EVENTUALLY(events_of(ep, 0) == (EPOLLIN | EPOLLOUT));
	CHECK_EQ(urds_wait(b, POLLIN, -1), POLLIN);
	CHECK_EQ(take(b), 1);
	EVENTUALLY(take(b) == 1); /* told until nothing is left */
	EVENTUALLY(events_of(ep, 0) == EPOLLOUT);
	fill_towards(b, NOBODY);
	EVENTUALLY(events_of(ep, 0) == 0);
	CHECK_EQ(cancel4(b, NOBODY, 5), 0);
	CHECK_EQ(events_of(ep, soon()), EPOLLOUT);
	sockets_close();
}
PAIR(epoll__level)

static void epoll__edge_in(void)
{
	sockets_open();
	add(ep, urds_fd(b), EPOLLIN | EPOLLET);
	CHECK_EQ(events_of(ep, 0), 0);
	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(urds_send(a, "x", 1, 0), 1);
		CHECK_EQ(events_of(ep, soon()), EPOLLIN);
		CHECK_EQ(take(b), 1);
		CHECK_ERR(take(b), EAGAIN);
	}
	/* What is not read is not told of again. */
	CHECK_EQ(urds_send(a, "x", 1, 0), 1);
	CHECK_EQ(events_of(ep, soon()), EPOLLIN);
	EVENTUALLY(events_of(ep, 20) == 0);
	CHECK_EQ(take(b), 1);
	sockets_close();
}
PAIR(epoll__edge_in)

static void epoll__edge_out(void)
{
	sockets_open();
	add(ep, urds_fd(a), EPOLLOUT | EPOLLET);
	CHECK_EQ(events_of(ep, 0), EPOLLOUT);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(fill_towards(a, NOBODY), 107);
		EVENTUALLY(events_of(ep, 0) == 0);
		CHECK_EQ(cancel4(a, NOBODY, 5), 0);
		CHECK_EQ(events_of(ep, soon()), EPOLLOUT);
	}
	sockets_close();
}
PAIR(epoll__edge_out)

/* By acknowledgements, which no call of the sender brings. */
static void epoll__edge_out_by_acks(void)
{
	static uint8_t m[1000];
	unsigned n, full = 0;

	sockets_open();
	CHECK_EQ(set_int(a, SOL_SOCKET, SO_SNDBUF, 8192), 0);
	add(ep, urds_fd(a), EPOLLOUT | EPOLLET);
	for (int i = 0; i < 100; i++) {
		/* Nobody is bound there: they are acknowledged all the same. */
		for (n = 0; n < 1000 && send4(a, m, 1000, MSG_DONTWAIT, ip_b, 5) == 1000; n++)
			;
		if (n == 1000)
			continue;
		CHECK_EQ(errno, EAGAIN);
		full++;
		CHECK_EQ(events_of(ep, soon()) & EPOLLOUT, EPOLLOUT);
		EVENTUALLY(send4(a, "x", 1, MSG_DONTWAIT, ip_b, 5) == 1);
	}
	printf("# %u of 100 times full\n", full);
	CHECK(full > 0 || variant == LOOP); /* where they may come as fast as messages go */
	sockets_close();
}
PAIR(epoll__edge_out_by_acks)

/* By the limit alone: what was sent stays where it is. */
static void epoll__edge_out_by_the_limit(void)
{
	sockets_open();
	CHECK_EQ(set_int(a, SOL_SOCKET, SO_SNDBUF, 8192), 0);
	add(ep, urds_fd(a), EPOLLOUT | EPOLLET);
	CHECK_EQ(events_of(ep, soon()), EPOLLOUT);
	fill_towards(a, NOBODY);
	CHECK_EQ(events_of(ep, 0), 0);
	CHECK_EQ(set_int(a, SOL_SOCKET, SO_SNDBUF, 65536), 0);
	CHECK_EQ(events_of(ep, soon()), EPOLLOUT);
	CHECK(select_on(urds_fd(a), false, true, 0) > 0);
	CHECK_EQ(set_int(a, SOL_SOCKET, SO_SNDBUF, 8192), 0);
	CHECK_EQ(select_on(urds_fd(a), false, true, 0), 0);
	sockets_close();
}
PAIR(epoll__edge_out_by_the_limit)

static void epoll__one_shot(void)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT};
	int fd;

	sockets_open();
	fd = ev.data.fd = urds_fd(b);
	add(ep, fd, ev.events);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(urds_send(a, "x", 1, 0), 1);
		CHECK_EQ(events_of(ep, soon()), EPOLLIN);
		CHECK_EQ(events_of(ep, 0), 0); /* once */
		CHECK_EQ(take(b), 1);
		CHECK_EQ(urds_send(a, "y", 1, 0), 1);
		CHECK_EQ(urds_wait(b, POLLIN, -1), POLLIN);
		CHECK_EQ(events_of(ep, 0), 0); /* not armed */
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev), 0);
		CHECK_EQ(events_of(ep, soon()), EPOLLIN); /* what came meanwhile */
		CHECK_EQ(take(b), 1);
		EVENTUALLY(select_on(fd, true, false, 0) == 0);
		CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev), 0);
	}
	sockets_close();
}
PAIR(epoll__one_shot)

static void epoll__nested(void)
{
	int outer = epoll_create1(EPOLL_CLOEXEC);

	sockets_open();
	CHECK(outer >= 0);
	add(ep, urds_fd(b), EPOLLIN);
	add(outer, ep, EPOLLIN);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(urds_send(a, "x", 1, 0), 1);
		CHECK_EQ(events_of(outer, soon()), EPOLLIN);
		CHECK_EQ(select_on(outer, true, false, 0), POLLIN);
		CHECK_EQ(events_of(ep, soon()), EPOLLIN);
		CHECK_EQ(take(b), 1);
		EVENTUALLY(events_of(outer, 0) == 0);
	}
	close(outer);
	sockets_close();
}
PAIR(epoll__nested)

static void epoll__added_before_bind(void)
{
	struct urds_sock *s;

	sockets_open();
	s = urds_socket(cb);
	CHECK(s);
	add(ep, urds_fd(s), EPOLLIN | EPOLLOUT | EPOLLET);
	CHECK_EQ(events_of(ep, 0), EPOLLOUT);
	CHECK_EQ(bind4(s, ip_b, 4002), 0);
	CHECK_EQ(send4(a, "x", 1, 0, ip_b, 4002), 1);
	CHECK_EQ(events_of(ep, soon()) & EPOLLIN, EPOLLIN);
	CHECK_EQ(take(s), 1);
	sockets_close();
}
PAIR(epoll__added_before_bind)

/* ---------------------------------------------------------------- edges while another thread tells */

long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);

enum { IDLE, ARMED, HELD, GO };
static _Atomic int hold;
static _Atomic long held_call, held_bytes;

/* The thread that makes the one call, as the descriptor makes it, is held behind it. */
long __wrap_syscall(long n, ...)
{
	long v[6], rc;
	int err, armed = ARMED;
	va_list ap;

	va_start(ap, n);
	for (int i = 0; i < 6; i++)
		v[i] = va_arg(ap, long);
	va_end(ap);
	rc = __real_syscall(n, v[0], v[1], v[2], v[3], v[4], v[5]);
	if (n != atomic_load(&held_call) || v[2] != atomic_load(&held_bytes) ||
	    (n == SYS_recvfrom && rc > 0) || !atomic_compare_exchange_strong(&hold, &armed, HELD))
		return rc;
	err = errno;
	for (uint64_t end = now_ns() + 20000000000u; atomic_load(&hold) != GO && now_ns() < end;)
		nap_ms(1);
	errno = err;
	return rc;
}

static void arm(long call, long bytes)
{
	atomic_store(&held_call, call);
	atomic_store(&held_bytes, bytes);
	atomic_store(&hold, ARMED);
}

static void *send_one(void *arg)
{
	struct worker *w = arg;

	EXPECT(urds_send(w->s, "x", 1, 0) == 1, errno);
	return NULL;
}

/* One sender's thread put the byte in. The reader takes the message, sees that there is no other, and waits; and another
 * sender's message comes. */
static void edge_in__while_another_thread_tells(void)
{
	struct urds_sock *s2;
	struct worker w = {0};
	char ip[24];

	variant = LOOP;
	sockets_open();
	snprintf(ip, sizeof ip, "127.11.%u.3", serial);
	s2 = sock_at(ca, ip, 4002);
	CHECK(s2 && connect4(s2, ip_b, 4001) == 0);
	/* The connections are there. */
	CHECK_EQ(urds_send(a, "x", 1, 0), 1);
	CHECK_EQ(urds_recv(b, ip, sizeof ip, 0), 1);
	CHECK_EQ(urds_send(s2, "x", 1, 0), 1);
	CHECK_EQ(urds_recv(b, ip, sizeof ip, 0), 1);
	add(ep, urds_fd(b), EPOLLIN | EPOLLET);
	EVENTUALLY(events_of(ep, 20) == 0);
	w.s = a;
	arm(SYS_sendto, 1);
	start(&w, send_one);
	EVENTUALLY(atomic_load(&hold) == HELD);
	CHECK_EQ(events_of(ep, soon()), EPOLLIN);
	CHECK_EQ(take(b), 1);
	CHECK_ERR(take(b), EAGAIN);
	CHECK_EQ(urds_send(s2, "y", 1, 0), 1);
	EVENTUALLY(urds_wait(b, POLLIN, 0) == POLLIN);
	atomic_store(&hold, GO);
	pthread_join(w.id, NULL);
	CHECK_EQ(events_of(ep, soon()), EPOLLIN);
	CHECK_EQ(take(b), 1);
	CHECK_THREADS();
	sockets_close();
}

static void *cancel_all(void *arg)
{
	struct worker *w = arg;

	EXPECT(cancel4(w->s, NOBODY, 5) == 0, errno);
	return NULL;
}

/* One thread told of room. The sender uses that up, and more becomes free, all before the first one returned. */
static void edge_out__while_another_thread_tells(void)
{
	struct worker w = {0};

	variant = LOOP;
	sockets_open();
	add(ep, urds_fd(a), EPOLLOUT | EPOLLET);
	CHECK_EQ(fill_towards(a, NOBODY), 107);
	EVENTUALLY(events_of(ep, 20) == 0);
	w.s = a;
	arm(SYS_recvfrom, 1024);
	start(&w, cancel_all);
	EVENTUALLY(atomic_load(&hold) == HELD);
	CHECK_EQ(events_of(ep, soon()), EPOLLOUT);
	CHECK_EQ(fill_towards(a, NOBODY), 107);
	EVENTUALLY(events_of(ep, 20) == 0);
	CHECK_EQ(cancel4(a, NOBODY, 5), 0);
	atomic_store(&hold, GO);
	pthread_join(w.id, NULL);
	CHECK_EQ(events_of(ep, soon()), EPOLLOUT);
	CHECK_THREADS();
	sockets_close();
}

/* ---------------------------------------------------------------- edges of many */

static void *send_many(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < w->n; i++) {
		EXPECT(urds_send(w->s, "x", 1, 0) == 1, errno);
		if (i % 7 == 0)
			nap_ms(0);
	}
	return NULL;
}

static void edges__of_many_senders(void)
{
	struct worker w[3] = {{.n = 3000}, {.n = 3000}, {.n = 3000}};
	unsigned n = 0;
	char ip[24];

	sockets_open();
	add(ep, urds_fd(b), EPOLLIN | EPOLLET);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(ip, sizeof ip, "127.11.%u.%u", serial, 10 + i);
		w[i].s = sock_at(ca, ip, 4010);
		CHECK(w[i].s && connect4(w[i].s, ip_b, 4001) == 0);
		start(&w[i], send_many);
	}
	while (n < 9000) {
		if (events_of(ep, soon()) == 0) {
			ssize_t rc = take(b);

			T_FAIL("after %u messages no edge, and %s", n,
			       rc < 0 ? "nothing came" : "a message waits");
		}
		while (take(b) >= 0)
			n++;
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(w[i].id, NULL);
	CHECK_EQ(n, 9000);
	CHECK_THREADS();
	sockets_close();
}
PAIR(edges__of_many_senders)

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	own_network();
	RUN_PAIR(select__in_and_out);
	RUN_PAIR(epoll__level);
	RUN_PAIR(epoll__edge_in);
	RUN_PAIR(epoll__edge_out);
	RUN_PAIR(epoll__edge_out_by_acks);
	RUN_PAIR(epoll__edge_out_by_the_limit);
	RUN_PAIR(epoll__one_shot);
	RUN_PAIR(epoll__nested);
	RUN_PAIR(epoll__added_before_bind);
	T_RUN(edge_in__while_another_thread_tells);
	T_RUN(edge_out__while_another_thread_tells);
	RUN_PAIR(edges__of_many_senders);
	return t_done();
}
