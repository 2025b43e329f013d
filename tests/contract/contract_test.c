/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract suite: connections made, bytes in order, what is known of them. How they end: ends_test.c.
 */
#include "suite.h"

static void dial_and_accept(void)
{
	struct ep *x, *y;

	begin();
	join(&x, &y);
	CHECK_EQ(x->connected, 1);
	CHECK(urds_addr_eq(&y->from, &bed->a));
	CHECK(y->from_port != 0);
	CHECK(x->l->t == bed->t && y->l->t == bed->t && listener->t == bed->t);
	CHECK(urds_addr_eq(&listener->addr, &bed->b));
	end();
}

static void dial_where_nobody_listens(void)
{
	struct ep *x;

	NEEDS(CAN_REFUSE);
	begin();
	bed->t->connect->unlisten(listener);
	listener = NULL;
	WAIT_FOR(door.unlistened == 1);
	x = dial();
	WAIT_FOR(x->connected);
	CHECK_EQ(x->connect_err, -URDS_ECONNREFUSED);
	bed->pump(bed, URDS_MS(10));
	CHECK_EQ(x->readables + x->writables, 0);
	end();
}

static void one_listener_per_address(void)
{
	struct urds_listener *second = NULL;

	NEEDS(CAN_EXCLUDE);
	begin();
	CHECK_EQ(bed->t->connect->listen(bed->t, &bed->b, &door, &second), -URDS_EADDRINUSE);
	bed->t->connect->unlisten(listener);
	CHECK_EQ(bed->t->connect->listen(bed->t, &bed->b, &door, &listener), 0);
	WAIT_FOR(door.unlistened == 1);
	door.unlistened = 0;
	end();
}

static void listen_needs_a_local_address(void)
{
	static const struct urds_addr any6;
	struct urds_addr any4 = {.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}}, from;
	const struct urds_connect_ops *c;
	const struct urds_resolve_ops *r;
	struct urds_listener *ls = NULL;
	struct urds_link *l = NULL;

	NEEDS(CAN_CHECK_ADDR);
	begin();
	c = bed->t->connect;
	r = bed->t->resolve;
	CHECK_EQ(c->listen(bed->t, &bed->distant, &door, &ls), -URDS_EADDRNOTAVAIL);
	CHECK_EQ(c->listen(bed->t, &any4, &door, &ls), -URDS_EINVAL);
	CHECK_EQ(c->listen(bed->t, &any6, &door, &ls), -URDS_EINVAL);
	CHECK_EQ(c->dial(bed->t, &any4, &bed->b, -1, NULL, &l), -URDS_EINVAL);
	CHECK_EQ(c->dial(bed->t, &bed->a, &bed->b, 8, NULL, &l), -URDS_EINVAL);
	CHECK(r->is_local(bed->t, &bed->a) && r->is_local(bed->t, &bed->b));
	CHECK(!r->is_local(bed->t, &bed->distant) && !r->is_local(bed->t, &any6));
	CHECK_EQ(r->source_for(bed->t, &bed->b, &from), 0);
	CHECK(r->is_local(bed->t, &from));
	end();
}

static void bytes_in_order_both_ways(void)
{
	const uint64_t total = 3 << 20;
	struct ep *x, *y;

	begin();
	join(&x, &y);
	while (x->rx_pos < total || y->rx_pos < total) {
		struct ep *e = rnd() & 1 ? x : y;

		if (e->may_tx && e->tx_pos < total) {
			size_t want = 1 + rnd_below(rnd() & 1 ? 200000 : 300);

			if (want > total - e->tx_pos)
				want = (size_t)(total - e->tx_pos);
			CHECK(ep_tx(e, want, 1 + rnd_below(20)) >= 0);
		} else if (e->may_rx) {
			(void)ep_rx(e, 1 + rnd_below(rnd() & 1 ? 100000 : 100));
		} else {
			bed->pump(bed, URDS_MS(1));
		}
	}
	CHECK_EQ(x->rx_pos, total);
	CHECK_EQ(y->rx_pos, total);
	WAIT_FOR(x->tx_released == total && y->tx_released == total);
	CHECK(!x->has_ended && !y->has_ended);
	end();
}

