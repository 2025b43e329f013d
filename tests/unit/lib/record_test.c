/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The ownership record, by the public calls; on Windows also against other processes and hostile clients (elsewhere
 * tests/system/ has those).
 */
#include <stdatomic.h>

#include "engine.h"

#include "urds/owner.h"

/* Of this process alone: on Windows all see the same records. */
static char ip_a[24], ip_b[24];

static int owner_of(const char *ip, struct urds_owner *out)
{
	struct sockaddr_in a = in4(ip, 0);

	return urds_owner_ident((struct sockaddr *)&a, sizeof a, out);
}

static void record__says_who_owns_an_address(void)
{
	struct urds_ctx *e = ctx_open(0);
	struct urds_owner o, p;

	CHECK_ERR(owner_of(ip_a, &o), ENOTCONN);
	CHECK(strstr(urds_reason(), ip_a));
	CHECK(sock_at(e, ip_a, 4000) && sock_at(e, ip_b, 4000));
	CHECK_EQ(owner_of(ip_a, &o), 0);
	CHECK_EQ(o.pid, getpid());
	CHECK(o.answered && o.is_ours && o.instance);
	CHECK(o.user[0] && strcmp(o.user, "?") != 0);
	CHECK_EQ(strcmp(o.mode, "embedded"), 0);
	CHECK_EQ(strcmp(o.version, urds_version()), 0);
	CHECK_EQ(strncmp(o.program, "record_test", 11), 0);
	CHECK_EQ(owner_of(ip_b, &p), 0);
	CHECK(p.instance == o.instance);
	CHECK_EQ(urds_shutdown(e), 0);
	CHECK_ERR(owner_of(ip_a, &o), ENOTCONN);
}

static void record__tells_a_second_owner_about_the_first(void)
{
	struct urds_ctx *e = ctx_open(0), *f = ctx_open(0);
	struct urds_sock *s = urds_socket(f);
	char pid[32];

	snprintf(pid, sizeof pid, "this process, pid %d", (int)getpid());
	CHECK(s && sock_at(e, ip_a, 4000));
	CHECK_ERR(bind4(s, ip_a, 4001), EADDRINUSE);
	CHECK(strstr(urds_reason(), ip_a) && strstr(urds_reason(), " is owned by") &&
	      strstr(urds_reason(), pid));
	CHECK_EQ(urds_shutdown(e), 0);
	CHECK_EQ(bind4(s, ip_a, 4001), 0); /* at once */
	CHECK_EQ(urds_shutdown(f), 0);
}

/* Where it is in the list, or -1. Other programs may own addresses too. */
static int listed(const char *ip)
{
	static struct sockaddr_storage v[1024];
	struct sockaddr_in a = in4(ip, 0);
	int n = urds_owner_list(v, 1024);

	for (int i = 0; i < n; i++) {
		struct sockaddr_in *b = (void *)&v[i];

		if (b->sin_family == AF_INET && b->sin_addr.s_addr == a.sin_addr.s_addr)
			return i;
	}
	return -1;
}

static void record__is_listed_while_it_is_held(void)
{
	struct urds_ctx *e = ctx_open(0);

	CHECK(urds_owner_list(NULL, 0) >= 0);
	CHECK_EQ(listed(ip_a), -1);
	CHECK(sock_at(e, ip_b, 4000) && sock_at(e, ip_a, 4000));
	CHECK(urds_owner_list(NULL, 0) >= 2);
	CHECK(listed(ip_a) >= 0 && listed(ip_b) > listed(ip_a));
	CHECK_EQ(urds_shutdown(e), 0);
	CHECK(listed(ip_a) < 0 && listed(ip_b) < 0);
}

