/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/words.h"

const struct urds_words urds_words = {
	.addresses = "ipconfig",
	.port = "does another program listen there (netstat -ano)?",
	.files = "close some handles, or end what has many (the task manager counts them)",
	.many_files = "too many open handles",
	.threads = "end some threads, or free memory",
};
