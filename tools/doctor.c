/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds doctor: options, and how findings and verdicts are shown.
 */
#include "doctor.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char help[] =
	"usage: urds doctor [-I source] [--proc dir] [--json]\n"
	"       urds doctor [-I source] [-w seconds] [--json] peer\n"
	"\n"
	"Without a peer: what would stop urds on this host, each with its remedy. With one (IPv4, IPv6, or a\n"
	"name): connects to it as an RDS node and says which of these it is: no route, filtered, refused,\n"
	"accepted then closed, not RDS, kernel RDS, urds.\n"
	"\n"
	"  -I source   the local address that matters; default: any, or the one packets to the peer\n"
	"              would leave from. An address that another process of yours owns is used through it\n"
	"  -w seconds  how long to wait for a peer; default 5\n"
	"  --proc dir  on Linux: another /proc than this one, such as a host's in a container\n"
	"  --json      a JSON object in place of lines\n"
	"  --help      this text\n"
	"  --version   the release\n"
	"\n"
	"Exit status: 0 nothing stops urds, or the peer works; 1 otherwise; 2 bad usage.\n";

enum { OPT_HELP = 256, OPT_VERSION, OPT_JSON, OPT_PROC };

static const struct option options[] = {
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{"json", no_argument, NULL, OPT_JSON},
	{"proc", required_argument, NULL, OPT_PROC},
	{NULL, 0, NULL, 0},
};

static const char *const levels[] = {
	[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_STOP] = "stop"};

static const struct {
	const char *word, *text;
} verdicts[] = {
	[DOCTOR_NO_VERDICT] = {NULL, NULL},
	[DOCTOR_NO_ROUTE] = {"no_route", "no route"},
	[DOCTOR_FILTERED] = {"filtered", "filtered"},
	[DOCTOR_REFUSED] = {"refused", "refused"},
	[DOCTOR_CLOSED] = {"closed", "accepted then closed"},
	[DOCTOR_NOT_RDS] = {"not_rds", "not RDS"},
	[DOCTOR_KERNEL] = {"kernel", "kernel RDS"},
	[DOCTOR_URDS] = {"urds", "urds"},
};

void doctor_say(struct doctor *d, enum doctor_level level, const char *check, const char *remedy,
		const char *fmt, ...)
{
	struct json_object *o;
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (level == DOCTOR_STOP)
		d->stops = true;
	if (!d->checks) {
		printf("%-4s  %-7s  %s\n", levels[level], check, text);
		if (remedy)
			printf("               -> %s\n", remedy);
		return;
	}
	o = tool_json_item(d->checks);
	tool_json_text(o, "check", check);
	tool_json_text(o, "level", levels[level]);
	tool_json_text(o, "text", text);
	if (remedy)
		tool_json_text(o, "remedy", remedy);
	else
		tool_json_null(o, "remedy");
}

static int host(const char *proc, const struct tool_addr *src, bool is_json)
{
	struct doctor d = {.proc = proc, .src = src};
	struct json_object *top = NULL;

	if (is_json) {
		top = tool_json_new();
		tool_json_text(top, "urds", urds_version());
		d.checks = tool_json_list(top, "checks");
	}
	doctor_host(&d);
	if (is_json) {
		tool_json_flag(top, "ok", !d.stops);
		if (tool_json_print(top, true) != TOOL_OK)
			return TOOL_FAILED;
	} else if (tool_flush() < 0) {
		return TOOL_FAILED;
	}
	return d.stops ? TOOL_FAILED : TOOL_OK;
}

