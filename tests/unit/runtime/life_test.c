/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A context's life where things go wrong: ends with connections that do not, descriptors and memory that run out,
 * peers that are no peers.
 */
#include "platform/posix/fds.h"
#include "transport/tcp/tcp_internal.h"
#include "wire/hdr.h"

#include "engine.h"
#include "inside.h"
#include "plugs.h"
#include "sanitized.h"

#define IP_S "127.25.0.1" /* the smaller address connects */
#define IP_L "127.25.0.2"
#define STRANGER "127.24.0.9" /* smaller than both */
#define RCVBUF 4096

static unsigned long long counter(struct urds_ctx *e, enum urds_counter c)
{
	uint64_t all[URDS_C_MAX];

	engine_counters(e, all);
	return all[c];
}

static struct path *path_of(struct peer *p)
{
	struct path *h;

	urds_lock_acquire(&p->lock);
	h = p->path0;
	urds_lock_release(&p->lock);
	return h;
}

/* A connection of a program that is no peer, from @from to the service port of @to; or -1. */
static int raw_client(const char *from, const char *to)
{
	struct sockaddr_in a = in4(from, 0), b = in4(to, 16385);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
	    connect(fd, (struct sockaddr *)&b, sizeof b) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---------------------------------------------------------------- the end */

/* The first connection never ends by itself; the next waits for its place. */
static void shutdown__with_a_parked_connection(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	int fds[3];

	CHECK(e && sock_at(e, IP_L, 4000));
	for (unsigned i = 0; i < 3; i++) {
		fds[i] = raw_client(IP_S, IP_L);
		CHECK(fds[i] >= 0);
		EVENTUALLY(counter(e, URDS_C_conn_parked) == i);
	}
	CHECK_EQ(send(fds[1], "", 1, MSG_NOSIGNAL), 1);
	CHECK_EQ(urds_shutdown(e), 0);
	for (unsigned i = 0; i < 3; i++)
		close(fds[i]);
}

/* ---------------------------------------------------------------- floods */

#define FLOOD_MAX (256ull << 20)

/* Tables are replaced before the context has threads. */
static struct urds_data_ops flood;
static const struct urds_data_ops *dry;
static _Atomic bool is_flooded;
static _Atomic unsigned long long flooded;

/* As if the other end sent pings for ever, faster than they are read. All are old: they cost little. */
static enum urds_rx_how flood_rx(struct urds_link *l, const struct urds_iov *v, size_t n,
				 size_t *got)
{
	uint8_t ping[URDS_HDR_LEN];

	if (!atomic_load(&is_flooded))
		return dry->rx(l, v, n, got);
	*got = 0;
	urds_hdr_put_data(ping, 0, 0, 4000, 0);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].len; k++)
			((uint8_t *)v[i].base)[k] =
				ping[(atomic_load_explicit(&flooded, memory_order_relaxed) +
				      (*got)++) %
				     sizeof ping];
	return atomic_fetch_add(&flooded, *got) > FLOOD_MAX ? URDS_RX_ENDED : URDS_RX_NOW;
}

/* A connection that is to be dropped is, however much it sends. */
static void drop__of_a_flood_ends(void)
{
	struct urds_ctx *e = ctx_open(URDS_CONFIG_NO_RECORD);
	struct path *h;
	struct peer *p;
	int fd;

	CHECK(e);
	dry = e->tcp->data;
	flood = *dry;
	flood.rx = flood_rx;
	e->tcp->data = &flood;
	CHECK(sock_at(e, IP_L, 4000));
	fd = raw_client(IP_S, IP_L);
	CHECK(fd >= 0);
	EVENTUALLY(atomic_load(&urds_tcp_stats(e->tcp)->accepts) == 1);
	EVENTUALLY((p = peer_to(e, IP_L, IP_S)) != NULL);
	EVENTUALLY((h = path_of(p)) != NULL && atomic_load(&h->link));
	atomic_store(&is_flooded, true);
	atomic_store(&h->must_drop, true);
	path_receive(h);
	EVENTUALLY(!atomic_load(&h->link)); /* another thread may have been reading it */
	printf("# read %llu MiB\n", atomic_load(&flooded) >> 20);
	CHECK(atomic_load(&flooded) > 0 && atomic_load(&flooded) < FLOOD_MAX);
	peer_drop(p);
	CHECK_EQ(urds_shutdown(e), 0);
	close(fd);
}

