/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Verified exchange (PROTOCOL.md): per pair of sockets one thread that sends and one that receives, both in
 * blocking calls. And the echo: verified messages to a server that sends them back.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "urdspeer.h"

#define HELLO_MS 250
#define BYE_MS 5000

struct pair {
	struct addr local, peer;
	struct urds_sock *s;
	struct vf_stream out, in;
	struct vf_check check; /* receiving thread; read by others at the end */
	pthread_t sender, receiver;
	_Atomic uint64_t sent, received;
	_Atomic bool is_heard, has_fin, fin_came, has_bye, bye_came;
	_Atomic bool stop;
	uint64_t alien;
};

static bool send_one(struct pair *p, uint8_t *buf, uint32_t len)
{
	bool is_ok;

	while (!(is_ok = urds_sendto(p->s, buf, len, 0, (const struct sockaddr *)&p->peer.ss,
				     p->peer.len) >= 0)) {
		if (!only_busy())
			fail("send of %u bytes", len);
		if (atomic_load(&p->stop))
			break;
	}
	/* A library that still looked at our buffer would send this. */
	memset(buf, 0xa5, len);
	return is_ok;
}

static bool send_control(struct pair *p, enum vf_magic magic, uint8_t *buf)
{
	vf_control(&p->out, magic, buf);
	return send_one(p, buf, VF_HDR);
}

static void *sender(void *arg)
{
	struct pair *p = arg;
	uint8_t *buf = malloc(VF_MAX);
	int64_t hello = 0;

	if (!buf)
		fail("memory");
	while (!atomic_load(&p->is_heard) && !atomic_load(&p->stop)) {
		if (now_ms() >= hello + HELLO_MS) {
			hello = now_ms();
			send_control(p, VF_HELLO, buf);
		}
		nap_ms(2);
	}
	for (uint64_t i = 0; i < p->out.count && !atomic_load(&p->stop); i++) {
		uint32_t len = vf_make(&p->out, i, buf);

		if (send_one(p, buf, len))
			atomic_fetch_add(&p->sent, 1);
	}
	if (!atomic_load(&p->stop) && send_control(p, VF_FIN, buf))
		atomic_store(&p->has_fin, true);
	while (!atomic_load(&p->fin_came) && !atomic_load(&p->stop))
		nap_ms(2);
	if (!atomic_load(&p->stop) && send_control(p, VF_BYE, buf))
		atomic_store(&p->has_bye, true);
	free(buf);
	return NULL;
}

static void *receiver(void *arg)
{
	struct pair *p = arg;
	uint8_t *buf = malloc(VF_MAX), answer[VF_HDR];

	if (!buf)
		fail("memory");
	while (!atomic_load(&p->stop)) {
		struct sockaddr_storage from;
		socklen_t flen = sizeof from;
		ssize_t n = urds_recvfrom(p->s, buf, VF_MAX, 0, (struct sockaddr *)&from, &flen);

		if (n < 0 && only_busy())
			continue;
		if (n < 0)
			fail("receive");
		if (!addr_same(&p->peer, &from)) {
			p->alien++;
			continue;
		}
		if (vf_check_put(&p->check, buf, (uint32_t)n) == VF_WAS_HELLO) {
			/* Never waits: the peer asks again. */
			vf_control(&p->out, VF_HEARD, answer);
			if (urds_sendto(p->s, answer, VF_HDR, MSG_DONTWAIT,
					(const struct sockaddr *)&p->peer.ss, p->peer.len) < 0 &&
			    !only_busy())
				fail("answer to HELLO");
		}
		memset(buf, 0xa5, (size_t)n);
		atomic_store(&p->received, p->check.received);
		if (p->check.is_heard)
			atomic_store(&p->is_heard, true);
		if (p->check.is_fin)
			atomic_store(&p->fin_came, true);
		if (p->check.is_bye)
			atomic_store(&p->bye_came, true);
	}
	free(buf);
	return NULL;
}

/* Pair @i of all: those of the first peer come first. */
static void open_pair(struct pair *p, struct options *o, unsigned i)
{
	const char *why;

	p->local = addr_plus(&o->local, i);
	p->peer = addr_plus(&o->peer[i / o->pairs], i % o->pairs);
	why = vf_init(&p->out, &p->local.end, &p->peer.end, o->seed, o->send, o->big, o->empty,
		      o->sizes);
	if (!why)
		why = vf_init(&p->in, &p->peer.end, &p->local.end, o->seed, o->recv, o->recv_big,
			      o->recv_empty, o->sizes);
	if (why) {
		fprintf(stderr, "urdspeer: %s\n", why);
		exit(EXIT_USAGE);
	}
	if (vf_check_init(&p->check, &p->in) < 0)
		fail("memory");
	p->s = open_sock(o, &p->local);
}

