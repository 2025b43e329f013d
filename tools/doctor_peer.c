/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One verdict on a peer. A ping makes the library connect as it would for any message - from the smaller address to the
 * larger one - and what comes of that is read in its table of peers. TCP alone is tried where that says too little.
 */
#include "doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ping.h"
#include "urds/peer.h"

#define LOOK_EVERY_NS 20000000u
/* A ping that has no answer is sent again: with another one the owner tries anew. */
#define PING_EVERY_NS 500000000u
/* A peer that is connected and known, and has not answered a ping for so long, answers none. */
#define PONG_PATIENCE_NS 1000000000u

static const char remedy_filtered[] =
	"look for a firewall on the way, on either host: TCP port 16385 has to be open in both directions";
static const char remedy_refused[] =
	"start it there: 'urds listen' with its address, a server that uses urds, or the kernel's rds_tcp; and is the address right?";
static const char remedy_not_rds[] =
	"find out what listens on TCP port 16385 there: 'urds doctor' on that host tells";

struct run {
	struct doctor_peer *p;
	struct pinger from;
	struct urds_info_peer before, now; /* of the table; zeros: not in it */
	uint64_t start_date;
	uint64_t known_ns; /* since when it is connected, and what it is is known; 0: not yet */
};

static void verdict(struct doctor_peer *p, enum doctor_verdict v, const char *remedy,
		    const char *fmt, ...) __attribute__((format(TOOL_PRINTF, 4, 5)));

static void verdict(struct doctor_peer *p, enum doctor_verdict v, const char *remedy,
		    const char *fmt, ...)
{
	va_list ap;

	p->verdict = v;
	p->remedy = remedy;
	va_start(ap, fmt);
	vsnprintf(p->text, sizeof(p->text), fmt, ap);
	va_end(ap);
}

/* As RDS orders them. */
static void ip_of(uint8_t out[16], const struct tool_addr *a)
{
	uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	memcpy(mapped + 12, &((const struct sockaddr_in *)&a->sa)->sin_addr, 4);
	memcpy(out,
	       a->sa.ss_family == AF_INET6
		       ? (const void *)&((const struct sockaddr_in6 *)&a->sa)->sin6_addr
		       : mapped,
	       16);
}

static bool is_addr(const uint8_t *ip, const struct tool_addr *a)
{
	uint8_t its[16];

	ip_of(its, a);
	return memcmp(ip, its, 16) == 0;
}

/* The whole table, in memory to be freed. Return: size of an element, or -1. */
static int table(struct run *r, void **buf, size_t *bytes)
{
	struct pinger *f = &r->from;
	socklen_t len;
	int n, tries;

	if (f->owner)
		return urds_owner_info(tool_sa(&f->src), f->src.len, URDS_INFO_PEERS, buf, bytes);
	*buf = NULL;
	for (len = 4096, tries = 0; tries < 8; tries++) {
		*bytes = len;
		free(*buf);
		*buf = malloc(*bytes);
		if (!*buf)
			return -1;
		n = urds_getsockopt(f->socks[0], URDS_SOL_RDS, URDS_INFO_PEERS, *buf, &len);
		if (n > 0)
			*bytes = len;
		if (n > 0 || errno != ENOSPC)
			return n;
	}
	return -1;
}

/* The peer's entry into *out, zeros if it has none. */
static int look(struct run *r, struct urds_info_peer *out)
{
	size_t bytes = 0, at;
	void *buf = NULL;
	int size = table(r, &buf, &bytes);

	memset(out, 0, sizeof(*out));
	if (size <= 0) {
		tool_error("cannot look at the connections of %s: %s", r->p->src.text,
			   urds_reason());
		free(buf);
		return -1;
	}
	for (at = 0; at + (size_t)size <= bytes; at += (size_t)size) {
		struct urds_info_peer e = {0};

		memcpy(&e, (uint8_t *)buf + at,
		       (size_t)size < sizeof(e) ? (size_t)size : sizeof(e));
		if (is_addr(e.local, &r->p->src) && is_addr(e.remote, &r->p->dest))
			*out = e;
	}
	free(buf);
	return 0;
}

