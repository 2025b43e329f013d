/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Socket options.
 */
#include "lib/api.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/time.h>

#include "platform/addr.h"
#include "platform/host.h"
#include "platform/net.h"

#define FAMILY_RDS 21

/* Of the system, or URDS_BUF_MAX where it has no such limit. */
static uint32_t buf_max(bool to_send)
{
	uint64_t v = urds_host_buf_max(to_send);

	return v < URDS_BUF_MAX ? (uint32_t)v : URDS_BUF_MAX;
}

static int get_int(const void *val, socklen_t len, int *out)
{
	if (urds_len(len) < sizeof *out)
		return -URDS_EINVAL;
	memcpy(out, val, sizeof *out);
	return 0;
}

/* The kernel takes a negative size for the largest there is. */
static uint64_t as_size(int v)
{
	return (unsigned)v;
}

static int set_time(const void *val, socklen_t len, _Atomic urds_ns *out)
{
	struct timeval tv;

	if (urds_len(len) < sizeof tv)
		return -URDS_EINVAL;
	memcpy(&tv, val, sizeof tv);
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -URDS_EINVAL;
	/* For ever: also what, added to a time, might be before it. */
	if (tv.tv_sec < 0 || (int64_t)tv.tv_sec >= INT32_MAX)
		atomic_store(out, 0);
	else
		atomic_store(out, URDS_SEC(tv.tv_sec) + URDS_US(tv.tv_usec));
	return 0;
}

static int set_linger(struct urds_sock *s, const void *val, socklen_t len)
{
	struct linger l;

	if (urds_len(len) < sizeof l)
		return -URDS_EINVAL;
	memcpy(&l, val, sizeof l);
	urds_lock_acquire(&s->tx_lock);
	s->lingers = l.l_onoff != 0;
	s->linger_s = l.l_linger;
	urds_lock_release(&s->tx_lock);
	return 0;
}

static void set_option_bit(struct urds_sock *s, uint32_t bit, bool on)
{
	if (on)
		atomic_fetch_or(&s->options, bit);
	else
		atomic_fetch_and(&s->options, ~bit);
}

static int set_socket(struct urds_sock *s, int opt, const void *val, socklen_t len)
{
	int v = 0, rc;

	switch (opt) {
	case SO_RCVTIMEO:
		return set_time(val, len, &s->rcvtimeo);
	case SO_SNDTIMEO:
		return set_time(val, len, &s->sndtimeo);
	case SO_LINGER:
		return set_linger(s, val, len);
	default:
		break;
	}
	rc = get_int(val, len, &v);
	if (rc < 0)
		return rc;
	switch (opt) {
	case SO_SNDBUF:
	case SO_SNDBUFFORCE:
		sock_set_sndbuf(s, urds_sock_buf(as_size(v), buf_max(true), opt == SO_SNDBUFFORCE,
						 URDS_SNDBUF_STORED_MIN));
		return 0;
	case SO_RCVBUF:
	case SO_RCVBUFFORCE:
		urds_lock_acquire(&s->rx_lock);
		urds_rxq_limit(&s->rxq,
			       urds_sock_buf(as_size(v), buf_max(false), opt == SO_RCVBUFFORCE,
					     URDS_RCVBUF_STORED_MIN));
		urds_lock_release(&s->rx_lock);
		return 0;
	case SO_TIMESTAMP:
		set_option_bit(s, SOCK_OPT_TIMESTAMP, v != 0);
		return 0;
	case SO_REUSEADDR:
		return 0;
	default:
		return -URDS_ENOPROTOOPT;
	}
}

/* RDS_GET_MR, RDS_FREE_MR, RDS_GET_MR_FOR_DEST: what they say on a transport without RDMA. Return: 1 if @opt is none of
 * them. */
static int set_rdma(struct urds_sock *s, int opt, socklen_t len)
{
	switch (opt) {
	case 2:
	case 7:
		if (len != (opt == 2 ? 32 : 160))
			return -URDS_EINVAL;
		return s->node ? -URDS_EOPNOTSUPP : -URDS_ENOTCONN;
	case 3:
		return -URDS_EINVAL; /* no key is known */
	default:
		return 1;
	}
}

static int set_rds(struct urds_sock *s, int opt, const void *val, socklen_t len)
{
	struct urds_endpoint to;
	int v = 0, rc;

	if (opt == URDS_OPT_CANCEL_SENT_TO) {
		if (!s->node)
			return -URDS_ENOTCONN;
		if (urds_len(len) < sizeof(struct sockaddr_in) ||
		    urds_addr_from_sockaddr(&to.addr, &to.port, val, urds_len(len)) < 0)
			return -URDS_EINVAL;
		sock_cancel(s, &to);
		return 0;
	}
	rc = set_rdma(s, opt, len);
	if (rc <= 0)
		return rc;
	if (opt != URDS_OPT_RECVERR && opt != URDS_OPT_CONG_MONITOR && opt != URDS_OPT_TRANSPORT)
		return -URDS_ENOPROTOOPT;
	if (opt == URDS_OPT_TRANSPORT && s->node)
		return -URDS_EOPNOTSUPP;
	rc = get_int(val, len, &v);
	if (rc < 0)
		return rc;
	switch (opt) {
	case URDS_OPT_RECVERR:
		set_option_bit(s, SOCK_OPT_RECVERR, v != 0);
		return 0;
	case URDS_OPT_CONG_MONITOR:
		set_option_bit(s, SOCK_OPT_CONG_MONITOR, v != 0);
		return 0;
	default:
		if (s->transport >= 0)
			return -URDS_EOPNOTSUPP;
		if (v < 0 || v > 2)
			return -URDS_EINVAL;
		if (v != 2)
			return -URDS_ENOPROTOOPT; /* no RDMA here, as on a host without rds_rdma */
		s->transport = 2;
		return 0;
	}
}

