/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Further processes of a test: made, watched, reaped.
 */
#ifndef URDS_TESTS_PROCESSES_H
#define URDS_TESTS_PROCESSES_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clocks.h"
#include "fork_settle.h"

/* Not for programs that are started from here. */
static inline bool is_cloexec(int fd)
{
	return fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

/* Dies with its parent, so that a test that fails leaves nothing behind. */
static inline pid_t spawn(void)
{
	pid_t pid;

	fflush(stdout);
	fork_settle();
	pid = fork();
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static inline void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

/* What every thread of a process that does not end is in: a backtrace, if there is a debugger. */
static inline void say_where(pid_t pid)
{
	char cmd[160];

	snprintf(
		cmd, sizeof cmd,
		"timeout 60 gdb -p %d -batch -ex 'thread apply all bt 12' 2>/dev/null </dev/null | sed -n 's/^[#T]/# &/p'",
		(int)pid);
	printf("# process %d does not end:\n", (int)pid);
	fflush(stdout);
	if (system("command -v gdb >/dev/null") != 0 || system(cmd) != 0)
		printf("# (no debugger)\n");
}

/* Waits for a child of ours. Return: its exit status, 128 + signal, or -1 after @s seconds. */
static inline int reap_within(pid_t pid, unsigned s)
{
	uint64_t end = now_ns() + (uint64_t)s * slow() * 1000000000u;
	int st;

	for (;;) {
		pid_t got = waitpid(pid, &st, WNOHANG);

		if (got == pid)
			return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
		if (got < 0 || now_ns() > end) {
			if (got == 0)
				say_where(pid);
			kill(pid, SIGKILL);
			waitpid(pid, &st, 0);
			return -1;
		}
		nap_ms(1);
	}
}

#endif
