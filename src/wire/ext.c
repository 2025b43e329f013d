/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The extension area.
 */
#include "wire/ext.h"

#define TYPES 16u /* the types a 6.1 kernel's table has room for */

/* Payload bytes. Unknown types below 16 have none, so the walk goes on at the next byte. */
static const uint8_t size_of[TYPES] = {
	[URDS_EXT_VERSION] = 4,	   [URDS_EXT_RDMA] = 4,	     [URDS_EXT_RDMA_DEST] = 8,
	[URDS_EXT_RDMA_BYTES] = 8, [URDS_EXT_NPATHS] = 2,    [URDS_EXT_GEN_NUM] = 4,
	[URDS_EXT_CAP_BITS] = 4,   [URDS_EXT_SPORT_IDX] = 1, [URDS_EXT_CSUM] = 8,
};
#define URDS_SIZE 10u /* of URDS_EXT_URDS */

static void get_one(struct urds_exts *e, unsigned type, const uint8_t *p)
{
	switch (type) {
	case URDS_EXT_VERSION:
		e->version = urds_be32_load(p);
		break;
	case URDS_EXT_RDMA:
		e->rdma_rkey = urds_be32_load(p);
		break;
	case URDS_EXT_RDMA_DEST:
		e->rdma_dest_rkey = urds_be32_load(p);
		e->rdma_dest_off = urds_be32_load(p + 4);
		break;
	case URDS_EXT_RDMA_BYTES:
		e->rdma_bytes = urds_be32_load(p);
		e->rdma_bytes_dir = p[4];
		break;
	case URDS_EXT_NPATHS:
		e->npaths = urds_be16_load(p);
		break;
	case URDS_EXT_GEN_NUM:
		e->gen_num = urds_be32_load(p);
		break;
	case URDS_EXT_CAP_BITS:
		e->cap_bits = urds_be32_load(p);
		break;
	case URDS_EXT_SPORT_IDX:
		e->sport_idx = p[0];
		break;
	case URDS_EXT_CSUM:
		e->csum = urds_be32_load(p);
		e->csum_enabled = p[4];
		break;
	default: /* 10..15 */
		return;
	}
	e->have |= 1u << type;
}

int urds_exts_get(struct urds_exts *out, const uint8_t ext[URDS_HDR_EXT_LEN])
{
	unsigned off = 0;

	memset(out, 0, sizeof(*out));
	while (off < URDS_HDR_EXT_LEN && ext[off] != URDS_EXT_NONE) {
		unsigned type = ext[off], left = URDS_HDR_EXT_LEN - off - 1;
		const uint8_t *p = ext + off + 1;

		if (type == URDS_EXT_URDS) {
			/* A type others may come to use one day: all that is constant must fit. */
			if (left < URDS_SIZE || p[0] != 0)
				break;
			out->urds.version = p[1];
			out->urds.caps = urds_be32_load(p + 2);
			out->urds.incarnation = urds_be32_load(p + 6);
			out->have |= URDS_EXT_HAVE_URDS;
			off += 1 + URDS_SIZE;
			continue;
		}
		if (type >= TYPES || left < size_of[type])
			break;
		get_one(out, type, p);
		off += 1u + size_of[type];
	}
	return (int)off;
}

/* The payload area is zero on entry. */
static void put_one(uint8_t *p, unsigned type, const struct urds_exts *e)
{
	switch (type) {
	case URDS_EXT_VERSION:
		urds_be32_store(p, e->version);
		break;
	case URDS_EXT_RDMA:
		urds_be32_store(p, e->rdma_rkey);
		break;
	case URDS_EXT_RDMA_DEST:
		urds_be32_store(p, e->rdma_dest_rkey);
		urds_be32_store(p + 4, e->rdma_dest_off);
		break;
	case URDS_EXT_RDMA_BYTES:
		urds_be32_store(p, e->rdma_bytes);
		p[4] = e->rdma_bytes_dir;
		break;
	case URDS_EXT_NPATHS:
		urds_be16_store(p, e->npaths);
		break;
	case URDS_EXT_GEN_NUM:
		urds_be32_store(p, e->gen_num);
		break;
	case URDS_EXT_CAP_BITS:
		urds_be32_store(p, e->cap_bits);
		break;
	case URDS_EXT_SPORT_IDX:
		p[0] = e->sport_idx;
		break;
	default: /* URDS_EXT_CSUM */
		urds_be32_store(p, e->csum);
		p[4] = e->csum_enabled;
		break;
	}
}

int urds_exts_put(uint8_t ext[URDS_HDR_EXT_LEN], const struct urds_exts *e)
{
	uint8_t area[URDS_HDR_EXT_LEN] = {0};
	unsigned off = 0;

	for (unsigned type = URDS_EXT_VERSION; type <= URDS_EXT_CSUM; type++) {
		if (!(e->have & 1u << type))
			continue;
		if (off + 1 + size_of[type] > sizeof(area))
			return -URDS_ENOSPC;
		area[off] = (uint8_t)type;
		put_one(area + off + 1, type, e);
		off += 1u + size_of[type];
	}
	if (e->have & URDS_EXT_HAVE_URDS) {
		if (off + 1 + URDS_SIZE > sizeof(area))
			return -URDS_ENOSPC;
		area[off] = URDS_EXT_URDS; /* and a zero byte, in case a walk goes on behind it */
		area[off + 2] = e->urds.version;
		urds_be32_store(area + off + 3, e->urds.caps);
		urds_be32_store(area + off + 7, e->urds.incarnation);
		off += 1 + URDS_SIZE;
	}
	memcpy(ext, area, sizeof(area));
	return (int)off;
}
