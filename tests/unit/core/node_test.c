/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Congestion maps of both directions, the bind table.
 */
#include "core/node.h"
#include "test_mem.h"
#include "../../tap.h"

static struct test_mem mem;

static struct urds_addr addr_of(uint8_t last)
{
	struct urds_addr a = {.ip = {[10] = 0xff, [11] = 0xff, [15] = last}};

	return a;
}

static void node__local_map_flips_and_counts(void)
{
	struct urds_localmap m = {0};

	test_mem_init(&mem);
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 9, false), 0);
	CHECK(!urds_localmap_bits(&m));
	CHECK_EQ(mem.calls, 0);
	mem.fail_at = 1;
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 9, true), -URDS_ENOMEM);
	CHECK_EQ(m.gen, 0);
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 9, true), 1);
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 9, true), 0);
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 65535, true), 1);
	CHECK_EQ(m.gen, 2);
	CHECK(urds_localmap_bits(&m) && urds_congmap_test(urds_localmap_bits(&m), 65535));
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 9, false), 1);
	CHECK_EQ(urds_localmap_flip(&m, &mem.m, 65535, false), 1);
	CHECK(!urds_localmap_bits(&m)); /* all clear needs none */
	CHECK_EQ(m.gen, 4);
	urds_localmap_fini(&m, &mem.m);
	CHECK_EQ(mem.bytes, 0);
}

static void update(struct urds_remotemap *m, const uint8_t *now, const int *cleared)
{
	struct urds_congmap_diff d;
	uint8_t *was;

	CHECK_EQ(urds_remotemap_update(m, &mem.m, now, &was, &d), 0);
	for (; *cleared >= 0; cleared++)
		CHECK_EQ(urds_congmap_diff_next(&d), *cleared);
	CHECK_EQ(urds_congmap_diff_next(&d), -1);
	urds_remotemap_free_old(&mem.m, was);
}

static void node__remote_map_tells_what_cleared(void)
{
	static uint8_t map[URDS_CONGMAP_LEN];
	struct urds_remotemap m = {0};

	test_mem_init(&mem);
	update(&m, map, (int[]){-1});
	CHECK_EQ(mem.bytes, 0); /* an all-clear map is not kept */
	urds_congmap_set(map, 5);
	urds_congmap_set(map, 4000);
	urds_congmap_set(map, 65535);
	update(&m, map, (int[]){-1});
	CHECK_EQ(m.congested, 3);
	CHECK(urds_remotemap_test(&m, 4000) && !urds_remotemap_test(&m, 4001));
	urds_congmap_clear(map, 4000);
	urds_congmap_set(map, 7);
	update(&m, map, (int[]){4000, -1});
	CHECK_EQ(m.congested, 3);
	update(&m, NULL, (int[]){5, 7, 65535, -1}); /* the connection is gone */
	CHECK_EQ(m.congested, 0);
	CHECK(!urds_remotemap_test(&m, 5));
	CHECK_EQ(mem.bytes, 0);
}

static void node__remote_map_without_memory_stays(void)
{
	static uint8_t map[URDS_CONGMAP_LEN];
	struct urds_remotemap m = {0};
	struct urds_congmap_diff d;
	uint8_t *was;

	test_mem_init(&mem);
	urds_congmap_set(map, 5);
	mem.fail_at = 1;
	CHECK_EQ(urds_remotemap_update(&m, &mem.m, map, &was, &d), -URDS_ENOMEM);
	CHECK(!urds_remotemap_test(&m, 5));
	CHECK_EQ(mem.bytes, 0);
}

#define N 3000

static struct urds_bound b[N];

