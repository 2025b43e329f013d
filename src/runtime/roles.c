/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Waiting for a role of a path: of its transmit half, of its receive half.
 */
#include "runtime/engine.h"

#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/futex.h"

static void role_take(struct urds_tx_role *r)
{
	for (unsigned spins = 0; !urds_tx_role_enter(r); spins++) {
		if (spins < 100) {
			urds_cpu_pause();
			continue;
		}
		/* The holder lost its CPU: let it run. */
		urds_futex_wait(&r->word, atomic_load_explicit(&r->word, memory_order_relaxed),
				urds_clock_ns() + URDS_US(50));
	}
}

void path_role_take(struct path *h)
{
	role_take(&h->role);
}

void path_role_leave(struct path *h)
{
	if (urds_tx_role_pass(&h->role))
		path_transmit(h);
}

void path_rx_role_take(struct path *h)
{
	role_take(&h->rx_role);
}

void path_rx_role_leave(struct path *h)
{
	if (urds_tx_role_pass(&h->rx_role))
		path_receive(h);
}
