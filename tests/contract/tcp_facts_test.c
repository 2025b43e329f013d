/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What transport/tcp relies on in the kernel below, and what only TCP has: descriptors, ports,
 * TIME_WAIT, the accept loop's bad days, fork.
 */
#include "bed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <net/if.h>
#include <unistd.h>

#include "platform/addr.h"
#include "platform/clock.h"
#include "tap.h"
#include "transport/tcp/tcp.h"

static struct urds_poller *poller;
static struct urds_transport *t;
static struct urds_listener *listener;
static struct door door;
static struct urds_addr here;
static uint16_t port;

#define WAIT_FOR(cond)                                                \
	do {                                                          \
		urds_ns end_ = urds_clock_ns() + URDS_SEC(10);        \
		while (!(cond)) {                                     \
			if (urds_clock_ns() > end_)                   \
				T_FAIL("waited in vain: %s", #cond);  \
			(void)urds_poller_wait(poller, URDS_MS(20));  \
		}                                                     \
	} while (0)

static void begin(const struct urds_tcp_config *extra)
{
	struct urds_tcp_config cfg = extra ? *extra : (struct urds_tcp_config){0};

	memset(&door, 0, sizeof(door));
	ep_bad_bytes = 0;
	cfg.port = port = (uint16_t)(26000 + getpid() % 5000);
	CHECK_EQ(urds_addr_parse(&here, "127.0.0.1"), 0);
	CHECK_EQ(urds_poller_new(&poller), 0);
	CHECK_EQ(urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t), 0);
	CHECK_EQ(t->connect->listen(t, &here, &door, &listener), 0);
}

static void end(void)
{
	if (listener)
		t->connect->unlisten(listener);
	listener = NULL;
	for (size_t i = 0; i < door.n; i++) {
		if (door.in[i]->l)
			ep_close(door.in[i], URDS_CLOSE_NOW);
		CHECK_EQ(door.in[i]->late, 0);
		ep_free(door.in[i]);
	}
	CHECK_EQ(ep_bad_bytes, 0);
	urds_tcp_free(t);
	urds_poller_free(poller);
}

static struct ep *dial(int lane)
{
	struct ep *e = ep_new(t, 2);
	int rc = t->connect->dial(t, &here, &here, lane, e, &e->l);

	if (rc < 0)
		e->connect_err = rc;
	return e;
}

static void join(struct ep **x, struct ep **y)
{
	size_t n = door.n;

	*x = dial(-1);
	WAIT_FOR((*x)->connected && door.n > n);
	CHECK_EQ((*x)->connect_err, 0);
	*y = door.in[n];
}

static void finish(struct ep *e)
{
	if (e->l)
		ep_close(e, URDS_CLOSE_NOW);
	CHECK_EQ(e->late, 0);
	ep_free(e);
}

static int get_int(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	(void)getsockopt(fd, level, name, &v, &len);
	return v;
}

static void options_on_both_ends(void)
{
	struct ep *x, *y;

	begin(NULL);
	join(&x, &y);
	for (int i = 0; i < 2; i++) {
		int fd = t->data->fd(i ? x->l : y->l);

		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		CHECK_EQ(get_int(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 5);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPCNT), 5);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
		CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	}
	finish(x);
	end();
}

static void one_call_each_way(void)
{
	struct urds_tcp_stats *st;
	struct ep *x, *y;
	uint64_t tx0, rx0;

	begin(NULL);
	join(&x, &y);
	st = urds_tcp_stats(t);
	CHECK_EQ(st->dials, 1);
	CHECK_EQ(st->accepts, 1);
	tx0 = st->tx_calls;
	CHECK_EQ(ep_tx(x, 20000, 500), 20000);
	CHECK_EQ(st->tx_calls, tx0 + 1);
	CHECK_EQ(st->tx_bytes, 20000);
	y->may_rx = false;
	WAIT_FOR(y->may_rx && t->data->acked(x->l) == 20000);
	rx0 = st->rx_calls;
	/* A short read has drained it: no second call just to hear EAGAIN. */
	ep_rx(y, 30000);
	CHECK_EQ(y->rx_pos, 20000);
	CHECK(!y->may_rx);
	CHECK_EQ(st->rx_calls, rx0 + 1);
	CHECK_EQ(st->rx_bytes, 20000);
	/* No event is lost by that. */
	CHECK_EQ(ep_tx(x, 1, 1), 1);
	WAIT_FOR(y->may_rx);
	finish(x);
	end();
}

/* An owner is killed with connections open: its ends go to TIME_WAIT (it closed first), and the next
 * owner must not wait for them. */
