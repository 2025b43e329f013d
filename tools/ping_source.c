/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where pings leave from.
 */
#include "ping.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int sock_open(struct pinger *p, unsigned slot)
{
	struct urds_sock *s = urds_socket(p->ctx);

	if (!s)
		return -1;
	if (urds_bind(s, tool_sa(&p->src), p->src.len) < 0 || (p->fds[slot] = urds_fd(s)) < 0) {
		urds_close(s);
		return -1;
	}
	p->socks[slot] = s;
	return 0;
}

static void sock_close(struct pinger *p, unsigned slot)
{
	if (p->socks[slot])
		urds_close(p->socks[slot]);
	p->socks[slot] = NULL;
	p->fds[slot] = -1;
}

static int open_own(struct pinger *p)
{
	unsigned i;

	if (urds_open(NULL, &p->ctx) < 0) {
		tool_error("cannot start: %s", urds_reason());
		return -1;
	}
	for (i = 0; i < PING_SLOTS; i++)
		p->fds[i] = -1;
	for (i = 0; i < PING_SLOTS; i++) {
		if (sock_open(p, i) < 0) {
			tool_error("cannot ping from %s: %s", p->src.text, urds_reason());
			ping_close(p);
			return -1;
		}
	}
	return 0;
}

int ping_open(struct pinger *p, const struct tool_addr *src, const struct tool_addr *dest)
{
	struct urds_owner owner;
	char text[192];

	memset(p, 0, sizeof(*p));
	p->src = *src;
	p->hot = PING_SLOTS;
	tool_port_set(&p->src, 0);
	if (urds_owner_ident(tool_sa(src), src->len, &owner) == 0) {
		tool_owner_text(&owner, text, sizeof(text));
		if (!owner.is_ours) {
			tool_error(
				"cannot ping from %s: it is owned by %s, which pings for user %s "
				"only; run this as %s, or choose another source address with -I",
				src->text, text, owner.user, owner.user);
			return -1;
		}
		if (urds_owner_ping_open(tool_sa(src), src->len, &p->owner) == 0)
			return 0;
		tool_error("cannot ping from %s: it is owned by %s, and %s; or choose another "
			   "source address with -I",
			   src->text, text, urds_reason());
		return -1;
	}
	if (tool_addr_same(src, dest)) {
		tool_error("source and destination are both %s, and no process owns it: this "
			   "command would only answer itself. Start 'urds listen %s' or your "
			   "server, or choose another source address with -I",
			   dest->text, dest->text);
		return -1;
	}
	return open_own(p);
}

void ping_close(struct pinger *p)
{
	unsigned i;

	urds_owner_ping_close(p->owner);
	/* Closing drops what an absent peer never took: shutdown would wait for it. */
	for (i = 0; i < PING_SLOTS; i++)
		sock_close(p, i);
	if (p->ctx)
		urds_shutdown(p->ctx);
	p->ctx = NULL;
	p->owner = NULL;
}

int ping_send(struct pinger *p, unsigned slot, bool fresh, const struct tool_addr *dest)
{
	if (p->owner) {
		if (urds_owner_ping_send(p->owner, slot, tool_sa(dest), dest->len) == 0)
			return 0;
		tool_error("%s", urds_reason());
		return -1;
	}
	if (fresh)
		sock_close(p, slot);
	if (!p->socks[slot] && sock_open(p, slot) < 0)
		return errno;
	p->sent_ns[slot] = tool_now_ns();
	if (urds_sendto(p->socks[slot], NULL, 0, MSG_DONTWAIT, tool_sa(dest), dest->len) < 0)
		return errno;
	p->hot = slot;
	return 0;
}

static int wait_owner(struct pinger *p, int timeout_ms, struct ping_reply *out)
{
	struct urds_owner_pong pong;
	int n = urds_owner_ping_recv(p->owner, &pong, timeout_ms);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0)
		tool_error("%s", urds_reason());
	if (n <= 0)
		return n;
	out->slot = pong.slot;
	out->err = pong.err;
	out->rtt_ns = pong.rtt_ns;
	tool_addr_set(&out->from, (struct sockaddr *)&pong.from, sizeof(pong.from));
	return 1;
}

static int take(struct pinger *p, unsigned slot, struct ping_reply *out)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (!p->socks[slot] || urds_recvfrom(p->socks[slot], NULL, 0, MSG_DONTWAIT,
					     (struct sockaddr *)&from, &len) < 0)
		return 0;
	out->slot = slot;
	out->err = 0;
	out->rtt_ns = tool_now_ns() - p->sent_ns[slot];
	tool_addr_set(&out->from, (struct sockaddr *)&from, len);
	return 1;
}

static int wait_own(struct pinger *p, uint64_t left_ns, struct ping_reply *out)
{
	struct pollfd fds[PING_SLOTS];
	unsigned i, hot = p->hot;

	/* A reply that comes at once is timed by the thread that waits for it, without a hand-over. */
	p->hot = PING_SLOTS;
	if (hot < PING_SLOTS && left_ns >= 1000000 && urds_wait(p->socks[hot], POLLIN, 1) > 0 &&
	    take(p, hot, out))
		return 1;
	for (i = 0; i < PING_SLOTS; i++)
		if (take(p, i, out))
			return 1;
	if (hot < PING_SLOTS)
		return 0; /* the time left is another now */
	for (i = 0; i < PING_SLOTS; i++)
		fds[i] = (struct pollfd){.fd = (tool_sock)p->fds[i], .events = POLLIN};
	if (tool_poll(fds, PING_SLOTS, left_ns) < 0) {
		tool_error("waiting for replies: %s", tool_strerror(errno));
		return -1;
	}
	return 0;
}

int ping_wait(struct pinger *p, uint64_t until_ns, struct ping_reply *out)
{
	uint64_t now = tool_now_ns(), left = until_ns > now ? until_ns - now : 0;

	if (p->owner)
		return wait_owner(p, (int)(left / 1000000u > 60000 ? 60000 : left / 1000000u), out);
	return wait_own(p, left, out);
}
