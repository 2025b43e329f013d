/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Bytes. They are received when a receive of no bytes was done. They are sent in one of two ways:
 *
 * - copied into the system's buffer. Of what does not fit a few bytes are kept here, in a send that is done when there is
 *   room again;
 * - in place: from the caller's memory, which is its own again when that send is done.
 */
#include "transport/tcp/tcp_internal.h"

#include "platform/errno.h"

/* Of one call. */
#define PIECES 64
#define COPY_MAX (1u << 30)
#define IN_PLACE_MAX (256u << 10)

/* A place in the caller's pieces. */
struct cursor {
	const struct urds_iov *v;
	size_t n, off;
};

/* The next pieces, up to @max bytes; the cursor stays. Return: their bytes. */
static uint32_t gather(const struct cursor *c, WSABUF *out, DWORD *out_n, uint32_t max)
{
	uint32_t sum = 0;
	DWORD k = 0;

	for (size_t i = 0, off = c->off; i < c->n && k < PIECES && sum < max; i++, off = 0) {
		size_t len = c->v[i].len - off;

		if (len == 0)
			continue;
		if (len > max - sum)
			len = max - sum;
		out[k].buf = (char *)c->v[i].base + off;
		out[k++].len = (ULONG)len;
		sum += (uint32_t)len;
	}
	*out_n = k;
	return sum;
}

static void advance(struct cursor *c, size_t bytes)
{
	while (c->n > 0 && bytes >= c->v->len - c->off) {
		bytes -= c->v->len - c->off;
		c->v++;
		c->n--;
		c->off = 0;
	}
	c->off += bytes;
}

/* Until the system's buffer is full. What is kept here then is taken and not released. */
static int tx_copied(struct tcp_link *l, struct cursor *c, size_t *taken, size_t *released)
{
	WSABUF v[PIECES];
	uint32_t asked;
	DWORD n;

	if (l->sys.send_n > 0)
		return 0;
	while ((asked = gather(c, v, &n, COPY_MAX)) > 0) {
		DWORD sent = 0, kept = 0;
		int rc;

		l->tx_calls++;
		if (WSASend(l->fd, v, n, &sent, 0, NULL, NULL) == SOCKET_ERROR) {
			if (WSAGetLastError() != WSAEWOULDBLOCK &&
			    WSAGetLastError() != WSAENOBUFS) {
				urds_tcp_link_broke(l, urds_tcp_sock_error());
				return -URDS_ECONNRESET;
			}
			sent = 0;
		}
		advance(c, sent);
		*taken += sent;
		*released += sent;
		if (sent == asked)
			continue;
		(void)gather(c, v, &n, TCP_TAIL_BYTES);
		for (DWORD i = 0; i < n; kept += v[i].len, i++)
			memcpy(l->sys.tail + kept, v[i].buf, v[i].len);
		v[0].buf = (char *)l->sys.tail;
		v[0].len = kept;
		rc = urds_tcp_link_send(l, v, 1, kept);
		if (rc < 0)
			return rc;
		advance(c, kept);
		*taken += kept;
		break;
	}
	return 0;
}

static int tx_in_place(struct tcp_link *l, struct cursor *c, size_t *taken)
{
	WSABUF v[PIECES];
	uint32_t bytes;
	DWORD n;

	while (l->sys.send_n < TCP_SENDS && (bytes = gather(c, v, &n, IN_PLACE_MAX)) > 0) {
		int rc = urds_tcp_link_send(l, v, n, bytes);

		if (rc < 0)
			return rc;
		advance(c, bytes);
		*taken += bytes;
	}
	return 0;
}

