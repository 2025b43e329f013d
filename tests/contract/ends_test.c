/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract suite: how links end, by a shutdown, a close or a reset, here or there, and what arrives before.
 */
#include "suite.h"

static void eof_after_all_bytes(void)
{
	struct ep *x, *y;

	begin();
	join(&x, &y);
	send_to(x, y, 300001);
	bed->t->connect->shutdown(x->l);
	WAIT_FOR((ep_drain(y), y->has_ended));
	CHECK_EQ(y->rx_pos, 300001);
	CHECK_EQ(y->l->end, URDS_LINK_EOF);
	end();
}

static void shutdown_leaves_the_other_direction(void)
{
	struct ep *x, *y;

	begin();
	join(&x, &y);
	bed->t->connect->shutdown(x->l);
	WAIT_FOR((ep_drain(y), y->has_ended));
	CHECK_EQ(y->l->end, URDS_LINK_EOF);
	send_to(y, x, 200000);
	drain_to(x, 200000);
	CHECK(!x->has_ended);
	bed->t->connect->shutdown(y->l);
	WAIT_FOR((ep_drain(x), x->has_ended));
	CHECK_EQ(x->l->end, URDS_LINK_EOF);
	end();
}

static void full_when_the_other_end_ends(void)
{
	struct ep *x, *y;

	NEEDS(CAN_HALF);
	begin();
	join(&x, &y);
	fill(y);
	bed->t->connect->shutdown(x->l);
	WAIT_FOR((ep_drain(y), y->has_ended));
	CHECK_EQ(y->l->end, URDS_LINK_EOF);
	send_to(y, x, 100000);
	drain_to(x, y->tx_pos);
	CHECK(!x->has_ended);
	end();
}

static void plain_close_is_eof(void)
{
	struct ep *x, *y;

	begin();
	join(&x, &y);
	send_to(x, y, 1000);
	drain_to(y, 1000);
	WAIT_FOR(x->tx_released == 1000);
	ep_close(x, URDS_CLOSE_NOW);
	WAIT_FOR((ep_drain(y), y->has_ended));
	CHECK_EQ(y->l->end, URDS_LINK_EOF);
	end();
}

static void reset_is_not_eof(void)
{
	struct ep *x, *y;
	long rc = 0;

	NEEDS(CAN_RESET);
	begin();
	join(&x, &y);
	send_to(x, y, 1000);
	drain_to(y, 1000);
	ep_close(x, URDS_CLOSE_RESET);
	WAIT_FOR((ep_drain(y), y->has_ended));
	CHECK_EQ(y->l->end, URDS_LINK_RESET);
	/* And it stays so, without a signal. */
	for (int i = 0; i < 2; i++) {
		rc = ep_tx(y, 10, 1);
		CHECK_EQ(rc, -URDS_ECONNRESET);
	}
	end();
}

/* A1: what the other end sent before it died was delivered, as far as it knows. */
static void bytes_survive_the_reset(void)
{
	struct ep *x, *y;

	NEEDS(CAN_KEEP);
	for (int tx_first = 0; tx_first < 2; tx_first++) {
		begin();
		join(&x, &y);
		CHECK_EQ(ep_tx(x, 50000, 8), 50000);
		/* Loop acknowledges when it is read, the others when it is there. */
		if (bed != &bed_loop)
			WAIT_FOR(bed->t->data->acked(x->l) == 50000);
		ep_close(x, URDS_CLOSE_RESET);
		WAIT_FOR(y->ended_hint);
		/* A failing send takes the kernel's error away; the reset must not look like EOF
		 * then. */
		for (int i = 0; tx_first && i < 3; i++)
			CHECK_EQ(ep_tx(y, 10, 1), -URDS_ECONNRESET);
		WAIT_FOR((ep_drain(y), y->has_ended));
		CHECK_EQ(y->rx_pos, 50000);
		CHECK_EQ(y->l->end, URDS_LINK_RESET);
		end();
	}
}

