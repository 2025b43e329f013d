/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Flows and their checks.
 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>

static uint8_t pattern[(1u << 20) + 65536];

static const uint8_t *bytes_of(unsigned f, unsigned no)
{
	if (!pattern[0])
		for (uint32_t i = 0, x = 1; i < sizeof pattern; i++, x = x * 1664525u + 1013904223u)
			pattern[i] = (uint8_t)(x >> 24) | (i == 0);
	return pattern + (f * 4099 + no * 151) % 65536;
}

static void name(uint8_t p[4], unsigned f, unsigned no)
{
	p[0] = 'f';
	p[1] = (uint8_t)f;
	p[2] = (uint8_t)(no >> 8);
	p[3] = (uint8_t)no;
}

void check_fill(uint8_t *p, unsigned f, unsigned no, uint32_t len)
{
	uint8_t head[4];

	name(head, f, no);
	memcpy(p, bytes_of(f, no), len);
	memcpy(p, head, len < 4 ? len : 4);
}

/* Return: the first byte that is wrong, or @len. */
static uint32_t compare(const uint8_t *p, unsigned f, unsigned no, uint32_t len)
{
	const uint8_t *want = bytes_of(f, no);
	uint32_t i = len < 4 ? len : 4;
	uint8_t head[4];

	name(head, f, no);
	if (memcmp(p, head, i) != 0)
		return 0;
	if (len > 4 && memcmp(p + 4, want + 4, len - 4) == 0)
		return len;
	while (i < len && p[i] == want[i])
		i++;
	return i;
}

void check_fail(struct check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->error[0])
		return;
	va_start(ap, fmt);
	vsnprintf(c->error, sizeof c->error, fmt, ap);
	va_end(ap);
}

void check_got(struct check *c, const struct urds_addr *from, uint16_t sport,
	       const struct urds_addr *to, uint16_t dport, const uint8_t *p, uint32_t len)
{
	struct flow *f = c->flows;
	unsigned i, no;

	for (i = 0; i < c->n; i++, f++)
		if (f->sport == sport && f->dport == dport && urds_addr_eq(&f->from, from) &&
		    urds_addr_eq(&f->to, to))
			break;
	if (i == c->n) {
		check_fail(c, "a message from port %u to port %u that nobody sent", sport, dport);
		return;
	}
	no = f->got;
	if (len >= 4) /* it says which one it is */
		no = (unsigned)p[2] << 8 | p[3];
	if (no != f->got) {
		bool ok = no < f->sent &&
			  ((f->is_resumed && no < f->got) || (f->is_lossy && no > f->got));

		for (unsigned k = 0; k < f->lives; k++)
			ok |= no == f->first[k] && no > f->got;
		if (!ok) {
			check_fail(c, "flow %u: message %u came, expected %u (%u sent): %s", i, no,
				   f->got, f->sent,
				   no < f->got ? "duplicate" : "lost or out of order");
			return;
		}
	}
	f->is_resumed = f->is_lossy = false;
	if (no >= f->sent || len != f->len[no]) {
		check_fail(c, "flow %u: message %u has %u bytes, %u sent", i, no, len,
			   no < f->n ? f->len[no] : 0);
		return;
	}
	if (len > 0 && compare(p, i, no, len) < len) {
		check_fail(c, "flow %u: message %u is wrong at byte %u", i, no,
			   compare(p, i, no, len));
		return;
	}
	f->got = no + 1;
	if (f->got > f->got_all)
		f->got_all = f->got;
}

bool check_is_complete(const struct check *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		const struct flow *f = &c->flows[i];

		if (f->got < f->n && !(f->lives > 0 && f->first[f->lives - 1] == f->n))
			return false;
	}
	return true;
}

void check_restart(struct check *c, const struct urds_addr *addr, bool is_kernel)
{
	for (unsigned i = 0; i < c->n; i++) {
		struct flow *f = &c->flows[i];

		if (urds_addr_eq(&f->to, addr)) {
			f->is_resumed = true;
			f->is_lossy = is_kernel;
		}
		if (urds_addr_eq(&f->from, addr)) {
			f->first[f->lives++] = f->sent;
		}
	}
}
