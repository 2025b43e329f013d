/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The demo's nodes as processes of POSIX; on Linux they end with their parent.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo.h"

/* @parent: so that a parent that died before the next line is noticed. */
static void become_node(int fd, const char *self, const char *peer, pid_t parent)
{
	char exe[4096], number[16];
	char *args[] = {(char *)(uintptr_t) "urds",
			(char *)(uintptr_t) "demo",
			(char *)(uintptr_t) "--node",
			number,
			(char *)(uintptr_t)self,
			(char *)(uintptr_t)peer,
			NULL};
	ssize_t n;

	/* A terminal sends these to all; the parent sees to it that this one ends, and says why. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(TOOL_FAILED);
	snprintf(number, sizeof(number), "%d", fd);
	/* By name where possible, for emulators and checkers that know only real names. */
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = '\0';
		execv(exe, args);
	}
	execv("/proc/self/exe", args);
	_exit(127);
}

int demo_start(struct demo_process *p, const char *self, const char *peer)
{
	pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
		tool_error("cannot make a control channel: %s", strerror(errno));
		return -1;
	}
	p->pid = fork();
	if (p->pid == 0) {
		int fd = dup(fds[1]); /* this one survives exec */

		if (fd >= 0)
			become_node(fd, self, peer, parent);
		_exit(TOOL_FAILED);
	}
	close(fds[1]);
	p->channel = fds[0];
	if (p->pid < 0) {
		tool_error("cannot start a process: %s", strerror(errno));
		return -1;
	}
	return 0;
}

tool_sock demo_channel(long long number)
{
	return (int)number;
}

int demo_end(struct demo_process *p, uint64_t limit_ns, char *how, size_t cap)
{
	uint64_t end = tool_now_ns() + limit_ns;
	struct timespec step = {0, 2000000};
	int status = 0;

	while (waitpid((pid_t)p->pid, &status, WNOHANG) == 0) {
		if (tool_now_ns() >= end) {
			kill((pid_t)p->pid, SIGKILL);
			waitpid((pid_t)p->pid, NULL, 0);
			snprintf(how, cap, "did not end when told to");
			return -1;
		}
		nanosleep(&step, NULL);
	}
	if (status)
		snprintf(how, cap, "ended with %s %d", WIFSIGNALED(status) ? "signal" : "status",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return status ? -1 : 0;
}

void demo_last_resort(void)
{
	alarm(DEMO_LAST_RESORT_S);
}
