/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Idle is free: a thousand connected peers, and for ten seconds not one system call of any of our threads; what an
 * idle peer and an idle socket cost in memory (allocator and mappings; the kernel's share is not ours).
 *
 * Needs strace for the first; without it that case is skipped.
 */
#include <malloc.h>
#include <sys/resource.h>

#include "runtime/engine.h"

#include "engine.h"

#define PEERS 1000u
#define HUB "127.27.0.1"

struct shared_state {
	_Atomic unsigned heard; /* messages that the hub received */
	_Atomic unsigned answered;
	_Atomic unsigned step;
	_Atomic bool settled[2];
	_Atomic uint64_t base, with_peers, with_socks, mapped[3], small[2];
};

static struct shared_state *m;
static pid_t pids[2];

static uint64_t heap_now(void)
{
	struct mallinfo2 i = mallinfo2();

	return i.uordblks + i.hblkhd;
}

static void limits(void)
{
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){8192, 8192});
	mallopt(M_ARENA_MAX, 1); /* mallinfo2() looks at one */
}

/* Owns a thousand addresses and says one thing from each. */
static void many_main(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	uint8_t b[16];
	char ip[32];

	limits();
	for (unsigned i = 0; i < PEERS; i++) {
		struct urds_sock *s;

		snprintf(ip, sizeof ip, "127.26.%u.%u", i / 250, i % 250 + 1);
		s = sock_at(e, ip, 4000);
		if (!s || send4(s, "hello", 5, 0, HUB, 4000) != 5 ||
		    set_timeo(s, SO_RCVTIMEO, 10000) < 0 || urds_recv(s, b, sizeof b, 0) != 5)
			_exit(3);
		atomic_fetch_add(&m->answered, 1);
	}
	atomic_store(&m->settled[1], true);
	for (;;)
		pause();
}

/* The pool's blocks that were used a moment ago are given back, timers have run out. */
static void settle(struct urds_ctx *e)
{
	for (unsigned quiet = 0; quiet < 20;) {
		nap_ms(100);
		quiet = atomic_load(&e->next_deadline) == URDS_NEVER &&
					atomic_load(&e->pool.used) == 0
				? quiet + 1
				: 0;
	}
}

static void hub_main(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	static struct urds_sock *more[PEERS];
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	struct urds_sock *s;
	uint8_t b[64];

	limits();
	s = sock_at(e, HUB, 4000);
	if (!s)
		_exit(3);
	settle(e);
	atomic_store(&m->base, heap_now());
	atomic_store(&m->mapped[2], e->pool.mapped);
	atomic_store(&m->small[0], atomic_load(&e->pool.small));
	atomic_store(&m->step, 1);
	for (unsigned i = 0; i < PEERS; i++) {
		if (urds_recvfrom(s, b, sizeof b, 0, (struct sockaddr *)&from, &len) != 5 ||
		    urds_sendto(s, b, 5, 0, (struct sockaddr *)&from, len) != 5)
			_exit(4);
		atomic_fetch_add(&m->heard, 1);
	}
	settle(e);
	atomic_store(&m->mapped[0], e->pool.mapped);
	atomic_store(&m->with_peers, heap_now());
	atomic_store(&m->small[1], atomic_load(&e->pool.small));
	for (unsigned i = 0; i < PEERS; i++) {
		more[i] = sock_at(e, HUB, 0);
		if (!more[i])
			_exit(5);
	}
	atomic_store(&m->with_socks, heap_now());
	atomic_store(&m->mapped[1], e->pool.mapped);
	atomic_store(&m->settled[0], true);
	for (;;)
		pause();
}

static bool have_strace(void)
{
	return system("strace -V >/dev/null 2>&1") == 0;
}

/* System calls of all threads of @pid in ten seconds, or -1. */
static int calls_in_ten_seconds(pid_t pid)
{
	char file[64], line[256], cmd[256];
	int calls = -1;
	FILE *f;

	snprintf(file, sizeof file, "/tmp/urds-idle-%d.strace", getpid());
	snprintf(cmd, sizeof cmd, "timeout -s INT 10 strace -f -qq -p %d -o %s 2>/dev/null",
		 (int)pid, file);
	if (system(cmd) < 0)
		return -1;
	f = fopen(file, "r");
	if (!f)
		return -1;
	for (calls = 0; fgets(line, sizeof line, f);) {
		/* What was under way when we came, and still is, is no call. */
		if (strstr(line, "<unfinished ...>") || strstr(line, "<detached ...>") ||
		    strstr(line, "resuming"))
			continue;
		printf("# %s", line);
		calls++;
	}
	fclose(f);
	unlink(file);
	return calls;
}

static void start_all(void)
{
	if (m)
		return;
	m = shared(sizeof *m);
	pids[0] = spawn();
	if (pids[0] == 0)
		hub_main();
	EVENTUALLY(atomic_load(&m->step) == 1);
	pids[1] = spawn();
	if (pids[1] == 0)
		many_main();
	EVENTUALLY_S(atomic_load(&m->settled[0]) && atomic_load(&m->settled[1]), 60);
}

static void idle__memory(void)
{
	double peer, sock;

	start_all();
	peer = (double)(int64_t)(atomic_load(&m->with_peers) + atomic_load(&m->mapped[0]) -
				 atomic_load(&m->base) - atomic_load(&m->mapped[2])) /
	       PEERS;
	sock = (double)(atomic_load(&m->with_socks) - atomic_load(&m->with_peers)) / PEERS;
	printf("# per idle peer %.0f bytes (%.0f counted by the pool; regions mapped in all: %llu KiB); per idle socket "
	       "%.0f bytes\n",
	       peer, (double)(atomic_load(&m->small[1]) - atomic_load(&m->small[0])) / PEERS,
	       (unsigned long long)atomic_load(&m->mapped[0]) / 1024, sock);
	CHECK(sock <= 1024);
	CHECK(peer <= 512);
}

static void idle__no_system_calls(void)
{
	start_all();
	if (!have_strace())
		T_SKIP("strace is not installed");
	nap_ms(1000);
	for (unsigned i = 0; i < 2; i++) {
		int calls = calls_in_ten_seconds(pids[i]);

		printf("# %s: %d system calls in 10 s\n",
		       i ? "the one with a thousand addresses" : "their common peer", calls);
		CHECK_EQ(calls, 0);
	}
}

int main(int argc, char **argv)
{
	own_network();
	limits();
	T_INIT(argc, argv);
	T_RUN(idle__memory);
	T_RUN(idle__no_system_calls);
	return t_done();
}
