/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/words.h"

const struct urds_words urds_words = {
	.addresses = "ip address",
	.port = "is the kernel's rds_tcp loaded (lsmod), or does another program listen there (ss -ltnp)?",
	.files = "raise the limit of open files (ulimit -n)",
	.many_files = "too many open files: raise ulimit -n",
	.threads = "raise the limit of threads (ulimit -u)",
};
