/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The socket calls, row by row as the kernel answers them. Cases with two ends run three times: both in one
 * context (in memory), in two contexts of this process (TCP, urds extension), and the same without the
 * extension (as with a kernel).
 */
#include "pair.h"

struct two {
	struct urds_ctx *ca, *cb;
	struct urds_sock *a, *b;
	char ip_a[24], ip_b[24];
};

static struct two t;

static void names(void)
{
	serial++;
	snprintf(t.ip_a, sizeof t.ip_a, "127.10.%u.1", serial);
	snprintf(t.ip_b, sizeof t.ip_b, "127.10.%u.2", serial);
}

/* Port 4000 at the first, 4001 at the second, as in the table of the kernel's answers. */
static void two_open(void)
{
	memset(&t, 0, sizeof t);
	names();
	t.ca = ctx_open(pair_flags());
	t.cb = variant == LOOP ? t.ca : ctx_open(pair_flags());
	CHECK(t.ca && t.cb);
	t.a = sock_at(t.ca, t.ip_a, 4000);
	t.b = sock_at(t.cb, t.ip_b, 4001);
	CHECK(t.a && t.b);
	/* The side that answers dials or is dialled: odd cases swap them. */
	CHECK_EQ(connect4(t.a, t.ip_b, 4001), 0);
}

static void two_close(void)
{
	CHECK_EQ(urds_shutdown(t.ca), 0);
	if (t.cb != t.ca)
		CHECK_EQ(urds_shutdown(t.cb), 0);
}

static uint8_t big[(1 << 20) + 16], got[(1 << 20) + 16];

/* ---------------------------------------------------------------- bind, connect, names */

static int bind_raw(struct urds_sock *s, const void *a, socklen_t len)
{
	return urds_bind(s, a, len);
}

static void bind__errors(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e), *s2 = urds_socket(e);
	struct sockaddr_in a;
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
	socklen_t len = sizeof a;

	names();
	CHECK(s && s2);
	CHECK_ERR(bind4(s, "0.0.0.0", 4000), EINVAL);
	CHECK_ERR(bind4(s, "0.0.0.0", 0), EINVAL);
	CHECK_ERR(bind4(s, "255.255.255.255", 4000), EINVAL);
	CHECK_ERR(bind4(s, "224.0.0.1", 4000), EINVAL);
	CHECK_ERR(bind_raw(s, &a6, sizeof a6), EINVAL); /* [::]:0 */
	CHECK_ERR(bind4(s, "198.51.100.99", 4000), EADDRNOTAVAIL);
	/* What to do next, in commands that there are here. */
#ifdef _WIN32
	CHECK(strstr(urds_reason(), "see 'ipconfig'"));
#else
	CHECK(strstr(urds_reason(), "see 'ip address'"));