/* ---------------------------------------------------------------- a bind that fails half-way */

static struct urds_connect_ops late;
static const struct urds_connect_ops *in_time;
static bool is_late;
static struct urds_ctx *ctx;
static struct urds_sock *binding;
static int stranger;

static struct node *node_of(const char *remote)
{
	struct peer *p = peer_to(ctx, IP_L, remote);
	struct node *n = NULL;

	if (p) {
		n = p->node;
		peer_drop(p);
	}
	return n;
}

static void *send_meanwhile(void *arg)
{
	*(ssize_t *)arg = send4(binding, "x", 1, 0, IP_S, 4000);
	return NULL;
}

static bool is_congested(struct node *n)
{
	bool is;

	urds_lock_acquire(&n->map_lock);
	is = n->map.congested > 0;
	urds_lock_release(&n->map_lock);
	return is;
}

/* The address looks like ours by now: somebody connects and fills the queue, and another thread sends. Then it fails after all. */
static int listen_too_late(struct urds_transport *t, const struct urds_addr *a, void *user,
			   struct urds_listener **out)
{
	uint8_t m[URDS_HDR_LEN + RCVBUF + 1] = {0};
	pthread_t id;
	ssize_t sent = 0;

	if (!is_late)
		return in_time->listen(t, a, user, out);
	stranger = raw_client(STRANGER, IP_L);
	urds_hdr_put_data(m, 1, RCVBUF + 1, 4000, 4001);
	if (stranger < 0 || write(stranger, m, sizeof m) != sizeof m ||
	    pthread_create(&id, NULL, send_meanwhile, &sent) != 0)
		abort();
	pthread_join(id, NULL);
	for (uint64_t end = now_ns() + 20000000000ull;
	     now_ns() < end && !(is_congested(user) && node_of(STRANGER) && node_of(IP_S));)
		nap_ms(1);
	if (sent != 1 || !is_congested(user) || !node_of(STRANGER) || !node_of(IP_S))
		abort();
	return -URDS_EMFILE;
}

/* Whatever was freed is not read again unnoticed. */
static void scribble(void *p[], unsigned n, size_t size)
{
	for (unsigned i = 0; i < n; i++) {
		p[i] = i & 1 ? calloc(1, size) : malloc(size);
		if (p[i])
			memset(p[i], 0xa5, size);
	}
}

static void bind__that_fails_late(void)
{
	struct urds_sock *s;
	void *hog[32];
	uint8_t m[8];

	ctx = ctx_open(URDS_CONFIG_NO_RECORD);
	CHECK(ctx);
	in_time = ctx->loop->connect;
	late = *in_time;
	late.listen = listen_too_late;
	ctx->loop->connect = &late;
	CHECK(sock_at(ctx, IP_S, 4000));
	binding = urds_socket(ctx);
	CHECK(binding);
	CHECK_EQ(set_int(binding, SOL_SOCKET, SO_RCVBUF, RCVBUF), 0);
	is_late = true;
	CHECK_ERR(bind4(binding, IP_L, 4001), EMFILE);
	is_late = false;
	/* Nobody is left who could say that there is room again. */
	CHECK(ctx->lost && !is_congested(ctx->lost));
	scribble(hog, 32, sizeof(struct node));
	/* The message went nowhere: from that address there is none. */
	CHECK_EQ(urds_close(binding), 0);
	/* The same address again: it is everybody's. */
	s = sock_at(ctx, IP_L, 4001);
	CHECK(s);
	CHECK(node_of(STRANGER) && node_of(STRANGER) == ctx->nodes);
	CHECK(node_of(IP_S) && node_of(IP_S) == ctx->nodes);
	CHECK_EQ(send4(s, "y", 1, 0, IP_S, 4000), 1);
	CHECK_EQ(send4(s, "z", 1, 0, IP_L, 4001), 1);
	CHECK_EQ(urds_recv(s, m, sizeof m, 0), 1);
	CHECK_EQ(m[0], 'z');
	CHECK_EQ(urds_shutdown(ctx), 0);
	for (unsigned i = 0; i < 32; i++)
		free(hog[i]);
	close(stranger);
}

