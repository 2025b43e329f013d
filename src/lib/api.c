/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Sockets of the public interface: checks what the caller passed, in the kernel's order, and calls the runtime.
 */
#include "lib/api.h"

#include <errno.h>
#include <string.h>
#include <sys/time.h>

#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/net.h"
#include "platform/words.h"
#include "runtime/call.h"

void urds_leave(struct urds_sock *s)
{
	sock_drop(s);
	call_leave();
}

bool urds_enter(struct urds_sock *s, const char *what)
{
	if (!call_enter()) {
		urds_fail(URDS_EAGAIN, "%s: in a signal handler that interrupted another call",
			  what);
		return false;
	}
	if (!s || !sock_try_hold(s)) {
		call_leave();
		urds_fail(URDS_EBADF, "%s: %s", what, s ? "the socket is closed" : "no socket");
		return false;
	}
	if (atomic_load_explicit(&s->e->is_dead, memory_order_relaxed)) {
		urds_leave(s);
		urds_fail(
			URDS_EBADF,
			"%s: the socket belongs to the parent process, or its context was shut down; open a "
			"context of your own",
			what);
		return false;
	}
	if (atomic_load_explicit(&s->is_closed, memory_order_relaxed)) {
		urds_leave(s);
		urds_fail(URDS_EBADF, "%s: the socket is closed", what);
		return false;
	}
	return true;
}

struct urds_sock *urds_socket(struct urds_ctx *ctx)
{
	struct urds_ctx *e = urds_ctx_enter(ctx, "urds_socket");
	struct urds_sock *s;
	int rc;

	if (!e)
		return NULL;
	rc = sock_new(e, &s);
	engine_leave(e);
	if (rc < 0) {
		urds_fail(-rc,
			  rc == -URDS_ENOMEM
				  ? "urds_socket: out of memory"
				  : "urds_socket: the context belongs to the parent process or is "
				    "being shut down");
		return NULL;
	}
	return s;
}

static const char *close_why(int rc)
{
	switch (-rc) {
	case URDS_ETIMEDOUT:
		return "the time of SO_LINGER is over";
	case URDS_EINTR:
		return "interrupted by a signal";
	default:
		return "its context was shut down";
	}
}

int urds_close(struct urds_sock *s)
{
	urds_ns until;
	int rc = 0;

	if (!urds_enter(s, "urds_close"))
		return -1;
	if (sock_lingers(s, &until)) {
		if (call_me.in_use) {
			urds_leave(s);
			return urds_fail(URDS_EAGAIN,
					 "urds_close: a handler that interrupted a waiting call "
					 "cannot wait, as SO_LINGER says; the socket is open");
		}
		rc = sock_linger(s, until);
	}
	sock_close(s);
	urds_leave(s);
	if (rc < 0)
		return urds_fail(
			-rc,
			"urds_close: %s: the socket is closed, and what was not acknowledged is cancelled",
			close_why(rc));
	return 0;
}

/* ---------------------------------------------------------------- addresses */

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

/* A destination or local address: 0, or the error every such call gives. */
static int parse(const struct sockaddr *sa, socklen_t len, struct urds_endpoint *out)
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

static void put_addr(const struct urds_endpoint *at, struct sockaddr *sa, socklen_t *len)
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
	if (parse(addr, len, &at) < 0)
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
		put_addr(&at, addr, len);
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
		put_addr(&s->peer_at, addr, len);
	else
		rc = urds_fail(URDS_ENOTCONN, "urds_getpeername: not connected");
	urds_lock_release(&s->tx_lock);
	urds_leave(s);
	return rc;
}

/* ---------------------------------------------------------------- send */