static void say_state(const struct pair *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++, p++)
		say("state pair %u sent %llu received %llu heard %d fin %d/%d bye %d/%d", i,
		    (unsigned long long)p->sent, (unsigned long long)p->received, p->is_heard,
		    p->has_fin, p->fin_came, p->has_bye, p->bye_came);
}

static void say_lost(const struct pair *p, unsigned number)
{
	unsigned ranges = 0;

	for (uint64_t i = 0; i < p->in.count; i++) {
		uint64_t from = i;

		while (i < p->in.count && !p->check.came[i])
			i++;
		if (i == from)
			continue;
		if (++ranges > 5) {
			say("lost pair %u and more", number);
			return;
		}
		say("lost pair %u messages %llu to %llu", number, (unsigned long long)from,
		    (unsigned long long)i - 1);
	}
}

/* Return: has everything come, and gone? */
static bool watch(struct pair *v, unsigned n, const struct options *o)
{
	int64_t start = now_ms(), moved = start, said = start, complete = 0;
	uint64_t last = 0, last_said = 0;

	for (;;) {
		uint64_t sent = 0, received = 0, done;
		bool all = true, byes = true;
		int64_t now = now_ms();

		for (unsigned i = 0; i < n; i++) {
			sent += v[i].sent;
			received += v[i].received;
			all = all && v[i].fin_came && v[i].has_fin;
			byes = byes && v[i].bye_came && v[i].has_bye;
		}
		done = sent + received + (all ? 1 : 0);
		if (done != last)
			moved = now;
		last = done;
		if (all && !complete) {
			complete = now;
			say("complete after %lld ms", (long long)(now - start));
		}
		if (byes)
			return true;
		if (complete && now - complete > BYE_MS) {
			say("note: no BYE from the peer");
			return true;
		}
		if (now - said >= 1000 && done != last_said) {
			say("progress sent %llu received %llu", (unsigned long long)sent,
			    (unsigned long long)received);
			said = now;
			last_said = done;
		}
		if (peer_stop || now - moved > (int64_t)o->stall_s * 1000 ||
		    now - start > (int64_t)o->timeout_s * 1000) {
			say(peer_stop				       ? "stopped"
			    : now - moved > (int64_t)o->stall_s * 1000 ? "stalled"
								       : "timeout");
			say_state(v, n);
			return false;
		}
		nap_ms(5);
	}
}

/* What became of the streams of some pairs. */
struct verdict {
	uint64_t sent, received, lost, duplicated, reordered, corrupt;
	bool wrong_params;
};

static void judge(struct verdict *v, const struct pair *p)
{
	const struct vf_check *c = &p->check;

	v->sent += p->sent;
	v->received += c->received;
	v->duplicated += c->duplicated;
	v->reordered += c->reordered;
	v->corrupt += c->corrupt + p->alien;
	v->lost += vf_check_lost(c);
	v->wrong_params |= c->wrong_params;
}

static void say_verdict(const char *whose, const struct verdict *v)
{
	say("%s sent %llu received %llu lost %llu duplicated %llu reordered %llu corrupt %llu",
	    whose, (unsigned long long)v->sent, (unsigned long long)v->received,
	    (unsigned long long)v->lost, (unsigned long long)v->duplicated,
	    (unsigned long long)v->reordered, (unsigned long long)v->corrupt);
}

static bool is_fine(const struct verdict *v)
{
	return !v->lost && !v->duplicated && !v->reordered && !v->corrupt && !v->wrong_params;
}

int mode_exchange(struct options *o)
{
	unsigned n = o->pairs * o->npeers;
	struct pair *v = calloc(n, sizeof *v);
	struct verdict all = {0};
	int64_t start;
	bool is_ok;

	if (!v || n == 0)
		return EXIT_USAGE;
	for (unsigned i = 0; i < n; i++)
		open_pair(&v[i], o, i);
	say("ready");
	start = now_ms();
	for (unsigned i = 0; i < n; i++)
		if (pthread_create(&v[i].receiver, NULL, receiver, &v[i]) != 0 ||
		    pthread_create(&v[i].sender, NULL, sender, &v[i]) != 0)
			fail("thread");
	is_ok = watch(v, n, o);
	if (is_ok && !linger(v[0].s, o->linger_s))
		say("note: not all is acknowledged");
	for (unsigned i = 0; i < n; i++) {
		atomic_store(&v[i].stop, true);
		pthread_join(v[i].sender, NULL);
		pthread_join(v[i].receiver, NULL);
		say_lost(&v[i], i);
		if (v[i].check.wrong_params)
			say("note: pair %u: the peer has other parameters", i);
		judge(&all, &v[i]);
	}
	for (unsigned k = 0; k < o->npeers; k++) {
		struct verdict its = {0};
		char whose[96];

		for (unsigned i = k * o->pairs; i < (k + 1) * o->pairs; i++)
			judge(&its, &v[i]);
		snprintf(whose, sizeof whose, "peer %s", o->peer_text[k]);
		say_verdict(whose, &its);
	}
	say_counters(v[0].s);
	say("took %lld ms", (long long)(now_ms() - start));
	say_verdict("done", &all);
	return is_ok && is_fine(&all) ? 0 : EXIT_CHECK;
}

