/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The transmit half of a path: what goes out, in which order.
 */
#include "core/path.h"

#include <assert.h>

struct urds_ctl {
	uint32_t len, off;
	uint32_t map_gen;
	uint64_t ack; /* that the bare ack says, or 0 */
	uint8_t has;  /* enum urds_tx_want */
	uint8_t bytes[];
};

void urds_path_tx_init(struct urds_path_tx *t, struct urds_mem *mem, uint64_t first_seq,
		       bool sends_map)
{
	memset(t, 0, sizeof *t);
	t->sends_map = sends_map;
	urds_log_init(&t->log, mem, first_seq);
}

static void ctl_free(struct urds_path_tx *t)
{
	if (t->ctl)
		urds_free(t->log.mem, t->ctl, sizeof *t->ctl + t->ctl->len);
	t->ctl = NULL;
}

void urds_path_tx_fini(struct urds_path_tx *t)
{
	ctl_free(t);
	urds_log_fini(&t->log);
}

/* The frames that are wanted, and may go out: enum urds_tx_want. */
static uint8_t ctl_due(const struct urds_path_tx *t, const struct urds_tx_env *env)
{
	uint8_t want = atomic_load_explicit(&t->want, memory_order_acquire);

	if (urds_path_tx_owes_map(t, env->map_gen))
		want |= URDS_HAS_MAP;
	if (!env->ack)
		want &= (uint8_t)~URDS_WANT_ACK;
	return t->is_held ? want & URDS_WANT_PROBE : want;
}

/* Between two messages: builds the frames that are wanted. Return: false: no message may go before. */
static bool ctl_build(struct urds_path_tx *t, const struct urds_tx_env *env, bool data_follows)
{
	uint8_t want = ctl_due(t, env);
	uint32_t len = 0;
	struct urds_ctl *c;
	uint8_t *p;

	if (data_follows)
		want &= (uint8_t)~URDS_WANT_ACK; /* a message will carry it */
	if (!want)
		return true;
	len += want & URDS_WANT_PROBE ? URDS_HDR_LEN : 0;
	len += want & URDS_HAS_MAP ? URDS_HDR_LEN + URDS_CONGMAP_LEN : 0;
	len += want & URDS_WANT_ACK ? URDS_HDR_LEN : 0;
	c = urds_alloc(t->log.mem, sizeof *c + len);
	if (!c) /* still wanted: the next transmit tries again (C1); the probe's number is right only now */
		return !(want & URDS_WANT_PROBE);
	c->len = len;
	c->off = 0;
	c->has = want;
	c->map_gen = env->map_gen;
	c->ack = want & URDS_WANT_ACK ? env->ack : 0;
	p = c->bytes;
	if (want & URDS_WANT_PROBE) {
		/* Its number is that of the last message the peer has for certain. If nothing later was on the
		 * way, the peer's expectation comes out as it was (A4). If something was, a probe that counts
		 * would lose or double it (A3): flagged, it is a duplicate, which moves nothing; an urds end
		 * reads what it says all the same. */
		urds_probe_put(p, false, t->log.tail_seq - 1, env->us);
		if (urds_log_is_uncertain(&t->log))
			p[URDS_HDR_OFF_FLAGS] = URDS_F_RETRANSMITTED;
		p += URDS_HDR_LEN;
	}
	if (want & URDS_HAS_MAP) {
		urds_congmap_hdr_put(p);
		if (env->map)
			memcpy(p + URDS_HDR_LEN, env->map, URDS_CONGMAP_LEN);
		p += URDS_HDR_LEN + URDS_CONGMAP_LEN;
	}
	if (want & URDS_WANT_ACK) {
		urds_hdr_put_data(p, 0, 0, 0, 0);
		urds_be64_store(p + URDS_HDR_OFF_ACK, env->ack);
	}
	atomic_fetch_and_explicit(&t->want, (uint8_t)~want, memory_order_relaxed);
	t->ctl = c;
	return true;
}

size_t urds_path_tx_gather(struct urds_path_tx *t, const struct urds_tx_env *env,
			   struct urds_iov *iov, size_t max, size_t *bytes, uint64_t *sent_ack)
{
	size_t n = 0, sum = 0, more;

