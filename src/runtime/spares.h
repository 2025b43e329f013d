/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory of objects that are gone, which is never given back: a call with the handle of one still finds its count of references
 * to be 0, and fails with EBADF. As with descriptor numbers, a handle may come to mean a new object some day, but not before
 * many others have gone.
 */
#ifndef URDS_RUNTIME_SPARES_H
#define URDS_RUNTIME_SPARES_H

#include <stddef.h>

/* The first member of an object. */
struct spare {
	struct spare *next;
};

/* Under a lock of its owner's. */
struct spares {
	struct spare *first, *last; /* oldest first */
	unsigned n;
};

/* Return: the oldest, while there are more than @min; or NULL. */
static inline void *spares_take(struct spares *l, unsigned min)
{
	struct spare *s = l->first;

	if (l->n <= min)
		return NULL;
	l->first = s->next;
	l->n--;
	return s;
}

static inline void spares_put(struct spares *l, struct spare *s)
{
	s->next = NULL;
	if (l->n++ > 0)
		l->last->next = s;
	else
		l->first = s;
	l->last = s;
}

#endif
