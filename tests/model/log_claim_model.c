/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * core/log_claim.h checked: a log of one to three slots, senders, a transmitter, a canceller.
 */
#include <stdatomic.h>

#define URDS_MODEL_ATOMICS "model_atomics.h"
#define MODEL_PRIMITIVE log_claim
#include "core/log_claim.h"
#include "model_test.h"

#define MSGS 3
#define BASE UINT32_MAX /* index of the first message: the next is 0 */
#define SLOT(i) (((i)-BASE) % log_.slots)
#define GHOST(i) ghost[(i)-BASE]

static struct {
	struct mc_mutex append;
	_Atomic(uint32_t) claimed;
	struct urds_claim_tx tx;
	_Atomic(uint8_t) state[MSGS];
	uint32_t link[MSGS]; /* what the claimer leads the transmitter to the slot by */
	uint32_t id[MSGS], payload[MSGS]; /* of a slot; plain, written by claimer and sender */
	uint32_t slots, head, tail;	  /* head, tail: guarded by append */
	uint32_t begun,
		split;	  /* the transmitter's own; split: 1 while entry begun - 1 is half out */
	uint32_t rewound; /* guarded by append */
	bool replays;
} log_;

/* Ghosts, by index of the message. */
static struct {
	int sent[2];   /* times it went out, before and after a rewind */
	int cancelled; /* enum urds_claim_cancelled, or -1 */
	bool cancelled_in_replay;
	bool appended;
} ghost[MSGS + 1];

static void setup_slots(uint32_t slots)
{
	memset(ghost, 0, sizeof(ghost));
	for (int i = 0; i <= MSGS; i++)
		ghost[i].cancelled = -1;
	mc_mutex_init(&log_.append);
	atomic_init(&log_.claimed, BASE);
	atomic_init(&log_.tx.taking, BASE);
	atomic_init(&log_.tx.sent, BASE);
	log_.slots = slots;
	log_.replays = false;
	MC_W(log_.head, BASE);
	MC_W(log_.tail, BASE);
	MC_W(log_.begun, BASE);
	MC_W(log_.split, 0);
	MC_W(log_.rewound, 0);
	for (uint32_t i = 0; i < slots; i++) {
		atomic_init(&log_.state[i], URDS_CLAIM_CLAIMED);
		MC_W(log_.id[i], 99);
		MC_W(log_.link[i], 99);
		MC_W(log_.payload[i], 99);
	}
}

/* Appends one message if there is a slot; what is out counts as acknowledged. */
static void append(void)
{
	uint32_t i, slot;

	mc_lock(&log_.append);
	i = MC_R(log_.head);
	slot = SLOT(i);
	if (i - MC_R(log_.tail) == log_.slots)
		MC_W(log_.tail, urds_claim_sent(&log_.tx));
	if (i - MC_R(log_.tail) == log_.slots) {
		mc_unlock(&log_.append);
		return;
	}
	urds_claim_mark(&log_.state[slot]);
	MC_W(log_.link[slot], i);
	MC_W(log_.id[slot], i);
	MC_W(log_.head, i + 1);
	urds_claim_publish(&log_.claimed, i + 1);
	mc_unlock(&log_.append);

	MC_W(log_.payload[slot], i + 10);
	urds_claim_commit(&log_.state[slot]);
	GHOST(i).appended = true;
}

static void check_entry(uint32_t i)
{
	MC_ASSERT(MC_R(log_.id[SLOT(i)]) == i);
	MC_ASSERT(MC_R(log_.payload[SLOT(i)]) == i + 10);
}

