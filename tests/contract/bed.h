/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A bed is one transport made ready for the contract suite: two addresses, a way to let time pass,
 * and what it is known not to be able to do. An ep is the suite's end of a link: a sink that
 * records, checks every byte by its position, and poisons every buffer the moment it is its own
 * again.
 */
#ifndef URDS_TESTS_CONTRACT_BED_H
#define URDS_TESTS_CONTRACT_BED_H

#include "platform/poller.h"
#include "transport/transport.h"

#define CAN_REFUSE 1u	  /* a dial to where nobody listens fails */
#define CAN_CHECK_ADDR 2u /* knows which addresses are local */
#define CAN_RESET 4u	  /* tells a reset from an EOF */
#define CAN_KEEP 8u	  /* what had arrived before a reset can be read after it */
#define CAN_ACK 16u	  /* acked() is known */
#define CAN_LANE 32u	  /* from_port % 8 is the lane */
#define CAN_EXCLUDE 64u	  /* one listener per address */
#define CAN_CLOSE 128u /* on_closed() comes from inside close() if no thread is inside the link */
#define CAN_HALF 256u  /* what waits to be sent goes on when the other end ends its direction */

struct bed {
	const char *name;
	unsigned can;
	int (*open)(
		struct
		bed *b); /* 0, or -1: there is no such transport, or @a is no address of this host */
	void (*close)(struct bed *b);
	void (*pump)(struct bed *b, urds_ns timeout_ns);
	bool sends_in_place; /* of TCP on Windows */
	/* It needs an address of this kind, which not every host has. NULL: nothing special. */
	bool (*address)(const struct urds_addr *a);
	/* Filled by open: */
	struct urds_transport *t;
	struct urds_poller *poller;
	struct urds_addr a, b, distant; /* two local ones (may be equal), one that is not */
	void *priv;
};

extern struct bed bed_tcp4, bed_tcp6, bed_tcp_link_local, bed_tcp_in_place, bed_loop, bed_null,
	bed_unix_pair, bed_tcp_pair;
extern const struct urds_link_sink ep_sink;

/* An outstanding piece of memory given to tx(). */
struct piece {
	struct piece *next;
	size_t len, released;
	uint8_t bytes[];
};

enum close_in { IN_NOTHING, IN_CONNECTED, IN_READABLE, IN_WRITABLE };

struct ep {
	struct urds_link *l;
	struct urds_transport *t;
	uint8_t tag;		/* makes the two directions differ */
	enum close_in close_in; /* close from inside that callback */
	/* Heard from the sink: */
	int connected; /* times */
	int connect_err;
	int readables, writables, closed;
	bool may_rx, may_tx, ended_hint;
	bool is_closed; /* we called close: anything but on_closed is an error */
	int late;	/* sink calls after that */
	/* Sending: */
	uint64_t tx_pos, tx_released;
	struct piece *first, *last;
	/* Receiving: */
	uint64_t rx_pos;
	bool is_posted, has_ended;
	struct urds_iov rx_iov[16];
	size_t rx_n, rx_asked;
	uint8_t *rx_mem;
	/* By on_accept: */
	struct urds_addr from;
	uint16_t from_port;
};

/* A listener's user. */
struct door {
	struct ep *in[1200];
	size_t n, served;
	bool close_at_once; /* close from inside on_accept */
	int unlistened;
};

/* xorshift; the seed is printed. */
extern uint64_t rnd_state;
uint64_t rnd(void);
static inline size_t rnd_below(size_t n)
{
	return (size_t)(rnd() % n);
}

struct ep *ep_new(struct urds_transport *t, uint8_t tag);
void ep_free(struct ep *e);
/* Sends up to @want fresh bytes in up to @max_iov pieces. Return: taken, or negative urds_err. */
long ep_tx(struct ep *e, size_t want, size_t max_iov);
/* Asks for up to @want bytes. Return: bytes got and checked (0: wait or ended). */
size_t ep_rx(struct ep *e, size_t want);
/* Reads all there is. */
size_t ep_drain(struct ep *e);
void ep_close(struct ep *e, enum urds_close_how how);

extern int ep_bad_bytes; /* received bytes that were not what was sent */

#endif
