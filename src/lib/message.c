/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Messages in the public interface, sent and received: flags, destinations, pieces and control messages checked in the kernel's
 * order.
 */
#include "lib/api.h"

#include <string.h>
#include <sys/time.h>

#include "platform/clock.h"
#include "platform/net.h"
#include "runtime/call.h"

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
		if (urds_len(namelen) < sizeof(struct sockaddr_in) ||
		    urds_name_get(name, namelen, &to) < 0)
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
	    (name && (urds_len(namelen) < sizeof(struct sockaddr_in) ||
		      urds_name_get(name, namelen, &to) < 0)) ||
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

		urds_name_put(&from, m->msg_name, &m->msg_namelen);
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
		urds_name_put(&at, from, fromlen);
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
