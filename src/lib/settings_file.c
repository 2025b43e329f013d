/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The configuration file, in the syntax of libconfig: numbers, strings, lists of strings, comments.
 */
#include "lib/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api.h"
#include "platform/errno.h"

#ifdef _WIN32
#define OPEN_READ "rbN" /* not inherited */
#else
#define OPEN_READ "re"
#endif
#define FILE_MAX_BYTES 65536u

#ifdef URDS_HAVE_LIBCONFIG
#include <libconfig.h>

static int fail(const char *path, const config_setting_t *at, const char *what)
{
	return urds_fail(URDS_EINVAL, "urds_open: %s, line %u: %s", path,
			 config_setting_source_line(at), what);
}

/* The value as the environment would have it; several strings with commas. NULL: not of these kinds. */
static char *value(const config_setting_t *v)
{
	char num[24], *all;
	size_t len = 1;
	int n;

	switch (config_setting_type(v)) {
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		snprintf(num, sizeof num, "%" PRIi64, (int64_t)config_setting_get_int64(v));
		return strdup(num);
	case CONFIG_TYPE_BOOL:
		return strdup(config_setting_get_bool(v) ? "1" : "0");
	case CONFIG_TYPE_STRING:
		return strdup(config_setting_get_string(v));
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		break;
	default:
		errno = EINVAL;
		return NULL;
	}
	n = config_setting_length(v);
	for (int i = 0; i < n; i++) {
		const char *one = config_setting_get_string_elem(v, i);

		if (!one) {
			errno = EINVAL;
			return NULL;
		}
		len += strlen(one) + 1;
	}
	all = calloc(1, len);
	for (int i = 0; all && i < n; i++) {
		strcat(all, i ? "," : "");
		strcat(all, config_setting_get_string_elem(v, i));
	}
	return all;
}

static int take(struct urds_settings *s, const config_setting_t *v, bool all)
{
	const char *name = config_setting_name(v);
	unsigned i = 0;

	while (i < URDS_SET_COUNT && strcmp(name, urds_setting_keys[i]) != 0)
		i++;
	if (i == URDS_SET_COUNT)
		return urds_fail(URDS_EINVAL,
				 "urds_open: %s, line %u: there is no setting '%s'; there are ext, "
				 "spin, paths, spin_us, memory, peers, log",
				 s->file, config_setting_source_line(v), name);
	if (s->text[i] || (!all && i != URDS_SET_LOG))
		return 0;
	s->text[i] = value(v);
	if (!s->text[i] && errno == EINVAL)
		return fail(s->file, v, "a number, a string, or [ strings ] is needed");
	return s->text[i] ? 0 : urds_fail(URDS_ENOMEM, "urds_open: out of memory");
}

/* Its scanner ends the process where it cannot read a file, so it gets none, and opens none. */
static bool has_include(const char *text)
{
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += strspn(at, " \t\r\n");
		if (strncmp(at, "@include", 8) == 0)
			return true;
	}
	return false;
}

static int parse(struct urds_settings *s, const char *text, bool all)
{
	config_setting_t *root;
	config_t c;
	int rc = 0;

	if (has_include(text))
		return urds_fail(URDS_EINVAL, "urds_open: %s: there is no @include here", s->file);
	config_init(&c);
	if (config_read_string(&c, text) != CONFIG_TRUE) {
		rc = urds_fail(URDS_EINVAL, "urds_open: %s, line %d: %s", s->file,
			       config_error_line(&c), config_error_text(&c));
	} else {
		root = config_root_setting(&c);
		for (int i = 0; rc == 0 && i < config_setting_length(root); i++)
			rc = take(s, config_setting_get_elem(root, (unsigned)i), all);
	}
	config_destroy(&c);
	return rc;
}
#else
static int parse(struct urds_settings *s, const char *text, bool all)
{
	(void)text;
	(void)all;
	return urds_fail(URDS_EINVAL,
			 "urds_open: %s: urds was built without libconfig and reads no file; unset "
			 "URDS_CONFIG and use the other URDS_* variables",
			 s->file);
}
#endif

static int fail_read(const char *path)
{
	return urds_fail(urds_err_from_errno(errno), "urds_open: cannot read %s: %s", path,
			 strerror(errno));
}

/* The whole of @f, terminated, from malloc(); NULL after urds_fail(). */
static char *read_all(FILE *f, const char *path)
{
	char *text = malloc(FILE_MAX_BYTES + 1);
	size_t n;

	if (!text) {
		urds_fail(URDS_ENOMEM, "urds_open: out of memory");
		return NULL;
	}
	n = fread(text, 1, FILE_MAX_BYTES, f);
	text[n] = 0;
	if (ferror(f))
		fail_read(path);
	else if (n == FILE_MAX_BYTES || strlen(text) != n)
		urds_fail(URDS_EINVAL, "urds_open: %s is no configuration file: it %s", path,
			  n == FILE_MAX_BYTES ? "is longer than 64 KiB" : "has bytes of zero");
	else
		return text;
	free(text);
	return NULL;
}

int urds_settings_file(struct urds_settings *s, const char *path, bool was_asked_for, bool all)
{
	FILE *f = fopen(path, OPEN_READ);
	char *text;
	int rc;

	if (!f && errno == ENOENT && !was_asked_for)
		return 0;
	if (!f)
		return fail_read(path);
	text = read_all(f, path);
	fclose(f);
	if (!text)
		return -1;
	s->file = strdup(path);
	rc = s->file ? parse(s, text, all) : urds_fail(URDS_ENOMEM, "urds_open: out of memory");
	free(text);
	return rc;
}
