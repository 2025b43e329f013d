/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What is sent arrives, once and in order, whatever becomes of sockets and addresses meanwhile. Cases with two ends run three
 * times: both in one context (in memory), in two contexts of this process (TCP, urds extension), and the same without the
 * extension (as with a kernel).
 */
#include "ends.h"

static void exchange(void)
{
	static const size_t sizes[] = {0,     1,      7,      48,     100,	     1000,
				       4096,  8192,   32767,  32768,  65535,	     65536,
				       65537, 100000, 106496, 500000, (1 << 20) - 1, 1 << 20};
	struct sockaddr_in from;
	socklen_t len;

	two_open();
	CHECK_EQ(set_int(t.a, SOL_SOCKET, SO_SNDBUFFORCE, 2 << 20), 0);
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_SNDBUFFORCE, 2 << 20), 0);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		size_t n = sizes[i];

		memset(big, (int)i + 1, n);
		CHECK_EQ(urds_send(t.a, big, n, 0), n);
		memset(big, 0xee, n); /* the buffer is ours again */
		len = sizeof from;
		CHECK_EQ(urds_recvfrom(t.b, got, sizeof got, 0, (struct sockaddr *)&from, &len), n);
		for (size_t k = 0; k < n; k++)
			CHECK(got[k] == i + 1);
		CHECK(len == 16 && from.sin_family == AF_INET && ntohs(from.sin_port) == 4000 &&
		      from.sin_addr.s_addr == in4(t.ip_a, 0).sin_addr.s_addr);
		CHECK_EQ(urds_sendto(t.b, got, n, 0, (struct sockaddr *)&from, len), n);
		CHECK_EQ(urds_recv(t.a, got, sizeof got, 0), n);
	}
	/* A connected socket hears everybody, and may send to anybody. */
	CHECK_EQ(connect4(t.b, t.ip_b, 4001), 0);
	CHECK_EQ(send4(t.b, "abc", 3, 0, t.ip_a, 4000), 3);
	CHECK_EQ(urds_recv(t.a, got, 10, 0), 3);
	/* Itself. */
	CHECK_EQ(send4(t.a, "self", 4, 0, t.ip_a, 4000), 4);
	len = sizeof from;
	CHECK_EQ(urds_recvfrom(t.a, got, 10, 0, (struct sockaddr *)&from, &len), 4);
	CHECK(ntohs(from.sin_port) == 4000 && memcmp(got, "self", 4) == 0);
	two_close();
}
PAIR(exchange)

static void empty_messages(void)
{
	struct sockaddr_in from = {0};
	socklen_t len = sizeof from;

	two_open();
	CHECK_EQ(urds_send(t.a, NULL, 0, 0), 0);
	CHECK_EQ(urds_wait(t.b, POLLIN, 10000), POLLIN);
	CHECK_EQ(urds_recvfrom(t.b, got, 10, 0, (struct sockaddr *)&from, &len), 0);
	CHECK(len == 16 && ntohs(from.sin_port) == 4000);
	for (int i = 0; i < 3000; i++)
		CHECK_EQ(urds_send(t.a, NULL, 0, MSG_DONTWAIT), 0);
	CHECK_EQ(urds_send(t.a, "x", 1, 0), 1);
	for (int i = 0; i < 3000; i++)
		CHECK_EQ(urds_recv(t.b, got, 10, 0), 0);
	CHECK_EQ(urds_recv(t.b, got, 10, 0), 1);
	two_close();
}
PAIR(empty_messages)

static void ping(void)
{
	struct sockaddr_in from = {0};
	socklen_t len = sizeof from;
	struct urds_sock *other;

	two_open();
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(send4(t.a, "data", i ? 0 : 4, 0, t.ip_b, 0), i ? 0 : 4);
		len = sizeof from;
		CHECK_EQ(urds_recvfrom(t.a, got, 10, 0, (struct sockaddr *)&from, &len), 0);
		CHECK(len == 16 && from.sin_port == 0 &&
		      from.sin_addr.s_addr == in4(t.ip_b, 0).sin_addr.s_addr);
	}
	/* From another socket, and to our own address. */
	other = sock_at(t.ca, t.ip_a, 4002);
	CHECK(other);
	CHECK_EQ(send4(other, NULL, 0, 0, t.ip_a, 0), 0);
	CHECK_EQ(urds_recvfrom(other, got, 10, 0, (struct sockaddr *)&from, &len), 0);
	CHECK_EQ(from.sin_port, 0);
	CHECK_ERR(urds_recv(t.a, got, 10, MSG_DONTWAIT), EAGAIN);
	two_close();
}
PAIR(ping)

