/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * exchange: verified streams in both directions at once, over any number of socket pairs.
 * PROTOCOL.md has the order of events; faults are injected between the socket and the check.
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (STREAM_MAX + 1)
#define HELLO_MS 250
#define CONGESTED_MS 20 /* try again even without news */
#define SEND_BURST (256u * 1024)
#define RECV_BURST 64
#define BYE_MS 5000

enum fault_kind { FAULT_NONE, FAULT_DROP, FAULT_DUP, FAULT_SWAP, FAULT_CORRUPT };

/* One fault, done to the first data message of pair 0 at or after @at that fits. */
struct fault {
	enum fault_kind kind;
	char class; /* a: any, e: empty, s: short, l: with a header */
	uint64_t at, seen;
	bool is_done, is_held;
	size_t held_len;
	uint8_t *held; /* of a swap */
};

struct pair {
	int fd;
	struct addr local, peer;
	struct stream tx;
	struct checker rx;
	uint64_t next; /* index to send */
	uint8_t *out;  /* what could not be sent yet */
	size_t out_len;
	bool has_out, is_data, is_full, is_congested, owes_heard, has_fin, has_bye;
	int64_t retry, hello; /* when */
	uint64_t alien;	      /* messages of others */
};

struct exchange {
	struct options *o;
	struct stream_spec tx_spec, rx_spec;
	struct pair *pairs;
	unsigned n_pairs;
	struct fault fault;
	uint8_t *in;
	uint64_t sent, congested, full;
};

static int parse_fault(struct fault *f, const char *text)
{
	static const char *const kinds[] = {"none", "drop", "dup", "swap", "corrupt"};
	char kind[16] = "", class[8] = "any";
	unsigned long long at = 0;
	const char *p = strchr(text, '@');

	if (p)
		at = strtoull(p + 1, NULL, 10);
	if (sscanf(text, "%15[a-z]:%7[a-z]", kind, class) < 1)
		return -1;
	if (!strchr("aesl", class[0]))
		return -1;
	f->class = class[0];
	f->at = at;
	for (unsigned i = 0; i < 5; i++) {
		if (strcmp(kind, kinds[i]) == 0) {
			f->kind = (enum fault_kind)i;
			f->held = malloc(ROOM);
			return f->held ? 0 : -1;
		}
	}
	return -1;
}

static bool fault_fits(struct fault *f, const uint8_t *buf, size_t len)
{
	bool control = len == STREAM_HEADER && memcmp(buf, "URD", 3) == 0 && buf[3] != 'V';

	if (f->kind == FAULT_NONE || f->is_done || control || f->seen++ < f->at)
		return false;
	if (f->kind == FAULT_CORRUPT && len == 0)
		return false;
	return f->class == 'a' || (f->class == 'e' && len == 0) ||
	       (f->class == 's' && len > 0 && len < STREAM_HEADER) ||
	       (f->class == 'l' && len >= STREAM_HEADER);
}

static void take(struct exchange *x, struct pair *p, uint8_t *buf, size_t len)
{
	struct fault *f = &x->fault;

	if (p == x->pairs && fault_fits(f, buf, len)) {
		f->is_done = true;
		say("fault injected at message %llu, %zu bytes", (unsigned long long)f->seen - 1,
		    len);
		if (f->kind == FAULT_DROP)
			return;
		if (f->kind == FAULT_DUP)
			checker_take(&p->rx, buf, len);
		if (f->kind == FAULT_CORRUPT)
			buf[len / 2] ^= 1;
		if (f->kind == FAULT_SWAP) {
			memcpy(f->held, buf, len);
			f->held_len = len;
			f->is_held = true;
			return;
		}
	}
	checker_take(&p->rx, buf, len);
	if (p == x->pairs && f->is_held) {
		checker_take(&p->rx, f->held, f->held_len);
		f->is_held = false;
	}
}

static bool is_bye_due(const struct pair *p)
{
	return p->has_fin && p->rx.is_fin && !p->has_bye;
}

/* Makes the next message of the pair. Return: is there one? */
static bool fill(struct pair *p)
{
	p->is_data = false;
	if (p->owes_heard) {
		stream_control(&p->tx, STREAM_HEARD, p->out);
		p->out_len = STREAM_HEADER;
		p->owes_heard = false;
	} else if (!p->rx.is_heard) {
		int64_t now = now_ms();

		if (now < p->hello)
			return false;
		p->hello = now + HELLO_MS;
		stream_control(&p->tx, STREAM_HELLO, p->out);
		p->out_len = STREAM_HEADER;
	} else if (p->next < p->tx.spec->count) {
		p->out_len = stream_message(&p->tx, p->next, p->out);
		p->next++;
		p->is_data = true;
	} else if (!p->has_fin) {
		stream_control(&p->tx, STREAM_FIN, p->out);
		p->out_len = STREAM_HEADER;
		p->has_fin = true;
	} else if (is_bye_due(p)) {
		stream_control(&p->tx, STREAM_BYE, p->out);
		p->out_len = STREAM_HEADER;
		p->has_bye = true;
	} else {
		return false;
	}
	p->has_out = true;
	return true;
}

