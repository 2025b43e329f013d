/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Full buffers, congested ports, and what is ready: who has to wait, and what ends that. Over three kinds of pair, as
 * exchange_test.c.
 */
#include "ends.h"

/* Towards a host that is not there. */
static void sndbuf__accounting(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s;
	struct sockaddr_in to;
	uint64_t since;

	names();
	to = in4(t.ip_b, 5);
	s = sock_at(e, t.ip_a, 4000);
	CHECK(s);
	CHECK_EQ(connect4(s, t.ip_b, 5), 0);
	CHECK_EQ(fill_up(s, 1000), 107); /* the last one overshoots */
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(urds_wait(s, POLLOUT, 0), 0);
	CHECK_EQ(set_timeo(s, SO_SNDTIMEO, 100), 0);
	since = now_ns();
	CHECK_ERR(urds_send(s, big, 1000, 0), ETIMEDOUT);
	CHECK(seconds_since(since) >= 0.099);
	CHECK_ERR(urds_send(s, NULL, 0, MSG_DONTWAIT), EAGAIN);
	/* Another port at the same host: nothing of it is here. */
	to.sin_port = htons(6);
	CHECK_EQ(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &to, sizeof to), 0);
	CHECK_EQ(urds_wait(s, POLLOUT, 0), 0);
	to.sin_port = htons(5);
	CHECK_EQ(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &to, sizeof to), 0);
	CHECK_EQ(urds_wait(s, POLLOUT, 0), POLLOUT);
	for (int i = 0; i < 3000; i++)
		CHECK_EQ(urds_send(s, NULL, 0, MSG_DONTWAIT), 0);
	CHECK_EQ(fill_up(s, 1000), 107);
	/* Raising the limit makes room. */
	CHECK_EQ(set_int(s, SOL_SOCKET, SO_SNDBUFFORCE, 200000), 0);
	CHECK_EQ(fill_up(s, 1000), 93);
	since = now_ns();
	CHECK_EQ(urds_close(s), 0);
	CHECK(seconds_since(since) < 1 * slow());

	/* The largest message. */
	s = sock_at(e, t.ip_a, 4000);
	CHECK_EQ(connect4(s, t.ip_b, 5), 0);
	CHECK_ERR(urds_send(s, big, 106497, MSG_DONTWAIT), EMSGSIZE);
	CHECK_EQ(urds_send(s, big, 106496, MSG_DONTWAIT), 106496);
	CHECK_ERR(urds_send(s, big, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_ERR(urds_send(s, big, 106497, MSG_DONTWAIT), EMSGSIZE); /* before EAGAIN */
	CHECK_EQ(urds_close(s), 0);
	s = sock_at(e, t.ip_a, 4000);
	CHECK_EQ(connect4(s, t.ip_b, 5), 0);
	CHECK_EQ(set_int(s, SOL_SOCKET, SO_SNDBUF, 10000), 0);
	CHECK_ERR(urds_send(s, big, 10001, MSG_DONTWAIT), EMSGSIZE);
	CHECK_EQ(urds_send(s, big, 9999, MSG_DONTWAIT), 9999);
	CHECK_EQ(urds_send(s, big, 10000, MSG_DONTWAIT), 10000); /* one byte was free */
	CHECK_ERR(urds_send(s, big, 1, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(urds_close(s), 0);
	s = sock_at(e, t.ip_a, 4000);
	CHECK_EQ(connect4(s, t.ip_b, 5), 0);
	CHECK_EQ(set_int(s, SOL_SOCKET, SO_SNDBUFFORCE, 32 << 20), 0);
	CHECK_ERR(urds_send(s, big, (1 << 20) + 1, MSG_DONTWAIT), EMSGSIZE);
	CHECK_EQ(urds_send(s, big, 1 << 20, MSG_DONTWAIT), 1 << 20);
	CHECK_EQ(urds_shutdown(e), 0);
}

static void acks_make_room(void)
{
	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20), 0);
	/* Far more than the buffer holds, nobody reads: acknowledged is queued, not read. */
	for (int i = 0; i < 3000; i++)
		CHECK_EQ(urds_send(t.a, big, 1000, 0), 1000);
	EVENTUALLY(urds_wait(t.a, POLLOUT, 0) == POLLOUT);
	for (int i = 0; i < 3000; i++)
		CHECK_EQ(urds_recv(t.b, got, sizeof got, 0), 1000);
	two_close();
}
PAIR(acks_make_room)

/* ---------------------------------------------------------------- congestion */

/* Sends slowly until the port is congested. Return: messages queued. */
static int congest(struct urds_sock *from, size_t size)
{
	int n = 0;

	/* One message needs its answer before the next: a ping behind it. */
	while (urds_send(from, big, size, MSG_DONTWAIT) == (ssize_t)size) {
		n++;
		if (n > 1000 || send4(from, NULL, 0, 0, t.ip_b, 0) != 0 ||
		    urds_recv(from, got, 10, 0) != 0)
			return -1;
		nap_ms(variant == LOOP ? 0 : 20); /* the map travels behind the pong */
	}
	return errno == ENOBUFS ? n : -errno;
}

static void congestion(void)
{
	struct urds_sock *other, *b2;
	int reads = 0;

	two_open();
	other = sock_at(t.ca, t.ip_a, 4002);
	b2 = sock_at(t.cb, t.ip_b, 4005);
	CHECK(other && b2);
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUF, 4096), 0);
	CHECK_EQ(get_int(t.b, SOL_SOCKET, SO_RCVBUF), 8192);
	CHECK_EQ(congest(t.a, 1000), 5);
	CHECK_ERR(urds_send(t.a, "x", 1, MSG_DONTWAIT), ENOBUFS);
	CHECK_EQ(urds_errno(), URDS_ECONG);
	CHECK_EQ(urds_wait(t.a, POLLOUT, 0), POLLOUT); /* says nothing about it */
	CHECK_ERR(send4(other, "x", 1, MSG_DONTWAIT, t.ip_b, 4001), ENOBUFS);
	/* Another port of the same host is free. */
	CHECK_EQ(send4(t.a, "x", 1, MSG_DONTWAIT, t.ip_b, 4005), 1);
	CHECK_EQ(urds_recv(b2, got, 10, 0), 1);
	/* Three have to be read. */
	for (;;) {
		CHECK_EQ(urds_recv(t.b, got, 2000, MSG_DONTWAIT), 1000);
		if (++reads == 3)
			break;
		nap_ms(30);
		CHECK_ERR(urds_send(t.a, "x", 1, MSG_DONTWAIT), ENOBUFS);
	}
	EVENTUALLY(urds_send(t.a, "y", 1, MSG_DONTWAIT) == 1);
	CHECK_EQ(urds_recv(t.b, got, 2000, 0), 1000);
	CHECK_EQ(urds_recv(t.b, got, 2000, 0), 1000);
	CHECK_EQ(urds_recv(t.b, got, 2000, 0), 1);
	CHECK(got[0] == 'y');
	two_close();
}
PAIR(congestion)

