/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The system's socket types and constants, and, where a system lacks some of those that the interface names, these too.
 */
#ifndef URDS_SYSTEM_H
#define URDS_SYSTEM_H

#include <stddef.h>
#include <sys/types.h>

#ifndef _WIN32
#include <sys/socket.h>
#else
#include <winsock2.h>
#include <ws2tcpip.h>

#ifdef _MSC_VER
typedef SSIZE_T ssize_t;
#endif

/* As POSIX has them. A program that has such structs already defines URDS_NO_MSGHDR; theirs must be the same. Control
 * messages are WSACMSGHDR, for the macros of mswsock.h. */
#ifndef URDS_NO_MSGHDR
struct iovec {
	void *iov_base;
	size_t iov_len;
};

struct msghdr {
	void *msg_name;
	socklen_t msg_namelen;
	struct iovec *msg_iov;
	size_t msg_iovlen;
	void *msg_control;
	size_t msg_controllen;
	int msg_flags;
};
#endif

/* Winsock's numbers, in headers that not every program includes ... */
#ifndef MSG_TRUNC
#define MSG_TRUNC 0x0100
#define MSG_CTRUNC 0x0200
#endif
#ifndef MSG_ERRQUEUE
#define MSG_ERRQUEUE 0x1000
#endif
#ifndef SO_TIMESTAMP
#define SO_TIMESTAMP 0x300A
#endif
/* ... and ours, for what it has not. */
#ifndef MSG_DONTWAIT
#define MSG_DONTWAIT 0x10000
#endif
#ifndef SO_DOMAIN
#define SO_DOMAIN 0x7201
#endif
#ifndef SO_PROTOCOL
#define SO_PROTOCOL 0x7202
#endif
#ifndef SO_SNDBUFFORCE
#define SO_SNDBUFFORCE 0x7203
#define SO_RCVBUFFORCE 0x7204
#endif
#endif

#endif