#endif
	CHECK_ERR(bind4(s, t.ip_a, 1), EINVAL);
	a = in4(t.ip_a, 4000);
	CHECK_ERR(bind_raw(s, &a, 8), EINVAL);
	CHECK_ERR(bind_raw(s, &a, 1), EINVAL);
	CHECK_ERR(bind_raw(s, NULL, 0), EINVAL);
	a.sin_family = AF_UNSPEC;
	CHECK_ERR(bind_raw(s, &a, sizeof a), EINVAL);
	a.sin_family = AF_UNIX;
	CHECK_ERR(bind_raw(s, &a, sizeof a), EINVAL);
	inet_pton(AF_INET6, "fe80::1", &a6.sin6_addr);
	CHECK_ERR(bind_raw(s, &a6, sizeof a6), EINVAL); /* link-local, scope 0 */
	CHECK_ERR(bind_raw(s, &a6, 27), EINVAL);
	/* None of these left anything behind. */
	CHECK_EQ(urds_getsockname(s, (struct sockaddr *)&a, &len), 0);
	CHECK_EQ(len, 16);
	CHECK_EQ(a.sin_family, 0);
	CHECK_EQ(bind4(s, t.ip_a, 4000), 0);
	CHECK_ERR(bind4(s, t.ip_a, 4002), EINVAL); /* twice */
	CHECK_ERR(bind4(s2, t.ip_a, 4000), EADDRINUSE);
	CHECK_EQ(set_int(s2, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	CHECK_ERR(bind4(s2, t.ip_a, 4000), EADDRINUSE);
	CHECK_EQ(bind4(s2, t.ip_b, 4000), 0); /* another address */
	CHECK_EQ(urds_close(s), 0);
	s = urds_socket(e);
	CHECK_EQ(bind4(s, t.ip_a, 4000), 0); /* again, after close */
	CHECK_EQ(urds_shutdown(e), 0);
}

static void bind__ports(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e), *many[200];
	struct sockaddr_in a = {0};
	struct sockaddr_in6 m6 = {.sin6_family = AF_INET6, .sin6_port = htons(4100)};
	socklen_t len = sizeof a;

	names();
	CHECK_EQ(bind4(s, t.ip_a, 65535), 0);
	CHECK_EQ(urds_close(s), 0);
	for (int i = 0; i < 200; i++) {
		many[i] = sock_at(e, t.ip_a, 0);
		CHECK(many[i]);
		len = sizeof a;
		CHECK_EQ(urds_getsockname(many[i], (struct sockaddr *)&a, &len), 0);
		CHECK(a.sin_family == AF_INET && ntohs(a.sin_port) > 1);
	}
	/* A mapped address is shown as the IPv4 one it is. */
	snprintf((char *)got, 64, "::ffff:%s", t.ip_b);
	CHECK_EQ(inet_pton(AF_INET6, (char *)got, &m6.sin6_addr), 1);
	s = urds_socket(e);
	CHECK_EQ(bind_raw(s, &m6, sizeof m6), 0);
	len = sizeof a;
	CHECK_EQ(urds_getsockname(s, (struct sockaddr *)&a, &len), 0);
	CHECK_EQ(len, 16);
	CHECK_EQ(a.sin_family, AF_INET);
	CHECK_EQ(ntohs(a.sin_port), 4100);
	CHECK_EQ(urds_shutdown(e), 0);
}

static void connect__errors(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e);
	struct sockaddr_in a = {0}, b;
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(5)};
	socklen_t len = sizeof a;

	names();
	CHECK_ERR(urds_getpeername(s, (struct sockaddr *)&a, &len), ENOTCONN);
	CHECK_ERR(connect4(s, "0.0.0.0", 5), EDESTADDRREQ);
	CHECK_ERR(connect4(s, "255.255.255.255", 5), EINVAL);
	CHECK_ERR(connect4(s, "224.0.0.1", 5), EINVAL);
	CHECK_ERR(urds_connect(s, (struct sockaddr *)&a, 1), EINVAL);
	CHECK_ERR(urds_connect(s, (struct sockaddr *)&a, sizeof a), EAFNOSUPPORT); /* AF_UNSPEC */
	b = in4(t.ip_b, 5);
	CHECK_ERR(urds_connect(s, (struct sockaddr *)&b, 8), EINVAL);
	CHECK_ERR(urds_connect(s, (struct sockaddr *)&a6, sizeof a6), EPROTOTYPE); /* [::] */
	inet_pton(AF_INET6, "ff02::1", &a6.sin6_addr);
	CHECK_ERR(urds_connect(s, (struct sockaddr *)&a6, sizeof a6), EPROTOTYPE);
	inet_pton(AF_INET6, "fe80::1", &a6.sin6_addr);
	CHECK_ERR(urds_connect(s, (struct sockaddr *)&a6, sizeof a6), EINVAL);

	/* While unbound: the name of the socket is zero, of the peer's family; sending needs bind. */
	CHECK_EQ(connect4(s, t.ip_b, 4001), 0);
	len = sizeof a;
	CHECK_EQ(urds_getpeername(s, (struct sockaddr *)&a, &len), 0);
	CHECK(len == 16 && a.sin_family == AF_INET && ntohs(a.sin_port) == 4001);
	CHECK_EQ(urds_getsockname(s, (struct sockaddr *)&a, &len), 0);
	CHECK(len == 16 && a.sin_family == AF_INET && a.sin_port == 0 && a.sin_addr.s_addr == 0);
	CHECK_ERR(urds_send(s, "x", 1, 0), ENOTCONN);
	CHECK_EQ(connect4(s, t.ip_b, 0), 0);
	CHECK_EQ(connect4(s, t.ip_a, 2), 0); /* replaces */
	CHECK_EQ(urds_getpeername(s, (struct sockaddr *)&a, &len), 0);
	CHECK_EQ(ntohs(a.sin_port), 2);
	CHECK_EQ(bind4(s, t.ip_a, 4000), 0);
	inet_pton(AF_INET6, "2001:db8::1", &a6.sin6_addr);
	CHECK_EQ(urds_connect(s, (struct sockaddr *)&a6, sizeof a6),
		 0); /* of the other family: fine */
	CHECK_ERR(urds_send(s, "x", 1, 0), EOPNOTSUPP);
	CHECK_EQ(urds_shutdown(e), 0);
}

