/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Operations of rows that are one call each: names, sends, receives, options.
 */
#include "ops.h"

#include <stdarg.h>

void put(struct call *c, const char *fmt, ...)
{
	size_t used = strlen(c->out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->out + used, c->room - used, fmt, ap);
	va_end(ap);
}

/* EOPNOTSUPP has two names, and the probe printed the other one. */
static const struct {
	int number;
	const char *name;
} errors[] = {
	{EAGAIN, "EAGAIN"},
	{EADDRINUSE, "EADDRINUSE"},
	{EADDRNOTAVAIL, "EADDRNOTAVAIL"},
	{EAFNOSUPPORT, "EAFNOSUPPORT"},
	{EBADF, "EBADF"},
	{EDESTADDRREQ, "EDESTADDRREQ"},
	{EFAULT, "EFAULT"},
	{EINTR, "EINTR"},
	{EINVAL, "EINVAL"},
	{EMSGSIZE, "EMSGSIZE"},
	{ENOBUFS, "ENOBUFS"},
	{ENOMEM, "ENOMEM"},
	{ENOPROTOOPT, "ENOPROTOOPT"},
	{ENOSPC, "ENOSPC"},
	{ENOTCONN, "ENOTCONN"},
	{EOPNOTSUPP, "ENOTSUP"},
	{EPROTOTYPE, "EPROTOTYPE"},
	{ETIMEDOUT, "ETIMEDOUT"},
};

void put_result(struct call *c, long long rc)
{
	int err = errno;

	if (rc >= 0) {
		put(c, "%lld", rc);
		return;
	}
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (errors[i].number == err) {
			put(c, "-1 %s", errors[i].name);
			return;
		}
	put(c, "-1 error %d", err);
}

static void put_hex(struct call *c, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(c, "%02x", ((const uint8_t *)p)[i]);
}

void put_endpoint(struct call *c, const struct sockaddr_storage *ss, socklen_t len)
{
	const struct sockaddr_in *v4 = (const void *)ss;
	const struct sockaddr_in6 *v6 = (const void *)ss;
	char ip[INET6_ADDRSTRLEN];

	if (len < sizeof ss->ss_family) {
		put(c, "len %d", (int)len);
	} else if (ss->ss_family == AF_INET && len >= 8) {
		put(c, "%s:%d (len %d)", inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip),
		    ntohs(v4->sin_port), (int)len);
	} else if (ss->ss_family == AF_INET6 && len >= 24) {
		put(c, "[%s]:%d (len %d)", inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip),
		    ntohs(v6->sin6_port), (int)len);
	} else {
		put(c, "family %d (len %d) ", ss->ss_family, (int)len);
		put_hex(c, ss, len);
	}
}

const char *option(const struct call *c, const char *key)
{
	for (int i = 1; i + 1 < c->n; i++)
		if (strcmp(c->word[i], key) == 0)
			return c->word[i + 1];
	return NULL;
}

int number(const char *word, int otherwise)
{
	return word ? atoi(word) : otherwise;
}

socklen_t address(const struct call *c, const char *word, struct sockaddr_storage *ss)
{
	struct sockaddr_in *v4 = (void *)ss;
	struct sockaddr_in6 *v6 = (void *)ss;
	const char *colon = strrchr(word, ':');
	char host[64];
	uint16_t port;
	socklen_t len;

	memset(ss, 0, sizeof *ss);
	if (!colon)
		return 0;
	snprintf(host, sizeof host, "%.*s", (int)(colon - word), word);
	port = htons((uint16_t)atoi(colon + 1));
	if (strcmp(host, "family") == 0) {
		ss->ss_family = (sa_family_t)atoi(colon + 1);
		len = sizeof *v4;
	} else if (host[0] == '[') {
		host[strlen(host) - 1] = 0;
		v6->sin6_family = AF_INET6;
		v6->sin6_port = port;
		len = inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1 ? sizeof *v6 : 0;
	} else {
		const char *ip = strcmp(host, "A") == 0	  ? ADDR_A
				 : strcmp(host, "B") == 0 ? c->w->ip_b
							  : host;

		v4->sin_family = AF_INET;
		v4->sin_port = port;
		len = inet_pton(AF_INET, ip, &v4->sin_addr) == 1 ? sizeof *v4 : 0;
	}
	return (socklen_t)number(option(c, "len"), (int)len);
}

