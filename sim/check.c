/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Flows and their checks.
 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>

uint8_t check_byte(unsigned f, unsigned no, uint32_t i)
{
	switch (i) {
	case 0:
		return 'f';
	case 1:
		return (uint8_t)f;
	case 2:
		return (uint8_t)(no >> 8);
	case 3:
		return (uint8_t)no;
	}
	return (uint8_t)(f * 31 + no * 151 + i + (i >> 8));
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

void check_got(struct check *c, const struct urds_addr *from, uint16_t sport, const struct urds_addr *to,
	       uint16_t dport, const uint8_t *p, uint32_t len)
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
		bool ok = no < f->sent && ((f->is_resumed && no < f->got) ||
					   (f->source_died && no >= f->first && no > f->got) ||
					   (f->is_lossy && no > f->got));

		if (!ok) {
			check_fail(c, "flow %u: message %u came, expected %u (%u sent): %s", i, no, f->got,
				   f->sent, no < f->got ? "duplicate" : "lost or out of order");
			return;
		}
	}
	f->is_resumed = f->is_lossy = false;
	if (f->source_died && no >= f->first)
		f->source_died = false;
	if (no >= f->sent || len != f->len[no]) {
		check_fail(c, "flow %u: message %u has %u bytes, %u sent", i, no, len,
			   no < f->n ? f->len[no] : 0);
		return;
	}
	for (uint32_t k = 0; k < len; k++)
		if (p[k] != check_byte(i, no, k)) {
			check_fail(c, "flow %u: message %u is wrong at byte %u", i, no, k);
			return;
		}
	f->got = no + 1;
	if (f->got > f->got_all)
		f->got_all = f->got;
}

bool check_is_complete(const struct check *c)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->flows[i].got < c->flows[i].n)
			return false;
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
			f->first = f->sent;
			f->source_died = true;
		}
	}
}