/* ---------------------------------------------------------------- send: checks */

static void send__errors(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e);
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(5)};
	struct sockaddr_in a;
	static const int bad[] = {MSG_OOB, MSG_CONFIRM, MSG_EOR};
	char control[CMSG_SPACE(8)] = {0};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	struct iovec v = {got, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};

	names();
	CHECK_ERR(send4(s, "x", 1, 0, t.ip_b, 5), ENOTCONN); /* unbound */
	CHECK_EQ(bind4(s, t.ip_a, 4000), 0);
	CHECK_ERR(urds_send(s, "x", 1, 0), ENOTCONN); /* no destination */
	CHECK_ERR(send4(s, "x", 1, 0, "0.0.0.0", 5), EINVAL);
	CHECK_ERR(send4(s, "x", 1, 0, "255.255.255.255", 5), EINVAL);
	CHECK_ERR(send4(s, "x", 1, 0, "224.0.0.1", 5), EINVAL);
	a = in4(t.ip_a, 5);
	CHECK_ERR(urds_sendto(s, "x", 1, 0, (struct sockaddr *)&a, 8), EINVAL);
	a.sin_family = AF_UNSPEC;
	CHECK_ERR(urds_sendto(s, "x", 1, 0, (struct sockaddr *)&a, sizeof a), EINVAL);
	inet_pton(AF_INET6, "2001:db8::1", &a6.sin6_addr);
	CHECK_ERR(urds_sendto(s, "x", 1, 0, (struct sockaddr *)&a6, sizeof a6), EOPNOTSUPP);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		CHECK_ERR(send4(s, "x", 1, bad[i], t.ip_a, 4000), EOPNOTSUPP);
	CHECK_ERR(send4(s, "x", 1, MSG_NOSIGNAL, t.ip_a, 4000), EOPNOTSUPP);
	CHECK_EQ(send4(s, "x", 1, MSG_DONTWAIT, t.ip_a, 4000), 1);
	/* Control: of our level unknown, of another ignored. */
	a = in4(t.ip_a, 4000);
	m.msg_name = &a;
	m.msg_namelen = sizeof a;
	m.msg_control = control;
	m.msg_controllen = sizeof control;
	c->cmsg_len = CMSG_LEN(8);
	c->cmsg_level = URDS_SOL_RDS;
	c->cmsg_type = 99;
	CHECK_ERR(urds_sendmsg(s, &m, 0), EINVAL);
	c->cmsg_type = 3; /* RDMA_MAP, but for half of its data */
	CHECK_ERR(urds_sendmsg(s, &m, 0), EINVAL);
	c->cmsg_level = SOL_SOCKET;
	CHECK_EQ(urds_sendmsg(s, &m, 0), 1);
	c->cmsg_len = 3; /* malformed */
	CHECK_ERR(urds_sendmsg(s, &m, 0), EINVAL);
	CHECK_EQ(urds_errno(), URDS_EINVAL);
	CHECK(strlen(urds_reason()) > 10);
	CHECK_EQ(urds_shutdown(e), 0);
}

/* ---------------------------------------------------------------- options */