static const char *send_why(int rc)
{
	switch (-rc) {
	case URDS_EAGAIN:
		return "the send buffer is full: wait with urds_wait(POLLOUT), or cancel (URDS_OPT_CANCEL_SENT_TO)";
	case URDS_ECONG:
		return "the destination port is congested: its receiver has to read; try again later";
	case URDS_EMSGSIZE:
		return "the message is longer than SO_SNDBUF or 1 MiB: raise SO_SNDBUF or send less";
	case URDS_ETIMEDOUT:
		return "SO_SNDTIMEO expired: the send buffer is full, or the destination port is congested and its receiver has to read";
	case URDS_ENOMEM:
		return "out of message memory";
	case URDS_EACCES:
		return "the destination is in none of the networks that this context talks to (URDS_PEERS)";
	case URDS_EINTR:
		return "interrupted by a signal";
	default:
		return "the socket was closed, or the call cannot wait here";
	}
}

/* Reference held. Return: bytes, or -1. */
static ssize_t send_one(struct urds_sock *s, const struct sockaddr *name, socklen_t namelen,
			const struct urds_iov *iov, size_t n, int flags)
{
	struct urds_endpoint to;
	size_t len = 0;
	int rc;

	if (flags & ~(MSG_DONTWAIT | URDS_MSG_MORE))
		return urds_fail(URDS_EOPNOTSUPP,
				 "send: flags 0x%x: only MSG_DONTWAIT and URDS_MSG_MORE are known",
				 flags);
	if (name) {
		if (urds_len(namelen) < sizeof(struct sockaddr_in) || parse(name, namelen, &to) < 0)
			return urds_fail(URDS_EINVAL,
					 "send: the destination is not a unicast address");
	} else {
		urds_lock_acquire(&s->tx_lock);
		to = s->peer_at;
		rc = s->has_peer;
		urds_lock_release(&s->tx_lock);
		if (!rc)
			return urds_fail(URDS_ENOTCONN,
					 "send: no destination given and not connected");
	}
	if (!s->node)
		return urds_fail(URDS_ENOTCONN, "send: the socket is not bound");
	if (urds_addr_is_v4(&to.addr) != urds_addr_is_v4(&s->bound.at.addr))
		return urds_fail(URDS_EOPNOTSUPP,
				 "send: the socket and the destination are of different families");
	if (to.addr.scope && s->bound.at.addr.scope && to.addr.scope != s->bound.at.addr.scope)
		return urds_fail(URDS_EINVAL,
				 "send: the destination is on another interface than the socket");
	for (size_t i = 0; i < n; i++) {
		if (iov[i].len > URDS_MSG_MAX - len)
			return urds_fail(URDS_EMSGSIZE, "send: %s", send_why(-URDS_EMSGSIZE));
		len += iov[i].len;
	}
	rc = sock_send(s, &to, iov, n, len, (flags & MSG_DONTWAIT) || atomic_load(&s->is_nonblock),
		       (flags & URDS_MSG_MORE) != 0);
	if (rc < 0)
		return urds_fail(-rc, "send: %s", send_why(rc));
	return (ssize_t)len;
}

_Static_assert(sizeof(struct urds_iov) == sizeof(struct iovec), "urds_iov is iovec");

static const struct urds_iov *iov_of(const struct msghdr *m)
{
	union {
		struct iovec *theirs;
		const struct urds_iov *ours;
	} p = {.theirs = m->msg_iov};

	return p.ours;
}

/* A request that a kernel knows, and refuses on a transport without RDMA: one with all its data. */
static bool is_rdma(const struct cmsghdr *c)
{
	static const uint8_t bytes[] = {[1] = 56, [3] = 32, [6] = 72, [7] = 72, [8] = 72, [9] = 72};
	size_t type = (size_t)c->cmsg_type;

	return type < sizeof bytes && bytes[type] > 0 && c->cmsg_len >= CMSG_LEN(bytes[type]);
}

