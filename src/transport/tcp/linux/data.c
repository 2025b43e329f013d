/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Bytes, and what the kernel knows of their fate.
 */
#include "transport/tcp/tcp_internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "platform/errno.h"

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

/* So that an array of ours is an array of the kernel's. */
_Static_assert(sizeof(struct urds_iov) == sizeof(struct iovec), "urds_iov is iovec");
_Static_assert(offsetof(struct urds_iov, base) == offsetof(struct iovec, iov_base),
	       "urds_iov.base");
_Static_assert(offsetof(struct urds_iov, len) == offsetof(struct iovec, iov_len), "urds_iov.len");

static size_t iov_bytes(const struct urds_iov *v, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i].len;
	return sum;
}

/* The kernel only reads the array. */
static struct msghdr msg_of(const struct urds_iov *v, size_t n)
{
	union {
		const struct urds_iov *ours;
		struct iovec *theirs;
	} p = {.ours = v};
	struct msghdr m = {.msg_iov = p.theirs, .msg_iovlen = n < IOV_MAX ? n : IOV_MAX};

	return m;
}

/* Straight to the kernel: these never block, and the library's wrappers would be cancellation points, where a
 * thread could be ended with the path's role in its hands. One piece, the usual case, spares the kernel the
 * message header. */
static ssize_t send_now(int fd, const struct msghdr *m)
{
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;

	if (m->msg_iovlen == 1)
		return syscall(SYS_sendto, fd, m->msg_iov[0].iov_base, m->msg_iov[0].iov_len, flags,
			       NULL, 0);
	return syscall(SYS_sendmsg, fd, m, flags);
}

static ssize_t recv_now(int fd, struct msghdr *m)
{
	if (m->msg_iovlen == 1)
		return syscall(SYS_recvfrom, fd, m->msg_iov[0].iov_base, m->msg_iov[0].iov_len,
			       MSG_DONTWAIT, NULL, NULL);
	return syscall(SYS_recvmsg, fd, m, MSG_DONTWAIT);
}

static int tx(struct urds_link *base, const struct urds_iov *v, size_t n, size_t *taken,
	      size_t *released)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	size_t done = 0;
	int rc = 0;

	/* Up before the call: the edge that follows a full buffer may be handled by another thread
	 * before this one sees the result. The kernel's own locks are between the two. */
	atomic_store_explicit(&l->is_tx_short, true, memory_order_release);
	while (n > 0) {
		struct msghdr m = msg_of(v, n);
		size_t asked = iov_bytes(v, m.msg_iovlen);
		ssize_t sent;

		if (asked > 0) {
			sent = send_now(l->fd, &m);
			l->tx_calls++;
			if (sent < 0 && errno == EINTR)
				continue;
			if (sent < 0 && errno == EAGAIN)
				break;
			if (sent < 0) {
				/* The kernel tells each error once; rx() must still know. */
				atomic_store_explicit(&l->is_broken, true, memory_order_release);
				rc = -URDS_ECONNRESET;
				break;
			}
			done += (size_t)sent;
			/* Less than asked: full, and the kernel will say when it is not. */
			if ((size_t)sent < asked)
				break;
		}
		v += m.msg_iovlen;
		n -= m.msg_iovlen;
	}
	if (n == 0)
		atomic_store_explicit(&l->is_tx_short, false, memory_order_release);
	l->written += done;
	*taken = done;
	*released = done; /* copied */
	return rc;
}

/* Bytes that had arrived are given before the end is, whatever ended it: Linux keeps the receive
 * queue of a connection that was reset. */
static enum urds_rx_how rx(struct urds_link *base, const struct urds_iov *v, size_t n, size_t *got)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	struct msghdr m = msg_of(v, n);
	ssize_t r;

	*got = 0;
	if (iov_bytes(v, m.msg_iovlen) == 0)
		return URDS_RX_WAIT; /* asking for nothing would look like EOF */
	do {
		r = recv_now(l->fd, &m);
		l->rx_calls++;
	} while (r < 0 && errno == EINTR);
	if (r > 0) {
		*got = (size_t)r;
		return URDS_RX_NOW;
	}
	if (r < 0 && errno == EAGAIN)
		return URDS_RX_WAIT;
	base->end_err = (int16_t)(r < 0 ? -urds_err_from_errno(errno) : -URDS_ECONNRESET);
	base->end = r == 0 && !atomic_load_explicit(&l->is_broken, memory_order_acquire)
			    ? URDS_LINK_EOF
			    : URDS_LINK_RESET;
	return URDS_RX_ENDED;
}

