/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * epoll, with a table of slots between the kernel's events and the sources. An event carries (slot,
 * generation), never a pointer: an event array that was filled before a source went away finds
 * another generation, and a source in use is pinned by a count in its slot. Both are in one word,
 * so that "is it alive? then pin it" is one step. Epochs would not do: a thread parked in the
 * kernel for hours would hold every free back.
 */
#include "platform/poller.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/errno.h"
#include "platform/lock.h"
#include "platform/posix/fds.h"

#define BATCH URDS_POLL_BATCH
#define CHUNK_SLOTS 256u
#define CHUNKS 4096u /* a million sources */
#define NO_SLOT UINT32_MAX

/* The low half of slot.state; the high half is the generation. */
#define LIVE 0x80000000u    /* may be pinned */
#define RETIRED 0x40000000u /* free when the pins are gone */
#define PINS 0x3fffffffu

struct slot {
	_Atomic uint64_t state;
	union {
		struct urds_poll_src *src;
		uint32_t next_free;
	};
};

struct urds_poller {
	int epoll_fd;
	struct urds_lock lock; /* free list and growth */
	uint32_t first_free URDS_GUARDED_BY(lock);
	uint32_t chunk_count URDS_GUARDED_BY(lock);
	_Atomic bool lacks_pwait2;
	struct slot *_Atomic chunks[CHUNKS]; /* never moved or freed while the poller lives */
};

static struct slot *slot_at(const struct urds_poller *p, uint32_t i)
{
	return &atomic_load_explicit(&p->chunks[i / CHUNK_SLOTS],
				     memory_order_acquire)[i % CHUNK_SLOTS];
}

static int grow(struct urds_poller *p) URDS_HOLDS(&p->lock)
{
	uint32_t base = p->chunk_count * CHUNK_SLOTS;
	struct slot *chunk;

	if (p->chunk_count == CHUNKS)
		return -URDS_ENOMEM;
	chunk = calloc(CHUNK_SLOTS, sizeof(*chunk));
	if (!chunk)
		return -URDS_ENOMEM;
	for (uint32_t i = 0; i < CHUNK_SLOTS; i++)
		chunk[i].next_free = i + 1 < CHUNK_SLOTS ? base + i + 1 : NO_SLOT;
	atomic_store_explicit(&p->chunks[p->chunk_count++], chunk, memory_order_release);
	p->first_free = base;
	return 0;
}

static int slot_get(struct urds_poller *p, uint32_t *out)
{
	int rc = 0;

	urds_lock_acquire(&p->lock);
	if (p->first_free == NO_SLOT)
		rc = grow(p);
	if (rc == 0) {
		*out = p->first_free;
		p->first_free = slot_at(p, *out)->next_free;
	}
	urds_lock_release(&p->lock);
	return rc;
}

static void slot_put(struct urds_poller *p, uint32_t i)
{
	struct slot *s = slot_at(p, i);
	uint64_t gen = atomic_load_explicit(&s->state, memory_order_relaxed) >> 32;

	urds_lock_acquire(&p->lock);
	atomic_store_explicit(&s->state, (gen + 1) << 32, memory_order_release);
	s->next_free = p->first_free;
	p->first_free = i;
	urds_lock_release(&p->lock);
}

int urds_poller_new(struct urds_poller **out)
{
	struct urds_poller *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -URDS_ENOMEM;
	urds_lock_init(&p->lock);
	p->first_free = NO_SLOT;
	urds_fds_enter();
	p->epoll_fd = urds_fds_made(epoll_create1(EPOLL_CLOEXEC));
	if (p->epoll_fd < 0) {
		rc = -urds_err_from_errno(errno);
		goto undo_poller;
	}
	*out = p;
	return 0;

undo_poller:
	free(p);
	return rc;
}

void urds_poller_free(struct urds_poller *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < CHUNKS; i++) {
		struct slot *chunk = atomic_load_explicit(&p->chunks[i], memory_order_relaxed);

		if (!chunk)
			break;
		for (uint32_t k = 0; k < CHUNK_SLOTS; k++)
			assert((uint32_t)atomic_load_explicit(&chunk[k].state,
							      memory_order_relaxed) == 0);
		free(chunk);
	}
	urds_fds_close(p->epoll_fd);
	free(p);
}