static void full_then_writable(void)
{
	struct ep *x, *y;
	int before;

	begin();
	join(&x, &y);
	fill(x);
	before = x->writables;
	bed->pump(bed, URDS_MS(20));
	CHECK_EQ(x->writables, before);
	CHECK(!x->may_tx);
	WAIT_FOR((ep_drain(y), x->may_tx));
	CHECK(x->writables > before);
	CHECK(ep_tx(x, 1000, 1) > 0);
	drain_to(y, x->tx_pos);
	end();
}

static void thousands_of_pieces(void)
{
	struct ep *x, *y;
	uint64_t sent = 0;

	begin();
	join(&x, &y);
	for (int i = 0; i < 5; i++) {
		uint64_t target = x->tx_pos + 9000;

		while (x->tx_pos < target) {
			CHECK(ep_tx(x, (size_t)(target - x->tx_pos), 3000) >= 0);
			ep_drain(y);
			bed->pump(bed, 0);
		}
		sent += 9000;
	}
	drain_to(y, sent);
	end();
}

static void empty_pieces_are_nothing(void)
{
	struct urds_iov v[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
	size_t taken = 9, freed = 9;
	struct ep *x, *y;

	begin();
	join(&x, &y);
	CHECK_EQ(bed->t->data->tx(x->l, v, 3, &taken, &freed), 0);
	CHECK_EQ(taken, 0);
	CHECK_EQ(freed, 0);
	CHECK_EQ(bed->t->data->tx(x->l, v, 0, &taken, &freed), 0);
	send_to(x, y, 100);
	drain_to(y, 100);
	CHECK(!y->has_ended);
	end();
}

static void acked_grows_to_what_was_sent(void)
{
	uint64_t last = 0, now;
	struct ep *x, *y;

	NEEDS(CAN_ACK);
	begin();
	join(&x, &y);
	CHECK_EQ(bed->t->data->acked(x->l), 0);
	CHECK_EQ(bed->t->data->acked(y->l), 0);
	while (x->tx_pos < (2u << 20)) {
		if (x->may_tx)
			CHECK(ep_tx(x, 1 + rnd_below(100000), 8) >= 0);
		if (rnd() & 1)
			(void)ep_rx(y, 1 + rnd_below(100000));
		bed->pump(bed, 0);
		now = bed->t->data->acked(x->l);
		CHECK(now >= last && now <= x->tx_pos);
		last = now;
	}
	drain_to(y, x->tx_pos);
	WAIT_FOR(bed->t->data->acked(x->l) == x->tx_pos);
	/* Our FIN is not a byte. */
	send_to(x, y, 77);
	bed->t->connect->shutdown(x->l);
	CHECK(bed->t->data->acked(x->l) <= x->tx_pos);
	drain_to(y, x->tx_pos);
	WAIT_FOR((ep_drain(y), y->has_ended));
	WAIT_FOR(bed->t->data->acked(x->l) == x->tx_pos);
	bed->pump(bed, URDS_MS(10));
	CHECK_EQ(bed->t->data->acked(x->l), x->tx_pos);
	end();
}

static void unlisten_with_connections_waiting(void)
{
	begin();
	for (int i = 0; i < 5; i++)
		(void)dial();
	bed->t->connect->unlisten(listener);
	listener = NULL;
	WAIT_FOR(door.unlistened == 1);
	for (size_t i = 0; i < ep_n; i++)
		WAIT_FOR((ep_drain(eps[i]), eps[i]->connected || eps[i]->has_ended));
	end();
}

static void a_thousand_links_leave_nothing(void)
{
	size_t fds, live = 0;

	begin();
	/* Whatever is opened once has been opened now. */
	fds = host_fd_count();
	for (int round = 0; round < 20; round++) {
		size_t from = ep_n;

		while (ep_n < from + 50)
			(void)dial();
		WAIT_FOR(door.n == ep_n);
		for (size_t i = from; i < ep_n; i++) {
			WAIT_FOR(eps[i]->connected);
			CHECK_EQ(eps[i]->connect_err, 0);
			ep_close(eps[i], rnd() & 1 ? URDS_CLOSE_NOW : URDS_CLOSE_RESET);
			ep_close(door.in[i], rnd() & 1 ? URDS_CLOSE_NOW : URDS_CLOSE_RESET);
		}
	}
	for (size_t i = 0; i < ep_n; i++)
		live += !eps[i]->closed + !door.in[i]->closed;
	if (bed->can & CAN_CLOSE)
		CHECK_EQ(live, 0);
	CHECK_EQ(host_fd_count(), fds);
	end();
}

/* W5 */
static void the_lane_is_in_the_port(void)
{
	NEEDS(CAN_LANE);
	begin();
	for (int lane = 0; lane < 8; lane++) {
		for (int i = 0; i < 5; i++) {
			size_t n = door.n;
			struct ep *x = dial_lane(&bed->a, &bed->b, lane);

			WAIT_FOR(door.n > n && x->connected);
			CHECK_EQ(x->connect_err, 0);
			CHECK_EQ(door.in[n]->from_port & 7, lane);
		}
	}
	end();
}

static void both_dial_at_once(void)
{
	struct urds_listener *other = NULL;
	struct door door_a = {0};
	struct ep *x, *z;

	if (bed == &bed_unix_pair || bed == &bed_tcp_pair)
		T_NOT_HERE("one listener only");
	begin();
	if (!urds_addr_eq(&bed->a, &bed->b))
		CHECK_EQ(bed->t->connect->listen(bed->t, &bed->a, &door_a, &other), 0);
	x = dial_lane(&bed->a, &bed->b, 0);
	z = dial_lane(&bed->b, &bed->a, 0);
	WAIT_FOR(x->connected && z->connected && door.n + door_a.n == 2);
	CHECK_EQ(x->connect_err, 0);
	CHECK_EQ(z->connect_err, 0);
	if (other) {
		CHECK(urds_addr_eq(&door.in[0]->from, &bed->a));
		CHECK(urds_addr_eq(&door_a.in[0]->from, &bed->b));
		send_to(x, door.in[0], 1000);
		send_to(z, door_a.in[0], 1000);
		drain_to(door.in[0], 1000);
		drain_to(door_a.in[0], 1000);
		bed->t->connect->unlisten(other);
		one_end(door_a.in[0]);
	}
	end();
}

static void answers_about_the_other_end(void)
{
	struct ep *x, *y;
	uint16_t local = 1, remote = 1, local2 = 2, remote2 = 2;
	uint64_t quiet;

	begin();
	join(&x, &y);
	send_to(x, y, 1000);
	drain_to(y, 1000);
	quiet = bed->t->data->silence(x->l);
	CHECK(quiet == URDS_UNKNOWN || quiet < URDS_SEC(10));
	CHECK(bed->t->data->incoming_cpu(y->l) >= -1);
	CHECK(bed->t->data->fd(x->l) >= -1);
	bed->t->data->ports(x->l, &local, &remote);
	bed->t->data->ports(y->l, &remote2, &local2);
	CHECK_EQ(local, local2);
	CHECK_EQ(remote, remote2);
	CHECK(!(bed->can & CAN_LANE) || local == y->from_port);
	CHECK(bed->t->data->name && bed->t->data->name[0]);
	end();
}

int main(int argc, char **argv)
{
	if (!suite_init(argc, argv))
		return 2;
	T_RUN(dial_and_accept);
	T_RUN(dial_where_nobody_listens);
	T_RUN(one_listener_per_address);
	T_RUN(listen_needs_a_local_address);
	T_RUN(bytes_in_order_both_ways);
	T_RUN(full_then_writable);
	T_RUN(thousands_of_pieces);
	T_RUN(empty_pieces_are_nothing);
	T_RUN(acked_grows_to_what_was_sent);
	T_RUN(unlisten_with_connections_waiting);
	T_RUN(a_thousand_links_leave_nothing);
	T_RUN(the_lane_is_in_the_port);
	T_RUN(both_dial_at_once);
	T_RUN(answers_about_the_other_end);
	return t_done();
}
