/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds info: what rds-info prints, gathered from every process of this user that owns an address. Rows of
 * several owners form one table; counters of one name are added up, as the kernel adds its processors.
 */
#include "info.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "tool.h"

static const char help[] =
	"usage: urds info [-acknrstvIT] [--peers] [--owners] [--json] [ADDR]\n"
	"\n"
	"Shows the state of the RDS processes of this user on this host, or of the one that owns ADDR:\n"
	"\n"
	"  -I   RDS IB connections             -n   connections\n"
	"  -T   TCP connections                -r   receive message queue\n"
	"  -c   statistic counters             -s   send message queue\n"
	"  -k   sockets                        -t   retransmit message queue\n"
	"\n"
	"  -a         always as wide as IPv6 addresses need (otherwise only when there are any)\n"
	"  -v         more about IB connections\n"
	"  --peers    peers: what is at the other end, since when, and the last error\n"
	"  --owners   who owns which address, processes of other users included, and nothing else\n"
	"  --json     the same as one JSON object (urds-info(1) lists its keys)\n"
	"  --help     this text\n"
	"  --version  the release\n"
	"\n"
	"Without a choice everything is shown, always in the order I T c k n r s t\n"
	"and then peers, which rds-info shows only when asked. Of -I a line on standard error says\n"
	"'Protocol not available', as rds-info does on a host without RDMA.\n"
	"Exit status: 0, or 1 for bad usage or when there is no process to ask.\n";

enum { OPT_HELP = 256, OPT_VERSION, OPT_OWNERS, OPT_JSON, OPT_PEERS };

static const struct option options[] = {
	{"help", no_argument, NULL, OPT_HELP},	   {"version", no_argument, NULL, OPT_VERSION},
	{"owners", no_argument, NULL, OPT_OWNERS}, {"json", no_argument, NULL, OPT_JSON},
	{"peers", no_argument, NULL, OPT_PEERS},   {NULL, 0, NULL, 0},
};

struct owners {
	struct tool_addr *addrs; /* one per process that can be asked */
	uint64_t *instances;
	size_t n;
};

/* Elements of one source from all owners, one after the other, each @size bytes. */
struct rows {
	uint8_t *e;
	size_t n, size;
	int err; /* of the last owner that could not answer: errno */
};

static int usage(int letter)
{
	size_t i;

	if (letter)
		fprintf(stderr, "%s: Invalid option '-%c'\n", tool_name, letter);
	fprintf(stderr, "%s version %s\nThe options are as follows ('%s --help' says more):\n",
		tool_name, urds_version(), tool_name);
	for (i = 0; i < INFO_SECTIONS; i++)
		if (info_sections[i].letter)
			printf("    -%c %s\n", info_sections[i].letter, info_sections[i].option);
	return 1;
}

/* Adds what one owner knows. Elements that are longer or shorter than ours are cut or padded. */
static int rows_add(struct rows *r, const struct tool_addr *owner, int id)
{
	size_t bytes = 0, count, i;
	uint8_t *grown;
	void *buf = NULL;
	int stride = urds_owner_info(tool_sa(owner), owner->len, id, &buf, &bytes);

	if (stride < 0) {
		r->err = errno;
		return -1;
	}
	count = bytes / (size_t)stride;
	grown = count ? realloc(r->e, (r->n + count) * r->size) : r->e;
	if (count && !grown) {
		free(buf);
		r->err = ENOMEM;
		return -1;
	}
	r->e = grown;
	for (i = 0; i < count; i++) {
		uint8_t *e = r->e + (r->n + i) * r->size;
		size_t n = (size_t)stride < r->size ? (size_t)stride : r->size;

		memset(e, 0, r->size);
		memcpy(e, (uint8_t *)buf + i * (size_t)stride, n);
	}
	r->n += count;
	free(buf);
	return 0;
}

/* From all owners. Return: how many answered. */
static unsigned rows_get(struct rows *r, const struct owners *o, int id, size_t size)
{
	unsigned answered = 0;
	size_t i;

	*r = (struct rows){.size = size};
	for (i = 0; i < o->n; i++)
		answered += rows_add(r, &o->addrs[i], id) == 0;
	return answered;
}

/* Neither v4-mapped nor all zero. */
static bool is_ipv6(const uint8_t *p)
{
	static const uint8_t head[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, none[16];

	return memcmp(p, head, sizeof(head)) != 0 && memcmp(p, none, sizeof(none)) != 0;
}

static bool has_ipv6(const struct rows *r, const struct info_section *s)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		if (is_ipv6(r->e + i * r->size + s->addrs6[0]) ||
		    is_ipv6(r->e + i * r->size + s->addrs6[1]))
			return true;
	return false;
}

