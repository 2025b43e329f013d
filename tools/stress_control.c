/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The control connection of urds stress: rds-stress's block of options, a byte that starts the test and
 * its echo; the end of the connection ends the test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stress.h"

#define BLOCK 59u
#define VERSION_BYTES 16u
#define OPTIONS_WAIT_NS 5000000000ull /* for the options of one that connected */
#define TICK_MS 100

static void encode(uint8_t *p, const struct stress_opts *o)
{
	const uint8_t flags[] = {o->is_summary_only,
				 o->wants_rtprio,
				 o->is_traced,
				 o->is_verified,
				 o->shows_params,
				 o->shows_perfdata,
				 o->uses_cong_monitor,
				 o->use_once,
				 o->use_get_mr,
				 o->use_fence,
				 o->cache_mrs,
				 o->key_o_meter,
				 255,
				 o->is_one_way,
				 o->rw_mode};

	p = stress_put(p, o->depth, 4);
	p = stress_put(p, o->req_bytes, 4);
	p = stress_put(p, o->ack_bytes, 4);
	p = stress_put(p, o->rdma_bytes, 4);
	p = stress_put(p, o->send_addr, 4);
	p = stress_put(p, o->recv_addr, 4);
	p = stress_put(p, o->port, 2);
	p = stress_put(p, o->tasks, 2);
	p = stress_put(p, o->time_s, 4);
	memcpy(p, flags, sizeof(flags));
	p = stress_put(p + sizeof(flags), o->vector, 4);
	p = stress_put(p, o->alignment, 4);
	stress_put(p, o->retries, 4);
}

/* What does not travel stays as it is. */
static void decode(const uint8_t *p, struct stress_opts *o)
{
	o->depth = stress_get(&p, 4);
	o->req_bytes = stress_get(&p, 4);
	o->ack_bytes = stress_get(&p, 4);
	o->rdma_bytes = stress_get(&p, 4);
	o->send_addr = stress_get(&p, 4);
	o->recv_addr = stress_get(&p, 4);
	o->port = (uint16_t)stress_get(&p, 2);
	o->tasks = (uint16_t)stress_get(&p, 2);
	o->time_s = stress_get(&p, 4);
	o->is_summary_only = *p++;
	o->wants_rtprio = *p++;
	o->is_traced = *p++;
	o->is_verified = *p++;
	o->shows_params = *p++;
	o->shows_perfdata = *p++;
	o->uses_cong_monitor = *p++;
	o->use_once = *p++;
	o->use_get_mr = *p++;
	o->use_fence = *p++;
	o->cache_mrs = *p++;
	o->key_o_meter = *p++;
	p++;
	o->is_one_way = *p++;
	o->rw_mode = *p++;
	o->vector = stress_get(&p, 4);
	o->alignment = stress_get(&p, 4);
	o->retries = stress_get(&p, 4);
}

/* Return: 0, or NULL-terminated reason in @why and -1. Gives up at @until, or on a signal. */
static int read_all(int fd, uint8_t *p, size_t len, uint64_t until_ns, const char **why)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	ssize_t n;

	while (len) {
		if (stress_signal) {
			*why = "interrupted";
			return -1;
		}
		if (tool_now_ns() >= until_ns) {
			*why = "it sent nothing in time";
			return -1;
		}
		if (poll(&in, 1, TICK_MS) <= 0)
			continue;
		n = recv(fd, p, len, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			*why = n == 0 ? "Peer unexpectedly closed connection" : strerror(errno);
			return -1;
		}
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static struct sockaddr_in end(uint32_t addr, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(addr)};
}

static const char *quad(uint32_t addr, char *buf)
{
	struct in_addr in = {.s_addr = htonl(addr)};

	return inet_ntop(AF_INET, &in, buf, INET_ADDRSTRLEN);
}

static int tcp_bound(uint32_t addr, uint16_t port)
{
	struct sockaddr_in sa = end(addr, port);
	char text[INET_ADDRSTRLEN];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	tool_error(
		"cannot use %s, TCP port %u for control: %s; give a local address with -r and a free "
		"port with -p",
		quad(addr, text), port, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static uint32_t local(int fd)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t len = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &len) == 0 ? ntohl(sa.sin_addr.s_addr) : 0;
}