	*bytes = 0;
	*sent_ack = 0;
	t->ack_run = 0;
	t->is_cut = false;
	if (!t->is_up || t->is_mute)
		return 0;
	if (!t->ctl && t->log.at_off == 0 && !ctl_build(t, env, urds_log_has_unsent(&t->log))) {
		t->log.run_end = atomic_load_explicit(&t->log.mark.sent, memory_order_relaxed);
		return 0;
	}
	if (t->ctl) {
		iov[n].base = t->ctl->bytes + t->ctl->off;
		iov[n++].len = sum = t->ctl->len - t->ctl->off;
		*sent_ack = t->ctl->ack; /* it may have waited for room since */
	}
	if (!t->is_held) {
		n += urds_log_gather(&t->log, iov + n, max - n, URDS_TX_RUN_BYTES, env->ack,
				     env->want_ack, &more);
		sum += more;
		if (t->log.has_ack) {
			*sent_ack = env->ack;
			t->ack_run = sum;
			if (atomic_load_explicit(&t->want, memory_order_relaxed) & URDS_WANT_ACK)
				atomic_fetch_and_explicit(&t->want, (uint8_t)~URDS_WANT_ACK,
							  memory_order_relaxed);
		}
	}
	*bytes = sum;
	t->is_cut = sum >= URDS_TX_RUN_BYTES || n == max;
	return n;
}

bool urds_path_tx_has_more(const struct urds_path_tx *t, const struct urds_tx_env *env)
{
	return t->is_cut || ctl_due(t, env);
}

void urds_path_tx_taken(struct urds_path_tx *t, size_t bytes, struct urds_tx_done *done)
{
	memset(done, 0, sizeof *done);
	if (bytes < t->ack_run) /* the message that carries it may yet be cancelled */
		urds_path_tx_want_ack(t);
	t->ack_run = 0;
	if (t->ctl) {
		size_t n = t->ctl->len - t->ctl->off;

		if (n > bytes)
			n = bytes;
		t->ctl->off += (uint32_t)n;
		t->link_pos += n;
		bytes -= n;
		if (t->ctl->off == t->ctl->len) {
			if (t->ctl->has & URDS_HAS_MAP) {
				t->map_gen = t->ctl->map_gen;
				t->map_due = false;
				done->maps++;
			}
			ctl_free(t);
		}
	}
	if (t->is_held) {
		assert(bytes == 0);
		return;
	}
	done->sent = urds_log_taken(&t->log, bytes, (uint32_t)t->link_pos, &done->retransmitted);
	t->link_pos += bytes;
}

void urds_path_tx_up(struct urds_path_tx *t, enum urds_tx_hold hold, const struct urds_probe *us)
{
	assert(!t->is_up && !t->ctl);
	t->is_up = true;
	t->link_pos = t->kept_pos = 0;
	t->is_held = hold != URDS_HOLD_NOTHING;
	t->is_mute = hold == URDS_HOLD_ALL;
	t->map_due = true;
	memset(t->fence, 0, sizeof t->fence);
	atomic_store_explicit(&t->want, URDS_WANT_PROBE, memory_order_release);
	/* A kernel does not answer a duplicate: it gets another probe behind the messages. */
	if (urds_log_is_uncertain(&t->log))
		urds_path_tx_post(t, URDS_PROBE_PORT, 0, us);
}

void urds_path_tx_proven(struct urds_path_tx *t)
{
	t->is_held = t->is_mute = false;
}

/* Owner of our own messages that are acknowledged and kept: they do not count as posted any more. */
static void *kept_of(struct urds_path_tx *t)
{
	return &t->posted;
}

/* Cancels messages of our own to @dport, -1: all. */
static void forget(struct urds_path_tx *t, int dport)
{
	struct urds_log_freed f;

	urds_log_cancel(&t->log, t, dport, true, &f);
	t->posted -= f.msgs;
	urds_log_cancel(&t->log, kept_of(t), dport, true, &f);
}

bool urds_path_tx_acked(struct urds_path_tx *t, uint64_t pos, urds_ns now,
			struct urds_log_freed_list *out)
{
	struct urds_log_freed_list none; /* their owners know */

	if (urds_log_settle_pos(&t->log, (uint32_t)pos, t, kept_of(t), out))
		return true;
	if (now >= t->kept_at + URDS_KEEP_NS) {
		urds_log_ack_pos(&t->log, (uint32_t)t->kept_pos, &none);
		t->kept_pos = pos;
		t->kept_at = now;
	} else if (pos > t->kept_pos + URDS_KEEP_BYTES) {
		t->kept_pos = pos - URDS_KEEP_BYTES;
		urds_log_ack_pos(&t->log, (uint32_t)t->kept_pos, &none);
	}
	return false;
}

