/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The send log: gathering, partial takes, acknowledgements, rewinding.
 */
#include "log_test.h"

static struct rig r;
static struct seen v[70000];

static const uint32_t mixed[] = {0,	1,     47,    48,  100,	   5000,    0, 65487, 65488,
				 65535, 65536, 65537, 100, 131072, 1048576, 0, 7};
#define MIXED (sizeof mixed / sizeof mixed[0])
static const uint32_t little[] = {0, 1, 100, 0, 300, 17};
#define LITTLE (sizeof little / sizeof little[0])

static void put_little(void)
{
	for (size_t i = 0; i < LITTLE; i++)
		CHECK_EQ(rig_put(&r, 0, 9, little[i]), 0);
}

static void log__new_one_is_empty_and_holds_nothing(void)
{
	rig_init(&r, 1000);
	CHECK(urds_log_is_empty(&r.log));
	CHECK(!urds_log_has_unsent(&r.log));
	CHECK(!urds_log_is_uncertain(&r.log));
	CHECK_EQ(rig_take(&r, SIZE_MAX, 0), 0);
	urds_log_rewind(&r.log);
	CHECK_EQ(r.mem.calls, 0);
	rig_fini(&r);
}

static void log__sizes_of_all_kinds_come_out_in_order(void)
{
	uint64_t bytes = 0;
	uint32_t msgs;
	size_t n;

	rig_init(&r, 1000);
	for (size_t i = 0; i < MIXED; i++) {
		CHECK_EQ(rig_put(&r, 0, 9, mixed[i]), 0);
		bytes += mixed[i];
	}
	CHECK(urds_log_has_unsent(&r.log));
	CHECK(!urds_log_is_uncertain(&r.log));
	rig_take_all(&r);
	CHECK(!urds_log_has_unsent(&r.log));
	CHECK(urds_log_is_uncertain(&r.log));
	n = rig_parse(&r, v, MIXED);
	CHECK_EQ(n, MIXED);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(v[i].seq, 1000 + i);
		CHECK_EQ(v[i].len, mixed[i]);
		CHECK_EQ(v[i].flags, 0);
		CHECK_EQ(v[i].ack, 0);
	}
	CHECK_EQ(r.sent, MIXED);
	CHECK_EQ(r.again, 0);
	CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), bytes);
	CHECK_EQ(msgs, MIXED);
	CHECK(urds_log_is_empty(&r.log));
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log__small_messages_share_one_iov(void)
{
	struct urds_iov iov[4];
	size_t bytes;
	uint32_t again;

	rig_init(&r, 1);
	for (int i = 0; i < 400; i++)
		CHECK_EQ(rig_put(&r, 0, 9, 64), 0);
	CHECK_EQ(urds_log_gather(&r.log, iov, 4, 1 << 20, 0, false, &bytes), 1);
	CHECK_EQ(bytes, 400 * 112);
	CHECK_EQ(iov[0].len, bytes);
	CHECK_EQ(urds_log_taken(&r.log, bytes, 0, &again), 400);
	rig_fini(&r);
}

static void log__gather_is_bounded_by_bytes_and_iovs(void)
{
	struct urds_iov iov[4];
	size_t bytes;
	uint32_t again;

	rig_init(&r, 1);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(rig_put(&r, 0, 9, 1000), 0);
	CHECK_EQ(urds_log_gather(&r.log, iov, 4, 2000, 0, false, &bytes), 1);
	CHECK_EQ(bytes, 2 * 1048);
	CHECK_EQ(urds_log_taken(&r.log, bytes, 0, &again), 2);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(rig_put(&r, 0, 9, 70000), 0);
	CHECK_EQ(urds_log_gather(&r.log, iov, 4, 1 << 20, 0, false, &bytes), 4);
	CHECK_EQ(bytes, 8 * 1048 + 3 * 70048);
	CHECK_EQ(urds_log_taken(&r.log, bytes, 2 * 1048, &again), 11);
	CHECK_EQ(urds_log_gather(&r.log, iov, 0, 1 << 20, 0, false, &bytes), 0);
	CHECK_EQ(bytes, 0);
	CHECK_EQ(urds_log_taken(&r.log, 0, 0, &again), 0);
	rig_fini(&r);
}

static void log__partial_take_at_every_offset(void)
{
	size_t total = 0;

	for (size_t i = 0; i < LITTLE; i++)
		total += URDS_HDR_LEN + little[i];
	for (size_t cut = 0; cut <= total; cut++) {
		rig_init(&r, 0xfffffffeu);
		put_little();
		CHECK_EQ(rig_take(&r, cut, 0), cut);
		CHECK_EQ(urds_log_is_uncertain(&r.log), cut > 0);
		rig_take_all(&r);
		CHECK_EQ(r.len, total);
		CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE);
		CHECK_EQ(r.sent, LITTLE);
		rig_fini(&r);
	}
}

