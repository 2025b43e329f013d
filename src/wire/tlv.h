/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Control TLVs between two urds ends (wire.md 15): the payload of a frame of kind CONTROL is a run
 * of type be16, length be16, value. Never sent to a kernel. A type is the number of the capability
 * bit that permits it.
 */
#ifndef URDS_WIRE_TLV_H
#define URDS_WIRE_TLV_H

#include "wire/hdr.h"

enum urds_tlv_type {
	URDS_TLV_PAD = 0,      /* any length, ignored; zeros are padding */
	URDS_TLV_FRAG = 1,     /* a piece of a message; layout not fixed yet */
	URDS_TLV_MAPDELTA = 2, /* be16 port, u8 bit */
	URDS_TLV_RDMA = 3,     /* a one-sided operation; layout not fixed yet */
	URDS_TLV_LANE = 4,     /* connection handed to a process; layout not fixed yet */
};

#define URDS_TLV_HDR_LEN 4u
#define URDS_MAPDELTA_LEN (URDS_TLV_HDR_LEN + 3u) /* a whole MAPDELTA */

struct urds_tlv {
	uint16_t type; /* enum urds_tlv_type, never PAD */
	uint16_t len;
	const uint8_t *val; /* inside the buffer that is iterated over */
};

/* Return: bytes written, or -URDS_ENOSPC. @val may be NULL if @len is 0. */
int urds_tlv_put(uint8_t *p, size_t cap, uint16_t type, const uint8_t *val, uint16_t len);

/* Borrows the buffer until the last next. */
struct urds_tlv_iter {
	const uint8_t *p;
	size_t left;
};

static inline void urds_tlv_iter_init(struct urds_tlv_iter *it, const uint8_t *p, size_t len)
{
	it->p = p;
	it->left = len;
}

/* Skips padding and types we do not know.
 * Return: 1, 0 at the end, or -URDS_EPROTO if the last one is cut off (and again if called again).
 */
int urds_tlv_next(struct urds_tlv_iter *it, struct urds_tlv *out);

struct urds_mapdelta {
	uint16_t port;
	bool is_congested;
};

/* Return: URDS_MAPDELTA_LEN, or -URDS_ENOSPC. */
int urds_mapdelta_put(uint8_t *p, size_t cap, const struct urds_mapdelta *d);

/* Return: 0, or -URDS_EPROTO if @t is no well-formed MAPDELTA. */
int urds_mapdelta_get(struct urds_mapdelta *out, const struct urds_tlv *t);

#endif
