/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The event log: holding back what repeats, and the function that lines go to.
 *
 * A line may be written by a signal handler that interrupted another in this very code: nothing here waits for
 * another line.
 */
#include "runtime/eventlog.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/leave.h"
#include "platform/lock.h"
#include "platform/process.h"
#include "platform/textout.h"
#include "platform/thread.h"

#define LINE_MAX_BYTES 1024
/* Of one event and one remote address, and of all. */
#define BURST 5u
#define EVERY_NS URDS_SEC(1)
#define BURST_ALL 200u
#define EVERY_ALL_NS URDS_MS(10)
#define BUCKETS 256u
#define TRIES 100

struct sink {
	eventlog_fn *fn; /* NULL: to @out */
	void *arg;
	int out;
};

struct bucket {
	urds_ns at; /* up to when tokens were given; 0: not used yet */
	uint32_t tokens;
	uint32_t held; /* lines that were held back since one passed */
};

_Atomic int eventlog_level_;

static _Atomic(struct sink *) sink;
static _Atomic uint32_t inside; /* threads that may use a sink */
static struct urds_lock rate_lock, set_lock;
static _Atomic bool is_set;
static struct bucket buckets[BUCKETS], all;
static _Atomic uint32_t lost; /* lines that could not be written */
static _Thread_local bool is_inside;

/* ---------------------------------------------------------------- what is held back */

static bool take(struct bucket *b, urds_ns now, uint32_t burst, urds_ns every)
{
	uint64_t more = now > b->at ? (now - b->at) / every
				    : 0; /* read before the lock was taken */

	if (b->at == 0 || more >= burst) {
		b->tokens = burst;
		b->at = now;
	} else {
		b->tokens = b->tokens + (uint32_t)more < burst ? b->tokens + (uint32_t)more : burst;
		b->at += more * every;
	}
	if (b->tokens == 0)
		return false;
	b->tokens--;
	return true;
}

static uint32_t hash_of(const char *event, const struct urds_addr *remote)
{
	uint32_t h = 2166136261u;

	for (; *event; event++)
		h = (h ^ (unsigned char)*event) * 16777619u;
	for (size_t i = 0; remote && i < sizeof remote->ip; i++)
		h = (h ^ remote->ip[i]) * 16777619u;
	return h ^ h >> 15;
}

/* May this line pass? *held: how many did not, before it. */
static bool may_pass(const char *event, const struct urds_addr *remote, uint32_t *held)
{
	struct bucket *b = &buckets[hash_of(event, remote) % BUCKETS];
	urds_ns now = urds_clock_ns();
	bool ok;

	for (int i = 0; !urds_lock_try(&rate_lock); i++) {
		if (i == TRIES) { /* perhaps it is this thread's, below a handler */
			atomic_fetch_add(&lost, 1);
			return false;
		}
		urds_cpu_pause();
	}
	ok = take(b, now, BURST, EVERY_NS) && take(&all, now, BURST_ALL, EVERY_ALL_NS);
	if (ok) {
		*held = b->held + atomic_exchange(&lost, 0);
		b->held = 0;
	} else {
		b->held++;
	}
	urds_lock_release(&rate_lock);
	return ok;
}

/* ---------------------------------------------------------------- lines */

struct line {
	char text[LINE_MAX_BYTES];
	size_t len;
};