static void record__answers_its_own_user(void)
{
	struct urds_ctx *e = ctx_open(0);
	struct urds_sock *s = sock_at(e, ip_a, 4000), *r = sock_at(e, ip_b, 4000);
	struct sockaddr_in a = in4(ip_a, 0), b = in4(ip_b, 0);
	size_t size = 0;
	void *buf = NULL;
	char m[8];
	int n;

	CHECK(s && r);
	CHECK_EQ(urds_owner_info((struct sockaddr *)&a, sizeof a, URDS_INFO_COUNTERS, &buf, &size),
		 40);
	CHECK(size > 40 && size % 40 == 0 && strcmp(buf, "conn_reset") == 0);
	free(buf);
	CHECK_ERR(urds_owner_info((struct sockaddr *)&a, sizeof a, 4711, &buf, &size), ENOPROTOOPT);
	/* More than a pipe or a socket holds. */
	for (int i = 0; i < 5000; i++)
		CHECK(sock_at(e, i % 2 ? ip_a : ip_b, 0));
	n = urds_owner_info((struct sockaddr *)&a, sizeof a, URDS_INFO_SOCKETS, &buf, &size);
	CHECK(n > 0 && size == 5002 * (size_t)n && size > 100000);
	free(buf);
	CHECK_ERR(
		urds_owner_reset((struct sockaddr *)&a, sizeof a, (struct sockaddr *)&b, sizeof b),
		ENOTCONN);
	CHECK_EQ(send4(s, "1", 1, 0, ip_b, 4000), 1);
	CHECK_EQ(urds_recv(r, m, sizeof m, 0), 1);
	CHECK_EQ(urds_owner_reset((struct sockaddr *)&a, sizeof a, (struct sockaddr *)&b, sizeof b),
		 1);
	CHECK_EQ(urds_shutdown(e), 0);
	CHECK_ERR(urds_owner_info((struct sockaddr *)&a, sizeof a, URDS_INFO_COUNTERS, &buf, &size),
		  ENOTCONN);
}

static void record__pings_for_others(void)
{
	struct urds_ctx *e = ctx_open(0);
	struct sockaddr_in a = in4(ip_a, 0), b = in4(ip_b, 0), nobody = in4("127.42.251.1", 0),
			   from;
	struct urds_owner_ping *p;
	struct urds_owner_pong pong;

	CHECK(sock_at(e, ip_a, 4000) && sock_at(e, ip_b, 4000));
	CHECK_EQ(urds_owner_ping_open((struct sockaddr *)&a, sizeof a, &p), 0);
	for (int round = 0; round < 20; round++) {
		unsigned slots = 0;

		for (unsigned i = 0; i < URDS_OWNER_PING_SLOTS; i++)
			CHECK_EQ(urds_owner_ping_send(p, i, (struct sockaddr *)&b, sizeof b), 0);
		for (unsigned i = 0; i < URDS_OWNER_PING_SLOTS; i++) {
			CHECK_EQ(urds_owner_ping_recv(p, &pong, 20000), 1);
			CHECK_EQ(pong.err, 0);
			memcpy(&from, &pong.from, sizeof from);
			CHECK(from.sin_addr.s_addr == b.sin_addr.s_addr);
			slots |= 1u << pong.slot;
		}
		CHECK_EQ(slots, 255);
	}
	/* One that comes late: its address has no owner yet. */
	CHECK_EQ(urds_owner_ping_send(p, 3, (struct sockaddr *)&nobody, sizeof nobody), 0);
	CHECK_EQ(urds_owner_ping_recv(p, &pong, 100), 0);
	CHECK(sock_at(e, "127.42.251.1", 4000));
	CHECK_EQ(urds_owner_ping_recv(p, &pong, 20000), 1);
	CHECK(pong.slot == 3 && pong.err == 0 && pong.rtt_ns >= 100000000);
	/* One that never comes goes with the asker. */
	nobody = in4("127.42.251.2", 0);
	CHECK_EQ(urds_owner_ping_send(p, 4, (struct sockaddr *)&nobody, sizeof nobody), 0);
	CHECK_EQ(urds_owner_ping_recv(p, &pong, 1), 0);
	CHECK_EQ(urds_shutdown(e), 0);
	CHECK_ERR(urds_owner_ping_recv(p, &pong, 20000), ENOTCONN);
	urds_owner_ping_close(p);
}

static void *asks_all_the_time(void *arg)
{
	_Atomic bool *stop = arg;
	struct urds_owner o;
	intptr_t n = 0;

	while (!atomic_load(stop))
		if (owner_of(ip_a, &o) == 0 && o.answered)
			n++;
	return (void *)n;
}

/* Taken and dropped, again and again, while others ask. */
static void record__comes_and_goes(void)
{
	_Atomic bool stop = false;
	pthread_t id[2];
	void *n;

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&id[i], NULL, asks_all_the_time, &stop), 0);
	for (int round = 0; round < 30; round++) {
		struct urds_ctx *e = ctx_open(0);
		struct urds_owner o;

		CHECK(sock_at(e, ip_a, 4000) && sock_at(e, ip_b, 4000));
		CHECK_EQ(owner_of(ip_b, &o), 0);
		CHECK(o.answered);
		CHECK_EQ(urds_shutdown(e), 0);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(id[i], &n), 0);
		printf("# %d answers\n", (int)(intptr_t)n);
	}
}

