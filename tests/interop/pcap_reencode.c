/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Do we write what we read? Every message of every RDS stream in a capture is decoded into structs,
 * the bytes it came from are wiped, it is encoded again and compared. With --dump, prints the
 * messages instead, one line each, to be compared between captures.
 *
 *	pcap_reencode [--dump] [--expect MESSAGES] FILE...
 *
 * Exit status: 0, 1 if anything differed (or there were no messages, or not as many as expected), 2
 *if a file could not be read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcap.h"
#include "wire/congmap.h"
#include "wire/ext.h"
#include "wire/hdr.h"
#include "wire/probe.h"
#include "wire/splitter.h"
#include "wire/tlv.h"

/* One direction of a connection. */
struct stream {
	struct urds_splitter s;
	uint8_t *bytes; /* of the current frame, as captured */
	size_t len, cap;
	bool is_urds;	/* has sent a probe or an answer with our extension */
	bool is_broken; /* impossible length: nothing after it can be found */
};

struct run {
	struct pcap pcap;
	const char *file;
	bool dump;
	unsigned streams, differences, cut;
	uint64_t messages;
};

/* All there is in a frame, with no pointer into it. */
struct frame {
	enum urds_frame_kind kind;
	struct urds_hdr hdr; /* its extension area wiped */
	struct urds_exts exts;
	struct urds_probe probe;
	unsigned nports;
	uint16_t *ports;  /* MAP */
	uint8_t *payload; /* others */
};

static const char *const kind_names[] = {
	[URDS_FRAME_DATA] = "data",	  [URDS_FRAME_PING] = "ping",
	[URDS_FRAME_PROBE] = "probe",	  [URDS_FRAME_PROBE_ANSWER] = "answer",
	[URDS_FRAME_MAP] = "map",	  [URDS_FRAME_ACK] = "ack",
	[URDS_FRAME_CONTROL] = "control", [URDS_FRAME_IGNORE] = "ignore",
};

static void *must(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "pcap_reencode: out of memory\n");
	exit(2);
}

static void frame_get(struct frame *f, const uint8_t *p, size_t len, bool urds_peer)
{
	memset(f, 0, sizeof(*f));
	urds_hdr_get(&f->hdr, p, len);
	f->kind = urds_hdr_kind(&f->hdr, urds_peer);
	urds_exts_get(&f->exts, f->hdr.ext);
	if (f->kind == URDS_FRAME_PROBE || f->kind == URDS_FRAME_PROBE_ANSWER)
		urds_probe_get(&f->probe, &f->hdr);
	memset(f->hdr.ext, 0, sizeof(f->hdr.ext));
	p += URDS_HDR_LEN;
	len -= URDS_HDR_LEN;
	if (f->kind == URDS_FRAME_MAP && len == URDS_CONGMAP_LEN) {
		f->ports = must(calloc(URDS_CONGMAP_LEN * 8, sizeof(*f->ports)));
		for (unsigned port = 0; port < URDS_CONGMAP_LEN * 8; port++)
			if (urds_congmap_test(p, (uint16_t)port))
				f->ports[f->nports++] = (uint16_t)port;
	} else {
		f->payload = must(malloc(len + 1));
		memcpy(f->payload, p, len);
	}
}

/* @len bytes at @p are zero: a whole frame, or (cut short by the end of the capture) its header and
 * some payload. */
static void frame_put(uint8_t *p, size_t len, const struct frame *f)
{
	uint8_t ext[URDS_HDR_EXT_LEN];

	switch (f->kind) {
	case URDS_FRAME_PROBE:
	case URDS_FRAME_PROBE_ANSWER:
		urds_probe_put(p, f->kind == URDS_FRAME_PROBE_ANSWER, f->hdr.seq, &f->probe);
		/* What a replay and an ack patch in place. */
		p[URDS_HDR_OFF_FLAGS] = f->hdr.flags;
		urds_be64_store(p + URDS_HDR_OFF_ACK, f->hdr.ack);
		break;
	case URDS_FRAME_MAP:
		urds_congmap_hdr_put(p);
		break;
	case URDS_FRAME_DATA:
	case URDS_FRAME_PING:
	case URDS_FRAME_ACK:
	case URDS_FRAME_CONTROL:
	case URDS_FRAME_IGNORE:
		urds_hdr_put(p, &f->hdr);
		if (urds_exts_put(ext, &f->exts) >= 0)
			memcpy(p + URDS_HDR_OFF_EXT, ext, sizeof(ext));
		break;
	}
	if (f->ports) {
		for (unsigned i = 0; i < f->nports; i++)
			urds_congmap_set(p + URDS_HDR_LEN, f->ports[i]);
	} else {
		memcpy(p + URDS_HDR_LEN, f->payload, len - URDS_HDR_LEN);
	}
}

