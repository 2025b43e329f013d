/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The send log: cancelling in every state, failing allocations, and random histories beside a model.
 */
#include "log_test.h"

static struct rig r;
static struct seen v[70000];

static struct urds_log_freed cancel(int owner, int dport, bool disown)
{
	struct urds_log_freed f;

	urds_log_cancel(&r.log, &r.owners[owner], dport, disown, &f);
	CHECK(f.owner == &r.owners[owner]);
	return f;
}

static void log_cancel__unsent_messages_never_go_out(void)
{
	struct urds_log_freed f;
	uint32_t msgs;

	rig_init(&r, 1);
	for (int i = 0; i < 9; i++)
		CHECK_EQ(rig_put(&r, i % 3, (uint16_t)(8 + i / 6), (uint32_t)i), 0);
	f = cancel(1, 8, false); /* 1 and 4, not 7: another port */
	CHECK_EQ(f.msgs, 2);
	CHECK_EQ(f.bytes, 5);
	CHECK_EQ(cancel(1, 8, false).msgs, 0);
	CHECK_EQ(cancel(2, -1, false).msgs, 3);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, 9), 4);
	CHECK_EQ(v[1].seq, 1 + 3);
	CHECK_EQ(v[3].seq, 1 + 7);
	CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), 0 + 3 + 6 + 7);
	CHECK_EQ(msgs, 4);
	CHECK(urds_log_is_empty(&r.log)); /* the last one was cancelled: nothing is left of it */
	CHECK_EQ(r.log.tombs, 0);
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log_cancel__trailing_tombs_go_with_an_ack_by_number(void)
{
	uint32_t msgs;

	rig_init(&r, 1);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(rig_put(&r, i / 3, 9, 10), 0);
	CHECK_EQ(cancel(1, -1, false).msgs, 3);
	rig_take_all(&r);
	rig_ack_seq(&r, 3, &msgs);
	CHECK_EQ(msgs, 3);
	CHECK(urds_log_is_empty(&r.log));
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log_cancel__a_log_of_tombs_only_empties_itself(void)
{
	uint32_t msgs;

	rig_init(&r, 1);
	CHECK_EQ(rig_put(&r, 0, 9, 10), 0);
	CHECK_EQ(rig_put(&r, 0, 9, 100000), 0);
	CHECK_EQ(cancel(0, -1, false).msgs, 2);
	CHECK_EQ(rig_take(&r, SIZE_MAX, 0), 0);
	CHECK(!urds_log_has_unsent(&r.log));
	rig_ack_seq(&r, 0, &msgs); /* any acknowledgement, even one that says nothing */
	CHECK_EQ(msgs, 0);
	CHECK(urds_log_is_empty(&r.log));
	CHECK(!urds_log_is_uncertain(&r.log));
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log_cancel__sent_message_is_not_replayed(void)
{
	uint32_t msgs;

	rig_init(&r, 1);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(rig_put(&r, i % 2, 9, 10), 0);
	rig_take_all(&r);
	CHECK_EQ(cancel(1, -1, false).bytes, 20);
	rig_rewind(&r);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, 4), 2);
	CHECK_EQ(v[0].seq, 1);
	CHECK_EQ(v[1].seq, 3);
	CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), 20);
	CHECK_EQ(msgs, 2);
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log_cancel__begun_message_is_completed(void)
{
	uint32_t msgs;

	for (uint32_t cut = 1; cut < 58; cut++) {
		rig_init(&r, 1);
		CHECK_EQ(rig_put(&r, 0, 9, 10), 0);
		CHECK_EQ(rig_put(&r, 0, 9, 10), 0);
		rig_take(&r, cut, 0);
		CHECK_EQ(cancel(0, -1, false).msgs, 1); /* the second */
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, 2), 1);
		CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), 10);
		CHECK_EQ(msgs, 1);
		CHECK_EQ(r.mem.blocks, 0);
		rig_fini(&r);
	}
}

static void log_cancel__disown_leaves_nothing_of_the_owner(void)
{
	struct urds_log_freed f;
	struct urds_log_claim c;
	uint32_t msgs;

	rig_init(&r, 1);
	CHECK_EQ(rig_put(&r, 0, 9, 10), 0);
	CHECK_EQ(rig_claim(&r, 0, 9, 20, &c), 0); /* its sender is still copying */
	rig_take(&r, 5, 0);
	f = cancel(0, -1, true);
	CHECK_EQ(f.msgs, 2);
	CHECK_EQ(f.bytes, 30);
	urds_log_commit(&c);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, 2), 2);
	CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), 0);
	CHECK_EQ(msgs, 0);
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log_cancel__uncommitted_message_stops_the_gather(void)
{
	struct urds_log_claim c;

	rig_init(&r, 1);
	CHECK_EQ(rig_put(&r, 0, 9, 10), 0);
	CHECK_EQ(rig_claim(&r, 1, 9, 20, &c), 0);
	CHECK_EQ(rig_put(&r, 2, 9, 30), 0);
	CHECK_EQ(cancel(1, -1, false).msgs, 0); /* the send counts as after this cancel */
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, 3), 1);
	CHECK(urds_log_has_unsent(&r.log));
	urds_log_commit(&c);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, 3), 3);
	rig_fini(&r);
}

