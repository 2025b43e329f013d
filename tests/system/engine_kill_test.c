/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * kill -9. A receiver is killed with unread bytes in its TCP buffer, again and again, and each time a new
 * incarnation takes its address: with end-to-end acknowledgements nothing is lost, without them something is.
 * Then either end is killed under traffic, and messages flow again soon.
 *
 * URDS_KILLS: how many (default 20 and 10).
 */
#include "runtime/engine.h"

#include "engine.h"

#define SIZE 256u
#define MSGS_MAX (32u << 20)
#define LIVES_MAX 1024

struct shared_state {
	_Atomic uint32_t sent, released; /* by the sender: handed to the engine; let go of by it */
	_Atomic bool stop, done;
	_Atomic uint32_t senders;  /* started; in the high half of each message's number */
	_Atomic uint32_t ready;	   /* incarnation of the receiver that runs */
	_Atomic uint32_t received; /* by the receiver's program, all incarnations */
	_Atomic uint32_t bad, doubled;
	_Atomic uint64_t ready_at, first_at; /* of the present incarnation */
	_Atomic(uint8_t) queued[MSGS_MAX];   /* times queued at a socket */
	uint8_t life[MSGS_MAX];		     /* low bits of the incarnation that queued it last */
};

static struct shared_state *m;
static const char *ip_a, *ip_b; /* sender, receiver */
static uint32_t flags;

/* ---------------------------------------------------------------- the two programs */

static void sender_main(void)
{
	struct urds_ctx *e = ctx_open(flags);
	struct urds_sock *s = sock_at(e, ip_a, 5000);
	uint8_t b[SIZE];
	uint32_t n = 0;
	uint64_t queued = 1, end, gen = (uint64_t)atomic_fetch_add(&m->senders, 1) << 32;

	if (!s || connect4(s, ip_b, 4000) < 0)
		_exit(3);
	while (!atomic_load(&m->stop) && n < MSGS_MAX) {
		fill_msg(b, SIZE, gen | n);
		if (urds_send(s, b, SIZE, 0) != (ssize_t)SIZE)
			_exit(4);
		memset(b, 0xdd, SIZE);
		urds_lock_acquire(&s->tx_lock);
		queued = s->txq.queued;
		urds_lock_release(&s->tx_lock);
		n++;
		atomic_store(&m->sent, n);
		atomic_store(&m->released, n - (uint32_t)(queued / SIZE));
		if (n % 256 == 0)
			nap_ms(1);
	}
	end = now_ns() + 30u * slow() * 1000000000ull;
	while (queued > 0 && now_ns() < end) {
		nap_ms(1);
		urds_lock_acquire(&s->tx_lock);
		queued = s->txq.queued;
		urds_lock_release(&s->tx_lock);
		atomic_store(&m->released, n - (uint32_t)(queued / SIZE));
	}
	atomic_store(&m->done, true);
	_exit(queued > 0 ? 5 : 0);
}

static uint8_t my_life;

/* Everything that the engine queues at the socket, before its acknowledgement can go out. */
static void journal(void *arg, const struct urds_addr *from, const struct urds_rx_item *it)
{
	uint64_t n;

	if (it->len != SIZE || it->dport != 4000)
		return;
	memcpy(&n, it->payload, sizeof n);
	n &= UINT32_MAX;
	if (n >= MSGS_MAX) {
		atomic_fetch_add(&m->bad, 1);
		return;
	}
	if (m->life[n] == my_life)
		atomic_fetch_add(&m->doubled, 1);
	m->life[n] = my_life;
	atomic_fetch_add(&m->queued[n], 1);
}

