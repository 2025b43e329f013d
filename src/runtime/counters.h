/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What is counted: of a context, and of each path.
 */
#ifndef URDS_RUNTIME_COUNTERS_H
#define URDS_RUNTIME_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

/* In the order and with the names that rds-info prints, then ours. */
/* clang-format off */
#define URDS_COUNTERS(X) \
	X(conn_reset) X(recv_drop_bad_checksum) X(recv_drop_old_seq) X(recv_drop_no_sock) \
	X(recv_drop_dead_sock) X(recv_deliver_raced) X(recv_delivered) X(recv_queued) \
	X(recv_immediate_retry) X(recv_delayed_retry) X(recv_ack_required) X(recv_rdma_bytes) \
	X(recv_ping) X(send_queue_empty) X(send_queue_full) X(send_lock_contention) \
	X(send_lock_queue_raced) X(send_immediate_retry) X(send_delayed_retry) X(send_drop_acked) \
	X(send_ack_required) X(send_queued) X(send_rdma) X(send_rdma_bytes) X(send_pong) \
	X(page_remainder_hit) X(page_remainder_miss) X(copy_to_user) X(copy_from_user) \
	X(cong_update_queued) X(cong_update_received) X(cong_send_error) X(cong_send_blocked) \
	X(recv_bytes_added_to_sock) X(recv_bytes_freed_fromsock) X(send_stuck_rm) \
	X(tcp_data_ready_calls) X(tcp_write_space_calls) X(tcp_sndbuf_full) X(tcp_connect_raced) \
	X(tcp_listen_closed_stale) \
	X(send_retransmitted) X(peer_dead) X(peer_restarted) X(conn_parked) X(conn_evicted) \
	X(conn_promoted) X(conn_refused) X(conn_protocol_error) X(pong_dropped) X(sock_overflowed) \
	X(tx_calls) X(rx_calls) X(poll_calls) X(spin_hits) X(spin_misses) X(gathered) X(acks_sent)
/* clang-format on */

enum urds_counter {
#define X(name) URDS_C_##name,
	URDS_COUNTERS(X)
#undef X
		URDS_C_MAX
};

extern const char *const urds_counter_names[URDS_C_MAX];

/* Counters with one writer at a time, which need no locked instruction. */
enum path_counter {
	PATH_C_tx_calls,       /* role */
	PATH_C_send_queued,    /* append */
	PATH_C_copy_from_user, /* append */
	PATH_C_rx_calls,       /* rx role, as the rest */
	PATH_C_recv_queued,
	PATH_C_acks_sent,
	PATH_C_MAX
};

static inline void urds_count_own(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