static void *send_blocking(void *arg)
{
	return (void *)(intptr_t)urds_send(arg, "blocked", 7, 0);
}

static void congestion_blocks(void)
{
	pthread_t id;
	void *rc;
	uint64_t since;

	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUF, 4096), 0);
	CHECK_EQ(congest(t.a, 1000), 5);
	CHECK_EQ(set_timeo(t.a, SO_SNDTIMEO, 100), 0);
	since = now_ns();
	CHECK_ERR(urds_send(t.a, "x", 1, 0), ETIMEDOUT);
	CHECK(seconds_since(since) >= 0.099);
	CHECK_EQ(set_timeo(t.a, SO_SNDTIMEO, 0), 0);
	CHECK_EQ(pthread_create(&id, NULL, send_blocking, t.a), 0);
	nap_ms(50);
	CHECK_EQ(pthread_tryjoin_np(id, &rc), EBUSY);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(urds_recv(t.b, got, 2000, 0), 1000);
	CHECK_EQ(pthread_join(id, &rc), 0);
	CHECK_EQ((intptr_t)rc, 7);
	CHECK_EQ(urds_recv(t.b, got, 2000, 0), 7);
	/* The receiver closes: free again, and what is sent is dropped. */
	CHECK_EQ(congest(t.a, 1000), 5);
	CHECK_EQ(pthread_create(&id, NULL, send_blocking, t.a), 0);
	nap_ms(50);
	CHECK_EQ(urds_close(t.b), 0);
	CHECK_EQ(pthread_join(id, &rc), 0);
	CHECK_EQ((intptr_t)rc, 7);
	two_close();
}
PAIR(congestion_blocks)

