/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The pattern that -v puts after the header of each message.
 */
#include <string.h>

#include "stress.h"

void stress_pattern(uint8_t *p, size_t len)
{
	size_t i;

	if (len)
		p[0] = 11;
	for (i = 1; i < len; i++)
		p[i] = (uint8_t)(41u * (p[i - 1] + 3u) + (unsigned)(i / 256));
}

size_t stress_corrupted(const uint8_t *p, size_t len, size_t *first)
{
	uint8_t want = 11;
	size_t i, n = 0;

	for (i = 0; i < len; i++) {
		if (i)
			want = (uint8_t)(41u * (want + 3u) + (unsigned)(i / 256));
		if (p[i] != want && n++ == 0)
			*first = i;
	}
	return n;
}
