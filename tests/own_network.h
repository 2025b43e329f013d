/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A network namespace of the program's own, where that is allowed: several tests may then use the same addresses, and
 * names of abstract sockets, at the same time.
 */
#ifndef URDS_TESTS_OWN_NETWORK_H
#define URDS_TESTS_OWN_NETWORK_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* To be called first in main(). Return: is it ours, with a loopback that is up? */
static inline bool own_network(void)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	uid_t uid = getuid();
	gid_t gid = getgid();
	bool ok = unshare(CLONE_NEWNET) == 0;
	int fd;

	if (!ok && unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) {
		char map[64];

		ok = true;
		fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
		if (fd >= 0) {
			ok = write(fd, "deny", 4) == 4;
			close(fd);
		}
		for (int i = 0; ok && i < 2; i++) {
			int n = snprintf(map, sizeof map, "0 %u 1",
					 i ? (unsigned)gid : (unsigned)uid);

			fd = open(i ? "/proc/self/gid_map" : "/proc/self/uid_map",
				  O_WRONLY | O_CLOEXEC);
			ok = fd >= 0 && write(fd, map, (size_t)n) == n;
			if (fd >= 0)
				close(fd);
		}
	}
	if (!ok)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0)
		return false;
	ifr.ifr_flags = (short)(ifr.ifr_flags | IFF_UP);
	ok = ioctl(fd, SIOCSIFFLAGS, &ifr) == 0;
	close(fd);
	return ok;
}

#endif