/* Is our address the larger one, so that it is the peer who connects? */
static bool is_called(const struct run *r)
{
	uint8_t ours[16], theirs[16];

	ip_of(ours, &r->p->src);
	ip_of(theirs, &r->p->dest);
	return memcmp(ours, theirs, 16) > 0;
}

/* Has something gone wrong since we began? */
static bool has_new_fault(const struct run *r)
{
	const struct urds_info_peer *a = &r->before, *b = &r->now;

	return b->fault != URDS_FAULT_NONE &&
	       (b->fault != a->fault || b->fault_count != a->fault_count ||
		b->fault_errno != a->fault_errno || b->fault_last > r->start_date);
}

/* Return: true if an attempt failed in a way that says enough. */
static bool judge_dial(struct run *r)
{
	struct doctor_peer *p = r->p;
	int err = (int)r->now.fault_errno;

	switch (err) {
	case ECONNREFUSED:
		verdict(p, DOCTOR_REFUSED, remedy_refused,
			"its host answers, and nothing listens on TCP port %u of that address",
			DOCTOR_PORT);
		return true;
	case EHOSTUNREACH:
	case ENETUNREACH:
		verdict(p, DOCTOR_NO_ROUTE,
			"is its host up, and are routes and masks right on the way to it?",
			"connecting from %s fails: %s", p->src.text, tool_strerror(err));
		return true;
	case EACCES:
	case EPERM:
		verdict(p, DOCTOR_FILTERED, "look at this host's own firewall and security modules",
			"this host does not let connections to it out: %s", tool_strerror(err));
		return true;
	case ETIMEDOUT:
		verdict(p, DOCTOR_FILTERED, remedy_filtered, "connection attempts have no answer");
		return true;
	default: /* of this host: no verdict on the peer */
		tool_error(
			"cannot connect to %s from %s: %s; 'urds doctor' says what is wrong with this host",
			p->dest.text, p->src.text, tool_strerror(err));
		return true;
	}
}

/* Return: true if there is nothing to wait for any more. */
static bool judge_fault(struct run *r)
{
	if (!has_new_fault(r) || r->now.fault_is_over)
		return false;
	switch ((enum urds_fault)r->now.fault) {
	case URDS_FAULT_DIAL:
		return judge_dial(r);
	case URDS_FAULT_NO_ANSWER:
	case URDS_FAULT_DEAD:
		verdict(r->p, DOCTOR_FILTERED, remedy_filtered, "no answer from it for %.1f s",
			r->now.fault_ms / 1000.0);
		return true;
	case URDS_FAULT_NOT_RDS:
		verdict(r->p, DOCTOR_NOT_RDS, remedy_not_rds,
			"what listens on TCP port %u there answers something else", DOCTOR_PORT);
		return true;
	case URDS_FAULT_LOST:
	case URDS_FAULT_LOST_EARLY:
	case URDS_FAULT_CLOSED:
	case URDS_FAULT_CLOSED_EARLY:
	case URDS_FAULT_MUTE:
	case URDS_FAULT_MISPLACED:
	case URDS_FAULT_RESET:
	case URDS_FAULT_NONE:
		break; /* it is tried again */
	}
	return false;
}

