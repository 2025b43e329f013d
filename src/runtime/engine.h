/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * runtime/ joins the protocol (core/) to transports: it owns threads, locks, timers and descriptors, feeds events
 * to core and carries out what core answers. It decides nothing about the protocol.
 *
 * This header: the objects it wraps core's in. Locks and their order: runtime/locks.h.
 */
#ifndef URDS_RUNTIME_ENGINE_H
#define URDS_RUNTIME_ENGINE_H

#include "core/node.h"
#include "core/path.h"
#include "core/peer.h"
#include "core/sock.h"
#include "platform/hub.h"
#include "platform/lock.h"
#include "platform/process.h"
#include "platform/thread.h"
#include "platform/wake.h"
#include "runtime/counters.h"
#include "runtime/doorbell.h"
#include "runtime/mem.h"
#include "runtime/ready_token.h"
#include "runtime/request.h"
#include "runtime/spares.h"
#include "runtime/tx_role.h"
#include "transport/transport.h"

struct urds_ctx;
struct node;
struct peer;
struct path;

/* ---------------------------------------------------------------- sockets */

struct wait_list;

/* A blocked call. One per thread, in its thread-local storage: a call that is left by longjmp or
 * cancellation leaves it linked, and the next call or the thread's end takes it off. */
struct waiter {
	struct urds_request req;
	struct wait_list *list;	 /* the one it is on, or NULL */
	struct urds_lock *lock;	 /* that guards the list */
	struct urds_sock *holds; /* the call's references, given back with it if it is abandoned; */
	struct peer *holds_peer; /* either may be NULL */
	bool is_any;		 /* counted in holds->any_waiters */
	bool closes;		 /* the call is a lingering close: abandoned, it closes */
	struct waiter *asleep_next, *asleep_prev; /* sleepers_lock */
	bool is_asleep;				  /* on the list of sleepers */
	uint16_t port; /* waiting for this remote port to clear; 0: for room, or for a message */
};

struct wait_list {
	struct urds_request *first, *last; /* oldest first */
};

struct urds_sock {
	/* These outlive the socket (sock.c). */
	struct spare spare;
	_Atomic uint32_t refs;
	struct urds_lock rx_lock; /* guards rxq, rx_waiters */
	struct urds_lock tx_lock; /* guards txq, tx_waiters, the cached destination, peer_at */

	struct urds_bound bound; /* table lock; also read by who has seen node */
	struct urds_ctx *e;
	struct urds_sock *next, *prev; /* table lock */
	_Atomic(struct node *)
		node; /* once bound: after bound; table lock to write, and rx_lock to clear */
	_Atomic bool is_closed; /* calls fail with EBADF */
	bool is_gone;		/* table lock: out of all tables */
	_Atomic bool has_left;	/* a port, when a bind failed half-way: it may have sent before */
	_Atomic bool is_nonblock;
	_Atomic bool is_watched; /* a descriptor exists and may be polled */
	uint32_t forks;		 /* sock_forks when it was made */

	struct urds_rxq rxq;
	struct wait_list rx_waiters;
	uint64_t delivered; /* rx_lock: counter recv_delivered */
	uint64_t copied;    /* rx_lock: bytes of these that had room: counter copy_to_user */

	struct urds_txq txq;
	struct wait_list tx_waiters;
	uint64_t emptied;	      /* tx_lock: counter send_queue_empty */
	bool is_spent;		      /* tx_lock: sock_close() cancels what was not acknowledged */
	struct urds_endpoint peer_at; /* connect(); port may be 0 */
	bool has_peer;
	struct path *to; /* where the last message went; holds a reference on its peer */
	struct urds_addr to_addr;

	_Atomic urds_ns rcvtimeo, sndtimeo; /* 0: for ever */
	int linger_s;			    /* tx_lock: SO_LINGER; below 0: for ever */
	bool lingers;
	struct path *hot; /* rx_lock: the path that delivered last; holds a reference on its peer */
	_Atomic uint32_t any_waiters; /* sock_wait() calls, on rx_waiters with port ANY_EVENT */
	uint64_t inode;
	intptr_t fds[2];		 /* [0] is the application's; -1: none */
	struct urds_ready_token token;	 /* readable */
	struct urds_ready_token blocked; /* not writable */
	_Atomic uint32_t options;	 /* SOCK_OPT_* */
	_Atomic int8_t transport;	 /* SO_RDS_TRANSPORT preset, or -1 */
};