static void log__byte_by_byte(void)
{
	rig_init(&r, 1);
	for (size_t i = 0; i < 3; i++)
		CHECK_EQ(rig_put(&r, 0, 9, little[i]), 0);
	CHECK_EQ(rig_put(&r, 0, 9, 65537), 0);
	CHECK_EQ(rig_put(&r, 0, 9, 3), 0);
	while (rig_take(&r, 1, 0) == 1)
		;
	CHECK_EQ(rig_parse(&r, v, 10), 5);
	CHECK_EQ(r.sent, 5);
	rig_fini(&r);
}

static void log__rewind_at_every_offset_flags_what_was_out(void)
{
	size_t total = 0;

	for (size_t i = 0; i < LITTLE; i++)
		total += URDS_HDR_LEN + little[i];
	for (size_t cut = 0; cut <= total; cut++) {
		uint32_t out = 0;

		rig_init(&r, 0xfffffffdu);
		put_little();
		rig_take(&r, cut, 0);
		rig_rewind(&r);
		CHECK_EQ(urds_log_is_uncertain(&r.log), cut > 0);
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE);
		for (size_t i = 0; i < LITTLE; i++) {
			bool was_out = v[i].end - URDS_HDR_LEN - v[i].len < cut;

			CHECK_EQ(v[i].seq, UINT64_C(0xfffffffd) + i);
			CHECK_EQ(v[i].flags, was_out ? URDS_F_RETRANSMITTED : 0);
			out += was_out;
		}
		CHECK_EQ(r.again, out);
		CHECK_EQ(r.sent, LITTLE - out);
		rig_fini(&r);
	}
}

static void log__second_rewind_keeps_the_flags(void)
{
	rig_init(&r, 1);
	put_little();
	rig_take_all(&r);
	rig_rewind(&r);
	rig_take(&r, 60, 0); /* the first message and the header of the second */
	rig_rewind(&r);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE);
	for (size_t i = 0; i < LITTLE; i++)
		CHECK_EQ(v[i].flags, URDS_F_RETRANSMITTED);
	CHECK_EQ(r.again, LITTLE);
	rig_fini(&r);
}

static void log__ack_by_position_at_every_offset(void)
{
	size_t total = 0;

	for (size_t i = 0; i < LITTLE; i++)
		total += URDS_HDR_LEN + little[i];
	for (size_t pos = 0; pos <= total; pos++) {
		uint32_t msgs, want = 0;
		uint64_t bytes, sum = 0;

		rig_init(&r, UINT64_C(0xfffffffb));
		put_little();
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE);
		for (size_t i = 0; i < LITTLE && v[i].end <= pos; i++) {
			want++;
			sum += v[i].len;
		}
		bytes = rig_ack_pos(&r, (uint32_t)pos, &msgs);
		CHECK_EQ(msgs, want);
		CHECK_EQ(bytes, sum);
		CHECK_EQ(r.log.tail_seq, UINT64_C(0xfffffffb) + want);
		rig_rewind(&r);
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE - want);
		if (want < LITTLE)
			CHECK_EQ(v[0].seq, UINT64_C(0xfffffffb) + want);
		rig_fini(&r);
	}
}

static void log__ack_position_wraps_at_32_bits(void)
{
	uint32_t again, msgs;
	size_t bytes;
	struct urds_iov iov[4];

	rig_init(&r, 1);
	CHECK_EQ(rig_put(&r, 0, 9, 100), 0);
	CHECK_EQ(rig_put(&r, 0, 9, 100), 0);
	urds_log_gather(&r.log, iov, 4, 1000, 0, false, &bytes);
	CHECK_EQ(urds_log_taken(&r.log, bytes, 0xffffff38u, &again), 2); /* ends at -52 and 96 */
	rig_ack_pos(&r, 0xffffffcbu, &msgs);
	CHECK_EQ(msgs, 0);
	rig_ack_pos(&r, 0xffffffccu, &msgs);
	CHECK_EQ(msgs, 1);
	rig_ack_pos(&r, 95, &msgs);
	CHECK_EQ(msgs, 0);
	rig_ack_pos(&r, 96, &msgs);
	CHECK_EQ(msgs, 1);
	rig_fini(&r);
}