int urds_setsockopt(struct urds_sock *s, int level, int opt, const void *val, socklen_t len)
{
	int rc, cancel;

	if (!urds_enter(s, "urds_setsockopt"))
		return -1;
	cancel = urds_cancel_off();
	rc = level == SOL_SOCKET     ? set_socket(s, opt, val, len)
	     : level == URDS_SOL_RDS ? set_rds(s, opt, val, len)
				     : -URDS_ENOPROTOOPT;
	urds_cancel_back(cancel);
	urds_leave(s);
	if (rc < 0)
		return urds_fail(-rc, "urds_setsockopt: level %d option %d: %s", level, opt,
				 rc == -URDS_ENOPROTOOPT
					 ? "unknown"
					 : "not valid with this value, or in this state");
	return rc;
}

static int put_value(void *val, socklen_t *len, const void *from, size_t n)
{
	if (urds_len(*len) < n)
		n = urds_len(*len);
	*len = (socklen_t)n;
	memcpy(val, from, n);
	return 0;
}

static int put_time(void *val, socklen_t *len, urds_ns t)
{
	struct timeval tv = {.tv_sec = (time_t)(t / URDS_SEC(1)),
			     .tv_usec = (long)(t % URDS_SEC(1) / 1000)};

	return put_value(val, len, &tv, sizeof tv);
}

static int get_linger(struct urds_sock *s, void *val, socklen_t *len)
{
	struct linger l = {0};

	urds_lock_acquire(&s->tx_lock);
	l.l_onoff = s->lingers;
	/* The fields are of other types elsewhere, which held what was set. */
	l.l_linger = (__typeof__(l.l_linger))s->linger_s;
	urds_lock_release(&s->tx_lock);
	return put_value(val, len, &l, sizeof l);
}

static int get_unacked(struct urds_sock *s)
{
	uint64_t n;

	urds_lock_acquire(&s->tx_lock);
	n = s->txq.msgs;
	urds_lock_release(&s->tx_lock);
	return n < INT_MAX ? (int)n : INT_MAX;
}

static int get_socket(struct urds_sock *s, int opt, void *val, socklen_t *len)
{
	int v;

	switch (opt) {
	case SO_SNDBUF:
		urds_lock_acquire(&s->tx_lock);
		v = (int)(s->txq.sndbuf * 2);
		urds_lock_release(&s->tx_lock);
		break;
	case SO_RCVBUF:
		urds_lock_acquire(&s->rx_lock);
		v = (int)(s->rxq.rcvbuf * 2);
		urds_lock_release(&s->rx_lock);
		break;
	case SO_RCVTIMEO:
		return put_time(val, len, s->rcvtimeo);
	case SO_SNDTIMEO:
		return put_time(val, len, s->sndtimeo);
	case SO_LINGER:
		return get_linger(s, val, len);
	case SO_TYPE:
		v = SOCK_SEQPACKET;
		break;
	case SO_DOMAIN:
		v = FAMILY_RDS;
		break;
	case SO_PROTOCOL:
	case SO_ERROR:
	case SO_REUSEADDR:
		v = 0;
		break;
	case SO_TIMESTAMP:
		v = (s->options & SOCK_OPT_TIMESTAMP) != 0;
		break;
	default:
		return -URDS_ENOPROTOOPT;
	}
	return put_value(val, len, &v, sizeof v);
}

static bool is_loopback(const struct urds_addr *a)
{
	static const uint8_t one[16] = {[15] = 1};

	return urds_addr_is_v4(a) ? a->ip[12] == 127 : memcmp(a->ip, one, 16) == 0;
}

static int get_rds(struct urds_sock *s, int opt, void *val, socklen_t *len)
{
	int v;

	if (opt >= URDS_INFO_COUNTERS && opt != URDS_OPT_UNACKED) {
		size_t n = urds_len(*len);
		int rc = engine_info(s->e, opt, val, &n);

		*len = (socklen_t)n;
		return rc;
	}
	switch (opt) {
	case URDS_OPT_RECVERR:
		v = (s->options & SOCK_OPT_RECVERR) != 0;
		break;
	case URDS_OPT_UNACKED:
		v = get_unacked(s);
		break;
	case URDS_OPT_TRANSPORT:
		if (urds_len(*len) < sizeof v)
			return -URDS_EINVAL;
		v = s->transport >= 0 ? s->transport
		    : s->node	      ? (is_loopback(&s->bound.at.addr) ? 3 : 2)
				      : -1;
		break;
	default:
		return -URDS_ENOPROTOOPT;
	}
	return put_value(val, len, &v, sizeof v);
}

int urds_getsockopt(struct urds_sock *s, int level, int opt, void *val, socklen_t *len)
{
	int rc;

	if (!urds_enter(s, "urds_getsockopt"))
		return -1;
	rc = level == SOL_SOCKET     ? get_socket(s, opt, val, len)
	     : level == URDS_SOL_RDS ? get_rds(s, opt, val, len)
				     : -URDS_ENOPROTOOPT;
	urds_leave(s);
	if (rc < 0)
		return urds_fail(-rc, "urds_getsockopt: level %d option %d: %s", level, opt,
				 rc == -URDS_ENOSPC
					 ? "the buffer is too small; the length says what is needed"
					 : "unknown, or the buffer is too small");
	return rc;
}
