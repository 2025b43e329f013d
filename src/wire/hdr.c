/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The 48-byte header.
 */
#include "wire/hdr.h"

void urds_hdr_put(uint8_t p[URDS_HDR_LEN], const struct urds_hdr *h)
{
	urds_be64_store(p + URDS_HDR_OFF_SEQ, h->seq);
	urds_be64_store(p + URDS_HDR_OFF_ACK, h->ack);
	urds_be32_store(p + URDS_HDR_OFF_LEN, h->len);
	urds_be16_store(p + URDS_HDR_OFF_SPORT, h->sport);
	urds_be16_store(p + URDS_HDR_OFF_DPORT, h->dport);
	p[URDS_HDR_OFF_FLAGS] = h->flags;
	p[URDS_HDR_OFF_CREDIT] = h->credit;
	memcpy(p + URDS_HDR_OFF_PAD, h->pad, URDS_HDR_PAD_LEN);
	urds_be16_store(p + URDS_HDR_OFF_CSUM, h->csum);
	memcpy(p + URDS_HDR_OFF_EXT, h->ext, URDS_HDR_EXT_LEN);
}

int urds_hdr_get(struct urds_hdr *out, const uint8_t *p, size_t len)
{
	if (len < URDS_HDR_LEN)
		return -URDS_ESHORT;
	urds_hdr_load(out, p);
	return URDS_HDR_LEN;
}

/* All 24 words. */
static uint32_t sum48(const uint8_t *p)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < URDS_HDR_LEN; i += 2)
		sum += urds_be16_load(p + i);
	return sum;
}

/* To a ones-complement sum: two carries at most, since there are few words. */
static uint32_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

uint16_t urds_hdr_csum(const uint8_t p[URDS_HDR_LEN])
{
	return (uint16_t)~fold(sum48(p) - urds_be16_load(p + URDS_HDR_OFF_CSUM));
}

bool urds_hdr_csum_ok(const uint8_t p[URDS_HDR_LEN])
{
	return urds_be16_load(p + URDS_HDR_OFF_CSUM) == 0 || fold(sum48(p)) == 0xffff;
}
