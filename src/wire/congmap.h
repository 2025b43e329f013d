/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The congestion map (wire.md 7): one bit per port of the address that sent it; 1 means no new
 * message may be started to that port. Its bytes in memory are its bytes on the wire:
 * URDS_CONGMAP_LEN of them.
 */
#ifndef URDS_WIRE_CONGMAP_H
#define URDS_WIRE_CONGMAP_H

#include "wire/hdr.h"

static inline bool urds_congmap_test(const uint8_t *map, uint16_t port)
{
	return map[port >> 3] >> (port & 7) & 1;
}

static inline void urds_congmap_set(uint8_t *map, uint16_t port)
{
	map[port >> 3] |= (uint8_t)(1u << (port & 7));
}

static inline void urds_congmap_clear(uint8_t *map, uint16_t port)
{
	map[port >> 3] &= (uint8_t) ~(1u << (port & 7));
}

/* The header in front of a map: no sequence, no ports, the flag and no other. */
void urds_congmap_hdr_put(uint8_t hdr[URDS_HDR_LEN]);

bool urds_congmap_is_clear(const uint8_t *map);

/* Ports that were congested and are no longer, ascending. Borrows both maps until the last next;
 * NULL stands for an all-clear map (an idle peer keeps none).
 *
 *	urds_congmap_diff_init(&d, was, now);
 *	while ((port = urds_congmap_diff_next(&d)) >= 0)
 */
struct urds_congmap_diff {
	const uint8_t *was, *now;
	uint32_t base; /* first port of the word being looked at, plus 64 */
	uint64_t bits; /* of that word, not yet returned */
};

void urds_congmap_diff_init(struct urds_congmap_diff *d, const uint8_t *was, const uint8_t *now);

/* Return: a port, or -1 after the last. */
int urds_congmap_diff_next(struct urds_congmap_diff *d);

#endif
