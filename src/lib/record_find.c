/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds/owner.h: who owns which address.
 */
#include "urds/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api.h"
#include "lib/record_codec.h"
#include "lib/record_link.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/futex.h"

#define ASK_LIMIT_NS URDS_SEC(1)

static int by_addr(const void *a, const void *b)
{
	return urds_addr_cmp(a, b);
}

int urds_rec_found(struct urds_addr **v, size_t *n, const char *text)
{
	struct urds_addr a, *grown;

	if (urds_addr_parse(&a, text) < 0)
		return 0;
	if ((*n & (*n - 1)) == 0) { /* full, at 0 and every power of two */
		grown = realloc(*v, (*n ? *n * 2 : 1) * sizeof(a));
		if (!grown)
			return -URDS_ENOMEM;
		*v = grown;
	}
	(*v)[(*n)++] = a;
	return 0;
}

int urds_owner_list(struct sockaddr_storage *v, size_t cap)
{
	struct urds_addr *found;
	size_t n, i, kept = 0;
	int rc = urds_rec_find(&found, &n);

	if (rc < 0) {
		free(found);
		return urds_fail(-rc, "cannot list the owners, which are found in %s (%s)",
				 urds_rec_listed_in, strerror(urds_err_to_errno(rc)));
	}
	if (n)
		qsort(found, n, sizeof(*found), by_addr);
	for (i = 0; i < n; i++) {
		if (i && urds_addr_eq(&found[i], &found[i - 1]))
			continue;
		if (kept < cap)
			urds_addr_to_sockaddr(&found[i], 0, &v[kept]);
		kept++;
	}
	free(found);
	return (int)kept;
}

int urds_rec_ident(struct urds_rec_link *l, urds_ns end, struct urds_owner *out)
{
	uint8_t msg[URDS_REC_HDR_LEN + 512];
	struct urds_rec_ident id;
	struct urds_rec_hdr h;
	int n = urds_rec_empty_put(msg, sizeof(msg), URDS_REC_IDENT, 0);

	n = urds_rec_send(l, msg, (size_t)n, end);
	if (n == 0)
		n = urds_rec_recv(l, msg, sizeof(msg), end);
	if (n < 0)
		return n;
	if (urds_rec_hdr_get(&h, msg, (size_t)n) < 0 || h.status ||
	    h.type != (URDS_REC_IDENT | URDS_REC_REPLY) ||
	    urds_rec_ident_get(&id, msg, (size_t)n) < 0)
		return -URDS_EPROTO;
	out->instance = id.instance;
	out->answered = 1;
	snprintf(out->mode, sizeof(out->mode), "%s", id.mode);
	snprintf(out->version, sizeof(out->version), "%s", id.version);
	snprintf(out->program, sizeof(out->program), "%s", id.program);
	return 0;
}

int urds_rec_ask(const struct urds_addr *a, urds_ns end, struct urds_owner *out)
{
	struct urds_rec_link *l;
	int rc = urds_rec_dial(a, end, out, &l);

	if (rc == -URDS_ETIMEDOUT) {
		/* Too many wait for it already: it exists, and the system cannot tell more. */
		out->uid = (unsigned)-1;
		snprintf(out->user, sizeof(out->user), "?");
		snprintf(out->program, sizeof(out->program), "?");
		return 0;
	}
	if (rc < 0)
		return rc;
	rc = urds_rec_ident(l, end, out);
	urds_rec_hang_up(l);
	return rc == -URDS_ENOTCONN ? rc : 0; /* it went, or sent us away because too many ask */
}

int urds_owner_ident(const struct sockaddr *addr, socklen_t len, struct urds_owner *out)
{
	urds_ns end = urds_clock_ns() + ASK_LIMIT_NS;
	char text[URDS_ADDR_STRLEN];
	struct urds_addr a;
	int rc;

	if (urds_addr_from_sockaddr(&a, NULL, addr, urds_len(len)) < 0)
		return urds_fail(URDS_EINVAL,
				 "owner of an address: not a complete IPv4 or IPv6 address");
	while ((rc = urds_rec_ask(&a, end, out)) == -URDS_ENOTCONN && out->pid &&
	       urds_clock_ns() < end)
		urds_sleep_until(urds_clock_ns() + URDS_MS(20));
	if (rc == 0)
		return 0;
	urds_addr_format(text, sizeof(text), &a);
	if (rc == -URDS_ENOTCONN)
		return urds_fail(URDS_ENOTCONN, "no urds process owns %s", text);
	return urds_fail(-rc, "cannot ask who owns %s: %s", text, strerror(urds_err_to_errno(rc)));
}
