/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Closing a socket with SO_LINGER: until everything that it has sent is acknowledged.
 */
#include "runtime/engine.h"

#include "platform/clock.h"

/* A kernel's acknowledgements are no events: it is asked for them, less and less often. */
#define ASK_MIN_NS URDS_US(100)
#define ASK_MAX_NS URDS_ACK_POLL_MIN_NS

bool sock_lingers(struct urds_sock *s, urds_ns *until)
{
	bool is;

	urds_lock_acquire(&s->tx_lock);
	is = s->lingers && s->linger_s != 0 && s->txq.msgs > 0;
	if (is)
		*until = s->linger_s < 0 ? URDS_NEVER
					 : urds_clock_ns() + URDS_SEC((urds_ns)s->linger_s);
	urds_lock_release(&s->tx_lock);
	return is;
}

struct hurry {
	struct node *node;
	bool has_kernel;
};

static void hurry(struct peer *p, void *arg)
{
	struct hurry *a = arg;

	if (p->node != a->node)
		return;
	for (unsigned i = 0; i < URDS_PATHS_MAX; i++) {
		struct path *h = peer_path_get(p, i, false);

		if (!h || !atomic_load(&h->link) || urds_log_is_settled(&h->tx.log))
			continue;
		a->has_kernel = a->has_kernel || atomic_load(&h->kind) == URDS_KIND_KERNEL;
		path_hurry(h);
	}
}

/* Return: 0: look again, 1: all is acknowledged, or negative. */
static int wait_for_all(struct urds_sock *s, urds_ns until)
{
	urds_lock_acquire(&s->tx_lock);
	if (s->txq.msgs == 0 || s->is_spent) {
		int rc = s->is_spent ? -URDS_EBADF : 1;

		urds_lock_release(&s->tx_lock);
		return rc;
	}
	return sock_wait_on(s, &s->tx_waiters, &s->tx_lock, NULL, LINGERS, until, NULL);
}

int sock_linger(struct urds_sock *s, urds_ns deadline)
{
	urds_ns step = ASK_MIN_NS;
	int rc;

	sock_shut(s);
	do {
		struct hurry a = {.node = s->node};
		urds_ns until = deadline;

		peer_each(s->e, hurry, &a);
		if (a.has_kernel && urds_clock_ns() + step < deadline)
			until = urds_clock_ns() + step;
		rc = wait_for_all(s, until);
		if (rc == -URDS_ETIMEDOUT && until != deadline) {
			step = step * 2 < ASK_MAX_NS ? step * 2 : ASK_MAX_NS;
			rc = 0;
		}
	} while (rc == 0);
	return rc < 0 ? rc : 0;
}