/* None is done here; those of other levels are not for us. */
static int check_control(const struct msghdr *m)
{
	size_t left = m->msg_control ? m->msg_controllen : 0;
	const char *at = m->msg_control;
	int rdma = 0;

	while (left >= sizeof(struct cmsghdr)) {
		struct cmsghdr c;
		size_t step;

		memcpy(&c, at, sizeof c);
		if (c.cmsg_len < sizeof c || c.cmsg_len > left)
			return urds_fail(URDS_EINVAL,
					 "send: a control message whose length makes no sense");
		if (c.cmsg_level == URDS_SOL_RDS && is_rdma(&c))
			rdma = c.cmsg_type;
		else if (c.cmsg_level == URDS_SOL_RDS)
			return urds_fail(URDS_EINVAL,
					 "send: control message type %d is not known here",
					 c.cmsg_type);
		step = CMSG_ALIGN(c.cmsg_len);
		if (step > left)
			break;
		at += step;
		left -= step;
	}
	if (rdma)
		return urds_fail(URDS_EOPNOTSUPP,
				 "send: control message type %d asks for RDMA, which TCP has not",
				 rdma);
	return 0;
}

/* False: the long way, which also says what is wrong. */
static bool send_quick(struct urds_sock *s, const struct sockaddr *name, socklen_t namelen,
		       const struct urds_iov *v, int flags)
{
	struct urds_endpoint to;
	bool done;

	if (!s || (flags & ~(MSG_DONTWAIT | URDS_MSG_MORE)) ||
	    (name &&
	     (urds_len(namelen) < sizeof(struct sockaddr_in) || parse(name, namelen, &to) < 0)) ||
	    !call_enter())
		return false;
	done = sock_send_quick(s, name ? &to : NULL, v, (flags & URDS_MSG_MORE) != 0);
	call_leave();
	return done;
}

static ssize_t send_msg(struct urds_sock *s, const struct msghdr *m, int flags)
{
	if (check_control(m) < 0)
		return -1;
	return send_one(s, m->msg_name, m->msg_namelen, iov_of(m), m->msg_iovlen, flags);
}

ssize_t urds_sendmsg(struct urds_sock *s, const struct msghdr *msg, int flags)
{
	ssize_t rc;

	if (!urds_enter(s, "urds_sendmsg"))
		return -1;
	rc = send_msg(s, msg, flags);
	urds_leave(s);
	return rc;
}

ssize_t urds_sendto(struct urds_sock *s, const void *buf, size_t len, int flags,
		    const struct sockaddr *to, socklen_t tolen)
{
	union {
		const void *in;
		void *out;
	} p = {.in = buf};
	struct urds_iov v = {p.out, len};
	ssize_t rc;

	if (send_quick(s, to, tolen, &v, flags))
		return (ssize_t)len;
	if (!urds_enter(s, "urds_sendto"))
		return -1;
	rc = send_one(s, to, tolen, &v, 1, flags);
	urds_leave(s);
	return rc;
}

ssize_t urds_send(struct urds_sock *s, const void *buf, size_t len, int flags)
{
	return urds_sendto(s, buf, len, flags, NULL, 0);
}

int urds_send_batch(struct urds_sock *s, struct urds_mmsg *v, unsigned n, int flags)
{
	unsigned i;

	if (!urds_enter(s, "urds_send_batch"))
		return -1;
	for (i = 0; i < n; i++) {
		/* The last one lets them all go, and so does one that could not be queued. */
		ssize_t rc = send_msg(s, &v[i].hdr, flags | (i + 1 < n ? URDS_MSG_MORE : 0));

		if (rc < 0)
			break;
		v[i].len = (size_t)rc;
	}
	if (i < n)
		flush_dirty(s->e, URDS_NEVER);
	urds_leave(s);
	return i > 0 || n == 0 ? (int)i : -1;
}

/* ---------------------------------------------------------------- receive */

static const char *recv_why(int rc)
{
	switch (-rc) {
	case URDS_EAGAIN:
		return "nothing to receive";
	case URDS_ETIMEDOUT:
		return "SO_RCVTIMEO expired";
	case URDS_ECONG:
		return "the receive queue overran its limit and was discarded: a peer ignores congestion";
	case URDS_EINTR:
		return "interrupted by a signal";
	default:
		return "the socket was closed";
	}
}