/* The sender closes while one of its threads waits: EBADF. */
static void *send_expect_ebadf(void *arg)
{
	ssize_t rc = urds_send(arg, "blocked", 7, 0);

	return (void *)(intptr_t)(rc < 0 ? errno : 0);
}

static void *recv_expect_ebadf(void *arg)
{
	uint8_t b[16];
	ssize_t rc = urds_recv(arg, b, sizeof b, 0);

	return (void *)(intptr_t)(rc < 0 ? errno : 0);
}

static void *wait_expect_ebadf(void *arg)
{
	int rc = urds_wait(arg, POLLIN, -1);

	return (void *)(intptr_t)(rc < 0 ? errno : 0);
}

static pthread_t held[4];

/* Four calls wait: to a congested port, twice for a message, and for room. Return: the socket that is full. */
static struct urds_sock *calls_wait(void)
{
	struct urds_sock *s;

	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUF, 4096), 0);
	CHECK_EQ(congest(t.a, 1000), 5);
	CHECK_EQ(pthread_create(&held[0], NULL, send_expect_ebadf, t.a), 0);
	CHECK_EQ(pthread_create(&held[1], NULL, recv_expect_ebadf, t.a), 0);
	CHECK_EQ(pthread_create(&held[2], NULL, wait_expect_ebadf, t.a), 0);
	s = sock_at(t.ca, t.ip_a, 4003);
	CHECK(s);
	CHECK_EQ(connect4(s, "127.10.250.250", 5), 0);
	CHECK_EQ(fill_up(s, 1000), 107);
	CHECK_EQ(pthread_create(&held[3], NULL, send_expect_ebadf, s), 0);
	nap_ms(50);
	return s;
}

static void calls_were_released(void)
{
	void *rc;

	for (int i = 0; i < 4; i++) {
		CHECK_EQ(pthread_join(held[i], &rc), 0);
		CHECK_EQ((intptr_t)rc, EBADF);
	}
}

static void close_releases(void)
{
	struct urds_sock *s = calls_wait();

	CHECK_EQ(urds_close(t.a), 0);
	CHECK_EQ(urds_close(s), 0);
	calls_were_released();
	two_close();
}
PAIR(close_releases)

static void shutdown_releases(void)
{
	(void)calls_wait();
	two_close();
	calls_were_released();
}
PAIR(shutdown_releases)

/* ---------------------------------------------------------------- the descriptor */

