/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * echo_server_poll ADDRESS: echo_server as an event loop. Only poll() waits, and it could wait for other things as well.
 */
#include "net.h"

int main(int argc, char **argv)
{
	static char buf[1 << 20]; /* as long as any message */
	struct sockaddr_in at, from;
	struct pollfd p = {0};
	struct urds_sock *s;
	socklen_t len = 0;
	ssize_t n = -1; /* the length of the message that has to go back, or -1 */

	if (argc != 2 || !address(argv[1], PORT, &at))
		return usage(argv[0], "ADDRESS");
	s = urds_socket(NULL);
	if (!s || urds_set_nonblock(s, 1) < 0 ||
	    urds_bind(s, (struct sockaddr *)&at, sizeof at) < 0 || urds_fd(s) < 0)
		return fail("socket");
	p.fd = urds_fd(s);
	printf("ready\n");
	fflush(stdout);

	for (;;) { /* until Ctrl-C */
		int timeout_ms = -1;

		if (n < 0) {
			len = sizeof from;
			n = urds_recvfrom(s, buf, sizeof buf, 0, (struct sockaddr *)&from, &len);
			if (n >= 0)
				continue;
			p.events = POLLIN;
		} else {
			if (urds_sendto(s, buf, (size_t)n, 0, (struct sockaddr *)&from, len) >= 0) {
				n = -1;
				continue;
			}
			p.events = POLLOUT; /* the send buffer is full */
		}
		if (urds_errno() == URDS_ECONG) {
			p.events = 0; /* the client does not read; no event says when it does */
			timeout_ms = 1;
		} else if (urds_errno() != URDS_EAGAIN) {
			return fail(n < 0 ? "receive" : "send");
		}
		if (poll(&p, 1, timeout_ms) < 0)
			return fail_poll();
	}
}
