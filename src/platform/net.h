/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The system's headers for socket addresses and the names of hosts and interfaces.
 */
#ifndef URDS_PLATFORM_NET_H
#define URDS_PLATFORM_NET_H

#ifdef _WIN32
#include <winsock2.h>
#include <ws2tcpip.h>
/* After them, or <windows.h> brings the old Winsock. */
#include <iphlpapi.h>
/* For control messages. */
#include <mswsock.h>
typedef ADDRESS_FAMILY sa_family_t;
#define cmsghdr _WSACMSGHDR
#define CMSG_ALIGN(len) WSA_CMSGHDR_ALIGN(len)
#define CMSG_SPACE(len) WSA_CMSG_SPACE(len)
#define CMSG_LEN(len) WSA_CMSG_LEN(len)
#undef CMSG_DATA
#define CMSG_DATA(c) WSA_CMSG_DATA(c)
#else
#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#endif

#endif