static void pump_out(struct exchange *x, struct pair *p)
{
	size_t bytes = 0;

	if ((p->is_congested || p->is_full) && now_ms() < p->retry)
		return;
	while (bytes < SEND_BURST && (p->has_out || fill(p))) {
		if (rds_send(p->fd, p->out, p->out_len, &p->peer) < 0) {
			p->is_congested = errno == ENOBUFS;
			p->is_full = !p->is_congested;
			x->congested += p->is_congested;
			x->full += p->is_full;
			p->retry = now_ms() + (p->is_congested ? CONGESTED_MS : 100);
			return;
		}
		p->is_congested = p->is_full = p->has_out = false;
		bytes += p->out_len + 256;
		x->sent += p->is_data;
	}
}

static void pump_in(struct exchange *x, struct pair *p)
{
	for (unsigned i = 0; i < RECV_BURST; i++) {
		struct addr from;
		uint64_t cong;
		bool had_hello = p->rx.is_hello;
		ssize_t n = rds_recv(p->fd, x->in, ROOM, &from, &cong);

		if (n == -1)
			return;
		if (cong >> (addr_port(&p->peer) % 64) & 1)
			p->is_congested = false;
		if (n < 0)
			continue;
		if (!addr_equal(&from, &p->peer)) {
			say("note: %zd bytes from %s came to %s", n, addr_text(&from),
			    addr_text(&p->local));
			p->alien++;
			continue;
		}
		p->rx.is_hello = false;
		take(x, p, x->in, (size_t)n);
		if (p->rx.is_hello) {
			p->owes_heard = true;
			if (p->rx.peer_digest != x->rx_spec.digest) {
				errno = EPROTO;
				fail("peer %s has other parameters", addr_text(&p->peer));
			}
		}
		p->rx.is_hello |= had_hello;
	}
}

static uint64_t received(const struct exchange *x)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < x->n_pairs; i++)
		n += x->pairs[i].rx.received;
	return n;
}

static void say_state(const struct exchange *x, const char *word)
{
	for (unsigned i = 0; i < x->n_pairs; i++) {
		const struct pair *p = &x->pairs[i];

		say("%s pair %u sent %llu received %llu congested %d full %d fin %d/%d bye %d/%d "
		    "unacked %d",
		    word, i, (unsigned long long)p->next, (unsigned long long)p->rx.received,
		    p->is_congested, p->is_full, p->has_fin, p->rx.is_fin, p->has_bye, p->rx.is_bye,
		    rds_unacked(p->fd, &p->local));
	}
}

/* Waits for something to do, at most until the next retry. */
static void wait_work(struct exchange *x, struct pollfd *fds)
{
	int64_t now = now_ms(), until = now + 1000;
	bool is_busy = false;

	for (unsigned i = 0; i < x->n_pairs; i++) {
		struct pair *p = &x->pairs[i];
		bool more = p->has_out || p->owes_heard || is_bye_due(p) ||
			    (p->rx.is_heard && !p->has_fin);

		fds[i] = (struct pollfd){.fd = p->fd, .events = POLLIN};
		if (!p->rx.is_heard && !p->has_out && p->hello < until)
			until = p->hello;
		if (!more)
			continue;
		if (!p->is_congested && !p->is_full)
			is_busy = true;
		else if (p->retry < until)
			until = p->retry;
		if (p->is_full)
			fds[i].events |= POLLOUT;
	}
	poll(fds, x->n_pairs, is_busy || until <= now ? 0 : (int)(until - now));
	for (unsigned i = 0; i < x->n_pairs; i++) {
		if (fds[i].revents & POLLOUT && x->pairs[i].is_full)
			x->pairs[i].is_full = false;
	}
}

static void open_pairs(struct exchange *x)
{
	struct options *o = x->o;

	x->n_pairs = o->pairs;
	x->pairs = calloc(x->n_pairs, sizeof(*x->pairs));
	x->in = malloc(ROOM);
	if (!x->pairs || !x->in)
		fail("memory");
	for (unsigned i = 0; i < x->n_pairs; i++) {
		struct pair *p = &x->pairs[i];
		struct stream_end me, you;
		struct stream rx;

		p->local = addr_with_port(&o->local, (uint16_t)(addr_port(&o->local) + i));
		p->peer = addr_with_port(&o->peer, (uint16_t)(addr_port(&o->peer) + i));
		me = addr_end(&p->local);
		you = addr_end(&p->peer);
		stream_init(&p->tx, &x->tx_spec, &me, &you);
		stream_init(&rx, &x->rx_spec, &you, &me);
		p->out = malloc(STREAM_MAX);
		if (!p->out || checker_init(&p->rx, &rx) < 0)
			fail("memory");
		p->fd = rds_socket(&p->local, o);
	}
}

