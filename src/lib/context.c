/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contexts and errors of the public interface.
 */
#include "lib/api.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record.h"
#include "lib/settings.h"
#include "platform/addr.h"
#include "platform/errno.h"
#include "platform/clock.h"
#include "platform/host.h"
#include "platform/process.h"
#include "platform/words.h"
#include "runtime/call.h"
#include "runtime/eventlog.h"

static _Thread_local int last_err;
static _Thread_local char reason[512];
_Thread_local char urds_record_why[URDS_RECORD_WHY_MAX];

static struct urds_lock default_lock;
static struct urds_ctx *default_ctx;

int urds_fail(int err, const char *fmt, ...)
{
	va_list ap;

	last_err = err;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof reason, fmt, ap);
	va_end(ap);
	if (eventlog_wants(EVENTLOG_INFO))
		urds_log_call(err, reason);
	errno = urds_err_to_errno(err);
	return -1;
}

const char *urds_reason(void)
{
	return reason;
}

int urds_errno(void)
{
	return last_err;
}

const char *urds_version(void)
{
	return URDS_VERSION;
}

/* ---------------------------------------------------------------- ownership records */

static int record_info(struct urds_ctx *ctx, int id, void *buf, size_t cap, size_t *need)
{
	size_t len = cap;
	int rc = engine_info(ctx, id, buf, &len);

	*need = len;
	if (rc == -URDS_ENOSPC)
		return engine_info_size(id);
	return rc;
}

static int take_record(struct node *n)
{
	struct urds_record_cfg cfg = {.ctx = n->e,
				      .mode = "embedded",
				      .info = record_info,
				      .watch = n->e->cfg.no_threads ? engine_hub_watch : NULL};
	struct urds_record *r;
	int rc = urds_record_take(&n->addr, &cfg, &r, urds_record_why, sizeof urds_record_why);

	if (rc == 0)
		n->record = r;
	return rc;
}

static void drop_record(void *record)
{
	urds_record_drop(record);
}

/* ---------------------------------------------------------------- open and close */

static uint64_t memory_default(void)
{
	uint64_t all = urds_host_memory();

	return all ? all / 4 : 1ull << 30;
}

/* @from: where they are from, or NULL: the program. */
static int check(const struct urds_config *c, struct urds_settings *from)
{
	if (c->paths > URDS_PATHS_MAX || (c->paths & (c->paths - 1)))
		return urds_fail(URDS_EINVAL, "urds_open: %s = %u: it must be 1, 2, 4 or 8",
				 urds_settings_name(from, URDS_SET_PATHS), c->paths);
	if (c->tcp_port > 65535)
		return urds_fail(URDS_EINVAL, "urds_open: tcp_port = %u: no such port",
				 c->tcp_port);
	return 0;
}

/* What the program, the environment and the file say. Return: 0 or -1 after urds_fail(). */
static int configure(const struct urds_config *user, struct urds_settings *settings,
		     struct engine_config *cfg)
{
	struct urds_settings *from = user ? NULL : settings;
	struct urds_config c = {0};

	if (user && (user->size < offsetof(struct urds_config, reserved) || user->size > sizeof c))
		return urds_fail(
			URDS_EINVAL,
			"urds_open: config size %u is not one this library knows (%u): set "
			"size = sizeof(struct urds_config)",
			(unsigned)user->size, (unsigned)sizeof c);
	if (user)
		memcpy(&c, user, user->size);
	if (urds_settings_read(settings, !user) < 0 || urds_log_setup(settings) < 0 ||
	    (!user && urds_settings_config(settings, &c) < 0) || check(&c, from) < 0)
		return -1;
	*cfg = (struct engine_config){
		.ext = !(c.flags & URDS_CONFIG_NO_EXT),
		.spin = !(c.flags & URDS_CONFIG_NO_SPIN),
		.record = !(c.flags & URDS_CONFIG_NO_RECORD),
		.no_tcp_acks = c.flags & URDS_CONFIG_NO_TCP_ACKS,
		.no_threads = c.flags & URDS_CONFIG_NO_THREADS,
		.paths = c.paths ? c.paths : 1,
		.spin_us = c.spin_us ? c.spin_us : 50,
		.peers_max = c.peers_max ? c.peers_max : URDS_PEERS_MAX,
		.tcp_port = (uint16_t)c.tcp_port,
		.rest_ns = URDS_REST_NS,
		.memory_max = c.memory_max ? c.memory_max : memory_default(),
	};
	return urds_settings_nets(c.peers, from, &cfg->nets, &cfg->nnets);
}