/* Equal names become one row, where the first of them is. */
static void add_up(struct rows *r)
{
	size_t i, j, kept = 0;
	uint64_t a, b;

	for (i = 0; i < r->n; i++) {
		uint8_t *e = r->e + i * r->size;

		e[31] = '\0';
		for (j = 0; j < kept; j++)
			if (strcmp((char *)r->e + j * r->size, (char *)e) == 0)
				break;
		if (j == kept) {
			memmove(r->e + kept++ * r->size, e, r->size);
			continue;
		}
		memcpy(&a, r->e + j * r->size + 32, sizeof(a));
		memcpy(&b, e + 32, sizeof(b));
		a += b;
		memcpy(r->e + j * r->size + 32, &a, sizeof(a));
	}
	r->n = kept;
}

static void show(const struct info_section *s, const struct owners *o, bool all, bool verbose)
{
	struct rows r = {0};
	bool six = false, wide = all;
	size_t i;

	if (s->id6) {
		six = rows_get(&r, o, s->id6, s->size6);
		wide = all || (six && has_ipv6(&r, s));
		six = six && (wide || !s->id4);
		if (!six)
			free(r.e);
	}
	if (!six && !rows_get(&r, o, s->id4, s->size4)) {
		/* As rds-info says it, the grammar included: scripts look for it. */
		fprintf(stderr, "%s: Unable get statistics: %s\n", tool_name, tool_strerror(r.err));
		free(r.e);
		return;
	}
	if (s->id4 == URDS_INFO_COUNTERS)
		add_up(&r);
	printf("\n%s:\n", s->title);
	s->header(wide ? 37 : 15);
	for (i = 0; i < r.n; i++)
		s->row(r.e + i * r.size, six, wide ? 37 : 15, verbose);
	free(r.e);
}

/* One section as a list, or as an object of counters; null if nobody has such a table. */
static void show_json(const struct info_section *s, const struct owners *o, struct json_object *top)
{
	bool is_counters = s->id4 == URDS_INFO_COUNTERS, six;
	struct json_object *to;
	struct rows r = {0};
	size_t i;

	six = s->id6 && rows_get(&r, o, s->id6, s->size6);
	if (!six)
		free(r.e);
	if (!six && !rows_get(&r, o, s->id4, s->size4)) {
		if (r.err != ENOPROTOOPT)
			tool_error("cannot read the %s of any owner: %s", s->option,
				   r.err == ENOTCONN ? "it has ended" : tool_strerror(r.err));
		tool_json_null(top, s->key);
		free(r.e);
		return;
	}
	if (is_counters)
		add_up(&r);
	to = is_counters ? tool_json_object(top, s->key) : tool_json_list(top, s->key);
	for (i = 0; i < r.n; i++)
		s->json(r.e + i * r.size, six, is_counters ? to : tool_json_item(to));
	free(r.e);
}

/* Adds the owner of @a, once per process and context. Return: 0, or -1 if it cannot be asked (said). */
static int add_owner(struct owners *o, const struct tool_addr *a)
{
	struct urds_owner who;
	char text[192];
	size_t i;

	if (urds_owner_ident(tool_sa(a), a->len, &who) < 0) {
		if (errno != ENOTCONN) /* else it ended meanwhile */
			tool_error("%s", urds_reason());
		return -1;
	}
	tool_owner_text(&who, text, sizeof(text));
	if (!who.is_ours) {
		tool_error("%s is owned by %s, which shows its state only to user %s", a->text,
			   text, who.user);
		return -1;
	}
	if (!who.answered) {
		tool_error("%s is owned by %s, which does not answer: is it stopped?", a->text,
			   text);
		return -1;
	}
	for (i = 0; i < o->n; i++)
		if (o->instances[i] == who.instance)
			return 0;
	o->addrs[o->n] = *a;
	o->instances[o->n++] = who.instance;
	return 0;
}

static struct tool_addr *list(size_t *count)
{
	struct sockaddr_storage *v = NULL;
	struct tool_addr *addrs = NULL;
	int n = urds_owner_list(NULL, 0), i;

	*count = 0;
	if (n > 0 && (v = calloc((size_t)n, sizeof(*v))) != NULL) {
		i = urds_owner_list(v, (size_t)n);
		n = i < n ? i : n; /* those that came in between are left out */
	}
	if (n < 0)
		tool_error("%s", urds_reason());
	if (n > 0 && v)
		addrs = calloc((size_t)n, sizeof(*addrs));
	for (i = 0; addrs && i < n; i++)
		tool_addr_set(&addrs[i], (struct sockaddr *)&v[i], sizeof(v[i]));
	*count = addrs ? (size_t)n : 0;
	free(v);
	return addrs;
}

static int nobody(const char *where)
{
	tool_error("%s: start one - 'urds listen ADDR' or a program that uses urds%s", where,
		   " - or run this as its user");
	return 1;
}

