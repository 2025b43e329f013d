/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Owning an address and fork: what the child inherits must not keep the address, and must not work.
 * Public interface only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "urds/owner.h"
#include "urds/urds.h"

#include "fork_settle.h"
#include "own_network.h"
#include "tap.h"

static struct sockaddr_in at(const char *text)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};

	inet_pton(AF_INET, text, &sin.sin_addr);
	return sin;
}

static int claim(struct urds_ctx *ctx, const char *text)
{
	struct sockaddr_in sin = at(text);

	return urds_claim(ctx, (struct sockaddr *)&sin, sizeof(sin));
}

/* An owner that forks: @child runs in the child. Return: pid of the owner, once both are ready. */
static pid_t forking_owner(const char *text, void (*child)(struct urds_ctx *ctx, int fd), int *fd)
{
	int fds[2];
	pid_t pid;
	char c;

	if (pipe(fds) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		struct urds_ctx *ctx;

		close(fds[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed case leaves no owner behind */
		if (urds_open(NULL, &ctx) < 0 || claim(ctx, text) < 0)
			_exit(1);
		fork_settle();
		if (fork() == 0) {
			child(ctx, fds[1]);
			_exit(0);
		}
		close(fds[1]);
		pause();
		_exit(0);
	}
	close(fds[1]);
	*fd = fds[0];
	if (read(fds[0], &c, 1) != 1 || c != 'y')
		pid = -1;
	return pid;
}

static void lives_on(struct urds_ctx *ctx, int fd)
{
	struct pollfd p = {.fd = fd};

	/* Until the test closes its end. */
	if (write(fd, "y", 1) == 1)
		while (poll(&p, 1, -1) < 1)
			;
}

static void child__does_not_keep_the_address(void)
{
	struct urds_ctx *ctx;
	int fd, rc;
	pid_t pid = forking_owner("127.6.0.1", lives_on, &fd);

	CHECK(pid > 0);
	CHECK_EQ(urds_open(NULL, &ctx), 0);
	rc = claim(ctx, "127.6.0.1");
	CHECK(rc < 0 && errno == EADDRINUSE && strstr(urds_reason(), "owned by pid"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* The child lives, with whatever it inherited. */
	rc = claim(ctx, "127.6.0.1");
	if (rc < 0)
		printf("# %s\n", urds_reason());
	CHECK_EQ(rc, 0);
	urds_shutdown(ctx);
	close(fd);
}

static void uses_contexts(struct urds_ctx *ctx, int fd)
{
	struct urds_ctx *own;
	char c = 'y';

	/* The inherited one is dead, and says so; one of our own works. */
	if (urds_socket(ctx) || errno != EBADF)
		c = '1';
	else if (claim(ctx, "127.6.0.4") == 0 || errno != EBADF)
		c = '2';
	else if (urds_open(NULL, &own) < 0 || claim(own, "127.6.0.3") < 0)
		c = '3';
	else if (urds_shutdown(own) < 0)
		c = '4';
	if (c != 'y')
		fprintf(stderr, "# step %c: %s\n", c, urds_reason());
	if (write(fd, &c, 1) != 1)
		_exit(1);
}

static void child__may_open_its_own_context(void)
{
	int fd;
	pid_t pid = forking_owner("127.6.0.2", uses_contexts, &fd);

	CHECK(pid > 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
}

static void owner__still_answers_after_fork(void)
{
	struct sockaddr_in sin = at("127.6.0.5");
	struct urds_owner who;
	int fd;
	pid_t pid = forking_owner("127.6.0.5", lives_on, &fd);

	CHECK(pid > 0);
	CHECK_EQ(urds_owner_ident((struct sockaddr *)&sin, sizeof(sin), &who), 0);
	CHECK_EQ(who.pid, pid);
	CHECK_EQ(who.answered, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(urds_owner_ident((struct sockaddr *)&sin, sizeof(sin), &who) < 0);
	CHECK_EQ(errno, ENOTCONN);
	close(fd);
}

static void contexts__two_in_one_process_respect_each_other(void)
{
	struct urds_ctx *a, *b;
	int rc;

	CHECK_EQ(urds_open(NULL, &a), 0);
	CHECK_EQ(urds_open(NULL, &b), 0);
	CHECK_EQ(claim(a, "127.6.0.6"), 0);
	CHECK_EQ(claim(a, "127.6.0.6"), 0); /* again is fine */
	CHECK_EQ(claim(b, "127.6.0.7"), 0);
	rc = claim(b, "127.6.0.6");
	CHECK(rc < 0 && errno == EADDRINUSE && strstr(urds_reason(), "this process"));
	urds_shutdown(a);
	CHECK_EQ(claim(b, "127.6.0.6"), 0);
	urds_shutdown(b);
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	T_RUN(child__does_not_keep_the_address);
	T_RUN(child__may_open_its_own_context);
	T_RUN(owner__still_answers_after_fork);
	T_RUN(contexts__two_in_one_process_respect_each_other);
	return t_done();
}
