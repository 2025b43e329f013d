/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What to do next, in the words of the system that this is: its own commands, for urds_reason().
 */
#ifndef URDS_PLATFORM_WORDS_H
#define URDS_PLATFORM_WORDS_H

extern const struct urds_words {
	const char *addresses;	/* the command that lists those of this host */
	const char *port;	/* who may have the port: a question */
	const char *files;	/* there is no descriptor left */
	const char *many_files; /* the same as the reason why a connection failed */
	const char *threads;	/* a thread cannot be started */
} urds_words;

#endif
