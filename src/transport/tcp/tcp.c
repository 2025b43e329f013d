/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "transport/tcp/tcp_internal.h"

#include <assert.h>
#include <stdlib.h>

#define OR_DEFAULT(field, value) ((field) != 0 ? (field) : (value))

int urds_tcp_new(const struct urds_tcp_config *config, struct urds_poller *poller,
		 const struct urds_link_sink *sink, void *user, struct urds_transport **out)
{
	static const struct urds_tcp_config none;
	struct tcp *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -URDS_ENOMEM;
	if (!config)
		config = &none;
	t->base.data = &urds_tcp_data;
	t->base.connect = &urds_tcp_connect;
	t->base.resolve = &urds_tcp_resolve;
	t->base.sink = sink;
	t->base.user = user;
	t->poller = poller;
	t->cfg = *config;
	t->cfg.port = OR_DEFAULT(config->port, URDS_TCP_PORT);
	t->cfg.keepalive_idle_s = OR_DEFAULT(config->keepalive_idle_s, URDS_KEEPALIVE_IDLE_S);
	t->cfg.keepalive_intvl_s = OR_DEFAULT(config->keepalive_intvl_s, URDS_KEEPALIVE_INTVL_S);
	t->cfg.keepalive_cnt = OR_DEFAULT(config->keepalive_cnt, URDS_KEEPALIVE_CNT);
	t->cfg.backlog = OR_DEFAULT(config->backlog, 128);
	urds_lock_init(&t->lock);
	rc = urds_tcp_sys_init(t);
	if (rc < 0) {
		free(t);
		return rc;
	}
	*out = &t->base;
	return 0;
}

void urds_tcp_free(struct urds_transport *base)
{
	struct tcp *t;

	if (!base)
		return;
	t = urds_tcp_of(base);
	if (!urds_tcp_sys_fini(t))
		return;
	assert(!t->links && !t->listeners);
	free(t);
}

struct urds_tcp_stats *urds_tcp_stats(struct urds_transport *base)
{
	return &urds_tcp_of(base)->stats;
}

bool urds_tcp_is_starved(struct urds_transport *base)
{
	return atomic_load_explicit(&urds_tcp_of(base)->any_starved, memory_order_relaxed);
}

void urds_tcp_unstarve(struct urds_transport *base)
{
	struct tcp *t = urds_tcp_of(base);

	if (!atomic_exchange_explicit(&t->any_starved, false, memory_order_relaxed))
		return;
	urds_lock_acquire(&t->lock);
	for (struct tcp_listener *ls = t->listeners; ls; ls = ls->next) {
		if (!ls->is_starved)
			continue;
		ls->is_starved = false;
		urds_tcp_listener_resume(t, ls);
	}
	urds_lock_release(&t->lock);
}
