/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A send log under test with everything that went over its connection: what was put in, and a parser for
 * what came out.
 */
#ifndef URDS_TESTS_LOG_TEST_H
#define URDS_TESTS_LOG_TEST_H

#include "core/log.h"
#include "test_mem.h"
#include "../../tap.h"

struct rig {
	struct test_mem mem;
	struct urds_log log;
	uint8_t *wire; /* bytes taken on this connection */
	size_t len, cap;
	uint32_t sent, again;
	char owners[64]; /* addresses of these are owners */
};

static inline void rig_init(struct rig *r, uint64_t base)
{
	memset(r, 0, sizeof *r);
	urds_log_init(&r->log, test_mem_init(&r->mem), base);
}

static inline void rig_fini(struct rig *r)
{
	urds_log_fini(&r->log);
	free(r->wire);
	r->wire = NULL;
	CHECK_EQ(r->mem.blocks, 0);
	CHECK_EQ(r->mem.bytes, 0);
}

/* Claims only. */
static inline int rig_claim(struct rig *r, int owner, uint16_t dport, uint32_t len,
			    struct urds_log_claim *c)
{
	struct urds_buf *big = NULL;
	int rc;

	if (len > URDS_LOG_INLINE_MAX) {
		big = urds_buf_new(&r->mem.m, urds_buf_blocks(URDS_HDR_LEN + len));
		if (!big)
			return -URDS_ENOMEM;
	}
	rc = urds_log_claim(&r->log, len, &r->owners[owner], dport, big, c);
	if (rc < 0) {
		urds_buf_drop(big);
		return rc;
	}
	urds_hdr_put_data(c->wire, c->seq, len, (uint16_t)(100 + owner), dport);
	for (uint32_t i = 0; i < len; i++)
		c->wire[URDS_HDR_LEN + i] = test_byte(c->seq, i);
	return 0;
}

static inline int rig_put(struct rig *r, int owner, uint16_t dport, uint32_t len)
{
	struct urds_log_claim c;
	int rc = rig_claim(r, owner, dport, len, &c);

	if (rc == 0)
		urds_log_commit(&c);
	return rc;
}

/* One gather of which at most @max bytes are taken. Return: bytes taken. */
static inline size_t rig_take(struct rig *r, size_t max, uint64_t ack)
{
	struct urds_iov iov[16];
	size_t bytes, sum = 0, n = urds_log_gather(&r->log, iov, 16, 262144, ack, ack != 0, &bytes);
	uint32_t again;

	if (max > bytes)
		max = bytes;
	if (r->len + max > r->cap) {
		r->cap = (r->len + max) * 2;
		r->wire = realloc(r->wire, r->cap);
	}
	for (size_t i = 0; i < n; i++) {
		size_t part = iov[i].len < max - sum ? iov[i].len : max - sum;

		if (part > 0)
			memcpy(r->wire + r->len + sum, iov[i].base, part);
		sum += part;
	}
	CHECK_EQ(sum, max);
	r->sent += urds_log_taken(&r->log, max, (uint32_t)r->len, &again);
	r->again += again;
	r->len += max;
	return max;
}

static inline void rig_take_all(struct rig *r)
{
	while (rig_take(r, SIZE_MAX, 0) > 0)
		;
}

static inline void rig_rewind(struct rig *r)
{
	urds_log_rewind(&r->log);
	r->len = 0;
	r->sent = r->again = 0;
}

struct seen {
	uint64_t seq;
	uint32_t len, end;
	uint8_t flags;
	uint64_t ack;
};

/* Parses what is on the wire; payloads are checked. Return: whole messages. */
static inline size_t rig_parse(const struct rig *r, struct seen *v, size_t max)
{
	size_t at = 0, n = 0;

	while (r->len - at >= URDS_HDR_LEN) {
		struct urds_hdr h;

		urds_hdr_load(&h, r->wire + at);
		if (r->len - at - URDS_HDR_LEN < h.len)
			break;
		for (uint32_t i = 0; i < h.len; i++)
			if (r->wire[at + URDS_HDR_LEN + i] != test_byte(h.seq, i))
				T_FAIL("message %" PRIu64 " byte %u is wrong", h.seq, i);
		at += URDS_HDR_LEN + h.len;
		CHECK(n < max);
		v[n++] = (struct seen){h.seq, h.len, (uint32_t)at, h.flags, h.ack};
	}
	return n;
}

/* Everything is acknowledged by position; per-owner sums are added up. */
static inline uint64_t rig_ack_pos(struct rig *r, uint32_t pos, uint32_t *msgs)
{
	struct urds_log_freed_list f;
	uint64_t bytes = 0;
	bool more;

	*msgs = 0;
	do {
		more = urds_log_ack_pos(&r->log, pos, &f);
		for (size_t i = 0; i < f.n; i++) {
			bytes += f.v[i].bytes;
			*msgs += f.v[i].msgs;
		}
	} while (more);
	return bytes;
}

static inline uint64_t rig_ack_seq(struct rig *r, uint64_t seq, uint32_t *msgs)
{
	struct urds_log_freed_list f;
	uint64_t bytes = 0;
	bool more;

	*msgs = 0;
	do {
		more = urds_log_ack_seq(&r->log, seq, &f);
		for (size_t i = 0; i < f.n; i++) {
			bytes += f.v[i].bytes;
			*msgs += f.v[i].msgs;
		}
	} while (more);
	return bytes;
}

#endif
