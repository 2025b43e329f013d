/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The probe (a ping from port 1) and its answer: how two ends learn each other's number of paths,
 * and two urds ends of each other (wire.md 6, 8.2, 15). What a kernel of each kind sends:
 *
 *	K61		has_npaths
 *	UEK		has_npaths, has_sport_idx
 *	K7		has_npaths, has_gen_num, has_sport_idx
 *	urds		has_npaths (not always), has_sport_idx, has_urds: at most, and exactly, the 16 bytes there are
 *
 * so that with has_urds off every frame is one that a kernel could have sent.
 */
#ifndef URDS_WIRE_PROBE_H
#define URDS_WIRE_PROBE_H

#include "wire/ext.h"

#define URDS_NPATHS_MAX 8u

enum urds_probe_sort {
	URDS_PROBE_ASKS,
	URDS_PROBE_ANSWER,
	URDS_PROBE_OLD, /* asks, and is a duplicate: a kernel leaves it alone (9.5) */
};

struct urds_probe {
	bool has_npaths, has_sport_idx, has_gen_num, has_urds;
	uint16_t npaths; /* as on the wire; urds_probe_npaths() bounds it */
	uint8_t urds_version;
	uint32_t gen_num;     /* 0: to be ignored */
	uint32_t caps;	      /* URDS_CAP_*; unknown bits are kept */
	uint32_t incarnation; /* never 0 */
};

/* @answer: false for the probe (1 -> 0), true for the pong to it (0 -> 1).
 * Return: URDS_HDR_LEN, or -URDS_ENOSPC if the chosen extensions exceed 16 bytes. */
int urds_probe_put(uint8_t hdr[URDS_HDR_LEN], bool answer, uint64_t seq,
		   const struct urds_probe *p);

/* An urds extension with version or incarnation 0 is taken for none: the peer is then a kernel.
 * Return: 0, or -URDS_EPROTO if @h is neither probe nor answer. */
int urds_probe_get(struct urds_probe *out, const struct urds_hdr *h);

/* Paths to use after @p arrived, when @before were (0: unknown): absent keeps, and there is always
 * one (8.2). */
static inline unsigned urds_probe_npaths(const struct urds_probe *p, unsigned before)
{
	unsigned n = p->has_npaths ? p->npaths : before;

	return n == 0 ? 1 : n < URDS_NPATHS_MAX ? n : URDS_NPATHS_MAX;
}

#endif
