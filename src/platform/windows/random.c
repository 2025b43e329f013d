/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/random.h"

#include <stdlib.h>

#include "platform/windows/win.h"

#include <bcrypt.h>

void urds_random_fill(void *buf, size_t len)
{
	unsigned char *p = buf;

	while (len > 0) {
		ULONG n = len > 1u << 20 ? 1u << 20 : (ULONG)len;

		if (!BCRYPT_SUCCESS(BCryptGenRandom(NULL, p, n, BCRYPT_USE_SYSTEM_PREFERRED_RNG)))
			abort();
		p += n;
		len -= n;
	}
}

uint64_t urds_random64(void)
{
	uint64_t v;

	urds_random_fill(&v, sizeof(v));
	return v;
}
