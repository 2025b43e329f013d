/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What an owner answers. Nothing here waits, but for a ping's first millisecond.
 */
#include "lib/record_request.h"

#include <stdlib.h>
#include <string.h>

#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/net.h"
#include "urds/urds.h"

#define URDS_REC_DRAIN_NS URDS_SEC(5) /* for an answer to be read */
#define URDS_REC_INFO_MAX (64u << 20) /* bytes of one answer */
#define URDS_REC_SPIN_MS \
	1 /* a ping's answer that soon is timed without the way through the system's wait */

static void slot_close(struct urds_rec_asker *c, unsigned i)
{
	struct urds_rec_slot *slot = &c->slots[i];

	if (!slot->sock)
		return;
	if (slot->watch >= 0)
		urds_rec_slot_unwatch(c, i);
	urds_close(slot->sock);
	*slot = (struct urds_rec_slot){.watch = -1};
}

void urds_rec_asker_begin(struct urds_rec_asker *c, struct urds_record_server *s,
			  const struct urds_addr *a, bool is_ours)
{
	c->server = s;
	c->addr = *a;
	c->is_ours = is_ours;
	c->has_asked = false;
	c->is_dead = false;
	c->heard = urds_clock_ns();
	c->out = NULL;
	for (unsigned i = 0; i < URDS_REC_SLOTS; i++)
		c->slots[i] = (struct urds_rec_slot){.watch = -1};
}

void urds_rec_asker_end(struct urds_rec_asker *c)
{
	for (unsigned i = 0; i < URDS_REC_SLOTS; i++)
		slot_close(c, i);
	free(c->out);
	c->out = NULL;
}

/* A client that does not read what it asked for is closed: answers other than INFO are small. */
static void answer(struct urds_rec_asker *c, int len)
{
	if (len < 0 || urds_rec_put(c, c->server->msg, (size_t)len) < 0)
		c->is_dead = true;
}

static void refuse(struct urds_rec_asker *c, uint8_t type, uint16_t tag, int status,
		   const char *text)
{
	answer(c, urds_rec_error_put(c->server->msg, URDS_REC_MSG_MAX, type, tag, status, text));
}

/* Sends what the client's buffer takes; no request is read in the meantime. */
void urds_rec_stream(struct urds_rec_asker *c)
{
	struct urds_rec_chunk chunk = {.element = c->out_element, .total = (uint32_t)c->out_len};
	int n;

	do {
		chunk.offset = (uint32_t)c->out_off;
		chunk.bytes = c->out + c->out_off;
		chunk.len = (uint32_t)(c->out_len - c->out_off);
		if (chunk.len > URDS_REC_CHUNK_MAX)
			chunk.len = URDS_REC_CHUNK_MAX;
		n = urds_rec_chunk_put(c->server->msg, URDS_REC_MSG_MAX, c->out_tag, &chunk);
		n = urds_rec_put(c, c->server->msg, (size_t)n);
		if (n < 0) {
			if (n != -URDS_EAGAIN)
				c->is_dead = true;
			return;
		}
		c->out_off += chunk.len;
		c->heard = urds_clock_ns();
	} while (c->out_off < c->out_len);
	free(c->out);
	c->out = NULL;
	urds_rec_streamed(c);
}

static void on_info(struct urds_rec_asker *c, uint16_t tag, uint32_t source)
{
	size_t cap = 4096, need = 0;
	uint8_t *buf = NULL, *grown;
	int element;

	for (;;) {
		grown = realloc(buf, cap);
		if (!grown) {
			free(buf);
			refuse(c, URDS_REC_INFO, tag, -URDS_ENOMEM, "no memory for the answer");
			return;
		}
		buf = grown;
		element = c->server->info(c->server->ctx, (int)source, buf, cap, &need);
		if (element > 0 ? need <= cap : element != -URDS_ENOSPC)
			break;
		if (need > URDS_REC_INFO_MAX) {
			element = -URDS_ENOSPC;
			break;
		}
		cap = (need > cap ? need : cap) + need / 4; /* it may grow between the calls */
	}
	if (element <= 0) {
		free(buf);
		refuse(c, URDS_REC_INFO, tag, element < 0 ? element : -URDS_EIO,
		       "the owner has no such information");
		return;
	}
	c->out = buf;
	c->out_len = need;
	c->out_off = 0;
	c->out_element = (uint32_t)element;
	c->out_tag = tag;
	urds_rec_stream(c);
}

static void pong(struct urds_rec_asker *c, unsigned i, const struct sockaddr_storage *from,
		 socklen_t len)
{
	struct urds_rec_slot *slot = &c->slots[i];
	struct urds_rec_pong p = {.slot = (uint8_t)i, .rtt_ns = urds_clock_ns() - slot->sent};

	if (urds_addr_from_sockaddr(&p.from, NULL, (const struct sockaddr *)from, len) < 0)
		memset(&p.from, 0, sizeof(p.from));
	slot->is_pending = false;
	answer(c, urds_rec_pong_put(c->server->msg, URDS_REC_MSG_MAX, slot->tag, &p));
}