/* A bind needs one descriptor, for its listener; it says so if there is none. */
static void bind__without_descriptors(void)
{
	struct urds_sock *s;

	ctx = ctx_open(URDS_CONFIG_NO_RECORD);
	CHECK(ctx && sock_at(ctx, IP_S, 4000));
	s = urds_socket(ctx);
	CHECK(s);
	plug_descriptors();
	CHECK_ERR(bind4(s, IP_L, 4001), EMFILE);
	printf("# %s\n", urds_reason());
	pull_plug();
	CHECK_EQ(bind4(s, IP_L, 4001), 0);
	unplug_descriptors();
	CHECK_EQ(urds_shutdown(ctx), 0);
}

/* ---------------------------------------------------------------- the default context */

static _Atomic int
	in_fopen; /* 1: the next call waits there; 2: it does; 3: it is cancelled there */

/* In place of the C library's: where a context in the making can be caught. */
FILE *fopen(const char *path, const char *mode)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), was = 1;

	if (atomic_compare_exchange_strong(&in_fopen, &was, 2))
		while (atomic_load(&in_fopen) == 2)
			nap_ms(1);
	if (was == 3) {
		pthread_cancel(pthread_self());
		pthread_testcancel();
	}
	return fd < 0 ? NULL : fdopen(fd, "r");
}

static void *first_socket(void *arg)
{
	return urds_socket(NULL);
}

/* A thread makes the default context; the child of a fork meanwhile makes its own. */
static void default__is_made_while_another_thread_forks(void)
{
	pthread_t id;
	pid_t pid;

	atomic_store(&in_fopen, 1);
	CHECK_EQ(pthread_create(&id, NULL, first_socket, NULL), 0);
	while (atomic_load(&in_fopen) != 2)
		nap_ms(1);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		atomic_store(&in_fopen, 0);
		alarm(20 * slow());
		_exit(urds_socket(NULL) ? 0 : 1);
	}
	atomic_store(&in_fopen, 0);
	pthread_join(id, NULL);
	CHECK_EQ(reap_within(pid, 30), 0);
	CHECK_EQ(urds_shutdown(NULL), 0);
}

/* The thread that makes it is cancelled: the others still have one. */
static void default__is_made_by_a_thread_that_is_cancelled(void)
{
	pid_t pid = spawn();

	if (pid == 0) {
		pthread_t id;

		alarm(20 * slow());
		atomic_store(&in_fopen, 3);
		if (pthread_create(&id, NULL, first_socket, NULL) != 0)
			_exit(2);
		pthread_join(id, NULL);
		atomic_store(&in_fopen, 0);
		_exit(urds_socket(NULL) ? 0 : 1);
	}
	CHECK_EQ(reap_within(pid, 30), 0);
}

/* ---------------------------------------------------------------- a call that was left, and a fork */

static jmp_buf out_of_call;
static _Atomic bool may_jump;
static pthread_t main_thread;

static void jump_out(int sig)
{
	if (call_is_blocked() && atomic_exchange(&may_jump, false))
		longjmp(out_of_call, 1);
}

static void *recv_for_ever(void *arg)
{
	uint8_t m[8];

	urds_recv(arg, m, sizeof m, 0);
	return NULL;
}

/* Once the main thread sleeps beside a leader it is made to jump. */
static void *make_it_jump(void *arg)
{
	while (atomic_load(&ctx->nsleepers) == 0)
		nap_ms(1);
	while (atomic_load(&may_jump)) {
		pthread_kill(main_thread, SIGUSR1);
		nap_ms(1);
	}
	return NULL;
}

static bool starts_to_lead(struct urds_ctx *e, struct urds_sock *s, pthread_t *id)
{
	if (pthread_create(id, NULL, recv_for_ever, s) != 0)
		return false;
	while (!atomic_load(&e->leader))
		nap_ms(1);
	return true;
}

