/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * echo_client FROM TO COUNT: from the address FROM sends COUNT messages to the echo server at TO, one at a time.
 */
#include "net.h"

int main(int argc, char **argv)
{
	struct sockaddr_in at, to;
	char out[32], in[32];
	struct urds_sock *s;
	long count;

	if (argc != 4 || !address(argv[1], 0, &at) || !address(argv[2], PORT, &to) ||
	    (count = atol(argv[3])) < 1)
		return usage(argv[0], "FROM TO COUNT");
	s = urds_socket(NULL);
	if (!s || urds_bind(s, (struct sockaddr *)&at, sizeof at) < 0 ||
	    urds_connect(s, (struct sockaddr *)&to, sizeof to) < 0)
		return fail("socket");

	for (long i = 0; i < count; i++) {
		int len = snprintf(out, sizeof out, "message %ld", i);
		ssize_t n;

		/* If no server is there yet, the message waits for it. */
		if (urds_send(s, out, (size_t)len, 0) < 0)
			return fail("send");
		n = urds_recv(s, in, sizeof in, 0);
		if (n < 0)
			return fail("receive");
		if (n != len || memcmp(in, out, (size_t)n) != 0)
			return differs(out, in, (int)n);
	}
	printf("%ld messages and their echoes\n", count);
	return 0;
}