static void restart_after_kill(void)
{
	struct ep *x, *y;
	pid_t pid;
	int status;
	char byte;
	int sync[2];

	begin(NULL);
	t->connect->unlisten(listener);
	listener = NULL;
	CHECK_EQ(pipe(sync), 0);
	pid = fork();
	if (pid == 0) {
		struct urds_tcp_config cfg = {.port = port};

		urds_tcp_fork(t, URDS_TCP_FORK_PREPARE);
		urds_tcp_fork(t, URDS_TCP_FORK_CHILD);
		if (urds_poller_new(&poller) < 0 ||
		    urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t) < 0 ||
		    t->connect->listen(t, &here, &door, &listener) < 0 || write(sync[1], "r", 1) != 1)
			_exit(1);
		for (;;) {
			size_t n = door.n;

			(void)urds_poller_wait(poller, URDS_MS(10));
			if (door.n > n && write(sync[1], "a", 1) != 1)
				_exit(1);
		}
	}
	CHECK_EQ(read(sync[0], &byte, 1), 1);
	x = dial(-1);
	WAIT_FOR(x->connected);
	CHECK_EQ(x->connect_err, 0);
	CHECK_EQ(read(sync[0], &byte, 1), 1);
	CHECK_EQ(t->connect->listen(t, &here, &door, &listener), -URDS_EADDRINUSE);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	WAIT_FOR((ep_drain(x), x->has_ended));
	finish(x);
	CHECK_EQ(t->connect->listen(t, &here, &door, &listener), 0);
	join(&x, &y);
	/* Ours this time, closed by the accepting side first: TIME_WAIT on the service port. */
	ep_close(y, URDS_CLOSE_NOW);
	WAIT_FOR((ep_drain(x), x->has_ended));
	finish(x);
	t->connect->unlisten(listener);
	CHECK_EQ(t->connect->listen(t, &here, &door, &listener), 0);
	close(sync[0]);
	close(sync[1]);
	end();
}

/* Several would-be owners at the same instant, for real: processes. */
static void one_owner_wins(void)
{
	begin(NULL);
	t->connect->unlisten(listener);
	listener = NULL;
	for (int round = 0; round < 20; round++) {
		int go[2], done[2], winners = 0;
		pid_t pid[3];
		char byte;

		CHECK_EQ(pipe(go), 0);
		CHECK_EQ(pipe(done), 0);
		for (int i = 0; i < 3; i++) {
			struct urds_tcp_config cfg = {.port = port};

			pid[i] = fork();
			if (pid[i] != 0)
				continue;
			close(go[1]);
			if (urds_poller_new(&poller) < 0 ||
			    urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t) < 0)
				_exit(1);
			(void)!read(go[0], &byte, 1); /* EOF starts everybody */
			byte = t->connect->listen(t, &here, &door, &listener) == 0 ? 'y' : 'n';
			(void)!write(done[1], &byte, 1);
			close(done[1]);
			pause();
			_exit(0);
		}
		close(go[0]);
		close(go[1]);
		close(done[1]);
		while (read(done[0], &byte, 1) == 1)
			winners += byte == 'y';
		close(done[0]);
		for (int i = 0; i < 3; i++) {
			kill(pid[i], SIGKILL);
			waitpid(pid[i], NULL, 0);
		}
		CHECK(winners <= 1);
	}
	end();
}

static int raw_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void raw_connect(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(&here, port, &ss);

	CHECK_EQ(connect(fd, (struct sockaddr *)&ss, len), 0);
}

static struct rlimit old_limit;
static int plug[64];

/* No descriptor is left after this. */
static void plug_descriptors(void)
{
	struct rlimit few;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
	for (int i = 0; i < 64; i++)
		plug[i] = dup(0);
	few = old_limit;
	few.rlim_cur = (rlim_t)plug[63] + 1;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK(dup(0) < 0 && errno == EMFILE);
}

static void unplug_descriptors(void)
{
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
	for (int i = 0; i < 64; i++)
		close(plug[i]);
}

/* B5 */
static void accept_without_descriptors(void)
{
	struct urds_tcp_stats *st;
	urds_ns t0;
	char byte;
	int fd[8];

	begin(NULL);
	st = urds_tcp_stats(t);
	for (int i = 0; i < 8; i++)
		fd[i] = raw_socket();
	plug_descriptors();
	for (int i = 0; i < 8; i++)
		raw_connect(fd[i]);
	t0 = urds_clock_ns();
	while (urds_clock_ns() - t0 < URDS_MS(50))
		(void)urds_poller_wait(poller, URDS_MS(20));
	/* All eight heard it; nobody spins. */
	CHECK_EQ(st->accepts_refused, 8);
	CHECK(st->accepts_failed >= 8);
	CHECK_EQ(urds_poller_wait(poller, 0), 0);
	for (int i = 0; i < 8; i++) {
		CHECK(recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0);
		CHECK_EQ(errno, ECONNRESET);
		close(fd[i]);
	}
	unplug_descriptors();
	fd[0] = raw_socket();
	raw_connect(fd[0]);
	WAIT_FOR(door.n == 1);
	close(fd[0]);
	end();
}

