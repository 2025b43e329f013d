/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urds knows of a peer, in words.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "info_element.h"
#include "json.h"
#include "system.h"

static const char *const states[] = {
	[URDS_PEER_DOWN] = "down",
	[URDS_PEER_CONNECTING] = "connecting",
	[URDS_PEER_SILENT] = "silent",
	[URDS_PEER_UP] = "up",
};

static const char *const ends[] = {
	[URDS_PEER_UNKNOWN] = "unknown",
	[URDS_PEER_KERNEL] = "kernel",
	[URDS_PEER_URDS] = "urds",
};

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))

const char *peer_state(const struct urds_info_peer *p)
{
	return p->state < COUNT(states) ? states[p->state] : "unknown";
}

const char *peer_end(const struct urds_info_peer *p)
{
	return p->end < COUNT(ends) ? ends[p->end] : "unknown";
}

const char *peer_date(uint64_t ns, char *buf, size_t cap)
{
	time_t t = (time_t)(ns / 1000000000u);
	struct tm tm;

	if (ns == 0 || !tool_local_time(t, &tm) ||
	    strftime(buf, cap, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		snprintf(buf, cap, "-");
	return buf;
}

void peers_header(int w)
{
	printf("%*s %*s %10s %7s %19s %s\n", w, "LocalAddr", w, "RemoteAddr", "State", "End",
	       "UpSince", "LastError");
}

void peers_row(const uint8_t *e, int w)
{
	char up[32], since[32], last[32], fault[160];
	struct urds_info_peer p;
	struct info_pair at;

	memcpy(&p, e, sizeof(p));
	info_pair_get(&at, p.local, p.remote, true);
	printf("%*s %*s %10s %7s %19s ", w, at.local, w, at.remote, peer_state(&p), peer_end(&p),
	       peer_date(p.up_since, up, sizeof(up)));
	if (!p.fault) {
		printf("-\n");
		return;
	}
	printf("%s, since %s", urds_peer_fault_text(&p, fault, sizeof(fault)),
	       peer_date(p.fault_since, since, sizeof(since)));
	if (p.fault_count > 1)
		printf(", %u times, last %s", p.fault_count,
		       peer_date(p.fault_last, last, sizeof(last)));
	printf("%s\n", p.fault_is_over ? "; over" : "");
}

void peers_json(const uint8_t *e, struct json_object *o)
{
	struct urds_info_peer p;
	struct json_object *f;
	struct info_pair at;
	char text[160];

	memcpy(&p, e, sizeof(p));
	info_pair_get(&at, p.local, p.remote, true);
	tool_json_text(o, "local_addr", at.local);
	tool_json_text(o, "remote_addr", at.remote);
	tool_json_number(o, "scope", p.scope);
	tool_json_text(o, "state", peer_state(&p));
	tool_json_text(o, "end", peer_end(&p));
	tool_json_number(o, "version", p.version);
	tool_json_number(o, "up_since_ns", p.up_since);
	if (!p.fault) {
		tool_json_null(o, "last_error");
		return;
	}
	f = tool_json_object(o, "last_error");
	tool_json_text(f, "what", urds_peer_fault_word(&p));
	tool_json_text(f, "text", urds_peer_fault_text(&p, text, sizeof(text)));
	tool_json_number(f, "errno", p.fault_errno);
	tool_json_number(f, "silent_ms", p.fault_ms);
	tool_json_number(f, "since_ns", p.fault_since);
	tool_json_number(f, "last_ns", p.fault_last);
	tool_json_number(f, "count", p.fault_count);
	tool_json_flag(f, "over", p.fault_is_over);
}