/* One run. The transport takes up to @max messages, the last of them in part only if @split. */
static void transmit(uint32_t max, bool split)
{
	uint32_t end = urds_claim_claimed(&log_.claimed), i = MC_R(log_.begun), n = 0;

	if (MC_R(log_.split)) {
		check_entry(i - 1);
		MC_W(log_.split, 0);
		urds_claim_take_end(&log_.tx, i, i);
	}
	if (!urds_claim_before(i, end))
		return;
	MC_ASSERT(MC_R(log_.link[SLOT(i)]) == i);
	urds_claim_take_begin(&log_.tx, end);
	for (; i != end; i++) {
		enum urds_claim_take take = urds_claim_take_one(&log_.state[SLOT(i)]);

		if (take == URDS_CLAIM_STOP || (take == URDS_CLAIM_SEND && n == max))
			break;
		if (take == URDS_CLAIM_SKIP)
			continue;
		n++;
		check_entry(i);
		GHOST(i).sent[log_.replays]++;
		MC_ASSERT(GHOST(i).sent[log_.replays] == 1);
		if (n == max && split) {
			i++;
			MC_W(log_.split, 1);
			break;
		}
	}
	MC_W(log_.begun, i);
	urds_claim_take_end(&log_.tx, i - MC_R(log_.split), i);
}

static void cancel_all(void)
{
	mc_lock(&log_.append);
	for (uint32_t i = MC_R(log_.tail); i != MC_R(log_.head); i++) {
		enum urds_claim_cancelled c = urds_claim_cancel(&log_.tx, &log_.state[SLOT(i)], i);

		if (c == URDS_CANCEL_ALREADY)
			continue;
		GHOST(i).cancelled = (int)c;
		GHOST(i).cancelled_in_replay = MC_R(log_.rewound) != 0;
	}
	mc_unlock(&log_.append);
}

/* The connection died: send again whatever is not released. */
static void rewind_log(void)
{
	mc_lock(&log_.append);
	urds_claim_rewind(&log_.tx, MC_R(log_.tail));
	MC_W(log_.begun, MC_R(log_.tail));
	MC_W(log_.rewound, 1);
	mc_unlock(&log_.append);
	log_.replays = true;
}

/* Everything that was appended goes out once, unless it was cancelled in time. */
static void finish(void)
{
	transmit(MSGS, false);
	for (uint32_t i = 0; i < MSGS + 1; i++) {
		int sent = ghost[i].sent[0] + ghost[i].sent[1];
		bool again = log_.replays && ghost[i].cancelled_in_replay;

		if (!ghost[i].appended)
			continue;
		switch (ghost[i].cancelled) {
		case URDS_CANCEL_WON:
			MC_ASSERT(ghost[i].sent[again] == 0);
			break;
		case URDS_CANCEL_SENT:
			MC_ASSERT(ghost[i].sent[again] == 1);
			if (!again)
				MC_ASSERT(ghost[i].sent[1] == 0);
			break;
		default:
			MC_ASSERT(sent >= 1);
			if (!log_.replays)
				MC_ASSERT(sent == 1);
		}
	}
	/* Nothing is going out any more: whatever is left is cancelled at once. */
	mc_lock(&log_.append);
	MC_ASSERT(urds_claim_sent(&log_.tx) == MC_R(log_.head));
	mc_unlock(&log_.append);
}

static void setup3(void)
{
	setup_slots(3);
}

static void setup_committed(void)
{
	setup_slots(3);
	append();
	append();
}

static void setup_one(void)
{
	setup_slots(1);
}

static void setup_recycling(void)
{
	setup_slots(1);
	append();
}

static void sender(void)
{
	append();
}

static void sender2(void)
{
	append();
	append();
}

static void transmitter2(void)
{
	transmit(MSGS, false);
	transmit(MSGS, false);
}

static void transmitter(void)
{
	transmit(MSGS, false);
}

static void transmitter_partial(void)
{
	uint32_t max = (uint32_t)mc_choose(3);

	transmit(max, mc_choose(2));
	transmit(MSGS, false);
}

static void transmitter_replays(void)
{
	transmit(1, false);
	rewind_log();
	transmit(MSGS, false);
}

static void canceller(void)
{
	cancel_all();
}