static void recv_flags(void)
{
	struct iovec v[3] = {{got, 3}, {got + 100, 4}, {got + 200, 3}};
	struct sockaddr_in from;
	struct msghdr m = {
		.msg_iov = v, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof from};
	uint64_t since;

	two_open();
	CHECK_ERR(urds_recv(t.b, got, 10, MSG_DONTWAIT), EAGAIN);
	memset(big, 'x', 100);
	/* Cut. */
	CHECK_EQ(urds_send(t.a, big, 100, 0), 100);
	CHECK_EQ(urds_send(t.a, big, 50, 0), 50);
	CHECK_EQ(urds_recvmsg(t.b, &m, 0), 10);
	CHECK_EQ(m.msg_flags, MSG_TRUNC);
	CHECK_EQ(urds_recv(t.b, got, 100, 0), 50);
	/* The same with MSG_TRUNC: the length there was. */
	CHECK_EQ(urds_send(t.a, big, 100, 0), 100);
	m.msg_namelen = sizeof from;
	CHECK_EQ(urds_recvmsg(t.b, &m, MSG_TRUNC), 100);
	CHECK_EQ(m.msg_flags, MSG_TRUNC);
	/* Peek. */
	CHECK_EQ(urds_send(t.a, big, 100, 0), 100);
	CHECK_EQ(urds_recv(t.b, got, 10, MSG_PEEK), 10);
	CHECK_EQ(urds_recv(t.b, got, 200, MSG_PEEK), 100);
	CHECK_EQ(urds_recv(t.b, got, 200, 0), 100);
	CHECK_ERR(urds_recv(t.b, got, 10, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
	/* A buffer of no bytes takes the message. */
	CHECK_EQ(urds_send(t.a, big, 100, 0), 100);
	CHECK_EQ(urds_send(t.a, big, 50, 0), 50);
	m.msg_iovlen = 0;
	m.msg_namelen = sizeof from;
	CHECK_EQ(urds_recvmsg(t.b, &m, 0), 0);
	CHECK_EQ(m.msg_flags, MSG_TRUNC);
	CHECK_EQ(urds_recv(t.b, got, 100, MSG_WAITALL), 50);
	/* OOB is nothing, at once; the error queue is empty. */
	CHECK_EQ(urds_send(t.a, big, 100, 0), 100);
	CHECK_EQ(urds_recv(t.b, got, 10, MSG_OOB), 0);
	CHECK_ERR(urds_recv(t.b, got, 10, MSG_ERRQUEUE), EAGAIN);
	/* A name buffer that is too short: cut, and the whole length told. */
	memset(&from, 0x55, sizeof from);
	m.msg_iovlen = 3;
	m.msg_namelen = 4;
	CHECK_EQ(urds_recvmsg(t.b, &m, 0), 10);
	CHECK_EQ(m.msg_namelen, 16);
	CHECK(from.sin_addr.s_addr == 0x55555555);

	CHECK_EQ(set_timeo(t.b, SO_RCVTIMEO, 200), 0);
	since = now_ns();
	CHECK_ERR(urds_recv(t.b, got, 10, 0), ETIMEDOUT);
	CHECK(seconds_since(since) >= 0.199 && seconds_since(since) < 2 * slow());
	CHECK_EQ(set_timeo(t.b, SO_RCVTIMEO, 0), 0);
	CHECK_EQ(urds_set_nonblock(t.b, 1), 0);
	CHECK_ERR(urds_recv(t.b, got, 10, 0), EAGAIN);
	CHECK_EQ(urds_set_nonblock(t.b, 0), 0);
	two_close();
}
PAIR(recv_flags)

static void timestamps(void)
{
	char control[64];
	struct iovec v = {got, 100};
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 64};
	struct cmsghdr *c;
	struct timeval tv, now;

	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_TIMESTAMP, 1), 0);
	CHECK_EQ(urds_send(t.a, "x", 1, 0), 1);
	CHECK_EQ(urds_recvmsg(t.b, &m, 0), 1);
	c = CMSG_FIRSTHDR(&m);
	CHECK(c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMP);
	memcpy(&tv, CMSG_DATA(c), sizeof tv);
	gettimeofday(&now, NULL);
	CHECK(now.tv_sec - tv.tv_sec <= (long)(10 * slow()));
	two_close();
}
PAIR(timestamps)