int urds_open(const struct urds_config *user, struct urds_ctx **out)
{
	struct urds_settings settings = {0};
	struct engine_config cfg;
	int rc, cancel;

	/* It reads files with the C library's functions, where a thread could be cancelled. */
	cancel = urds_cancel_off();
	rc = configure(user, &settings, &cfg);
	urds_settings_free(&settings);
	if (rc == 0) {
		rc = engine_new(&cfg, out);
		if (rc < 0) {
			free(cfg.nets);
			rc = urds_fail(-rc, "urds_open: out of memory or descriptors");
		}
	}
	urds_cancel_back(cancel);
	if (rc < 0)
		return rc;
	(*out)->take_record = take_record;
	(*out)->drop_record = drop_record;
	(*out)->stop_records = urds_record_stop;
	return 0;
}

/* Another thread of the parent may have been making its default context. */
static void default_fork_child(void) URDS_UNCHECKED
{
	urds_lock_init(&default_lock);
}

static void default_setup(void)
{
	urds_at_fork(NULL, NULL, default_fork_child);
}

/* The default context, entered, opened when needed. NULL after urds_fail(). */
static struct urds_ctx *default_enter(void)
{
	static struct urds_once once;
	struct urds_ctx *e;

	urds_once(&once, default_setup);
	urds_lock_acquire(&default_lock);
	/* A fork child's default is its own. */
	if (!default_ctx || atomic_load(&default_ctx->is_dead)) {
		default_ctx = NULL;
		if (urds_open(NULL, &default_ctx) < 0)
			default_ctx = NULL;
	}
	e = default_ctx;
	if (e && !engine_enter(e)) {
		urds_fail(URDS_EBADF, "the process ends, and with it its default context");
		e = NULL;
	}
	urds_lock_release(&default_lock);
	return e;
}

struct urds_ctx *urds_ctx_enter(struct urds_ctx *ctx, const char *what)
{
	if (!ctx)
		return default_enter();
	if (!engine_enter(ctx)) {
		urds_fail(URDS_EBADF, "%s: the context was shut down", what);
		return NULL;
	}
	if (!atomic_load(&ctx->is_dead))
		return ctx;
	engine_leave(ctx);
	urds_fail(URDS_EBADF, "%s: the context belongs to the parent process; open your own", what);
	return NULL;
}

int urds_shutdown(struct urds_ctx *ctx)
{
	int cancel, rc;

	if (!ctx) {
		urds_lock_acquire(&default_lock);
		ctx = default_ctx;
		default_ctx = NULL;
		urds_lock_release(&default_lock);
	}
	if (!ctx)
		return 0;
	/* It is looked at again, and no longer entered, by engine_free(). */
	if (!urds_ctx_enter(ctx, "urds_shutdown"))
		return -1;
	engine_leave(ctx);
	cancel = urds_cancel_off();
	rc = engine_free(ctx, URDS_SEC(2));
	urds_cancel_back(cancel);
	return rc < 0 ? urds_fail(-rc, "urds_shutdown: another thread does that") : 0;
}

/* A context that the program drives, entered. NULL after urds_fail(). */
static struct urds_ctx *driven_enter(struct urds_ctx *ctx, const char *what)
{
	struct urds_ctx *e = ctx ? urds_ctx_enter(ctx, what) : NULL;

	if (e && e->cfg.no_threads)
		return e;
	if (e)
		engine_leave(e);
	if (e || !ctx)
		urds_fail(URDS_EINVAL,
			  "%s: the context has threads of its own: open one with "
			  "URDS_CONFIG_NO_THREADS",
			  what);
	return NULL;
}

int urds_context_fd(struct urds_ctx *ctx)
{
	struct urds_ctx *e = driven_enter(ctx, "urds_context_fd");
	int fd;

	if (!e)
		return -1;
	fd = engine_hub_fd(e);
	engine_leave(e);
	if (fd == -URDS_EOPNOTSUPP)
		return urds_fail(-fd, "urds_context_fd: this system has no such descriptor: call "
				      "urds_progress() from time to time");
	return fd < 0 ? urds_fail(-fd, "urds_context_fd: no descriptor: %s", urds_words.files) : fd;
}

/* Return: as urds_progress(). */
static int progress(struct urds_ctx *e)
{
	static _Thread_local volatile sig_atomic_t is_inside;
	int asked, cancel;
	urds_ns next, now;

	/* Also finds out that an earlier call was left by longjmp. */
	if (is_inside || !call_enter())
		return urds_fail(URDS_EAGAIN, "urds_progress: in a signal handler that interrupted "
					      "another call");
	call_leave();
	if (call_me.state != CALL_OUT)
		return urds_fail(URDS_EAGAIN, "urds_progress: in a signal handler that interrupted "
					      "a call that waits");
	is_inside = 1;
	cancel = urds_cancel_off();
	asked = urds_record_progress(e); /* which makes calls of its own */
	(void)call_enter();
	now = urds_clock_ns();
	next = engine_progress(e, asked < 0 ? URDS_NEVER : now + URDS_MS(asked));
	call_leave();
	urds_cancel_back(cancel);
	is_inside = 0;
	if (next == URDS_NEVER || next > now + URDS_MS(INT_MAX))
		return INT_MAX;
	return next > now ? (int)((next - now + URDS_MS(1) - 1) / URDS_MS(1)) : 0;
}

