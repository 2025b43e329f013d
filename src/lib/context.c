/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Contexts and errors of the public interface.
 */
#include "lib/api.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record.h"
#include "platform/addr.h"
#include "platform/errno.h"
#include "platform/host.h"
#include "platform/process.h"

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
	struct urds_record_cfg cfg = {.ctx = n->e, .mode = "embedded", .info = record_info};
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

/* @rc: set on failure, with the reason. */
static uint64_t env_number(const char *name, uint64_t otherwise, uint64_t max, int *rc)
{
	const char *text = getenv(name);
	char *end;
	unsigned long long v;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	v = strtoull(text, &end, 0);
	if (!*end && errno == 0 && v <= max && !strchr(text, '-'))
		return v;
	*rc = urds_fail(URDS_EINVAL,
			"urds_open: %s=%s (environment): it must be a number from 0 to %" PRIu64,
			name, text, max);
	return otherwise;
}

/* One of the networks, @len bytes of @text: 0 or -URDS_EINVAL. */
static int parse_net(const char *text, size_t len, struct urds_net *out)
{
	char one[URDS_ADDR_STRLEN + 4], *slash, *end;
	unsigned long bits;

	if (len >= sizeof one)
		return -URDS_EINVAL;
	memcpy(one, text, len);
	one[len] = 0;
	slash = strchr(one, '/');
	if (slash)
		*slash = 0;
	if (urds_addr_parse(&out->addr, one) < 0 || out->addr.scope != 0)
		return -URDS_EINVAL;
	out->bits = 128;
	if (!slash)
		return 0;
	bits = strtoul(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end)
		return -URDS_EINVAL;
	if (urds_addr_is_v4(&out->addr))
		bits = bits <= 32 ? bits + 96 : 129;
	if (bits > 128)
		return -URDS_EINVAL;
	out->bits = (uint8_t)bits;
	return 0;
}

/* Return: 0 or -1 after urds_fail(). *nets: from malloc(). */
static int parse_nets(const char *text, const char *who, struct urds_net **nets, size_t *n)
{
	size_t max = 1;

	*nets = NULL;
	*n = 0;
	if (!text || !*text)
		return 0;
	for (const char *c = text; *c; c++)
		max += *c == ',';
	*nets = calloc(max, sizeof **nets);
	if (!*nets)
		return urds_fail(URDS_ENOMEM, "urds_open: out of memory");
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");

		if (parse_net(at, len, &(*nets)[(*n)++]) < 0) {
			free(*nets);
			return urds_fail(URDS_EINVAL,
					 "urds_open: %s=%s: '%.*s' is no network: give ADDRESS or "
					 "ADDRESS/BITS, with commas between several",
					 who, text, (int)len, at);
		}
		at += len;
		if (!*at)
			return 0;
	}
}

static uint64_t memory_default(void)
{
	uint64_t all = urds_host_memory();

	return all ? all / 4 : 1ull << 30;
}

