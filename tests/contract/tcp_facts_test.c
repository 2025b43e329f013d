/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What transport/tcp relies on in the kernel below.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "host.h"
#include "raw.h"
#include "tcp_bed.h"

static int get_int(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	(void)getsockopt(fd, level, name, &v, &len);
	return v;
}

static void options_on_both_ends(void)
{
	struct ep *x, *y;

	begin(NULL);
	join(&x, &y);
	for (int i = 0; i < 2; i++) {
		int fd = t->data->fd(i ? x->l : y->l);

		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		CHECK_EQ(get_int(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 3);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPINTVL), 1);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPCNT), 24);
		CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
		CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	}
	finish(x);
	end();
}

static void one_call_each_way(void)
{
	struct urds_tcp_stats *st;
	struct ep *x, *y;
	uint32_t tx0, rx0, tx, rx;

	begin(NULL);
	join(&x, &y);
	st = urds_tcp_stats(t);
	CHECK_EQ(st->dials, 1);
	CHECK_EQ(st->accepts, 1);
	urds_tcp_link_calls(x->l, &tx0, &rx);
	CHECK_EQ(ep_tx(x, 20000, 500), 20000);
	urds_tcp_link_calls(x->l, &tx, &rx);
	CHECK_EQ(tx, tx0 + 1);
	y->may_rx = false;
	WAIT_FOR(y->may_rx && t->data->acked(x->l) == 20000);
	urds_tcp_link_calls(y->l, &tx, &rx0);
	/* A short read has drained it: no second call just to hear EAGAIN. */
	ep_rx(y, 30000);
	CHECK_EQ(y->rx_pos, 20000);
	CHECK(!y->may_rx);
	urds_tcp_link_calls(y->l, &tx, &rx);
	CHECK_EQ(rx, rx0 + 1);
	/* No event is lost by that. */
	CHECK_EQ(ep_tx(x, 1, 1), 1);
	WAIT_FOR(y->may_rx);
	finish(x);
	end();
}

/* Established, sent to and reset before the dialler looks: it was connected, and reads. */
static void reset_before_the_answer_was_seen(void)
{
	const struct linger now = {.l_onoff = 1};
	struct sockaddr_storage ss;
	socklen_t len;
	struct ep *x;
	int ls, fd, one = 1;
	char buf[500];

	begin(NULL);
	t->connect->unlisten(listener);
	listener = NULL;
	ls = raw_socket();
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	len = (socklen_t)urds_addr_to_sockaddr(&here, port, &ss);
	CHECK_EQ(bind(ls, (struct sockaddr *)&ss, len), 0);
	CHECK_EQ(listen(ls, 5), 0);
	x = dial(-1);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (char)(uint8_t)(3 + i * 31 + (i >> 8) * 7);
	CHECK_EQ(send(fd, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	usleep(10000);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
	close(ls);
	usleep(10000);
	WAIT_FOR(x->connected && x->ended_hint);
	CHECK_EQ(x->connect_err, 0);
	ep_drain(x);
	CHECK_EQ(x->rx_pos, sizeof(buf));
	CHECK(x->has_ended);
	CHECK_EQ(x->l->end, URDS_LINK_RESET);
	finish(x);
	end();
}

static void go_silent(int fd)
{
	struct sock_filter drop = {.code = BPF_RET | BPF_K, .k = 0};
	const struct sock_fprog prog = {.len = 1, .filter = &drop};

	/* Drops every segment before TCP sees it: the other end meets a dead host. */
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)), 0);
}

/* Until nothing moves any more. */
static void fill(struct ep *x)
{
	do {
		while (ep_tx(x, 1 << 20, 4) > 0)
			;
		usleep(30000);
	} while (ep_tx(x, 1 << 20, 4) > 0);
}

/* A stopped process: the window is shut, probes go out and are acknowledged. */
static void silence_of_a_full_reader(void)
{
	struct ep *x, *y;
	urds_ns t0;

	begin(NULL);
	join(&x, &y);
	CHECK_EQ(t->data->silence(x->l), 0);
	fill(x);
	for (t0 = urds_clock_ns(); urds_clock_ns() - t0 < URDS_MS(2500); usleep(5000))
		CHECK_EQ(t->data->silence(x->l), 0);
	finish(x);
	end();
}

static void silence_of_a_dead_full_reader(void)
{
	struct ep *x, *y;
	urds_ns t0, s = 0;

	begin(NULL);
	join(&x, &y);
	fill(x);
	go_silent(t->data->fd(y->l));
	for (t0 = urds_clock_ns(); s < URDS_SEC(1) && urds_clock_ns() - t0 < URDS_SEC(5);
	     usleep(5000))
		s = t->data->silence(x->l);
	CHECK(s >= URDS_SEC(1));
	finish(x);
	end();
}

static void silence_of_a_dead_host(void)
{
	struct ep *x, *y;
	uint64_t s;

	begin(NULL);
	join(&x, &y);
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	WAIT_FOR(t->data->acked(x->l) == 10);
	usleep(1200000);
	CHECK_EQ(t->data->silence(x->l), 0); /* idle: nothing owed */
	go_silent(t->data->fd(y->l));
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	/* Not yet overdue, however long it was quiet before. */
	CHECK_EQ(t->data->silence(x->l), 0);
	usleep(1000000);
	s = t->data->silence(x->l);
	CHECK(s >= URDS_MS(500) && s <= URDS_MS(1300));
	usleep(1000000);
	CHECK(t->data->silence(x->l) >= URDS_MS(1400));
	CHECK_EQ(t->data->acked(x->l), 10);
	finish(x);
	end();
}

/* Our FIN is one more in the kernel's count of what is not acknowledged. */
static void acked_with_a_fin_under_way(void)
{
	struct ep *x, *y;

	begin(NULL);
	join(&x, &y);
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	WAIT_FOR(t->data->acked(x->l) == 10);
	go_silent(t->data->fd(y->l));
	CHECK_EQ(ep_tx(x, 7, 1), 7);
	CHECK_EQ(t->data->acked(x->l), 10);
	t->connect->shutdown(x->l);
	CHECK_EQ(t->data->acked(x->l), 10);
	finish(x);

	join(&x, &y);
	CHECK_EQ(ep_tx(x, 10, 1), 10);
	WAIT_FOR(t->data->acked(x->l) == 10);
	go_silent(t->data->fd(y->l));
	t->connect->shutdown(x->l);
	CHECK_EQ(t->data->acked(x->l), 10);
	finish(x);
	end();
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	host_init(120);
	T_RUN(options_on_both_ends);
	T_RUN(one_call_each_way);
	T_RUN(reset_before_the_answer_was_seen);
	T_RUN(silence_of_a_full_reader);
	T_RUN(silence_of_a_dead_full_reader);
	T_RUN(silence_of_a_dead_host);
	T_RUN(acked_with_a_fin_under_way);
	return t_done();
}
