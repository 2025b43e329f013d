/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What is under way at the completion port, for a listener and for a link. Each operation holds a reference of its
 * object from its start until its packet has been handled.
 */
#ifndef URDS_TRANSPORT_TCP_WINDOWS_OPS_H
#define URDS_TRANSPORT_TCP_WINDOWS_OPS_H

#include "platform/net.h"

#include <mswsock.h>

#include "platform/poller.h"

struct tcp;
struct tcp_link;
struct tcp_listener;

/* Sockets that wait for a connection, per listener. */
#define TCP_ACCEPTS 4
/* Sends under way, per link. */
#define TCP_SENDS 4
/* The one of a link that copies: what it stands for is that there is room again. */
#define TCP_TAIL_BYTES 64
/* What AcceptEx() wants for one address. */
#define TCP_ACCEPT_ADDR_BYTES (sizeof(SOCKADDR_STORAGE) + 16)

struct tcp_accept {
	struct urds_poll_op op;
	struct tcp_listener *ls;
	SOCKET fd; /* to be the connection's; INVALID_SOCKET: not under way */
	uint8_t addrs[2 * TCP_ACCEPT_ADDR_BYTES];
};

struct tcp_listener_ops {
	_Atomic uint32_t refs; /* the owner's until unlisten, an accept's */
	struct tcp_accept accept[TCP_ACCEPTS];
};

struct tcp_send {
	struct urds_poll_op op;
	struct tcp_link *l;
	uint32_t bytes;
	bool is_done;
};

struct tcp_link_ops {
	struct urds_poll_op
		rx; /* ConnectEx(), and after is_connecting receives of no bytes: done when there is something to read */
	_Atomic bool is_armed;		 /* such a receive is under way, or its packet */
	int connect_err;		 /* of ConnectEx(); before the event that tells of it */
	_Atomic int end_err;		 /* with is_broken */
	struct tcp_send send[TCP_SENDS]; /* a ring; under lock */
	unsigned send_first, send_n;
	bool wants_fin;		      /* when the last of them is done; under lock */
	uint8_t tail[TCP_TAIL_BYTES]; /* of the one send of a link that copies */
	uint32_t tail_at;	      /* sent of it, in an earlier attempt */
};

struct tcp_winsock {
	LPFN_ACCEPTEX accept_ex;
	LPFN_CONNECTEX connect_ex;
	LPFN_GETACCEPTEXSOCKADDRS accept_addrs;
	_Atomic uint32_t under_way; /* operations */
};

/* Around an operation on @l: before the call that starts it, and after its packet, or when it did not start. The second is the
 * last that may touch @l. */
void urds_tcp_op_begin(struct tcp_link *l);
void urds_tcp_op_end(struct tcp_link *l);

/* The first error of @l, a negative urds_err; the system tells it once only. */
void urds_tcp_link_broke(struct tcp_link *l, int err);
/* Has on_readable() called when there is something to read. By the holder of the receiving direction, or before there is one;
 * the socket is open. */
void urds_tcp_link_arm(struct tcp_link *l);
/* Sends @bytes bytes in @n pieces, which stay where they are until they are released. Under the link's lock, with a place in
 * the ring free. Return: 0 or -URDS_ECONNRESET. */
int urds_tcp_link_send(struct tcp_link *l, WSABUF *v, DWORD n, uint32_t bytes);
/* May be read from, written to and waited for. Return: 0 or negative. */
int urds_tcp_sock_prepare(const struct tcp *t, SOCKET fd);

#endif