static void node__bind_table(void)
{
	struct urds_addr a1 = addr_of(1), a2 = addr_of(2);
	struct urds_bindtab t = {.mem = test_mem_init(&mem)};
	struct urds_bound x = {.at = {a1, 500}};

	CHECK(!urds_bindtab_find(&t, &a1, 500));
	for (unsigned i = 0; i < N; i++) {
		b[i].at.addr = i % 2 ? a1 : a2;
		b[i].at.port = (uint16_t)(2 + i / 2);
		mem.fail_at =
			i % 3 ? 0
			      : mem.calls + 1; /* growing is not necessary once there is a table */
		CHECK_EQ(urds_bindtab_add(&t, &b[i]), i == 0 ? -URDS_ENOMEM : 0);
		mem.fail_at = 0;
		if (i == 0)
			CHECK_EQ(urds_bindtab_add(&t, &b[i]), 0);
	}
	CHECK_EQ(urds_bindtab_add(&t, &x), -URDS_EADDRINUSE);
	x.at.port = 0;
	CHECK_EQ(urds_bindtab_add(&t, &x), -URDS_EINVAL);
	x.at.port = 1;
	CHECK_EQ(urds_bindtab_add(&t, &x), -URDS_EINVAL);
	for (unsigned i = 0; i < N; i++)
		CHECK(urds_bindtab_find(&t, &b[i].at.addr, b[i].at.port) == &b[i]);
	for (unsigned i = 0; i < N; i += 2)
		urds_bindtab_remove(&t, &b[i]);
	for (unsigned i = 0; i < N; i++)
		CHECK(urds_bindtab_find(&t, &b[i].at.addr, b[i].at.port) == (i % 2 ? &b[i] : NULL));
	for (unsigned i = 1; i < N; i += 2)
		urds_bindtab_remove(&t, &b[i]);
	CHECK_EQ(t.count, 0);
	urds_bindtab_fini(&t);
	CHECK_EQ(mem.bytes, 0);
}

static void node__free_port_is_free_and_never_reserved(void)
{
	static struct urds_bound all[65534];
	struct urds_addr a = addr_of(1);
	struct urds_bindtab t = {.mem = test_mem_init(&mem)};

	for (unsigned i = 0; i < 65534; i++) {
		uint16_t port =
			(uint16_t)(2 +
				   i); /* all but the last few are given: searching is slow then */

		if (i >= 65528)
			port = urds_bindtab_free_port(&t, &a, i * UINT64_C(0x9e3779b97f4a7c15));
		CHECK(port >= 2);
		all[i].at.addr = a;
		all[i].at.port = port;
		CHECK_EQ(urds_bindtab_add(&t, &all[i]), 0);
	}
	CHECK_EQ(urds_bindtab_free_port(&t, &a, 12345), 0);
	urds_bindtab_remove(&t, &all[777]);
	CHECK_EQ(urds_bindtab_free_port(&t, &a, 999), all[777].at.port);
	urds_bindtab_fini(&t);
	CHECK_EQ(mem.bytes, 0);
}

static void node__collected_peers_are_remembered(void)
{
	struct urds_memory m = {0};
	struct urds_remembered r = {0}, out;

	test_mem_init(&mem);
	r.local.ip[15] = 1;
	for (uint32_t i = 0; i < URDS_REMEMBERED_MAX + 10; i++) {
		urds_be32_store(r.remote.ip, i + 1);
		r.next_tx[0] = i;
		r.next_rx[7] = i * 3;
		CHECK_EQ(urds_memory_add(&m, &mem.m, &r), 0);
	}
	/* The oldest ten are forgotten, the others are there once. */
	urds_be32_store(r.remote.ip, 10);
	CHECK(!urds_memory_take(&m, &r.local, &r.remote, &out));
	urds_be32_store(r.remote.ip, 11);
	CHECK(urds_memory_take(&m, &r.local, &r.remote, &out));
	CHECK_EQ(out.next_tx[0], 10);
	CHECK_EQ(out.next_rx[7], 30);
	CHECK(!urds_memory_take(&m, &r.local, &r.remote, &out));
	/* Another local address is another peer; the latest of two counts. */
	urds_be32_store(r.remote.ip, 20);
	r.next_tx[0] = 1234;
	CHECK_EQ(urds_memory_add(&m, &mem.m, &r), 0);
	CHECK(urds_memory_take(&m, &r.local, &r.remote, &out));
	CHECK_EQ(out.next_tx[0], 1234);
	r.local.ip[15] = 2;
	CHECK(!urds_memory_take(&m, &r.local, &r.remote, &out));
	urds_memory_fini(&m, &mem.m);
	CHECK_EQ(mem.bytes, 0);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(node__local_map_flips_and_counts);
	T_RUN(node__remote_map_tells_what_cleared);
	T_RUN(node__remote_map_without_memory_stays);
	T_RUN(node__bind_table);
	T_RUN(node__free_port_is_free_and_never_reserved);
	T_RUN(node__collected_peers_are_remembered);
	return t_done();
}