#define ANY_EVENT 1 /* waiter.port on rx_waiters: wakes for room too, takes no message */
#define LINGERS \
	1 /* waiter.port on tx_waiters: wakes when all is acknowledged; its call closes the socket */

enum { SOCK_OPT_RECVERR = 1, SOCK_OPT_CONG_MONITOR = 2, SOCK_OPT_TIMESTAMP = 4 };

/* ---------------------------------------------------------------- paths and peers */

struct path {
	struct peer *peer;
	uint8_t slot;
	_Atomic uint8_t kind;	/* enum urds_peer_kind of the connection */
	_Atomic bool must_drop; /* the connection is to be ended by the holder of the rx role */
	_Atomic bool ack_timer; /* delayed ack armed */
	_Atomic bool is_dirty;	/* on the dirty list: messages gathered, not transmitted */
	_Atomic bool is_ready;	/* on the ready list: the transport may hold more bytes */
	_Atomic(struct urds_link *)
		link; /* set under peer lock + tx role; cleared under rx role + tx role */
	struct urds_link *dialling; /* peer lock */
	struct dial_call *dials;    /* peer lock: threads inside the transport's dial() */

	struct urds_lock append;
	struct urds_tx_role role;
	struct urds_path_tx tx;
	_Atomic uint64_t counts[PATH_C_MAX];
	_Atomic uint32_t gathered;    /* wire bytes appended since the last transmit */
	_Atomic urds_ns gather_until; /* what was gathered is to go out */
	uint32_t fences;	      /* role: ports used for them */
	bool is_fenced,
		wants_fence;	   /* role: TCP does not say what the kernel has; so it is asked */
	_Atomic bool is_tx_short;  /* role to write: a send is under way, or could not take all */
	_Atomic bool wants_sample; /* release what is acknowledged; ask a kernel's TCP first */
	_Atomic bool wants_ack;	   /* ask an urds peer for an acknowledgement */
	_Atomic bool wants_room;   /* a watched socket is full: look often */
	_Atomic bool poll_armed;
	_Atomic bool rx_ended;	   /* an end was reported: read on until it is met */
	_Atomic int peer_cpu;	   /* where the peer's packets come in, plus 1; 0: not known */
	uint8_t cpu_age;	   /* rx role: drives since that was read */
	struct urds_link *rx_link; /* rx role: the one read last; compared only */
	_Atomic uint64_t
		poll_key; /* rx role to write: of that one's events, or 0 (urds_poller_key()) */
	bool rx_fresh; /* rx role: not read to its end once: what was reported before is unknown */
	bool is_heard; /* rx role: a header has come on this connection */
	bool is_foreign;	       /* rx role: what came on it is not RDS */
	bool rx_posted;		       /* rx role: the transport holds our buffers */
	bool keeps_chunk;	       /* rx role: counted in ctx.kept_chunks */
	_Atomic uint64_t rx_completed; /* bytes of a posted read, plus 1 */
	_Atomic bool is_ending;	       /* orderly close under way: nothing is sent any more */
	urds_ns end_by;		       /* peer lock: when that is given up */

	struct urds_tx_role rx_role; /* exclusion and a note, for the receive half */
	struct urds_path_rx rx;
	_Atomic uint64_t rx_ack;	   /* what we may acknowledge */
	_Atomic uint64_t ack_seen;	   /* what the peer acknowledged */
	_Atomic uint32_t rx_unacked;	   /* wire bytes since our last ack */
	uint8_t poll_shift;		   /* peer lock: interval of the ack timer = min << shift */
	_Atomic urds_ns poll_due, ack_due; /* when those were armed for */
	urds_ns poll_at, ack_at;	   /* peer lock; URDS_NEVER: not armed */

	struct path *dirty_next, *ready_next;
	_Atomic urds_ns
		rest_at; /* when it is to rest, or to give its chunk back; URDS_NEVER: nothing of it is due */
	uint64_t rest_mark;	      /* peer lock: what had passed when that was set */
	uint64_t counted[PATH_C_MAX]; /* count_lock: what of counts is in the context's counters */
};

struct parked_link {
	struct urds_link *link;
	struct urds_buf *buf; /* bytes read, or NULL */
};

