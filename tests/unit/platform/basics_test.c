/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The small pieces: clock, random, errno, addresses, regions, threads, identity.
 */
#include <errno.h>

#ifndef _WIN32
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/errno.h"
#include "platform/ident.h"
#include "platform/net.h"
#include "platform/random.h"
#include "platform/region.h"
#include "platform/thread.h"
#include "system.h"
#include "tap.h"

static void clock__goes_forward(void)
{
	urds_ns t0 = urds_clock_ns(), t1 = t0;

	CHECK(t0 != 0);
	for (int i = 0; i < 1000; i++) {
		urds_ns t = urds_clock_ns();

		CHECK(t >= t1);
		t1 = t;
	}
	/* After 2020, before 2200. */
	CHECK(urds_wall_ns() > 1577836800ull * 1000000000u);
	CHECK(urds_wall_ns() < 7258118400ull * 1000000000u);
}

static void random__differs(void)
{
	uint8_t a[300] = {0}, b[300] = {0};

	CHECK(urds_random64() != urds_random64());
	urds_random_fill(a, sizeof(a));
	urds_random_fill(b, sizeof(b));
	CHECK(memcmp(a, b, sizeof(a)) != 0);
	CHECK(memcmp(a + 290, "\0\0\0\0\0\0\0\0\0\0", 10) != 0);
}

static void errno__every_error_has_a_number_and_a_name(void)
{
	for (int e = 1; e < URDS_ERR_MAX; e++) {
		int sys = urds_err_to_errno(e);

		CHECK(sys > 0);
		CHECK_EQ(urds_err_to_errno(-e), sys);
		CHECK(strncmp(urds_err_name(-e), "URDS_E", 6) == 0);
		/* One number for one error, but for the two decoder answers. */
		CHECK_EQ(urds_err_from_errno(sys), e == URDS_ESHORT ? URDS_EPROTO : e);
	}
}

static void errno__known_rows(void)
{
	CHECK_EQ(urds_err_to_errno(0), 0);
	CHECK_EQ(urds_err_from_errno(0), 0);
	CHECK_EQ(urds_err_to_errno(URDS_ECONG), ENOBUFS);
	CHECK_EQ(urds_err_to_errno(-URDS_EAGAIN), EAGAIN);
	CHECK_EQ(urds_err_to_errno(9999), EIO);
	CHECK_EQ(urds_err_from_errno(99999), URDS_EIO);
	CHECK_EQ(urds_err_from_errno(EWOULDBLOCK), URDS_EAGAIN);
	CHECK_EQ(urds_err_from_errno(ENETUNREACH), URDS_EUNREACH);
	CHECK_EQ(urds_err_from_errno(EPIPE), URDS_ECONNRESET);
	CHECK_EQ(urds_err_from_errno(ENFILE), URDS_EMFILE);
	CHECK(urds_err_name(9999) != NULL);
}

#ifdef _WIN32
static void errno__of_winsock(void)
{
	CHECK_EQ(urds_err_from_system(0), 0);
	CHECK_EQ(urds_err_from_system(WSAEWOULDBLOCK), URDS_EAGAIN);
	CHECK_EQ(urds_err_from_system(WSAECONNREFUSED), URDS_ECONNREFUSED);
	CHECK_EQ(urds_err_from_system(ERROR_NETNAME_DELETED), URDS_ECONNRESET);
	CHECK_EQ(urds_err_from_system(ERROR_OPERATION_ABORTED), URDS_ECANCELED);
	CHECK_EQ(urds_err_from_system(WSAEADDRNOTAVAIL), URDS_EADDRNOTAVAIL);
	CHECK_EQ(urds_err_from_system(999999), URDS_EIO);
}
#endif

