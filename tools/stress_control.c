/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The control connection of urds stress: rds-stress's block of options, a byte that starts the test and
 * its echo; the end of the connection ends the test.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stress.h"

#define BLOCK 59u
#define VERSION_BYTES 16u
#define OPTIONS_WAIT_NS 5000000000ull /* for the options of one that connected */
#define TICK_NS 100000000u	      /* not every system's wait is ended by Ctrl-C */
#define RETRY_NS 1000000000u
#define GO_WAIT_NS 30000000000ull /* for the start: by then the other side has opened its tasks */

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

/* Return: 0, or -1 and the reason in @why. Gives up at @until_ns, or when this command is to end. */
static int read_all(tool_sock s, uint8_t *p, size_t len, uint64_t until_ns, const char **why)
{
	struct pollfd in = {.fd = s, .events = POLLIN};
	ssize_t n;

	while (len) {
		if (tool_ends_noted()) {
			*why = "interrupted";
			return -1;
		}
		if (tool_now_ns() >= until_ns) {
			*why = "it sent nothing in time";
			return -1;
		}
		n = tool_poll(&in, 1, TICK_NS);
		if (n == 0)
			continue;
		if (n < 0) {
			*why = tool_strerror(errno);
			return -1;
		}
		n = recv(s, (void *)p, len, 0);
		if (n == 0 || (n < 0 && !tool_sock_would_wait())) {
			*why = n == 0 ? "Peer unexpectedly closed connection"
				      : tool_strerror(tool_sock_error());
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

/* Does not block, nor do those that are accepted from it. */
static tool_sock tcp_bound(uint32_t addr, uint16_t port)
{
	struct sockaddr_in sa = end(addr, port);
	char text[INET_ADDRSTRLEN];
	tool_sock s = tool_sock_open(AF_INET, SOCK_STREAM, true);
	int err = s == TOOL_NO_SOCK ? tool_sock_error()
				    : tool_sock_bind_again(s, (struct sockaddr *)&sa, sizeof(sa));

	if (!err)
		return s;
	tool_error(
		"cannot use %s, TCP port %u for control: %s; give a local address with -r and a free "
		"port with -p",
		quad(addr, text), port, tool_strerror(err));
	if (s != TOOL_NO_SOCK)
		tool_sock_close(s);
	return TOOL_NO_SOCK;
}

static uint32_t local(tool_sock s)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t len = sizeof(sa);

	return getsockname(s, (struct sockaddr *)&sa, &len) == 0 ? ntohl(sa.sin_addr.s_addr) : 0;
}

/* Return: 0 or a number of errno. */
static int dial(tool_sock s, const struct sockaddr_in *to)
{
	struct pollfd out = {.fd = s, .events = POLLOUT};
	int err = connect(s, (const struct sockaddr *)to, sizeof(*to)) == 0 ? 0 : tool_sock_error();
	int n;

	while (err == EINPROGRESS) {
		if (tool_ends_noted())
			return EINTR;
		n = tool_poll(&out, 1, TICK_NS);
		if (n != 0)
			err = n < 0 ? errno : tool_sock_pending(s);
	}
	return err;
}

int stress_connect(struct stress_run *r)
{
	struct stress_opts *o = &r->o;
	struct sockaddr_in to = end(o->send_addr, o->port);
	char text[INET_ADDRSTRLEN];
	uint32_t left = o->retries;
	bool has_failed = false;
	tool_sock s;
	int err;

	quad(o->send_addr, text);
	printf("connecting to %s:%u", text, o->port);
	for (;;) {
		if (tool_flush() < 0)
			return -1;
		s = tcp_bound(o->recv_addr, 0);
		err = s == TOOL_NO_SOCK ? 0 : dial(s, &to);
		if (!err)
			break;
		tool_sock_close(s);
		if (tool_ends_noted()) {
			stress_say("\n");
			return -1;
		}
		if (!has_failed)
			printf(": %s%s", tool_strerror(err), left ? " - retrying" : "");
		has_failed = true;
		if (!left || (err != ECONNREFUSED && err != EHOSTUNREACH && err != ENETUNREACH)) {
			stress_say("\n");
			tool_error(
				"connect(%s) failed: is 'urds stress' waiting there, at port %u?",
				text, o->port);
			return -1;
		}
		left--;
		(void)tool_flush();
		tool_poll(NULL, 0, RETRY_NS);
		printf(".");
	}
	stress_say("\n");
	if (s == TOOL_NO_SOCK)
		return -1;
	r->control = s;
	if (!o->recv_addr)
		o->recv_addr = local(s);
	r->self.s_addr = htonl(o->recv_addr);
	r->peer.s_addr = htonl(o->send_addr);
	return 0;
}

/* The options of one that connected. @why NULL on success. */
static const char *receive_options(tool_sock s, struct stress_opts *o)
{
	uint8_t b[VERSION_BYTES + BLOCK + 2];
	uint64_t until = tool_now_ns() + OPTIONS_WAIT_NS;
	const char *why = NULL;
	size_t skip;

	if (read_all(s, b, VERSION_BYTES, until, &why) < 0)
		return why;
	/* A depth that starts with a digit's code would need more memory than is allowed. */
	skip = b[0] >= 0x20 && b[0] < 0x7f ? VERSION_BYTES : 0;
	if (read_all(s, b + VERSION_BYTES, skip ? BLOCK + 2 : BLOCK - VERSION_BYTES, until, &why) <
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

/* Of the host or this process, and not of one connection: the next try would fail too. */
static bool is_lack(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

int stress_accept(struct stress_run *r)
{
	struct stress_opts own = r->o;
	char text[INET_ADDRSTRLEN], from[INET_ADDRSTRLEN];
	struct pollfd in = {.events = POLLIN};
	struct sockaddr_in sa;
	const char *why;

	in.fd = tcp_bound(own.recv_addr, own.port);
	if (in.fd == TOOL_NO_SOCK)
		return -1;
	if (listen(in.fd, 255) < 0) {
		tool_error("cannot listen on %s, TCP port %u: %s; choose another port with -p",
			   quad(own.recv_addr, text), own.port, tool_strerror(tool_sock_error()));
		tool_sock_close(in.fd);
		return -1;
	}
	stress_say("waiting for incoming connection on %s:%u\n", quad(own.recv_addr, text),
		   own.port);
	while (!tool_ends_noted() && tool_flush() == 0) {
		int n = tool_poll(&in, 1, TICK_NS), err = n < 0 ? errno : 0;

		if (n > 0 && (r->control = tool_sock_accept(in.fd, &sa)) == TOOL_NO_SOCK)
			err = tool_sock_error();
		if (n < 0 || is_lack(err)) {
			tool_error("cannot accept a connection: %s; raise the limit, or end others",
				   tool_strerror(err));
			break;
		}
		if (r->control == TOOL_NO_SOCK)
			continue; /* nobody has come, or it has gone again */
		r->self.s_addr = htonl(own.recv_addr ? own.recv_addr : local(r->control));
		quad(ntohl(sa.sin_addr.s_addr), from);
		r->o = own;
		why = receive_options(r->control, &r->o);
		if (!why) {
			printf("accepted connection from %s:%u", from, ntohs(sa.sin_port));
			if (!own.recv_addr)
				printf(" on %s:%u", quad(ntohl(r->self.s_addr), text), own.port);
			stress_say("\n");
			r->peer.s_addr = htonl(r->o.recv_addr);
			tool_sock_close(in.fd);
			return 0;
		}
		if (!tool_ends_noted())
			tool_error("ignored a connection from %s:%u: %s; still waiting", from,
				   ntohs(sa.sin_port), why);
		tool_sock_close(r->control);
		r->control = TOOL_NO_SOCK;
	}
	tool_sock_close(in.fd);
	return -1;
}

static int write_all(tool_sock s, const uint8_t *p, size_t len)
{
	struct pollfd out = {.fd = s, .events = POLLOUT};
	ssize_t n;

	while (len) {
		n = tool_sock_send(s, p, len);
		if (n < 0 && tool_sock_would_wait() && !tool_ends_noted()) {
			if (tool_poll(&out, 1, TICK_NS) >= 0)
				continue;
		}
		if (n < 0) {
			tool_error(
				"cannot write to the control connection: %s; start the other side anew",
				tool_strerror(tool_sock_error()));
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

	if (read_all(r->control, go, 1, tool_now_ns() + GO_WAIT_NS, &why) == 0)
		return 0;
	if (!tool_ends_noted())
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

int stress_peer_ended(struct stress_run *r, uint64_t until_ns)
{
	struct pollfd in = {.fd = r->control, .events = POLLIN};
	uint64_t now;
	int n = 0;

	while (n == 0 && (now = tool_now_ns()) < until_ns && !tool_ends_noted() &&
	       !atomic_load(&r->failed_tid))
		n = tool_poll(&in, 1, until_ns - now < TICK_NS ? until_ns - now : TICK_NS);
	if (n < 0)
		tool_error("cannot wait for the other side: %s", tool_strerror(errno));
	return n;
}
