/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The congestion map.
 */
#include "wire/congmap.h"

#define PORTS (URDS_CONGMAP_LEN * 8)

void urds_congmap_hdr_put(uint8_t hdr[URDS_HDR_LEN])
{
	urds_hdr_put_data(hdr, 0, URDS_CONGMAP_LEN, 0, 0);
	hdr[URDS_HDR_OFF_FLAGS] = URDS_F_CONG_BITMAP;
}

bool urds_congmap_is_clear(const uint8_t *map)
{
	uint64_t any = 0;

	/* All-clear is the usual case, so looking at everything is not worth a branch per word. */
	for (unsigned i = 0; i < URDS_CONGMAP_LEN; i += 8)
		any |= urds_le64_load(map + i);
	return any == 0;
}

void urds_congmap_diff_init(struct urds_congmap_diff *d, const uint8_t *was, const uint8_t *now)
{
	*d = (struct urds_congmap_diff){.was = was, .now = now, .base = was ? 0 : PORTS};
}

int urds_congmap_diff_next(struct urds_congmap_diff *d)
{
	int bit;

	while (d->bits == 0) {
		if (d->base == PORTS)
			return -1;
		d->bits = urds_le64_load(d->was + d->base / 8);
		if (d->now)
			d->bits &= ~urds_le64_load(d->now + d->base / 8);
		d->base += 64;
	}
	bit = __builtin_ctzll(d->bits);
	d->bits &= d->bits - 1;
	return (int)d->base - 64 + bit;
}