static void addr__text_both_ways(void)
{
	static const struct {
		const char *in, *out; /* out NULL: refused */
	} row[] = {
		{"10.0.0.1", "10.0.0.1"},
		{"::ffff:10.0.0.1", "10.0.0.1"},
		{"0.0.0.0", "0.0.0.0"},
		{"255.255.255.255", "255.255.255.255"},
		{"::", "::"},
		{"::1", "::1"},
		{"FD00:0:0:0::2", "fd00::2"},
		{"fe80::1", "fe80::1"},
#ifdef _WIN32
		{"fe80::1%77", "fe80::1%77"},
#else
		{"fe80::1%lo", "fe80::1%lo"},
		{"fe80::1%1", "fe80::1%lo"},
#endif
		{"fe80::1%4000000", "fe80::1%4000000"},
		{"fe80::1%4294967296", NULL},
		{"fe80::1%", NULL},
		{"fe80::1%0", NULL},
		{"fe80::1%nosuch", NULL},
		{"fe80::1%-1", NULL},
		{"fd00::1%lo", NULL},
		{"10.0.0.1%lo", NULL},
		{"", NULL},
		{"10.0.0", NULL},
		{"10.0.0.256", NULL},
		{" 10.0.0.1", NULL},
		{"10.0.0.1 ", NULL},
		{"localhost", NULL},
		{"1:2:3:4:5:6:7:8:9", NULL},
		{"11111111111111111111111111111111111111111111111111111111111111111", NULL},
	};
	char text[URDS_ADDR_STRLEN], tiny[4];

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct urds_addr a, before;
		int rc;

		memset(&a, 0x77, sizeof(a));
		before = a;
		rc = urds_addr_parse(&a, row[i].in);
		if (!row[i].out) {
			if (rc != -URDS_EINVAL)
				T_FAIL("'%s' was taken: %d", row[i].in, rc);
			CHECK_MEM(&a, &before, sizeof(a));
			continue;
		}
		CHECK_EQ(rc, 0);
		urds_addr_format(text, sizeof(text), &a);
		if (strcmp(text, row[i].out) != 0)
			T_FAIL("%s became %s, not %s", row[i].in, text, row[i].out);
		urds_addr_format(tiny, sizeof(tiny), &a);
		CHECK(strlen(tiny) < sizeof(tiny));
	}
}

