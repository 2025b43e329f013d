/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * selfcheck: does the checker see a fault wherever it happens, and call it by its name?  No socket
 * is used, so this runs anywhere.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 400u

enum fault { NONE, DROP, DUP, SWAP, CORRUPT, FAULTS };
static const char *const names[] = {"none", "drop", "dup", "swap", "corrupt"};

struct book {
	uint8_t *bytes[COUNT];
	uint32_t len[COUNT];
};

static bool is_same(const struct book *b, unsigned i, unsigned k)
{
	return b->len[i] == b->len[k] &&
	       (b->len[i] == 0 || !memcmp(b->bytes[i], b->bytes[k], b->len[i]));
}

static void take(struct checker *c, const struct book *b, unsigned i)
{
	checker_take(c, b->bytes[i], b->len[i]);
}

/* Return: is the verdict right?  @exact: else it is enough that it is not "all well". */
static bool one(const struct stream *s, const struct book *b, enum fault f, unsigned at)
{
	struct checker c;
	uint8_t fin[STREAM_HEADER];
	uint64_t lost, want[5] = {0};

	if (checker_init(&c, s) < 0)
		abort();
	for (unsigned i = 0; i < COUNT; i++) {
		if (i != at || f == NONE) {
			take(&c, b, i);
			continue;
		}
		if (f == DROP)
			continue;
		if (f == DUP) {
			take(&c, b, i);
			take(&c, b, i);
		} else if (f == CORRUPT) {
			if (b->len[i] > 0)
				b->bytes[i][b->len[i] / 2] ^= 4;
			take(&c, b, i);
			if (b->len[i] > 0)
				b->bytes[i][b->len[i] / 2] ^= 4;
		} else if (i + 1 < COUNT) {
			take(&c, b, i + 1);
			take(&c, b, i++);
		} else {
			take(&c, b, i);
		}
	}
	stream_control(s, STREAM_FIN, fin);
	checker_take(&c, fin, sizeof(fin));
	lost = checker_end(&c);
	want[f] = 1;
	if ((f == SWAP && (at + 1 == COUNT || is_same(b, at, at + 1))) ||
	    (f == CORRUPT && b->len[at] == 0))
		want[f] = 0;
	bool ok = lost == want[DROP] && c.duplicated == want[DUP] && c.reordered == want[SWAP] &&
		  c.corrupt == want[CORRUPT] && c.received == COUNT - lost - c.corrupt;
	/* One byte damaged to what another message has: some other fault is seen, that is enough.
	 */
	if (f == CORRUPT && b->len[at] > 0 && b->len[at] < 4 &&
	    lost + c.duplicated + c.reordered + c.corrupt)
		ok = true;
	if (!ok)
		say("wrong: seed %u %s at %u (%u bytes, then %u): lost %llu duplicated %llu "
		    "reordered %llu "
		    "corrupt %llu received %llu",
		    s->spec->seed, names[f], at, b->len[at], at + 1 < COUNT ? b->len[at + 1] : 0,
		    (unsigned long long)lost, (unsigned long long)c.duplicated,
		    (unsigned long long)c.reordered, (unsigned long long)c.corrupt,
		    (unsigned long long)c.received);
	checker_fini(&c);
	return ok;
}

int mode_selfcheck(struct options *o)
{
	struct stream_end from = {.port = 4000}, to = {.port = 5000};
	unsigned wrong = 0, runs = 0;

	from.addr[15] = 1;
	to.addr[15] = 2;
	for (uint32_t seed = o->seed; seed < o->seed + 5; seed++) {
		struct stream_spec spec = {.seed = seed, .count = COUNT, .big = 0, .empty = 60};
		struct stream s;
		struct book b;

		if (stream_spec_init(&spec, "1-31*40,32-200*40,201-3000*1") < 0)
			abort();
		stream_init(&s, &spec, &from, &to);
		for (unsigned i = 0; i < COUNT; i++) {
			b.bytes[i] = malloc(STREAM_MAX);
			if (!b.bytes[i])
				abort();
			b.len[i] = stream_message(&s, i, b.bytes[i]);
		}
		for (unsigned f = NONE; f < FAULTS; f++) {
			for (unsigned at = 0; at < (f == NONE ? 1 : COUNT); at++, runs++)
				wrong += !one(&s, &b, (enum fault)f, at);
		}
		for (unsigned i = 0; i < COUNT; i++)
			free(b.bytes[i]);
	}
	say("selfcheck %u runs, %u wrong", runs, wrong);
	return wrong ? EXIT_CHECK : 0;
}
