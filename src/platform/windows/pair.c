/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Two TCP sockets on loopback. What is sent arrives a moment later, so whoever takes something waits for it.
 */
#include "platform/pair.h"

#include <string.h>

#include "platform/errno.h"
#include "platform/windows/win.h"
#include "wire/types.h"

/* For what is under way inside this machine. */
#define SOON_MS 1000
/* Of the end that is filled, and of the other. What leaves a full buffer later, for the little room over there, must not
 * make the first writable again. Windows calls it so while it holds less than its size, whatever the last send brought;
 * elsewhere a third has to be free. */
#define FILLED_BYTES 8192
#define OTHER_BYTES 2048
#define FILL_BYTES (2 * FILLED_BYTES)
/* Strangers may connect to a listener of ours before we do. */
#define STRANGERS_MAX 64

static SOCKET s_of(intptr_t fd)
{
	return (SOCKET)fd;
}

static int last_error(void)
{
	return -urds_err_from_system((unsigned long)WSAGetLastError());
}

/* No handle of a program's children. */
static SOCKET new_socket(void)
{
	SOCKET s = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, WSA_FLAG_OVERLAPPED);

	if (s != INVALID_SOCKET)
		(void)SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
	return s;
}

static bool set_int(SOCKET s, int level, int opt, int v)
{
	return setsockopt(s, level, opt, (const char *)&v, sizeof v) == 0;
}

static bool set_nonblocking(SOCKET s)
{
	u_long on = 1;

	return ioctlsocket(s, FIONBIO, &on) == 0;
}

static bool becomes(SOCKET s, short events, int ms)
{
	WSAPOLLFD p = {.fd = s, .events = events};

	return WSAPoll(&p, 1, ms) == 1 && (p.revents & events);
}

/* A listener that nobody else can listen beside. */
static int listen_somewhere(SOCKET *out, struct sockaddr_in *at)
{
	SOCKET s = new_socket();
	int len = sizeof *at, rc;

	if (s == INVALID_SOCKET)
		return last_error();
	*at = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (set_int(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1) &&
	    set_int(s, SOL_SOCKET, SO_RCVBUF, OTHER_BYTES) &&
	    bind(s, (struct sockaddr *)at, sizeof *at) == 0 &&
	    getsockname(s, (struct sockaddr *)at, &len) == 0 && listen(s, 8) == 0) {
		*out = s;
		return 0;
	}
	rc = last_error();
	closesocket(s);
	return rc;
}

/* The one that comes from @from. */
static int accept_from(SOCKET listener, const struct sockaddr_in *from, SOCKET *out)
{
	for (int i = 0; i < STRANGERS_MAX; i++) {
		struct sockaddr_in who;
		int len = sizeof who;
		SOCKET s = accept(listener, (struct sockaddr *)&who, &len);

		if (s == INVALID_SOCKET)
			return last_error();
		if (who.sin_port == from->sin_port &&
		    who.sin_addr.s_addr == from->sin_addr.s_addr) {
			*out = s;
			return 0;
		}
		closesocket(s);
	}
	return -URDS_ECONNREFUSED;
}

int urds_pair_new(intptr_t fds[2])
{
	struct sockaddr_in at, mine;
	SOCKET listener = INVALID_SOCKET, a, b = INVALID_SOCKET;
	int len = sizeof mine, rc = listen_somewhere(&listener, &at);

	if (rc < 0)
		return rc;
	a = new_socket();
	if (a == INVALID_SOCKET) {
		rc = last_error();
		goto undo_listener;
	}
	if (!set_int(a, SOL_SOCKET, SO_SNDBUF, FILLED_BYTES) ||
	    connect(a, (struct sockaddr *)&at, sizeof at) != 0 ||
	    getsockname(a, (struct sockaddr *)&mine, &len) != 0) {
		rc = last_error();
		goto undo_a;
	}
	rc = accept_from(listener, &mine, &b);
	if (rc < 0)
		goto undo_a;
	if (!set_nonblocking(a) || !set_nonblocking(b) ||
	    !set_int(a, IPPROTO_TCP, TCP_NODELAY, 1) || !set_int(b, IPPROTO_TCP, TCP_NODELAY, 1)) {
		rc = last_error();
		goto undo_b;
	}
	(void)SetHandleInformation((HANDLE)b, HANDLE_FLAG_INHERIT, 0);
	closesocket(listener);
	fds[0] = (intptr_t)a;
	fds[1] = (intptr_t)b;
	return 0;

undo_b:
	closesocket(b);
undo_a:
	closesocket(a);
undo_listener:
	closesocket(listener);
	return rc;
}

bool urds_pair_put(const intptr_t fds[2])
{
	char c = 0;

	return send(s_of(fds[1]), &c, 1, 0) == 1;
}

bool urds_pair_take(const intptr_t fds[2])
{
	char c;

	/* It was sent, so it comes. */
	return !becomes(s_of(fds[0]), POLLRDNORM, SOON_MS) || recv(s_of(fds[0]), &c, 1, 0) != 1;
}

void urds_pair_fill(const intptr_t fds[2])
{
	static const char fill[FILL_BYTES];

	/* To the failure: FD_WRITE is for who had one. */
	while (send(s_of(fds[0]), fill, sizeof fill, 0) > 0)
		;
}

void urds_pair_drain(const intptr_t fds[2])
{
	char fill[OTHER_BYTES];

	while (!becomes(s_of(fds[0]), POLLWRNORM, 0) && becomes(s_of(fds[1]), POLLRDNORM, SOON_MS))
		if (recv(s_of(fds[1]), fill, sizeof fill, 0) <= 0)
			return;
}

void urds_pair_again_in(const intptr_t fds[2])
{
	if (urds_pair_put(fds))
		(void)urds_pair_take(fds); /* one is left */
}

void urds_pair_again_out(const intptr_t fds[2])
{
	/* FD_WRITE comes again only after a send that failed, that is, after it was filled. */
}

void urds_pair_shut(const intptr_t fds[2])
{
	shutdown(s_of(fds[0]), SD_BOTH);
}

void urds_pair_close(const intptr_t fds[2])
{
	closesocket(s_of(fds[0]));
	closesocket(s_of(fds[1]));
}
