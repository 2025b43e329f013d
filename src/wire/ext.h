/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The 16-byte extension area of a header (wire.md 5): type, then a payload whose size the type
 * implies; no lengths. So an unknown type cannot be skipped, and a receiver that meets one does
 * what Linux 6.1 does - see urds_exts_get().
 */
#ifndef URDS_WIRE_EXT_H
#define URDS_WIRE_EXT_H

#include "wire/hdr.h"

enum urds_ext_type {
	URDS_EXT_NONE = 0,	 /* the end */
	URDS_EXT_VERSION = 1,	 /* be32; legacy */
	URDS_EXT_RDMA = 2,	 /* be32 rkey */
	URDS_EXT_RDMA_DEST = 3,	 /* be32 rkey, be32 offset */
	URDS_EXT_RDMA_BYTES = 4, /* be32 count, u8 direction, 3 zero */
	URDS_EXT_NPATHS = 5,	 /* be16 */
	URDS_EXT_GEN_NUM = 6,	 /* be32 */
	URDS_EXT_CAP_BITS = 7,	 /* be32 */
	URDS_EXT_SPORT_IDX = 8,	 /* u8, sent as 0 */
	URDS_EXT_CSUM = 9,	 /* be32 checksum, u8 enabled, 3 pad */
	URDS_EXT_URDS = 0x20,	 /* ours: u8 0, u8 version, be32 capabilities, be32 incarnation */
};

#define URDS_EXT_HAVE_VERSION (1u << 1)
#define URDS_EXT_HAVE_RDMA (1u << 2)
#define URDS_EXT_HAVE_RDMA_DEST (1u << 3)
#define URDS_EXT_HAVE_RDMA_BYTES (1u << 4)
#define URDS_EXT_HAVE_NPATHS (1u << 5)
#define URDS_EXT_HAVE_GEN_NUM (1u << 6)
#define URDS_EXT_HAVE_CAP_BITS (1u << 7)
#define URDS_EXT_HAVE_SPORT_IDX (1u << 8)
#define URDS_EXT_HAVE_CSUM (1u << 9)
#define URDS_EXT_HAVE_URDS (1u << 16)

#define URDS_RDMA_BYTES_WRITE 0x01u /* rdma_bytes_dir */
#define URDS_RDMA_BYTES_READ 0x02u

#define URDS_WIRE_VERSION 1u /* urds.version: the one we speak */
#define URDS_CAP_ACK (1u << 0)
#define URDS_CAP_FRAG (1u << 1)
#define URDS_CAP_MAPDELTA (1u << 2)
#define URDS_CAP_RDMA (1u << 3)
#define URDS_CAP_LANE (1u << 4)
#define URDS_CAP_TLS (1u << 5)

struct urds_exts {
	uint32_t have; /* URDS_EXT_HAVE_*: which of the fields below mean something */
	uint32_t version;
	uint32_t rdma_rkey;
	uint32_t rdma_dest_rkey, rdma_dest_off;
	uint32_t rdma_bytes; /* a count of bytes */
	uint32_t gen_num;
	uint32_t cap_bits;
	uint32_t csum;
	uint16_t npaths; /* as sent: 0 and 65535 are possible */
	uint8_t rdma_bytes_dir;
	uint8_t sport_idx; /* the payload byte; kernels send 0 */
	uint8_t csum_enabled;
	struct {
		uint8_t version;
		uint32_t caps;
		uint32_t incarnation;
	} urds;
};

/* Never fails: what cannot be walked any further is not there. Of a repeated type the last counts.
 * Return: bytes walked, the terminator excluded. */
int urds_exts_get(struct urds_exts *out, const uint8_t ext[URDS_HDR_EXT_LEN]);

/* Fills all 16 bytes, in ascending order of type: whatever K61 does not know comes last (W3).
 * Return: bytes used before the zero fill, or -URDS_ENOSPC. What get returned always fits. */
int urds_exts_put(uint8_t ext[URDS_HDR_EXT_LEN], const struct urds_exts *e);

#endif