/* Bounded: a peer that answers without end gets its turn again at the next event. */
void urds_rec_on_slot(struct urds_rec_asker *c, unsigned i)
{
	struct sockaddr_storage from;
	socklen_t len;
	unsigned turn;

	for (turn = 0; turn < 16 && c->slots[i].sock && !c->is_dead; turn++) {
		len = sizeof(from);
		if (urds_recvfrom(c->slots[i].sock, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&from,
				  &len) < 0)
			return;
		pong(c, i, &from, len);
	}
}

static int slot_open(struct urds_rec_asker *c, unsigned i)
{
	struct urds_rec_slot *slot = &c->slots[i];
	struct sockaddr_storage sa;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(&c->addr, 0, &sa);

	slot->sock = urds_socket(c->server->ctx);
	if (!slot->sock)
		return -1;
	if (urds_bind(slot->sock, (struct sockaddr *)&sa, len) < 0)
		return -1;
	return urds_rec_slot_watch(c, i);
}

static void on_ping(struct urds_rec_asker *c, uint16_t tag, unsigned i,
		    const struct urds_addr *dest)
{
	struct urds_rec_slot *slot = &c->slots[i];
	struct sockaddr_storage to;
	socklen_t len = (socklen_t)urds_addr_to_sockaddr(dest, 0, &to);

	if (slot->is_pending)
		slot_close(c, i); /* its answer may still come: not to this ping */
	if (!slot->sock && slot_open(c, i) < 0)
		goto failed;
	slot->tag = tag;
	slot->sent = urds_clock_ns();
	slot->is_pending = true;
	if (urds_sendto(slot->sock, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&to, len) < 0)
		goto failed;
	if (urds_wait(slot->sock, POLLIN, c->server->watch ? 0 : URDS_REC_SPIN_MS) > 0)
		urds_rec_on_slot(c, i);
	return;

failed:
	refuse(c, URDS_REC_PING, tag, -urds_errno(), urds_reason());
	slot_close(c, i);
}

static void on_reset(struct urds_rec_asker *c, uint16_t tag, const struct urds_addr *peer)
{
	struct sockaddr_storage from, to;
	int n;

	urds_addr_to_sockaddr(&c->addr, 0, &from);
	urds_addr_to_sockaddr(peer, 0, &to);
	n = urds_reset(c->server->ctx, (struct sockaddr *)&from, (struct sockaddr *)&to);
	if (n < 0)
		refuse(c, URDS_REC_RESET, tag, -urds_errno(), urds_reason());
	else
		answer(c, urds_rec_count_put(c->server->msg, URDS_REC_MSG_MAX, tag, (uint32_t)n));
}

/* Of a whole message. Return: false if no client of ours writes that. */
static bool request(struct urds_rec_asker *c, size_t len)
{
	struct urds_rec_hdr h;
	struct urds_addr addr;
	uint32_t source;
	uint8_t slot;

	if (urds_rec_hdr_get(&h, c->server->msg, len) < 0)
		return false;
	if (h.type == URDS_REC_IDENT) {
		answer(c, urds_rec_ident_put(c->server->msg, URDS_REC_MSG_MAX, h.tag,
					     &c->server->ident));
		return true;
	}
	if (!c->is_ours) {
		refuse(c, h.type, h.tag, -URDS_EACCES, "only for the owner's user");
		return true;
	}
	switch (h.type) {
	case URDS_REC_INFO:
		if (urds_rec_info_get(&source, c->server->msg, len) < 0)
			return false;
		on_info(c, h.tag, source);
		return true;
	case URDS_REC_PING:
		if (urds_rec_ping_get(&slot, &addr, c->server->msg, len) < 0)
			return false;
		on_ping(c, h.tag, slot, &addr);
		return true;
	case URDS_REC_RESET:
		if (urds_rec_reset_get(&addr, c->server->msg, len) < 0)
			return false;
		on_reset(c, h.tag, &addr);
		return true;
	default:
		return false;
	}
}

void urds_rec_request(struct urds_rec_asker *c, size_t len)
{
	c->heard = urds_clock_ns();
	c->has_asked = true;
	if (!request(c, len))
		c->is_dead = true;
}

urds_ns urds_rec_patience(const struct urds_rec_asker *c)
{
	if (c->out)
		return URDS_REC_DRAIN_NS;
	return c->is_ours && c->has_asked ? URDS_REC_IDLE_NS : URDS_REC_FIRST_NS;
}
