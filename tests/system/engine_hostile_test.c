/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Stray and hostile clients on the service port while two peers exchange verified messages in both directions: no
 * message is lost, doubled or reordered, none is forged into a stream, no connection is made anew, and memory
 * stays bounded. The clients come from strange addresses and from the peers' own.
 */
#include <sys/resource.h>

#include "runtime/engine.h"
#include "wire/probe.h"

#include "engine.h"

#define PORT 16385
#define SIZE 200u
#define IP_A "127.24.0.1"
#define IP_B "127.24.0.2"

struct side {
	_Atomic uint64_t sent, received;
	_Atomic uint32_t bad; /* out of order, damaged, or not the peer's */
	_Atomic uint64_t resets, parked, evicted, refused, protocol_errors;
	_Atomic uint64_t retransmitted, relinked; /* by, of the connection of the two */
	_Atomic uint64_t small, mapped, peers, rss_kb;
};

struct shared_state {
	_Atomic bool stop;
	struct side side[2];
};

static struct shared_state *m;
static pid_t pids[2];

/* ---------------------------------------------------------------- the two peers */

static struct urds_sock *sock;
static struct side *me_;
static const char *peer_ip;

static void *sender(void *arg)
{
	uint8_t b[SIZE];

	for (uint64_t n = 0; !atomic_load(&m->stop); n++) {
		fill_msg(b, SIZE, n);
		if (send4(sock, b, SIZE, 0, peer_ip, 4000) != (ssize_t)SIZE)
			_exit(4);
		atomic_store(&me_->sent, n + 1);
		if (n % 32 == 31)
			nap_ms(1);
	}
	return NULL;
}

static void *publisher(void *arg)
{
	struct urds_addr local = {{[10] = 0xff, 0xff, 127, 24, 0, me_ == &m->side[1] ? 2 : 1}, 0},
			 remote = local;
	struct urds_link *was = NULL, *l;
	struct urds_ctx *e = arg;
	struct peer *p;

	remote.ip[15] ^= 3;
	for (;;) {
		FILE *f = fopen("/proc/self/statm", "r");
		long total, rss = 0;

		if (f && fscanf(f, "%ld %ld", &total, &rss) != 2)
			rss = 0;
		if (f)
			fclose(f);
		atomic_store(&me_->resets, atomic_load(&e->counters[URDS_C_conn_reset]));
		atomic_store(&me_->parked, atomic_load(&e->counters[URDS_C_conn_parked]));
		atomic_store(&me_->evicted, atomic_load(&e->counters[URDS_C_conn_evicted]));
		atomic_store(&me_->refused, atomic_load(&e->counters[URDS_C_conn_refused]));
		atomic_store(&me_->protocol_errors,
			     atomic_load(&e->counters[URDS_C_conn_protocol_error]));
		atomic_store(&me_->retransmitted,
			     atomic_load(&e->counters[URDS_C_send_retransmitted]));
		p = peer_find(e, &local, &remote);
		l = NULL;
		if (p) {
			urds_lock_acquire(&p->lock);
			if (p->path0)
				l = atomic_load(&p->path0->link);
			urds_lock_release(&p->lock);
			peer_drop(p);
		}
		if (was && l != was)
			atomic_fetch_add(&me_->relinked, 1);
		was = l ? l : was;
		atomic_store(&me_->small, atomic_load(&e->pool.small));
		urds_rwlock_read_acquire(&e->table);
		atomic_store(&me_->peers, e->npeers);
		urds_rwlock_read_release(&e->table);
		urds_lock_acquire(&e->pool.lock);
		atomic_store(&me_->mapped, e->pool.mapped);
		urds_lock_release(&e->pool.lock);
		atomic_store(&me_->rss_kb, (uint64_t)rss * 4);
		nap_ms(10);
	}
	return NULL;
}

