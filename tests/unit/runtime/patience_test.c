/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Programs that wait, or let others wait: signals at 1 kHz into calls that are blocked, a program that computes between
 * receives (for 10 s with URDS_FULL set), a sender whose peer is not there.
 */
#include <stdatomic.h>

#include "sanitized.h"
#include "two.h"

#define NOBODY "127.10.250.250"

static struct urds_sock *a, *b;

static void socks_open(void)
{
	two_open();
	a = sock_at(ca, ip_a, 4000);
	b = sock_at(cb, ip_b, 4001);
	CHECK(a && b && connect4(a, ip_b, 4001) == 0);
}

static uint8_t kilobyte[1000];

static unsigned fill(struct urds_sock *s)
{
	unsigned n = 0;

	while (urds_send(s, kilobyte, sizeof kilobyte, MSG_DONTWAIT) == (ssize_t)sizeof kilobyte)
		n++;
	CHECK_EQ(errno, EAGAIN);
	return n;
}

/* ---------------------------------------------------------------- signals into blocked calls */

/* Each is in one kind of call, until it succeeds. */
struct blocked {
	pthread_t id;
	struct urds_sock *s;
	ssize_t (*call)(struct urds_sock *s);
	_Atomic unsigned interrupted;
	_Atomic bool done;
	ssize_t rc;
	int err;
};

static ssize_t call_send(struct urds_sock *s)
{
	return urds_send(s, "room", 4, 0);
}

static ssize_t call_recv(struct urds_sock *s)
{
	char m[8];

	return urds_recv(s, m, sizeof m, 0);
}

static ssize_t call_wait_in(struct urds_sock *s)
{
	return urds_wait(s, POLLIN, -1);
}

static ssize_t call_wait_out(struct urds_sock *s)
{
	return urds_wait(s, POLLOUT, -1);
}

static void *call_until_it_works(void *arg)
{
	struct blocked *c = arg;

	for (;;) {
		c->rc = c->call(c->s);
		c->err = errno;
		if (c->rc >= 0 || c->err != EINTR)
			break;
		atomic_fetch_add(&c->interrupted, 1);
	}
	atomic_store(&c->done, true);
	return NULL;
}

static void on_signal(int sig)
{
}

/* A signal to each every millisecond, for some hundred that ended a call: none returns anything else, and afterwards
 * each gets what it waited for. */
static void eintr__storm_into_blocked_calls(void)
{
	static struct blocked c[4];
	struct sigaction sa = {.sa_handler = on_signal};
	struct urds_sock *full;
	unsigned least = 0, kills = 0;

	socks_open();
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	full = sock_at(ca, ip_a, 4002);
	CHECK(full && connect4(full, NOBODY, 5) == 0);
	CHECK_EQ(fill(full), 107);
	memset(c, 0, sizeof c);
	c[0] = (struct blocked){.s = full, .call = call_send};
	c[1] = (struct blocked){.s = full, .call = call_wait_out};
	c[2] = (struct blocked){.s = b, .call = call_recv};
	c[3] = (struct blocked){.s = sock_at(cb, ip_b, 4003), .call = call_wait_in};
	CHECK(c[3].s);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&c[i].id, NULL, call_until_it_works, &c[i]), 0);
	for (uint64_t end = now_ns() + 20000000000u * slow(); least < 300 && now_ns() < end;
	     kills++) {
		least = UINT32_MAX;
		for (int i = 0; i < 4; i++) {
			unsigned n = atomic_load(&c[i].interrupted);

			least = n < least ? n : least;
			CHECK_EQ(pthread_kill(c[i].id, SIGUSR1), 0);
		}
		nap_ms(1);
	}
	printf("# interrupted at least %u times by %u signals\n", least, kills);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(atomic_load(&c[i].done), 0);
	CHECK(least >= 300);
	CHECK_EQ(cancel4(full, NOBODY, 5), 0);
	CHECK_EQ(urds_send(a, "come", 4, 0), 4);
	CHECK_EQ(send4(a, "come", 4, 0, ip_b, 4003), 4);
	for (int i = 0; i < 4; i++) {
		EVENTUALLY(atomic_load(&c[i].done));
		pthread_join(c[i].id, NULL);
	}
	CHECK_EQ(c[0].rc, 4);
	CHECK_EQ(c[1].rc, POLLOUT);
	CHECK_EQ(c[2].rc, 4);
	CHECK_EQ(c[3].rc, POLLIN);
	two_close();
}
PAIR(eintr__storm_into_blocked_calls)

/* ---------------------------------------------------------------- a program that computes */

/* Bytes of a table of messages of @s's context. */
static size_t table(struct urds_sock *s, int id)
{
	socklen_t len = 0;

	return urds_getsockopt(s, URDS_SOL_RDS, id, NULL, &len) < 0 ? len : 0;
}

enum { BURST = 10, PAUSE_MS = 50, ENTRY = 26 };

static struct {
	_Atomic bool stop;
	_Atomic unsigned bursts;
	_Atomic int err;
	uint64_t longest;
} feed;