struct peer {
	struct urds_peer core; /* peer lock */
	struct urds_lock lock;
	_Atomic uint32_t refs;
	_Atomic uint32_t cached; /* of them: kept by sockets between calls */
	struct urds_ctx *e;
	struct node *node;
	struct peer *hash_next; /* table lock */
	struct path
		*path0; /* peer lock, count_lock also to write; read with either, or a reference */
	struct {	/* peer lock: path 0 while it rests, or link NULL (rest.c) */
		struct urds_link *link;
		struct urds_path_rest path;
		uint8_t kind;
		bool is_missed; /* its connection has something, and there was no memory */
	} rest;
	struct path **more;	       /* slots 1..7, or NULL; as path0 */
	struct parked_link *parked;    /* URDS_PARKED_MAX, or NULL */
	struct urds_remotemap rmap;    /* peer lock */
	_Atomic uint32_t congested;    /* rmap.congested, to be read without the lock */
	struct wait_list cong_waiters; /* peer lock */
	struct urds_remembered *past;  /* its former self, or NULL */
	urds_ns deadline;	       /* timer lock */
	uint32_t heap_at;	       /* timer lock; 0: not in the heap */
	bool is_gone;		       /* table lock: out of the table */
	_Atomic bool is_loop;	       /* both ends are ours: connections run in memory */
};

struct node {
	struct node *next; /* table lock */
	struct urds_ctx *e;
	struct urds_addr addr;
	struct urds_listener *tcp, *loop;
	void *record; /* ownership record of lib/, or NULL */
	struct urds_lock map_lock;
	struct urds_localmap map;
	_Atomic uint32_t map_gen; /* of map */
};

/* ---------------------------------------------------------------- the context */

/* Addresses whose first @bits of 128 are those of @addr. */
struct urds_net {
	struct urds_addr addr;
	uint8_t bits;
};

struct engine_config {
	bool ext;
	bool spin;
	uint32_t spin_us;
	uint32_t paths;
	uint32_t peers_max;
	uint16_t tcp_port;
	bool record;
	bool no_tcp_acks; /* as if TCP did not say what has arrived */
	bool no_threads;  /* none of ours: urds_progress() */
	uint64_t memory_max;
	urds_ns rest_ns; /* URDS_REST_NS; shorter in tests */
	struct urds_net *
		nets; /* whom we talk to, besides ourselves; from malloc(), the context's from engine_new() on */
	size_t nnets; /* 0: everybody */
};

/* ctx.refs: no further call may begin. */
#define CTX_ENDS 0x80000000u

struct urds_ctx {
	/* These outlive the context (engine.c). */
	struct spare spare;
	_Atomic uint32_t
		refs; /* 1 and the calls inside that work on it rather than on a socket; 0: there is none */

	struct engine_config cfg;
	struct urds_pool pool;
	struct urds_poller *poller;
	struct urds_wake lead_wake,
		loop_wake; /* for the leader and the loop thread, in the poller */
	struct urds_transport *tcp, *loop;
	uint32_t incarnation;
	_Atomic bool is_dead; /* fork child, or shut down */
	_Atomic bool
		is_closing; /* no more accepts or new sends; set under node_lock: no new nodes */

	struct urds_rwlock table; /* nodes, peers, bound, socks */
	struct node *nodes;
	struct node *lost; /* node_lock: tries that came to nothing; peers may point to them */
	struct peer **heads;
	uint32_t heads_size, npeers;
	_Atomic uint32_t kept_chunks; /* held by idle paths because messages in them are unread */
	struct urds_memory past;      /* table lock: counters of collected peers */
	struct urds_bindtab bound;
	struct urds_sock *socks;
	_Atomic uint32_t nsocks; /* not freed yet */
	uint64_t next_inode;

	struct urds_lock timer_lock;
	struct peer **heap; /* 1-based */
	uint32_t heap_n, heap_cap;
	_Atomic urds_ns next_deadline;
	_Atomic urds_ns poll_until; /* whoever is in the poller wakes by itself at this instant */

	_Atomic(struct path *) dirty; /* stack */
	_Atomic(struct path *) ready; /* stack */

