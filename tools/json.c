/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What --json prints.
 */
#include "json.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static struct json_object *got(struct json_object *o)
{
	if (!o) {
		tool_error("no memory for what --json prints: ask for less, or without --json");
		exit(TOOL_FAILED);
	}
	return o;
}

static struct json_object *add(struct json_object *parent, const char *key, struct json_object *o)
{
	if (json_object_object_add(parent, key, o) < 0)
		got(NULL);
	return o;
}

struct json_object *tool_json_new(void)
{
	return got(json_object_new_object());
}

struct json_object *tool_json_object(struct json_object *parent, const char *key)
{
	return add(parent, key, tool_json_new());
}

struct json_object *tool_json_list(struct json_object *parent, const char *key)
{
	return add(parent, key, got(json_object_new_array()));
}

struct json_object *tool_json_item(struct json_object *list)
{
	struct json_object *o = tool_json_new();

	if (json_object_array_add(list, o) < 0)
		got(NULL);
	return o;
}

/* Bytes of the UTF-8 character at @p, or 0: none. */
static size_t character(const unsigned char *p)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *p < 0x80		 ? 1
		   : (*p & 0xe0) == 0xc0 ? 2
		   : (*p & 0xf0) == 0xe0 ? 3
		   : (*p & 0xf8) == 0xf0 ? 4
					 : 0;
	uint32_t c = n == 1 ? *p : *p & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) /* the terminator included */
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	return n && (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) ? 0 : n;
}

void tool_json_text(struct json_object *o, const char *key, const char *v)
{
	char *clean = strdup(v);
	size_t n;

	if (!clean)
		got(NULL);
	for (char *p = clean; *p; p += n ? n : 1) {
		n = character((unsigned char *)p);
		if (!n)
			*p = '?';
	}
	add(o, key, got(json_object_new_string(clean)));
	free(clean);
}

void tool_json_number(struct json_object *o, const char *key, uint64_t v)
{
	add(o, key, got(json_object_new_uint64(v)));
}

void tool_json_flag(struct json_object *o, const char *key, bool v)
{
	add(o, key, got(json_object_new_boolean(v)));
}

void tool_json_null(struct json_object *o, const char *key)
{
	add(o, key, NULL);
}

int tool_json_print(struct json_object *o, bool pretty)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		    (pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED
			    : JSON_C_TO_STRING_SPACED);
	const char *text = json_object_to_json_string_ext(o, flags);

	if (!text)
		got(NULL);
	printf("%s\n", text);
	json_object_put(o);
	return tool_flush() == 0 ? TOOL_OK : TOOL_FAILED;
}
