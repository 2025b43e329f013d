/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The system is POSIX, with the few things that Linux adds.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system.h"

const char tool_lists_addresses[] = "ip address";

/* A socket of ours would take the number of a standard stream that was closed, and what is printed would go to the peer.
 * What stands there instead fails as the closed one would. */
void tool_system_init(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) {
			fprintf(stderr, "urds: cannot open /dev/null: %s\n", strerror(errno));
			_exit(1);
		}
}

const char *tool_base_name(char *buf, size_t cap, const char *argv0)
{
	const char *slash = strrchr(argv0, '/');

	snprintf(buf, cap, "%s", slash ? slash + 1 : argv0);
	return buf;
}

/* Under nohup a hangup changes nothing. SIGINT, which shells ignore for what they run in the background, counts all the same:
 * who sends it there means it. */
static bool is_left_alone(int sig)
{
	struct sigaction was;

	return sig == SIGHUP && sigaction(sig, NULL, &was) == 0 && was.sa_handler == SIG_IGN;
}

static sigset_t ends(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (!is_left_alone(SIGHUP))
		sigaddset(&set, SIGHUP);
	return set;
}

void tool_ends_block(void)
{
	sigset_t set = ends();

	sigprocmask(SIG_BLOCK, &set, NULL);
}

void tool_ends_wait(void)
{
	sigset_t set = ends();
	int sig;

	sigwait(&set, &sig);
}

static volatile sig_atomic_t has_ended;

static void on_signal(int sig)
{
	has_ended = sig;
}

/* Output that is interrupted goes on: the C library would drop it. Waiting for descriptors ends all the same. */
static void note(const int *sigs, size_t n, int flags)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART | flags};

	for (size_t i = 0; i < n; i++)
		if (!is_left_alone(sigs[i]))
			sigaction(sigs[i], &sa, NULL);
}

void tool_ends_note(void)
{
	static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};

	note(sigs, sizeof(sigs) / sizeof(sigs[0]), 0);
}

/* One whose terminal has gone can show no summary to anybody. */
void tool_ends_note_first(void)
{
	static const int sigs[] = {SIGINT, SIGTERM};

	note(sigs, sizeof(sigs) / sizeof(sigs[0]), (int)SA_RESETHAND);
}

bool tool_ends_noted(void)
{
	return has_ended != 0;
}

bool tool_is_terminal(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

void tool_out_lock(void)
{
	flockfile(stdout);
}

void tool_out_unlock(void)
{
	funlockfile(stdout);
}

int tool_thread_id(void)
{
	return gettid();
}

unsigned tool_page_bytes(void)
{
	return (unsigned)sysconf(_SC_PAGESIZE);
}

void tool_unset_env(const char *name)
{
	unsetenv(name);
}

void tool_ignore_broken_pipes(void)
{
	signal(SIGPIPE, SIG_IGN);
}

const char *tool_strerror(int err)
{
	return strerror(err);
}

const char *tool_gai_error(int rc)
{
	return rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc);
}

static uint64_t clock_ns(clockid_t which)
{
	struct timespec ts;

	clock_gettime(which, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t tool_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t tool_date_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

bool tool_local_time(time_t t, struct tm *out)
{
	return localtime_r(&t, out) != NULL;
}

void tool_bytes(void)
{
}

/* After a call on @fd that returned @n: is it to be made again? Waits for a descriptor that somebody has made non-blocking. */
static bool again(ssize_t n, int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	if (n < 0 && errno == EAGAIN)
		return poll(&p, 1, -1) >= 0 || errno == EINTR;
	return n < 0 && errno == EINTR;
}

ssize_t tool_read(void *buf, size_t len)
{
	ssize_t n;

	do {
		n = read(STDIN_FILENO, buf, len);
	} while (again(n, STDIN_FILENO, POLLIN));
	return n;
}

ssize_t tool_write(const void *buf, size_t len)
{
	ssize_t n;

	do {
		n = write(STDOUT_FILENO, buf, len);
	} while (again(n, STDOUT_FILENO, POLLOUT));
	return n;
}

tool_sock tool_sock_open(int family, int type, bool is_nonblocking)
{
	return socket(family, type | SOCK_CLOEXEC | (is_nonblocking ? SOCK_NONBLOCK : 0), 0);
}

tool_sock tool_sock_accept(tool_sock listener, struct sockaddr_in *from)
{
	socklen_t len = sizeof(*from);

	return accept4(listener, (struct sockaddr *)from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

void tool_sock_close(tool_sock s)
{
	close(s);
}

ssize_t tool_sock_send(tool_sock s, const void *buf, size_t len)
{
	return send(s, buf, len, MSG_NOSIGNAL);
}

int tool_sock_error(void)
{
	return errno;
}

bool tool_sock_would_wait(void)
{
	return errno == EAGAIN || errno == EINTR;
}

int tool_sock_pending(tool_sock s)
{
	socklen_t len = sizeof(int);
	int err;

	return getsockopt(s, SOL_SOCKET, SO_ERROR, &err, &len) < 0 ? errno : err;
}

int tool_sock_bind_again(tool_sock s, const struct sockaddr *sa, socklen_t len)
{
	int on = 1;

	return setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(s, sa, len) < 0
		       ? errno
		       : 0;
}

int tool_poll(struct pollfd *v, unsigned n, uint64_t timeout_ns)
{
	struct timespec ts = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	int rc = ppoll(v, n, &ts, NULL);

	if (rc < 0 && errno == EINVAL)
		errno = EMFILE; /* more than the process may have now */
	return rc < 0 && errno == EINTR ? 0 : rc;
}
