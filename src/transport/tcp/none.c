/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Only until connect.c, data.c, link.c, resolve.c and tcp.c build on Windows; it goes away with that. A transport that
 * reaches nobody: addresses are asked of the system, connections to others fail with EOPNOTSUPP, none come.
 */
#include <stdlib.h>

#include "platform/addr.h"
#include "platform/net.h"
#include "transport/tcp/tcp.h"

struct none {
	struct urds_transport base;
	struct urds_tcp_stats stats;
};

static bool is_local(struct urds_transport *t, const struct urds_addr *a)
{
	struct sockaddr_storage ss;
	int len = (int)urds_addr_to_sockaddr(a, 0, &ss);
	SOCKET s;
	int on = 1;
	bool yes;

	if (urds_addr_is_any(a))
		return false;
	s = socket(ss.ss_family, SOCK_STREAM, 0);
	if (s == INVALID_SOCKET)
		return false;
	yes = setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on, sizeof on) == 0 &&
	      bind(s, (struct sockaddr *)&ss, len) == 0;
	closesocket(s);
	return yes;
}

static int source_for(struct urds_transport *t, const struct urds_addr *to, struct urds_addr *from)
{
	if (!is_local(t, to))
		return -URDS_EUNREACH;
	*from = *to;
	return 0;
}

static int name(struct urds_transport *t, const char *text, struct urds_addr *out)
{
	return urds_addr_parse(out, text);
}

static int none_listen(struct urds_transport *t, const struct urds_addr *addr, void *user,
		       struct urds_listener **out)
{
	struct urds_listener *ls = calloc(1, sizeof *ls);

	if (!ls)
		return -URDS_ENOMEM;
	*ls = (struct urds_listener){.t = t, .addr = *addr, .user = user};
	*out = ls;
	return 0;
}

static void none_unlisten(struct urds_listener *ls)
{
	if (ls->t->sink->on_unlistened)
		ls->t->sink->on_unlistened(ls);
	free(ls);
}

static int none_dial(struct urds_transport *t, const struct urds_addr *local,
		     const struct urds_addr *remote, int lane, void *user, struct urds_link **out)
{
	return -URDS_EOPNOTSUPP;
}

/* No link is ever made, so nothing of a link is ever called. */
const struct urds_data_ops urds_tcp_data = {.name = "none"};
const struct urds_connect_ops urds_tcp_connect = {
	.listen = none_listen, .unlisten = none_unlisten, .dial = none_dial};
const struct urds_resolve_ops urds_tcp_resolve = {
	.is_local = is_local, .source_for = source_for, .name = name};

int urds_tcp_new(const struct urds_tcp_config *config, struct urds_poller *poller,
		 const struct urds_link_sink *sink, void *user, struct urds_transport **out)
{
	struct none *n = calloc(1, sizeof *n);

	if (!n)
		return -URDS_ENOMEM;
	n->base = (struct urds_transport){.data = &urds_tcp_data,
					  .connect = &urds_tcp_connect,
					  .resolve = &urds_tcp_resolve,
					  .sink = sink,
					  .user = user};
	*out = &n->base;
	return 0;
}

void urds_tcp_free(struct urds_transport *t)
{
	free(t);
}

struct urds_tcp_stats *urds_tcp_stats(struct urds_transport *t)
{
	return &urds_container_of(t, struct none, base)->stats;
}

void urds_tcp_rearm(struct urds_transport *t)
{
}

bool urds_tcp_is_starved(struct urds_transport *t)
{
	return false;
}

void urds_tcp_unstarve(struct urds_transport *t)
{
}
