/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One end of a TCP link, for across_test.py, which is the other: tcp_peer listen|dial LOCAL REMOTE PORT BYTES [in-place].
 * Sends BYTES while it reads as many, ends its direction, and reads to the other's end. Every byte is checked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bed.h"
#include "host.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "transport/tcp/tcp.h"

static struct urds_poller *poller;

static int give_up(const char *what, long long n)
{
	printf("%s: %lld\n", what, n);
	return 1;
}

static int run(struct urds_transport *t, bool dials, const char *local, const char *remote,
	       uint64_t bytes)
{
	struct urds_listener *ls = NULL;
	struct door door = {0};
	struct urds_addr a, b;
	struct ep *e = NULL;
	bool is_shut = false;
	int rc = 0;

	if (urds_addr_parse(&a, local) < 0 || urds_addr_parse(&b, remote) < 0)
		return give_up("an address", 0);
	if (dials) {
		e = ep_new(t, 2);
		rc = t->connect->dial(t, &a, &b, 5, e, &e->l);
	} else {
		rc = t->connect->listen(t, &a, &door, &ls);
	}
	if (rc < 0)
		return give_up("start", rc);
	while (dials ? !e->connected : door.n == 0)
		(void)urds_poller_wait(poller, URDS_SEC(1));
	if (!dials)
		e = door.in[0];
	if (e->connect_err < 0)
		return give_up("connect", e->connect_err);
	if (!dials && !urds_addr_eq(&e->from, &b))
		return give_up("from another address", e->from_port);
	while (!is_shut || !e->has_ended) {
		if (e->has_ended && e->l->end != URDS_LINK_EOF)
			return give_up("reset after", (long long)e->rx_pos);
		(void)ep_drain(e);
		if (e->may_tx && e->tx_pos < bytes) {
			uint64_t left = bytes - e->tx_pos;
			long n = ep_tx(e, left < 100000 ? (size_t)left : 1 + rnd_below(100000), 8);

			if (n < 0)
				return give_up("send", n);
		} else {
			if (!is_shut && e->tx_pos == bytes) {
				t->connect->shutdown(e->l);
				is_shut = true;
			}
			(void)urds_poller_wait(poller, e->may_rx || e->has_ended ? 0 : URDS_SEC(1));
		}
	}
	if (e->l->end != URDS_LINK_EOF || e->rx_pos != bytes || ep_bad_bytes > 0)
		return give_up("received", (long long)e->rx_pos);
	while (e->tx_released < bytes)
		(void)urds_poller_wait(poller, URDS_SEC(1));
	if (ls)
		t->connect->unlisten(ls);
	ep_close(e, URDS_CLOSE_NOW);
	while (!e->closed)
		(void)urds_poller_wait(poller, URDS_SEC(1));
	ep_free(e);
	return 0;
}

int main(int argc, char **argv)
{
	struct urds_tcp_config cfg = {0};
	struct urds_transport *t;
	int rc;

	if (argc < 6)
		return give_up("usage: tcp_peer listen|dial LOCAL REMOTE PORT BYTES [in-place]",
			       argc);
	host_init(60);
	rnd_state = urds_clock_ns();
	cfg.port = (uint16_t)atoi(argv[4]);
	cfg.sends_in_place = argc > 6 && strcmp(argv[6], "in-place") == 0;
	if (urds_poller_new(&poller) < 0 || urds_tcp_new(&cfg, poller, &ep_sink, NULL, &t) < 0)
		return give_up("no transport", 0);
	rc = run(t, strcmp(argv[1], "dial") == 0, argv[2], argv[3], strtoull(argv[5], NULL, 0));
	if (rc == 0) {
		urds_tcp_free(t);
		urds_poller_free(poller);
		puts("done");
	}
	return rc;
}
