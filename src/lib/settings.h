/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Settings that come from outside of the program: environment variables, and below them a file.
 *
 * Each setting has one name: URDS_PEERS in the environment is peers in the file.
 */
#ifndef URDS_LIB_SETTINGS_H
#define URDS_LIB_SETTINGS_H

#include "runtime/engine.h"
#include "urds/urds.h"

enum urds_setting {
	URDS_SET_EXT,
	URDS_SET_SPIN,
	URDS_SET_PATHS,
	URDS_SET_SPIN_US,
	URDS_SET_MEMORY,
	URDS_SET_PEERS,
	URDS_SET_LOG,
	URDS_SET_COUNT
};

struct urds_settings {
	char *text[URDS_SET_COUNT]; /* NULL: not set. From malloc() */
	char *file;		    /* that was read, or NULL. From malloc() */
	bool is_env[URDS_SET_COUNT];
	char name[96 + 256]; /* of urds_settings_name() */
};

/* These fail with -1 after urds_fail(). */

/* @all: not only the log's. */
int urds_settings_read(struct urds_settings *s, bool all);
void urds_settings_free(struct urds_settings *s);
/* The fields of @c that have a setting. @c->peers is @s's. */
int urds_settings_config(struct urds_settings *s, struct urds_config *c);
/* *nets: from malloc(). @s: where @text is from; NULL: the program. */
int urds_settings_nets(const char *text, struct urds_settings *s, struct urds_net **nets,
		       size_t *n);

/* What people know it by: "URDS_PATHS (environment)", "/etc/urds.conf: paths", "paths". @s: NULL: the program's.
 * Valid until the next call for @s. */
const char *urds_settings_name(struct urds_settings *s, enum urds_setting which);

/* settings_file.c. Fills what is not set. A file that is not there is an error only if @path was asked for.
 * Return: 0 or -1 after urds_fail(). */
int urds_settings_file(struct urds_settings *s, const char *path, bool was_asked_for, bool all);
/* The names in the file. */
extern const char *const urds_setting_keys[URDS_SET_COUNT];

/* log.c: the first time, and if the program has not called urds_log_to(). */
int urds_log_setup(struct urds_settings *s);
/* A call has failed. */
void urds_log_call(int err, const char *reason);

#endif