/* Return: true if it is known to work, and as what. @is_last: nothing is waited for any more. */
static bool judge_connection(struct run *r, bool is_last)
{
	struct doctor_peer *p = r->p;
	bool is_self = tool_addr_same(&p->src, &p->dest), is_fresh;
	struct urds_owner who;
	char ping[64] = "it does not answer pings";

	is_fresh = r->now.up_since && r->now.up_since >= r->start_date;
	if (is_self ? !p->rtt_ns : r->now.state != URDS_PEER_UP || r->now.end == URDS_PEER_UNKNOWN)
		return false;
	if (!r->known_ns)
		r->known_ns = tool_now_ns();
	/* What was connected before we came may be dead without anybody's knowing. */
	if (!p->rtt_ns &&
	    (!is_fresh || (!is_last && tool_now_ns() < r->known_ns + PONG_PATIENCE_NS)))
		return false;
	if (p->rtt_ns)
		snprintf(ping, sizeof(ping), "a ping took %.3f ms", (double)p->rtt_ns / 1e6);
	if (!is_self && r->now.end == URDS_PEER_KERNEL) {
		verdict(p, DOCTOR_KERNEL, NULL, "connected from %s; %s", p->src.text, ping);
		return true;
	}
	p->version = r->now.version;
	if (urds_owner_ident(tool_sa(&p->dest), p->dest.len, &who) == 0 && who.answered)
		snprintf(p->release, sizeof(p->release), "%.31s", who.version);
	verdict(p, DOCTOR_URDS, NULL, "connected from %s; %s%s%s", p->src.text, ping,
		p->release[0] ? "; on this host, of release " : "", p->release);
	return true;
}

/* TCP gets through as far as @try says, and nothing of RDS came that way. */
static void judge_try(struct doctor_peer *p, enum doctor_try try, bool is_called)
{
	switch (try) {
	case DOCTOR_TRY_ERROR:
		tool_error("cannot connect to %s from %s: %s", p->dest.text, p->src.text,
			   tool_strerror(errno));
		break;
	case DOCTOR_TRY_NO_ROUTE:
		verdict(p, DOCTOR_NO_ROUTE,
			"is its host up, and are routes and masks right on the way to it?",
			"connecting from %s fails: no route to it", p->src.text);
		break;
	case DOCTOR_TRY_NO_ANSWER:
		verdict(p, DOCTOR_FILTERED, remedy_filtered,
			"a connection attempt has no answer within %.1f s",
			(double)p->limit_ns / 1e9);
		break;
	case DOCTOR_TRY_REFUSED:
		verdict(p, DOCTOR_REFUSED, remedy_refused,
			"its host answers, and nothing listens on TCP port %u of that address",
			DOCTOR_PORT);
		break;
	case DOCTOR_TRY_CLOSED:
		if (is_called)
			verdict(p, DOCTOR_CLOSED,
				"see whether TCP port 16385 of this address can be reached from there: a firewall on the way back? "
				"Or does what is there refuse us (URDS_PEERS)?",
				"it closes what we connect, which is right, for its address is the smaller one and it has to connect "
				"to %s itself; but it does not within %.1f s",
				p->src.text, (double)p->limit_ns / 1e9);
		else
			verdict(p, DOCTOR_CLOSED,
				"does what is there refuse us (URDS_PEERS), or have an older connection of this address, which it "
				"drops in about half a minute?",
				"it closes each connection from %s before it says anything",
				p->src.text);
		break;
	case DOCTOR_TRY_TALKS:
		verdict(p, DOCTOR_NOT_RDS, remedy_not_rds,
			"what listens on TCP port %u there says something else", DOCTOR_PORT);
		break;
	case DOCTOR_TRY_MUTE:
		verdict(p, DOCTOR_NOT_RDS, remedy_not_rds,
			"it accepts connections and says nothing within %.1f s",
			(double)p->limit_ns / 1e9);
		break;
	}
}

