/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Addresses of sockets in the public interface: which are good for what, in the kernel's order; bind, connect, and names asked for.
 */
#include "lib/api.h"

#include <string.h>

#include "platform/addr.h"
#include "platform/net.h"

static bool is_multicast(const struct urds_addr *a)
{
	return urds_addr_is_v4(a) ? (a->ip[12] & 0xf0) == 0xe0 : a->ip[0] == 0xff;
}

static bool is_broadcast(const struct urds_addr *a)
{
	return urds_addr_is_v4(a) && memcmp(a->ip + 12, "\xff\xff\xff\xff", 4) == 0;
}

bool urds_is_unicast(const struct urds_addr *a)
{
	return !urds_addr_is_any(a) && !is_multicast(a) && !is_broadcast(a);
}

static sa_family_t family_of(const struct sockaddr *sa, socklen_t len)
{
	sa_family_t f = AF_UNSPEC;

	if (sa && urds_len(len) >= sizeof f)
		memcpy(&f, (const char *)sa + offsetof(struct sockaddr, sa_family), sizeof f);
	return f;
}

/* The length of a whole address of family @f. */
static size_t whole(sa_family_t f)
{
	return f == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

int urds_name_get(const struct sockaddr *sa, socklen_t len, struct urds_endpoint *out)
{
	sa_family_t f = family_of(sa, len);

	if ((f != AF_INET && f != AF_INET6) || urds_len(len) < whole(f) ||
	    urds_addr_from_sockaddr(&out->addr, &out->port, sa, urds_len(len)) < 0 ||
	    !urds_is_unicast(&out->addr))
		return -URDS_EINVAL;
	if (urds_addr_is_link_local(&out->addr) && out->addr.scope == 0)
		return -URDS_EINVAL;
	return 0;
}

static void put_sockaddr(const void *from, size_t n, struct sockaddr *sa, socklen_t *len)
{
	if (sa)
		memcpy(sa, from, urds_len(*len) < n ? urds_len(*len) : n);
	*len = (socklen_t)n;
}

void urds_name_put(const struct urds_endpoint *at, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_storage ss = {0};
	size_t n = urds_addr_to_sockaddr(&at->addr, at->port, &ss);

	put_sockaddr(&ss, n, sa, len);
}

static bool owns(struct urds_ctx *e, const struct urds_addr *a)
{
	bool owned;

	urds_rwlock_read_acquire(&e->table);
	owned = node_find(e, a) != NULL;
	urds_rwlock_read_release(&e->table);
	return owned;
}

int urds_bind(struct urds_sock *s, const struct sockaddr *addr, socklen_t len)
{
	struct urds_endpoint at;
	int rc, cancel;

	if (!urds_enter(s, "urds_bind"))
		return -1;
	cancel = urds_cancel_off();
	urds_record_why[0] = 0;
	if (urds_name_get(addr, len, &at) < 0)
		rc = urds_fail(
			URDS_EINVAL,
			"urds_bind: not a unicast IPv4 or IPv6 address of this host (an RDS socket "
			"cannot be bound to 0.0.0.0 or ::; a link-local one needs its scope)");
	else if ((rc = sock_bind(s, &at)) < 0)
		rc = urds_fail_bind(rc, &at.addr, at.port, owns(s->e, &at.addr));
	urds_cancel_back(cancel);
	urds_leave(s);
	return rc;
}

static int check_connect(const struct sockaddr *addr, socklen_t len, struct urds_endpoint *to)
{
	sa_family_t f = family_of(addr, len);

	if (urds_len(len) < sizeof f)
		return -URDS_EINVAL;
	if (f != AF_INET && f != AF_INET6)
		return -URDS_EAFNOSUPPORT;
	if (urds_len(len) < whole(f) ||
	    urds_addr_from_sockaddr(&to->addr, &to->port, addr, urds_len(len)) < 0)
		return -URDS_EINVAL;
	if (f == AF_INET) {
		if (urds_addr_is_any(&to->addr))
			return -URDS_EDESTADDRREQ;
		return urds_is_unicast(&to->addr) ? 0 : -URDS_EINVAL;
	}
	if (!urds_is_unicast(&to->addr))
		return -URDS_EPROTOTYPE;
	return urds_addr_is_link_local(&to->addr) && to->addr.scope == 0 ? -URDS_EINVAL : 0;
}

int urds_connect(struct urds_sock *s, const struct sockaddr *addr, socklen_t len)
{
	struct urds_endpoint to;
	int rc;

	if (!urds_enter(s, "urds_connect"))
		return -1;
	rc = check_connect(addr, len, &to);
	if (rc == 0) {
		urds_lock_acquire(&s->tx_lock);
		s->peer_at = to;
		s->has_peer = true;
		urds_lock_release(&s->tx_lock);
	} else {
		urds_fail(
			-rc,
			"urds_connect: a unicast IPv4 or IPv6 address with its whole length is needed");
		rc = -1;
	}
	urds_leave(s);
	return rc;
}

int urds_getsockname(struct urds_sock *s, struct sockaddr *addr, socklen_t *len)
{
	struct urds_endpoint at = {0};

	if (!urds_enter(s, "urds_getsockname"))
		return -1;
	urds_rwlock_read_acquire(&s->e->table);
	if (s->node)
		at = s->bound.at;
	urds_rwlock_read_release(&s->e->table);
	urds_lock_acquire(&s->tx_lock);
	if (at.port == 0 && s->has_peer && urds_addr_is_v4(&s->peer_at.addr))
		at.addr.ip[10] = at.addr.ip[11] = 0xff; /* 0.0.0.0 of the peer's family */
	if (at.port == 0 && !s->has_peer) {
		struct sockaddr_in none = {0};

		put_sockaddr(&none, sizeof none, addr, len);
	} else {
		urds_name_put(&at, addr, len);
	}
	urds_lock_release(&s->tx_lock);
	urds_leave(s);
	return 0;
}

int urds_getpeername(struct urds_sock *s, struct sockaddr *addr, socklen_t *len)
{
	int rc = 0;

	if (!urds_enter(s, "urds_getpeername"))
		return -1;
	urds_lock_acquire(&s->tx_lock);
	if (s->has_peer)
		urds_name_put(&s->peer_at, addr, len);
	else
		rc = urds_fail(URDS_ENOTCONN, "urds_getpeername: not connected");
	urds_lock_release(&s->tx_lock);
	urds_leave(s);
	return rc;
}