	struct urds_thread loop_thread, flush_thread;
	struct urds_hub hub; /* of a context without threads; start_lock, as the next two */
	bool has_hub;
	int extra_fd;			/* watched as well: of lib/; -1: none */
	struct urds_lock progress_lock; /* one thread at a time does their work */
	urds_ns missed_since;		/* progress_lock: of engine_leader_is_missed() */
	_Atomic urds_ns accept_at;	/* starved listeners try again */
	bool is_undriven;		/* progress_lock: it ends */
	struct urds_doorbell loop_bell, flush_bell;
	struct urds_doorbell lead_bell; /* the leader, while it is in the poller */
	_Atomic bool stop;
	_Atomic urds_ns
		led_since; /* a blocked call has been in the poller since then: the loop thread keeps out;
				      * 0: none */
	_Atomic bool is_busy; /* since the loop thread looked last, a caller has read the wire */
	_Atomic uintptr_t leader; /* the thread of the blocked call that is the leader; 0: none */
	_Atomic bool lead_lost;	  /* a leader was replaced and has not been seen since */
	_Atomic bool lead_inside; /* the leader is in the poller */
	_Atomic uint32_t loop_polls; /* 1: the loop thread is in the poller */
	_Atomic uint32_t
		watchers; /* sockets with a descriptor somebody may poll: then the loop thread drives */
	_Atomic uint32_t nsleepers;
	struct urds_lock sleepers_lock;
	struct waiter *sleepers;     /* blocked calls asleep on their futex */
	struct urds_lock node_lock;  /* making nodes */
	struct urds_lock start_lock; /* starting threads, making descriptors */

	_Atomic uint64_t counters[URDS_C_MAX];
	struct urds_lock count_lock; /* what a path counted goes to counters */
	_Atomic uint64_t
		lead_polls; /* the leader's part of poll_calls; of two, when one was replaced, some are lost */
	struct urds_ctx *next; /* list of contexts, for fork and exit */

	/* Ownership records (lib/): taken before the port, dropped after it. May be NULL. */
	int (*take_record)(struct node *n);
	void (*drop_record)(void *record);
	void (*stop_records)(
		struct urds_ctx *e); /* the first step of the end: nobody asks any more */

	/* Test hook: every message queued at a socket, before its ack can go out. NULL in production. */
	void (*on_queued)(void *arg, const struct urds_addr *from, const struct urds_rx_item *it);
	void *hook_arg;
};

static inline void urds_count(struct urds_ctx *e, enum urds_counter c, uint64_t n)
{
	atomic_fetch_add_explicit(&e->counters[c], n, memory_order_relaxed);
}

/* ---- engine.c */
int engine_new(const struct engine_config *cfg, struct urds_ctx **out);
/* Around a call that works on a context. False: it ends, or there is none any more. Right for any that ever was one of this
 * process. */
bool engine_enter(struct urds_ctx *e);
void engine_leave(struct urds_ctx *e);
/* Ends threads and connections, when all calls are out: flushes for up to @flush_ns. Return: 0, or -URDS_EBADF: somebody does
 * that already, or has. */
int engine_free(struct urds_ctx *e, urds_ns flush_ns);
/* Starts the threads that do not run. 0 or negative: -URDS_EBADF: the context ends. */
int engine_start(struct urds_ctx *e);

/* ---- nodes.c */
/* Owns @a: listens, and gives @s port @at->port of it (NULL: nothing). Return: 0 or negative. */
int node_get(struct urds_ctx *e, const struct urds_addr *a, struct urds_sock *s,
	     const struct urds_endpoint *at);
struct node *node_find(struct urds_ctx *e, const struct urds_addr *a); /* table lock */

/* ---- peers.c */
/* The peer @remote of @n, made if missing; holds a reference for the caller. NULL: no memory or too many. */
struct peer *peer_get(struct node *n, const struct urds_addr *remote);
/* Do we talk to @a at all? Nothing is made for others. */
bool peer_is_allowed(struct urds_ctx *e, const struct urds_addr *a);
struct peer *peer_find(struct urds_ctx *e, const struct urds_addr *local,
		       const struct urds_addr *remote);
