/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds demo: the parent (demo.c) runs two nodes (demo_node.c), each a process of its own, and tells them
 * what to do, one line of text per step, over a stream:
 *
 *	parent: "ping COUNT"			node: "ok GOT MEDIAN_NS"
 *		"exchange COUNT KILLS DROP"		"progress SENT RECEIVED KILLS" ...,
 *						"ok SENT RECEIVED LOST DUPLICATED REORDERED CORRUPT KILLS"
 *		"send SIZE MS", "receive"	"ok COUNT", "ok COUNT BYTES NS"
 *		"there MS", "back"		"ok COUNT MEDIAN_NS", "ok COUNT"
 *		"retransmitted"			"ok COUNT"
 *		"quit"				the end
 *
 * A node says "ok" once it owns its address, and "error SENTENCE" when it cannot go on.
 */
#ifndef URDS_TOOLS_DEMO_H
#define URDS_TOOLS_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool.h"

#define DEMO_LINE_MAX 512
#define DEMO_MESSAGE_MAX (1u << 20)
#define DEMO_PORT 4000
#define DEMO_LAST_RESORT_S 120 /* a node ends itself then, whatever happens */

/* ---- demo_process_posix.c, demo_process_windows.c: a node seen from its parent */
struct demo_process {
	int pid;	   /* 0: not started */
	tool_sock channel; /* whoever started it closes it */
	void *handle;	   /* where the system has one; demo_end() closes it */
};

/* Ctrl-C does not end it: that is for its parent to do. Return: 0, or -1 (said). */
int demo_start(struct demo_process *p, const char *self, const char *peer);
/* Waits for it, and ends it by force after @limit_ns. Return: 0, or -1 and in @how the rest of a sentence. */
int demo_end(struct demo_process *p, uint64_t limit_ns, char *how, size_t cap);
/* Of the node: its end of the channel, from the number that it was started with. Waits for the parent where that sends it.
 * TOOL_NO_SOCK: it is gone. */
tool_sock demo_channel(long long number);
/* Of the node: DEMO_LAST_RESORT_S begins. */
void demo_last_resort(void);

/* ---- demo_node.c: the child's side. Return: exit code. */
int demo_node(tool_sock control, const char *self, const char *peer);

/* The messages of one direction: everything about message @seq follows from @seed and @seq. */
struct demo_stream {
	uint64_t seed;
	uint64_t count;
	uint8_t *
		table; /* random bytes; every message is a slice of it, its number laid over the start */
};

int demo_stream_init(struct demo_stream *s, uint64_t seed, uint64_t count); /* -1: no memory */
void demo_stream_fini(struct demo_stream *s);
size_t demo_stream_size(const struct demo_stream *s, uint64_t seq);
/* Return: its size. @buf: DEMO_MESSAGE_MAX bytes. */
size_t demo_stream_fill(const struct demo_stream *s, uint64_t seq, uint8_t *buf);

/* What came of them. */
struct demo_check {
	const struct demo_stream *stream;
	uint64_t next; /* number of the message that should be the next one */
	uint64_t unique, duplicated, reordered, corrupt;
	uint8_t *seen; /* a bit per message */
};

int demo_check_init(struct demo_check *c, const struct demo_stream *s);
void demo_check_fini(struct demo_check *c);
void demo_check_message(struct demo_check *c, const uint8_t *buf, size_t len);

#endif
