/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Receive queue, send account, buffer sizes.
 */
#include "core/sock.h"
#include "test_mem.h"
#include "../../tap.h"

static struct test_mem mem;
static struct urds_rxq q;
static struct urds_addr from;

static void begin(uint32_t rcvbuf)
{
	urds_rxq_init(&q, test_mem_init(&mem));
	urds_rxq_limit(&q, rcvbuf);
}

static void finish(void)
{
	urds_rxq_fini(&q);
	CHECK_EQ(mem.bytes, 0);
	CHECK_EQ(mem.blocks, 0);
}

/* One message of @len bytes; it is said to be that long, whatever its buffer holds. */
static unsigned put(uint32_t len)
{
	struct urds_rx_item it = {.len = len, .sport = 7, .dport = 9, .kind = URDS_RX_DATA};
	unsigned news;
	size_t done;

	if (len > 0) {
		it.buf = urds_buf_new(&mem.m, 1);
		CHECK(it.buf != NULL);
		it.payload = urds_buf_data(it.buf);
	}
	news = urds_rxq_put(&q, &from, &it, 1, &done);
	CHECK_EQ(done, 1);
	return news;
}

static unsigned pop(void)
{
	struct urds_rxq_ent e;
	unsigned news = urds_rxq_pop(&q, &e);

	urds_buf_drop(e.buf);
	return news;
}

static void sock__queue_keeps_order_and_sizes(void)
{
	struct urds_rxq_ent e;

	begin(1 << 30);
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 300; i++)
			CHECK_EQ(put(i), i == 0 ? URDS_RXQ_FILLED : 0);
		for (uint32_t i = 0; i < 300; i++) {
			const struct urds_rxq_ent *front = urds_rxq_front(&q);

			CHECK(front && front->len == i);
			CHECK_EQ(urds_rxq_pop(&q, &e), 0);
			CHECK_EQ(e.len, i);
			CHECK_EQ(e.sport, 7);
			urds_buf_drop(e.buf);
		}
		CHECK(!urds_rxq_front(&q));
		CHECK_EQ(q.bytes, 0);
		CHECK_EQ(mem.blocks, 0);
	}
	put(1); /* the memory of a burst is given back when the next rounds are small */
	pop();
	CHECK(mem.bytes <= 8 * sizeof e);
	finish();
}

/* Semantics 8: set above R, cleared below R / 2. */
static void sock__congestion_has_hysteresis(void)
{
	begin(1000);
	CHECK_EQ(put(1000), URDS_RXQ_FILLED);
	CHECK_EQ(put(0), 0);
	CHECK_EQ(put(1), URDS_RXQ_CONGESTED);
	CHECK_EQ(put(400), 0);
	CHECK_EQ(put(99), 0);
	CHECK_EQ(pop(), 0); /* 500 left: not below half */
	CHECK_EQ(pop(), 0);
	CHECK_EQ(pop(), URDS_RXQ_CLEAR);
	CHECK_EQ(pop(), 0);
	CHECK_EQ(put(5000), URDS_RXQ_CONGESTED);
	finish();
}

static void sock__new_limit_counts_from_the_next_event(void)
{
	begin(1000);
	CHECK_EQ(put(800), URDS_RXQ_FILLED);
	urds_rxq_limit(&q, 500);
	CHECK_EQ(put(0), URDS_RXQ_CONGESTED);
	urds_rxq_limit(&q, 5000);
	CHECK_EQ(put(0), 0);
	CHECK_EQ(pop(), URDS_RXQ_CLEAR);
	finish();
}

static void sock__many_empty_messages_congest_too(void)
{
	unsigned i;

	begin(1000);
	for (i = 0; i < URDS_RCVQ_MSGS_CONG; i++)
		CHECK(!(put(0) & URDS_RXQ_CONGESTED));
	CHECK_EQ(put(0), URDS_RXQ_CONGESTED);
	for (i = URDS_RCVQ_MSGS_CONG + 1; i > URDS_RCVQ_MSGS_CONG / 2; i--)
		CHECK_EQ(pop(), 0);
	CHECK_EQ(pop(), URDS_RXQ_CLEAR);
	finish();
}

