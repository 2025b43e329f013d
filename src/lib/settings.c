/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "lib/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api.h"
#include "platform/addr.h"

const char *const urds_setting_keys[URDS_SET_COUNT] = {
	[URDS_SET_EXT] = "ext",		[URDS_SET_SPIN] = "spin",     [URDS_SET_PATHS] = "paths",
	[URDS_SET_SPIN_US] = "spin_us", [URDS_SET_MEMORY] = "memory", [URDS_SET_PEERS] = "peers",
	[URDS_SET_LOG] = "log",
};

static const char *const variables[URDS_SET_COUNT] = {
	[URDS_SET_EXT] = "URDS_EXT",	   [URDS_SET_SPIN] = "URDS_SPIN",
	[URDS_SET_PATHS] = "URDS_PATHS",   [URDS_SET_SPIN_US] = "URDS_SPIN_US",
	[URDS_SET_MEMORY] = "URDS_MEMORY", [URDS_SET_PEERS] = "URDS_PEERS",
	[URDS_SET_LOG] = "URDS_LOG",
};

/* Not what the user of a set-user-id program says: the log is a file that it writes. */
static const char *env(const char *name)
{
#ifdef _WIN32
	return getenv(name);
#else
	return secure_getenv(name);
#endif
}

/* Where the file is if nobody says. "": nowhere. */
static const char *file_default(char *buf, size_t cap)
{
#ifdef _WIN32
	const char *folder = getenv("ProgramData");

	snprintf(buf, cap, "%s%s", folder ? folder : "", folder ? "\\urds\\urds.conf" : "");
#else
	snprintf(buf, cap, "/etc/urds.conf");
#endif
	return buf;
}

const char *urds_settings_name(struct urds_settings *s, enum urds_setting which)
{
	if (!s)
		return urds_setting_keys[which];
	if (s->is_env[which])
		snprintf(s->name, sizeof s->name, "%s (environment)", variables[which]);
	else
		snprintf(s->name, sizeof s->name, "%s: %s", s->file, urds_setting_keys[which]);
	return s->name;
}

int urds_settings_read(struct urds_settings *s, bool all)
{
	const char *path = env("URDS_CONFIG");
	char standard[300];

	*s = (struct urds_settings){0};
	for (unsigned i = 0; i < URDS_SET_COUNT; i++) {
		const char *text = i == URDS_SET_LOG || all ? env(variables[i]) : NULL;

		if (!text || !*text)
			continue;
		s->is_env[i] = true;
		s->text[i] = strdup(text);
		if (!s->text[i])
			return urds_fail(URDS_ENOMEM, "urds_open: out of memory");
	}
	if (!path)
		path = file_default(standard, sizeof standard);
	return *path ? urds_settings_file(s, path, path != standard, all) : 0;
}

void urds_settings_free(struct urds_settings *s)
{
	for (unsigned i = 0; i < URDS_SET_COUNT; i++)
		free(s->text[i]);
	free(s->file);
	*s = (struct urds_settings){0};
}

/* @rc: set on failure. */
static uint64_t number(struct urds_settings *s, enum urds_setting which, uint64_t otherwise,
		       uint64_t max, int *rc)
{
	const char *text = s->text[which];
	char *end;
	unsigned long long v;

	if (!text)
		return otherwise;
	errno = 0;
	v = strtoull(text, &end, 0);
	if (end != text && !*end && errno == 0 && v <= max && !strchr(text, '-'))
		return v;
	*rc = urds_fail(URDS_EINVAL, "urds_open: %s = %s: it must be a number from 0 to %" PRIu64,
			urds_settings_name(s, which), text, max);
	return otherwise;
}

int urds_settings_config(struct urds_settings *s, struct urds_config *c)
{
	int rc = 0;

	c->flags = number(s, URDS_SET_EXT, 1, 1, &rc) ? 0 : URDS_CONFIG_NO_EXT;
	c->flags |= number(s, URDS_SET_SPIN, 1, 1, &rc) ? 0 : URDS_CONFIG_NO_SPIN;
	c->paths = (uint32_t)number(s, URDS_SET_PATHS, 0, URDS_PATHS_MAX, &rc);
	c->spin_us = (uint32_t)number(s, URDS_SET_SPIN_US, 0, UINT32_MAX, &rc);
	c->memory_max = number(s, URDS_SET_MEMORY, 0, UINT64_MAX, &rc);
	c->peers = s->text[URDS_SET_PEERS];
	return rc;
}

/* One of the networks, @len bytes of @text: 0 or -URDS_EINVAL. */
static int parse_net(const char *text, size_t len, struct urds_net *out)
{
	char one[URDS_ADDR_STRLEN + 4], *slash, *end;
	unsigned long bits;

	if (len >= sizeof one)
		return -URDS_EINVAL;
	memcpy(one, text, len);
	one[len] = 0;
	slash = strchr(one, '/');
	if (slash)
		*slash = 0;
	if (urds_addr_parse(&out->addr, one) < 0 || out->addr.scope != 0)
		return -URDS_EINVAL;
	out->bits = 128;
	if (!slash)
		return 0;
	bits = strtoul(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end)
		return -URDS_EINVAL;
	if (urds_addr_is_v4(&out->addr))
		bits = bits <= 32 ? bits + 96 : 129;
	if (bits > 128)
		return -URDS_EINVAL;
	out->bits = (uint8_t)bits;
	return 0;
}

int urds_settings_nets(const char *text, struct urds_settings *s, struct urds_net **nets, size_t *n)
{
	size_t max = 1;

	*nets = NULL;
	*n = 0;
	if (!text || !*text)
		return 0;
	for (const char *c = text; *c; c++)
		max += *c == ',';
	*nets = calloc(max, sizeof **nets);
	if (!*nets)
		return urds_fail(URDS_ENOMEM, "urds_open: out of memory");
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");

		if (parse_net(at, len, &(*nets)[(*n)++]) < 0) {
			free(*nets);
			return urds_fail(
				URDS_EINVAL,
				"urds_open: %s = %s: '%.*s' is no network: give ADDRESS or "
				"ADDRESS/BITS, with commas between several",
				urds_settings_name(s, URDS_SET_PEERS), text, (int)len, at);
		}
		at += len;
		if (!*at)
			return 0;
	}
}
