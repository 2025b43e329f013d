/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every lock of the runtime, in the order in which they may be taken; docs/LOCKING.md explains.
 *
 *	0 ctx.progress_lock	driving a context without threads. Taken by trying; engine_free() waits
 *	1 path.rx_role		role: rx half, link end. Taken by try-and-note only
 *	2 ctx.node_lock		making a node; ctx.start_lock: starting threads, making descriptors
 *	3 ctx.table		rwlock: nodes, peers, bind table, list of sockets
 *	4 peer.lock		connection policy, parked links, remote map
 *	5 path.role		role: transmitting, attaching. Holders never wait for anything above
 *	6 sock.tx_lock
 *	7 path.append		the log
 *	8 sock.rx_lock
 *	9 node.map_lock, ctx.timer_lock, ctx.sleepers_lock, ctx.count_lock, pool.lock	leaves
 *
 * No lock and no role is held across a blocking system call.
 */
#ifndef URDS_RUNTIME_LOCKS_H
#define URDS_RUNTIME_LOCKS_H
#endif
