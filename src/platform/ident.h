/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Who this process is, for the ownership record: something a human can act on.
 */
#ifndef URDS_PLATFORM_IDENT_H
#define URDS_PLATFORM_IDENT_H

#include <stdint.h>

struct urds_ident {
	uint32_t pid;
	uint32_t uid;  /* effective; 0 where there is no such thing */
	char user[64]; /* name, or the number as text */
	char exe[128]; /* file name of the executable without its folder, or "?" */
};

/* Always fills all of @out, zero padded. May ask the name service: not on a hot path. */
void urds_ident_self(struct urds_ident *out);

#ifdef _WIN32
#include <stdbool.h>

/* The same of another process, with "?" for what the system does not tell. Return: is it of this process's user? */
bool urds_ident_of(uint32_t pid, struct urds_ident *out);
#endif

#endif
