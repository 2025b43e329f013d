/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A virtual network: one clock, one event queue, and TCP connections reduced to what RDS can tell about them:
 * bytes in order both ways with a delay, partial writes, a position up to which the other end's TCP has
 * acknowledged (whether or not anybody read), FIN, RST, and ways to break.
 *
 * Everything is decided by the seed: the same seed gives the same run.
 */
#ifndef URDS_SIM_NET_H
#define URDS_SIM_NET_H

#include "printf_format.h"
#include "wire/types.h"

typedef void (*sim_fn)(void *arg, uint64_t a);

struct sim_ev {
	urds_ns at;
	uint64_t order; /* of two at the same instant the one made first runs first */
	sim_fn fn;
	void *arg;
	uint64_t a;
};

struct vconn;
struct vhost;

/* Cuts connection number @conn when byte @at of what its end @dir wrote arrives. */
struct sim_cut {
	bool is_set;
	unsigned conn; /* connections are numbered as they are dialled; established ones count */
	int dir;
	uint64_t at;
	bool ack_lost;	 /* the writer never learns what arrived last */
	urds_ns late[2]; /* when each end learns of it; URDS_NEVER: only by writing */
};

struct sim {
	urds_ns now;
	uint64_t rng;
	uint64_t steps;
	struct sim_ev *ev;
	size_t nev, cap;
	uint64_t order;
	struct vhost *hosts[16];
	unsigned nhosts;
	struct vconn *conns;
	unsigned nconns; /* established so far */
	urds_ns latency; /* one way */
	size_t sndbuf;	 /* unacknowledged bytes a connection takes */
	struct sim_cut cut;
};

/* Tells on stdout what happens. */
extern bool sim_trace;
#define TRACE(s, ...)                            \
	do {                                     \
		if (sim_trace)                   \
			sim_say(s, __VA_ARGS__); \
	} while (0)
void sim_say(struct sim *s, const char *fmt, ...) SIM_PRINTF(2, 3);

void sim_init(struct sim *s, uint64_t seed);
void sim_fini(struct sim *s);
uint64_t sim_rnd(struct sim *s);
uint32_t sim_below(struct sim *s, uint32_t n);
void sim_at(struct sim *s, urds_ns at, sim_fn fn, void *arg, uint64_t a);
/* Runs the next event. Return: false: there is none before @until (the clock is then there). */
bool sim_step(struct sim *s, urds_ns until);

/* One end of a connection. Belongs to its host from dial or accept until v_close(). */
struct vend {
	struct vconn *c;
	int i; /* 0: dialled, 1: accepted */
	struct vhost *host;
	bool is_open;
	bool is_reset;
	/* the host's: */
	void *owner;
	int role;
	unsigned idx;
};

struct vhost_ops {
	void (*accepted)(struct vhost *h, struct vend *e, const struct urds_addr *from,
			 uint16_t port);
	void (*dialled)(struct vhost *h, struct vend *e, bool ok);
	/* Bytes, an acknowledgement, FIN or RST arrived. */
	void (*ready)(struct vhost *h, struct vend *e);
};

struct vhost {
	const struct vhost_ops *ops;
	struct sim *sim;
	struct urds_addr addr;
	bool is_listening;
	urds_ns accept_delay; /* a connection waits in the accept queue, its bytes acknowledged */
	bool is_stopped;      /* its TCP lives, nobody reads */
};

void v_host_add(struct sim *s, struct vhost *h);

struct vend *v_dial(struct vhost *h, const struct urds_addr *to, uint16_t from_port);
unsigned v_no(const struct vend *e);
/* Return: bytes taken, maybe 0; a broken connection takes none. */
size_t v_write(struct vend *e, const void *p, size_t n);
size_t v_read(struct vend *e, void *p, size_t n);
size_t v_readable(const struct vend *e);
/* Nothing more will come: FIN or RST, and all is read. */
bool v_ended(const struct vend *e);
/* FIN or RST has come, whatever is unread. */
bool v_is_over(const struct vend *e);
uint64_t v_acked(const struct vend *e);
uint64_t v_written(const struct vend *e);
/* How long bytes of ours have waited for an acknowledgement without any progress. */
urds_ns v_silence(const struct vend *e);
/* FIN, or RST if bytes are unread or @reset. */
void v_close(struct vend *e, bool reset);

/* Ways to break, from outside. @e may be either end. */
void v_cut(struct vconn *c, urds_ns late0, urds_ns late1);
/* Packets vanish from now on, in both directions; no RST ever. */
void v_hole(struct vconn *c);
/* The host's process dies: its ends are closed. */
void v_kill(struct vhost *h);
/* Continues a stopped host: what waited is reported. */
void v_cont(struct vhost *h);
/* The connection, ended or not, that carried most; bytes[i]: what its end i wrote. */
unsigned v_longest(const struct sim *s, uint64_t bytes[2]);
/* Any established connection, for tests. NULL: none. */
struct vconn *v_any(struct sim *s);

#endif