void peer_hold(struct peer *p);
void peer_drop(struct peer *p);
/* Path @slot of @p, made if missing; NULL: no memory. Lives as long as the peer. */
struct path *peer_path(struct peer *p, unsigned slot);
/* The same unless it is missing, or rests: then NULL. */
struct path *peer_path_if(struct peer *p, unsigned slot);
/* The same unless it is missing; wakes it. Peer lock held. */
struct path *peer_path_awake(struct peer *p, unsigned slot);
/* One of these two; takes the peer's lock. */
struct path *peer_path_get(struct peer *p, unsigned slot, bool wake);

/* ---- rest.c: the memory of a path on which nothing goes on */
/* Peer lock held: @h, new, goes on where its predecessor rested. */
void path_wake(struct path *h);
/* Called by the timer, which has a reference; no lock held. */
void peer_rest(struct peer *p, urds_ns now);
/* A reference that a socket keeps between calls: it keeps the path from resting, at no cost. NULL: nothing. */
struct path *peer_cache(struct path *h);
void peer_uncache(struct path *h);
/* Takes it out of the table if nothing needs it any more. */
void peer_collect(struct peer *p);
/* Breaks every connection. Return: how many. */
unsigned peer_reset(struct peer *p);
/* Takes all out of the table. */
void peers_free(struct urds_ctx *e);
void peer_each(struct urds_ctx *e, void (*fn)(struct peer *p, void *arg), void *arg);

/* ---- conn_sink.c */
extern const struct urds_link_sink engine_sink;

/* ---- roles.c */
/* Waits for the role, which nobody holds long. */
void path_role_take(struct path *p);
void path_role_leave(struct path *p);
/* The same for the receive half. Never with the other role, or a lock, held: the end of a connection takes the roles the other way
 * round. */
void path_rx_role_take(struct path *p);
void path_rx_role_leave(struct path *p);

/* ---- conn.c: events of connections */
void path_want(struct path *p);			 /* something is queued and the path is down */
void path_heard(struct path *p, bool has_probe); /* rx role held */
void path_probed(struct path *p, enum urds_probe_sort sort,
		 const struct urds_probe *probe); /* rx role held */
void path_end(struct path *p);			  /* rx role held: the connection is gone */
/* Asks the transport whether the other end still answers. */
void path_check(struct path *p);
/* Policy's own deadlines. */
void peer_tick(struct peer *p, urds_ns now);
/* Peer lock held: forgets parked @k; its link and its buffer are the caller's. */
void unpark(struct peer *p, unsigned k);

/* ---- peer_time.c */
/* Peer lock held: slots with something queued or unacknowledged. */
unsigned peer_pending(struct peer *p);
/* No lock held. Does what is due. */
void peer_timer(struct peer *p, urds_ns now);
/* No lock held. Sets the timer by all that may become due. */
void peer_rearm(struct peer *p, urds_ns now);

/* ---- timer.c */
void timer_set(struct peer *p, urds_ns at); /* URDS_NEVER: none */
void timer_earlier(struct peer *p, urds_ns at);
void timer_run(struct urds_ctx *e, urds_ns now);

/* ---- tx.c */
void path_transmit(struct path *p);
/* As above, and asks a kernel peer's TCP what it has acknowledged. */
void path_sample(struct path *p);
/* The same of either kind of peer. */
void path_hurry(struct path *p);
/* Owes an urds peer an acknowledgement: at the latest in URDS_ACK_DELAY_NS. */
void ack_later(struct path *p);
/* The peer acknowledged something: releases it. */
void path_acked(struct path *p);
/* Leaves what was appended for a burst: it goes out with the next transmit, or soon after @until. */
void path_gather(struct path *p, urds_ns until);
/* Transmits what was gathered until @due (URDS_NEVER: all). Return: was there any? */
bool flush_dirty(struct urds_ctx *e, urds_ns due);
/* Role held. Releases what is acknowledged by the rules of the connection's kind. */
void path_release_acked(struct path *p, struct urds_link *l);
void flusher_main(void *ctx);
void maps_push(struct node *n);

/* ---- rx.c */
void path_receive(struct path *p);
/* Rx role held: nothing more to read for now. Gives back the path's chunk, or keeps it as long as @keep allows and the
 * context has memory to spare. */
void path_rx_idle(struct path *p, enum urds_rx_keep keep);
/* Its connection may hold more to be read: somebody does, soon. */
void ready_push(struct path *p);
/* The peer's congestion map; NULL: all clear. Wakes those who wait for a port that it clears. */
void peer_new_map(struct peer *p, const uint8_t *map);
/* Reads what is known to wait. Return: was there anything? */
bool ready_run(struct urds_ctx *e);