static void log__ack_of_unsent_seq_is_ignored(void)
{
	uint32_t msgs;

	rig_init(&r, 50);
	put_little();
	rig_take(&r, 48 + 49 + 148 + 10, 0); /* three and a part of the fourth */
	rig_ack_seq(&r, 49, &msgs);
	CHECK_EQ(msgs, 0);
	rig_ack_seq(&r, 53, &msgs); /* begun, not out */
	CHECK_EQ(msgs, 0);
	rig_ack_seq(&r, UINT64_MAX, &msgs);
	CHECK_EQ(msgs, 0);
	rig_ack_seq(&r, 51, &msgs);
	CHECK_EQ(msgs, 2);
	rig_ack_seq(&r, 51, &msgs);
	CHECK_EQ(msgs, 0);
	rig_ack_seq(&r, 52, &msgs);
	CHECK_EQ(msgs, 1);
	rig_ack_pos(&r, 1u << 30, &msgs); /* a position beyond releases nothing unsent either */
	CHECK_EQ(msgs, 0);
	rig_take_all(&r);
	rig_ack_seq(&r, 55, &msgs);
	CHECK_EQ(msgs, 3);
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log__ack_ahead_of_a_replay_waits(void)
{
	uint32_t msgs;

	rig_init(&r, 10);
	put_little();
	rig_take_all(&r);
	rig_rewind(&r);
	rig_ack_seq(&r, 15, &msgs); /* the peer has them all from before */
	CHECK_EQ(msgs, 0);
	rig_take(&r, 48, 0);
	rig_ack_seq(&r, 15, &msgs);
	CHECK_EQ(msgs, 0);
	rig_take_all(&r);
	rig_ack_seq(&r, 15, &msgs);
	CHECK_EQ(msgs, LITTLE);
	rig_fini(&r);
}

static void log__freed_list_fills_and_goes_on(void)
{
	struct urds_log_freed_list f;
	uint32_t msgs = 0;

	rig_init(&r, 1);
	for (int i = 0; i < 3 * URDS_LOG_FREED_MAX + 5; i++)
		CHECK_EQ(rig_put(&r, i % 50, 9, 10), 0);
	rig_take_all(&r);
	CHECK(urds_log_ack_seq(&r.log, r.log.next_seq - 1, &f));
	CHECK_EQ(f.n, URDS_LOG_FREED_MAX);
	for (int i = 0; i < URDS_LOG_FREED_MAX; i++) {
		CHECK(f.v[i].owner == &r.owners[i % 50]);
		CHECK_EQ(f.v[i].bytes, 10);
	}
	CHECK_EQ(rig_ack_seq(&r, r.log.next_seq - 1, &msgs), 10u * (2 * URDS_LOG_FREED_MAX + 5));
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

static void log__ack_stays_out_of_what_follows_the_connection(void)
{
	rig_init(&r, 1);
	put_little();
	rig_take(&r, 50, 4711); /* stamps the last message, takes one and the begin of the second */
	rig_rewind(&r);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE);
	for (size_t i = 0; i < LITTLE; i++) {
		CHECK_EQ(v[i].ack, 0);
		CHECK_EQ(v[i].flags, i < 2 ? URDS_F_RETRANSMITTED : 0);
	}
	rig_fini(&r);
}

static void log__ack_is_carried_by_the_last_message(void)
{
	rig_init(&r, 1);
	put_little();
	rig_take(&r, SIZE_MAX, 4711);
	CHECK_EQ(rig_parse(&r, v, LITTLE), LITTLE);
	CHECK_EQ(v[LITTLE - 2].ack, 0);
	CHECK_EQ(v[LITTLE - 1].ack, 4711);
	CHECK_EQ(v[LITTLE - 1].flags, URDS_F_ACK_REQUIRED);
	/* A header of which bytes are out is not touched any more. */
	rig_rewind(&r);
	rig_take(&r, 1, 4712);
	rig_take(&r, 48, 4713);
	CHECK_EQ(rig_parse(&r, v, 1), 1);
	CHECK_EQ(v[0].ack, 0);
	rig_fini(&r);
}

static void log__claims_stop_at_the_limit_of_entries(void)
{
	struct urds_log_claim c;

	rig_init(&r, 1);
	r.log.next_seq += URDS_LOG_ENTRIES_MAX;
	CHECK_EQ(urds_log_claim(&r.log, 0, NULL, 9, NULL, &c), -URDS_EAGAIN);
	r.log.next_seq -= URDS_LOG_ENTRIES_MAX;
	rig_fini(&r);
}

/* Messages that end exactly at the end of a chunk, one byte before, one after. */
static void log__chunk_boundaries(void)
{
	for (uint32_t d = 0; d < 200; d++) {
		uint32_t msgs;

		rig_init(&r, 0xfffffff0u);
		CHECK_EQ(rig_put(&r, 0, 9, 65250 + d), 0);
		CHECK_EQ(rig_put(&r, 0, 9, 0), 0);
		CHECK_EQ(rig_put(&r, 0, 9, 65537), 0);
		for (int i = 0; i < 5; i++)
			CHECK_EQ(rig_put(&r, 0, 9, 65536 - d), 0);
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, 8), 8);
		rig_ack_seq(&r, r.log.next_seq - 2, &msgs);
		CHECK_EQ(msgs, 7);
		rig_rewind(&r);
		rig_take_all(&r);
		CHECK_EQ(rig_parse(&r, v, 8), 1);
		rig_fini(&r);
	}
}