void urds_path_tx_read(struct urds_path_tx *t, uint64_t pos)
{
	struct urds_log_freed_list none;

	urds_log_ack_pos(&t->log, (uint32_t)pos, &none);
}

void urds_path_tx_down(struct urds_path_tx *t)
{
	struct urds_log_freed_list none;
	size_t bytes;

	ctl_free(t);
	atomic_store_explicit(&t->want, 0, memory_order_relaxed);
	t->is_up = t->is_held = t->is_mute = false;
	/* Probes and answers are about one connection: sent again they would be dropped as duplicates, unanswered,
	 * or say what no longer holds. Of a further path, which may never come back, nothing of ours is kept. */
	urds_log_rewind(&t->log); /* first: then none of them is half out any more */
	forget(t, URDS_PING_PORT);
	forget(t, t->sends_map ? (int)URDS_PROBE_PORT : -1);
	/* What is cancelled at the tail leaves at once. */
	urds_log_gather(&t->log, NULL, 0, 1, 0, false, &bytes);
	urds_log_ack_seq(&t->log, 0, &none);
}

int urds_path_tx_post(struct urds_path_tx *t, uint16_t sport, uint16_t dport,
		      const struct urds_probe *p)
{
	struct urds_log_claim c;
	int rc;

	if (p && !t->is_up)
		return 0; /* about a connection that has gone meanwhile */
	/* Twice as many before an answer is dropped too: pings alone do not keep a probe from being answered. */
	if (t->posted >= (p || dport == URDS_PING_PORT ? 2 * URDS_PONGS_MAX : URDS_PONGS_MAX))
		return -URDS_EAGAIN;
	rc = urds_log_claim(&t->log, 0, t, dport, NULL, &c);
	if (rc < 0)
		return rc;
	if (p)
		urds_probe_put(c.wire, dport != 0, c.seq, p);
	else
		urds_hdr_put_data(c.wire, c.seq, 0, sport, dport);
	urds_log_commit(&c);
	t->posted++;
	return 0;
}

uint64_t urds_path_tx_own_only(struct urds_path_tx *t)
{
	uint64_t queued = t->log.next_seq - t->log.tail_seq;

	return queued == 0 || queued > t->posted || urds_log_has_unsent(&t->log)
		       ? 0
		       : t->log.next_seq - 1;
}

bool urds_path_tx_fence(struct urds_path_tx *t, uint16_t port, urds_ns now)
{
	uint64_t seq = t->log.next_seq;

	if (!t->is_up || t->is_held || seq == t->log.tail_seq ||
	    (t->fence[0].port && now < t->fence_at + URDS_FENCE_NS))
		return false;
	if (urds_path_tx_post(t, port, URDS_PING_PORT, NULL) < 0)
		return false; /* no memory, or too many pongs are to go out: the next sample tries again */
	if (!t->fence[1].port)
		t->fence[1] = t->fence[0];
	t->fence[0] = (struct urds_fence){.seq = seq, .port = port};
	t->fence_at = now;
	return true;
}

uint64_t urds_path_tx_fenced(struct urds_path_tx *t, uint16_t port)
{
	for (unsigned i = 0; i < 2; i++) {
		uint64_t seq = t->fence[i].seq;

		if (!port || t->fence[i].port != port)
			continue;
		memset(&t->fence[i], 0, (2 - i) * sizeof t->fence[0]); /* and what is older */
		return seq;
	}
	return 0;
}

void urds_path_tx_freed(struct urds_path_tx *t, struct urds_log_freed_list *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->v[i].owner == t)
			t->posted -= f->v[i].msgs;
		else if (f->v[i].owner != kept_of(t))
			f->v[kept++] = f->v[i];
	}
	f->n = kept;
}

bool urds_path_tx_rest(const struct urds_path_tx *t, struct urds_path_rest *out)
{
	if (!t->is_up || t->is_held || t->map_due || t->ctl || t->posted || t->log.oldest ||
	    !urds_log_is_empty(&t->log) || atomic_load_explicit(&t->want, memory_order_relaxed))
		return false;
	out->next_tx = t->log.next_seq;
	out->link_pos = t->link_pos;
	out->map_gen = t->map_gen;
	return true;
}

void urds_path_tx_wake(struct urds_path_tx *t, const struct urds_path_rest *r)
{
	t->is_up = true;
	t->link_pos = t->kept_pos = r->link_pos;
	t->map_gen = r->map_gen;
}