/* No spare either: connections wait, and are taken when a link of ours gives its descriptor back. */
static void accept_resumes_when_a_link_closes(void)
{
	struct urds_tcp_config cfg = {0};
	struct ep *x, *y;
	int fd;

	begin(NULL);
	end();
	CHECK_EQ(urds_poller_new(&poller), 0);
	memset(&door, 0, sizeof(door));
	plug_descriptors();
	cfg.port = port;
	CHECK_EQ(urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t), 0);
	unplug_descriptors();
	CHECK_EQ(t->connect->listen(t, &here, &door, &listener), 0);
	/* Not join(): an accept loop that ends well gets itself a spare. */
	x = dial(-1);
	fd = raw_socket();
	plug_descriptors();
	raw_connect(fd);
	for (int i = 0; i < 3; i++)
		(void)urds_poller_wait(poller, URDS_MS(10));
	CHECK_EQ(urds_poller_wait(poller, URDS_MS(10)), 0); /* no spinning */
	CHECK(x->connected && x->connect_err == 0);
	CHECK_EQ(door.n, 0);
	CHECK_EQ(urds_tcp_stats(t)->accepts_refused, 0);
	finish(x);
	for (int i = 0; i < 5 && door.n < 1; i++)
		(void)urds_poller_wait(poller, URDS_MS(10));
	CHECK_EQ(door.n, 1); /* one came free, one was taken */
	y = door.in[0];
	ep_drain(y);
	CHECK(y->has_ended);
	ep_close(y, URDS_CLOSE_NOW);
	for (int i = 0; i < 5 && door.n < 2; i++)
		(void)urds_poller_wait(poller, URDS_MS(10));
	unplug_descriptors();
	CHECK_EQ(door.n, 2);
	close(fd);
	end();
}

static int own_network(void)
{
	char map[32];
	int fd, n = snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid()), ok;

	if (unshare(CLONE_NEWNET) == 0)
		return 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return -1;
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, map, (size_t)n) == n;
	close(fd);
	return ok ? 0 : -1;
}

/* In a network namespace with four source ports per lane. */
static void lanes_find_the_free_port(void)
{
	struct ep *e[5];
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};
		int fd;

		if (own_network() < 0)
			_exit(77);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
			_exit(77);
		close(fd);
		fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
		if (fd < 0 || write(fd, "40003 40034", 11) != 11)
			_exit(77);
		close(fd);
		begin(NULL);
		for (int lane = 0; lane < 8; lane++) {
			size_t n = door.n;

			for (int i = 0; i < 4; i++) {
				e[i] = dial(lane);
				if (e[i]->connect_err)
					_exit(1);
			}
			WAIT_FOR(door.n == n + 4);
			for (size_t i = n; i < door.n; i++)
				if ((door.in[i]->from_port & 7) != lane)
					_exit(2);
			/* All four are taken, and no descriptor is lost over it. */
			{
				size_t fds = fd_count();

				e[4] = dial(lane);
				if (e[4]->connect_err != -URDS_EADDRINUSE || fd_count() != fds)
					_exit(3);
			}
			finish(e[4]);
			for (int i = 0; i < 4; i++)
				finish(e[i]); /* we close first: TIME_WAIT holds our ports */
		}
		e[0] = dial(3);
		if (e[0]->connect_err != -URDS_EADDRINUSE)
			_exit(4);
		finish(e[0]);
		end();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		T_SKIP("no network namespace of our own");
	CHECK_EQ(WEXITSTATUS(status), 0);
}

/* Established, bytes sent, reset - all before the dialler looks: it was connected, and reads them. */
static void reset_before_the_answer_was_seen(void)
{
	const struct linger now = {.l_onoff = 1};
	struct sockaddr_storage ss;
	socklen_t len;
	struct ep *x;
	int ls, fd, one = 1;
	char buf[500];

	begin(NULL);
	t->connect->unlisten(listener);
	listener = NULL;
	ls = raw_socket();
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	len = (socklen_t)urds_addr_to_sockaddr(&here, port, &ss);
	CHECK_EQ(bind(ls, (struct sockaddr *)&ss, len), 0);
	CHECK_EQ(listen(ls, 5), 0);
	x = dial(-1);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (char)(uint8_t)(3 + i * 31 + (i >> 8) * 7);
	CHECK_EQ(send(fd, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	usleep(10000);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	close(ls);
	usleep(10000);
	WAIT_FOR(x->connected && x->ended_hint);
	CHECK_EQ(x->connect_err, 0);
	ep_drain(x);
	CHECK_EQ(x->rx_pos, sizeof(buf));
	CHECK(x->has_ended);
	CHECK_EQ(x->l->end, URDS_LINK_RESET);
	finish(x);
	end();
}

static void go_silent(int fd)
{
	struct sock_filter drop = {.code = BPF_RET | BPF_K, .k = 0};
	const struct sock_fprog prog = {.len = 1, .filter = &drop};

	/* Drops every segment before TCP sees it: the other end meets a dead host. */
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)), 0);
}

