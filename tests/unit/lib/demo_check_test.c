/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The demo's checker tells lost, duplicated, reordered and damaged messages apart; a checker that
 * sees nothing would make the demo worthless.
 */
#include "../../../tools/demo.h"

#include "tap.h"

#define COUNT 20000u

static struct demo_stream stream;
static struct demo_check check;
static uint8_t buf[DEMO_MESSAGE_MAX];

static void begin(void)
{
	CHECK_EQ(demo_stream_init(&stream, 42, COUNT), 0);
	CHECK_EQ(demo_check_init(&check, &stream), 0);
}

static void end(void)
{
	demo_check_fini(&check);
	demo_stream_fini(&stream);
}

static void feed(uint64_t seq)
{
	size_t len = demo_stream_fill(&stream, seq, buf);

	demo_check_message(&check, buf, len);
}

static void feed_range(uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		feed(from);
}

static void expect(uint64_t unique, uint64_t duplicated, uint64_t reordered, uint64_t corrupt)
{
	CHECK_EQ(check.unique, unique);
	CHECK_EQ(check.duplicated, duplicated);
	CHECK_EQ(check.reordered, reordered);
	CHECK_EQ(check.corrupt, corrupt);
}

static void sizes__cover_the_range(void)
{
	uint64_t seq, empty = 0, tiny = 0, large = 0, whole = 0;

	begin();
	for (seq = 0; seq < COUNT; seq++) {
		size_t len = demo_stream_size(&stream, seq);

		CHECK(len <= DEMO_MESSAGE_MAX);
		empty += len == 0;
		tiny += len > 0 && len < 8;
		large += len > 32768 && len <= 65536;
		whole += len == DEMO_MESSAGE_MAX;
	}
	CHECK(empty > 100 && tiny > 100 && large > 100 && whole >= 2);
	end();
}

static void check__all_in_order(void)
{
	begin();
	feed_range(0, COUNT);
	expect(COUNT, 0, 0, 0);
	end();
}

/* Whatever its size is, a message that is missing is missed: one apart, never two. */
static void check__lost(void)
{
	uint64_t lost;

	for (lost = 1; lost < 200; lost++) {
		begin();
		feed_range(0, lost);
		feed_range(lost + 1, 400);
		expect(399, 0, 0, 0);
		end();
	}
}

static void check__duplicated(void)
{
	uint64_t seq = 100;

	begin();
	feed_range(0, 200);
	while (demo_stream_size(&stream, seq) < 8)
		seq++;
	feed(seq);
	feed_range(200, 300);
	expect(300, 1, 0, 0);
	end();
}

static void check__reordered(void)
{
	uint64_t seq = 100;

	begin();
	while (demo_stream_size(&stream, seq) < 8 || demo_stream_size(&stream, seq + 1) < 8)
		seq++;
	feed_range(0, seq);
	feed(seq + 1);
	feed(seq);
	feed_range(seq + 2, 300);
	expect(300, 0, 1, 0);
	end();
}

static void check__damaged(void)
{
	uint64_t seq = 100;
	size_t len;

	begin();
	feed_range(0, seq);
	while (demo_stream_size(&stream, seq) < 100)
		feed(seq++);
	len = demo_stream_fill(&stream, seq, buf);
	buf[len - 1] ^= 1;
	demo_check_message(&check, buf, len);
	len = demo_stream_fill(&stream, seq, buf);
	demo_check_message(&check, buf, len - 1);
	memset(buf, 0xdb, len); /* what a sender's buffer holds after the send */
	demo_check_message(&check, buf, len);
	expect(seq, 0, 0, 3);
	end();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(sizes__cover_the_range);
	T_RUN(check__all_in_order);
	T_RUN(check__lost);
	T_RUN(check__duplicated);
	T_RUN(check__reordered);
	T_RUN(check__damaged);
	return t_done();
}
