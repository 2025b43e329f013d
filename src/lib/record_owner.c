/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds/owner.h: what owners of addresses answer to their own user, for tools and operators.
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

#define ASK_LIMIT_NS URDS_SEC(1)
#define INFO_LIMIT_NS URDS_SEC(5)
#define INFO_MAX (64u << 20)

static int bad_addr(const char *what)
{
	return urds_fail(URDS_EINVAL, "%s: not a complete IPv4 or IPv6 address", what);
}

/* A connection to an owner that serves us, or NULL with the reason noted. */
static struct urds_rec_link *dial(const struct urds_addr *a, urds_ns end)
{
	char text[URDS_ADDR_STRLEN];
	struct urds_rec_link *l;
	struct urds_owner who;
	int rc = urds_rec_dial(a, end, &who, &l);

	urds_addr_format(text, sizeof(text), a);
	if (rc == -URDS_ENOTCONN)
		urds_fail(URDS_ENOTCONN, "no urds process owns %s: start one", text);
	else if (rc == -URDS_ETIMEDOUT)
		urds_fail(URDS_ETIMEDOUT, "the owner of %s is overrun or stopped: try later", text);
	else if (rc < 0)
		urds_fail(-rc, "cannot ask the owner of %s: %s", text,
			  strerror(urds_err_to_errno(rc)));
	if (rc < 0)
		return NULL;
	if (who.is_ours)
		return l;
	urds_rec_hang_up(l);
	urds_fail(URDS_EACCES,
		  "%s is owned by pid %d (%s) of user %s, which serves only that user "
		  "and root: run this as %s",
		  text, who.pid, who.program, who.user, who.user);
	return NULL;
}

static int lost(const struct urds_addr *a, int err)
{
	char text[URDS_ADDR_STRLEN];

	urds_addr_format(text, sizeof(text), a);
	if (err == -URDS_ENOTCONN)
		return urds_fail(URDS_ENOTCONN,
				 "the owner of %s closed the connection: it ended, or is overrun",
				 text);
	if (err == -URDS_ETIMEDOUT)
		return urds_fail(URDS_ETIMEDOUT, "the owner of %s does not answer: is it stopped?",
				 text);
	if (err == -URDS_EPROTO || err == -URDS_ESHORT)
		return urds_fail(
			URDS_EPROTO,
			"the owner of %s speaks another version: use the tools of its release",
			text);
	return urds_fail(-err, "asking the owner of %s: %s", text,
			 strerror(urds_err_to_errno(err)));
}

/* The next reply of @type. Return: its bytes, or -1 with the reason noted. */
static int reply(struct urds_rec_link *l, const struct urds_addr *a, uint8_t type, uint8_t *msg,
		 size_t cap, urds_ns end, struct urds_rec_hdr *h)
{
	char owner[URDS_ADDR_STRLEN], text[URDS_REC_TEXT_MAX + 1];
	int n = urds_rec_recv(l, msg, cap, end);

	if (n < 0)
		return lost(a, n);
	if (urds_rec_hdr_get(h, msg, (size_t)n) < 0 || h->type != (type | URDS_REC_REPLY))
		return lost(a, -URDS_EPROTO);
	if (h->status == 0)
		return n;
	urds_rec_error_get(text, sizeof(text), msg, (size_t)n);
	return urds_fail(-h->status, "the owner of %s says: %s",
			 urds_addr_format(owner, sizeof(owner), a), text);
}

/* All chunks, in order. Return: size of an element, or -1. */
static int collect(struct urds_rec_link *l, const struct urds_addr *a, uint8_t *msg, urds_ns end,
		   uint8_t **buf, size_t *size)
{
	struct urds_rec_chunk c = {0};
	struct urds_rec_hdr h;
	uint32_t total = 0, got = 0;
	uint8_t *all = NULL;
	int n;

	do {
		n = reply(l, a, URDS_REC_INFO, msg, URDS_REC_MSG_MAX, end, &h);
		if (n < 0)
			goto failed;
		n = urds_rec_chunk_get(&c, msg, (size_t)n);
		if (n == 0 && got == 0 && !all) {
			total = c.total;
			if (total > INFO_MAX)
				n = -URDS_EPROTO;
			else if (total && !(all = malloc(total)))
				n = -URDS_ENOMEM;
		}
		if (n == 0 && (c.total != total || c.offset != got || (c.len == 0 && total)))
			n = -URDS_EPROTO;
		if (n < 0) {
			lost(a, n);
			goto failed;
		}
		if (c.len)
			memcpy(all + got, c.bytes, c.len);
		got += c.len;
	} while (got < total);
	*buf = all;
	*size = total;
	return (int)c.element;

failed:
	free(all);
	return -1;
}

int urds_owner_info(const struct sockaddr *addr, socklen_t len, int id, void **buf, size_t *size)
{
	urds_ns end = urds_clock_ns() + INFO_LIMIT_NS;
	struct urds_addr a;
	uint8_t *msg, *all;
	struct urds_rec_link *l;
	int n;

	if (urds_addr_from_sockaddr(&a, NULL, addr, urds_len(len)) < 0)
		return bad_addr("information of an owner");
	l = dial(&a, end);
	if (!l)
		return -1;
	msg = malloc(URDS_REC_MSG_MAX);
	if (!msg) {
		n = urds_fail(URDS_ENOMEM, "no memory to ask an owner");
		goto done;
	}
	n = urds_rec_info_put(msg, URDS_REC_MSG_MAX, 0, (uint32_t)id);
	n = urds_rec_send(l, msg, (size_t)n, end);
	if (n < 0) {
		n = lost(&a, n);
		goto done;
	}
	n = collect(l, &a, msg, end, &all, size);
	if (n > 0)
		*buf = all;
done:
	free(msg);
	urds_rec_hang_up(l);
	return n;
}