static void frame_fini(struct frame *f)
{
	free(f->ports);
	free(f->payload);
}

static void complain(struct run *r, const struct pcap_flow *flow, const char *what)
{
	char src[PCAP_ADDR_LEN], dst[PCAP_ADDR_LEN];

	r->differences++;
	fprintf(stderr, "%s: %s > %s: message ending before byte %" PRIu64 ": %s\n", r->file,
		pcap_addr(src, flow->src, flow->sport), pcap_addr(dst, flow->dst, flow->dport),
		flow->next, what);
}

static void compare(struct run *r, const struct pcap_flow *flow, struct stream *st,
		    const struct frame *f)
{
	uint8_t *orig = must(malloc(st->len));
	char text[80];

	memcpy(orig, st->bytes, st->len);
	memset(st->bytes, 0, st->len);
	frame_put(st->bytes, st->len, f);
	for (size_t i = 0; i < st->len; i++) {
		if (st->bytes[i] == orig[i])
			continue;
		snprintf(text, sizeof(text), "byte %zu of %zu was %02x, is %02x", i, st->len,
			 orig[i], st->bytes[i]);
		complain(r, flow, text);
		break;
	}
	free(orig);
}

static void check_control(struct run *r, const struct pcap_flow *flow, const struct frame *f)
{
	struct urds_tlv_iter it;
	struct urds_tlv t;
	int rc;

	urds_tlv_iter_init(&it, f->payload, f->hdr.len);
	while ((rc = urds_tlv_next(&it, &t)) > 0)
		;
	if (rc < 0)
		complain(r, flow, "control TLVs end inside one");
}

static void dump(const struct pcap_flow *flow, const struct stream *st, const struct frame *f,
		 uint64_t now_ns)
{
	const uint8_t *ext = st->bytes + URDS_HDR_OFF_EXT;
	char src[PCAP_ADDR_LEN], dst[PCAP_ADDR_LEN];
	unsigned n = URDS_HDR_EXT_LEN;

	printf("%" PRIu64 ".%06u %s %s %c %s seq=%" PRIu64 " ack=%" PRIu64
	       " ports=%u>%u len=%u flags=%02x ext=",
	       now_ns / 1000000000, (unsigned)(now_ns % 1000000000 / 1000),
	       pcap_addr(src, flow->src, flow->sport), pcap_addr(dst, flow->dst, flow->dport),
	       flow->dport == URDS_TCP_PORT ? '>' : '<', kind_names[f->kind], f->hdr.seq,
	       f->hdr.ack, f->hdr.sport, f->hdr.dport, f->hdr.len, f->hdr.flags);
	while (n > 0 && ext[n - 1] == 0)
		n--;
	for (unsigned i = 0; i < n; i++)
		printf("%02x", ext[i]);
	if (n == 0)
		putchar('-');
	/* What no kernel sends on TCP. */
	if (f->hdr.credit)
		printf(" credit=%u", f->hdr.credit);
	if (f->hdr.csum)
		printf(" csum=%04x", f->hdr.csum);
	if (urds_be32_load(f->hdr.pad))
		printf(" pad=%08x", urds_be32_load(f->hdr.pad));
	if (f->kind == URDS_FRAME_MAP) {
		printf(" congested=");
		for (unsigned i = 0; i < f->nports; i++)
			printf("%s%u", i ? "," : "", f->ports[i]);
		if (f->nports == 0)
			putchar('-');
	}
	putchar('\n');
}

static struct stream *stream_of(struct run *r, struct pcap_flow *flow)
{
	struct stream *st = flow->user;

	if (!st) {
		st = flow->user = must(calloc(1, sizeof(*st)));
		urds_splitter_init(&st->s);
		r->streams++;
	}
	return st;
}

