/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What --json prints. Objects are built top down: each is added to its parent at once, and freed with the topmost one by
 * tool_json_print(). Without memory the command ends with a message and exit code 1: half an answer would be a wrong one.
 */
#ifndef URDS_TOOLS_JSON_H
#define URDS_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;

struct json_object *tool_json_new(void);
/* Borrowed from @parent. */
struct json_object *tool_json_object(struct json_object *parent, const char *key);
struct json_object *tool_json_list(struct json_object *parent, const char *key);
/* A new object at the end of @list, borrowed from it. */
struct json_object *tool_json_item(struct json_object *list);

/* Copies @v; what is not UTF-8 in it becomes '?'. */
void tool_json_text(struct json_object *o, const char *key, const char *v);
void tool_json_number(struct json_object *o, const char *key, uint64_t v);
void tool_json_flag(struct json_object *o, const char *key, bool v);
void tool_json_null(struct json_object *o, const char *key);

/* Takes @o. On one line, or @pretty. Return: exit code. */
int tool_json_print(struct json_object *o, bool pretty);

#endif