/* To a port nobody has bound: dropped, no error, and the buffer empties. */
static void nobody_bound(void)
{
	struct urds_sock *late;

	two_open();
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(send4(t.a, big, 1000, 0, t.ip_b, 4999), 1000);
	CHECK_EQ(get_int(t.a, SOL_SOCKET, SO_ERROR), 0);
	CHECK_ERR(urds_recv(t.a, got, 10, MSG_DONTWAIT), EAGAIN);
	/* What comes later arrives, and nothing of before. */
	CHECK_EQ(urds_send(t.a, "in order", 8, 0), 8);
	CHECK_EQ(urds_recv(t.b, got, 100, 0), 8);
	late = sock_at(t.cb, t.ip_b, 4999);
	CHECK(late);
	CHECK_EQ(send4(t.a, "new", 3, 0, t.ip_b, 4999), 3);
	CHECK_EQ(urds_recv(late, got, 100, 0), 3);
	two_close();
}
PAIR(nobody_bound)

static void close_discards(void)
{
	struct urds_sock *s;

	two_open();
	for (int i = 0; i < 5; i++)
		CHECK_EQ(urds_send(t.a, "old", 3, 0), 3);
	CHECK_EQ(urds_wait(t.b, POLLIN, 10000), POLLIN);
	CHECK_EQ(send4(t.a, NULL, 0, 0, t.ip_b, 0),
		 0); /* all five are there when this is answered */
	CHECK_EQ(urds_recv(t.a, got, 10, 0), 0);
	CHECK_EQ(urds_close(t.b), 0);
	CHECK_EQ(urds_send(t.a, "nobody", 6, 0), 6);
	CHECK_EQ(send4(t.a, NULL, 0, 0, t.ip_b, 0), 0);
	CHECK_EQ(urds_recv(t.a, got, 10, 0), 0);
	s = sock_at(t.cb, t.ip_b, 4001);
	CHECK(s);
	CHECK_ERR(urds_recv(s, got, 100, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(urds_send(t.a, "new one", 7, 0), 7);
	CHECK_EQ(urds_recv(s, got, 100, 0), 7);
	two_close();
}
PAIR(close_discards)

/* Bytes of a closed socket never confuse its successor on the same port. */
static void close_sender(void)
{
	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20), 0);
	for (int round = 0; round < 50; round++) {
		struct urds_sock *s = sock_at(t.ca, t.ip_a, 4010);
		uint64_t n = (uint64_t)round;
		ssize_t rc;

		CHECK(s);
		CHECK_EQ(connect4(s, t.ip_b, 4001), 0);
		memcpy(big, &n, sizeof n);
		for (int i = 0; i < 20; i++)
			CHECK_EQ(urds_send(s, big, i % 2 ? 8 : 1000, MSG_DONTWAIT),
				 i % 2 ? 8 : 1000);
		CHECK_EQ(urds_close(s), 0);
		CHECK_EQ(urds_send(t.a, "mark", 4, 0), 4);
		while ((rc = urds_recv(t.b, got, sizeof got, 0)) != 4) {
			memcpy(&n, got, sizeof n);
			CHECK_EQ(n, round);
		}
	}
	two_close();
}
PAIR(close_sender)

