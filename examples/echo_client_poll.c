/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * echo_client_poll FROM TO COUNT: echo_client as an event loop, which does not wait for an echo before it sends on.
 */
#include "net.h"

int main(int argc, char **argv)
{
	long count, sent = 0, received = 0;
	struct sockaddr_in at, to;
	struct pollfd p = {0};
	char out[32], in[32];
	struct urds_sock *s;

	if (argc != 4 || !address(argv[1], 0, &at) || !address(argv[2], PORT, &to) ||
	    (count = atol(argv[3])) < 1)
		return usage(argv[0], "FROM TO COUNT");
	s = urds_socket(NULL);
	if (!s || urds_set_nonblock(s, 1) < 0 ||
	    urds_bind(s, (struct sockaddr *)&at, sizeof at) < 0 ||
	    urds_connect(s, (struct sockaddr *)&to, sizeof to) < 0 || urds_fd(s) < 0)
		return fail("socket");
	p.fd = urds_fd(s);

	while (received < count) {
		int len, timeout_ms = -1;
		ssize_t n = 0;

		p.events = POLLIN;
		for (; sent < count; sent++) {
			len = snprintf(out, sizeof out, "message %ld", sent);
			n = urds_send(s, out, (size_t)len, 0);
			if (n < 0)
				break;
		}
		if (n < 0 && urds_errno() == URDS_EAGAIN)
			p.events |= POLLOUT; /* the send buffer is full */
		else if (n < 0 && urds_errno() == URDS_ECONG)
			timeout_ms = 1; /* the server does not read; no event says when it does */
		else if (n < 0)
			return fail("send");
		for (; received < count; received++) {
			len = snprintf(out, sizeof out, "message %ld", received);
			n = urds_recv(s, in, sizeof in, 0);
			if (n < 0)
				break;
			if (n != len || memcmp(in, out, (size_t)n) != 0)
				return differs(out, in, (int)n);
		}
		if (n < 0 && urds_errno() != URDS_EAGAIN)
			return fail("receive");
		if (received < count && poll(&p, 1, timeout_ms) < 0)
			return fail_poll();
	}
	printf("%ld messages and their echoes\n", count);
	return 0;
}
