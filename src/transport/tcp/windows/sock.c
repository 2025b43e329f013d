/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sockets and their options; Winsock and its extensions.
 */
#include "transport/tcp/tcp_internal.h"

#include <assert.h>
#include <mstcpip.h>

#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/windows/win.h"

/* Windows 10 of 1709; not in every header. Older ones give up after ten probes. */
#ifndef TCP_KEEPCNT
#define TCP_KEEPCNT 16
#endif

/* How long packets may take that come when a socket is closed. */
#define PACKETS_NS URDS_SEC(1)

void urds_tcp_set_int(SOCKET fd, int level, int name, int value)
{
	/* None of these is worth failing a connection for. */
	(void)setsockopt(fd, level, name, (const char *)&value, sizeof(value));
}

void urds_tcp_set_options(const struct tcp *t, SOCKET fd)
{
	struct tcp_keepalive keep = {.onoff = 1,
				     .keepalivetime = t->cfg.keepalive_idle_s * 1000,
				     .keepaliveinterval = t->cfg.keepalive_intvl_s * 1000};
	DWORD n;

	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	(void)WSAIoctl(fd, SIO_KEEPALIVE_VALS, &keep, sizeof(keep), NULL, 0, &n, NULL, NULL);
	urds_tcp_set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, (int)t->cfg.keepalive_cnt);
	/* Without a buffer of its own the system sends from ours. */
	if (t->cfg.sends_in_place)
		urds_tcp_set_int(fd, SOL_SOCKET, SO_SNDBUF, 0);
	else if (t->cfg.sndbuf_bytes)
		urds_tcp_set_int(fd, SOL_SOCKET, SO_SNDBUF, (int)t->cfg.sndbuf_bytes);
	if (t->cfg.rcvbuf_bytes)
		urds_tcp_set_int(fd, SOL_SOCKET, SO_RCVBUF, (int)t->cfg.rcvbuf_bytes);
}

int urds_tcp_sock_error(void)
{
	return -urds_err_from_system((unsigned long)WSAGetLastError());
}

/* No child inherits it. */
static int new_socket(int family, int type, int protocol, SOCKET *out)
{
	*out = INVALID_SOCKET;
	if (!urds_win_is_old()) {
		*out = WSASocketW(family, type, protocol, NULL, 0,
				  WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
		if (*out == INVALID_SOCKET && WSAGetLastError() != WSAEINVAL)
			return urds_tcp_sock_error();
	}
	/* Windows 7 before its first service pack does not know the flag. */
	if (*out == INVALID_SOCKET) {
		*out = WSASocketW(family, type, protocol, NULL, 0, WSA_FLAG_OVERLAPPED);
		if (*out == INVALID_SOCKET)
			return urds_tcp_sock_error();
		(void)SetHandleInformation((HANDLE)*out, HANDLE_FLAG_INHERIT, 0);
	}
	return 0;
}

int urds_tcp_socket(const struct tcp *t, const struct urds_addr *a, SOCKET *out)
{
	int family = urds_addr_is_v4(a) ? AF_INET : AF_INET6,
	    rc = new_socket(family, SOCK_STREAM, IPPROTO_TCP, out);

	if (rc < 0)
		return rc == -URDS_ECONG ? -URDS_ENOMEM : rc;
	if (family == AF_INET6)
		urds_tcp_set_int(*out, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	urds_tcp_set_options(t, *out);
	return 0;
}

int urds_tcp_probe_socket(const struct urds_addr *a, int type, SOCKET *out)
{
	return new_socket(urds_addr_is_v4(a) ? AF_INET : AF_INET6, type, 0, out);
}

int urds_tcp_sock_prepare(const struct tcp *t, SOCKET fd)
{
	u_long one = 1;

	if (ioctlsocket(fd, FIONBIO, &one) == SOCKET_ERROR)
		return urds_tcp_sock_error();
	return urds_poller_attach(t->poller, (intptr_t)fd);
}

void urds_tcp_sock_close(SOCKET fd)
{
	int code = WSAGetLastError();

	if (fd == INVALID_SOCKET)
		return;
	(void)closesocket(fd);
	WSASetLastError(code);
}

void urds_tcp_sock_no_linger(SOCKET fd)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, (const char *)&now, sizeof(now));
}

int urds_tcp_sock_connect(SOCKET fd, const struct sockaddr_storage *to, socklen_t to_len)
{
	return connect(fd, (const struct sockaddr *)to, to_len);
}

static int extension(SOCKET fd, GUID id, void *out, DWORD size)
{
	DWORD n;

	if (WSAIoctl(fd, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof(id), out, size, &n, NULL,
		     NULL) == SOCKET_ERROR)
		return urds_tcp_sock_error();
	return 0;
}

int urds_tcp_sys_init(struct tcp *t)
{
	struct tcp_winsock *w = &t->sys;
	WSADATA wsa;
	SOCKET fd;
	int rc = WSAStartup(MAKEWORD(2, 2), &wsa);

	if (rc != 0)
		return -urds_err_from_system((unsigned long)rc);
	/* Where Windows lets programs take source ports from, unless an administrator moved it; there is no call that
	 * tells. Others work as well: each is tried before it is used. */
	t->port_lo = 49152;
	t->port_hi = 65535;
	rc = new_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP, &fd);
	if (rc < 0)
		goto undo_wsa;
	rc = extension(fd, (GUID)WSAID_ACCEPTEX, &w->accept_ex, sizeof(w->accept_ex));
	if (rc == 0)
		rc = extension(fd, (GUID)WSAID_CONNECTEX, &w->connect_ex, sizeof(w->connect_ex));
	if (rc == 0)
		rc = extension(fd, (GUID)WSAID_GETACCEPTEXSOCKADDRS, &w->accept_addrs,
			       sizeof(w->accept_addrs));
	urds_tcp_sock_close(fd);
	if (rc == 0)
		return 0;

undo_wsa:
	(void)WSACleanup();
	return rc;
}

/* The packets of what was under way lie in memory of links and listeners. All sockets are closed: they come soon. Wine 8 loses
 * one now and then, that of a send which waited when its connection was reset; then that memory is left to it. */
bool urds_tcp_sys_fini(struct tcp *t)
{
	urds_ns until = urds_clock_ns() + PACKETS_NS;

	while (atomic_load(&t->sys.under_way) > 0 && urds_clock_ns() < until)
		(void)urds_poller_wait(t->poller, URDS_MS(20));
	(void)WSACleanup();
	return atomic_load(&t->sys.under_way) == 0;
}
