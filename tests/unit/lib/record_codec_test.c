/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership protocol's codec. The golden messages were written by hand from the description in
 * record_codec.h.
 */
#include "lib/record_codec.h"

#include "tap.h"

static const struct urds_addr addr4 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}, 0};
static const struct urds_addr addr6 = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 7};
static uint8_t msg[URDS_REC_MSG_MAX];

static void head__golden(void)
{
	static const uint8_t want[] = {0, 0, 0, 12, 1, 1, 0x12, 0x34, 0, 0, 0, 0};

	CHECK_EQ(urds_rec_empty_put(msg, sizeof(msg), URDS_REC_IDENT, 0x1234), 12);
	CHECK_MEM(msg, want, sizeof(want));
}

static void ident__golden(void)
{
	static const uint8_t want[] = {
		0, 0,	0,    50,   1,	 0x81, 0,   2,	  0,   0, 0, 0, /* head */
		1, 2,	3,    4,    5,	 6,    7,   8,			/* instance */
		0, 0,	0x12, 0x67, 0,	 0,    3,   0xe8,		/* pid 4711, uid 1000 */
		8, 'e', 'm',  'b',  'e', 'd',  'd', 'e',  'd',		/* mode */
		5, '0', '.',  '1',  '.', '0',				/* version */
		6, 'o', 'r',  'a',  'c', 'l',  'e',			/* program */
	};
	struct urds_rec_ident id = {.instance = 0x0102030405060708, .pid = 4711, .uid = 1000}, out;

	strcpy(id.mode, "embedded");
	strcpy(id.version, "0.1.0");
	strcpy(id.program, "oracle");
	CHECK_EQ(urds_rec_ident_put(msg, sizeof(msg), 2, &id), sizeof(want));
	CHECK_MEM(msg, want, sizeof(want));
	CHECK_EQ(urds_rec_ident_get(&out, want, sizeof(want)), 0);
	CHECK(out.instance == id.instance && out.pid == 4711 && out.uid == 1000);
	CHECK(!strcmp(out.mode, "embedded") && !strcmp(out.version, "0.1.0") &&
	      !strcmp(out.program, "oracle"));
}

static void ident__strings_are_cut_and_printable(void)
{
	struct urds_rec_ident id = {.pid = 1}, out;
	int n;

	memset(id.program, 'x', sizeof(id.program)); /* no terminator */
	id.mode[0] = '\033';
	n = urds_rec_ident_put(msg, sizeof(msg), 0, &id);
	CHECK(n > 0);
	CHECK_EQ(urds_rec_ident_get(&out, msg, (size_t)n), 0);
	CHECK_EQ(strlen(out.program), sizeof(id.program) - 1);
	CHECK(!strcmp(out.mode, "?"));
}

static void ping__golden(void)
{
	static const uint8_t want[] = {0, 0, 0,	   36,	 1,   3, 0, 5, 0, 0, 0, 0,
				       5, 0, 0,	   0,	 0,   0, 0, 0, 0, 0, 0, 0,
				       0, 0, 0xff, 0xff, 192, 0, 2, 1, 0, 0, 0, 0};
	struct urds_addr to;
	uint8_t slot;

	CHECK_EQ(urds_rec_ping_put(msg, sizeof(msg), 5, 5, &addr4), sizeof(want));
	CHECK_MEM(msg, want, sizeof(want));
	CHECK_EQ(urds_rec_ping_get(&slot, &to, want, sizeof(want)), 0);
	CHECK(slot == 5 && urds_addr_eq(&to, &addr4));
}

static void bodies__round_trip(void)
{
	struct urds_rec_pong pong = {.slot = 7, .rtt_ns = 1234567890123, .from = addr6}, pong2;
	struct urds_rec_chunk c = {42, 100, 10, (const uint8_t *)"0123456789", 10}, c2;
	struct urds_addr peer;
	uint32_t v;
	int n;

	n = urds_rec_pong_put(msg, sizeof(msg), 1, &pong);
	CHECK_EQ(urds_rec_pong_get(&pong2, msg, (size_t)n), 0);
	CHECK(pong2.slot == 7 && pong2.rtt_ns == pong.rtt_ns && urds_addr_eq(&pong2.from, &addr6));
	n = urds_rec_chunk_put(msg, sizeof(msg), 1, &c);
	CHECK_EQ(urds_rec_chunk_get(&c2, msg, (size_t)n), 0);
	CHECK(c2.element == 42 && c2.total == 100 && c2.offset == 10 && c2.len == 10);
	CHECK_MEM(c2.bytes, c.bytes, 10);
	n = urds_rec_info_put(msg, sizeof(msg), 1, 10006);
	CHECK_EQ(urds_rec_info_get(&v, msg, (size_t)n), 0);
	CHECK_EQ(v, 10006);
	n = urds_rec_reset_put(msg, sizeof(msg), 1, &addr6);
	CHECK_EQ(urds_rec_reset_get(&peer, msg, (size_t)n), 0);
	CHECK(urds_addr_eq(&peer, &addr6));
	n = urds_rec_count_put(msg, sizeof(msg), 1, 8);
	CHECK_EQ(urds_rec_count_get(&v, msg, (size_t)n), 0);
	CHECK_EQ(v, 8);
}

static void error__carries_status_and_sentence(void)
{
	struct urds_rec_hdr h;
	char text[URDS_REC_TEXT_MAX + 1];
	int n = urds_rec_error_put(msg, sizeof(msg), URDS_REC_INFO, 9, -URDS_EACCES, "not\nyou");

	CHECK_EQ(urds_rec_hdr_get(&h, msg, (size_t)n), 0);
	CHECK(h.type == (URDS_REC_INFO | URDS_REC_REPLY) && h.tag == 9 && h.status == -URDS_EACCES);
	urds_rec_error_get(text, sizeof(text), msg, (size_t)n);
	CHECK(!strcmp(text, "not?you"));
	urds_rec_error_get(text, sizeof(text), msg, 3);
	CHECK(!text[0]);
}

