/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * fork, exec, exit, the end of a context: what the child may do, what the parent keeps, what is flushed, and that
 * threads inside calls come out.
 */
#include "dirs.h"
#include "engine.h"

#define FLAGS URDS_CONFIG_NO_RECORD

/* Descriptors of this process that are sockets (or, @listening, listening TCP sockets), pollers or events. */
static unsigned engine_fds(bool listening)
{
	unsigned n = 0;
	DIR *d = dir_open("/proc/self/fd");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[64], to[128];
		int fd = atoi(e->d_name), on = 0;
		socklen_t len = sizeof on;
		ssize_t k;

		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		k = readlink(path, to, sizeof to - 1);
		if (fd < 3 || k < 0)
			continue;
		to[k] = 0;
		if (strstr(to, "socket:") &&
		    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on)
			n++;
		else if (!listening && (strstr(to, "socket:") || strstr(to, "eventpoll") ||
					strstr(to, "eventfd")))
			n++;
	}
	if (d)
		closedir(d);
	return n;
}

static void *echo(void *arg)
{
	struct urds_sock *s = arg;
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	uint8_t b[2000];
	ssize_t n;

	while ((n = urds_recvfrom(s, b, sizeof b, 0, (struct sockaddr *)&from, &len)) >= 0)
		urds_sendto(s, b, (size_t)n, 0, (struct sockaddr *)&from, len);
	return NULL;
}

/* In the child. Return: the number of the first thing that is wrong, or 0. */
static int child_checks(struct urds_ctx *e, struct urds_sock *s)
{
	struct urds_ctx *own;
	struct urds_sock *a, *b;
	char ip_a[32], ip_b[32];
	uint8_t buf[64];
	int v = 1;

	snprintf(ip_a, sizeof ip_a, "127.22.%d.%d", getpid() / 200 % 200, getpid() % 200 + 1);
	snprintf(ip_b, sizeof ip_b, "127.23.%d.%d", getpid() / 200 % 200, getpid() % 200 + 1);

	if (engine_fds(true) > 0)
		return 1;
	if (engine_fds(false) > 0)
		return 2;
	if (urds_send(s, "x", 1, 0) != -1 || errno != EBADF)
		return 3;
	if (urds_recv(s, buf, sizeof buf, 0) != -1 || errno != EBADF)
		return 4;
	if (urds_wait(s, POLLIN, -1) != -1 || errno != EBADF)
		return 5;
	if (urds_fd(s) != -1 || errno != EBADF)
		return 6;
	if (urds_setsockopt(s, SOL_SOCKET, SO_RCVBUF, &v, sizeof v) != -1 || errno != EBADF)
		return 7;
	if (urds_socket(e) || errno != EBADF)
		return 8;
	if (urds_close(s) != -1 || errno != EBADF)
		return 9;
	if (urds_shutdown(e) != -1 || errno != EBADF)
		return 10;
	own = ctx_open(FLAGS);
	a = own ? sock_at(own, ip_a, 5000) : NULL;
	b = own ? sock_at(own, ip_b, 5000) : NULL;
	if (!a || !b || send4(a, "mine", 4, 0, ip_b, 5000) != 4 ||
	    urds_recv(b, buf, sizeof buf, 0) != 4)
		return 11;
	return urds_shutdown(own) < 0 ? 12 : 0;
}

