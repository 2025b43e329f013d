/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The event log: the form of lines, what is held back, where lines go, and that nothing waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fork_settle.h"
#include "inside.h"
#include "runtime/eventlog.h"
#include "tap.h"
#include "urds/log.h"

static _Atomic unsigned nlines;
static char last[1200];
static int last_level;

static void keep(void *arg, int level, const char *line)
{
	snprintf(last, sizeof last, "%s", line);
	last_level = level;
	if (arg)
		atomic_fetch_add((_Atomic unsigned *)arg, 1);
	atomic_fetch_add(&nlines, 1);
}

/* Of an address that no other case uses, for lines are held back by it. */
static struct urds_addr fresh(void)
{
	static unsigned n;
	char ip[24];

	n++;
	snprintf(ip, sizeof ip, "10.%u.%u.1", n >> 8, n & 255);
	return v4(ip);
}

static void line_has_date_and_words(void)
{
	struct urds_addr l = v4("192.0.2.1"), r = v4("192.0.2.2");
	struct tm tm = {0};
	time_t before = time(NULL), at;
	char quoted[64];

	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, keep, NULL), 0);
	eventlog(EVENTLOG_WARN, "drop", &l, &r, " path=%u reason=%s", 3,
		 eventlog_quote(quoted, sizeof quoted, "a \"b\"\n\\c"));
	CHECK(strcmp(strchr(last, ' '),
		     " level=warn event=drop local=192.0.2.1 remote=192.0.2.2 path=3 "
		     "reason=\"a \\\"b\\\" \\\\c\"") == 0);
	CHECK_EQ(last_level, URDS_LOG_WARN);
	CHECK(strptime(last, "time=%Y-%m-%dT%H:%M:%S.", &tm));
	at = timegm(&tm);
	CHECK(at >= before && at <= time(NULL));
}

static void quotes_are_cut_to_fit(void)
{
	char buf[8];

	CHECK(strcmp(eventlog_quote(buf, sizeof buf, "abcdefghij"), "\"abcd\"") == 0);
	CHECK(strcmp(eventlog_quote(buf, sizeof buf, "\"\"\"\"\"\"\""), "\"\\\"\\\"\"") == 0);
	CHECK(strcmp(eventlog_quote(buf, sizeof buf, ""), "\"\"") == 0);
}

static void long_lines_are_cut(void)
{
	struct urds_addr r = fresh();
	char text[3000];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	eventlog(EVENTLOG_WARN, "drop", NULL, &r, " reason=%s", text);
	CHECK_EQ(strlen(last), 1023);
}

static void only_levels_asked_for(void)
{
	struct urds_addr r = fresh();
	unsigned n;

	CHECK_EQ(urds_log_to(URDS_LOG_WARN, keep, NULL), 0);
	n = atomic_load(&nlines);
	eventlog(EVENTLOG_INFO, "up", NULL, &r, " path=0");
	CHECK_EQ(atomic_load(&nlines), n);
	eventlog(EVENTLOG_WARN, "drop", NULL, &r, " path=0");
	CHECK_EQ(atomic_load(&nlines), n + 1);
	CHECK_EQ(urds_log_to(URDS_LOG_OFF, NULL, NULL), 0);
	eventlog(EVENTLOG_ERROR, "drop", NULL, &r, " path=0");
	CHECK_EQ(atomic_load(&nlines), n + 1);
	CHECK_EQ(urds_log_to((enum urds_log_level)5, keep, NULL), -1);
	CHECK_EQ(errno, EINVAL);
}

/* What repeats is held back and counted; another peer's lines, and another event's, pass. */
static void repeats_are_held_back(void)
{
	struct urds_addr r = fresh(), other = fresh();
	unsigned n, passed = 0;

	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, keep, NULL), 0);
	n = atomic_load(&nlines);
	for (unsigned i = 0; i < 100; i++)
		eventlog(EVENTLOG_WARN, "drop", NULL, &r, " n=%u", i);
	passed = atomic_load(&nlines) - n;
	CHECK(passed >= 5 && passed <= 5 + 60); /* one more for every second that this took */
	eventlog(EVENTLOG_WARN, "drop", NULL, &other, " n=1");
	eventlog(EVENTLOG_WARN, "up", NULL, &r, " n=1");
	CHECK_EQ(atomic_load(&nlines), n + passed + 2);
	for (unsigned i = 100; !strstr(last, "suppressed="); i++) {
		CHECK(i < 40000);
		eventlog(EVENTLOG_WARN, "drop", NULL, &r, " n=%u", i);
		usleep(1000);
	}
	CHECK(atoi(strstr(last, "suppressed=") + 11) >= (int)(100 - passed));
}

static _Atomic int step, nested;