static void unread_bytes_make_a_close_a_reset(void)
{
	struct ep *x, *y;

	NEEDS(CAN_RESET | CAN_ACK);
	if (bed == &bed_null)
		T_NOT_HERE("nothing arrives unread");
	begin();
	join(&x, &y);
	CHECK_EQ(ep_tx(x, 5000, 3), 5000);
	WAIT_FOR(y->readables > 0);
	ep_close(y, URDS_CLOSE_NOW);
	WAIT_FOR((ep_drain(x), x->has_ended));
	CHECK_EQ(x->l->end, URDS_LINK_RESET);
	end();
}

static void acked_outlives_the_link(void)
{
	struct ep *x, *y;
	uint64_t at;

	NEEDS(CAN_ACK);
	begin();
	join(&x, &y);
	send_to(x, y, 60000);
	drain_to(y, 60000);
	WAIT_FOR(bed->t->data->acked(x->l) == 60000);
	/* Then as much as goes, unread. */
	while (ep_tx(x, 1 << 20, 4) > 0)
		;
	ep_close(y, URDS_CLOSE_RESET);
	WAIT_FOR((ep_drain(x), x->has_ended));
	at = bed->t->data->acked(x->l);
	CHECK(at != URDS_UNKNOWN && at >= 60000 && at <= x->tx_pos);
	CHECK_EQ(ep_tx(x, 10, 1), -URDS_ECONNRESET);
	CHECK_EQ(bed->t->data->acked(x->l), at);
	end();
}

static void close_inside_any_callback(void)
{
	struct ep *x, *y;

	begin();
	x = dial();
	x->close_in = IN_CONNECTED;
	/* A connector that answers inside dial() has answered already. */
	WAIT_FOR(x->connected);
	end();

	begin();
	door.close_at_once = true;
	x = dial();
	WAIT_FOR(door.n == 1 && x->connected);
	if (x->l && x->connect_err == 0)
		WAIT_FOR((ep_drain(x), x->has_ended));
	end();

	begin();
	join(&x, &y);
	if (bed == &bed_null)
		(void)ep_rx(y, 100);
	bed->pump(bed, 0);
	ep_drain(y);
	y->close_in = IN_READABLE;
	send_to(x, y, 10);
	WAIT_FOR(y->closed);
	end();

	begin();
	join(&x, &y);
	while (ep_tx(x, 1 << 20, 4) > 0)
		bed->pump(bed, 0);
	x->close_in = IN_WRITABLE;
	for (int i = 0; i < 5000 && !x->closed; i++) {
		ep_drain(y);
		bed->pump(bed, URDS_MS(5));
	}
	CHECK(x->closed);
	end();
}

/* Events that come out of callbacks, behind others: nobody may forget them. */
static void events_out_of_events(void)
{
	struct ep *x[8], *y[8];

	begin();
	for (int i = 0; i < 8; i++) {
		join(&x[i], &y[i]);
		bed->pump(bed, 0);
		if (bed == &bed_null)
			(void)ep_rx(y[i], 100);
		ep_drain(y[i]);
		y[i]->close_in = IN_READABLE;
	}
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(ep_tx(x[i], 10, 1), 10);
		if (bed == &bed_null)
			(void)ep_rx(x[i], 100);
	}
	for (int i = 0; i < 8; i++)
		WAIT_FOR((ep_drain(x[i]), y[i]->closed && x[i]->has_ended));
	end();
}

static void close_before_the_answer(void)
{
	struct ep *x;

	begin();
	x = dial();
	ep_close(x, URDS_CLOSE_NOW);
	for (int i = 0; i < 5; i++)
		bed->pump(bed, URDS_MS(5));
	CHECK_EQ(x->late, 0);
	end();
}

int main(int argc, char **argv)
{
	if (!suite_init(argc, argv))
		return 2;
	T_RUN(eof_after_all_bytes);
	T_RUN(shutdown_leaves_the_other_direction);
	T_RUN(full_when_the_other_end_ends);
	T_RUN(plain_close_is_eof);
	T_RUN(reset_is_not_eof);
	T_RUN(bytes_survive_the_reset);
	T_RUN(unread_bytes_make_a_close_a_reset);
	T_RUN(acked_outlives_the_link);
	T_RUN(close_inside_any_callback);
	T_RUN(events_out_of_events);
	T_RUN(close_before_the_answer);
	return t_done();
}