/* While the parent talks in memory and over TCP, with descriptors and several threads. */
static void child__has_nothing_of_the_parent(void)
{
	struct urds_ctx *ca = ctx_open(FLAGS), *cb = ctx_open(FLAGS);
	struct urds_sock *a = sock_at(ca, "127.21.0.1", 4000), *b = sock_at(cb, "127.21.0.2", 4000);
	pthread_t id;
	uint8_t buf[1000];

	CHECK(a && b && connect4(a, "127.21.0.2", 4000) == 0);
	CHECK(urds_fd(a) >= 0);
	CHECK_EQ(pthread_create(&id, NULL, echo, b), 0);
	for (uint64_t n = 0; n < 1000; n++) {
		fill_msg(buf, sizeof buf, n);
		CHECK_EQ(urds_send(a, buf, sizeof buf, 0), sizeof buf);
		if (n % 50 == 0) {
			pid_t pid = spawn();

			if (pid == 0)
				_exit(child_checks(ca, a));
			if (n % 100 == 0) /* the other half runs beside us */
				CHECK_EQ(reap_within(pid, 20), 0);
		}
		CHECK_EQ(urds_recv(a, buf, sizeof buf, 0), sizeof buf);
		CHECK(check_msg(buf, sizeof buf, n));
	}
	for (int st, i = 0; i < 10; i++) {
		CHECK(wait(&st) > 0);
		CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	}
	CHECK_EQ(urds_close(b), 0);
	pthread_join(id, NULL);
	CHECK_EQ(urds_shutdown(ca), 0);
	CHECK_EQ(urds_shutdown(cb), 0);
}

/* A child that lives on does not answer for the parent's address when that is gone. */
static void child__does_not_keep_the_port(void)
{
	struct urds_ctx *e = ctx_open(FLAGS);
	struct urds_sock *s = sock_at(e, "127.21.1.1", 4000);
	pid_t pid;

	CHECK(s);
	pid = spawn();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	CHECK_EQ(urds_shutdown(e), 0);
	e = ctx_open(FLAGS);
	s = sock_at(e, "127.21.1.1", 4000);
	CHECK(s);
	kill(pid, SIGKILL);
	CHECK_EQ(reap_within(pid, 10), 128 + SIGKILL);
	CHECK_EQ(urds_shutdown(e), 0);
}

/* The inherited context in a child that ends by exit(): nothing of the parent is flushed, closed or waited for. */
static void child__exits_at_once(void)
{
	struct urds_ctx *e = ctx_open(FLAGS);
	struct urds_sock *s = sock_at(e, "127.21.2.1", 4000);
	uint64_t since = now_ns();
	pid_t pid;

	CHECK(s && connect4(s, "127.21.2.1", 4000) == 0);
	pid = spawn();
	if (pid == 0)
		exit(0);
	CHECK_EQ(reap_within(pid, 10), 0);
	CHECK(seconds_since(since) < 1.5 * slow());
	CHECK_EQ(urds_send(s, "still", 5, 0), 5);
	CHECK_EQ(urds_recv(s, &(char[8]){0}, 8, 0), 5);
	CHECK_EQ(urds_shutdown(e), 0);
}

static void exec__inherits_nothing(void)
{
	struct urds_ctx *e = ctx_open(FLAGS);
	struct urds_sock *a = sock_at(e, "127.21.3.1", 4000), *b = sock_at(e, "127.21.3.2", 4000);
	pid_t pid;

	CHECK(a && b && urds_fd(a) >= 0);
	CHECK_EQ(send4(a, "x", 1, 0, "127.21.3.2", 4000), 1);
	pid = spawn();
	if (pid == 0) {
		/* No engine descriptor is left: 0, 1, 2 and the listing's own. */
		execl("/bin/sh", "sh", "-c",
		      "for f in /proc/self/fd/*; do readlink $f; done | grep -cE 'socket|event' | grep -qx 0",
		      (char *)NULL);
		_exit(99);
	}
	CHECK_EQ(reap_within(pid, 20), 0);
	CHECK_EQ(urds_shutdown(e), 0);
}

/* ---------------------------------------------------------------- exit */

