/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The end of a program that has shut nothing down: the library does it in exit(), from wherever it was loaded, while all
 * threads are still there. What this program registers before the library does runs after it, and looks.
 */
#include <stdatomic.h>

#include "engine.h"

static struct urds_sock *sock;
static pthread_t waiter;
static _Atomic bool has_begun;

static void *wait_for_ever(void *arg)
{
	char b[8];

	atomic_store(&has_begun, true);
	return (void *)(intptr_t)(urds_recv(sock, b, sizeof b, 0) < 0 ? urds_errno() : 0);
}

static void exit__ends_contexts_while_threads_live(void)
{
	char b[8];
	void *how = NULL;

	CHECK_EQ(urds_recv(sock, b, sizeof b, MSG_DONTWAIT), -1);
	CHECK_EQ(urds_errno(), URDS_EBADF);
	/* It was woken; at the end of a process without that it would be gone, or never come back. */
	CHECK_EQ(pthread_join(waiter, &how), 0);
	CHECK_EQ((intptr_t)how, URDS_EBADF);
}

static void look(void)
{
	T_RUN(exit__ends_contexts_while_threads_live);
	if (t_done() != 0) {
		fflush(stdout);
		_exit(1);
	}
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(60 * slow());
	if (atexit(look) != 0)
		return 1;
	sock = sock_at(ctx_open(URDS_CONFIG_NO_RECORD), "127.41.0.1", 4000);
	if (!sock || pthread_create(&waiter, NULL, wait_for_ever, NULL) != 0)
		return 1;
	while (!atomic_load(&has_begun))
		nap_ms(1);
	return 0;
}