/* A scenario that touches every allocation, with the Nth one failing: the caller is told, and everything
 * that was accepted still comes out. */
static void log_cancel__every_allocation_fails_once(void)
{
	for (unsigned long n = 1;; n++) {
		size_t want = 0;
		uint32_t msgs;

		rig_init(&r, 0xffffffe0u);
		r.mem.fail_at = n;
		for (int i = 0; i < 60; i++) {
			uint32_t len = i % 7 == 3 ? 70000 : (uint32_t)i * 900;
			int rc = rig_put(&r, i % 5, 9, len);

			CHECK(rc == 0 || rc == -URDS_ENOMEM);
			want += rc == 0;
			if (i % 10 == 9)
				rig_take(&r, 40000, 0);
		}
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, 60), want);
		rig_ack_pos(&r, (uint32_t)r.len, &msgs);
		CHECK_EQ(msgs, want);
		CHECK(urds_log_is_empty(&r.log));
		CHECK_EQ(r.mem.blocks, 0);
		rig_fini(&r);
		if (r.mem.calls < n)
			break;
	}
}

/* ---- random histories ---- */

struct model {
	uint64_t seq;
	uint32_t len;
	int owner;
	bool is_cancelled, is_claimed_only, was_out;
	struct urds_log_claim claim;
};

static struct model m[70000];

static void log_cancel__random_histories(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		uint64_t s = seed;
		uint64_t base = seed % 2 ? 0xfffffff0u - seed * 7 : UINT64_C(0x17ffffffe0) + seed;
		uint64_t charged[5] = {0};
		size_t n = 0;

		rig_init(&r, base);
		for (int step = 0; step < 600; step++) {
			uint32_t what = test_below(&s, 100);

			if (what < 45) {
				uint32_t len = test_below(&s, 12) == 0	? test_below(&s, 140000)
					       : test_below(&s, 3) == 0 ? test_below(&s, 9000)
									: test_below(&s, 80);

				m[n] = (struct model){.len = len, .owner = (int)test_below(&s, 5)};
				CHECK_EQ(rig_claim(&r, m[n].owner, 9, len, &m[n].claim), 0);
				m[n].seq = m[n].claim.seq;
				m[n].is_claimed_only = test_below(&s, 8) == 0;
				if (!m[n].is_claimed_only)
					urds_log_commit(&m[n].claim);
				charged[m[n].owner] += len;
				n++;
			} else if (what < 50) {
				for (size_t i = 0; i < n; i++)
					if (m[i].is_claimed_only) {
						urds_log_commit(&m[i].claim);
						m[i].is_claimed_only = false;
					}
			} else if (what < 75) {
				rig_take(&r, test_below(&s, 4) ? test_below(&s, 30000) : 0,
					 test_below(&s, 2));
			} else if (what < 85) {
				struct urds_log_freed_list f;
				bool more;

				do {
					if (what < 80)
						more = urds_log_ack_pos(
							&r.log, test_below(&s, (uint32_t)r.len + 1),
							&f);
					else
						more = urds_log_ack_seq(
							&r.log, r.log.tail_seq + test_below(&s, 8),
							&f);
					for (size_t i = 0; i < f.n; i++) {
						int o = (int)((char *)f.v[i].owner - r.owners);

						CHECK(charged[o] >= f.v[i].bytes);
						charged[o] -= f.v[i].bytes;
					}
				} while (more);
			} else if (what < 92) {
				int o = (int)test_below(&s, 5);

				charged[o] -= cancel(o, -1, false).bytes;
			} else if (what < 95) {
				rig_rewind(&r);
			}
			if (urds_log_is_empty(&r.log))
				CHECK_EQ(r.mem.blocks, 0);
		}
		for (size_t i = 0; i < n; i++)
			if (m[i].is_claimed_only)
				urds_log_commit(&m[i].claim);
		rig_rewind(&r);
		rig_take_all(&r);
		{
			size_t k = rig_parse(&r, v, n);
			uint32_t msgs;
			uint64_t left = 0, bytes = 0;

			for (size_t i = 0; i < k; i++)
				CHECK(i == 0 || v[i].seq > v[i - 1].seq);
			for (size_t i = 0; i < k; i++)
				bytes += v[i].len;
			for (int o = 0; o < 5; o++)
				left += charged[o];
			CHECK_EQ(bytes, left);
			CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), left);
			CHECK_EQ(msgs, k);
		}
		CHECK(urds_log_is_empty(&r.log));
		CHECK_EQ(r.log.tombs, 0);
		CHECK_EQ(r.mem.blocks, 0);
		rig_fini(&r);
	}
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(log_cancel__unsent_messages_never_go_out);
	T_RUN(log_cancel__trailing_tombs_go_with_an_ack_by_number);
	T_RUN(log_cancel__a_log_of_tombs_only_empties_itself);
	T_RUN(log_cancel__sent_message_is_not_replayed);
	T_RUN(log_cancel__begun_message_is_completed);
	T_RUN(log_cancel__disown_leaves_nothing_of_the_owner);
	T_RUN(log_cancel__uncommitted_message_stops_the_gather);
	T_RUN(log_cancel__every_allocation_fails_once);
	T_RUN(log_cancel__random_histories);
	return t_done();
}