#ifdef _WIN32
/* Another process of this program, that owns @ip until it is ended. */
static HANDLE other_owner(const char *ip)
{
	STARTUPINFOA si = {.cb = sizeof si};
	PROCESS_INFORMATION pi;
	char self[MAX_PATH], line[MAX_PATH + 64];

	GetModuleFileNameA(NULL, self, sizeof self);
	snprintf(line, sizeof line, "\"%s\" own %s", self, ip);
	if (!CreateProcessA(self, line, NULL, NULL, FALSE, 0, NULL, NULL, &si, &pi))
		return NULL;
	CloseHandle(pi.hThread);
	return pi.hProcess;
}

static void record__of_another_process_that_is_killed(void)
{
	HANDLE child = other_owner(ip_a);
	struct urds_ctx *e = ctx_open(0);
	struct urds_sock *s = urds_socket(e);
	struct urds_owner o;

	CHECK(child && s);
	EVENTUALLY(owner_of(ip_a, &o) == 0 && o.answered);
	CHECK_EQ(o.pid, (int)GetProcessId(child));
	CHECK(o.is_ours);
	CHECK_ERR(bind4(s, ip_a, 4000), EADDRINUSE);
	CHECK(strstr(urds_reason(), "record_test"));
	CHECK(TerminateProcess(child, 9));
	CHECK_EQ(WaitForSingleObject(child, 20000), WAIT_OBJECT_0);
	CloseHandle(child);
	EVENTUALLY(bind4(s, ip_a, 4000) == 0);
	CHECK_EQ(urds_shutdown(e), 0);
}

static HANDLE raw_client(void)
{
	char name[64];
	HANDLE h = INVALID_HANDLE_VALUE;

	snprintf(name, sizeof name, "\\\\.\\pipe\\urds-owner-%s", ip_a);
	for (int i = 0; i < 2000; i++) {
		h = CreateFileA(name, FILE_READ_DATA | FILE_WRITE_DATA | SYNCHRONIZE, 0, NULL,
				OPEN_EXISTING, 0, NULL);
		if (h != INVALID_HANDLE_VALUE || GetLastError() != ERROR_PIPE_BUSY)
			return h;
		Sleep(1);
	}
	return h;
}

/* Who says nothing, nonsense or too much, and who comes too often, hurts nobody else. */
static void record__bears_hostile_clients(void)
{
	static char junk[8192];
	struct urds_ctx *e = ctx_open(0);
	HANDLE silent[10];
	struct urds_owner o;
	DWORD n;

	CHECK(sock_at(e, ip_a, 4000));
	for (int i = 0; i < 10; i++) {
		silent[i] = raw_client();
		CHECK(silent[i] != INVALID_HANDLE_VALUE);
	}
	for (int i = 0; i < 50; i++) {
		HANDLE h = raw_client();

		CHECK(h != INVALID_HANDLE_VALUE);
		if (i % 3)
			CHECK(WriteFile(h, junk, i % 3 == 1 ? 12 : sizeof junk, &n, NULL));
		CloseHandle(h);
	}
	CHECK_EQ(owner_of(ip_a, &o), 0);
	CHECK(o.answered);
	/* The silent ones are sent away. */
	for (int i = 0; i < 10; i++) {
		CHECK(!ReadFile(silent[i], junk, sizeof junk, &n, NULL));
		CloseHandle(silent[i]);
	}
	CHECK_EQ(urds_shutdown(e), 0);
}
#endif

int main(int argc, char **argv)
{
	own_network();
	if (argc == 3 && strcmp(argv[1], "own") == 0) {
		alarm(60 * slow());
		if (!sock_at(NULL, argv[2], 4000))
			return 1;
		for (;;)
			nap_ms(1000);
	}
	snprintf(ip_a, sizeof ip_a, "127.42.%u.%u", (unsigned)getpid() / 100 % 250,
		 (unsigned)getpid() % 100 * 2 + 1);
	snprintf(ip_b, sizeof ip_b, "127.42.%u.%u", (unsigned)getpid() / 100 % 250,
		 (unsigned)getpid() % 100 * 2 + 2);
	T_INIT(argc, argv);
	alarm(100 * slow());
	T_RUN(record__says_who_owns_an_address);
	T_RUN(record__tells_a_second_owner_about_the_first);
	T_RUN(record__is_listed_while_it_is_held);
	T_RUN(record__answers_its_own_user);
	T_RUN(record__pings_for_others);
	T_RUN(record__comes_and_goes);
#ifdef _WIN32
	T_RUN(record__of_another_process_that_is_killed);
	T_RUN(record__bears_hostile_clients);
#endif
	return t_done();
}
