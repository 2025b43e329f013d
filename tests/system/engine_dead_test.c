/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Dead, or only silent: packets to and from a peer are dropped (nftables, in a network namespace of our own): with
 * data outstanding it is dead within 30 s, and when it is back all is delivered. A stopped process is not dead,
 * however long: its system still answers.
 *
 * Needs root for the first. The second takes a minute only with URDS_FULL set.
 */
#include "runtime/engine.h"

#include "engine.h"

#define IP_A "127.28.0.1"
#define IP_B "127.28.0.2"

struct shared_state {
	_Atomic uint64_t sent, received, dead, relinked, retransmitted, dead_at;
	_Atomic uint32_t bad;
	_Atomic bool stop, ready;
};

static struct shared_state *m;
static const char *ip_a, *ip_b;

static void receiver_main(void)
{
	struct urds_sock *s = sock_at(ctx_open(URDS_CONFIG_NO_RECORD), ip_b, 4000);
	uint8_t b[200];

	if (!s)
		_exit(3);
	atomic_store(&m->ready, true);
	for (uint64_t n = 0;; n++) {
		ssize_t rc = urds_recv(s, b, sizeof b, 0);

		if (rc != 200 || !check_msg(b, 200, n))
			atomic_fetch_add(&m->bad, 1);
		atomic_store(&m->received, n + 1);
	}
}

static void *watch(void *arg)
{
	struct urds_ctx *e = arg;

	for (;;) {
		uint64_t dead = atomic_load(&e->counters[URDS_C_peer_dead]);

		uint64_t lost = atomic_load(&e->counters[URDS_C_conn_reset]);

		if ((dead || lost) && !atomic_load(&m->dead_at))
			atomic_store(&m->dead_at, now_ns());
		atomic_store(&m->dead, dead);
		atomic_store(&m->relinked, lost);
		atomic_store(&m->retransmitted,
			     atomic_load(&e->counters[URDS_C_send_retransmitted]));
		nap_ms(20);
	}
	return NULL;
}

static void sender_main(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *s = sock_at(e, ip_a, 4000);
	uint8_t b[200];
	pthread_t id;

	if (!s || connect4(s, ip_b, 4000) < 0)
		_exit(3);
	pthread_create(&id, NULL, watch, e);
	for (uint64_t n = 0; !atomic_load(&m->stop); n++) {
		fill_msg(b, 200, n);
		if (urds_send(s, b, 200, 0) != 200)
			_exit(4);
		atomic_store(&m->sent, n + 1);
		nap_ms(1);
	}
	for (;;)
		pause();
}

static void start(pid_t p[2])
{
	m = shared(sizeof *m);
	p[1] = spawn();
	if (p[1] == 0)
		receiver_main();
	EVENTUALLY(atomic_load(&m->ready));
	p[0] = spawn();
	if (p[0] == 0)
		sender_main();
	EVENTUALLY(atomic_load(&m->received) > 100);
}

static void finish(pid_t p[2])
{
	atomic_store(&m->stop, true);
	nap_ms(20);
	EVENTUALLY_S(atomic_load(&m->received) == atomic_load(&m->sent), 10);
	for (int i = 0; i < 2; i++) {
		kill(p[i], SIGKILL);
		waitpid(p[i], NULL, 0);
	}
	CHECK_EQ(atomic_load(&m->bad), 0);
}

static bool has_nft;

static void black_hole__is_dead_in_30_s(void)
{
	if (!has_nft)
		T_SKIP("root and nftables are needed");
	for (unsigned order = 0; order < 2; order++) {
		uint64_t since, took;
		pid_t p[2];

		ip_a = order ? IP_B : IP_A;
		ip_b = order ? IP_A : IP_B;
		start(p);
		since = now_ns();
		CHECK_EQ(
			system("nft add table inet hole && nft 'add chain inet hole in { type filter hook input priority 0; }' && "
			       "nft add rule inet hole in ip saddr " IP_A " ip daddr " IP_B
			       " drop && "
			       "nft add rule inet hole in ip saddr " IP_B " ip daddr " IP_A
			       " drop"),
			0);
		/* By us, or by the system's TCP if it is set to give up sooner. */
		EVENTUALLY_S(atomic_load(&m->dead_at) > 0, 32);
		took = atomic_load(&m->dead_at) - since;
		CHECK_EQ(system("nft delete table inet hole"), 0);
		since = now_ns();
		finish(p);
		printf("# %s: dead after %.1f s (%s), all delivered %.1f s after the network was back\n",
		       order ? "larger to smaller" : "smaller to larger", (double)took / 1e9,
		       atomic_load(&m->dead) ? "by us" : "by the system", seconds_since(since));
		CHECK(took <= 30000000000ull);
		munmap(m, sizeof *m);
	}
}

static void stopped__is_not_dead(void)
{
	unsigned s = getenv("URDS_FULL") ? 60 : 8;
	pid_t p[2];

	ip_a = "127.28.1.1";
	ip_b = "127.28.1.2";
	start(p);
	kill(p[1], SIGSTOP);
	for (unsigned i = 0; i < s; i++)
		nap_ms(1000);
	CHECK_EQ(atomic_load(&m->dead), 0);
	CHECK_EQ(atomic_load(&m->relinked), 0);
	kill(p[1], SIGCONT);
	finish(p);
	CHECK_EQ(atomic_load(&m->relinked), 0);
	printf("# stopped for %u s: no reconnect, all delivered\n", s);
	munmap(m, sizeof *m);
}

int main(int argc, char **argv)
{
	has_nft = own_network() && geteuid() == 0 && system("nft list tables >/dev/null 2>&1") == 0;
	T_INIT(argc, argv);
	T_RUN(black_hole__is_dead_in_30_s);
	T_RUN(stopped__is_not_dead);
	return t_done();
}
