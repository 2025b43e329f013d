/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Connections out: the source port says the lane.
 */
#include "transport/tcp/tcp_internal.h"

#include "platform/addr.h"
#include "platform/random.h"

/* All of these in use is a host in trouble; a dial must not take milliseconds then. */
#define PORT_TRIES 512

static int dial_from_lane(struct tcp_link *l, const struct urds_addr *local, unsigned lane,
			  const struct sockaddr_storage *to, socklen_t to_len)
{
	const struct tcp *t = urds_tcp_of(l->base.t);
	unsigned first = t->port_lo + ((lane - t->port_lo) & 7), count, start;
	int rc = -URDS_EADDRINUSE;

	count = (t->port_hi - first) / 8 + 1;
	start = (unsigned)(urds_random64() % count);
	for (unsigned i = 0; i < count && i < PORT_TRIES; i++) {
		unsigned port = first + (start + i) % count * 8;

		/* Never the service port: it would keep our own listener from binding. */
		if (port == t->cfg.port || port == URDS_TCP_PORT)
			continue;
		rc = urds_tcp_try_dial(l, local, (uint16_t)port, to, to_len);
		if (rc != -URDS_EADDRINUSE)
			break;
	}
	return rc;
}

static int dial(struct urds_transport *base, const struct urds_addr *local,
		const struct urds_addr *remote, int lane, void *user, struct urds_link **out)
{
	struct tcp *t = urds_tcp_of(base);
	struct urds_addr target = *remote;
	struct sockaddr_storage to;
	struct tcp_link *l;
	socklen_t to_len;
	int rc;

	if (urds_addr_is_any(local) || urds_addr_is_any(remote) || lane < -1 || lane > 7 ||
	    urds_addr_is_v4(local) != urds_addr_is_v4(remote))
		return -URDS_EINVAL;
	if (urds_addr_is_link_local(remote) && remote->scope == 0)
		target.scope = local->scope;
	to_len = (socklen_t)urds_addr_to_sockaddr(&target, t->cfg.port, &to);
	urds_tcp_count(&t->stats.dials, 1);
	l = urds_tcp_link_new(t, TCP_NO_SOCK, user, true, 1);
	if (!l)
		return -URDS_ENOMEM;
	*out = &l->base; /* before the answer can come */
	rc = lane < 0 ? urds_tcp_try_dial(l, local, 0, &to, to_len)
		      : dial_from_lane(l, local, (unsigned)lane, &to, to_len);
	if (rc < 0) {
		*out = NULL;
		urds_tcp_link_put(l);
	}
	return rc;
}

const struct urds_connect_ops urds_tcp_connect = {
	.listen = urds_tcp_listen,
	.unlisten = urds_tcp_unlisten,
	.dial = dial,
	.shutdown = urds_tcp_link_shutdown,
	.close = urds_tcp_link_close,
};