enum phase { PHASE_RUN, PHASE_COMPLETE, PHASE_GONE };

static enum phase phase_of(const struct exchange *x)
{
	enum phase phase = PHASE_GONE;

	for (unsigned i = 0; i < x->n_pairs; i++) {
		const struct pair *p = &x->pairs[i];

		if (!p->has_fin || !p->rx.is_fin || !p->has_bye || p->has_out)
			return PHASE_RUN;
		if (!p->rx.is_bye)
			phase = PHASE_COMPLETE;
	}
	return phase;
}

/* Return: did it come to an end within the limits? */
static bool run(struct exchange *x)
{
	struct options *o = x->o;
	struct pollfd *fds = calloc(x->n_pairs, sizeof(*fds));
	int64_t start = now_ms(), said = start, moved = start, complete = 0;
	uint64_t last = 0, last_said = 0;
	bool is_ok = false;

	if (!fds)
		fail("memory");
	for (;;) {
		enum phase phase;
		int64_t now;
		uint64_t done;

		for (unsigned i = 0; i < x->n_pairs; i++)
			pump_in(x, &x->pairs[i]);
		for (unsigned i = 0; i < x->n_pairs; i++)
			pump_out(x, &x->pairs[i]);
		now = now_ms();
		done = x->sent + received(x);
		phase = phase_of(x);
		if (phase != PHASE_RUN && complete == 0) {
			complete = now;
			say("complete after %lld ms", (long long)(now - start));
		}
		if (phase == PHASE_GONE || (complete && now - complete > BYE_MS)) {
			if (phase != PHASE_GONE)
				say("note: no BYE from the peer");
			is_ok = true;
			break;
		}
		if (done != last) {
			last = done;
			moved = now;
		}
		if (now - said >= 1000 && done != last_said) {
			say("progress sent %llu received %llu", (unsigned long long)x->sent,
			    (unsigned long long)received(x));
			said = now;
			last_said = done;
		}
		if (peer_stop || now - moved > (int64_t)o->stall_s * 1000 ||
		    now - start > (int64_t)o->timeout_s * 1000) {
			say(peer_stop				       ? "stopped"
			    : now - moved > (int64_t)o->stall_s * 1000 ? "stalled"
								       : "timeout");
			say_state(x, "state");
			break;
		}
		wait_work(x, fds);
	}
	free(fds);
	return is_ok;
}

/* Which ones never came: a hint for whoever has to find out why. */
static void say_lost(const struct pair *p, unsigned number)
{
	uint64_t from = 0, to;

	for (unsigned n = 0; checker_gap(&p->rx, &from, &to); n++, from = to) {
		if (n == 10) {
			say("lost pair %u and more", number);
			return;
		}
		say("lost pair %u messages %llu to %llu", number, (unsigned long long)from,
		    (unsigned long long)to - 1);
	}
}

int mode_exchange(struct options *o)
{
	struct exchange x = {.o = o};
	uint64_t lost = 0, duplicated = 0, reordered = 0, corrupt = 0;
	int64_t start = now_ms(), end;
	bool is_ok;

	x.tx_spec = (struct stream_spec){
		.seed = o->seed, .count = o->send, .big = o->big, .empty = o->empty};
	x.rx_spec = (struct stream_spec){
		.seed = o->seed, .count = o->recv, .big = o->recv_big, .empty = o->recv_empty};
	if (stream_spec_init(&x.tx_spec, o->sizes) < 0 ||
	    stream_spec_init(&x.rx_spec, o->sizes) < 0 ||
	    (o->fault && parse_fault(&x.fault, o->fault) < 0)) {
		fprintf(stderr, "rdspeer: these counts, sizes or faults make no sense\n");
		return EXIT_USAGE;
	}
	open_pairs(&x);
	say("ready");
	is_ok = run(&x);
	for (unsigned i = 0; i < x.n_pairs && is_ok; i++)
		rds_linger(x.pairs[i].fd, &x.pairs[i].local, o->linger_s * 1000);
	end = now_ms();
	/* What came after BYE is wrong too. */
	for (unsigned i = 0; i < x.n_pairs; i++) {
		struct pair *p = &x.pairs[i];

		pump_in(&x, p);
		lost += checker_end(&p->rx);
		say_lost(p, i);
		duplicated += p->rx.duplicated;
		reordered += p->rx.reordered;
		corrupt += p->rx.corrupt + p->alien;
	}
	say("took %lld ms congested %llu full %llu", (long long)(end - start),
	    (unsigned long long)x.congested, (unsigned long long)x.full);
	say("done sent %llu received %llu lost %llu duplicated %llu reordered %llu corrupt %llu",
	    (unsigned long long)x.sent, (unsigned long long)received(&x), (unsigned long long)lost,
	    (unsigned long long)duplicated, (unsigned long long)reordered,
	    (unsigned long long)corrupt);
	return is_ok && lost + duplicated + reordered + corrupt == 0 ? 0 : EXIT_CHECK;
}