static void batches(void)
{
	static uint8_t bufs[64][100];
	struct urds_mmsg v[64];
	struct iovec iov[64];
	unsigned sent = 0, received = 0;

	two_open();
	CHECK_EQ(urds_send_batch(t.a, v, 0, 0), 0);
	memset(v, 0, sizeof v);
	while (sent < 6400) {
		unsigned n = sent % 64 + 1;
		int rc;

		for (unsigned i = 0; i < n; i++) {
			fill_msg(bufs[i], 100, sent + i);
			iov[i] = (struct iovec){bufs[i], 100};
			v[i].hdr.msg_iov = &iov[i];
			v[i].hdr.msg_iovlen = 1;
		}
		rc = urds_send_batch(t.a, v, n, 0);
		CHECK(rc > 0);
		for (int i = 0; i < rc; i++)
			CHECK_EQ(v[i].len, 100);
		sent += (unsigned)rc;
		while (received < sent) {
			for (unsigned i = 0; i < 64; i++) {
				iov[i] = (struct iovec){bufs[i], 100};
				v[i].hdr.msg_iov = &iov[i];
				v[i].hdr.msg_iovlen = 1;
			}
			rc = urds_recv_batch(t.b, v, 64, 0);
			CHECK(rc > 0);
			for (int i = 0; i < rc; i++, received++) {
				CHECK_EQ(v[i].len, 100);
				CHECK(check_msg(bufs[i], 100, received));
			}
		}
	}
	CHECK_ERR(urds_recv_batch(t.b, v, 64, MSG_DONTWAIT), EAGAIN);
	two_close();
}
PAIR(batches)

/* ---------------------------------------------------------------- nodes that come late */

/* Messages for an address that nobody has yet wait for it, wherever it turns up. */
static void late_address(void)
{
	struct urds_ctx *a = ctx_open(URDS_CONFIG_NO_RECORD), *b = a;
	struct urds_sock *sa, *sb;

	names();
	sa = sock_at(a, t.ip_a, 4000);
	CHECK(sa);
	CHECK_EQ(send4(sa, "early", 5, 0, t.ip_b, 4001), 5);
	nap_ms(30);
	if (variant != LOOP)
		b = ctx_open(URDS_CONFIG_NO_RECORD | (variant == PLAIN ? URDS_CONFIG_NO_EXT : 0));
	sb = sock_at(b, t.ip_b, 4001);
	CHECK(sb);
	CHECK_EQ(set_timeo(sb, SO_RCVTIMEO, 10000), 0);
	CHECK_EQ(urds_recv(sb, got, 100, 0), 5);
	CHECK_EQ(send4(sb, "back", 4, 0, t.ip_a, 4000), 4);
	CHECK_EQ(urds_recv(sa, got, 100, 0), 4);
	CHECK_EQ(urds_shutdown(a), 0);
	if (b != a)
		CHECK_EQ(urds_shutdown(b), 0);
}
PAIR(late_address)

/* An address moves from another context into ours: in memory from then on. */
static void moved_address(void)
{
	struct urds_sock *b2;

	variant = TCP;
	two_open();
	CHECK_EQ(urds_send(t.a, "tcp", 3, 0), 3);
	CHECK_EQ(urds_recv(t.b, got, 10, 0), 3);
	CHECK_EQ(urds_shutdown(t.cb), 0);
	b2 = sock_at(t.ca, t.ip_b, 4001);
	CHECK(b2);
	CHECK_EQ(set_timeo(b2, SO_RCVTIMEO, 10000), 0);
	CHECK_EQ(urds_send(t.a, "memory", 6, 0), 6);
	CHECK_EQ(urds_recv(b2, got, 10, 0), 6);
	CHECK_EQ(send4(b2, "back", 4, 0, t.ip_a, 4000), 4);
	CHECK_EQ(urds_recv(t.a, got, 10, 0), 4);
	CHECK_EQ(urds_shutdown(t.ca), 0);
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	RUN_PAIR(exchange);
	RUN_PAIR(empty_messages);
	RUN_PAIR(ping);
	RUN_PAIR(recv_flags);
	RUN_PAIR(timestamps);
	RUN_PAIR(nobody_bound);
	RUN_PAIR(close_discards);
	RUN_PAIR(close_sender);
	RUN_PAIR(batches);
	RUN_PAIR(late_address);
	T_RUN(moved_address);
	return t_done();
}