static void receiver_main(uint32_t life)
{
	struct urds_ctx *e = ctx_open(flags);
	struct urds_sock *s = urds_socket(e);
	uint8_t b[SIZE];
	uint64_t next = 0, n;

	my_life = (uint8_t)(life % 255 + 1);
	e->on_queued = journal;
	set_int(s, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20);
	if (bind4(s, ip_b, 4000) < 0) {
		printf("# %s\n", urds_reason());
		_exit(3);
	}
	atomic_store(&m->first_at, 0);
	atomic_store(&m->ready_at, now_ns());
	atomic_store(&m->ready, life);
	for (;;) {
		ssize_t rc = urds_recv(s, b, sizeof b, 0);

		if (rc != (ssize_t)SIZE)
			_exit(4);
		memcpy(&n, b, sizeof n);
		/* In order within an incarnation of both ends. */
		if (!check_msg(b, SIZE, n) || n < next)
			atomic_fetch_add(&m->bad, 1);
		next = n + 1;
		if (!atomic_load(&m->first_at))
			atomic_store(&m->first_at, now_ns());
		atomic_fetch_add(&m->received, 1);
	}
}

/* ---------------------------------------------------------------- the killing */

/* Bytes in the TCP buffers of @ip's connections that its process has not read. */
static unsigned unread_at(const char *ip)
{
	unsigned want = in4(ip, 0).sin_addr.s_addr, sum = 0;
	FILE *f = fopen("/proc/net/tcp", "r");
	char line[256];

	while (f && fgets(line, sizeof line, f)) {
		unsigned la, lp, ra, rp, st, tx, rx;

		if (sscanf(line, " %*d: %x:%x %x:%x %x %x:%x", &la, &lp, &ra, &rp, &st, &tx, &rx) ==
			    7 &&
		    la == want && st == 1)
			sum += rx;
	}
	if (f)
		fclose(f);
	return sum;
}

static pid_t start_receiver(uint32_t life)
{
	pid_t pid = spawn();

	if (pid == 0)
		receiver_main(life);
	return pid;
}

static pid_t start_sender(void)
{
	pid_t pid = spawn();

	if (pid == 0)
		sender_main();
	return pid;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static unsigned kills_wanted(unsigned otherwise)
{
	const char *s = getenv("URDS_KILLS");

	return s && atoi(s) > 0 ? (unsigned)atoi(s) : otherwise;
}

struct result {
	unsigned kills, with_unread, lost, doubled, again, bad;
	uint32_t sent;
	double worst_s, median_s;
};

static unsigned rnd_state = 12345;

static unsigned rnd(unsigned below)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % below;
}

/* Kills the receiver @kills times. Leaves by CHECK only when processes fail. */
static void kill_receivers(unsigned kills, struct result *r)
{
	double took[LIVES_MAX];
	pid_t rx, tx;
	int rc;

	memset(r, 0, sizeof *r);
	m = shared(sizeof *m);
	rx = start_receiver(1);
	tx = start_sender();
	for (unsigned k = 0; k < kills && k < LIVES_MAX; k++) {
		uint32_t had = atomic_load(&m->received), at;
		uint64_t end;

		EVENTUALLY(atomic_load(&m->ready) == k + 1 &&
			   atomic_load(&m->received) > had + 500);
		took[k] = (double)(atomic_load(&m->first_at) - atomic_load(&m->ready_at)) / 1e9;
		nap_ms(rnd(15));
		kill(rx, SIGSTOP);
		/* Until it has something unread, or the sender has no room for more. */
		end = now_ns() + 60000000;
		while (unread_at(ip_b) == 0 && now_ns() < end)
			nap_ms(1);
		/* A sender to a kernel keeps what was acknowledged a moment longer. */
		if (flags & URDS_CONFIG_NO_EXT)
			nap_ms(400);
		at = unread_at(ip_b);
		kill(rx, SIGKILL);
		waitpid(rx, &rc, 0);
		r->with_unread += at > 0;
		r->kills++;
		rx = start_receiver(k + 2);
	}
	EVENTUALLY(atomic_load(&m->ready) == kills + 1);
	atomic_store(&m->stop, true);
	rc = reap_within(tx, 60);
	/* What the sender was told has arrived, but for bytes on their way into the queue of a kernel's pace. */
	nap_ms(100);
	kill(rx, SIGKILL);
	waitpid(rx, NULL, 0);
	CHECK_EQ(rc, 0);
	r->sent = atomic_load(&m->sent);
	for (uint32_t n = 0; n < atomic_load(&m->released); n++) {
		unsigned q = atomic_load(&m->queued[n]);

		r->lost += q == 0;
		r->again += q > 1;
	}
	r->doubled = atomic_load(&m->doubled);
	r->bad = atomic_load(&m->bad);
	qsort(took, r->kills, sizeof took[0], by_value);
	r->median_s = took[r->kills / 2];
	r->worst_s = took[r->kills - 1];
	munmap(m, sizeof *m);
}