static int flags_of(const struct call *c)
{
	static const struct {
		const char *name;
		int flag;
	} known[] = {{"n", MSG_DONTWAIT}, {"p", MSG_PEEK},
		     {"t", MSG_TRUNC},	  {"e", MSG_ERRQUEUE},
		     {"oob", MSG_OOB},	  {"waitall", MSG_WAITALL},
		     {"more", MSG_MORE},  {"nosignal", MSG_NOSIGNAL},
		     {"eor", MSG_EOR},	  {"confirm", MSG_CONFIRM}};
	const char *at = option(c, "flags");
	int flags = 0;

	while (at && *at) {
		size_t n = strcspn(at, "+"), i = 0;

		while (i < sizeof known / sizeof known[0] &&
		       (strlen(known[i].name) != n || memcmp(known[i].name, at, n) != 0))
			i++;
		if (i == sizeof known / sizeof known[0])
			abort(); /* a slip in the table */
		flags |= known[i].flag;
		at += n + (at[n] == '+');
	}
	return flags;
}

static const uint8_t *pattern(void)
{
	static uint8_t bytes[ROWS_BYTES];
	static bool is_filled;

	for (size_t i = 0; !is_filled && i < sizeof bytes; i++)
		bytes[i] = (uint8_t)i;
	is_filled = true;
	return bytes;
}

ssize_t send_pattern(struct urds_sock *s, const struct sockaddr_storage *to, socklen_t tolen,
		     size_t size, int flags)
{
	return urds_sendto(s, pattern(), size, flags, tolen > 0 ? (const void *)to : NULL, tolen);
}

/* ---------------------------------------------------------------- names */

static void op_bind(struct call *c)
{
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->word[2], &ss);

	put_result(c, urds_bind(c->s, (struct sockaddr *)&ss, len));
}

static void op_connect(struct call *c)
{
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->word[2], &ss);

	put_result(c, urds_connect(c->s, (struct sockaddr *)&ss, len));
}

static void op_name(struct call *c)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof ss;
	int rc = strcmp(c->word[0], "peer") == 0
			 ? urds_getpeername(c->s, (struct sockaddr *)&ss, &len)
			 : urds_getsockname(c->s, (struct sockaddr *)&ss, &len);

	put_result(c, rc);
	if (rc < 0)
		return;
	put(c, " ");
	put_endpoint(c, &ss, len);
}

/* Which port it is cannot be foretold. */
static void op_name_any(struct call *c)
{
	char *colon;

	op_name(c);
	colon = strchr(c->out, ':');
	if (colon && atoi(colon + 1) > 1)
		strcpy(colon, ":(some port)");
}

static void op_close(struct call *c)
{
	int rc;

	sock_forget(c->w, c->s);
	rc = urds_close(c->s);
	if (rc < 0)
		put_result(c, rc);
	else
		put(c, "None"); /* as the probe's language has it */
}

/* ---------------------------------------------------------------- send */

/* "276:3:32" is level, type, and how many bytes, all 0. */
static void op_send(struct call *c)
{
	union {
		char bytes[256];
		struct cmsghdr align;
	} control = {{0}};
	union {
		const uint8_t *in;
		void *out;
	} p = {.in = pattern()};
	struct sockaddr_storage ss;
	struct iovec v = {p.out, (size_t)number(c->word[3], 0)};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	const char *ctl = option(c, "ctl");

	m.msg_namelen = address(c, c->word[2], &ss);
	m.msg_name = m.msg_namelen > 0 ? &ss : NULL;
	if (ctl) {
		unsigned n;

		if (sscanf(ctl, "%d:%d:%u", &control.align.cmsg_level, &control.align.cmsg_type,
			   &n) != 3 ||
		    CMSG_SPACE(n) > sizeof control) {
			put(c, ROWS_BAD ": %s", ctl);
			return;
		}
		control.align.cmsg_len = CMSG_LEN(n);
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(n);
	}
	put_result(c, urds_sendmsg(c->s, &m, flags_of(c)));
}

static void op_cancel(struct call *c)
{
	struct sockaddr_storage ss;
	socklen_t len = address(c, c->word[2], &ss);

	put_result(c, urds_setsockopt(c->s, URDS_SOL_RDS, URDS_OPT_CANCEL_SENT_TO, &ss, len));
}

/* ---------------------------------------------------------------- receive */

static uint8_t room[ROWS_BYTES];

struct got {
	_Alignas(struct cmsghdr) char control[1024];
	struct sockaddr_storage from;
	struct msghdr m;
	ssize_t rc;
};

