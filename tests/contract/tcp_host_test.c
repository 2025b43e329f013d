/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * transport/tcp among the host's other users: predecessors in TIME_WAIT, rivals for the port, no
 * descriptors left, few source ports, fork.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/wait.h>

#include "host.h"
#include "own_network.h"
#include "platform/posix/fds.h"
#include "plugs.h"
#include "raw.h"
#include "tcp_bed.h"

/* An owner is killed with connections open: its ends go to TIME_WAIT (it closed first), and the
 * next owner must not wait for them. */
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

		urds_fds_fork(URDS_FORK_PREPARE);
		urds_fds_fork(URDS_FORK_CHILD);
		if (urds_poller_new(&poller) < 0 ||
		    urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t) < 0 ||
		    t->connect->listen(t, &here, &door, &listener) < 0 ||
		    write(sync[1], "r", 1) != 1)
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

static void raw_connect(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(&here, port, &ss);

	CHECK_EQ(connect(fd, (struct sockaddr *)&ss, len), 0);
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

static unsigned accepted, floods;

/* Whoever is let in is followed by another. */
static void flood_on_accept(struct urds_listener *ls, struct urds_link *l,
			    const struct urds_addr *from, uint16_t from_port)
{
	int fd;

	l->t->connect->close(l, URDS_CLOSE_RESET);
	accepted++;
	if (accepted >= floods)
		return;
	fd = raw_socket();
	raw_connect(fd);
	close(fd);
}

/* Connections that come as fast as they are accepted let the poller's thread go, and are all accepted in the end. */
static void accept_has_an_end(void)
{
	static const struct urds_link_sink flood = {.on_accept = flood_on_accept};
	int fd;

	begin(NULL);
	t->sink = &flood;
	accepted = 0;
	floods = 1000;
	fd = raw_socket();
	raw_connect(fd);
	close(fd);
	while (accepted == 0)
		(void)urds_poller_wait(poller, URDS_MS(20));
	CHECK(accepted < floods);
	WAIT_FOR(accepted == floods);
	(void)urds_poller_wait(poller, 0);
	end();
}

/* No spare either: connections wait until a link of ours gives its descriptor back. */
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

/* In a network namespace with four source ports per lane. */
static void lanes_find_the_free_port(void)
{
	struct ep *e[5];
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int fd;

		if (!own_network())
			_exit(77);
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
				size_t fds = host_fd_count();

				e[4] = dial(lane);
				if (e[4]->connect_err != -URDS_EADDRINUSE || host_fd_count() != fds)
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

/* A child closes what it inherited; the parent's connection does not notice, and the child holds
 * neither the port nor a peer's bytes. */
static void fork_and_close(void)
{
	struct ep *x, *y;
	int status;
	pid_t pid;

	begin(NULL);
	join(&x, &y);
	urds_fds_fork(URDS_FORK_PREPARE);
	pid = fork();
	if (pid == 0) {
		size_t before = host_fd_count();

		urds_fds_fork(URDS_FORK_CHILD);
		/* Two ends, a listener, the spare, the poller. */
		_exit(before - host_fd_count() == 5 ? 0 : 1);
	}
	urds_fds_fork(URDS_FORK_PARENT);
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	CHECK_EQ(ep_tx(x, 5000, 3), 5000);
	WAIT_FOR((ep_drain(y), y->rx_pos == 5000));
	CHECK(!y->ended_hint);
	finish(x);
	end();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	host_init(120);
	T_RUN(restart_after_kill);
	T_RUN(one_owner_wins);
	T_RUN(accept_without_descriptors);
	T_RUN(accept_has_an_end);
	T_RUN(accept_resumes_when_a_link_closes);
	T_RUN(lanes_find_the_free_port);
	T_RUN(fork_and_close);
	T_RUN(names_and_sources);
	return t_done();
}