static void print(const char *what, const struct result *r)
{
	printf("# %s: sent %u kills %u (%u with unread bytes) lost %u doubled %u; %u came again to the next "
	       "incarnation; first message after %.0f ms, at worst %.0f ms\n",
	       what, r->sent, r->kills, r->with_unread, r->lost, r->doubled, r->again,
	       r->median_s * 1e3, r->worst_s * 1e3);
}

static void killed_receiver__nothing_acknowledged_is_lost(void)
{
	unsigned kills = kills_wanted(20);
	struct result r;

	flags = 0;
	for (unsigned order = 0; order < 2; order++) {
		ip_a = order ? "127.20.0.2" : "127.20.0.1";
		ip_b = order ? "127.20.0.1" : "127.20.0.2";
		kill_receivers((kills + 1) / 2, &r);
		print(order ? "larger to smaller address" : "smaller to larger address", &r);
		CHECK_EQ(r.lost, 0);
		CHECK_EQ(r.doubled, 0);
		CHECK_EQ(r.bad, 0);
		CHECK(r.with_unread * 2 >= r.kills);
		CHECK(r.worst_s <= 2.0 * slow());
	}
}

/* The same without the extension loses messages: so the test above can fail. */
static void killed_receiver__kernel_acks_lose(void)
{
	struct result r;

	flags = URDS_CONFIG_NO_EXT;
	ip_a = "127.20.1.1";
	ip_b = "127.20.1.2";
	kill_receivers(10, &r);
	print("without the extension", &r);
	CHECK(r.lost > 0);
	CHECK_EQ(r.doubled, 0);
}

/* Both ends are killed in turn, the other one lives on; a new sender counts from 0 again. */
static void killed_in_turn__flows_again(void)
{
	unsigned kills = kills_wanted(10);
	double took[LIVES_MAX];
	pid_t p[2];

	flags = 0;
	for (unsigned order = 0; order < 2; order++) {
		unsigned n = 0;

		ip_a = order ? "127.20.2.2" : "127.20.2.1";
		ip_b = order ? "127.20.2.1" : "127.20.2.2";
		m = shared(sizeof *m);
		p[1] = start_receiver(1);
		p[0] = start_sender();
		EVENTUALLY(atomic_load(&m->received) > 500);
		for (unsigned k = 0; k < kills && k < LIVES_MAX; k++) {
			unsigned who = k & 1;
			uint64_t since;
			uint32_t had;

			nap_ms(rnd(30));
			kill(p[who], SIGKILL);
			waitpid(p[who], NULL, 0);
			had = atomic_load(&m->received);
			if (who == 0) {
				p[0] = start_sender();
				since = now_ns();
			} else {
				p[1] = start_receiver(k + 2);
				EVENTUALLY(atomic_load(&m->ready) == k + 2);
				since = now_ns();
			}
			EVENTUALLY(atomic_load(&m->received) > had);
			took[n++] = seconds_since(since);
			EVENTUALLY(atomic_load(&m->received) > had + 500);
		}
		kill(p[0], SIGKILL);
		kill(p[1], SIGKILL);
		waitpid(p[0], NULL, 0);
		waitpid(p[1], NULL, 0);
		CHECK_EQ(atomic_load(&m->bad), 0);
		qsort(took, n, sizeof took[0], by_value);
		printf("# %s: %u kills, first message after %.0f ms, at worst %.0f ms\n",
		       order ? "larger to smaller" : "smaller to larger", n, took[n / 2] * 1e3,
		       took[n - 1] * 1e3);
		CHECK(took[n - 1] <= 2.0 * slow());
		munmap(m, sizeof *m);
	}
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	T_RUN(killed_receiver__nothing_acknowledged_is_lost);
	T_RUN(killed_receiver__kernel_acks_lose);
	T_RUN(killed_in_turn__flows_again);
	return t_done();
}
