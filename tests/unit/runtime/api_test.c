/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The socket calls, row by row as the kernel answers them: arguments, names, options.
 */
#include "ends.h"

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
	T_RUN(unbound__receives_nothing);
	T_RUN(address__is_one_hosts);
	T_RUN(claim__pings);
	return t_done();
}