int urds_owner_reset(const struct sockaddr *local, socklen_t len, const struct sockaddr *peer,
		     socklen_t peer_len)
{
	urds_ns end = urds_clock_ns() + ASK_LIMIT_NS;
	uint8_t msg[URDS_REC_HDR_LEN + 512];
	struct urds_addr a, b;
	struct urds_rec_hdr h;
	uint32_t count = 0;
	struct urds_rec_link *l;
	int n;

	if (urds_addr_from_sockaddr(&a, NULL, local, urds_len(len)) < 0 ||
	    urds_addr_from_sockaddr(&b, NULL, peer, urds_len(peer_len)) < 0)
		return bad_addr("reset of a connection");
	l = dial(&a, end);
	if (!l)
		return -1;
	n = urds_rec_reset_put(msg, sizeof(msg), 0, &b);
	n = urds_rec_send(l, msg, (size_t)n, end);
	if (n < 0) {
		n = lost(&a, n);
		goto done;
	}
	n = reply(l, &a, URDS_REC_RESET, msg, sizeof(msg), end, &h);
	if (n > 0 && urds_rec_count_get(&count, msg, (size_t)n) < 0)
		n = lost(&a, -URDS_EPROTO);
done:
	urds_rec_hang_up(l);
	return n < 0 ? -1 : (int)count;
}

struct urds_owner_ping {
	struct urds_rec_link *link;
	struct urds_addr addr;
};

int urds_owner_ping_open(const struct sockaddr *addr, socklen_t len, struct urds_owner_ping **out)
{
	struct urds_owner_ping *p = calloc(1, sizeof(*p));
	struct urds_owner who;
	urds_ns end = urds_clock_ns() + ASK_LIMIT_NS;
	int rc;

	if (!p)
		return urds_fail(URDS_ENOMEM, "no memory to ping with");
	if (urds_addr_from_sockaddr(&p->addr, NULL, addr, urds_len(len)) < 0) {
		bad_addr("ping from an address");
		goto undo;
	}
	p->link = dial(&p->addr, end);
	if (!p->link)
		goto undo;
	rc = urds_rec_ident(p->link, end, &who); /* that it answers at all */
	if (rc < 0) {
		lost(&p->addr, rc);
		urds_rec_hang_up(p->link);
		goto undo;
	}
	*out = p;
	return 0;

undo:
	free(p);
	return -1;
}

int urds_owner_ping_send(struct urds_owner_ping *p, unsigned slot, const struct sockaddr *dest,
			 socklen_t len)
{
	uint8_t msg[URDS_REC_HDR_LEN + 64];
	struct urds_addr to;
	int n;

	if (slot >= URDS_OWNER_PING_SLOTS ||
	    urds_addr_from_sockaddr(&to, NULL, dest, urds_len(len)) < 0)
		return bad_addr("destination of a ping");
	n = urds_rec_ping_put(msg, sizeof(msg), (uint16_t)slot, (uint8_t)slot, &to);
	n = urds_rec_send(p->link, msg, (size_t)n, urds_clock_ns() + ASK_LIMIT_NS);
	return n < 0 ? lost(&p->addr, n) : 0;
}

int urds_owner_ping_recv(struct urds_owner_ping *p, struct urds_owner_pong *out, int timeout_ms)
{
	uint8_t msg[URDS_REC_HDR_LEN + 512];
	struct urds_rec_pong pong;
	struct urds_rec_hdr h;
	int n = urds_rec_wait(p->link, timeout_ms);

	if (n == 0)
		return 0;
	if (n < 0)
		return urds_fail(-n, "waiting for a pong: %s", strerror(urds_err_to_errno(n)));
	memset(out, 0, sizeof(*out));
	n = urds_rec_recv(p->link, msg, sizeof(msg), 0);
	if (n < 0)
		return lost(&p->addr, n);
	if (urds_rec_hdr_get(&h, msg, (size_t)n) < 0 ||
	    h.type != (URDS_REC_PING | URDS_REC_REPLY) || h.tag >= URDS_OWNER_PING_SLOTS)
		return lost(&p->addr, -URDS_EPROTO);
	if (h.status) {
		out->slot = h.tag;
		out->err = urds_err_to_errno(h.status);
		return 1;
	}
	if (urds_rec_pong_get(&pong, msg, (size_t)n) < 0)
		return lost(&p->addr, -URDS_EPROTO);
	out->slot = pong.slot;
	out->rtt_ns = pong.rtt_ns;
	urds_addr_to_sockaddr(&pong.from, 0, &out->from);
	return 1;
}

void urds_owner_ping_close(struct urds_owner_ping *p)
{
	if (!p)
		return;
	urds_rec_hang_up(p->link);
	free(p);
}
