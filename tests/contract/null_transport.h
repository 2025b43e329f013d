/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A transport in memory that only completes: tx() keeps the caller's buffers until a later release,
 * rx() only posts. What IOCP, io_uring and verbs do, with nothing of a stream socket.
 */
#ifndef URDS_TESTS_CONTRACT_NULL_TRANSPORT_H
#define URDS_TESTS_CONTRACT_NULL_TRANSPORT_H

#include "transport/transport.h"

struct urds_transport *null_new(const struct urds_link_sink *sink);
void null_free(struct urds_transport *t);
/* One round of completions. False: nothing to do. */
bool null_run(struct urds_transport *t);

#endif