/* A program that sends and returns from main(): all of it arrives. */
static void exit__flushes(void)
{
	struct urds_ctx *e = ctx_open(FLAGS);
	struct urds_sock *s = sock_at(e, "127.21.4.2", 4000);
	uint8_t buf[1000];

	CHECK(s);
	CHECK_EQ(set_int(s, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20), 0);
	CHECK_EQ(set_timeo(s, SO_RCVTIMEO, 10000), 0);
	for (int round = 0; round < 6; round++) {
		pid_t pid = spawn();

		if (pid == 0) {
			/* The process default on even rounds. */
			struct urds_sock *c =
				sock_at(round & 1 ? ctx_open(FLAGS) : NULL, "127.21.4.1", 4000);

			if (!c)
				exit(2);
			for (uint64_t n = 0; n < 100; n++) {
				fill_msg(buf, sizeof buf, n);
				if (send4(c, buf, sizeof buf, 0, "127.21.4.2", 4000) !=
				    (ssize_t)sizeof buf)
					exit(3);
			}
			exit(0);
		}
		for (uint64_t n = 0; n < 100; n++) {
			CHECK_EQ(urds_recv(s, buf, sizeof buf, 0), sizeof buf);
			CHECK(check_msg(buf, sizeof buf, n));
		}
		CHECK_EQ(reap_within(pid, 10), 0);
	}
	CHECK_EQ(urds_shutdown(e), 0);
}

/* Towards a host that is not there the end comes all the same. */
static void exit__does_not_wait_for_the_unreachable(void)
{
	uint64_t since = now_ns();
	pid_t pid = spawn();

	if (pid == 0) {
		struct urds_sock *c = sock_at(ctx_open(FLAGS), "127.21.5.1", 4000);

		for (int n = 0; n < 10; n++)
			send4(c, "x", 1, 0, "127.21.5.99", 4000);
		exit(0);
	}
	CHECK_EQ(reap_within(pid, 10), 0);
	CHECK(seconds_since(since) < 4 * slow());
}

/* A receiver that is there only after the sender began to exit. Return: does it get the message? */
static bool late_receiver_gets_it(const char *to)
{
	struct urds_ctx *e;
	struct urds_sock *s;
	ssize_t n;
	char b[8];
	pid_t pid = spawn();

	if (pid == 0) {
		struct urds_sock *c;

		e = ctx_open(FLAGS);
		c = sock_at(e, "127.21.7.5", 4000);
		_exit(!c || send4(c, "tail", 4, 0, to, 4000) != 4 || urds_shutdown(e) < 0);
	}
	nap_ms(60);
	e = ctx_open(FLAGS);
	s = sock_at(e, to, 4000);
	CHECK(s && set_timeo(s, SO_RCVTIMEO, 2000) == 0);
	CHECK_EQ(reap_within(pid, 10), 0);
	n = urds_recv(s, b, sizeof b, 0);
	CHECK_EQ(urds_shutdown(e), 0);
	return n == 4;
}

/* It waits for 0.3 s, which a busy machine may need before the receiver is there: then once more. */
static void exit__waits_for_a_connection(void)
{
	CHECK(late_receiver_gets_it("127.21.7.9") || late_receiver_gets_it("127.21.7.9"));
	CHECK(late_receiver_gets_it("127.21.7.1") || late_receiver_gets_it("127.21.7.1"));
}

static void *busy_receiver(void *arg)
{
	uint8_t b[64];

	for (;;)
		if (urds_recv(arg, b, sizeof b, 0) < 0 && errno != EBADF)
			_exit(9);
	return NULL;
}

static void *busy_sender(void *arg)
{
	for (;;)
		if (send4(arg, "hello", 5, 0, "127.21.6.2", 4000) < 0 && errno != EBADF)
			_exit(9);
	return NULL;
}

