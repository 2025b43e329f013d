/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The sections of urds info: which sources they show, and how an element becomes a row, or an
 * object of JSON.
 */
#ifndef URDS_TOOLS_INFO_H
#define URDS_TOOLS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFO_SECTIONS 9
#define INFO_PEERS 8 /* the last one: urds's own, not rds-info's */

struct json_object;

struct info_section {
	char letter;	    /* 0: only a long option */
	const char *option; /* its line in the option list */
	const char *title;
	const char *key;     /* in JSON */
	int id4, id6;	     /* 0: none of that family */
	size_t size4, size6; /* of an element as we know it; others are cut or padded with zeros */
	size_t addrs6[2];    /* where the two addresses are in a v6 element */
	void (*header)(int width);
	/* @e: size4 or size6 bytes. */
	void (*row)(const uint8_t *e, bool six, int width, bool verbose);
	/* Puts the element's values into @o; a counter's is one of many there. */
	void (*json)(const uint8_t *e, bool six, struct json_object *o);
};

/* In the order they are printed. */
extern const struct info_section info_sections[INFO_SECTIONS];

#endif
