/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The last thing that went wrong with a peer's connections, for people: nothing is decided by it. Small, since every idle peer
 * has one.
 */
#ifndef URDS_CORE_FAULT_H
#define URDS_CORE_FAULT_H

#include "urds/peer.h" /* enum urds_fault */
#include "wire/types.h"

struct urds_fault_note {
	urds_ns since, last; /* of an unbroken row of the same */
	uint32_t count;
	uint16_t detail; /* a positive enum urds_err, or hundredths of a second, as @kind has it */
	uint8_t kind;	 /* enum urds_fault */
	bool is_over;	 /* a connection has carried RDS since */
};

static inline bool urds_fault_has_errno(enum urds_fault kind)
{
	return kind == URDS_FAULT_DIAL || kind == URDS_FAULT_LOST || kind == URDS_FAULT_LOST_EARLY;
}

/* A fault without further detail, or one with an enum urds_err of either sign. */
static inline void urds_fault_note(struct urds_fault_note *f, enum urds_fault kind, int err,
				   urds_ns now)
{
	uint16_t detail = (uint16_t)(err < 0 ? -err : err);

	if (f->kind != kind || f->detail != detail || f->is_over)
		*f = (struct urds_fault_note){
			.since = now, .detail = detail, .kind = (uint8_t)kind};
	f->last = now;
	if (f->count < UINT32_MAX)
		f->count++;
}

/* Nothing came for @silence. The length, which differs each time, does not make it another fault. */
static inline void urds_fault_note_silence(struct urds_fault_note *f, enum urds_fault kind,
					   urds_ns silence, urds_ns now)
{
	urds_ns cs = silence / URDS_MS(10);

	if (f->kind != kind || f->is_over)
		*f = (struct urds_fault_note){.since = now - (silence < now ? silence : now),
					      .kind = (uint8_t)kind};
	f->detail = (uint16_t)(cs < UINT16_MAX ? cs : UINT16_MAX);
	f->last = now;
	if (f->count < UINT32_MAX)
		f->count++;
}

#endif
