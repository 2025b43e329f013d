/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * There is no descriptor to accept with; then the program closes one of its own, of which nobody is told. Accepting goes on
 * all the same, whoever drives the context.
 */
#include <sys/un.h>

#include "lib/record_server.h"
#include "platform/posix/fds.h"
#include "transport/tcp/tcp_internal.h"

#include "engine.h"
#include "inside.h"
#include "plugs.h"

#define IP "127.25.0.2"

static struct urds_ctx *ctx;
static struct urds_sock *sock;
static struct pollfd watch;
static int client;

static uint64_t accepted(void)
{
	return atomic_load(&urds_tcp_stats(ctx->tcp)->accepts);
}

/* A connection waits, and there is nothing to accept it with. */
static void starve(unsigned flags)
{
	struct sockaddr_in to = in4(IP, 16385);
	struct tcp *t;

	ctx = ctx_open(flags | URDS_CONFIG_NO_RECORD);
	CHECK(ctx);
	sock = sock_at(ctx, IP, 4000);
	CHECK(sock);
	if (flags & URDS_CONFIG_NO_THREADS)
		watch = (struct pollfd){.fd = urds_context_fd(ctx), .events = POLLIN};
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* With its spare it would accept and reset. */
	t = urds_tcp_of(ctx->tcp);
	urds_lock_acquire(&t->lock);
	urds_fds_close(t->spare_fd);
	t->spare_fd = -1;
	urds_lock_release(&t->lock);
	CHECK(client >= 0);
	plug_descriptors();
	CHECK_EQ(connect(client, (struct sockaddr *)&to, sizeof to), 0);
}

/* Meanwhile nobody ran in circles: a try makes a round or two of the poller. */
static void finish(void)
{
	uint64_t all[URDS_C_MAX];

	engine_counters(ctx, all);
	CHECK(all[URDS_C_poll_calls] < 1000);
	CHECK_EQ(close(client), 0);
	CHECK_EQ(urds_shutdown(ctx), 0);
}

static void accept__goes_on_by_the_loop_thread(void)
{
	starve(0);
	EVENTUALLY(urds_tcp_is_starved(ctx->tcp));
	CHECK_EQ(accepted(), 0);
	unplug_descriptors();
	EVENTUALLY_S(accepted() == 1, 5);
	finish();
}

/* An event loop, which does nothing unless the descriptor says so. Return: was it called? */
static bool turn(void)
{
	int n = poll(&watch, 1, 1);

	CHECK(n >= 0);
	return n > 0 && urds_progress(ctx) >= 0;
}

/* There is no thread, and nothing but the time that has passed to begin again for. */
static void accept__goes_on_by_an_event_loop(void)
{
	unsigned turns = 0;

	starve(URDS_CONFIG_NO_THREADS);
	EVENTUALLY((turn(), urds_tcp_is_starved(ctx->tcp)));
	/* A try without success is made again and again. */
	for (uint64_t tries = atomic_load(&urds_tcp_stats(ctx->tcp)->accepts_failed), t = 1; t <= 3;
	     t++)
		EVENTUALLY((turns += turn(),
			    atomic_load(&urds_tcp_stats(ctx->tcp)->accepts_failed) >= tries + t));
	CHECK(turns < 100);
	CHECK_EQ(accepted(), 0);
	unplug_descriptors();
	EVENTUALLY_S((turn(), accepted() == 1), 5);
	finish();
}

/* Nor is the record's listener, which other processes ask who they have before them. */
static void accept__of_the_record_goes_on(void)
{
	struct sockaddr_un at;
	socklen_t len = sizeof at;
	struct urds_record *r;
	char m;

	ctx = ctx_open(URDS_CONFIG_NO_THREADS);
	CHECK(ctx);
	CHECK(sock_at(ctx, IP, 4000));
	watch = (struct pollfd){.fd = urds_context_fd(ctx), .events = POLLIN};
	r = ctx->nodes->record;
	CHECK_EQ(getsockname((int)r->name.listener, (struct sockaddr *)&at, &len), 0);
	client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(client >= 0);
	EVENTUALLY((turn(), poll(&watch, 1, 0) == 0));
	plug_descriptors();
	CHECK_EQ(connect(client, (struct sockaddr *)&at, len), 0);
	CHECK_EQ(send(client, "?", 1, 0), 1); /* no request: who sends that is closed */
	CHECK(poll(&watch, 1, 0) == 1);
	/* The descriptor is not readable all the time. */
	EVENTUALLY((turn(), poll(&watch, 1, 0) == 0));
	CHECK(recv(client, &m, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	unplug_descriptors();
	EVENTUALLY_S((turn(), recv(client, &m, 1, MSG_DONTWAIT) == 0), 5);
	finish();
}

static void *receive(void *arg)
{
	char m[8];

	return urds_recv(sock, m, sizeof m, 0) < 0 && errno == EBADF ? sock : NULL;
}

/* Only a call that waits drives the context, without a limit of its own. */
static void accept__goes_on_by_a_call_that_waits(void)
{
	pthread_t id;
	void *rc;

	starve(URDS_CONFIG_NO_THREADS);
	CHECK_EQ(pthread_create(&id, NULL, receive, NULL), 0);
	EVENTUALLY(urds_tcp_is_starved(ctx->tcp));
	unplug_descriptors();
	EVENTUALLY_S(accepted() == 1, 5);
	CHECK_EQ(urds_close(sock), 0);
	CHECK(pthread_join(id, &rc) == 0 && rc == sock);
	finish();
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(accept__goes_on_by_the_loop_thread);
	T_RUN(accept__goes_on_by_an_event_loop);
	T_RUN(accept__goes_on_by_a_call_that_waits);
	T_RUN(accept__of_the_record_goes_on);
	return t_done();
}
