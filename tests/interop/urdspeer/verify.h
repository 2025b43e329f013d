/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Verified streams, our side: makes the messages that PROTOCOL.md describes and judges those that come.
 * Written from that page alone; shares no code with guest/, so that one mistake cannot hide in both.
 */
#ifndef URDSPEER_VERIFY_H
#define URDSPEER_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VF_HDR 32u
#define VF_MAX 1048576u
#define VF_CLASSES 16
#define VF_SIZES "1-31*30,32-1024*40,1025-16384*20,16385-131072*8,131073-1048576*2"

enum vf_magic {
	VF_DATA = 0x55524456,  /* URDV */
	VF_HELLO = 0x55524448, /* URDH */
	VF_HEARD = 0x55524441, /* URDA */
	VF_FIN = 0x55524446,   /* URDF */
	VF_BYE = 0x55524442,   /* URDB */
};

struct vf_end {
	uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t port;
};

/* One direction: what is sent. */
struct vf_stream {
	uint64_t count, big, empty;
	uint32_t seed, id;
	uint64_t base, digest;
	unsigned nclasses;
	struct {
		uint32_t low, high, weight;
	} class[VF_CLASSES];
	uint64_t weights;
};

/* Return: NULL, or why these numbers make no sense. */
const char *vf_init(struct vf_stream *s, const struct vf_end *from, const struct vf_end *to,
		    uint32_t seed, uint64_t count, uint64_t big, uint64_t empty, const char *sizes);
uint32_t vf_size(const struct vf_stream *s, uint64_t i);
/* Message @i into @buf (VF_MAX). Return: its size. */
uint32_t vf_make(const struct vf_stream *s, uint64_t i, uint8_t *buf);
/* A control message of VF_HDR bytes. */
void vf_control(const struct vf_stream *s, enum vf_magic magic, uint8_t *buf);

/* Judges the messages of one stream as they come. */
struct vf_check {
	const struct vf_stream *s;
	uint64_t next; /* expected index */
	uint8_t *came; /* of each index: has it come? */
	uint8_t *want; /* VF_MAX: what should have come */
	uint64_t received, right, duplicated, reordered, corrupt;
	struct vf_held {
		uint32_t len;
		uint8_t bytes[VF_HDR];
	} * held; /* short ones that did not fit */
	size_t nheld, held_cap;
	bool is_fin, is_bye, is_heard;
	bool wrong_params; /* a HELLO with another digest */
};

int vf_check_init(struct vf_check *c, const struct vf_stream *s);
void vf_check_fini(struct vf_check *c);

enum vf_what { VF_WAS_DATA, VF_WAS_HELLO, VF_WAS_HEARD, VF_WAS_FIN, VF_WAS_BYE };

/* A message came from the right source. */
enum vf_what vf_check_put(struct vf_check *c, const uint8_t *buf, uint32_t len);
/* Indexes that never came. */
uint64_t vf_check_lost(const struct vf_check *c);

/* Of a data message with a good header for @s (any seed if @any_seed): its index, or UINT64_MAX. */
uint64_t vf_index(const struct vf_stream *s, const uint8_t *buf, uint32_t len, bool any_seed,
		  uint32_t *seed);

#endif
