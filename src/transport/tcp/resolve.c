/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Addresses: asked of the kernel by trying, with datagram sockets that never send anything. That is
 * right for 127/8, secondary and link-local addresses and policy routing, where lists of interface
 * addresses are not.
 */
#include "transport/tcp/tcp_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/addr.h"
#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "platform/posix/nocancel.h"

static int probe_socket(const struct urds_addr *a)
{
	urds_fds_enter();
	return urds_fds_made(
		socket(urds_addr_is_v4(a) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

/* Whose socket may be bound to it does not tell an interface's own address from its network's broadcast address. */
static bool is_broadcast(int fd, const struct urds_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(a, URDS_TCP_PORT, &ss);

	return urds_sys_connect(fd, (struct sockaddr *)&ss, len) < 0 && errno == EACCES;
}

static bool is_local(struct urds_transport *t, const struct urds_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(a, 0, &ss);
	int fd;
	bool yes;

	if (urds_addr_is_any(a))
		return false;
	fd = probe_socket(a);
	if (fd <
	    0) /* without a descriptor nobody can say: whoever goes on is told that there is none */
		return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
	yes = bind(fd, (struct sockaddr *)&ss, len) == 0 && !is_broadcast(fd, a);
	urds_fds_close(fd);
	return yes;
}

static int source_for(struct urds_transport *t, const struct urds_addr *to, struct urds_addr *from)
{
	struct sockaddr_storage ss;
	/* Any port but 0, which connect() refuses. */
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(to, URDS_TCP_PORT, &ss);
	int fd = probe_socket(to), rc = 0;

	if (fd < 0)
		return -urds_err_from_errno(errno);
	if (urds_addr_is_any(to) || urds_sys_connect(fd, (struct sockaddr *)&ss, len) < 0) {
		rc = -URDS_EUNREACH;
	} else {
		len = sizeof(ss);
		if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
		    urds_addr_from_sockaddr(from, NULL, (struct sockaddr *)&ss, len) < 0)
			rc = -URDS_EUNREACH;
	}
	urds_fds_close(fd);
	return rc;
}

static int name(struct urds_transport *t, const char *text, struct urds_addr *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	int rc = urds_addr_parse(out, text);

	if (rc == 0 || getaddrinfo(text, NULL, &hints, &list) != 0)
		return rc;
	for (const struct addrinfo *ai = list; ai && rc < 0; ai = ai->ai_next)
		rc = urds_addr_from_sockaddr(out, NULL, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(list);
	return rc < 0 ? -URDS_EINVAL : 0;
}

const struct urds_resolve_ops urds_tcp_resolve = {
	.is_local = is_local,
	.source_for = source_for,
	.name = name,
};
