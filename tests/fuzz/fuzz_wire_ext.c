/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Any 16 bytes as an extension area: decode, encode and decode again is stable, and agrees with a
 * second decoder and, where a 6.1 kernel knows all that is there, with its way of walking. Then any
 * struct: what can be put comes back.
 */
#include <stdlib.h>

#include "wire/ext.h"
#include "wire/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

#define HAVE_ALL 0x103feu
#define K61_KNOWS 0xfc6fu /* by type; those it takes for empty included */

/* Where each type's payload begins, 0 if it is absent, as wire.md 5 says. @sizes: by type. Our own
 * type counts only if @is_urds. */
static unsigned walk(const uint8_t *ext, const int *sizes, bool is_urds, unsigned at[33])
{
	unsigned i = 0;

	memset(at, 0, 33 * sizeof(at[0]));
	while (i < 16) {
		unsigned type = ext[i];
		int size = type < 16 ? sizes[type] : is_urds && type == 0x20 ? 10 : -1;

		if (type == 0 || size < 0 || i + 1 + (unsigned)size > 16)
			break;
		if (type == 0x20 && ext[i + 1] != 0)
			break;
		if (size > 0)
			at[type] = i + 1;
		i += 1 + (unsigned)size;
	}
	return i;
}

static uint64_t value(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static void check_decoded(const uint8_t *ext, const struct urds_exts *e, int used)
{
	static const int ours[16] = {0, 4, 4, 8, 8, 2, 4, 4, 1, 8}, k61[16] = {0, 4, 4, 8, 0, 2, 4};
	unsigned at[33], k61_at[33], have = 0;

	MUST(walk(ext, ours, true, at) == (unsigned)used);
	for (unsigned type = 1; type < 10; type++)
		have |= at[type] ? 1u << type : 0;
	have |= at[0x20] ? URDS_EXT_HAVE_URDS : 0;
	MUST(e->have == have);
	MUST(e->version == (at[1] ? value(ext + at[1], 4) : 0));
	MUST(e->rdma_rkey == (at[2] ? value(ext + at[2], 4) : 0));
	MUST(e->rdma_dest_rkey == (at[3] ? value(ext + at[3], 4) : 0));
	MUST(e->rdma_dest_off == (at[3] ? value(ext + at[3] + 4, 4) : 0));
	MUST(e->rdma_bytes == (at[4] ? value(ext + at[4], 4) : 0));
	MUST(e->rdma_bytes_dir == (at[4] ? ext[at[4] + 4] : 0));
	MUST(e->npaths == (at[5] ? value(ext + at[5], 2) : 0));
	MUST(e->gen_num == (at[6] ? value(ext + at[6], 4) : 0));
	MUST(e->cap_bits == (at[7] ? value(ext + at[7], 4) : 0));
	MUST(e->sport_idx == (at[8] ? ext[at[8]] : 0));
	MUST(e->csum == (at[9] ? value(ext + at[9], 4) : 0));
	MUST(e->csum_enabled == (at[9] ? ext[at[9] + 4] : 0));
	MUST(e->urds.version == (at[0x20] ? ext[at[0x20] + 1] : 0));
	MUST(e->urds.caps == (at[0x20] ? value(ext + at[0x20] + 2, 4) : 0));
	MUST(e->urds.incarnation == (at[0x20] ? value(ext + at[0x20] + 6, 4) : 0));

	/* If a 6.1 kernel knows all that is there, it must see the same. */
	if (have & ~K61_KNOWS || (used < 16 && ext[used] < 16 && !(K61_KNOWS >> ext[used] & 1)))
		return;
	walk(ext, k61, false, k61_at);
	MUST(memcmp(k61_at, at, sizeof(at)) == 0);
}

static void check_struct(const uint8_t *p)
{
	struct urds_exts e = {
		.have = (uint32_t)value(p, 4) & HAVE_ALL,
		.version = (uint32_t)value(p + 4, 4),
		.rdma_rkey = (uint32_t)value(p + 8, 4),
		.rdma_dest_rkey = (uint32_t)value(p + 12, 4),
		.rdma_dest_off = (uint32_t)value(p + 16, 4),
		.rdma_bytes = (uint32_t)value(p + 20, 4),
		.gen_num = (uint32_t)value(p + 24, 4),
		.cap_bits = (uint32_t)value(p + 28, 4),
		.npaths = (uint16_t)value(p + 20, 2),
		.rdma_bytes_dir = p[22],
		.sport_idx = p[23],
		.urds = {p[24], (uint32_t)value(p + 25, 4), (uint32_t)value(p + 28, 4)},
	};
	uint8_t ext[URDS_HDR_EXT_LEN], again[URDS_HDR_EXT_LEN];
	struct urds_exts back;
	int used = urds_exts_put(ext, &e);

	if (used < 0) {
		MUST(used == -URDS_ENOSPC);
		return;
	}
	MUST(urds_exts_get(&back, ext) == used);
	check_decoded(ext, &back, used);
	MUST(back.have == e.have);
	MUST(urds_exts_put(again, &back) == used);
	MUST(memcmp(ext, again, sizeof(ext)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t ext[URDS_HDR_EXT_LEN] = {0}, again[URDS_HDR_EXT_LEN], third[URDS_HDR_EXT_LEN];
	struct urds_exts e, f;
	int used, rc;

	memcpy(ext, data, size < sizeof(ext) ? size : sizeof(ext));
	used = urds_exts_get(&e, ext);
	check_decoded(ext, &e, used);
	rc = urds_exts_put(again, &e);
	MUST(rc >= 0 && rc <= used);
	MUST(urds_exts_get(&f, again) == rc);
	check_decoded(again, &f, rc);
	MUST(f.have == e.have);
	MUST(urds_exts_put(third, &f) == rc);
	MUST(memcmp(again, third, sizeof(again)) == 0);
	if (size >= 32)
		check_struct(data);
	return 0;
}
