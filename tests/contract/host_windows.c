/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>

#include "platform/addr.h"
#include "platform/net.h"
#include "platform/random.h"
#include "platform/windows/win.h"

static void CALLBACK too_long(void *arg, BOOLEAN timed_out)
{
	fprintf(stderr, "no end\n");
	abort();
}

/* URDS_TEST_OLD_WINDOWS: everything newer than Windows 7 is done without. */
void host_init(unsigned limit_s)
{
	HANDLE timer;
	WSADATA wsa;

	if (WSAStartup(MAKEWORD(2, 2), &wsa) != 0 ||
	    !CreateTimerQueueTimer(&timer, NULL, too_long, NULL, limit_s * 1000, 0,
				   WT_EXECUTEONLYONCE))
		abort();
	if (getenv("URDS_TEST_OLD_WINDOWS"))
		urds_win_pretend_old();
}

/* Processes are numbered anew in every prefix of Wine. */
uint16_t host_port(uint16_t base)
{
	static uint16_t offset;

	if (offset == 0)
		offset = (uint16_t)(1 + urds_random64() % 999);
	return (uint16_t)(base + offset);
}

size_t host_fd_count(void)
{
	DWORD n = 0;

	return GetProcessHandleCount(GetCurrentProcess(), &n) ? n : 0;
}

bool host_address(bool (*fits)(const struct urds_addr *a), char *text, size_t size)
{
	ULONG bytes = 1 << 20;
	IP_ADAPTER_ADDRESSES *list = malloc(bytes);
	struct urds_addr a;
	bool found = false;

	if (list && GetAdaptersAddresses(AF_UNSPEC, 0, NULL, list, &bytes) == NO_ERROR)
		for (IP_ADAPTER_ADDRESSES *i = list; i && !found; i = i->Next)
			for (IP_ADAPTER_UNICAST_ADDRESS *u = i->FirstUnicastAddress; u && !found;
			     u = u->Next) {
				found = urds_addr_from_sockaddr(
						&a, NULL, u->Address.lpSockaddr,
						(size_t)u->Address.iSockaddrLength) == 0 &&
					fits(&a);
				if (found)
					urds_addr_format(text, size, &a);
			}
	free(list);
	return found;
}

/* AF_UNIX sockets came with Windows 10, and without pairs. */
int host_unix_pair(intptr_t fd[2])
{
	return -1;
}

int host_tcp_pair(intptr_t fd[2])
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	SOCKET ls = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0),
	       in = INVALID_SOCKET;
	int len = sizeof(sin);

	if (bind(ls, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(ls, 1) == 0 &&
	    getsockname(ls, (struct sockaddr *)&sin, &len) == 0 &&
	    connect(out, (struct sockaddr *)&sin, sizeof(sin)) == 0)
		in = accept(ls, NULL, NULL);
	closesocket(ls);
	fd[0] = (intptr_t)out;
	fd[1] = (intptr_t)in;
	return in == INVALID_SOCKET ? -1 : 0;
}