static size_t copy_out(const struct urds_iov *iov, size_t n, const uint8_t *from, size_t len)
{
	size_t done = 0;

	for (size_t i = 0; i < n && done < len; i++) {
		size_t part = iov[i].len < len - done ? iov[i].len : len - done;

		if (part > 0)
			memcpy(iov[i].base, from + done, part);
		done += part;
	}
	return done;
}

/* Bytes that fit, as far as messages can be long. */
static size_t room_of(const struct urds_iov *iov, size_t n)
{
	size_t room = 0;

	for (size_t i = 0; i < n && room < URDS_MSG_MAX; i++)
		room += iov[i].len < URDS_MSG_MAX ? iov[i].len : URDS_MSG_MAX;
	return room;
}

static void put_timestamp(struct urds_sock *s, struct msghdr *m)
{
	size_t room = m->msg_control ? m->msg_controllen : 0;
	struct cmsghdr *c;
	struct timeval tv;
	uint64_t now;

	m->msg_controllen = 0;
	if (!(s->options & SOCK_OPT_TIMESTAMP))
		return;
	if (room < CMSG_SPACE(sizeof tv)) {
		m->msg_flags |= MSG_CTRUNC;
		return;
	}
	now = urds_wall_ns();
	tv.tv_sec = (time_t)(now / 1000000000u);
	tv.tv_usec = (long)(now % 1000000000u / 1000);
	c = m->msg_control;
	memset(c, 0, CMSG_SPACE(sizeof tv));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SO_TIMESTAMP;
	c->cmsg_len = CMSG_LEN(sizeof tv);
	memcpy(CMSG_DATA(c), &tv, sizeof tv);
	m->msg_controllen = CMSG_SPACE(sizeof tv);
}

static ssize_t recv_msg(struct urds_sock *s, struct msghdr *m, int flags)
{
	bool dontwait = (flags & MSG_DONTWAIT) || atomic_load(&s->is_nonblock);
	struct urds_rxq_ent msg;
	size_t len, copied;
	int rc;

	m->msg_flags = 0;
	if (flags & MSG_OOB) {
		m->msg_namelen = 0;
		m->msg_controllen = 0;
		return 0;
	}
	if (flags & MSG_ERRQUEUE)
		return urds_fail(URDS_EAGAIN, "recv: the error queue is empty");
	rc = sock_recv(s, &msg, room_of(iov_of(m), m->msg_iovlen), dontwait,
		       (flags & MSG_PEEK) != 0);
	if (rc < 0) {
		m->msg_namelen = 0;
		m->msg_controllen = 0;
		return urds_fail(-rc, "recv: %s", recv_why(rc));
	}
	len = msg.len;
	copied = copy_out(iov_of(m), m->msg_iovlen, msg.payload, len);
	if (copied < len)
		m->msg_flags |= MSG_TRUNC;
	if (m->msg_name) {
		struct urds_endpoint from = {msg.from, msg.sport};

		put_addr(&from, m->msg_name, &m->msg_namelen);
	} else {
		m->msg_namelen = 0;
	}
	put_timestamp(s, m);
	sock_recv_done(&msg);
	return (ssize_t)(flags & MSG_TRUNC ? len : copied);
}

ssize_t urds_recvmsg(struct urds_sock *s, struct msghdr *msg, int flags)
{
	ssize_t rc;

	if (!urds_enter(s, "urds_recvmsg"))
		return -1;
	rc = recv_msg(s, msg, flags);
	urds_leave(s);
	return rc;
}

