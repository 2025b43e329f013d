/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * talker ADDR PORT PEER-ADDR PEER-PORT: one of two that exchange messages of known sizes, and that say how many. A line of
 * standard input is a command: go, stop, say.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "urds/urds.h"

#define SIZE_MAX_BYTES 5000

struct tally {
	_Atomic unsigned long long messages, bytes;
};

static struct urds_sock *sock;
static struct sockaddr_in peer;
/* What a call was begun for, what it succeeded with. */
static struct tally begun, sent, received;
static _Atomic bool goes;
static _Atomic bool is_idle = true;

static void fail(const char *what)
{
	fprintf(stderr, "talker: %s: %s\n", what, urds_reason());
	_exit(1);
}

static void add(struct tally *t, size_t len)
{
	t->messages++;
	t->bytes += len;
}

static void *sender(void *arg)
{
	static const char text[SIZE_MAX_BYTES];

	for (size_t i = 0;; i++) {
		size_t len = i * 37 % SIZE_MAX_BYTES;

		while (!goes) {
			is_idle = true;
			usleep(1000);
		}
		is_idle = false;
		add(&begun, len);
		while (urds_sendto(sock, text, len, 0, (struct sockaddr *)&peer, sizeof(peer)) < 0)
			if (errno != EAGAIN && errno != ENOBUFS)
				fail("send");
		add(&sent, len);
	}
	return arg;
}

static void *receiver(void *arg)
{
	static char text[SIZE_MAX_BYTES];
	ssize_t len;

	while ((len = urds_recvfrom(sock, text, sizeof(text), 0, NULL, NULL)) >= 0)
		add(&received, (size_t)len);
	fail("receive");
	return arg;
}

static void say(void)
{
	/* Those that come first are those that can only be too small then. */
	unsigned long long s = sent.messages, sb = sent.bytes, r = received.messages,
			   rb = received.bytes;

	printf("sent %llu %llu received %llu %llu begun %llu %llu\n", s, sb, r, rb,
	       (unsigned long long)begun.messages, (unsigned long long)begun.bytes);
	fflush(stdout);
}

static struct sockaddr_in address(const char *addr, const char *port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, addr, &in.sin_addr) != 1) {
		fprintf(stderr, "talker: '%s' is no address\n", addr);
		exit(2);
	}
	return in;
}

int main(int argc, char **argv)
{
	struct sockaddr_in local;
	pthread_t t;
	char line[16];

	if (argc != 5) {
		fprintf(stderr, "usage: talker ADDR PORT PEER-ADDR PEER-PORT\n");
		return 2;
	}
	local = address(argv[1], argv[2]);
	peer = address(argv[3], argv[4]);
	sock = urds_socket(NULL);
	if (!sock || urds_bind(sock, (struct sockaddr *)&local, sizeof(local)) < 0)
		fail("bind");
	if (pthread_create(&t, NULL, sender, NULL) != 0 ||
	    pthread_create(&t, NULL, receiver, NULL) != 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "go\n") == 0)
			goes = true;
		else if (strcmp(line, "say\n") == 0)
			say();
		else if (strcmp(line, "stop\n") == 0)
			for (goes = false; !is_idle;)
				usleep(1000);
	}
	_exit(0);
}