/* ---- wait.c */
/* A caller reads its own connections. */
static inline void set_busy(struct urds_ctx *e)
{
	if (!atomic_load_explicit(&e->is_busy, memory_order_relaxed))
		atomic_store_explicit(&e->is_busy, true, memory_order_relaxed);
}
void loop_main(void *ctx);
/* Is there something to do that the poller does not tell of? */
bool engine_has_work(struct urds_ctx *e);
/* Whoever sets a timer earlier than what this returns wakes who is in the poller. */
urds_ns engine_promise(struct urds_ctx *e);
/* A listener that ran out of descriptors tries again. Return: when to call this again. */
urds_ns engine_resume_accepts(struct urds_ctx *e);
/* Is a ring for the leader, which this thread has met, not taken for long? Then it was left by longjmp, and is replaced.
 * Under progress_lock. */
bool engine_leader_is_missed(struct urds_ctx *e);
/* All that there is to do, what the poller tells included. Return: events. */
int engine_poll_now(struct urds_ctx *e);
/* Lets some thread see to the poller at once. */
void engine_kick(struct urds_ctx *e);
/* Of lead_wake and loop_wake. */
void lead_rung(struct urds_wake *w);
void loop_rung(struct urds_wake *w);
/* One round of driving without waiting: what a non-blocking call does before it says "nothing". */
void engine_drive(struct urds_ctx *e);
/* Is this thread, seen from a signal handler, in the system's wait of a call? It may be left by longjmp then. */
bool call_is_blocked(void);
/* This thread's waiter, off any list; NULL: it is in use by a call that this handler interrupted. */
struct waiter *waiter_get(void);
/* The end of a wait: takes it off its list, whatever happened to it. The list's lock is taken inside. */
void waiter_put(struct waiter *w);
/* The lock of the list is held. @s, @p: the caller's references, which it keeps until waiter_put(); @p may be
 * NULL. */
void waiter_link(struct waiter *w, struct wait_list *l, struct urds_lock *lock, struct urds_sock *s,
		 struct peer *p);
/* Blocks until @w is over or until its deadline, driving the wire meanwhile. 0: woken; look again.
 * -URDS_ETIMEDOUT, -URDS_EINTR, -URDS_EBADF. @spin: a path to watch before sleeping, or NULL. */
int waiter_wait(struct urds_ctx *e, struct waiter *w, struct path *spin);
/* Runs connections in memory, as far as they have anything. */
void engine_run_loop(struct urds_ctx *e);
/* Has the call this thread is blocked in got what it waits for? */
bool waiter_is_over(void);
/* Completes up to @n of them, with @result. The lock of the list is held. */
void wait_list_wake(struct urds_ctx *e, struct wait_list *l, unsigned n, int result);
/* Those waiting for @port. */
void wait_list_wake_port(struct urds_ctx *e, struct wait_list *l, uint16_t port);
/* Those of calls on @s. */
void wait_list_wake_sock(struct urds_ctx *e, struct wait_list *l, const struct urds_sock *s);

/* ---- sock.c */
int sock_new(struct urds_ctx *e, struct urds_sock **out);
void sock_hold(struct urds_sock *s);
/* False: there is no such socket any more. Right for any handle that ever was one of this process. */
bool sock_try_hold(struct urds_sock *s);
/* Around fork(): the memory of sockets is the process's. */
void sock_fork(enum urds_fork stage);
void sock_drop(struct urds_sock *s);
void sock_close(struct urds_sock *s);
/* The first half of it: calls on it fail and come out. What it has sent still goes out. */
void sock_shut(struct urds_sock *s);
/* Some socket of @e, @unshut: that is not shut, with a reference for the caller; NULL: there is none. */
struct urds_sock *sock_first(struct urds_ctx *e, bool unshut);
int sock_bind(struct urds_sock *s, const struct urds_endpoint *at);
/* Takes port @at->port (0: a free one) of @n. */
int sock_take_port(struct urds_sock *s, struct node *n, const struct urds_endpoint *at);
void sock_leave_port(struct urds_sock *s);
/* How often this process's ancestors forked with the library loaded; a socket of another is not to be touched. */
extern _Atomic uint32_t sock_forks;
static inline bool sock_is_of_this_process(const struct urds_sock *s)
{
	return s->forks == atomic_load_explicit(&sock_forks, memory_order_relaxed);
}
/* The usual case of the next two; the caller needs no reference on @s. False: nothing was done, take the long way. */
bool sock_send_quick(struct urds_sock *s, const struct urds_endpoint *to, const struct urds_iov *v,
		     bool more);