/* A run that got nothing out, and a rewind, leave everything open to cancels. */
static void finish_cancels(void)
{
	uint32_t before = MC_R(log_.begun);

	transmit(0, false);
	before = MC_R(log_.begun);
	mc_lock(&log_.append);
	for (uint32_t i = before; i != MC_R(log_.head); i++)
		MC_ASSERT(urds_claim_cancel(&log_.tx, &log_.state[SLOT(i)], i) == URDS_CANCEL_WON);
	mc_unlock(&log_.append);
	rewind_log();
	mc_lock(&log_.append);
	for (uint32_t i = MC_R(log_.tail); i != before; i++)
		MC_ASSERT(urds_claim_cancel(&log_.tx, &log_.state[SLOT(i)], i) == URDS_CANCEL_WON);
	mc_unlock(&log_.append);
	transmit(MSGS, false);
	for (uint32_t i = 0; i < MSGS; i++)
		MC_ASSERT(ghost[i].sent[1] == 0);
}

#define TEST(name, ...) static const struct mc_test test_##name = {#name, __VA_ARGS__}
TEST(log_claim__2_threads, setup3, {sender2, transmitter2}, finish);
TEST(log_claim__3_threads, setup3, {sender2, sender, transmitter2}, finish);
TEST(log_claim__recycled_slot, setup_one, {sender2, transmitter2}, finish);
TEST(log_claim__recycled_slot_3_threads, setup_recycling, {sender, sender, transmitter2}, finish);
TEST(log_claim__cancel, setup_committed, {canceller, transmitter_partial}, finish);
TEST(log_claim__cancel_3_threads, setup3, {sender2, canceller, transmitter2}, finish);
TEST(log_claim__cancel_partial_3_threads, setup_recycling, {sender, canceller, transmitter_partial},
     finish);
TEST(log_claim__two_cancellers, setup_committed, {canceller, canceller, transmitter}, finish);
TEST(log_claim__replay, setup_committed, {canceller, transmitter_replays}, finish);
TEST(log_claim__replay_recycles, setup_recycling, {sender, transmitter_replays}, finish);
TEST(log_claim__replay_3_threads, setup_recycling, {sender, canceller, transmitter_replays},
     finish);
TEST(log_claim__left_is_cancellable, setup3, {sender2, transmitter}, finish_cancels);

#define SCENARIOS(X)                           \
	X(log_claim__2_threads)                \
	X(log_claim__3_threads)                \
	X(log_claim__recycled_slot)            \
	X(log_claim__recycled_slot_3_threads)  \
	X(log_claim__cancel)                   \
	X(log_claim__cancel_3_threads)         \
	X(log_claim__cancel_partial_3_threads) \
	X(log_claim__two_cancellers)           \
	X(log_claim__replay)                   \
	X(log_claim__replay_recycles)          \
	X(log_claim__replay_3_threads)         \
	X(log_claim__left_is_cancellable)

#define SABOTAGES(X)                       \
	X(claim_mark, DROPPED, dropped)    \
	X(claim_publish, RELAXED, relaxed) \
	X(claim_publish, DROPPED, dropped) \
	X(claim_commit, RELAXED, relaxed)  \
	X(claim_commit, DROPPED, dropped)  \
	X(claim_claimed, RELAXED, relaxed) \
	X(take_announce, DROPPED, dropped) \
	X(take_fence, RELAXED, relaxed)    \
	X(take_fence, DROPPED, dropped)    \
	X(take_state, RELAXED, relaxed)    \
	X(take_seal, DROPPED, dropped)     \
	X(take_sent, RELAXED, relaxed)     \
	X(take_sent, DROPPED, dropped)     \
	X(take_withdraw, DROPPED, dropped) \
	X(rewind_sent, DROPPED, dropped)   \
	X(rewind_taking, DROPPED, dropped) \
	X(claim_sent, RELAXED, relaxed)    \
	X(cancel_tomb, DROPPED, dropped)   \
	X(cancel_fence, RELAXED, relaxed)  \
	X(cancel_fence, DROPPED, dropped)  \
	X(cancel_sent, RELAXED, relaxed)   \
	X(cancel_undo, DROPPED, dropped)

MODEL_MAIN(SCENARIOS, SABOTAGES)