static void options__buffers(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e);

	CHECK_EQ(get_int(s, SOL_SOCKET, SO_SNDBUF), 212992);
	CHECK_EQ(get_int(s, SOL_SOCKET, SO_RCVBUF), 212992);
	for (int i = 0; i < 2; i++) {
		int opt = i ? SO_RCVBUF : SO_SNDBUF, force = i ? SO_RCVBUFFORCE : SO_SNDBUFFORCE;
		long max = 4 << 20;
		FILE *f = fopen(i ? "/proc/sys/net/core/rmem_max" : "/proc/sys/net/core/wmem_max",
				"r");

		if (f) {
			long v;

			if (fscanf(f, "%ld", &v) == 1 && v < max)
				max = v;
			fclose(f);
		}
		CHECK_EQ(set_int(s, SOL_SOCKET, opt, 10000), 0);
		CHECK_EQ(get_int(s, SOL_SOCKET, opt), 20000);
		CHECK_EQ(set_int(s, SOL_SOCKET, opt, 1), 0);
		CHECK_EQ(get_int(s, SOL_SOCKET, opt), i ? 2304 : 4608);
		CHECK_EQ(set_int(s, SOL_SOCKET, opt, 100000000), 0);
		CHECK_EQ(get_int(s, SOL_SOCKET, opt), 2 * max);
		CHECK_EQ(set_int(s, SOL_SOCKET, force, 32 << 20), 0);
		CHECK_EQ(get_int(s, SOL_SOCKET, opt), 8 << 20); /* clamped to 4 MiB */
		CHECK_EQ(set_int(s, SOL_SOCKET, force, 3 << 20), 0);
		CHECK_EQ(get_int(s, SOL_SOCKET, opt), 6 << 20);
	}
	CHECK_EQ(urds_shutdown(e), 0);
}

static void options__others(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e), *s2 = urds_socket(e);
	struct timeval tv = {0};
	socklen_t len = sizeof tv;
	struct sockaddr_in a;
	short two_bytes = 1;

	names();
	a = in4(t.ip_b, 5);
	CHECK_EQ(get_int(s, SOL_SOCKET, SO_TYPE), 5);
	CHECK_EQ(get_int(s, SOL_SOCKET, SO_DOMAIN), 21);
	CHECK_EQ(get_int(s, SOL_SOCKET, SO_PROTOCOL), 0);
	CHECK_EQ(get_int(s, SOL_SOCKET, SO_ERROR), 0);
	CHECK_EQ(set_timeo(s, SO_RCVTIMEO, 500), 0);
	CHECK_EQ(urds_getsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, &len), 0);
	CHECK(tv.tv_sec == 0 && tv.tv_usec == 500000);
	CHECK_EQ(set_timeo(s, SO_SNDTIMEO, 2000), 0);
	CHECK_EQ(urds_getsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, &len), 0);
	CHECK(tv.tv_sec == 2 && tv.tv_usec == 0);
	tv.tv_usec = 1000000;
	CHECK_ERR(urds_setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv), EINVAL);
	/* The largest there is, and no small one that it would wrap to. */
	tv.tv_sec = sizeof tv.tv_sec > 4 ? (__typeof__(tv.tv_sec))INT64_MAX : INT32_MAX;
	tv.tv_usec = 0;
	CHECK_EQ(urds_setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv), 0);
	CHECK_EQ(urds_getsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, &len), 0);
	CHECK(tv.tv_sec == 0 && tv.tv_usec == 0);

	CHECK_EQ(get_int(s, URDS_SOL_RDS, URDS_OPT_RECVERR), 0);
	CHECK_EQ(set_int(s, URDS_SOL_RDS, URDS_OPT_RECVERR, 1), 0);
	CHECK_EQ(get_int(s, URDS_SOL_RDS, URDS_OPT_RECVERR), 1);
	CHECK_ERR(get_int(s, URDS_SOL_RDS, URDS_OPT_CONG_MONITOR), ENOPROTOOPT);
	CHECK_EQ(set_int(s, URDS_SOL_RDS, URDS_OPT_CONG_MONITOR, 1), 0);
	CHECK_ERR(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_RECVERR, &two_bytes, 2), EINVAL);
	CHECK_ERR(set_int(s, URDS_SOL_RDS, 99, 1), ENOPROTOOPT);
	CHECK_ERR(get_int(s, URDS_SOL_RDS, 99), ENOPROTOOPT);
	CHECK_ERR(set_int(s, URDS_SOL_RDS, 2, 1), EINVAL); /* RDS_GET_MR of another size */
	CHECK_ERR(set_int(s, IPPROTO_IP, 1, 1), ENOPROTOOPT);

	/* SO_RDS_TRANSPORT */
	CHECK_EQ(get_int(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT), -1);
	CHECK_ERR(set_int(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT, 3), EINVAL);
	CHECK_ERR(set_int(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT, 4), EINVAL);
	CHECK_ERR(set_int(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT, -1), EINVAL);
	CHECK_EQ(set_int(s2, URDS_SOL_RDS, URDS_OPT_TRANSPORT, 2), 0);
	CHECK_EQ(get_int(s2, URDS_SOL_RDS, URDS_OPT_TRANSPORT), 2);
	CHECK_ERR(set_int(s2, URDS_SOL_RDS, URDS_OPT_TRANSPORT, 2), EOPNOTSUPP);
	CHECK_ERR(bind4(s2, "198.51.100.99", 4000), ENOPROTOOPT);
	CHECK_ERR(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &a, sizeof a),
		  ENOTCONN);
	CHECK_EQ(bind4(s, t.ip_a, 4000), 0);
	CHECK_EQ(get_int(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT), 3); /* 127/8 */
	CHECK_ERR(set_int(s, URDS_SOL_RDS, URDS_OPT_TRANSPORT, 2), EOPNOTSUPP);
	CHECK_EQ(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &a, sizeof a), 0);
	CHECK_ERR(urds_setsockopt(s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &a, 4), EINVAL);
	CHECK_EQ(urds_shutdown(e), 0);
}