/* Return: 0, -URDS_EAGAIN: nothing was taken, perhaps after a wait, take the long way, or another error: the call's. */
int sock_recv_quick(struct urds_sock *s, void *buf, size_t cap, bool dontwait,
		    struct urds_endpoint *from, size_t *len);
/* @len bytes of @iov to @to. Return: 0 or negative. */
int sock_send(struct urds_sock *s, const struct urds_endpoint *to, const struct urds_iov *iov,
	      size_t n, size_t len, bool dontwait, bool more);
/* Waits on @l (lock held on entry, released on return) until woken. The caller has a reference on @s and, unless it
 * is NULL, @p, which go when the call is abandoned in here. */
int sock_wait_on(struct urds_sock *s, struct wait_list *l, struct urds_lock *lock, struct peer *p,
		 uint16_t port, urds_ns deadline, struct path *spin) URDS_RELEASES(lock);
/* Takes (or, @peek, borrows with a reference) the next message, of which the caller copies up to @cap bytes. */
int sock_recv(struct urds_sock *s, struct urds_rxq_ent *out, size_t cap, bool dontwait, bool peek);
bool sock_has_queued(struct urds_sock *s);
void sock_recv_done(struct urds_rxq_ent *m);
/* Return: the ready ones of @events, 0 at the deadline, or negative. */
int sock_wait(struct urds_sock *s, int events, urds_ns deadline);
enum { SOCK_IN = 1, SOCK_OUT = 2 };
void sock_cancel(struct urds_sock *s, const struct urds_endpoint *to);
void sock_freed(struct urds_sock *s, uint64_t msgs, uint64_t bytes); /* acknowledged */
void sock_set_sndbuf(struct urds_sock *s, uint32_t limit);
void sock_rx_news(struct urds_sock *s, unsigned news, size_t n); /* rx_lock held: wake readers */
/* rx_lock held. Return: the node, if its map changed. */
struct node *sock_flip(struct urds_sock *s, bool congested);

/* ---- linger.c */
/* Would sock_linger() wait? *until: at most to then. */
bool sock_lingers(struct urds_sock *s, urds_ns *until);
/* Before sock_close(): calls on it fail and come out; waits until all that it has sent is acknowledged. Return: 0,
 * -URDS_ETIMEDOUT: the time of SO_LINGER is over, -URDS_EINTR, -URDS_EBADF: it was closed meanwhile, with its context, or -URDS_EAGAIN
 * (a handler). */
int sock_linger(struct urds_sock *s, urds_ns deadline);

/* ---- token.c: the descriptor */
int sock_fd(struct urds_sock *s);		/* >= 0 or negative */
void sock_token(struct urds_sock *s, int news); /* @news: of SOCK_IN and SOCK_OUT what became so */
void sock_close_fds(struct urds_sock *s);

/* ---- progress.c, for contexts without threads */
/* The descriptor to watch, or negative. */
int engine_hub_fd(struct urds_ctx *e);
/* -1: no more. */
int engine_hub_watch(struct urds_ctx *e, int fd);
/* Return: when it is to be called again, at the latest. @also: not after that. */
urds_ns engine_progress(struct urds_ctx *e, urds_ns also);

/* ---- info.c */
struct urds_info_peer;
/* Peer lock held. */
void peer_describe(struct peer *p, struct urds_info_peer *el);
/* Return: size of one element, -URDS_ENOSPC (*len = needed), -URDS_ENOPROTOOPT. */
int engine_info(struct urds_ctx *e, int id, void *buf, size_t *len);
/* All counters as they are, those included that paths and sockets keep. */
void engine_counters(struct urds_ctx *e, uint64_t out[URDS_C_MAX]);
/* @h is about to be freed: what it has counted is not. */
void path_counted(struct path *h); /* count_lock held, or nobody else has the path */
/* Size of one element of @id, or -URDS_ENOPROTOOPT. */
int engine_info_size(int id);

#endif