/* ACK and CONTROL exist once both ends have said that they are urds, on this connection. */
static bool is_negotiated(const struct run *r, const struct pcap_flow *flow)
{
	const struct stream *st = flow->user;
	const struct pcap_flow *other = pcap_reverse(&r->pcap, flow);
	const struct stream *back = other ? other->user : NULL;

	return st->is_urds && back && back->is_urds;
}

static void frame_done(struct run *r, struct pcap_flow *flow, struct stream *st, uint64_t now_ns)
{
	struct frame f;

	frame_get(&f, st->bytes, st->len, is_negotiated(r, flow));
	r->messages++;
	st->is_urds |= f.probe.has_urds;
	if (r->dump)
		dump(flow, st, &f, now_ns);
	if (f.kind == URDS_FRAME_CONTROL)
		check_control(r, flow, &f);
	compare(r, flow, st, &f);
	frame_fini(&f);
	st->len = 0;
}

static void on_data(struct pcap *c, struct pcap_flow *flow, uint64_t now_ns, const uint8_t *p,
		    size_t len)
{
	struct run *r = (struct run *)c;
	struct stream *st = stream_of(r, flow);

	while (len > 0 && !st->is_broken) {
		struct urds_piece piece;
		int n = urds_splitter_next(&st->s, p, len, &piece);

		if (n < 0) {
			complain(r, flow, "impossible length");
			st->is_broken = true;
			return;
		}
		if (st->len + (size_t)n > st->cap) {
			st->cap = st->len + (size_t)n + 65536;
			st->bytes = must(realloc(st->bytes, st->cap));
		}
		memcpy(st->bytes + st->len, p, (size_t)n);
		st->len += (size_t)n;
		p += n;
		len -= (size_t)n;
		if (piece.kind == URDS_PIECE_MSG || (piece.kind == URDS_PIECE_BODY && piece.last))
			frame_done(r, flow, st, now_ns);
	}
}

static void on_end(struct pcap *c, struct pcap_flow *flow)
{
	struct run *r = (struct run *)c;
	struct stream *st = flow->user;
	struct frame f;

	if (!st)
		return;
	if (urds_splitter_mid(&st->s)) {
		r->cut++;
		if (st->len >= URDS_HDR_LEN) {
			frame_get(&f, st->bytes, st->len, false);
			if (!f.ports) /* a map that is cut has no meaning */
				compare(r, flow, st, &f);
			frame_fini(&f);
		}
	}
	free(st->bytes);
	free(st);
}

static void say(const struct run *r)
{
	const struct pcap_stats *s = &r->pcap.stats;
	const char *base = strrchr(r->file, '/');

	fflush(stdout);
	fprintf(r->dump ? stderr : stdout, "%s: %u streams %" PRIu64 " messages, %u differences",
		base ? base + 1 : r->file, r->streams, r->messages, r->differences);
	if (r->cut)
		fprintf(r->dump ? stderr : stdout, "; %u end inside a message", r->cut);
	if (s->cut + s->fragments + s->unsynced + s->waiting)
		fprintf(r->dump ? stderr : stdout,
			"; not looked at: %u packets cut, %u IP fragments, %u segments of streams"
			" without a start, %u after a gap",
			s->cut, s->fragments, s->unsynced, s->waiting);
	fputc('\n', r->dump ? stderr : stdout);
}

int main(int argc, char **argv)
{
	uint64_t messages = 0, expect = 0;
	bool is_dump = false;
	int i, status = 0;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--dump") == 0)
			is_dump = true;
		else if (strcmp(argv[i], "--expect") == 0 && i + 1 < argc)
			expect = strtoull(argv[++i], NULL, 10);
		else
			break;
	}
	if (i == argc || argv[i][0] == '-') {
		fprintf(stderr, "usage: pcap_reencode [--dump] [--expect MESSAGES] FILE...\n");
		return 2;
	}
	for (; i < argc; i++) {
		struct run r = {
			.pcap = {.port = URDS_TCP_PORT, .on_data = on_data, .on_end = on_end},
			.file = argv[i],
			.dump = is_dump,
		};

		if (pcap_read(&r.pcap, argv[i]) < 0) {
			status = 2;
			continue;
		}
		say(&r);
		messages += r.messages;
		if (status == 0 && (r.differences > 0 || r.messages == 0))
			status = 1;
	}
	if (expect && messages != expect) {
		fprintf(stderr, "%" PRIu64 " messages, expected %" PRIu64 "\n", messages, expect);
		status = status ? status : 1;
	}
	return status;
}