/* The child of a thread that had left a sleeping call: its next call sleeps in a context of the child's. */
static void fork__after_a_call_was_left(void)
{
	struct sigaction sa = {.sa_handler = jump_out, .sa_flags = SA_NODEFER};
	struct urds_sock *s, *r;
	pthread_t lead, helper;
	uint8_t m[8];
	pid_t pid;

	ctx = ctx_open(URDS_CONFIG_NO_RECORD);
	CHECK(ctx);
	s = sock_at(ctx, IP_S, 4000);
	r = sock_at(ctx, IP_S, 4001);
	CHECK(s && r);
	main_thread = pthread_self();
	sigaction(SIGUSR1, &sa, NULL);
	CHECK(starts_to_lead(ctx, s, &lead));
	atomic_store(&may_jump, true);
	CHECK_EQ(pthread_create(&helper, NULL, make_it_jump, NULL), 0);
	if (setjmp(out_of_call) == 0) {
		urds_recv(r, m, sizeof m, 0);
		T_FAIL("the call ended");
	}
	pthread_join(helper, NULL);
	pid = spawn();
	if (pid == 0) {
		alarm(20 * slow());
		ctx = ctx_open(URDS_CONFIG_NO_RECORD);
		s = sock_at(ctx, IP_L, 4000);
		r = sock_at(ctx, IP_L, 4001);
		if (!s || !r || !starts_to_lead(ctx, s, &lead) || set_timeo(r, SO_RCVTIMEO, 50) < 0)
			_exit(2);
		if (urds_recv(r, m, sizeof m, 0) >= 0)
			_exit(3);
		_exit(atomic_load(&ctx->nsleepers) == 0 && !ctx->sleepers ? 0 : 1);
	}
	CHECK_EQ(reap_within(pid, 30), 0);
	CHECK_EQ(urds_close(s), 0);
	pthread_join(lead, NULL);
	CHECK_EQ(urds_shutdown(ctx), 0);
}

/* ---------------------------------------------------------------- no memory */

static struct urds_mem_ops lean;
static const struct urds_mem_ops *rich;
static _Atomic bool no_paths;
static _Atomic unsigned refused;

static void *lean_alloc(struct urds_mem *mem, size_t bytes)
{
	if (bytes == sizeof(struct path) && atomic_load(&no_paths)) {
		atomic_fetch_add(&refused, 1);
		return NULL;
	}
	return rich->alloc(mem, bytes);
}

static bool rests(struct urds_ctx *e)
{
	bool yes = false;

	urds_rwlock_read_acquire(&e->table);
	for (uint32_t i = 0; i < e->heads_size; i++)
		for (struct peer *p = e->heads[i]; p; p = p->hash_next) {
			urds_lock_acquire(&p->lock);
			yes |= p->rest.link != NULL;
			urds_lock_release(&p->lock);
		}
	urds_rwlock_read_release(&e->table);
	return yes;
}

/* A message comes for a path that rests, when there is no memory to wake it: it is read when there is some. */
static void rest__without_memory_to_wake(void)
{
	struct urds_ctx *ca = ctx_open(URDS_CONFIG_NO_RECORD),
			*cb = ctx_open(URDS_CONFIG_NO_RECORD);
	struct urds_sock *a, *b;
	uint8_t m[8];

	CHECK(ca && cb);
	ca->cfg.rest_ns = cb->cfg.rest_ns = URDS_MS(20);
	rich = cb->pool.mem.ops;
	lean = *rich;
	lean.alloc = lean_alloc;
	cb->pool.mem.ops = &lean;
	a = sock_at(ca, IP_S, 4000);
	b = sock_at(cb, IP_L, 4000);
	CHECK(a && b);
	CHECK_EQ(send4(a, "1", 1, 0, IP_L, 4000), 1);
	CHECK_EQ(urds_recv(b, m, sizeof m, 0), 1);
	CHECK_EQ(urds_close(a), 0);
	CHECK_EQ(urds_close(b), 0);
	EVENTUALLY(rests(ca) && rests(cb));
	a = sock_at(ca, IP_S, 4000);
	b = sock_at(cb, IP_L, 4000);
	CHECK(a && b && set_timeo(b, SO_RCVTIMEO, 5000 * slow()) == 0);
	atomic_store(&no_paths, true);
	CHECK_EQ(send4(a, "2", 1, 0, IP_L, 4000), 1);
	EVENTUALLY(atomic_load(&refused) > 0);
	atomic_store(&no_paths, false);
	CHECK_EQ(urds_recv(b, m, sizeof m, 0), 1);
	CHECK_EQ(m[0], '2');
	CHECK_EQ(urds_shutdown(ca), 0);
	CHECK_EQ(urds_shutdown(cb), 0);
}