/* ---- echo */

/* The server may restart, and so may we: then messages of an earlier life of ours come back (another
 * seed), and some of this life do not come at all. After the first that comes back, none may be missing
 * until the next silence. */
struct echo {
	uint64_t sent, came, stale, missing, again, corrupt, silences;
	uint64_t next;	     /* expected */
	int64_t start, last; /* when one came back last */
};

#define SILENCE_MS 300

static void echo_came(struct echo *e, const struct vf_stream *s, uint8_t *buf, uint32_t len)
{
	uint32_t seed = s->seed;
	uint64_t i = vf_index(s, buf, len, true, &seed);
	int64_t now = now_ms();

	if (i == UINT64_MAX) {
		e->corrupt++;
		return;
	}
	if (seed != s->seed) {
		e->stale++;
		return;
	}
	if (e->came == 0)
		say("first %llu after %lld ms at %lld", (unsigned long long)i,
		    (long long)(now - e->start), (long long)now);
	else if (now - e->last >= SILENCE_MS)
		say("back %llu expected %llu after %lld ms at %lld", (unsigned long long)i,
		    (unsigned long long)e->next, (long long)(now - e->last), (long long)now);
	if (i < e->next) {
		e->again++;
	} else {
		if (i > e->next) {
			e->missing += i - e->next;
			say("gap %llu to %llu at %lld", (unsigned long long)e->next,
			    (unsigned long long)i - 1, (long long)now);
		}
		e->next = i + 1;
	}
	e->came++;
	e->last = now;
}

int mode_echo(struct options *o)
{
	struct echo e = {.start = now_ms()};
	struct urds_sock *s;
	struct vf_stream out;
	uint8_t *buf = malloc(VF_MAX);
	uint64_t count = o->count ? o->count : 1u << 30;
	const char *why =
		vf_init(&out, &o->local.end, &o->peer[0].end, o->seed, count, 0, 0, o->sizes);
	int64_t last_send = 0, end, said = e.start;

	if (why || !buf) {
		fprintf(stderr, "urdspeer: %s\n", why ? why : "memory");
		return EXIT_USAGE;
	}
	s = open_sock(o, &o->local);
	urds_set_nonblock(s, 1);
	say("ready");
	end = o->seconds ? now_ms() + (int64_t)o->seconds * 1000
			 : e.start + (int64_t)o->timeout_s * 1000;
	while (!peer_stop && now_ms() < end && e.next < count) {
		struct sockaddr_storage from;
		socklen_t flen = sizeof from;
		ssize_t n;
		int64_t now = now_ms();

		/* The window is full of messages that may never come back: one at times shows. */
		while (e.sent < count && (e.sent < e.next + o->window || now >= last_send + 50)) {
			uint32_t len = vf_make(&out, e.sent, buf);

			n = urds_sendto(s, buf, len, 0, (const struct sockaddr *)&o->peer[0].ss,
					o->peer[0].len);
			memset(buf, 0xa5, len);
			if (n < 0 && !only_busy())
				fail("send");
			last_send = now;
			if (n < 0)
				break;
			e.sent++;
		}
		while ((n = urds_recvfrom(s, buf, VF_MAX, 0, (struct sockaddr *)&from, &flen)) >=
		       0) {
			if (addr_same(&o->peer[0], &from))
				echo_came(&e, &out, buf, (uint32_t)n);
			flen = sizeof from;
		}
		if (!only_busy())
			fail("receive");
		if (now - said >= 1000) {
			say("progress sent %llu came %llu", (unsigned long long)e.sent,
			    (unsigned long long)e.came);
			said = now;
		}
		urds_wait(s, POLLIN, 5);
	}
	say_counters(s);
	say("done sent %llu came %llu stale %llu missing %llu again %llu corrupt %llu",
	    (unsigned long long)e.sent, (unsigned long long)e.came, (unsigned long long)e.stale,
	    (unsigned long long)e.missing, (unsigned long long)e.again,
	    (unsigned long long)e.corrupt);
	free(buf);
	return e.corrupt ? EXIT_CHECK : 0;
}