static int show_peer(const struct doctor_peer *p, bool is_json)
{
	bool works = p->verdict == DOCTOR_KERNEL || p->verdict == DOCTOR_URDS;
	struct json_object *o;
	char version[24] = "";

	if (p->verdict == DOCTOR_NO_VERDICT)
		return TOOL_FAILED;
	if (is_json) {
		o = tool_json_new();
		tool_json_text(o, "urds", urds_version());
		tool_json_text(o, "peer", p->dest.text);
		tool_json_text(o, "source", p->src.text);
		tool_json_text(o, "verdict", verdicts[p->verdict].word);
		tool_json_flag(o, "works", works);
		tool_json_text(o, "text", p->text);
		if (p->remedy)
			tool_json_text(o, "remedy", p->remedy);
		else
			tool_json_null(o, "remedy");
		tool_json_number(o, "version", p->version);
		tool_json_text(o, "release", p->release);
		tool_json_number(o, "rtt_ns", p->rtt_ns);
		if (tool_json_print(o, true) != TOOL_OK)
			return TOOL_FAILED;
		return works ? TOOL_OK : TOOL_FAILED;
	}
	if (p->version)
		snprintf(version, sizeof(version), " %u", p->version);
	printf("%s: %s%s: %s\n", p->dest.text, verdicts[p->verdict].text, version, p->text);
	if (p->remedy)
		printf("  -> %s\n", p->remedy);
	if (tool_flush() < 0)
		return TOOL_FAILED;
	return works ? TOOL_OK : TOOL_FAILED;
}

static int peer(const char *text, const struct tool_addr *src, uint64_t limit_ns, bool is_json)
{
	struct doctor_peer p = {.limit_ns = limit_ns};
	const char *why = tool_resolve(&p.dest, text, src ? src->sa.ss_family : AF_UNSPEC);
	int err;

	if (why)
		return tool_usage(
			"cannot tell which peer is meant, '%s': %s; give an %s address, or a name",
			text, why,
			!src			       ? "IPv4 or IPv6"
			: src->sa.ss_family == AF_INET ? "IPv4"
						       : "IPv6");
	tool_port_set(&p.dest, 0);
	if (src) {
		p.src = *src;
		doctor_peer(&p);
	} else {
		err = tool_route(&p.src, &p.dest);
		if (err) {
			p.verdict = DOCTOR_NO_ROUTE;
			snprintf(p.src.text, sizeof(p.src.text), "?");
			snprintf(p.text, sizeof(p.text),
				 "packets to it have no way out of this host: %s",
				 tool_strerror(err));
			p.remedy = doctor_words.route;
		} else {
			doctor_peer(&p);
		}
	}
	return show_peer(&p, is_json);
}

int tool_doctor(int argc, char **argv)
{
	struct tool_addr src;
	const char *proc = "/proc", *from = NULL, *why;
	double seconds = 5;
	bool is_json = false;
	char *end;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":I:w:", options, NULL)) != -1) {
		switch (c) {
		case OPT_HELP:
			return tool_print(help);
		case OPT_VERSION:
			return tool_version();
		case OPT_JSON:
			is_json = true;
			break;
		case OPT_PROC:
			if (!doctor_words.has_proc)
				return tool_usage("this system has no /proc: leave out --proc");
			proc = optarg;
			break;
		case 'I':
			from = optarg;
			break;
		case 'w':
			seconds = strtod(optarg, &end);
			if (end == optarg || *end || !(seconds > 0 && seconds <= 3600))
				return tool_usage("cannot wait for '%s': give seconds, up to 3600",
						  optarg);
			break;
		case ':':
			return tool_usage("option '%s' lacks its argument", argv[optind - 1]);
		default:
			return tool_usage("there is no option '%s'", argv[optind - 1]);
		}
	}
	if (optind + 1 < argc)
		return tool_usage("one peer at a time: not '%s' as well", argv[optind + 1]);
	if (from) {
		why = tool_resolve(&src, from, AF_UNSPEC);
		if (why)
			return tool_usage(
				"cannot tell which source is meant, '%s': %s; give an IPv4 or IPv6 address",
				from, why);
	}
	if (optind < argc)
		return peer(argv[optind], from ? &src : NULL, (uint64_t)(seconds * 1e9), is_json);
	return host(proc, from ? &src : NULL, is_json);
}