int stress_connect(struct stress_run *r)
{
	struct stress_opts *o = &r->o;
	struct sockaddr_in to = end(o->send_addr, o->port);
	char text[INET_ADDRSTRLEN];
	uint32_t left = o->retries;
	bool has_failed = false;
	int fd, err;

	quad(o->send_addr, text);
	printf("connecting to %s:%u", text, o->port);
	for (;;) {
		fflush(stdout);
		fd = tcp_bound(o->recv_addr, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
			break;
		err = errno;
		if (!has_failed)
			printf(": %s%s", strerror(err), left ? " - retrying" : "");
		has_failed = true;
		if (!left || stress_signal ||
		    (err != ECONNREFUSED && err != EHOSTUNREACH && err != ENETUNREACH)) {
			close(fd);
			fd = -1;
			printf("\n");
			tool_error(
				"connect(%s) failed: is 'urds stress' waiting there, at port %u?",
				text, o->port);
			return -1;
		}
		close(fd);
		left--;
		sleep(1);
		printf(".");
	}
	printf("\n");
	if (fd < 0)
		return -1;
	r->control = fd;
	if (!o->recv_addr)
		o->recv_addr = local(fd);
	r->self.s_addr = htonl(o->recv_addr);
	r->peer.s_addr = htonl(o->send_addr);
	return 0;
}

/* The options of one that connected. @why NULL on success. */
static const char *receive_options(int fd, struct stress_opts *o)
{
	uint8_t b[VERSION_BYTES + BLOCK + 2];
	uint64_t until = tool_now_ns() + OPTIONS_WAIT_NS;
	const char *why = NULL;
	size_t skip;

	if (read_all(fd, b, VERSION_BYTES, until, &why) < 0)
		return why;
	/* A depth that starts with a digit's code would need more memory than is allowed. */
	skip = b[0] >= 0x20 && b[0] < 0x7f ? VERSION_BYTES : 0;
	if (read_all(fd, b + VERSION_BYTES, skip ? BLOCK + 2 : BLOCK - VERSION_BYTES, until, &why) <
	    0)
		return why;
	decode(b + skip, o);
	o->tos = skip ? b[skip + BLOCK] : 0;
	o->is_async = skip ? b[skip + BLOCK + 1] : 0;
	if (!o->recv_addr)
		return "it names no address of its own";
	if (o->rdma_bytes)
		return "RDMA not supported by this kernel: have it leave -D out";
	if (o->is_async)
		return "sends with notification are not there: have it leave --async out";
	return stress_check(o);
}

int stress_accept(struct stress_run *r)
{
	struct stress_opts own = r->o;
	char text[INET_ADDRSTRLEN], from[INET_ADDRSTRLEN];
	struct pollfd in = {.events = POLLIN};
	struct sockaddr_in sa;
	socklen_t len;
	const char *why;

	in.fd = tcp_bound(own.recv_addr, own.port);
	if (in.fd < 0)
		return -1;
	if (listen(in.fd, 255) < 0) {
		tool_error("cannot listen on %s, TCP port %u: %s; choose another port with -p",
			   quad(own.recv_addr, text), own.port, strerror(errno));
		close(in.fd);
		return -1;
	}
	printf("waiting for incoming connection on %s:%u\n", quad(own.recv_addr, text), own.port);
	while (!stress_signal) {
		if (poll(&in, 1, TICK_MS) <= 0)
			continue;
		len = sizeof(sa);
		r->control = accept4(in.fd, (struct sockaddr *)&sa, &len, SOCK_CLOEXEC);
		if (r->control < 0)
			continue;
		r->self.s_addr = htonl(own.recv_addr ? own.recv_addr : local(r->control));
		quad(ntohl(sa.sin_addr.s_addr), from);
		r->o = own;
		why = receive_options(r->control, &r->o);
		if (!why) {
			printf("accepted connection from %s:%u", from, ntohs(sa.sin_port));
			if (!own.recv_addr)
				printf(" on %s:%u", quad(ntohl(r->self.s_addr), text), own.port);
			printf("\n");
			r->peer.s_addr = htonl(r->o.recv_addr);
			close(in.fd);
			return 0;
		}
		tool_error("ignored a connection from %s:%u: %s; still waiting", from,
			   ntohs(sa.sin_port), why);
		close(r->control);
		r->control = -1;
	}
	close(in.fd);
	return -1;
}

static int write_all(int fd, const uint8_t *p, size_t len)
{
	ssize_t n;

	while (len) {
		n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			tool_error(
				"cannot write to the control connection: %s; start the other side anew",
				strerror(errno));
			return -1;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int stress_send_options(struct stress_run *r)
{
	uint8_t b[VERSION_BYTES + BLOCK + 2];

	encode(b + VERSION_BYTES, &r->o);
	if (!r->o.tos)
		return write_all(r->control, b + VERSION_BYTES, BLOCK);
	tool_error(
		"-Q makes rds-stress of another release misread the options; RDS over TCP has one type "
		"of service anyhow");
	memset(b, 0xff, VERSION_BYTES);
	snprintf((char *)b, VERSION_BYTES, "%.15s", urds_version());
	b[VERSION_BYTES + BLOCK] = r->o.tos;
	b[VERSION_BYTES + BLOCK + 1] = r->o.is_async;
	return write_all(r->control, b, sizeof(b));
}

static int read_go(struct stress_run *r, uint8_t *go)
{
	const char *why = NULL;

	if (read_all(r->control, go, 1, UINT64_MAX, &why) == 0)
		return 0;
	if (!stress_signal)
		tool_error("no start of the test: %s; see what the other side says", why);
	return -1;
}

int stress_go_active(struct stress_run *r)
{
	uint8_t go = 0;

	return write_all(r->control, &go, 1) < 0 ? -1 : read_go(r, &go);
}

int stress_go_passive(struct stress_run *r)
{
	uint8_t go;

	return read_go(r, &go) < 0 ? -1 : write_all(r->control, &go, 1);
}

bool stress_peer_ended(struct stress_run *r, uint64_t until_ns)
{
	struct pollfd in = {.fd = r->control, .events = POLLIN};
	uint64_t now;

	while ((now = tool_now_ns()) < until_ns && !stress_signal && !atomic_load(&r->failed_tid)) {
		uint64_t left_ms = (until_ns - now + 999999) / 1000000;

		if (poll(&in, 1, left_ms < TICK_MS ? (int)left_ms : TICK_MS) > 0)
			return true;
	}
	return false;
}
