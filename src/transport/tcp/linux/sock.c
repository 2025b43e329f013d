/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sockets, entered in the list of descriptors of ours, and their options.
 */
#include "transport/tcp/tcp_internal.h"

#include <errno.h>
#include <netinet/tcp.h>

#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"

void urds_tcp_set_int(int fd, int level, int name, int value)
{
	/* None of these is worth failing a connection for. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* since Linux 6.15 */
#endif

/* No TCP_USER_TIMEOUT: it would also end a connection whose other end answers every window probe
 * while its process is stopped. Whether a peer is dead is decided with silence() by the runtime. */
void urds_tcp_set_options(const struct tcp *t, int fd)
{
	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	/* A host that was away, or has restarted, is asked again soon, not after as long as it was away. Less
	 * than this would let Linux give up (15 times) before we would. */
	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, 1500);
	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)t->cfg.keepalive_idle_s);
	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)t->cfg.keepalive_intvl_s);
	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)t->cfg.keepalive_cnt);
	urds_tcp_set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	/* Before connect and listen: the receive buffer decides the window scale of the SYN. */
	if (t->cfg.sndbuf_bytes)
		urds_tcp_set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)t->cfg.sndbuf_bytes);
	if (t->cfg.rcvbuf_bytes)
		urds_tcp_set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)t->cfg.rcvbuf_bytes);
}

static int made(int fd, int *out)
{
	*out = urds_fds_made(fd);
	if (fd >= 0)
		return 0;
	return errno == ENOBUFS ? -URDS_ENOMEM : urds_tcp_sock_error();
}

int urds_tcp_socket(const struct tcp *t, const struct urds_addr *a, int *out)
{
	int family = urds_addr_is_v4(a) ? AF_INET : AF_INET6, rc;

	urds_fds_enter();
	rc = made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP), out);
	if (rc < 0)
		return rc;
	if (family == AF_INET6)
		urds_tcp_set_int(*out, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	urds_tcp_set_options(t, *out);
	return 0;
}

int urds_tcp_probe_socket(const struct urds_addr *a, int type, int *out)
{
	urds_fds_enter();
	return made(socket(urds_addr_is_v4(a) ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0), out);
}

void urds_tcp_sock_close(int fd)
{
	urds_fds_close(fd);
}

void urds_tcp_sock_no_linger(int fd)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

int urds_tcp_sock_connect(int fd, const struct sockaddr_storage *to, socklen_t to_len)
{
	return urds_sys_connect(fd, (const struct sockaddr *)to, to_len);
}

int urds_tcp_sock_error(void)
{
	return -urds_err_from_errno(errno);
}
