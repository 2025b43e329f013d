/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Raw TCP for the speed check: what urds is compared with, and what no library can be faster than.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

static int raw_listen(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof sin;
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(s, (struct sockaddr *)&sin, len) < 0 || listen(s, 1) < 0)
		die("listen");
	getsockname(s, (struct sockaddr *)&sin, &len);
	atomic_store(&sh->port, ntohs(sin.sin_port));
	return s;
}

static int raw_connect(void)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	while (!atomic_load(&sh->port))
		usleep(100);
	sin.sin_port = htons(atomic_load(&sh->port));
	if (connect(s, (struct sockaddr *)&sin, sizeof sin) < 0)
		die("connect");
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return s;
}

static void send_all(int s, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t r = send(s, p, n, 0);

		if (r < 0)
			die("send");
		p += r;
		n -= (size_t)r;
	}
}

static void recv_all(int s, int ep, enum raw_wait wait, char *p, size_t n)
{
	struct epoll_event ev;

	while (n > 0) {
		ssize_t r;

		if (wait == RAW_EPOLL)
			epoll_wait(ep, &ev, 1, -1);
		r = recv(s, p, n, wait == RAW_BLOCK ? 0 : MSG_DONTWAIT);
		if (r < 0 && errno == EAGAIN)
			continue;
		if (r <= 0)
			die("recv");
		p += r;
		n -= (size_t)r;
	}
}

void raw_tx(const struct job *j)
{
	size_t unit = j->chunk ? j->chunk : j->size + HDR, total = (j->size + HDR) * j->count;
	int s = raw_connect();
	char *buf = malloc(unit);

	memset(buf, 1, unit);
	barrier();
	for (size_t done = 0; done < total; done += unit)
		send_all(s, buf, unit < total - done ? unit : total - done);
	shutdown(s, SHUT_WR);
	recv(s, buf, 1, 0);
}

void raw_rx(const struct job *j)
{
	size_t total = (j->size + HDR) * j->count, cap = j->size > 32768 ? j->size + HDR : 65536;
	int l = raw_listen(), s = accept(l, NULL, NULL);
	char *buf = malloc(cap);
	double start;

	memset(buf, 0, cap);
	barrier();
	start = now();
	for (size_t got = 0; got < total;) {
		ssize_t r = recv(s, buf, cap, 0);

		if (r <= 0)
			die("recv");
		got += (size_t)r;
	}
	sh->seconds = now() - start;
}

void raw_rtt(const struct job *j, int role)
{
	size_t n = j->size + HDR;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
	char *buf = calloc(1, n);
	int s, ep = epoll_create1(0), one = 1;
	double start;

	if (role == 0) {
		int l = raw_listen();

		s = accept(l, NULL, NULL);
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	} else {
		s = raw_connect();
	}
	if (epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev) < 0)
		die("epoll_ctl");
	barrier();
	start = now();
	for (size_t i = 0; i < j->count; i++) {
		if (role == 1)
			send_all(s, buf, n);
		recv_all(s, ep, (enum raw_wait)j->flags, buf, n);
		if (role == 0)
			send_all(s, buf, n);
	}
	if (role == 1)
		sh->seconds = now() - start;
}
