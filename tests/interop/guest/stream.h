/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The verified stream: which messages one socket sends to another.  Owns the format of PROTOCOL.md;
 * knows nothing of sockets.
 */
#ifndef RDSPEER_STREAM_H
#define RDSPEER_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_HEADER 32u	   /* messages below this have no header */
#define STREAM_MAX (1024u * 1024u) /* the largest RDS message */
#define STREAM_CLASSES 16u
#define STREAM_DEFAULT_SIZES "1-31*30,32-1024*40,1025-16384*20,16385-131072*8,131073-1048576*2"

/* The first four bytes of a message that has a header. */
enum stream_kind {
	STREAM_DATA = 0x55524456,  /* URDV */
	STREAM_HELLO = 0x55524448, /* URDH */
	STREAM_HEARD = 0x55524441, /* URDA: the answer to HELLO */
	STREAM_FIN = 0x55524446,   /* URDF: all data has been sent before this */
	STREAM_BYE = 0x55524442,   /* URDB: all of your data and your FIN have come */
};

struct stream_class {
	uint32_t low, high, weight;
};

/* What both ends have to agree on, for one direction. */
struct stream_spec {
	uint32_t seed;
	uint64_t count; /* messages of each stream */
	uint64_t big;	/* of them with exactly STREAM_MAX bytes */
	uint64_t empty; /* of them with none */
	struct stream_class classes[STREAM_CLASSES];
	uint32_t n_classes, weights;
	uint64_t digest; /* of the parameters, for HELLO */
};

struct stream_end {
	uint8_t addr[16]; /* IPv4 as mapped */
	uint16_t port;
};

struct stream {
	const struct stream_spec *spec; /* borrowed for the stream's life */
	uint32_t id;
	uint64_t base;
};

/* Needs seed, count, big, empty set. Return: 0, or -1 if @sizes or the counts make no sense. */
int stream_spec_init(struct stream_spec *s, const char *sizes);
void stream_init(struct stream *s, const struct stream_spec *spec, const struct stream_end *from,
		 const struct stream_end *to);
uint32_t stream_size(const struct stream *s, uint64_t index);
/* Writes message @index to @out, which has room for STREAM_MAX bytes. Return: its size. */
uint32_t stream_message(const struct stream *s, uint64_t index, uint8_t *out);
/* Writes a control message, STREAM_HEADER bytes. */
void stream_control(const struct stream *s, enum stream_kind kind, uint8_t *out);

struct stream_head {
	enum stream_kind kind;
	uint32_t id, seed;
	uint64_t index;
};

/* Return: 0, or -1 if this is no whole message with a header. */
int stream_parse(struct stream_head *out, const uint8_t *buf, size_t len);

#endif