int urds_progress(struct urds_ctx *ctx)
{
	struct urds_ctx *e = driven_enter(ctx, "urds_progress");
	int rc;

	if (!e)
		return -1;
	rc = progress(e);
	engine_leave(e);
	return rc;
}

static int address(const struct sockaddr *sa, socklen_t len, struct urds_addr *out,
		   const char *what)
{
	if (urds_addr_from_sockaddr(out, NULL, sa, urds_len(len)) < 0)
		return urds_fail(URDS_EINVAL, "%s: not an IPv4 or IPv6 address", what);
	return 0;
}

/* @rc of taking @a for ourselves. */
int urds_fail_bind(int rc, const struct urds_addr *a, uint16_t port, bool is_ours)
{
	char text[URDS_ADDR_STRLEN];

	urds_addr_format(text, sizeof text, a);
	if (rc == -URDS_EADDRINUSE && urds_record_why[0])
		return urds_fail(URDS_EADDRINUSE, "%s", urds_record_why);
	if (rc == -URDS_EADDRINUSE && port && is_ours)
		return urds_fail(
			URDS_EADDRINUSE,
			"bind %s:%u: the port is taken; choose another, or 0 for a free one", text,
			port);
	if (rc == -URDS_EADDRINUSE)
		return urds_fail(URDS_EADDRINUSE, "listen %s:%u (tcp): address in use; %s", text,
				 URDS_TCP_PORT, urds_words.port);
	if (rc == -URDS_EADDRNOTAVAIL)
		return urds_fail(
			URDS_EADDRNOTAVAIL,
			"bind %s: not an address of this host; see '%s' for those that are", text,
			urds_words.addresses);
	if (rc == -URDS_EMFILE)
		return urds_fail(URDS_EMFILE, "bind %s: no descriptor left; %s", text,
				 urds_words.files);
	return urds_fail(-rc, "bind %s: %s", text,
			 rc == -URDS_EINVAL  ? "invalid, or already bound"
			 : rc == -URDS_EBADF ? "the socket was closed, or its context shut down"
					     : "failed");
}

static int claim(struct urds_ctx *e, const struct sockaddr *addr, socklen_t len)
{
	struct urds_addr a;
	int rc, cancel;

	if (address(addr, len, &a, "urds_claim") < 0)
		return -1;
	if (!urds_is_unicast(&a))
		return urds_fail(
			URDS_EINVAL,
			"urds_claim: not a unicast address; name one of this host (never 0.0.0.0)");
	urds_record_why[0] = 0;
	cancel = urds_cancel_off();
	rc = node_get(e, &a, NULL, NULL);
	urds_cancel_back(cancel);
	return rc < 0 ? urds_fail_bind(rc, &a, 0, false) : 0;
}

int urds_claim(struct urds_ctx *ctx, const struct sockaddr *addr, socklen_t len)
{
	struct urds_ctx *e = urds_ctx_enter(ctx, "urds_claim");
	int rc;

	if (!e)
		return -1;
	rc = claim(e, addr, len);
	engine_leave(e);
	return rc;
}

/* Return: as urds_reset(). */
static int reset(struct urds_ctx *e, const struct sockaddr *local, const struct sockaddr *remote)
{
	struct urds_addr l, r;
	struct peer *p;
	unsigned n;

	if (urds_addr_from_sockaddr(&l, NULL, local, sizeof(struct sockaddr_storage)) < 0 ||
	    urds_addr_from_sockaddr(&r, NULL, remote, sizeof(struct sockaddr_storage)) < 0)
		return urds_fail(URDS_EINVAL, "urds_reset: not an IPv4 or IPv6 address");
	p = peer_find(e, &l, &r);
	if (!p)
		return urds_fail(URDS_ENOTCONN,
				 "urds_reset: these two addresses have no connection");
	n = peer_reset(p);
	engine_run_loop(e); /* the other end, if it is here */
	peer_drop(p);
	return (int)n;
}

int urds_reset(struct urds_ctx *ctx, const struct sockaddr *local, const struct sockaddr *remote)
{
	struct urds_ctx *e = urds_ctx_enter(ctx, "urds_reset");
	int rc;

	if (!e)
		return -1;
	rc = reset(e, local, remote);
	engine_leave(e);
	return rc;
}
