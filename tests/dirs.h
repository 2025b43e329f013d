/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reading a directory where threads open and close descriptors meanwhile.
 */
#ifndef URDS_TESTS_DIRS_H
#define URDS_TESTS_DIRS_H

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>

/* opendir(). The thread sanitizer does not see the descriptor that opendir() makes: where another thread closed one of the same
 * number before, it takes closedir() for a race with that, and then fails to print it. It does see open(). */
static inline DIR *dir_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? NULL : fdopendir(fd);
}

#endif