static void receive(struct call *c, struct got *g)
{
	struct iovec v = {room, (size_t)number(c->word[2], 0)};

	memset(g, 0, sizeof *g);
	g->m = (struct msghdr){.msg_name = &g->from,
			       .msg_namelen = 128,
			       .msg_iov = &v,
			       .msg_iovlen = 1,
			       .msg_control = g->control,
			       .msg_controllen = sizeof g->control};
	g->rc = urds_recvmsg(c->s, &g->m, flags_of(c));
}

static void op_recv(struct call *c)
{
	struct got g;

	receive(c, &g);
	put_result(c, g.rc);
	if (g.rc < 0)
		return;
	put(c, " from ");
	put_endpoint(c, &g.from, g.m.msg_namelen);
	if (g.m.msg_flags)
		put(c, " msg_flags=0x%x", (unsigned)g.m.msg_flags);
	if (g.rc > 0 && number(c->word[2], 0) > 0)
		put(c, " first=%d", room[0]);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&g.m); h; h = CMSG_NXTHDR(&g.m, h)) {
		put(c, " cmsg(level %d type %d len %d ", h->cmsg_level, h->cmsg_type,
		    (int)(h->cmsg_len - CMSG_LEN(0)));
		put_hex(c, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
		put(c, ")");
	}
}

/* In the forms of the two rows that ask for control messages only. */
static void op_recv_cmsgs(struct call *c)
{
	bool is_named = strcmp(c->word[0], "recv-levels") == 0;
	const char *between = "";
	struct got g;

	receive(c, &g);
	if (g.rc < 0) {
		put_result(c, g.rc);
		return;
	}
	put(c, is_named ? "[" : "%zd with cmsgs [", g.rc);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&g.m); h; h = CMSG_NXTHDR(&g.m, h)) {
		int len = (int)(h->cmsg_len - CMSG_LEN(0));

		put(c, is_named ? "%s'level %d type %d len %d'" : "%s(%d, %d, %d)", between,
		    h->cmsg_level, h->cmsg_type, len);
		between = ", ";
	}
	put(c, "]");
}

/* Without asking where it is from. */
static void op_recv_plain(struct call *c)
{
	put_result(c, urds_recv(c->s, room, (size_t)number(c->word[2], 0), flags_of(c)));
}

static void op_recvfrom(struct call *c)
{
	struct sockaddr_storage ss;
	socklen_t len = (socklen_t)number(option(c, "namelen"), sizeof ss);

	put_result(c, urds_recvfrom(c->s, room, (size_t)number(c->word[2], 0), flags_of(c),
				    (struct sockaddr *)&ss, &len));
	put(c, ", namelen %d", (int)len);
}

/* ---------------------------------------------------------------- options */

static const struct {
	const char *name;
	int level, opt;
} options[] = {
	{"type", SOL_SOCKET, SO_TYPE},
	{"domain", SOL_SOCKET, SO_DOMAIN},
	{"protocol", SOL_SOCKET, SO_PROTOCOL},
	{"error", SOL_SOCKET, SO_ERROR},
	{"reuse", SOL_SOCKET, SO_REUSEADDR},
	{"sndbuf", SOL_SOCKET, SO_SNDBUF},
	{"rcvbuf", SOL_SOCKET, SO_RCVBUF},
	{"sndbufforce", SOL_SOCKET, SO_SNDBUFFORCE},
	{"sndtimeo", SOL_SOCKET, SO_SNDTIMEO},
	{"rcvtimeo", SOL_SOCKET, SO_RCVTIMEO},
	{"timestamp", SOL_SOCKET, SO_TIMESTAMP},
	{"recverr", URDS_SOL_RDS, URDS_OPT_RECVERR},
	{"congmon", URDS_SOL_RDS, URDS_OPT_CONG_MONITOR},
	{"transport", URDS_SOL_RDS, URDS_OPT_TRANSPORT},
};

/* By its name, or as "276:99". */
static bool which_option(struct call *c, int *level, int *opt)
{
	const char *word = c->word[2];

	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		if (strcmp(options[i].name, word) == 0) {
			*level = options[i].level;
			*opt = options[i].opt;
			return true;
		}
	if (sscanf(word, "%d:%d", level, opt) == 2)
		return true;
	put(c, ROWS_BAD ": option %s", word);
	return false;
}

