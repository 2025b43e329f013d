/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Addresses: asked of the system by trying, with sockets that never send anything. That is
 * right for 127/8, secondary and link-local addresses and policy routing, where lists of interface
 * addresses are not.
 */
#include "transport/tcp/tcp_internal.h"

#include "platform/addr.h"

/* Whose socket may be bound to it does not tell an interface's own address from its network's broadcast address. */
static bool is_broadcast(tcp_sock fd, const struct urds_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(a, URDS_TCP_PORT, &ss);

	/* A stream would connect. */
	return TCP_BIND_PROBE == SOCK_DGRAM && urds_tcp_sock_connect(fd, &ss, len) < 0 &&
	       urds_tcp_sock_error() == -URDS_EACCES;
}

static bool is_local(struct urds_transport *t, const struct urds_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(a, 0, &ss);
	tcp_sock fd;
	bool yes;
	int rc;

	if (urds_addr_is_any(a))
		return false;
	rc = urds_tcp_probe_socket(a, TCP_BIND_PROBE, &fd);
	if (rc <
	    0) /* without a descriptor nobody can say: whoever goes on is told that there is none */
		return rc == -URDS_EMFILE || rc == -URDS_ECONG || rc == -URDS_ENOMEM;
	yes = bind(fd, (struct sockaddr *)&ss, len) == 0 && !is_broadcast(fd, a);
	urds_tcp_sock_close(fd);
	return yes;
}

static int source_for(struct urds_transport *t, const struct urds_addr *to, struct urds_addr *from)
{
	struct sockaddr_storage ss;
	/* Any port but 0, which connect() refuses. */
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(to, URDS_TCP_PORT, &ss);
	tcp_sock fd;
	int rc = urds_tcp_probe_socket(to, SOCK_DGRAM, &fd);

	if (rc < 0)
		return rc;
	if (urds_addr_is_any(to) || urds_tcp_sock_connect(fd, &ss, len) < 0) {
		rc = -URDS_EUNREACH;
	} else {
		len = sizeof(ss);
		if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
		    urds_addr_from_sockaddr(from, NULL, (struct sockaddr *)&ss, (size_t)len) < 0)
			rc = -URDS_EUNREACH;
	}
	urds_tcp_sock_close(fd);
	return rc;
}

static int name(struct urds_transport *t, const char *text, struct urds_addr *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	int rc = urds_addr_parse(out, text);

	/* Nothing is the name of this host for Windows. */
	if (rc == 0 || !*text || getaddrinfo(text, NULL, &hints, &list) != 0)
		return rc;
	for (const struct addrinfo *ai = list; ai && rc < 0; ai = ai->ai_next)
		rc = urds_addr_from_sockaddr(out, NULL, ai->ai_addr, (size_t)ai->ai_addrlen);
	freeaddrinfo(list);
	return rc < 0 ? -URDS_EINVAL : 0;
}

const struct urds_resolve_ops urds_tcp_resolve = {
	.is_local = is_local,
	.source_for = source_for,
	.name = name,
};