static void descriptor(void)
{
	struct sockaddr_in to;
	struct urds_sock *s;
	int fd, fd_s;

	two_open();
	fd = urds_fd(t.b);
	CHECK(fd >= 0);
	CHECK_EQ(urds_fd(t.b), fd);
	CHECK(is_cloexec(fd));
	CHECK_EQ(poll_fd(fd, POLLIN | POLLOUT, 0), POLLOUT);
	CHECK_EQ(urds_send(t.a, "one", 3, 0), 3);
	CHECK_EQ(urds_send(t.a, "two", 3, 0), 3);
	CHECK_EQ(poll_fd(fd, POLLIN, 10000 * (int)slow()), POLLIN);
	CHECK_EQ(poll_fd(fd, POLLIN, 0), POLLIN); /* level */
	CHECK_EQ(urds_recv(t.b, got, 10, 0), 3);
	CHECK_EQ(urds_recv(t.b, got, 10, 0), 3);
	EVENTUALLY(poll_fd(fd, POLLIN, 0) == 0);
	CHECK_ERR(urds_recv(t.b, got, 10, MSG_DONTWAIT), EAGAIN);
	/* Asked for while a message waits. */
	CHECK_EQ(urds_send(t.b, "x", 1, MSG_DONTWAIT) < 0, 1); /* not connected */
	CHECK_EQ(send4(t.b, "back", 4, 0, t.ip_a, 4000), 4);
	CHECK_EQ(urds_wait(t.a, POLLIN, 10000), POLLIN);
	CHECK_EQ(poll_fd(urds_fd(t.a), POLLIN, 10000 * (int)slow()), POLLIN);
	CHECK_EQ(urds_recv(t.a, got, 10, 0), 4);
	EVENTUALLY(poll_fd(urds_fd(t.a), POLLIN, 0) == 0);
	/* Many rounds: the token is never lost or doubled. */
	for (int i = 0; i < 2000; i++) {
		CHECK_EQ(urds_send(t.a, "r", 1, 0), 1);
		CHECK_EQ(poll_fd(fd, POLLIN, 10000 * (int)slow()), POLLIN);
		CHECK_EQ(urds_recv(t.b, got, 10, MSG_DONTWAIT), 1);
		EVENTUALLY(poll_fd(fd, POLLIN, 0) ==
			   0); /* another thread may still be changing it */
	}
	/* Writable is withdrawn when full, and comes back. */
	s = sock_at(t.ca, t.ip_a, 4004);
	fd_s = urds_fd(s);
	CHECK_EQ(poll_fd(fd_s, POLLOUT, 0), POLLOUT);
	CHECK_EQ(connect4(s, "127.10.250.250", 5), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(fill_up(s, 1000), 107);
		EVENTUALLY(poll_fd(fd_s, POLLOUT | POLLIN, 0) == 0);
		to = in4("127.10.250.250", 5);
		CHECK_EQ(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &to, sizeof to),
			 0);
		CHECK_EQ(poll_fd(fd_s, POLLOUT, 10000 * (int)slow()), POLLOUT);
	}
	/* Full and readable at once. */
	CHECK_EQ(fill_up(s, 1000), 107);
	CHECK_EQ(send4(t.b, "in", 2, 0, t.ip_a, 4004), 2);
	CHECK_EQ(poll_fd(fd_s, POLLIN | POLLOUT, 10000 * (int)slow()), POLLIN);
	CHECK_EQ(urds_recv(s, got, 10, MSG_DONTWAIT), 2);
	EVENTUALLY(poll_fd(fd_s, POLLIN | POLLOUT, 0) == 0);
	CHECK_EQ(urds_close(s), 0);
	two_close();
}
PAIR(descriptor)

/* Acks make a descriptor writable again with no call of ours in between. */
static void descriptor_writable_by_acks(void)
{
	int fd;

	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20), 0);
	fd = urds_fd(t.a);
	for (int i = 0; i < 10; i++) {
		int n = fill_up(t.a, 1000);

		CHECK(errno == EAGAIN || errno == ENOBUFS);
		CHECK_EQ(poll_fd(fd, POLLOUT, 10000 * (int)slow()), POLLOUT);
		while (n-- > 0)
			CHECK_EQ(urds_recv(t.b, got, sizeof got, 0), 1000);
	}
	two_close();
}
PAIR(descriptor_writable_by_acks)

static void wait_call(void)
{
	struct urds_sock *s;
	uint64_t since;

	two_open();
	CHECK_EQ(urds_wait(t.b, POLLIN, 0), 0);
	since = now_ns();
	CHECK_EQ(urds_wait(t.b, POLLIN, 100), 0);
	CHECK(seconds_since(since) >= 0.099);
	CHECK_EQ(urds_wait(t.b, POLLIN | POLLOUT, -1), POLLOUT);
	CHECK_EQ(urds_send(t.a, "x", 1, 0), 1);
	CHECK_EQ(urds_wait(t.b, POLLIN, -1), POLLIN);
	CHECK_EQ(urds_wait(t.b, POLLIN | POLLOUT, -1), POLLIN | POLLOUT);
	CHECK_EQ(urds_recv(t.b, got, 10, 0), 1);
	s = sock_at(t.ca, t.ip_a, 4004);
	CHECK_EQ(connect4(s, "127.10.250.250", 5), 0);
	CHECK_EQ(fill_up(s, 1000), 107);
	CHECK_EQ(urds_wait(s, POLLOUT, 50), 0);
	CHECK_EQ(send4(t.b, "in", 2, 0, t.ip_a, 4004), 2);
	CHECK_EQ(urds_wait(s, POLLIN | POLLOUT, -1), POLLIN);
	two_close();
}
PAIR(wait_call)

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(sndbuf__accounting);
	RUN_PAIR(acks_make_room);
	RUN_PAIR(congestion);
	RUN_PAIR(congestion_blocks);
	RUN_PAIR(close_releases);
	RUN_PAIR(shutdown_releases);
	RUN_PAIR(descriptor);
	RUN_PAIR(descriptor_writable_by_acks);
	RUN_PAIR(wait_call);
	return t_done();
}