/* main() returns while other threads are in the middle of calls, and make more of them. */
static void exit__with_threads_at_work(void)
{
	for (int round = 0; round < 10; round++) {
		pid_t pid = spawn();

		if (pid == 0) {
			struct urds_ctx *e = ctx_open(FLAGS);
			struct urds_sock *a = sock_at(e, "127.21.6.1", 4000);
			struct urds_sock *b =
				sock_at(round & 1 ? e : ctx_open(FLAGS), "127.21.6.2", 4000);
			pthread_t id;

			if (!a || !b)
				exit(2);
			for (int i = 0; i < 2; i++) {
				pthread_create(&id, NULL, busy_receiver, b);
				pthread_create(&id, NULL, busy_sender, a);
			}
			nap_ms(20 + (unsigned)round * 5);
			exit(0);
		}
		CHECK_EQ(reap_within(pid, 20), 0);
	}
}

/* ---------------------------------------------------------------- shutdown */

static void *recv_to_the_end(void *arg)
{
	uint8_t b[64];

	while (urds_recv(arg, b, sizeof b, 0) >= 0)
		;
	return (void *)(intptr_t)errno;
}

static void *send_to_the_end(void *arg)
{
	while (urds_send(arg, "hello", 5, 0) >= 0)
		;
	return (void *)(intptr_t)errno;
}

static void shutdown__while_threads_call(void)
{
	for (int round = 0; round < 20; round++) {
		struct urds_ctx *e = ctx_open(FLAGS), *f = round & 1 ? ctx_open(FLAGS) : e;
		struct urds_sock *a = sock_at(e, "127.21.7.1", 4000),
				 *b = sock_at(f, "127.21.7.2", 4000);
		pthread_t id[4];
		void *rc;

		CHECK(a && b && connect4(a, "127.21.7.2", 4000) == 0 &&
		      connect4(b, "127.21.7.1", 4000) == 0);
		pthread_create(&id[0], NULL, recv_to_the_end, b);
		pthread_create(&id[1], NULL, send_to_the_end, a);
		pthread_create(&id[2], NULL, recv_to_the_end, a);
		pthread_create(&id[3], NULL, send_to_the_end, b);
		nap_ms((unsigned)round);
		CHECK_EQ(urds_shutdown(e), 0);
		if (f != e)
			CHECK_EQ(urds_shutdown(f), 0);
		for (int i = 0; i < 4; i++) {
			pthread_join(id[i], &rc);
			CHECK_EQ((intptr_t)rc, EBADF);
		}
	}
}

/* Connections are being made, in both directions, to many peers, some of which are not there. */
static void shutdown__while_connecting(void)
{
	for (unsigned round = 0; round < 20; round++) {
		struct urds_ctx *e = ctx_open(FLAGS), *f = ctx_open(FLAGS);
		struct urds_sock *a = sock_at(e, "127.21.8.100", 4000);
		uint64_t since;
		char ip[32];

		CHECK(a);
		for (unsigned i = 1; i < 50; i++) {
			snprintf(ip, sizeof ip, "127.21.8.%u", i * 5);
			if (i * 5 != 100 && i % 2) {
				struct urds_sock *b = sock_at(f, ip, 4000);

				CHECK(b);
				CHECK_EQ(send4(b, "y", 1, 0, "127.21.8.100", 4000), 1);
			}
			CHECK_EQ(send4(a, "x", 1, 0, ip, 4000), 1);
		}
		nap_ms(round % 4);
		since = now_ns();
		CHECK_EQ(urds_shutdown(round & 1 ? e : f), 0);
		CHECK_EQ(urds_shutdown(round & 1 ? f : e), 0);
		CHECK(seconds_since(since) < 6 * slow());
	}
}

/* Programs here end with threads at work on purpose. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_thread_leaks=0";
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	T_RUN(child__has_nothing_of_the_parent);
	T_RUN(child__does_not_keep_the_port);
	T_RUN(child__exits_at_once);
	T_RUN(exec__inherits_nothing);
	T_RUN(exit__flushes);
	T_RUN(exit__does_not_wait_for_the_unreachable);
	T_RUN(exit__waits_for_a_connection);
	T_RUN(exit__with_threads_at_work);
	T_RUN(shutdown__while_threads_call);
	T_RUN(shutdown__while_connecting);
	return t_done();
}