/* Sends a burst, waits until all of it is at the socket, not in buffers of the system; rests. */
static void *feed_bursts(void *arg)
{
	for (unsigned sent = 0; !atomic_load(&feed.stop);) {
		uint64_t since = now_ns();

		for (int i = 0; i < BURST; i++, sent++)
			if (urds_send(a, kilobyte, sizeof kilobyte, 0) < 0)
				atomic_store(&feed.err, errno);
		while (table(b, URDS_INFO_RECV_MESSAGES) < sent * ENTRY) {
			if (atomic_load(&feed.stop))
				return NULL;
			nap_ms(1);
		}
		if (now_ns() - since > feed.longest)
			feed.longest = now_ns() - since;
		atomic_fetch_add(&feed.bursts, 1);
		nap_ms(PAUSE_MS);
	}
	return NULL;
}

static void computing__drains_its_peers(void)
{
	unsigned seconds = getenv("URDS_FULL") ? 10 : 1, bursts;
	volatile uint64_t sum = 0;
	uint64_t end;
	pthread_t id;

	socks_open();
	CHECK_EQ(set_int(b, SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20), 0);
	CHECK_EQ(urds_send(a, "first", 5, 0), 5);
	CHECK_EQ(urds_recv(b, kilobyte, sizeof kilobyte, 0), 5);
	memset(&feed, 0, sizeof feed);
	CHECK_EQ(pthread_create(&id, NULL, feed_bursts, NULL), 0);
	/* No call of ours, and no other thread of this program that receives. */
	for (end = now_ns() + seconds * slow() * 1000000000ull; now_ns() < end;)
		for (int i = 0; i < 10000; i++)
			sum += sum * 31 + (uint64_t)i;
	bursts = atomic_load(&feed.bursts);
	atomic_store(&feed.stop, true);
	pthread_join(id, NULL);
	printf("# %u bursts in %u s, the longest until all was there %.1f ms\n", bursts,
	       seconds * slow(), (double)feed.longest / 1e6);
	CHECK_EQ(atomic_load(&feed.err), 0);
	CHECK(bursts >= seconds * 4);
	EVENTUALLY(table(a, URDS_INFO_SEND_MESSAGES) + table(a, URDS_INFO_RETRANS_MESSAGES) == 0);
	for (unsigned i = 0; i < bursts * BURST; i++)
		CHECK_EQ(urds_recv(b, kilobyte, sizeof kilobyte, 0), 1000);
	two_close();
}
PAIR(computing__drains_its_peers)

/* ---------------------------------------------------------------- a peer that is not there */

static double cpu_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static long resident_kib(void)
{
	long pages = 0, skip;
	FILE *f = fopen("/proc/self/statm", "re");

	CHECK(f);
	CHECK_EQ(fscanf(f, "%ld %ld", &skip, &pages), 2);
	fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void *send_blocked(void *arg)
{
	static ssize_t rc;

	rc = urds_send(arg, "x", 1, 0);
	return &rc;
}

static void unreachable__costs_a_buffer_and_nothing_else(void)
{
	struct urds_sock *s;
	uint64_t since;
	pthread_t id;
	void *rc;
	double cpu;
	long kib;

	variant = TCP;
	socks_open();
	s = sock_at(ca, ip_a, 4002);
	CHECK(s && connect4(s, NOBODY, 5) == 0);
	/* Fills its buffer, and then says so, as often as it is asked. */
	CHECK_EQ(fill(s), 107);
	/* What the first round maps stays. */
	CHECK_EQ(cancel4(s, NOBODY, 5), 0);
	CHECK_EQ(fill(s), 107);
	kib = resident_kib();
	for (int i = 0; i < 100000; i++)
		CHECK_ERR(urds_send(s, kilobyte, sizeof kilobyte, MSG_DONTWAIT), EAGAIN);
	/* Cancelled and filled again: cancelled messages do not stay. */
	for (int i = 0; i < 300; i++) {
		CHECK_EQ(cancel4(s, NOBODY, 5), 0);
		CHECK_EQ(fill(s), 107);
	}
	kib = resident_kib() - kib;
	printf("# after 32100 cancelled messages of 1000 bytes: %ld KiB more\n", kib);
	CHECK(SANITIZED || kib < 4096);
	/* Blocks for SO_SNDTIMEO, without work. */
	CHECK_EQ(set_timeo(s, SO_SNDTIMEO, 1000), 0);
	cpu = cpu_s();
	since = now_ns();
	CHECK_ERR(urds_send(s, "x", 1, 0), ETIMEDOUT);
	CHECK(seconds_since(since) >= 0.999);
	cpu = cpu_s() - cpu;
	printf("# a second of waiting and calling again took %.1f ms of processor time\n",
	       cpu * 1e3);
	CHECK(cpu < 0.2 * slow());
	/* Without it for as long as it takes; cancelling ends that, and frees all at once. */
	CHECK_EQ(set_timeo(s, SO_SNDTIMEO, 0), 0);
	CHECK_EQ(pthread_create(&id, NULL, send_blocked, s), 0);
	nap_ms(50);
	CHECK_EQ(pthread_tryjoin_np(id, &rc), EBUSY);
	CHECK_EQ(cancel4(s, NOBODY, 5), 0);
	CHECK_EQ(urds_send(s, kilobyte, sizeof kilobyte, MSG_DONTWAIT), sizeof kilobyte);
	CHECK_EQ(pthread_join(id, &rc), 0);
	CHECK_EQ(*(ssize_t *)rc, 1);
	two_close();
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	RUN_PAIR(eintr__storm_into_blocked_calls);
	RUN_PAIR(computing__drains_its_peers);
	T_RUN(unreachable__costs_a_buffer_and_nothing_else);
	return t_done();
}