static void silence_of_a_full_reader(void)
{
	struct ep *x, *y;
	urds_ns t0;

	begin(NULL);
	join(&x, &y);
	CHECK_EQ(t->data->silence(x->l), 0);
	do {
		while (ep_tx(x, 1 << 20, 4) > 0)
			;
		usleep(30000);
	} while (ep_tx(x, 1 << 20, 4) > 0);
	/* The window is shut, probes go out and are acknowledged. */
	for (t0 = urds_clock_ns(); urds_clock_ns() - t0 < URDS_MS(2500); usleep(50000))
		CHECK(t->data->silence(x->l) < URDS_MS(1500));
	CHECK_EQ(t->data->silence(x->l), 0);
	finish(x);
	end();
}

static void silence_of_a_dead_host(void)
{
	struct ep *x, *y;

	begin(NULL);
	join(&x, &y);
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	WAIT_FOR(t->data->acked(x->l) == 10);
	usleep(100000);
	CHECK_EQ(t->data->silence(x->l), 0); /* idle: nothing owed */
	go_silent(t->data->fd(y->l));
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	usleep(700000);
	CHECK(t->data->silence(x->l) >= URDS_MS(650));
	CHECK(t->data->silence(x->l) < URDS_MS(5000));
	CHECK_EQ(t->data->acked(x->l), 10);
	finish(x);
	end();
}

/* A child closes what it inherited; the parent's connection does not notice, and the child holds
 * neither the port nor a peer's bytes. */
static void fork_and_close(void)
{
	struct ep *x, *y;
	int status;
	pid_t pid;

	begin(NULL);
	join(&x, &y);
	urds_tcp_fork(t, URDS_TCP_FORK_PREPARE);
	pid = fork();
	if (pid == 0) {
		intptr_t fds[4];
		size_t before = fd_count(), n = urds_poller_fds(poller, fds, 4);

		urds_tcp_fork(t, URDS_TCP_FORK_CHILD);
		for (size_t i = 0; i < n; i++)
			close((int)fds[i]);
		/* Two ends, a listener, the spare, the poller. */
		_exit(before - fd_count() == 5 ? 0 : 1);
	}
	urds_tcp_fork(t, URDS_TCP_FORK_PARENT);
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	CHECK_EQ(ep_tx(x, 5000, 3), 5000);
	WAIT_FOR((ep_drain(y), y->rx_pos == 5000));
	CHECK(!y->ended_hint);
	finish(x);
	end();
}

static void names_and_sources(void)
{
	struct urds_addr a, from;

	begin(NULL);
	CHECK_EQ(t->resolve->name(t, "localhost", &a), 0);
	CHECK(t->resolve->is_local(t, &a));
	CHECK_EQ(t->resolve->name(t, "127.9.9.9", &a), 0);
	CHECK(t->resolve->is_local(t, &a));
	CHECK_EQ(t->resolve->source_for(t, &a, &from), 0);
	CHECK(t->resolve->is_local(t, &from));
	CHECK_EQ(t->resolve->name(t, "no such host", &a), -URDS_EINVAL);
	CHECK_EQ(t->resolve->name(t, "", &a), -URDS_EINVAL);
	CHECK_EQ(urds_addr_parse(&a, "::"), 0);
	CHECK_EQ(t->resolve->source_for(t, &a, &from), -URDS_EUNREACH);
	end();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	alarm(120);
	T_RUN(options_on_both_ends);
	T_RUN(one_call_each_way);
	T_RUN(restart_after_kill);
	T_RUN(one_owner_wins);
	T_RUN(accept_without_descriptors);
	T_RUN(accept_resumes_when_a_link_closes);
	T_RUN(lanes_find_the_free_port);
	T_RUN(reset_before_the_answer_was_seen);
	T_RUN(silence_of_a_full_reader);
	T_RUN(silence_of_a_dead_host);
	T_RUN(fork_and_close);
	T_RUN(names_and_sources);
	return t_done();
}