static void peer_main(unsigned i)
{
	struct rlimit nofile = {8192, 8192};
	struct urds_ctx *e = ctx_open(0);
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	uint8_t b[2000];
	pthread_t id;

	setrlimit(RLIMIT_NOFILE, &nofile);
	me_ = &m->side[i];
	peer_ip = i ? IP_A : IP_B;
	sock = sock_at(e, i ? IP_B : IP_A, 4000);
	if (!sock)
		_exit(3);
	pthread_create(&id, NULL, publisher, e);
	pthread_create(&id, NULL, sender, NULL);
	for (uint64_t next = 0;;) {
		ssize_t rc = urds_recvfrom(sock, b, sizeof b, 0, (struct sockaddr *)&from, &len);

		if (rc < 0)
			_exit(5);
		if (!check_msg(b, (size_t)rc, next) || rc != (ssize_t)SIZE ||
		    ntohs(from.sin_port) != 4000) {
			if (atomic_fetch_add(&me_->bad, 1) == 0)
				printf("# side %u: %zd bytes from port %u in place of message %llu\n",
				       i, rc, ntohs(from.sin_port), (unsigned long long)next);
			continue;
		}
		next++;
		atomic_store(&me_->received, next);
	}
}

static void peers_start(void)
{
	m = shared(sizeof *m);
	for (unsigned i = 0; i < 2; i++) {
		pids[i] = spawn();
		if (pids[i] == 0)
			peer_main(i);
	}
	for (unsigned i = 0; i < 2; i++)
		EVENTUALLY(atomic_load(&m->side[i].received) > 1000);
}

static void peers_stop(void)
{
	atomic_store(&m->stop, true);
	for (unsigned i = 0; i < 2; i++)
		EVENTUALLY(atomic_load(&m->side[i].received) == atomic_load(&m->side[!i].sent));
	for (unsigned i = 0; i < 2; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		CHECK_EQ(atomic_load(&m->side[i].bad), 0);
	}
	munmap(m, sizeof *m);
}

/* Traffic goes on, nothing is wrong, no connection was lost since the start. */
static void check_live(const char *what)
{
	uint64_t was[2] = {atomic_load(&m->side[0].received), atomic_load(&m->side[1].received)};

	for (unsigned i = 0; i < 2; i++) {
		EVENTUALLY_S(atomic_load(&m->side[i].received) > was[i] + 200, 3);
		if (atomic_load(&m->side[i].bad))
			T_FAIL("%s: side %u got %u messages that are not its peer's, in order",
			       what, i, atomic_load(&m->side[i].bad));
		if (atomic_load(&m->side[i].relinked) || atomic_load(&m->side[i].retransmitted))
			T_FAIL("%s: side %u lost its connection, retransmitted %llu", what, i,
			       (unsigned long long)atomic_load(&m->side[i].retransmitted));
	}
}

/* ---------------------------------------------------------------- clients */