static void sock__queue_beyond_all_bounds_is_discarded_once(void)
{
	unsigned news = 0;

	begin(1000);
	for (int i = 0; i < 70 && !(news & URDS_RXQ_DISCARDED); i++)
		news = put(URDS_MSG_MAX);
	CHECK(news & URDS_RXQ_DISCARDED);
	CHECK(news & URDS_RXQ_CLEAR);
	CHECK(q.overflowed);
	CHECK_EQ(q.count, 0);
	CHECK_EQ(mem.blocks, 0);
	CHECK_EQ(put(5), URDS_RXQ_FILLED);
	finish();
}

static void sock__dead_queue_takes_nothing(void)
{
	begin(1000);
	q.is_dead = true;
	CHECK_EQ(put(100), 0);
	CHECK_EQ(q.count, 0);
	CHECK_EQ(mem.blocks, 0);
	finish();
}

static void sock__no_memory_says_how_many_were_taken(void)
{
	struct urds_rx_item v[12] = {{.kind = URDS_RX_DATA}};
	unsigned news;
	size_t done;

	begin(1000);
	mem.fail_at = 2; /* the ring grows from 8 to 16 */
	news = urds_rxq_put(&q, &from, v, 12, &done);
	CHECK_EQ(done, 8);
	CHECK_EQ(news, URDS_RXQ_NOMEM | URDS_RXQ_FILLED);
	CHECK_EQ(urds_rxq_put(&q, &from, v, 4, &done), 0);
	CHECK_EQ(q.count, 12);
	finish();
	begin(1000);
	mem.fail_all = true;
	CHECK_EQ(urds_rxq_put(&q, &from, v, 1, &done), URDS_RXQ_NOMEM);
	CHECK_EQ(done, 0);
	finish();
}

static void sock__send_account(void)
{
	struct urds_txq t = {.sndbuf = 1000};

	CHECK_EQ(urds_txq_charge(&t, 1001), -URDS_EMSGSIZE);
	CHECK_EQ(urds_txq_charge(&t, 999), 0);
	CHECK(urds_txq_has_room(&t));
	CHECK_EQ(urds_txq_charge(&t, 1000), 0); /* the last one may overshoot by all of itself */
	CHECK(!urds_txq_has_room(&t));
	CHECK_EQ(urds_txq_charge(&t, 0), -URDS_EAGAIN);
	CHECK(t.queued == 1999 && t.msgs == 2);
	urds_txq_release(&t, 1, 1000);
	CHECK_EQ(urds_txq_charge(&t, 0), 0); /* an empty one is one all the same */
	CHECK(t.queued == 999 && t.msgs == 2);
	t = (struct urds_txq){.sndbuf = URDS_BUF_MAX};
	CHECK_EQ(urds_txq_charge(&t, URDS_MSG_MAX + 1), -URDS_EMSGSIZE);
	CHECK_EQ(urds_txq_charge(&t, URDS_MSG_MAX), 0);
}

static void sock__buffer_sizes(void)
{
	static const struct {
		uint64_t value;
		uint32_t max;
		bool force;
		uint32_t min, want;
	} rows[] = {
		{0, 212992, false, URDS_SNDBUF_STORED_MIN, 2304},
		{100000, 212992, false, URDS_SNDBUF_STORED_MIN, 100000},
		{1u << 30, 212992, false, URDS_SNDBUF_STORED_MIN, 212992},
		{1u << 30, 212992, true, URDS_SNDBUF_STORED_MIN, URDS_BUF_MAX},
		{UINT64_MAX, UINT32_MAX, false, URDS_RCVBUF_STORED_MIN, URDS_BUF_MAX},
		{1, 212992, true, URDS_RCVBUF_STORED_MIN, 1152},
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		CHECK_EQ(urds_sock_buf(rows[i].value, rows[i].max, rows[i].force, rows[i].min),
			 rows[i].want);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(sock__queue_keeps_order_and_sizes);
	T_RUN(sock__congestion_has_hysteresis);
	T_RUN(sock__new_limit_counts_from_the_next_event);
	T_RUN(sock__many_empty_messages_congest_too);
	T_RUN(sock__queue_beyond_all_bounds_is_discarded_once);
	T_RUN(sock__dead_queue_takes_nothing);
	T_RUN(sock__no_memory_says_how_many_were_taken);
	T_RUN(sock__send_account);
	T_RUN(sock__buffer_sizes);
	return t_done();
}