static int tx(struct urds_link *base, const struct urds_iov *v, size_t n, size_t *taken,
	      size_t *released)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	struct cursor c = {v, n, 0};
	int rc;

	*taken = *released = 0;
	if (atomic_load_explicit(&l->is_broken, memory_order_acquire))
		return -URDS_ECONNRESET;
	/* Up before the look at what is under way: the packet that makes room may be handled meanwhile. */
	atomic_store(&l->is_tx_short, true);
	/* There is nothing to send on yet: on_writable() comes behind on_connected(). */
	if (atomic_load(&l->is_connecting))
		return 0;
	urds_lock_acquire(&l->lock);
	rc = urds_tcp_of(base->t)->cfg.sends_in_place ? tx_in_place(l, &c, taken)
						      : tx_copied(l, &c, taken, released);
	urds_lock_release(&l->lock);
	advance(&c, 0);
	if (c.n == 0)
		atomic_store(&l->is_tx_short, false);
	return rc;
}

/* Windows fails a receive after a reset, again and again. Wine 8 may have used the error up: it is an end like any other then,
 * but for this. */
static bool was_reset(struct tcp_link *l)
{
	WSAPOLLFD p = {.fd = l->fd, .events = POLLIN};

	return WSAPoll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

static enum urds_rx_how ended(struct tcp_link *l)
{
	int err;

	if (!atomic_load(&l->is_broken) && was_reset(l))
		urds_tcp_link_broke(l, -URDS_ECONNRESET);
	err = atomic_load(&l->sys.end_err);
	l->base.end_err = (int16_t)(err < 0 ? err : -URDS_ECONNRESET);
	l->base.end = atomic_load_explicit(&l->is_broken, memory_order_acquire) ? URDS_LINK_RESET
										: URDS_LINK_EOF;
	return URDS_RX_ENDED;
}

/* The receive that waits has not been done: there is nothing. No call is needed to know. */
static bool is_quiet(struct tcp_link *l)
{
	return atomic_load(&l->sys.is_armed) && urds_poll_op_waits(&l->sys.rx) &&
	       !atomic_load(&l->is_broken);
}

static enum urds_rx_how rx(struct urds_link *base, const struct urds_iov *v, size_t n, size_t *got)
{
	struct tcp_link *l = urds_tcp_link_of(base);
	struct cursor c = {v, n, 0};
	WSABUF w[PIECES];
	uint32_t asked;
	DWORD k;

	*got = 0;
	advance(&c, 0);
	if (c.n == 0 || atomic_load(&l->is_connecting) || is_quiet(l))
		return URDS_RX_WAIT; /* asking for nothing would look like the end */
	while ((asked = gather(&c, w, &k, COPY_MAX)) > 0) {
		DWORD r = 0, flags = 0;

		l->rx_calls++;
		if (WSARecv(l->fd, w, k, &r, &flags, NULL, NULL) == SOCKET_ERROR) {
			if (WSAGetLastError() != WSAEWOULDBLOCK)
				urds_tcp_link_broke(l, urds_tcp_sock_error());
			else if (!atomic_load(&l->is_broken))
				break;
			r = 0;
		}
		if (r == 0 && *got == 0)
			return ended(l);
		*got += r;
		advance(&c, r);
		if (r < asked)
			break;
	}
	if (c.n == 0)
		return URDS_RX_NOW; /* there may be more */
	urds_tcp_link_arm(l);
	return *got > 0 ? URDS_RX_NOW : URDS_RX_WAIT;
}

/* What is not known of a connection here. */
static uint64_t unknown(struct urds_link *base)
{
	return URDS_UNKNOWN;
}

static int no_cpu(struct urds_link *base)
{
	return -1;
}

/* A handle has 32 bits that matter. */
static int fd_of(struct urds_link *base)
{
	return (int)urds_tcp_link_of(base)->fd;
}

const struct urds_data_ops urds_tcp_data = {
	.name = "tcp",
	.tx = tx,
	.rx = rx,
	.acked = unknown,
	.silence = unknown,
	.incoming_cpu = no_cpu,
	.poll_key = NULL,
	.fd = fd_of,
	.ports = urds_tcp_link_ports,
};
