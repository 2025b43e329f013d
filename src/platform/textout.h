/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Lines of text to a file or to standard error, by whoever must not wait.
 */
#ifndef URDS_PLATFORM_TEXTOUT_H
#define URDS_PLATFORM_TEXTOUT_H

#include <stdbool.h>
#include <stddef.h>

#define URDS_TEXTOUT_STDERR 2

/* A file to append to, made (rw-r-----) if it is not there; not inherited by programs that are executed.
 * Return: what urds_textout() takes, or a negative urds_err, with errno. */
int urds_textout_open(const char *path);
void urds_textout_close(int out);

/* All of @len bytes (up to 4096) at once, or nothing: false where that would have to wait, or failed. Keeps errno. */
bool urds_textout(int out, const char *text, size_t len);

#endif