/* ---------------------------------------------------------------- every peer */

#define PEERS 200

#if defined(__GLIBC__) && !SANITIZED
static _Thread_local bool no_malloc;
extern void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
	return no_malloc ? NULL : __libc_malloc(bytes);
}
#else
static bool no_malloc; /* here it does not fail */
#endif

struct visits {
	unsigned of[2 * PEERS], n;
	bool grow;
};

static int peers_make(unsigned from, unsigned n)
{
	struct urds_addr to = {{[10] = 0xff, 0xff, 127, 26}, 0};

	for (unsigned i = from; i < from + n; i++) {
		struct peer *p;

		to.ip[14] = (uint8_t)(i / 250);
		to.ip[15] = (uint8_t)(1 + i % 250);
		p = peer_get(ctx->nodes, &to);
		if (!p)
			return -1;
		peer_drop(p);
	}
	return 0;
}

static void visit(struct peer *p, void *arg)
{
	struct visits *v = arg;
	const uint8_t *ip = p->core.remote.ip;

	v->of[ip[14] * 250u + ip[15] - 1u]++;
	/* In the middle of it the table grows, and its chains are laid anew. */
	if (++v->n == 50 && v->grow && peers_make(PEERS, PEERS) < 0)
		abort();
}

static void each_peer__is_visited(void)
{
	static struct visits v;

	ctx = ctx_open(URDS_CONFIG_NO_RECORD);
	CHECK(ctx && sock_at(ctx, IP_S, 4000));
	peer_each(ctx, visit, &v);
	CHECK_EQ(v.n, 0);
	CHECK_EQ(peers_make(0, PEERS), 0);
	CHECK(ctx->npeers == PEERS && ctx->heads_size > 32);
	no_malloc = true;
	peer_each(ctx, visit, &v);
	no_malloc = false;
	for (unsigned i = 0; i < PEERS; i++)
		CHECK_EQ(v.of[i], 1);
	memset(&v, 0, sizeof v);
	v.grow = true;
	peer_each(ctx, visit, &v);
	CHECK_EQ(ctx->npeers, 2 * PEERS);
	for (unsigned i = 0; i < PEERS; i++)
		CHECK(v.of[i] >= 1);
	/* One chain of them all, as where there was no memory to grow. */
	urds_rwlock_write_acquire(&ctx->table);
	for (uint32_t i = 1; i < ctx->heads_size; i++)
		while (ctx->heads[i]) {
			struct peer *p = ctx->heads[i];

			ctx->heads[i] = p->hash_next;
			p->hash_next = ctx->heads[0];
			ctx->heads[0] = p;
		}
	ctx->heads_size = 1;
	urds_rwlock_write_release(&ctx->table);
	memset(&v, 0, sizeof v);
	peer_each(ctx, visit, &v);
	for (unsigned i = 0; i < 2 * PEERS; i++)
		CHECK_EQ(v.of[i], 1);
	CHECK_EQ(urds_shutdown(ctx), 0);
}

/* The children have contexts, and so threads, of their own. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

int main(int argc, char **argv)
{
	own_network();
	T_INIT(argc, argv);
	alarm(170 * slow());
	T_RUN(drop__of_a_flood_ends);
	T_RUN(default__is_made_while_another_thread_forks);
	T_RUN(default__is_made_by_a_thread_that_is_cancelled);
	T_RUN(fork__after_a_call_was_left);
	T_RUN(bind__that_fails_late);
	T_RUN(each_peer__is_visited);
	T_RUN(rest__without_memory_to_wake);
	T_RUN(bind__without_descriptors);
	T_RUN(shutdown__with_a_parked_connection);
	return t_done();
}