static void addr__sockaddr_both_ways(void)
{
	static const char *const text[] = {"10.1.2.3", "fd00::5", "fe80::7%3"};
	struct sockaddr_storage ss;
	struct urds_addr a, b;
	uint16_t port = 0;
	char odd[sizeof(ss) + 1];
	size_t len;

	for (size_t i = 0; i < 3; i++) {
		CHECK_EQ(urds_addr_parse(&a, text[i]), 0);
		len = urds_addr_to_sockaddr(&a, 4711, &ss);
		CHECK_EQ(ss.ss_family, i == 0 ? AF_INET : AF_INET6);
		CHECK_EQ(len, i == 0 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
		memcpy(odd + 1, &ss, len);
		CHECK_EQ(urds_addr_from_sockaddr(&b, &port, (void *)(odd + 1), len), 0);
		CHECK(urds_addr_eq(&a, &b));
		CHECK_EQ(port, 4711);
		CHECK_EQ(urds_addr_from_sockaddr(&b, NULL, (void *)&ss, len), 0);
		for (size_t cut = 0; cut < (i == 0 ? len : len - 4); cut++)
			CHECK_EQ(urds_addr_from_sockaddr(&b, &port, (void *)&ss, cut),
				 -URDS_EINVAL);
	}
	/* A scope on what is not link-local is somebody's leftover. */
	CHECK_EQ(urds_addr_parse(&a, "fd00::5"), 0);
	len = urds_addr_to_sockaddr(&a, 1, &ss);
	((struct sockaddr_in6 *)&ss)->sin6_scope_id = 9;
	CHECK_EQ(urds_addr_from_sockaddr(&b, NULL, (void *)&ss, len), 0);
	CHECK_EQ(b.scope, 0);
	ss.ss_family = AF_UNIX;
	CHECK_EQ(urds_addr_from_sockaddr(&b, NULL, (void *)&ss, sizeof(ss)), -URDS_EAFNOSUPPORT);
}

static void region__is_aligned_and_lazy(void)
{
	char *r[8];

	for (int i = 0; i < 8; i++) {
		size_t bytes = i < 4 ? URDS_REGION_BYTES : (size_t)4096 << i;

		r[i] = urds_region_map(bytes);
		CHECK(r[i] != NULL);
		CHECK_EQ((uintptr_t)r[i] & (bytes - 1), 0);
		r[i][0] = r[i][bytes - 1] = 1;
	}
	urds_region_decommit(r[0], 4096);
	CHECK(r[0][0] == 0 || r[0][0] == 1);
	r[0][0] = 2;
	CHECK_EQ(r[0][0], 2);
	CHECK_EQ(r[0][URDS_REGION_BYTES - 1], 1);
	for (int i = 0; i < 8; i++)
		urds_region_unmap(r[i], i < 4 ? URDS_REGION_BYTES : (size_t)4096 << i);
	CHECK(urds_region_map((size_t)1 << 62) == NULL);
}

#ifndef _WIN32
static void region__is_not_inherited(void)
{
	char *r = urds_region_map(URDS_REGION_BYTES), c = 0;
	int status, fd[2];
	pid_t pid;

	r[0] = 0x5a;
	CHECK_EQ(pipe(fd), 0);
	pid = fork();
	if (pid == 0) {
		/* Raw: a sanitizer's write() would touch the page itself. And its runtime may have
		 * put something of its own into the hole; then it is not our byte. */
		(void)!syscall(SYS_write, fd[1], r, 1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
	close(fd[1]);
	CHECK(read(fd[0], &c, 1) == 0 || c != 0x5a);
	close(fd[0]);
	urds_region_unmap(r, URDS_REGION_BYTES);
}
#endif

static _Atomic int once_runs;
static struct urds_once once;
static _Atomic uintptr_t ids[4];
static _Atomic int signals_open, here;

static void first(void)
{
	for (volatile int i = 0; i < 1000000; i++)
		;
	atomic_fetch_add(&once_runs, 1);
}

static void look_at_signals(void)
{
#ifndef _WIN32
	sigset_t set;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	if (!sigismember(&set, SIGTERM) || !sigismember(&set, SIGALRM))
		atomic_fetch_add(&signals_open, 1);
#endif
}

static void thread_body(void *arg)
{
	urds_once(&once, first);
	if (atomic_load(&once_runs) != 1)
		atomic_store(&once_runs, -100);
	look_at_signals();
	atomic_store(&ids[(uintptr_t)arg], urds_thread_id());
	atomic_fetch_add(&here, 1);
	while (atomic_load(&here) < 4) /* all alive at once, or ids may repeat */
		urds_thread_yield();
}

static void thread__starts_blocked_named_once(void)
{
	struct urds_thread t[4] = {0};

	for (uintptr_t i = 0; i < 4; i++)
		CHECK_EQ(urds_thread_start(&t[i], "a-name-longer-than-it-may-be", thread_body,
					   (void *)i),
			 0);
	for (int i = 0; i < 4; i++) {
		urds_thread_join(&t[i]);
		urds_thread_join(&t[i]); /* does nothing */
	}
	CHECK_EQ(once_runs, 1);
	CHECK_EQ(signals_open, 0);
	for (int i = 0; i < 4; i++) {
		CHECK(ids[i] != 0 && ids[i] != urds_thread_id());
		for (int k = 0; k < i; k++)
			CHECK(ids[i] != ids[k]);
	}
	CHECK_EQ(urds_thread_id(), urds_thread_id());
	CHECK(urds_cpu_current() >= 0);
}

static void ident__is_us(void)
{
	struct urds_ident id;

	memset(&id, 0x55, sizeof(id));
	urds_ident_self(&id);
#ifdef _WIN32
	CHECK_EQ(id.pid, GetCurrentProcessId());
	CHECK_EQ(id.uid, 0);
#else
	CHECK_EQ(id.pid, getpid());
	CHECK_EQ(id.uid, geteuid());
#endif
	CHECK(id.user[0] != '\0');
	CHECK(strncmp(id.exe, "platform_basics", 15) == 0 || strncmp(id.exe, "qemu", 4) == 0);
	CHECK_EQ(id.exe[sizeof(id.exe) - 1], 0);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	system_init();
	T_RUN(clock__goes_forward);
	T_RUN(random__differs);
	T_RUN(errno__every_error_has_a_number_and_a_name);
	T_RUN(errno__known_rows);
#ifdef _WIN32
	T_RUN(errno__of_winsock);
#endif
	T_RUN(addr__text_both_ways);
	T_RUN(addr__sockaddr_both_ways);
	T_RUN(region__is_aligned_and_lazy);
#ifndef _WIN32
	T_RUN(region__is_not_inherited);
#endif
	T_RUN(thread__starts_blocked_named_once);
	T_RUN(ident__is_us);
	return t_done();
}