static uint32_t to_epoll(unsigned events)
{
	return (events & URDS_POLL_LEVEL ? 0u : EPOLLET) | (events & URDS_POLL_IN ? EPOLLIN : 0u) |
	       (events & URDS_POLL_OUT ? EPOLLOUT : 0u) |
	       (events & URDS_POLL_RDHUP ? EPOLLRDHUP : 0u);
}

static unsigned from_epoll(uint32_t e)
{
	return (e & EPOLLIN ? URDS_POLL_IN : 0u) | (e & EPOLLOUT ? URDS_POLL_OUT : 0u) |
	       (e & EPOLLERR ? URDS_POLL_ERR : 0u) | (e & EPOLLHUP ? URDS_POLL_HUP : 0u) |
	       (e & EPOLLRDHUP ? URDS_POLL_RDHUP : 0u);
}

static int control(struct urds_poller *p, int op, uint32_t i, intptr_t fd, unsigned events)
{
	uint64_t gen = atomic_load_explicit(&slot_at(p, i)->state, memory_order_relaxed) >> 32;
	struct epoll_event ev = {.events = to_epoll(events), .data.u64 = gen << 32 | i};

	if (epoll_ctl(p->epoll_fd, op, (int)fd, &ev) < 0)
		return errno == ENOSPC ? -URDS_ENOMEM : -urds_err_from_errno(errno);
	return 0;
}

int urds_poller_add(struct urds_poller *p, struct urds_poll_src *src, intptr_t fd, unsigned events)
{
	struct slot *s;
	uint32_t i;
	int rc = slot_get(p, &i);

	if (rc < 0)
		return rc;
	s = slot_at(p, i);
	s->src = src;
	src->slot = i;
	src->free_fn = NULL;
	/* Publishes *src to whichever thread gets the first event. */
	(void)atomic_fetch_or_explicit(&s->state, LIVE, memory_order_release);
	rc = control(p, EPOLL_CTL_ADD, i, fd, events);
	if (rc < 0)
		slot_put(p, i);
	return rc;
}

int urds_poller_rearm(struct urds_poller *p, struct urds_poll_src *src, intptr_t fd,
		      unsigned events)
{
	return control(p, EPOLL_CTL_MOD, src->slot, fd, events);
}

void urds_poller_del(struct urds_poller *p, struct urds_poll_src *src, intptr_t fd)
{
	(void)epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, (int)fd, NULL);
	(void)atomic_fetch_and_explicit(&slot_at(p, src->slot)->state, ~(uint64_t)LIVE,
					memory_order_acq_rel);
}

static void finish(struct urds_poller *p, struct slot *s, uint32_t i)
{
	struct urds_poll_src *src = s->src;

	slot_put(p, i);
	if (src->free_fn)
		src->free_fn(src);
}

void urds_poller_retire(struct urds_poller *p, struct urds_poll_src *src,
			void (*free_fn)(struct urds_poll_src *src))
{
	uint32_t i = src->slot;
	struct slot *s = slot_at(p, i);
	uint64_t old;

	src->free_fn = free_fn;
	old = atomic_fetch_or_explicit(&s->state, RETIRED, memory_order_acq_rel);
	assert(!(old & (LIVE | RETIRED)));
	/* Nobody pins what is not live: exactly one of us and the last unpin finishes. */
	if (!(old & PINS))
		finish(p, s, i);
}

static bool pin(struct slot *s, uint32_t gen)
{
	uint64_t st = atomic_load_explicit(&s->state, memory_order_relaxed);

	do {
		if (st >> 32 != gen || !(st & LIVE))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&s->state, &st, st + 1, memory_order_acquire, memory_order_relaxed));
	return true;
}

static void dispatch(struct urds_poller *p, const struct epoll_event *ev)
{
	uint32_t i = (uint32_t)ev->data.u64;
	struct slot *s = slot_at(p, i);
	uint64_t old;

	if (!pin(s, (uint32_t)(ev->data.u64 >> 32)))
		return;
	s->src->ready(s->src, from_epoll(ev->events));
	old = atomic_fetch_sub_explicit(&s->state, 1, memory_order_acq_rel);
	if ((old & RETIRED) && (old & PINS) == 1)
		finish(p, s, i);
}

