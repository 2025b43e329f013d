/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * echo_server ADDRESS: sends every message back to where it came from, with calls that wait.
 */
#include "net.h"

int main(int argc, char **argv)
{
	static char buf[1 << 20]; /* as long as any message */
	struct sockaddr_in at, from;
	struct urds_sock *s;

	if (argc != 2 || !address(argv[1], PORT, &at))
		return usage(argv[0], "ADDRESS");
	s = urds_socket(NULL);
	if (!s || urds_bind(s, (struct sockaddr *)&at, sizeof at) < 0)
		return fail("socket");
	printf("ready\n");
	fflush(stdout);

	for (;;) { /* until Ctrl-C */
		socklen_t len = sizeof from;
		ssize_t n = urds_recvfrom(s, buf, sizeof buf, 0, (struct sockaddr *)&from, &len);

		if (n < 0)
			return fail("receive");
		/* Waits while the client does not read its echoes. */
		if (urds_sendto(s, buf, (size_t)n, 0, (struct sockaddr *)&from, len) < 0)
			return fail("send");
	}
}
