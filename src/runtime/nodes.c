/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The addresses that a context owns: taking one, with its record and its listeners, and what follows where it fails.
 */
#include "runtime/engine.h"

struct node *node_find(struct urds_ctx *e, const struct urds_addr *a)
{
	struct node *n = e->nodes;

	while (n && !urds_addr_eq(&n->addr, a))
		n = n->next;
	return n;
}

/* node_lock held. It came to nothing, but peers may have been made of it meanwhile: it waits for the next try. */
static void node_lose(struct node *n)
{
	n->next = n->e->lost;
	n->e->lost = n;
}

/* node_lock held. */
static struct node *node_lost(struct urds_ctx *e, const struct urds_addr *a)
{
	struct node **at = &e->lost, *n;

	while (*at && !urds_addr_eq(&(*at)->addr, a))
		at = &(*at)->next;
	n = *at;
	if (n)
		*at = n->next;
	return n;
}

static int node_new(struct urds_ctx *e, const struct urds_addr *a, struct node **out)
{
	struct node *n = node_lost(e, a);
	int rc = 0;

	if (!n)
		n = urds_alloc(&e->pool.mem, sizeof *n);
	if (!n)
		return -URDS_ENOMEM;
	n->e = e;
	n->addr = *a;
	if (e->take_record && e->cfg.record)
		rc = e->take_record(n);
	if (rc < 0)
		node_lose(n);
	else
		*out = n;
	return rc;
}

static int node_listen(struct node *n)
{
	struct urds_ctx *e = n->e;
	int rc = e->tcp->connect->listen(e->tcp, &n->addr, n, &n->tcp);

	if (rc < 0)
		return rc;
	rc = e->loop->connect->listen(e->loop, &n->addr, n, &n->loop);
	if (rc < 0)
		e->tcp->connect->unlisten(n->tcp);
	if (rc < 0)
		n->tcp = n->loop = NULL;
	return rc;
}

static void node_link(struct node *n)
{
	struct urds_ctx *e = n->e;

	urds_rwlock_write_acquire(&e->table);
	n->next = e->nodes;
	e->nodes = n;
	urds_rwlock_write_release(&e->table);
}

static void node_unlink(struct node *n)
{
	struct node **at;

	urds_rwlock_write_acquire(&n->e->table);
	for (at = &n->e->nodes; *at != n; at = &(*at)->next)
		;
	*at = n->next;
	urds_rwlock_write_release(&n->e->table);
}

/* An address that was another owner's, or nobody's, is ours now: its connections run in memory from here on. */
static void now_ours(struct peer *p, void *arg)
{
	const struct urds_addr *a = arg;

	if (urds_addr_eq(&p->core.remote, a) && !atomic_exchange(&p->is_loop, true))
		peer_reset(p);
}

/* Connections that came while the address looked like ours. */
static void not_ours(struct peer *p, void *arg)
{
	if (urds_addr_eq(&p->core.local, arg))
		peer_reset(p);
}

/* Its first socket takes its port before anyone can connect: messages for it may be waiting. */
static int node_make(struct urds_ctx *e, const struct urds_addr *a, struct urds_sock *s,
		     const struct urds_endpoint *at, struct node **out, void **record)
{
	struct node *n;
	int rc = e->tcp->resolve->is_local(e->tcp, a) ? node_new(e, a, &n) : -URDS_EADDRNOTAVAIL;

	if (rc < 0)
		return rc;
	node_link(n);
	rc = s ? sock_take_port(s, n, at) : 0;
	if (rc < 0)
		goto undo_node;
	rc = node_listen(n);
	if (rc < 0)
		goto undo_port;
	*out = n;
	return 0;

undo_port:
	if (s)
		sock_leave_port(s);
undo_node:
	node_unlink(n);
	*record = n->record;
	n->record = NULL;
	node_lose(n);
	return rc;
}

int node_get(struct urds_ctx *e, const struct urds_addr *a, struct urds_sock *s,
	     const struct urds_endpoint *at)
{
	void *record = NULL;
	struct node *n;
	bool is_new;
	int rc = engine_start(e);

	if (rc < 0)
		return rc;
	urds_lock_acquire(&e->node_lock);
	if (atomic_load(&e->is_closing)) {
		urds_lock_release(&e->node_lock);
		return -URDS_EBADF;
	}
	urds_rwlock_read_acquire(&e->table);
	n = node_find(e, a);
	urds_rwlock_read_release(&e->table);
	is_new = !n;
	if (is_new)
		rc = node_make(e, a, s, at, &n, &record);
	else if (s)
		rc = sock_take_port(s, n, at);
	urds_lock_release(&e->node_lock);
	if (record)
		e->drop_record(record);
	if (rc == 0 && is_new)
		peer_each(e, now_ours, &n->addr);
	if (rc < 0 && is_new) {
		struct urds_addr lost = *a;

		peer_each(e, not_ours, &lost);
	}
	return rc;
}
