/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ownership records by named pipes (Windows).
 */
#ifndef URDS_LIB_RECORD_PIPE_H
#define URDS_LIB_RECORD_PIPE_H

#include <stdbool.h>

#include "lib/record_name.h"
#include "platform/windows/win.h"

/* One end of the pipe named after @a, to wait for a client with; the @first takes the name. Anybody may write to it and read
 * from it, only its user may make another. INVALID_HANDLE_VALUE: GetLastError(). */
HANDLE urds_rec_pipe_new(const struct urds_addr *a, bool first);

#endif
