/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hoarder FROM TO: a client of the echo servers that sends as long as anything moves and reads nothing. Then its own port
 * is congested, so the server cannot send, and does not read: the server's port is congested as well. Then it reads all.
 */
#include <sys/time.h>

#include "net.h"

#define LENGTH 1000
#define ENOUGH \
	150 /* 106 until a port is congested, which its clients see until half is read: 106 + 53 are stuck */

int main(int argc, char **argv)
{
	struct timeval limit = {1, 0};
	struct sockaddr_in at, to;
	struct urds_sock *s;
	char buf[LENGTH + 1];
	long sent = 0;

	if (argc != 3 || !address(argv[1], 0, &at) || !address(argv[2], PORT, &to))
		return usage(argv[0], "FROM TO");
	s = urds_socket(NULL);
	if (!s || urds_bind(s, (struct sockaddr *)&at, sizeof at) < 0 ||
	    urds_connect(s, (struct sockaddr *)&to, sizeof to) < 0 ||
	    urds_setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) < 0)
		return fail("socket");
	memset(buf, 0, sizeof buf);
	for (;;) {
		snprintf(buf, sizeof buf, "%ld", sent);
		if (urds_send(s, buf, LENGTH, 0) == LENGTH)
			sent++;
		else if (urds_errno() != URDS_ETIMEDOUT)
			return fail("send");
		else if (sent > ENOUGH)
			break;
		/* Not stuck, then: the server is only slow. */
	}
	printf("stuck\n");
	fflush(stdout);
	for (long i = 0; i < sent; i++) {
		if (urds_recv(s, buf, sizeof buf, 0) != LENGTH)
			return fail("receive");
		if (atol(buf) != i)
			return differs("another number", buf, LENGTH);
	}
	printf("all %ld\n", sent);
	return 0;
}
