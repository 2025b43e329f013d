/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int urds_futex_wait(_Atomic uint32_t *word, uint32_t val, urds_ns deadline)
{
	struct timespec ts, *until = NULL;
	int saved = errno, rc = 0;

	if (deadline != URDS_NEVER) {
		ts.tv_sec = (time_t)(deadline / 1000000000u);
		ts.tv_nsec = (long)(deadline % 1000000000u);
		until = &ts;
	}
	/* The BITSET form takes an absolute time, of the monotonic clock. */
	if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, val, until, NULL,
		    FUTEX_BITSET_MATCH_ANY) < 0) {
		if (errno == ETIMEDOUT)
			rc = -URDS_ETIMEDOUT;
		else if (errno == EINTR)
			rc = -URDS_EINTR;
		/* EAGAIN: *word differed. */
	}
	errno = saved;
	return rc;
}

void urds_futex_wake(_Atomic uint32_t *word, int n)
{
	int saved = errno;

	/* May fail with EFAULT when the word's memory is gone meanwhile, as promised. */
	(void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
	errno = saved;
}