static void slow_fn(void *arg, int level, const char *line)
{
	(void)level, (void)line;
	atomic_store(&nested, urds_log_to(URDS_LOG_OFF, NULL, NULL)); /* not from here */
	atomic_store(&step, 1);
	for (int i = 0; i < 100 && atomic_load((_Atomic int *)arg) == 0; i++)
		usleep(1000);
	atomic_store(&step, 2);
}

static void *say(void *arg)
{
	struct urds_addr r = fresh();

	(void)arg;
	eventlog(EVENTLOG_WARN, "slow", NULL, &r, " path=0");
	return NULL;
}

/* Once urds_log_to() has returned the former function is not running. */
static void former_function_has_returned(void)
{
	_Atomic int never = 0;
	pthread_t t;

	atomic_store(&step, 0);
	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, slow_fn, &never), 0);
	CHECK_EQ(pthread_create(&t, NULL, say, NULL), 0);
	while (atomic_load(&step) == 0)
		usleep(100);
	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, keep, NULL), 0);
	CHECK_EQ(atomic_load(&step), 2);
	pthread_join(t, NULL);
	CHECK_EQ(atomic_load(&nested), -1);
}

/* A pipe that nobody reads holds nobody up; what did not fit is told later. */
static void full_pipe_is_no_wait(void)
{
	int p[2], saved = dup(2);
	struct urds_addr r[100];
	char buf[4096], *found = NULL;
	ssize_t n;

	CHECK_EQ(pipe(p), 0);
	CHECK(fcntl(p[1], F_SETPIPE_SZ, 4096) == 4096 && fcntl(p[0], F_SETFL, O_NONBLOCK) == 0);
	CHECK_EQ(dup2(p[1], 2), 2);
	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, NULL, NULL), 0);
	alarm(60);
	for (unsigned i = 0; i < 100; i++) {
		r[i] = fresh();
		eventlog(EVENTLOG_WARN, "drop", NULL, &r[i], " path=0");
	}
	while ((n = read(p[0], buf, sizeof buf)) > 0)
		;
	for (unsigned i = 0; i < 50 && !found; i++) {
		eventlog(EVENTLOG_WARN, "after", NULL, &r[i], " path=0");
		n = read(p[0], buf, sizeof buf - 1);
		buf[n > 0 ? n : 0] = 0;
		found = strstr(buf, "suppressed=");
	}
	alarm(0);
	CHECK_EQ(urds_log_to(URDS_LOG_OFF, NULL, NULL), 0);
	CHECK_EQ(dup2(saved, 2), 2);
	close(saved);
	close(p[0]);
	close(p[1]);
	CHECK(found);
}

static _Atomic bool storms;
static _Atomic unsigned handled;

static void on_alarm(int sig)
{
	struct urds_addr r = v4("192.0.2.77");

	(void)sig;
	eventlog(EVENTLOG_WARN, "handler", NULL, &r, " path=0");
	atomic_fetch_add(&handled, 1);
}

static void *storm(void *arg)
{
	struct urds_addr r = v4("192.0.2.78");

	(void)arg;
	while (atomic_load(&storms))
		eventlog(EVENTLOG_WARN, "storm", NULL, &r, " path=0");
	return NULL;
}

/* Handlers that interrupt a line write one. */
static void handlers_write_lines(void)
{
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	_Atomic unsigned count = 0;
	pthread_t t[2];

	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, keep, &count), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	atomic_store(&storms, true);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, storm, NULL), 0);
	for (unsigned i = 0; i < 2000; i++) {
		pthread_kill(t[i & 1], SIGUSR1);
		if (i % 10 == 0)
			usleep(100);
	}
	atomic_store(&storms, false);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	CHECK(atomic_load(&count) > 0);
	CHECK(atomic_load(&handled) > 0);
}

static void child_of_a_fork_logs(void)
{
	struct urds_ctx *e;
	int status;
	pid_t pid;

	/* The fork handlers come with the first context. */
	CHECK_EQ(urds_open(NULL, &e), 0);
	CHECK_EQ(urds_log_to(URDS_LOG_DEBUG, keep, NULL), 0);
	fork_settle();
	pid = fork();
	if (pid == 0) {
		struct urds_addr r = fresh();
		unsigned n = atomic_load(&nlines);

		alarm(30);
		eventlog(EVENTLOG_WARN, "drop", NULL, &r, " path=0");
		_exit(atomic_load(&nlines) == n + 1 && urds_log_to(URDS_LOG_OFF, NULL, NULL) == 0
			      ? 0
			      : 1);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(urds_shutdown(e), 0);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(line_has_date_and_words);
	T_RUN(quotes_are_cut_to_fit);
	T_RUN(long_lines_are_cut);
	T_RUN(only_levels_asked_for);
	T_RUN(repeats_are_held_back);
	T_RUN(former_function_has_returned);
	T_RUN(full_pipe_is_no_wait);
	T_RUN(handlers_write_lines);
	T_RUN(child_of_a_fork_logs);
	return t_done();
}
