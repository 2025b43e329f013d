/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Is this a transport? The same cases for every one: contract_test BED [CASE].
 * Sizes and pieces are random; URDS_TEST_SEED replays a run.
 */
#include "host.h"
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

/* Kernels move bytes on behind our back: full is when it stays full. */
static void fill(struct ep *x)
{
	int full = 0;

	while (full < 3) {
		long n = ep_tx(x, 1 << 20, 4);

		CHECK(n >= 0);
		full = n == 0 ? full + 1 : 0;
		bed->pump(bed, URDS_MS(5));
		CHECK(x->tx_pos < (64u << 20));
	}
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
	static struct bed *const beds[] = {&bed_tcp4,	      &bed_tcp6,    &bed_tcp_link_local,
					   &bed_tcp_in_place, &bed_loop,    &bed_null,
					   &bed_unix_pair,    &bed_tcp_pair};
	const char *seed = getenv("URDS_TEST_SEED");

	for (size_t i = 0; argc > 1 && i < sizeof(beds) / sizeof(beds[0]); i++)
		if (strcmp(argv[1], beds[i]->name) == 0)
			bed = beds[i];
	if (!bed) {
		fprintf(stderr, "usage: %s BED [CASE]\n", argv[0]);
		return 2;
	}
	T_INIT(argc - 1, argv + 1);
	rnd_state = seed ? strtoull(seed, NULL, 0) : urds_clock_ns();
	printf("# %s; replay: URDS_TEST_SEED=%" PRIu64 "\n", bed->name, rnd_state);
	host_init(300);

	T_RUN(dial_and_accept);
	T_RUN(dial_where_nobody_listens);
	T_RUN(one_listener_per_address);
	T_RUN(listen_needs_a_local_address);
	T_RUN(bytes_in_order_both_ways);
	T_RUN(full_then_writable);
	T_RUN(thousands_of_pieces);
	T_RUN(empty_pieces_are_nothing);
	T_RUN(eof_after_all_bytes);
	T_RUN(shutdown_leaves_the_other_direction);
	T_RUN(full_when_the_other_end_ends);
	T_RUN(plain_close_is_eof);
	T_RUN(reset_is_not_eof);
	T_RUN(bytes_survive_the_reset);
	T_RUN(unread_bytes_make_a_close_a_reset);
	T_RUN(acked_grows_to_what_was_sent);
	T_RUN(acked_outlives_the_link);
	T_RUN(close_inside_any_callback);
	T_RUN(events_out_of_events);
	T_RUN(close_before_the_answer);
	T_RUN(unlisten_with_connections_waiting);
	T_RUN(a_thousand_links_leave_nothing);
	T_RUN(the_lane_is_in_the_port);
	T_RUN(both_dial_at_once);
	T_RUN(answers_about_the_other_end);
	return t_done();
}
