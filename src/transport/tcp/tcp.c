/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "transport/tcp/tcp_internal.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "platform/posix/fds.h"

#define OR_DEFAULT(field, value) ((field) != 0 ? (field) : (value))

/* The ports the administrator left for outgoing connections; of IPv6 too, despite the name. */
static void read_port_range(struct tcp *t)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned lo, hi;

	t->port_lo = 32768;
	t->port_hi = 60999;
	if (!f)
		return;
	/* Eight at least, or a lane could be without a port. */
	if (fscanf(f, "%u %u", &lo, &hi) == 2 && lo > 0 && hi <= 65535 && lo + 8 <= hi) {
		t->port_lo = (uint16_t)lo;
		t->port_hi = (uint16_t)hi;
	}
	(void)fclose(f);
}

int urds_tcp_new(const struct urds_tcp_config *config, struct urds_poller *poller,
		 const struct urds_link_sink *sink, void *user, struct urds_transport **out)
{
	static const struct urds_tcp_config none;
	struct tcp *t = calloc(1, sizeof(*t));

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
	/* Without it (-1) we still run: the first EMFILE then leaves connections waiting. */
	t->spare_fd = -1;
	urds_lock_acquire(&t->lock);
	urds_tcp_get_spare(t);
	urds_lock_release(&t->lock);
	read_port_range(t);
	*out = &t->base;
	return 0;
}

void urds_tcp_free(struct urds_transport *base)
{
	struct tcp *t;

	if (!base)
		return;
	t = urds_tcp_of(base);
	assert(!t->links && !t->listeners);
	urds_fds_close(t->spare_fd);
	free(t);
}

struct urds_tcp_stats *urds_tcp_stats(struct urds_transport *base)
{
	return &urds_tcp_of(base)->stats;
}

void urds_tcp_rearm(struct urds_transport *base)
{
	struct tcp *t = urds_tcp_of(base);

	urds_lock_acquire(&t->lock);
	for (struct tcp_listener *ls = t->listeners; ls; ls = ls->next)
		(void)urds_poller_rearm(t->poller, &ls->src, ls->fd, URDS_POLL_IN);
	for (struct tcp_link *l = t->links; l; l = l->next) {
		urds_lock_acquire(&l->lock);
		if (l->is_registered && !atomic_load_explicit(&l->is_closed, memory_order_relaxed))
			(void)urds_poller_rearm(t->poller, &l->src, l->fd,
						URDS_POLL_IN | URDS_POLL_OUT | URDS_POLL_RDHUP);
		urds_lock_release(&l->lock);
	}
	urds_lock_release(&t->lock);
}