static void head__refuses(void)
{
	static const struct {
		uint8_t at, value;
	} bad[] = {{3, 13}, {0, 0x80}, {4, 0}, {4, 2}, {11, 1}, {8, 0xff}};
	struct urds_rec_hdr h;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		urds_rec_empty_put(msg, sizeof(msg), URDS_REC_RESET, 0);
		msg[bad[i].at] = bad[i].value;
		CHECK_EQ(urds_rec_hdr_get(&h, msg, 12), -URDS_EPROTO);
	}
	/* Who is it? can be asked in any version. */
	urds_rec_empty_put(msg, sizeof(msg), URDS_REC_IDENT, 0);
	msg[4] = 9;
	CHECK_EQ(urds_rec_hdr_get(&h, msg, 12), 0);
}

/* Every truncation is refused, and read in a buffer of exactly its length, so that a sanitizer sees a
 * byte too many. */
static void bodies__truncated(void)
{
	struct urds_rec_ident id = {.pid = 1, .mode = "m", .version = "v", .program = "p"};
	struct urds_rec_pong pong = {.slot = 1, .from = addr4};
	struct urds_rec_hdr h;
	struct urds_addr a;
	uint8_t slot;
	uint32_t v;
	int kind, n = 0, rc = 0;

	for (kind = 0; kind < 6; kind++) {
		size_t len, full;

		switch (kind) {
		case 0:
			n = urds_rec_ident_put(msg, sizeof(msg), 0, &id);
			break;
		case 1:
			n = urds_rec_info_put(msg, sizeof(msg), 0, 1);
			break;
		case 2:
			n = urds_rec_ping_put(msg, sizeof(msg), 0, 1, &addr4);
			break;
		case 3:
			n = urds_rec_pong_put(msg, sizeof(msg), 0, &pong);
			break;
		case 4:
			n = urds_rec_reset_put(msg, sizeof(msg), 0, &addr4);
			break;
		case 5:
			n = urds_rec_count_put(msg, sizeof(msg), 0, 1);
			break;
		}
		CHECK(n > 0);
		full = (size_t)n;
		for (len = 0; len <= full; len++) {
			uint8_t *p = malloc(len + !len);

			memcpy(p, msg, len);
			rc = urds_rec_hdr_get(&h, p, len);
			CHECK_EQ(rc, len < 12 ? -URDS_ESHORT : len < full ? -URDS_EPROTO : 0);
			switch (kind) {
			case 0:
				rc = urds_rec_ident_get(&id, p, len);
				break;
			case 1:
				rc = urds_rec_info_get(&v, p, len);
				break;
			case 2:
				rc = urds_rec_ping_get(&slot, &a, p, len);
				break;
			case 3:
				rc = urds_rec_pong_get(&pong, p, len);
				break;
			case 4:
				rc = urds_rec_reset_get(&a, p, len);
				break;
			case 5:
				rc = urds_rec_count_get(&v, p, len);
				break;
			}
			CHECK_EQ(rc, len < full ? -URDS_ESHORT : 0);
			free(p);
		}
	}
}

static void chunk__refuses_what_does_not_fit(void)
{
	static const struct {
		uint32_t element, total, offset;
	} bad[] = {{0, 10, 0},	{65537, 10, 0}, {1, 9, 0},	   {1, 10, 1},
		   {1, 10, 11}, {1, 0, 0},	{1, 5, UINT32_MAX}};
	struct urds_rec_chunk c = {1, 10, 0, (const uint8_t *)"0123456789", 10}, out;
	size_t i;
	int n;

	n = urds_rec_chunk_put(msg, sizeof(msg), 0, &c);
	CHECK_EQ(urds_rec_chunk_get(&out, msg, (size_t)n), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		c.element = bad[i].element;
		c.total = bad[i].total;
		c.offset = bad[i].offset;
		n = urds_rec_chunk_put(msg, sizeof(msg), 0, &c);
		CHECK(n > 0);
		CHECK_EQ(urds_rec_chunk_get(&out, msg, (size_t)n), -URDS_EPROTO);
	}
	c.len = URDS_REC_CHUNK_MAX + 1;
	CHECK_EQ(urds_rec_chunk_put(msg, sizeof(msg), 0, &c), -URDS_ENOSPC);
}

static void put__respects_room(void)
{
	struct urds_rec_ident id = {.pid = 1};
	struct urds_rec_pong pong = {.slot = 1};

	CHECK_EQ(urds_rec_empty_put(msg, 11, 1, 0), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_ident_put(msg, 30, 0, &id), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_info_put(msg, 15, 0, 1), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_ping_put(msg, 35, 0, 1, &addr4), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_pong_put(msg, 43, 0, &pong), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_reset_put(msg, 31, 0, &addr4), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_count_put(msg, 15, 0, 1), -URDS_ENOSPC);
	CHECK_EQ(urds_rec_error_put(msg, 13, 1, 0, -1, "xx"), -URDS_ENOSPC);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(head__golden);
	T_RUN(head__refuses);
	T_RUN(ident__golden);
	T_RUN(ident__strings_are_cut_and_printable);
	T_RUN(ping__golden);
	T_RUN(bodies__round_trip);
	T_RUN(bodies__truncated);
	T_RUN(error__carries_status_and_sentence);
	T_RUN(chunk__refuses_what_does_not_fit);
	T_RUN(put__respects_room);
	return t_done();
}