static void owner_json(struct json_object *o, const struct tool_addr *a,
		       const struct urds_owner *who)
{
	tool_json_text(o, "addr", a->text);
	tool_json_number(o, "pid", (uint64_t)who->pid);
	tool_json_number(o, "uid", who->uid);
	tool_json_text(o, "user", who->user);
	tool_json_flag(o, "answered", who->answered);
	if (who->answered) {
		tool_json_text(o, "mode", who->mode);
		tool_json_text(o, "version", who->version);
	} else {
		tool_json_null(o, "mode");
		tool_json_null(o, "version");
	}
	tool_json_text(o, "program", who->program);
}

static int show_owners_json(const struct tool_addr *addrs, size_t n)
{
	struct json_object *top = tool_json_new(), *list;
	struct urds_owner who;
	size_t i;

	tool_json_text(top, "urds", urds_version());
	list = tool_json_list(top, "owners");
	for (i = 0; i < n; i++)
		if (urds_owner_ident(tool_sa(&addrs[i]), addrs[i].len, &who) == 0)
			owner_json(tool_json_item(list), &addrs[i], &who);
	return tool_json_print(top, true);
}

static int show_owners(const struct tool_addr *addrs, size_t n)
{
	struct urds_owner who;
	size_t i;

	printf("%37s %8s %-12s %-10s %-10s %s\n", "Address", "Pid", "User", "Mode", "Version",
	       "Program");
	for (i = 0; i < n; i++) {
		if (urds_owner_ident(tool_sa(&addrs[i]), addrs[i].len, &who) < 0)
			continue;
		printf("%37s %8d %-12s %-10s %-10s %s\n", addrs[i].text, who.pid, who.user,
		       who.answered ? who.mode : "silent", who.answered ? who.version : "-",
		       who.program);
	}
	return tool_flush() == 0 ? TOOL_OK : TOOL_FAILED;
}

int tool_info(int argc, char **argv)
{
	bool chosen[INFO_SECTIONS] = {false}, any = false, all = false, verbose = false;
	bool owners_only = false, json = false, is_rds_info = strcmp(tool_name, "rds-info") == 0;
	struct json_object *top = NULL;
	struct owners o = {0};
	struct tool_addr *addrs;
	struct tool_addr one;
	const char *why;
	size_t n, i;
	int c, rc = 0;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "avcknrstIT", options, NULL)) != -1) {
		switch (c) {
		case OPT_HELP:
			return tool_print(help);
		case OPT_VERSION:
			return tool_version();
		case OPT_OWNERS:
			owners_only = true;
			break;
		case OPT_PEERS:
			chosen[INFO_PEERS] = any = true;
			break;
		case OPT_JSON:
			json = true;
			break;
		case 'a':
			all = true;
			break;
		case 'v':
			verbose = true;
			break;
		case '?':
			return usage(optopt);
		default:
			for (i = 0; i < INFO_SECTIONS; i++)
				if (info_sections[i].letter == c)
					chosen[i] = any = true;
		}
	}
	if (optind + 1 < argc) {
		tool_error("one address at a time: not '%s' as well", argv[optind + 1]);
		return 1;
	}
	if (optind < argc) {
		why = tool_resolve(&one, argv[optind], AF_UNSPEC);
		if (why) {
			tool_error(
				"cannot tell whose state to show, '%s': %s; give an address that "
				"'urds info --owners' lists",
				argv[optind], why);
			return 1;
		}
		addrs = malloc(sizeof(one));
		n = addrs ? 1 : 0;
		if (addrs)
			*addrs = one;
	} else {
		addrs = list(&n);
	}
	o.addrs = calloc(n + 1, sizeof(*o.addrs));
	o.instances = calloc(n + 1, sizeof(*o.instances));
	if (!o.addrs || !o.instances) {
		tool_error("no memory for %zu owners", n);
		rc = 1;
		goto done;
	}
	if (owners_only) {
		rc = json ? show_owners_json(addrs, n) : show_owners(addrs, n);
		goto done;
	}
	for (i = 0; i < n; i++)
		add_owner(&o, &addrs[i]);
	if (o.n == 0) {
		char where[128];

		snprintf(where, sizeof(where), "no urds process of this user owns %s",
			 optind < argc ? one.text : "an address of this host");
		rc = nobody(where);
		goto done;
	}
	if (json) {
		top = tool_json_new();
		tool_json_text(top, "urds", urds_version());
	}
	for (i = 0; i < INFO_SECTIONS; i++) {
		if (any ? !chosen[i] : i == INFO_PEERS && is_rds_info && !json)
			continue;
		if (json)
			show_json(&info_sections[i], &o, top);
		else
			show(&info_sections[i], &o, all, verbose);
	}
	if (json)
		rc = tool_json_print(top, true);
	else if (tool_flush() < 0)
		rc = TOOL_FAILED;
done:
	free(o.addrs);
	free(o.instances);
	free(addrs);
	return rc;
}