/* write_seq - snd_una, so it is exact, and still there after a reset by either end. */
static uint64_t acked(struct urds_link *base)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	bool fin = atomic_load_explicit(&l->is_fin_sent, memory_order_acquire);
	int queued = 0;

	if (!l->is_tcp)
		return URDS_UNKNOWN;
	if (ioctl(l->fd, SIOCOUTQ, &queued) < 0 || queued < 0)
		return URDS_UNKNOWN;
	if (fin && queued > 0)
		queued--; /* our FIN is the last to be acknowledged and counts as one */
	/* A connection that is not yet there answers 0; nothing was written then either. */
	return (uint64_t)queued <= l->written ? l->written - (uint64_t)queued : 0;
}

/* Linux 6.18 as measured (tests/contract/tcp_facts_test.c holds it to this):
 * - tcpi_last_ack_recv is refreshed by data acks, keepalive answers and zero-window probe answers. But
 *   the probes back off (0.2, 0.4 ... 120 s), so before a full receiver it grows to minutes while
 *   nothing is wrong, and on an idle connection without keepalive for ever: alone it proves nothing.
 * - segments with data that acknowledge nothing new may refresh only tcpi_last_data_recv.
 * - tcpi_probes counts *unanswered* probes, keepalive or window; any answer makes it 0. One may be
 *   under way, or its answer suppressed (at most one per 500 ms): it takes two to mean something.
 * - tcpi_retransmits counts timeouts since the last progress; tcpi_rto is doubled by each, and
 *   tcpi_last_data_sent is the last retransmission. So the oldest byte is at least rto - (rto >> n)
 *   older than that (a tail loss probe comes before the first, and is not counted). */
static uint64_t silence(struct urds_link *base)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	struct tcp_info ti;
	socklen_t len = sizeof(ti);
	uint64_t ms;

	if (!l->is_tcp || atomic_load_explicit(&l->is_connecting, memory_order_acquire) ||
	    getsockopt(l->fd, IPPROTO_TCP, TCP_INFO, &ti, &len) < 0)
		return URDS_UNKNOWN;
	if (ti.tcpi_unacked > 0 && ti.tcpi_retransmits > 0)
		ms = (ti.tcpi_rto - (ti.tcpi_rto >> (ti.tcpi_retransmits & 31))) / 1000u +
		     ti.tcpi_last_data_sent;
	else if (ti.tcpi_probes >= 2)
		ms = ti.tcpi_last_ack_recv;
	else
		return 0;
	if (ms > ti.tcpi_last_ack_recv)
		ms = ti.tcpi_last_ack_recv;
	if (ms > ti.tcpi_last_data_recv)
		ms = ti.tcpi_last_data_recv;
	return URDS_MS(ms);
}

static int incoming_cpu(struct urds_link *base)
{
	int cpu = -1;
	socklen_t len = sizeof(cpu);

	if (getsockopt(urds_tcp_link_of(base)->fd, SOL_SOCKET, SO_INCOMING_CPU, &cpu, &len) < 0)
		return -1;
	return cpu;
}

static int fd_of(struct urds_link *base)
{
	return urds_tcp_link_of(base)->fd;
}

static uint64_t poll_key(struct urds_link *base)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	uint64_t key = 0;

	urds_lock_acquire(&l->lock);
	if (l->is_registered)
		key = urds_poller_key(urds_tcp_of(base->t)->poller, &l->src);
	urds_lock_release(&l->lock);
	return key;
}

const struct urds_data_ops urds_tcp_data = {
	.name = "tcp",
	.tx = tx,
	.rx = rx,
	.acked = acked,
	.silence = silence,
	.incoming_cpu = incoming_cpu,
	.poll_key = poll_key,
	.fd = fd_of,
	.ports = urds_tcp_link_ports,
};