static void log__each_lists_what_waits(void);

static int listed;

static void list(void *arg, uint64_t seq, const struct urds_log_ent *e, uint16_t sport, bool sent)
{
	const uint64_t *first = arg;

	CHECK_EQ(seq, *first + (uint64_t)listed);
	CHECK_EQ(sport, 100);
	CHECK_EQ(e->dport, 9);
	CHECK_EQ(e->len, little[listed]);
	CHECK_EQ(sent, listed < 2);
	listed++;
}

static void log__each_lists_what_waits(void)
{
	uint64_t first = 77;

	rig_init(&r, first);
	put_little();
	rig_take(&r, 48 + 49 + 3, 0);
	listed = 0;
	urds_log_each(&r.log, list, &first);
	CHECK_EQ(listed, LITTLE);
	rig_fini(&r);
}

/* What a kernel's TCP acknowledged: owners are told at once, a replay still has it, and nobody is told twice. */
static void log__settled_ones_are_told_once_and_kept(void)
{
	struct urds_log_freed_list f;
	uint32_t msgs, pos;
	size_t n;

	rig_init(&r, 1000);
	for (uint32_t i = 0; i < 6; i++)
		CHECK_EQ(rig_put(&r, 0, 9, 100 + i), 0);
	rig_take_all(&r);
	CHECK_EQ(rig_parse(&r, v, MIXED), 6);
	pos = v[3].end; /* four of them */
	CHECK(!urds_log_settle_pos(&r.log, pos - 1, NULL, NULL, &f));
	CHECK_EQ(f.n, 1);
	CHECK_EQ(f.v[0].msgs, 3);
	CHECK_EQ(f.v[0].bytes, 100 + 101 + 102);
	CHECK(!urds_log_settle_pos(&r.log, pos, NULL, NULL, &f));
	CHECK_EQ(f.v[0].msgs, 1);
	CHECK(!urds_log_settle_pos(&r.log, pos, NULL, NULL, &f));
	CHECK_EQ(f.n, 0);
	CHECK(!urds_log_is_settled(&r.log));

	rig_rewind(&r);
	CHECK(!urds_log_settle_pos(&r.log, pos, NULL, NULL,
				   &f)); /* none of it is out on the new connection */
	CHECK_EQ(f.n, 0);
	rig_take_all(&r);
	n = rig_parse(&r, v, MIXED);
	CHECK_EQ(n, 6);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(v[i].flags, URDS_F_RETRANSMITTED);
	CHECK(!urds_log_settle_pos(&r.log, (uint32_t)r.len, NULL, NULL, &f));
	CHECK_EQ(f.v[0].msgs, 2);
	CHECK(urds_log_is_settled(&r.log));
	CHECK(!urds_log_is_empty(&r.log));
	CHECK_EQ(rig_ack_pos(&r, (uint32_t)r.len, &msgs), 0);
	CHECK_EQ(msgs, 0);
	CHECK(urds_log_is_empty(&r.log));
	CHECK_EQ(r.mem.blocks, 0);
	rig_fini(&r);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(log__new_one_is_empty_and_holds_nothing);
	T_RUN(log__sizes_of_all_kinds_come_out_in_order);
	T_RUN(log__small_messages_share_one_iov);
	T_RUN(log__gather_is_bounded_by_bytes_and_iovs);
	T_RUN(log__partial_take_at_every_offset);
	T_RUN(log__byte_by_byte);
	T_RUN(log__rewind_at_every_offset_flags_what_was_out);
	T_RUN(log__second_rewind_keeps_the_flags);
	T_RUN(log__ack_by_position_at_every_offset);
	T_RUN(log__ack_position_wraps_at_32_bits);
	T_RUN(log__ack_of_unsent_seq_is_ignored);
	T_RUN(log__ack_ahead_of_a_replay_waits);
	T_RUN(log__settled_ones_are_told_once_and_kept);
	T_RUN(log__freed_list_fills_and_goes_on);
	T_RUN(log__ack_is_carried_by_the_last_message);
	T_RUN(log__ack_stays_out_of_what_follows_the_connection);
	T_RUN(log__claims_stop_at_the_limit_of_entries);
	T_RUN(log__chunk_boundaries);
	T_RUN(log__each_lists_what_waits);
	return t_done();
}