/* The time is over. */
static void judge_rest(struct run *r)
{
	struct doctor_peer *p = r->p;
	bool is_new = has_new_fault(r) && !r->now.fault_is_over;

	if (judge_connection(r, true))
		return;
	if (r->now.state == URDS_PEER_UP && r->now.up_since >= r->start_date)
		tool_error(
			"%s speaks RDS, and has not shown what it is within %.1f s: wait longer (-w)",
			p->dest.text, (double)p->limit_ns / 1e9);
	else if (r->now.state == URDS_PEER_UP)
		verdict(p, DOCTOR_FILTERED, remedy_filtered,
			"there is an older connection to it, and no ping is answered within %.1f s",
			(double)p->limit_ns / 1e9);
	else if (is_new &&
		 (r->now.fault == URDS_FAULT_CLOSED_EARLY || r->now.fault == URDS_FAULT_LOST_EARLY))
		judge_try(p, DOCTOR_TRY_CLOSED, is_called(r));
	else if (r->now.state == URDS_PEER_SILENT)
		judge_try(p, DOCTOR_TRY_MUTE, is_called(r));
	else if (r->now.state == URDS_PEER_CONNECTING)
		judge_try(p, DOCTOR_TRY_NO_ANSWER, is_called(r));
	else
		judge_try(p, doctor_try(&p->src, &p->dest, p->limit_ns), is_called(r));
}

/* Return: -1. */
static int cannot_send(const struct run *r, int err)
{
	if (err == EACCES)
		tool_error(
			"may not send to %s: it is in none of the networks of URDS_PEERS%s; unset that, or add its network",
			r->p->dest.text,
			r->from.ctx ? "" : ", which the owner of the source was started with");
	else
		tool_error("cannot send to %s: %s", r->p->dest.text, tool_strerror(err));
	return -1;
}

/* Return: 0, or -1 (said). */
static int ping(struct run *r)
{
	int err = ping_send(&r->from, 0, false, &r->p->dest);

	if (err > 0 && err != EAGAIN)
		return cannot_send(r, err);
	return err < 0 ? -1 : 0;
}

static int try_rds(struct run *r)
{
	uint64_t end = tool_now_ns() + r->p->limit_ns, next_ping = 0, now;
	struct ping_reply got;
	int n;

	while ((now = tool_now_ns()) < end) {
		if (!r->p->rtt_ns && now >= next_ping) {
			if (ping(r) < 0)
				return -1;
			next_ping = now + PING_EVERY_NS;
		}
		n = ping_wait(&r->from, now + LOOK_EVERY_NS, &got);
		if (n < 0)
			return -1;
		if (n > 0 && got.err)
			return cannot_send(r, got.err);
		if (n > 0)
			r->p->rtt_ns = got.rtt_ns ? got.rtt_ns : 1;
		if (look(r, &r->now) < 0)
			return -1;
		if (judge_connection(r, false) || judge_fault(r))
			return 0;
	}
	judge_rest(r);
	return 0;
}

void doctor_peer(struct doctor_peer *p)
{
	struct run r = {.p = p};
	struct urds_owner who;
	enum doctor_try try;

	if (tool_addr_same(&p->src, &p->dest) &&
	    urds_owner_ident(tool_sa(&p->src), p->src.len, &who) < 0) {
		/* Were it ours for a moment, it would only answer itself. */
		judge_try(p, doctor_try(&p->src, &p->dest, p->limit_ns), false);
		return;
	}
	tool_unset_env(
		"URDS_EXT"); /* without the extension of urds every peer looks like a kernel */
	if (ping_open(&r.from, &p->src, &p->dest) < 0) {
		try = doctor_try(&p->src, &p->dest, p->limit_ns);
		if (try == DOCTOR_TRY_NO_ROUTE || try == DOCTOR_TRY_NO_ANSWER ||
		    try == DOCTOR_TRY_REFUSED)
			judge_try(p, try, false);
		else if (try != DOCTOR_TRY_ERROR)
			tool_error(
				"TCP gets through to %s; what is there can only be told from an address that this user can "
				"own: 'urds doctor -I %s' says what is in the way",
				p->dest.text, p->src.text);
		return;
	}
	r.start_date = tool_date_ns();
	if (look(&r, &r.before) == 0)
		try_rds(&r);
	ping_close(&r.from);
}
