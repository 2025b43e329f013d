/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Bytes written as in wire.md 13: hex pairs, spaces anywhere, "00*16" for sixteen zero bytes.
 */
#ifndef URDS_TESTS_HEX_H
#define URDS_TESTS_HEX_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static inline int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Return: the number of bytes; aborts on a mistake in the test. */
static inline size_t hex_get(uint8_t *out, size_t cap, const char *s)
{
	size_t n = 0;

	while (*s) {
		if (*s == ' ') {
			s++;
			continue;
		}
		if (*s == '*') {
			char *end;
			unsigned long times = strtoul(s + 1, &end, 10);

			if (n == 0 || times == 0 || n + times - 1 > cap)
				abort();
			for (; times > 1; times--, n++)
				out[n] = out[n - 1];
			s = end;
			continue;
		}
		if (n == cap || hex_digit(s[0]) < 0 || hex_digit(s[1]) < 0)
			abort();
		out[n++] = (uint8_t)(hex_digit(s[0]) << 4 | hex_digit(s[1]));
		s += 2;
	}
	return n;
}

/* A small generator with a fixed seed: the same cases on every machine. */
static inline uint64_t rnd64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

#endif
