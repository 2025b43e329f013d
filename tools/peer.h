/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urds knows of a peer, in words.
 */
#ifndef URDS_TOOLS_PEER_H
#define URDS_TOOLS_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "urds/urds.h"

struct json_object;

/* "up", "kernel": never NULL, for numbers of a later release too. */
const char *peer_state(const struct urds_info_peer *p);
const char *peer_end(const struct urds_info_peer *p);
/* "2026-11-30 07:12:45", local time. */
const char *peer_date(uint64_t ns, char *buf, size_t cap);

/* The sections that urds info adds to those of rds-info. Elements: struct urds_info_peer. */
void peers_header(int width);
void peers_row(const uint8_t *e, int width);
void peers_json(const uint8_t *e, struct json_object *o);

#endif
