/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * enum urds_fault in words.
 */
#ifndef URDS_RUNTIME_FAULT_TEXT_H
#define URDS_RUNTIME_FAULT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define URDS_FAULT_TEXT_MAX 160

/* One word, for programs; "unknown" for a number that is none. "none" for URDS_FAULT_NONE. */
const char *urds_fault_word(unsigned fault);

/* A phrase, for people. @err: of this system, or 0; @ms: how long, or 0. Cut if it does not fit. Return: @buf. */
char *urds_fault_text(char *buf, size_t cap, unsigned fault, int err, uint32_t ms);

#endif
