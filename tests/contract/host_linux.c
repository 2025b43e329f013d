/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "host.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dirs.h"
#include "platform/addr.h"

void host_init(unsigned limit_s)
{
	alarm(limit_s);
}

uint16_t host_port(uint16_t base)
{
	return (uint16_t)(base + getpid() % 1000);
}

size_t host_fd_count(void)
{
	DIR *d = dir_open("/proc/self/fd");
	size_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

bool host_address(bool (*fits)(const struct urds_addr *a), char *text, size_t size)
{
	struct ifaddrs *list, *i;
	struct urds_addr a;
	bool found = false;

	if (getifaddrs(&list) < 0)
		return false;
	for (i = list; i && !found; i = i->ifa_next) {
		found = i->ifa_addr && i->ifa_addr->sa_family == AF_INET6 &&
			urds_addr_from_sockaddr(&a, NULL, i->ifa_addr,
						sizeof(struct sockaddr_in6)) == 0 &&
			fits(&a);
		if (found)
			urds_addr_format(text, size, &a);
	}
	freeifaddrs(list);
	return found;
}

int host_unix_pair(intptr_t fd[2])
{
	int two[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two) < 0)
		return -1;
	fd[0] = two[0];
	fd[1] = two[1];
	return 0;
}

int host_tcp_pair(intptr_t fd[2])
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int ls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc = -1,
	    out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sin);

	fd[0] = out;
	if (bind(ls, (struct sockaddr *)&sin, sizeof(sin)) == 0 && listen(ls, 1) == 0 &&
	    getsockname(ls, (struct sockaddr *)&sin, &len) == 0 &&
	    connect(out, (struct sockaddr *)&sin, sizeof(sin)) == 0) {
		fd[1] = accept4(ls, NULL, NULL, SOCK_CLOEXEC);
		rc = fd[1] < 0 ? -1 : 0;
	}
	close(ls);
	return rc;
}
