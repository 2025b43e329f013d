/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership protocol, bytes <-> structs.
 */
#include "lib/record_codec.h"

#include <stdio.h>

#include "wire/be.h"

#define H URDS_REC_HDR_LEN
#define ADDR_LEN 20u

static uint8_t *head(uint8_t *p, size_t len, uint8_t type, uint16_t tag, int32_t status)
{
	urds_be32_store(p, (uint32_t)len);
	p[4] = URDS_REC_VERSION;
	p[5] = type;
	urds_be16_store(p + 6, tag);
	urds_be32_store(p + 8, (uint32_t)status);
	return p + H;
}

static uint8_t *addr_put(uint8_t *p, const struct urds_addr *a)
{
	memcpy(p, a->ip, 16);
	urds_be32_store(p + 16, a->scope);
	return p + ADDR_LEN;
}

static void addr_get(struct urds_addr *out, const uint8_t *p)
{
	memcpy(out->ip, p, 16);
	out->scope = urds_be32_load(p + 16);
}

/* Body of exactly @body bytes, or more of them from a later version of us. */
static int want(size_t len, size_t body)
{
	return len < H + body ? -URDS_ESHORT : 0;
}

int urds_rec_hdr_get(struct urds_rec_hdr *out, const uint8_t *p, size_t len)
{
	struct urds_rec_hdr h;

	if (len < H)
		return -URDS_ESHORT;
	h.len = urds_be32_load(p);
	h.version = p[4];
	h.type = p[5];
	h.tag = urds_be16_load(p + 6);
	h.status = (int32_t)urds_be32_load(p + 8);
	if (h.len != len || len > URDS_REC_MSG_MAX)
		return -URDS_EPROTO;
	if (h.version == 0 || (h.version != URDS_REC_VERSION && (h.type & 0x7f) != URDS_REC_IDENT))
		return -URDS_EPROTO;
	if (h.status > 0 || h.status <= -URDS_ERR_MAX || (h.status && !(h.type & URDS_REC_REPLY)))
		return -URDS_EPROTO;
	*out = h;
	return 0;
}

int urds_rec_empty_put(uint8_t *p, size_t cap, uint8_t type, uint16_t tag)
{
	if (cap < H)
		return -URDS_ENOSPC;
	head(p, H, type, tag, 0);
	return H;
}

int urds_rec_error_put(uint8_t *p, size_t cap, uint8_t type, uint16_t tag, int status,
		       const char *text)
{
	size_t n = strlen(text);

	if (n > URDS_REC_TEXT_MAX)
		n = URDS_REC_TEXT_MAX;
	if (cap < H + n)
		return -URDS_ENOSPC;
	memcpy(head(p, H + n, type | URDS_REC_REPLY, tag, status), text, n);
	return (int)(H + n);
}

static void text_copy(char *out, size_t cap, const uint8_t *p, size_t n)
{
	size_t i;

	if (n > cap - 1)
		n = cap - 1;
	for (i = 0; i < n; i++)
		out[i] = p[i] >= 0x20 && p[i] < 0x7f ? (char)p[i] : '?';
	out[n] = '\0';
}

void urds_rec_error_get(char *text, size_t cap, const uint8_t *p, size_t len)
{
	text_copy(text, cap, p + H, len < H ? 0 : len - H);
}

static uint8_t *text_put(uint8_t *p, const char *s, size_t cap)
{
	size_t n = strnlen(s, cap - 1);

	*p++ = (uint8_t)n;
	memcpy(p, s, n);
	return p + n;
}

int urds_rec_ident_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_rec_ident *id)
{
	uint8_t *q = p + H;

	if (cap < H + 16 + 1 + sizeof(id->mode) + 1 + sizeof(id->version) + 1 + sizeof(id->program))
		return -URDS_ENOSPC;
	urds_be64_store(q, id->instance);
	urds_be32_store(q + 8, id->pid);
	urds_be32_store(q + 12, id->uid);
	q = text_put(q + 16, id->mode, sizeof(id->mode));
	q = text_put(q, id->version, sizeof(id->version));
	q = text_put(q, id->program, sizeof(id->program));
	head(p, (size_t)(q - p), URDS_REC_IDENT | URDS_REC_REPLY, tag, 0);
	return (int)(q - p);
}

static const uint8_t *text_get(char *out, size_t cap, const uint8_t *p, const uint8_t *end)
{
	size_t n;

	if (!p || p == end)
		return NULL;
	n = *p++;
	if (n > (size_t)(end - p))
		return NULL;
	text_copy(out, cap, p, n);
	return p + n;
}

int urds_rec_ident_get(struct urds_rec_ident *out, const uint8_t *p, size_t len)
{
	struct urds_rec_ident id = {0};
	const uint8_t *q = p + H + 16, *end = p + len;

	if (want(len, 16) < 0)
		return -URDS_ESHORT;
	id.instance = urds_be64_load(p + H);
	id.pid = urds_be32_load(p + H + 8);
	id.uid = urds_be32_load(p + H + 12);
	q = text_get(id.mode, sizeof(id.mode), q, end);
	q = text_get(id.version, sizeof(id.version), q, end);
	q = text_get(id.program, sizeof(id.program), q, end);
	if (!q)
		return -URDS_ESHORT;
	*out = id;
	return 0;
}