/* A number, or seconds where the option takes a time, or "bytes:N", which are 0, or "hex:02000300". */
static void op_set(struct call *c)
{
	const char *value = c->word[3];
	uint8_t raw[256] = {0};
	struct timeval tv;
	socklen_t len;
	int level, opt, v;

	if (!which_option(c, &level, &opt))
		return;
	if (sscanf(value, "bytes:%d", &v) == 1) {
		len = (socklen_t)v;
	} else if (strncmp(value, "hex:", 4) == 0) {
		unsigned byte;

		for (len = 0; sscanf(value + 4 + 2 * len, "%2x", &byte) == 1; len++)
			raw[len] = (uint8_t)byte;
	} else if (opt == SO_SNDTIMEO || opt == SO_RCVTIMEO) {
		double s = atof(value);

		tv.tv_sec = (time_t)s;
		tv.tv_usec = (suseconds_t)((s - (double)tv.tv_sec) * 1e6);
		len = sizeof tv;
		memcpy(raw, &tv, sizeof tv);
	} else {
		v = atoi(value);
		len = sizeof v;
		memcpy(raw, &v, sizeof v);
	}
	put_result(c, urds_setsockopt(c->s, level, opt, raw, len));
}

static void op_get(struct call *c)
{
	uint8_t raw[64];
	socklen_t len;
	int level, opt, rc, v;

	if (!which_option(c, &level, &opt))
		return;
	len = opt == SO_SNDTIMEO || opt == SO_RCVTIMEO ? sizeof raw : sizeof v;
	rc = urds_getsockopt(c->s, level, opt, raw, &len);
	put_result(c, rc);
	if (rc < 0)
		return;
	put(c, " value ");
	if (len == sizeof v) {
		memcpy(&v, raw, sizeof v);
		put(c, "%d", v);
	} else {
		put_hex(c, raw, len);
	}
}

/* A table, asked for with no room and with plenty; or with @word 3 bytes. */
static void op_info(struct call *c)
{
	int table = number(c->word[2], 0);
	socklen_t len = c->n > 3 ? (socklen_t)number(c->word[3], 0) : 0;
	bool once = c->n > 3;

	if (!once)
		put(c, "len 0: ");
	put_result(c, urds_getsockopt(c->s, URDS_SOL_RDS, table, once ? room : NULL, &len));
	if (once) {
		put(c, ", len %d", (int)len);
		return;
	}
	put(c, ", len becomes %d; len 65536: returns ", (int)len);
	len = 65536;
	put_result(c, urds_getsockopt(c->s, URDS_SOL_RDS, table, room, &len));
	put(c, ", len %d", (int)len);
}

/* A call that only a descriptor of the family could take. */
static void op_nocall(struct call *c)
{
	put(c, "(no such call)");
}

static const struct op ops[] = {
	{"bind", 3, op_bind},
	{"connect", 3, op_connect},
	{"name", 2, op_name},
	{"peer", 2, op_name},
	{"name-any", 2, op_name_any},
	{"close", 2, op_close},
	{"send", 4, op_send},
	{"cancel", 3, op_cancel},
	{"recv", 3, op_recv},
	{"recv-cmsgs", 3, op_recv_cmsgs},
	{"recv-levels", 3, op_recv_cmsgs},
	{"recv-plain", 3, op_recv_plain},
	{"recvfrom", 3, op_recvfrom},
	{"set", 4, op_set},
	{"get", 3, op_get},
	{"info", 3, op_info},
	{"nocall", 1, op_nocall},
	{NULL, 0, NULL},
};

static const struct op *op_named(const struct op *table, const char *name)
{
	for (; table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

void rows_op(struct world *w, char *text, char *out, size_t out_room)
{
	struct call c = {.w = w, .out = out, .room = out_room};
	const struct op *op;
	char *rest;

	out[0] = 0;
	for (char *t = strtok_r(text, " ", &rest); t && c.n < 16; t = strtok_r(NULL, " ", &rest))
		c.word[c.n++] = t;
	op = c.n > 0 ? op_named(ops, c.word[0]) : NULL;
	if (!op && c.n > 0)
		op = op_named(rows_waiting_ops, c.word[0]);
	if (!op || c.n < op->words) {
		put(&c, ROWS_BAD ": %s", c.n > 0 ? c.word[0] : "nothing");
		return;
	}
	if (op->words > 1) {
		c.s = sock_named(w, c.word[1]);
		if (!c.s) {
			put(&c, ROWS_BAD ": no socket %s", c.word[1]);
			return;
		}
	}
	op->fn(&c);
}
