/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void urds_random_fill(void *buf, size_t len)
{
	char *p = buf;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			abort();
		}
		p += n;
		len -= (size_t)n;
	}
}

uint64_t urds_random64(void)
{
	uint64_t v;

	urds_random_fill(&v, sizeof(v));
	return v;
}