_Static_assert(sizeof(struct epoll_event) * URDS_POLL_BATCH <=
		       sizeof(((struct urds_poll_batch *)0)->event),
	       "a batch is an array of the kernel's");

static struct epoll_event *events_of(struct urds_poll_batch *b)
{
	return (struct epoll_event *)(void *)b->event;
}

static int wait_kernel(struct urds_poller *p, struct epoll_event *ev, urds_ns timeout_ns)
{
	urds_ns ms;

	if (timeout_ns == 0)
		return (int)syscall(SYS_epoll_pwait, p->epoll_fd, ev, BATCH, 0, NULL,
				    0); /* see nocancel.h */
	if (timeout_ns == URDS_NEVER)
		return epoll_wait(p->epoll_fd, ev, BATCH, -1);
#ifdef URDS_HAVE_EPOLL_PWAIT2
	if (!atomic_load_explicit(&p->lacks_pwait2, memory_order_relaxed)) {
		struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
				      .tv_nsec = (long)(timeout_ns % 1000000000u)};
		int n = epoll_pwait2(p->epoll_fd, ev, BATCH, &ts, NULL);

		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return n;
		/* An old kernel, or a seccomp filter older than the call. */
		atomic_store_explicit(&p->lacks_pwait2, true, memory_order_relaxed);
	}
#endif
	/* Rounded up: waking before the deadline would make the caller spin to it. */
	ms = timeout_ns / 1000000u + (timeout_ns % 1000000u != 0);
	return epoll_wait(p->epoll_fd, ev, BATCH, ms < INT_MAX ? (int)ms : INT_MAX);
}

int urds_poller_fetch(struct urds_poller *p, urds_ns timeout_ns, struct urds_poll_batch *b)
{
	int n;

	b->poller = p;
	n = wait_kernel(p, events_of(b), timeout_ns);
	return n < 0 ? -urds_err_from_errno(errno) : n;
}

uint64_t urds_poller_key(const struct urds_poller *p, const struct urds_poll_src *src)
{
	uint64_t gen = atomic_load_explicit(&slot_at(p, src->slot)->state, memory_order_relaxed) >>
		       32;

	return (gen << 32 | src->slot) + 1;
}

bool urds_poll_batch_take(struct urds_poll_batch *b, uint64_t key, unsigned events)
{
	struct epoll_event *ev = events_of(b);

	if (ev->events == 0 || ev->data.u64 + 1 != key || (from_epoll(ev->events) & ~events))
		return false;
	ev->events = 0;
	return true;
}

void urds_poller_dispatch(struct urds_poll_batch *b)
{
	struct epoll_event *ev = events_of(b);
	int state;

	if (ev[0].events == 0)
		return;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	/* The kernel's events are never empty: what is zero holds none. */
	for (int i = 0; i < BATCH && ev[i].events; i++) {
		struct epoll_event one = ev[i];

		ev[i].events = 0;
		dispatch(b->poller, &one);
	}
	(void)pthread_setcancelstate(state, NULL);
}

/* The thread is being cancelled, perhaps after the kernel had filled the array (glibc cannot tell):
 * edges in it would be lost for ever, so hand them out before going. */
static void cancelled(void *arg)
{
	urds_poller_dispatch(arg);
}

int urds_poller_wait(struct urds_poller *p, urds_ns timeout_ns)
{
	struct urds_poll_batch b;
	int n;

	for (int i = 0; i < BATCH; i++)
		events_of(&b)[i].events = 0;
	if (timeout_ns == 0) {
		n = urds_poller_fetch(p, 0, &b);
	} else {
		pthread_cleanup_push(cancelled, &b);
		n = urds_poller_fetch(p, timeout_ns, &b);
		pthread_cleanup_pop(0);
	}
	if (n > 0)
		urds_poller_dispatch(&b);
	return n;
}

intptr_t urds_poller_fd(const struct urds_poller *p)
{
	return p->epoll_fd;
}