/* False: the long way. */
static bool recv_quick(struct urds_sock *s, void *buf, size_t cap, int flags, struct sockaddr *from,
		       socklen_t *fromlen, ssize_t *rc)
{
	struct urds_endpoint at;
	size_t len = 0;
	int err;

	if (!s || (flags & ~(MSG_DONTWAIT | MSG_TRUNC)) || !call_enter())
		return false;
	err = sock_recv_quick(s, buf, cap, (flags & MSG_DONTWAIT) != 0, from ? &at : NULL, &len);
	call_leave();
	if (err == -URDS_EAGAIN)
		return false;
	if (err < 0) {
		*rc = urds_fail(-err, "recv: %s", recv_why(err));
		return true;
	}
	if (from)
		put_addr(&at, from, fromlen);
	*rc = (ssize_t)(len < cap || (flags & MSG_TRUNC) ? len : cap);
	return true;
}

ssize_t urds_recvfrom(struct urds_sock *s, void *buf, size_t len, int flags, struct sockaddr *from,
		      socklen_t *fromlen)
{
	struct iovec v = {buf, len};
	struct msghdr m = {.msg_name = from,
			   .msg_namelen = from ? *fromlen : 0,
			   .msg_iov = &v,
			   .msg_iovlen = 1};
	ssize_t rc;

	if (recv_quick(s, buf, len, flags, from, fromlen, &rc))
		return rc;
	rc = urds_recvmsg(s, &m, flags);
	if (rc >= 0 && from)
		*fromlen = m.msg_namelen;
	return rc;
}

ssize_t urds_recv(struct urds_sock *s, void *buf, size_t len, int flags)
{
	return urds_recvfrom(s, buf, len, flags, NULL, NULL);
}

int urds_recv_batch(struct urds_sock *s, struct urds_mmsg *v, unsigned n, int flags)
{
	unsigned i;

	if (!urds_enter(s, "urds_recv_batch"))
		return -1;
	for (i = 0; i < n; i++) {
		ssize_t rc;

		if (i > 0 && !sock_has_queued(s))
			break;
		rc = recv_msg(s, &v[i].hdr, i > 0 ? flags | MSG_DONTWAIT : flags);
		if (rc < 0)
			break;
		v[i].len = (size_t)rc;
	}
	urds_leave(s);
	return i > 0 || n == 0 ? (int)i : -1;
}

/* ---------------------------------------------------------------- readiness */

int urds_fd(struct urds_sock *s)
{
	int fd;

	if (!urds_enter(s, "urds_fd"))
		return -1;
	fd = sock_fd(s);
	if (fd < 0)
		fd = fd == -URDS_EBADF ? urds_fail(-fd, "urds_fd: the socket was closed")
		     : fd == -URDS_EAGAIN || fd == -URDS_ENOMEM
			     ? urds_fail(-fd, "urds_fd: no thread to watch the wire: %s",
					 urds_words.threads)
			     : urds_fail(-fd, "urds_fd: no descriptor: %s", urds_words.files);
	urds_leave(s);
	return fd;
}

int urds_set_nonblock(struct urds_sock *s, int on)
{
	if (!urds_enter(s, "urds_set_nonblock"))
		return -1;
	atomic_store(&s->is_nonblock, on != 0);
	urds_leave(s);
	return 0;
}

static const char *wait_why(int rc)
{
	switch (-rc) {
	case URDS_EINTR:
		return "interrupted by a signal";
	case URDS_EAGAIN:
		return "a handler that interrupted a waiting call cannot wait";
	case URDS_ENOMEM:
		return "out of memory";
	default:
		return "the socket was closed";
	}
}

int urds_wait(struct urds_sock *s, int events, int timeout_ms)
{
	int want = (events & POLLIN ? SOCK_IN : 0) | (events & POLLOUT ? SOCK_OUT : 0), rc;
	urds_ns deadline = timeout_ms < 0 ? URDS_NEVER : urds_clock_ns() + URDS_MS(timeout_ms);

	if (!urds_enter(s, "urds_wait"))
		return -1;
	rc = sock_wait(s, want, deadline);
	urds_leave(s);
	if (rc < 0)
		return urds_fail(-rc, "urds_wait: %s", wait_why(rc));
	return (rc & SOCK_IN ? POLLIN : 0) | (rc & SOCK_OUT ? POLLOUT : 0);
}