/* A connection to @to from @from (NULL: whatever), its source port being @lane modulo 8 (-1: any). */
static int client(const char *from, const char *to, int lane)
{
	struct sockaddr_in a = in4(to, PORT);
	int fd = -1;

	for (unsigned try = 0; try < 2000; try++) {
		struct sockaddr_in b = in4(from ? from : "127.0.0.1", 0);
		unsigned port =
			lane < 0 ? 0 : 20000 + (try + (unsigned)rand() % 1000) * 8 + (unsigned)lane;

		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -1;
		b.sin_port = htons((uint16_t)port);
		if (bind(fd, (struct sockaddr *)&b, sizeof b) == 0 &&
		    connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
			return fd;
		close(fd);
		fd = -1;
		if (lane < 0)
			break;
	}
	return fd;
}

static const char *const sources[] = {"127.24.0.50", "127.3.3.3", IP_A, IP_B};
static const char *const targets[] = {IP_A, IP_B};

#define EACH_CLIENT(fd, per)                                                       \
	for (unsigned s_ = 0; s_ < 4; s_++)                                        \
		for (unsigned t_ = 0; t_ < 2; t_++)                                \
			for (unsigned i_ = 0, fd##_n = 0; i_ < (per); i_++)        \
				for (int fd = client(sources[s_], targets[t_],     \
						     fd##_n ? -1 : (int)(i_ % 8)); \
				     fd >= 0; fd = -1)

static int held[4096];
static unsigned nheld;

static void hold(int fd)
{
	if (nheld < sizeof held / sizeof held[0])
		held[nheld++] = fd;
	else
		close(fd);
}

static void let_go(void)
{
	while (nheld > 0)
		close(held[--nheld]);
}

static void push(int fd, const void *p, size_t len)
{
	if (send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* it hung up already: fine */
}

static void garbage(void)
{
	static uint8_t b[65536];

	for (size_t i = 0; i < sizeof b; i++)
		b[i] = (uint8_t)rand();
	EACH_CLIENT(fd, 8)
	{
		push(fd, b + rand() % 1000, 60000);
		hold(fd);
	}
	check_live("garbage");
	let_go();
	EACH_CLIENT(fd, 8)
	{
		push(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
		close(fd);
	}
	check_live("HTTP");
}

static void half_a_header(void)
{
	uint8_t h[URDS_HDR_LEN];

	urds_hdr_put_data(h, 5, 100, 4000, 4000);
	EACH_CLIENT(fd, 8)
	{
		push(fd, h, 20);
		hold(fd);
	}
	EACH_CLIENT(fd, 8)
	hold(fd); /* and some that say nothing */
	check_live("held connections");
	let_go();
	check_live("held connections closed");
}

static void endless_length(void)
{
	uint8_t h[URDS_HDR_LEN];

	EACH_CLIENT(fd, 8)
	{
		urds_hdr_put_data(h, 5, 0, 4000, 4000);
		memset(h + URDS_HDR_OFF_LEN, 0xff, 4);
		push(fd, h, sizeof h);
		hold(fd);
	}
	check_live("length 0xffffffff");
	let_go();
}

/* Half of a megabyte that never goes on, many times. */
static void half_a_message(void)
{
	static uint8_t b[URDS_HDR_LEN + 500000];

	EACH_CLIENT(fd, 8)
	{
		urds_hdr_put_data(b, 5, 1 << 20, 4000, 4999);
		push(fd, b, sizeof b);
		hold(fd);
	}
	check_live("half a message");
	printf("# half a message, %u times: mapped %llu + %llu KiB\n", nheld,
	       (unsigned long long)atomic_load(&m->side[0].mapped) / 1024,
	       (unsigned long long)atomic_load(&m->side[1].mapped) / 1024);
	let_go();
}

static void thousand_connections(void)
{
	uint64_t before[2], rss[2];
	uint8_t h[URDS_HDR_LEN];
	char ip[32];

	for (unsigned i = 0; i < 2; i++) {
		before[i] = atomic_load(&m->side[i].small);
		rss[i] = atomic_load(&m->side[i].rss_kb);
	}
	urds_hdr_put_data(h, 5, 100, 4000, 4999);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(ip, sizeof ip, "127.5.%u.%u", i / 250, i % 250 + 1);
		hold(client(ip, targets[i & 1], -1));
		if (i % 3 == 0)
			push(held[nheld - 1], h, i % 2 ? 30 : sizeof h);
	}
	check_live("1000 connections");
	nap_ms(50);
	for (unsigned i = 0; i < 2; i++)
		printf("# 500 connections from 500 addresses, side %u: %llu bytes of ours each; resident memory %llu -> "
		       "%llu KiB; %llu peers\n",
		       i, (unsigned long long)(atomic_load(&m->side[i].small) - before[i]) / 500,
		       (unsigned long long)rss[i],
		       (unsigned long long)atomic_load(&m->side[i].rss_kb),
		       (unsigned long long)atomic_load(&m->side[i].peers));
	let_go();
	/* Those that never proved to be peers are forgotten. */
	for (unsigned i = 0; i < 2; i++)
		EVENTUALLY(atomic_load(&m->side[i].peers) < 1000 &&
			   atomic_load(&m->side[i].small) < before[i] + 300000);
	/* All from one address, the peer's own. */
	for (unsigned i = 0; i < 500; i++) {
		hold(client(IP_A, IP_B, -1));
		hold(client(IP_B, IP_A, -1));
	}
	check_live("500 connections each from the peer's address");
	let_go();
	check_live("after them");
}

/* A whole kernel peer, as it would connect and speak, on the live peer's own address: all lanes, in order. */
static void fake_kernel(const char *from, const char *to)
{
	struct urds_probe k61 = {.has_npaths = true, .npaths = 8}, answer = k61;
	uint8_t h[URDS_HDR_LEN], b[SIZE];
	struct pollfd p[8];
	uint64_t seq = 1, end = now_ns() + 7000000000ull;

	for (int lane = 0; lane < 8; lane++) {
		p[lane] = (struct pollfd){.fd = client(from, to, lane), .events = POLLIN};
		if (p[lane].fd < 0)
			continue;
		urds_probe_put(h, false, seq++, &k61);
		push(p[lane].fd, h, sizeof h);
		/* Forged messages of the live socket, one at a time; a stream would count them as bad. */
		for (int i = 0; i < 3; i++) {
			urds_hdr_put_data(h, seq++, SIZE, 4000, 4000);
			fill_msg(b, SIZE, 0x6666666666);
			push(p[lane].fd, h, sizeof h);
			push(p[lane].fd, b, sizeof b);
		}
	}
	/* It answers every probe it gets. */
	while (now_ns() < end && poll(p, 8, 100) >= 0) {
		bool any = false;

		for (int lane = 0; lane < 8; lane++) {
			ssize_t n;

			any |= p[lane].fd >= 0;
			if (p[lane].fd < 0 || !p[lane].revents)
				continue;
			n = recv(p[lane].fd, h, sizeof h, MSG_WAITALL | MSG_DONTWAIT);
			if (n <= 0) {
				close(p[lane].fd);
				p[lane].fd = -1;
			} else if (n == (ssize_t)sizeof h && h[URDS_HDR_OFF_SPORT] == 0 &&
				   h[URDS_HDR_OFF_SPORT + 1] == 1) {
				urds_probe_put(h, true, seq++, &answer);
				push(p[lane].fd, h, sizeof h);
			}
		}
		if (!any)
			break;
	}
	for (int lane = 0; lane < 8; lane++)
		if (p[lane].fd >= 0)
			close(p[lane].fd);
}

/* ---------------------------------------------------------------- cases */

static void strays__have_no_effect(void)
{
	peers_start();
	garbage();
	half_a_header();
	endless_length();
	half_a_message();
	for (unsigned i = 0; i < 2; i++)
		printf("# side %u: parked %llu evicted %llu refused %llu protocol errors %llu\n", i,
		       (unsigned long long)atomic_load(&m->side[i].parked),
		       (unsigned long long)atomic_load(&m->side[i].evicted),
		       (unsigned long long)atomic_load(&m->side[i].refused),
		       (unsigned long long)atomic_load(&m->side[i].protocol_errors));
	CHECK(atomic_load(&m->side[1].parked) > 0);
	EVENTUALLY(atomic_load(&m->side[1].evicted) > 0);
	thousand_connections();
	printf("# %llu and %llu messages received, in order\n",
	       (unsigned long long)atomic_load(&m->side[0].received),
	       (unsigned long long)atomic_load(&m->side[1].received));
	peers_stop();
}

/* The connection of the two peers must not be made anew. Retransmissions would be counted by the sender. */
static void fake_kernel__does_not_take_over(void)
{
	peers_start();
	fake_kernel(IP_A, IP_B);
	check_live("a fake kernel at A's address");
	fake_kernel(IP_B, IP_A);
	check_live("a fake kernel at B's address");
	for (unsigned i = 0; i < 2; i++)
		printf("# side %u: parked %llu evicted %llu connections lost %llu\n", i,
		       (unsigned long long)atomic_load(&m->side[i].parked),
		       (unsigned long long)atomic_load(&m->side[i].evicted),
		       (unsigned long long)atomic_load(&m->side[i].resets));
	peers_stop();
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){8192, 8192});
	T_RUN(strays__have_no_effect);
	T_RUN(fake_kernel__does_not_take_over);
	return t_done();
}
