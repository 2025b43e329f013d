/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A socket that no transport knows of.
 */
#ifndef URDS_TESTS_CONTRACT_RAW_H
#define URDS_TESTS_CONTRACT_RAW_H

#include <sys/socket.h>

static int raw_socket(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

#endif