/* ---------------------------------------------------------------- two ends */

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

/* ---------------------------------------------------------------- the send buffer */

static int fill_up(struct urds_sock *s, size_t size)
{
	int n = 0;

	while (urds_send(s, big, size, MSG_DONTWAIT) == (ssize_t)size)
		if (++n > 100000)
			break;
	return n;
}

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

static void close_releases(void)
{
	pthread_t id[4];
	struct urds_sock *s;
	void *rc;

	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUF, 4096), 0);
	CHECK_EQ(congest(t.a, 1000), 5);
	CHECK_EQ(pthread_create(&id[0], NULL, send_expect_ebadf, t.a), 0); /* congested */
	CHECK_EQ(pthread_create(&id[1], NULL, recv_expect_ebadf, t.a), 0);
	CHECK_EQ(pthread_create(&id[2], NULL, wait_expect_ebadf, t.a), 0);
	s = sock_at(t.ca, t.ip_a, 4003);
	CHECK(s);
	CHECK_EQ(connect4(s, "127.10.250.250", 5), 0);
	CHECK_EQ(fill_up(s, 1000), 107);
	CHECK_EQ(pthread_create(&id[3], NULL, send_expect_ebadf, s), 0); /* full */
	nap_ms(50);
	CHECK_EQ(urds_close(t.a), 0);
	CHECK_EQ(urds_close(s), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(pthread_join(id[i], &rc), 0);
		CHECK_EQ((intptr_t)rc, EBADF);
	}
	two_close();
}
PAIR(close_releases)

static void shutdown_releases(void)
{
	pthread_t id[4];
	struct urds_sock *s;
	void *rc;

	two_open();
	CHECK_EQ(set_int(t.b, SOL_SOCKET, SO_RCVBUF, 4096), 0);
	CHECK_EQ(congest(t.a, 1000), 5);
	CHECK_EQ(pthread_create(&id[0], NULL, send_expect_ebadf, t.a), 0);
	CHECK_EQ(pthread_create(&id[1], NULL, recv_expect_ebadf, t.a), 0);
	CHECK_EQ(pthread_create(&id[2], NULL, wait_expect_ebadf, t.a), 0);
	s = sock_at(t.ca, t.ip_a, 4003);
	CHECK_EQ(connect4(s, "127.10.250.250", 5), 0);
	CHECK_EQ(fill_up(s, 1000), 107);
	CHECK_EQ(pthread_create(&id[3], NULL, send_expect_ebadf, s), 0);
	nap_ms(50);
	two_close();
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(pthread_join(id[i], &rc), 0);
		CHECK_EQ((intptr_t)rc, EBADF);
	}
}
PAIR(shutdown_releases)

/* ---------------------------------------------------------------- close */

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

/* ---------------------------------------------------------------- the descriptor */

static int poll_fd(int fd, int events, int ms)
{
	struct pollfd p = {.fd = fd, .events = (short)events};

	return poll(&p, 1, ms) == 1 ? p.revents : 0;
}

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

/* ---------------------------------------------------------------- calls on nothing */