int urds_open(const struct urds_config *user, struct urds_ctx **out)
{
	struct urds_config c = {0};
	struct engine_config cfg;
	int rc, cancel;

	if (user) {
		if (user->size < offsetof(struct urds_config, reserved) || user->size > sizeof c)
			return urds_fail(
				URDS_EINVAL,
				"urds_open: config size %u is not one this library knows (%u): set "
				"size = sizeof(struct urds_config)",
				(unsigned)user->size, (unsigned)sizeof c);
		memcpy(&c, user, user->size);
	} else {
		rc = 0;
		c.flags = env_number("URDS_EXT", 1, 1, &rc) ? 0 : URDS_CONFIG_NO_EXT;
		c.flags |= env_number("URDS_SPIN", 1, 1, &rc) ? 0 : URDS_CONFIG_NO_SPIN;
		c.paths = (uint32_t)env_number("URDS_PATHS", 0, URDS_PATHS_MAX, &rc);
		c.spin_us = (uint32_t)env_number("URDS_SPIN_US", 0, UINT32_MAX, &rc);
		c.memory_max = env_number("URDS_MEMORY", 0, UINT64_MAX, &rc);
		c.peers = getenv("URDS_PEERS");
		if (rc < 0)
			return rc;
	}
	if (c.paths > URDS_PATHS_MAX || (c.paths & (c.paths - 1)))
		return urds_fail(URDS_EINVAL, "urds_open: %s %u: it must be 1, 2, 4 or 8",
				 user ? "paths =" : "the environment's URDS_PATHS =", c.paths);
	if (c.tcp_port > 65535)
		return urds_fail(URDS_EINVAL, "urds_open: tcp_port = %u: no such port", c.tcp_port);
	cfg = (struct engine_config){
		.ext = !(c.flags & URDS_CONFIG_NO_EXT),
		.spin = !(c.flags & URDS_CONFIG_NO_SPIN),
		.record = !(c.flags & URDS_CONFIG_NO_RECORD),
		.paths = c.paths ? c.paths : 1,
		.spin_us = c.spin_us ? c.spin_us : 50,
		.peers_max = c.peers_max ? c.peers_max : URDS_PEERS_MAX,
		.tcp_port = (uint16_t)c.tcp_port,
		.rest_ns = URDS_REST_NS,
		.memory_max = c.memory_max ? c.memory_max : memory_default(),
	};
	if (parse_nets(c.peers, user ? "peers" : "URDS_PEERS", &cfg.nets, &cfg.nnets) < 0)
		return -1;
	/* It reads a file with the C library's functions, where a thread could be cancelled. */
	cancel = urds_cancel_off();
	rc = engine_new(&cfg, out);
	urds_cancel_back(cancel);
	if (rc < 0) {
		free(cfg.nets);
		return urds_fail(-rc, "urds_open: out of memory or descriptors");
	}
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

struct urds_ctx *urds_ctx_of(struct urds_ctx *ctx)
{
	static struct urds_once once;

	if (ctx)
		return ctx;
	urds_once(&once, default_setup);
	urds_lock_acquire(&default_lock);
	/* A fork child's default is its own. */
	if (!default_ctx || atomic_load(&default_ctx->is_dead)) {
		default_ctx = NULL;
		if (urds_open(NULL, &default_ctx) < 0)
			default_ctx = NULL;
	}
	ctx = default_ctx;
	urds_lock_release(&default_lock);
	return ctx;
}

int urds_shutdown(struct urds_ctx *ctx)
{
	int cancel;

	if (!ctx) {
		urds_lock_acquire(&default_lock);
		ctx = default_ctx;
		default_ctx = NULL;
		urds_lock_release(&default_lock);
	}
	if (!ctx)
		return 0;
	if (atomic_load(&ctx->is_dead))
		return urds_fail(URDS_EBADF,
				 "urds_shutdown: the context belongs to the parent process");
	cancel = urds_cancel_off();
	engine_free(ctx, URDS_SEC(2));
	urds_cancel_back(cancel);
	return 0;
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
		return urds_fail(
			URDS_EADDRINUSE,
			"listen %s:%u (tcp): address in use; is the kernel's rds_tcp loaded (lsmod), or "
			"does another program listen there (ss -ltnp)?",
			text, URDS_TCP_PORT);
	if (rc == -URDS_EADDRNOTAVAIL)
		return urds_fail(
			URDS_EADDRNOTAVAIL,
			"bind %s: not an address of this host; see 'ip addr' for those that are",
			text);
	if (rc == -URDS_EMFILE)
		return urds_fail(
			URDS_EMFILE,
			"bind %s: no descriptor left; raise the limit of open files (ulimit -n)",
			text);
	return urds_fail(-rc, "bind %s: %s", text,
			 rc == -URDS_EINVAL ? "invalid, or already bound" : "failed");
}

int urds_claim(struct urds_ctx *ctx, const struct sockaddr *addr, socklen_t len)
{
	struct urds_ctx *e = urds_ctx_of(ctx);
	struct urds_addr a;
	int rc, cancel;

	if (!e || address(addr, len, &a, "urds_claim") < 0)
		return -1;
	if (atomic_load(&e->is_dead))
		return urds_fail(
			URDS_EBADF,
			"urds_claim: the context belongs to the parent process; open your own");
	if (urds_addr_is_any(&a))
		return urds_fail(
			URDS_EINVAL,
			"urds_claim: 0.0.0.0 and :: are no RDS addresses; name one of this host");
	urds_record_why[0] = 0;
	cancel = urds_cancel_off();
	rc = node_get(e, &a, NULL, NULL);
	urds_cancel_back(cancel);
	return rc < 0 ? urds_fail_bind(rc, &a, 0, false) : 0;
}

int urds_reset(struct urds_ctx *ctx, const struct sockaddr *local, const struct sockaddr *remote)
{
	struct urds_ctx *e = urds_ctx_of(ctx);
	struct urds_addr l, r;
	struct peer *p;
	unsigned n;

	if (!e)
		return -1;
	if (atomic_load(&e->is_dead))
		return urds_fail(
			URDS_EBADF,
			"urds_reset: the context belongs to the parent process; open your own");
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