static void put(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put_v(struct line *l, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void put_v(struct line *l, const char *fmt, va_list ap)
{
	int n = vsnprintf(l->text + l->len, sizeof l->text - l->len, fmt, ap);

	if (n > 0)
		l->len = l->len + (size_t)n < sizeof l->text ? l->len + (size_t)n
							     : sizeof l->text - 1;
}

static void put(struct line *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_v(l, fmt, ap);
	va_end(ap);
}

/* Not by gmtime(): that takes a lock of the C library's. The days of a year are counted from March. */
static void put_date(struct line *l, uint64_t ns)
{
	uint64_t s = ns / 1000000000u, day = s / 86400 + 719468, era = day / 146097,
		 doe = day % 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365,
		 doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153,
		 month = mp < 10 ? mp + 3 : mp - 9;

	s %= 86400;
	put(l,
	    "time=%04" PRIu64 "-%02" PRIu64 "-%02" PRIu64 "T%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64
	    ".%06" PRIu64 "Z",
	    yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) / 5 + 1, s / 3600,
	    s / 60 % 60, s % 60, ns / 1000 % 1000000);
}

static void put_addr(struct line *l, const char *key, const struct urds_addr *a)
{
	char text[URDS_ADDR_STRLEN];

	if (a)
		put(l, " %s=%s", key, urds_addr_format(text, sizeof text, a));
}

char *eventlog_quote(char *buf, size_t cap, const char *text)
{
	size_t n = 0;

	buf[n++] = '"';
	for (; *text && n + 3 < cap; text++) {
		if (*text == '"' || *text == '\\')
			buf[n++] = '\\';
		buf[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
	}
	buf[n++] = '"';
	buf[n] = 0;
	return buf;
}

const char *const eventlog_levels[] = {
	[EVENTLOG_OFF] = "off",	  [EVENTLOG_ERROR] = "error", [EVENTLOG_WARN] = "warn",
	[EVENTLOG_INFO] = "info", [EVENTLOG_DEBUG] = "debug",
};

static void out(const struct sink *s, enum eventlog_level level, struct line *l)
{
	if (s->fn) {
		/* It may call what is a cancellation point; we are in the middle of a call. */
		int was = urds_cancel_off();

		s->fn(s->arg, (int)level, l->text);
		urds_cancel_back(was);
		return;
	}
	if (l->len == sizeof l->text - 1)
		l->len--;
	l->text[l->len++] = '\n';
	if (!urds_textout(s->out, l->text, l->len))
		atomic_fetch_add(&lost, 1);
}

void eventlog(enum eventlog_level level, const char *event, const struct urds_addr *local,
	      const struct urds_addr *remote, const char *more, ...)
{
	struct line l = {.len = 0};
	struct sink *s;
	uint32_t held;
	va_list ap;

	if (!eventlog_wants(level) || is_inside || !may_pass(event, remote, &held))
		return;
	put_date(&l, urds_wall_ns());
	put(&l, " level=%s event=%s", eventlog_levels[level], event);
	put_addr(&l, "local", local);
	put_addr(&l, "remote", remote);
	va_start(ap, more);
	put_v(&l, more, ap);
	va_end(ap);
	if (held)
		put(&l, " suppressed=%" PRIu32, held);
	is_inside = true;
	atomic_fetch_add(&inside, 1);
	s = atomic_load(&sink);
	if (s)
		out(s, level, &l);
	atomic_fetch_sub(&inside, 1);
	is_inside = false;
}

bool eventlog_is_set(void)
{
	return atomic_load(&is_set);
}

/* In a fork child nobody else is inside. */
static void fork_child(void)
{
	atomic_store(&inside, is_inside); /* by a log function that forks */
	urds_lock_init(&rate_lock);
	urds_lock_init(&set_lock);
}

static void setup(void)
{
	urds_at_fork(NULL, NULL, fork_child);
}

int eventlog_set(enum eventlog_level level, eventlog_fn *fn, void *arg, int to, bool anew)
{
	struct sink *s = NULL, *old;

	static struct urds_once once;

	if (is_inside)
		return -URDS_EINVAL;
	urds_once(&once, setup);
	if (level != EVENTLOG_OFF) {
		s = malloc(sizeof *s);
		if (!s)
			return -URDS_ENOMEM;
		*s = (struct sink){.fn = fn, .arg = arg, .out = to};
	}
	urds_lock_acquire(&set_lock);
	if (atomic_exchange(&is_set, true) && !anew) {
		urds_lock_release(&set_lock);
		free(s);
		return 0;
	}
	old = atomic_exchange(&sink, s);
	atomic_store(&eventlog_level_, (int)level);
	while (atomic_load(&inside))
		urds_thread_yield();
	urds_lock_release(&set_lock);
	if (old && !old->fn && old->out != URDS_TEXTOUT_STDERR)
		urds_textout_close(old->out);
	free(old);
	return 1;
}