static void unbound__receives_nothing(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = urds_socket(e);

	CHECK_ERR(urds_recv(s, got, 10, MSG_DONTWAIT), EAGAIN);
	CHECK_EQ(set_timeo(s, SO_RCVTIMEO, 100), 0);
	CHECK_ERR(urds_recv(s, got, 10, 0), ETIMEDOUT);
	CHECK_EQ(urds_wait(s, POLLIN | POLLOUT, 0), POLLOUT);
	CHECK_EQ(poll_fd(urds_fd(s), POLLIN | POLLOUT, 0), POLLOUT);
	CHECK_EQ(urds_close(s), 0);
	CHECK_ERR(urds_close(NULL), EBADF);
	CHECK_EQ(urds_shutdown(e), 0);
}

/* An address is one host's: neither a group's nor, where the system tells them apart, all of a network's. */
static void address__is_one_hosts(void)
{
	static const char *const groups[] = {"224.0.0.1", "255.255.255.255"};
	struct urds_ctx *c = ctx_open(0);
	struct urds_sock *s = urds_socket(c);
	struct sockaddr_in at;

	CHECK(c && s);
	for (unsigned i = 0; i < 2; i++) {
		at = in4(groups[i], 0);
		CHECK_ERR(bind4(s, groups[i], 4000), EINVAL);
		CHECK_ERR(urds_claim(c, (struct sockaddr *)&at, sizeof at), EINVAL);
	}
#ifndef _WIN32
	at = in4("127.255.255.255", 0);
	CHECK_ERR(bind4(s, "127.255.255.255", 4000), EADDRNOTAVAIL);
	CHECK_ERR(urds_claim(c, (struct sockaddr *)&at, sizeof at), EADDRNOTAVAIL);
#endif
	CHECK_EQ(urds_close(s), 0);
	CHECK_EQ(urds_shutdown(c), 0);
}

static void claim__pings(void)
{
	struct urds_ctx *a = ctx_open(URDS_CONFIG_NO_RECORD), *b = ctx_open(URDS_CONFIG_NO_RECORD);
	struct sockaddr_in at;
	struct urds_sock *s;

	names();
	at = in4(t.ip_b, 0);
	CHECK_EQ(urds_claim(b, (struct sockaddr *)&at, sizeof at), 0);
	CHECK_EQ(urds_claim(b, (struct sockaddr *)&at, sizeof at), 0);
	at = in4("198.51.100.99", 0);
	CHECK_ERR(urds_claim(b, (struct sockaddr *)&at, sizeof at), EADDRNOTAVAIL);
	at = in4("0.0.0.0", 0);
	CHECK_ERR(urds_claim(b, (struct sockaddr *)&at, sizeof at), EINVAL);
	s = sock_at(a, t.ip_a, 4000);
	CHECK_EQ(send4(s, NULL, 0, 0, t.ip_b, 0), 0);
	CHECK_EQ(urds_recv(s, got, 10, 0), 0);
	CHECK_EQ(urds_shutdown(a), 0);
	CHECK_EQ(urds_shutdown(b), 0);
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(bind__errors);
	T_RUN(bind__ports);
	T_RUN(connect__errors);
	T_RUN(send__errors);
	T_RUN(options__buffers);
	T_RUN(options__others);
	RUN_PAIR(exchange);
	RUN_PAIR(empty_messages);
	RUN_PAIR(ping);
	RUN_PAIR(recv_flags);
	RUN_PAIR(timestamps);
	T_RUN(sndbuf__accounting);
	RUN_PAIR(nobody_bound);
	RUN_PAIR(acks_make_room);
	RUN_PAIR(congestion);
	RUN_PAIR(congestion_blocks);
	RUN_PAIR(close_releases);
	RUN_PAIR(shutdown_releases);
	RUN_PAIR(close_discards);
	RUN_PAIR(close_sender);
	RUN_PAIR(descriptor);
	RUN_PAIR(descriptor_writable_by_acks);
	RUN_PAIR(wait_call);
	RUN_PAIR(batches);
	RUN_PAIR(late_address);
	T_RUN(unbound__receives_nothing);
	T_RUN(moved_address);
	T_RUN(address__is_one_hosts);
	T_RUN(claim__pings);
	return t_done();
}