int urds_rec_info_put(uint8_t *p, size_t cap, uint16_t tag, uint32_t source)
{
	if (cap < H + 4)
		return -URDS_ENOSPC;
	urds_be32_store(head(p, H + 4, URDS_REC_INFO, tag, 0), source);
	return H + 4;
}

int urds_rec_info_get(uint32_t *source, const uint8_t *p, size_t len)
{
	if (want(len, 4) < 0)
		return -URDS_ESHORT;
	*source = urds_be32_load(p + H);
	return 0;
}

int urds_rec_chunk_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_rec_chunk *c)
{
	uint8_t *q = p + H;

	if (c->len > URDS_REC_CHUNK_MAX || cap < H + 12 + c->len)
		return -URDS_ENOSPC;
	urds_be32_store(q, c->element);
	urds_be32_store(q + 4, c->total);
	urds_be32_store(q + 8, c->offset);
	if (c->len)
		memcpy(q + 12, c->bytes, c->len);
	head(p, H + 12 + c->len, URDS_REC_INFO | URDS_REC_REPLY, tag, 0);
	return (int)(H + 12 + c->len);
}

int urds_rec_chunk_get(struct urds_rec_chunk *out, const uint8_t *p, size_t len)
{
	struct urds_rec_chunk c;

	if (want(len, 12) < 0)
		return -URDS_ESHORT;
	c.element = urds_be32_load(p + H);
	c.total = urds_be32_load(p + H + 4);
	c.offset = urds_be32_load(p + H + 8);
	c.bytes = p + H + 12;
	c.len = (uint32_t)(len - H - 12);
	if (c.element == 0 || c.element > 65536 || c.offset > c.total || c.len > c.total - c.offset)
		return -URDS_EPROTO;
	*out = c;
	return 0;
}

int urds_rec_ping_put(uint8_t *p, size_t cap, uint16_t tag, uint8_t slot,
		      const struct urds_addr *to)
{
	uint8_t *q;

	if (cap < H + 4 + ADDR_LEN)
		return -URDS_ENOSPC;
	q = head(p, H + 4 + ADDR_LEN, URDS_REC_PING, tag, 0);
	urds_be32_store(q, 0);
	q[0] = slot;
	addr_put(q + 4, to);
	return H + 4 + ADDR_LEN;
}

int urds_rec_ping_get(uint8_t *slot, struct urds_addr *to, const uint8_t *p, size_t len)
{
	if (want(len, 4 + ADDR_LEN) < 0)
		return -URDS_ESHORT;
	if (p[H] >= URDS_REC_SLOTS)
		return -URDS_EPROTO;
	*slot = p[H];
	addr_get(to, p + H + 4);
	return 0;
}

int urds_rec_pong_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_rec_pong *pong)
{
	uint8_t *q;

	if (cap < H + 12 + ADDR_LEN)
		return -URDS_ENOSPC;
	q = head(p, H + 12 + ADDR_LEN, URDS_REC_PING | URDS_REC_REPLY, tag, 0);
	urds_be32_store(q, 0);
	q[0] = pong->slot;
	urds_be64_store(q + 4, pong->rtt_ns);
	addr_put(q + 12, &pong->from);
	return H + 12 + ADDR_LEN;
}

int urds_rec_pong_get(struct urds_rec_pong *out, const uint8_t *p, size_t len)
{
	if (want(len, 12 + ADDR_LEN) < 0)
		return -URDS_ESHORT;
	if (p[H] >= URDS_REC_SLOTS)
		return -URDS_EPROTO;
	out->slot = p[H];
	out->rtt_ns = urds_be64_load(p + H + 4);
	addr_get(&out->from, p + H + 12);
	return 0;
}

int urds_rec_reset_put(uint8_t *p, size_t cap, uint16_t tag, const struct urds_addr *peer)
{
	if (cap < H + ADDR_LEN)
		return -URDS_ENOSPC;
	addr_put(head(p, H + ADDR_LEN, URDS_REC_RESET, tag, 0), peer);
	return H + ADDR_LEN;
}

int urds_rec_reset_get(struct urds_addr *peer, const uint8_t *p, size_t len)
{
	if (want(len, ADDR_LEN) < 0)
		return -URDS_ESHORT;
	addr_get(peer, p + H);
	return 0;
}

int urds_rec_count_put(uint8_t *p, size_t cap, uint16_t tag, uint32_t count)
{
	if (cap < H + 4)
		return -URDS_ENOSPC;
	urds_be32_store(head(p, H + 4, URDS_REC_RESET | URDS_REC_REPLY, tag, 0), count);
	return H + 4;
}

int urds_rec_count_get(uint32_t *count, const uint8_t *p, size_t len)
{
	if (want(len, 4) < 0)
		return -URDS_ESHORT;
	*count = urds_be32_load(p + H);
	return 0;
}
