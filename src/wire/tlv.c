/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Control TLVs.
 */
#include "wire/tlv.h"

int urds_tlv_put(uint8_t *p, size_t cap, uint16_t type, const uint8_t *val, uint16_t len)
{
	if (cap < URDS_TLV_HDR_LEN + len)
		return -URDS_ENOSPC;
	urds_be16_store(p, type);
	urds_be16_store(p + 2, len);
	if (len > 0)
		memcpy(p + URDS_TLV_HDR_LEN, val, len);
	return (int)(URDS_TLV_HDR_LEN + len);
}

static bool is_known(uint16_t type)
{
	return type >= URDS_TLV_FRAG && type <= URDS_TLV_LANE;
}

int urds_tlv_next(struct urds_tlv_iter *it, struct urds_tlv *out)
{
	while (it->left > 0) {
		const uint8_t *p = it->p;
		uint16_t type, len;

		if (it->left < URDS_TLV_HDR_LEN)
			return -URDS_EPROTO;
		type = urds_be16_load(p);
		len = urds_be16_load(p + 2);
		if (it->left - URDS_TLV_HDR_LEN < len)
			return -URDS_EPROTO;
		it->p += URDS_TLV_HDR_LEN + len;
		it->left -= URDS_TLV_HDR_LEN + len;
		if (is_known(type)) {
			*out = (struct urds_tlv){type, len, p + URDS_TLV_HDR_LEN};
			return 1;
		}
	}
	return 0;
}

int urds_mapdelta_put(uint8_t *p, size_t cap, const struct urds_mapdelta *d)
{
	uint8_t val[3];

	urds_be16_store(val, d->port);
	val[2] = d->is_congested;
	return urds_tlv_put(p, cap, URDS_TLV_MAPDELTA, val, sizeof(val));
}

int urds_mapdelta_get(struct urds_mapdelta *out, const struct urds_tlv *t)
{
	if (t->type != URDS_TLV_MAPDELTA || t->len != 3 || t->val[2] > 1)
		return -URDS_EPROTO;
	out->port = urds_be16_load(t->val);
	out->is_congested = t->val[2];
	return 0;
}
