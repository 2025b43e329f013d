/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Runs a fuzz target where libFuzzer is not: over given inputs, then over mutations of them. Inputs
 *are files; from a capture (.pcap, .pcap.gz) come its RDS streams and the extension areas in them.
 *
 *	fuzz_X [--runs N] [--seed S] [--only RUN] [--write DIR] INPUT...
 *
 * A run depends on the seed, its number and the inputs, so --only repeats one. --write puts the
 *inputs into DIR, one file each, as a corpus for libFuzzer.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../interop/pcap.h"
#include "wire/hdr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

#define INPUT_MAX 65536u /* bytes; longer inputs only take longer */

struct input {
	uint8_t *p;
	size_t len;
};

static struct input *inputs;
static size_t ninputs;
static char replay[160]; /* what to say if the target dies */

static void *must(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "driver: out of memory\n");
	exit(2);
}

static void add(const uint8_t *p, size_t len)
{
	if (len > INPUT_MAX)
		len = INPUT_MAX;
	if ((ninputs & (ninputs - 1)) == 0) /* full at each power of two */
		inputs = must(realloc(inputs, (ninputs ? 2 * ninputs : 1) * sizeof(*inputs)));
	inputs[ninputs].p = must(malloc(len + 1));
	memcpy(inputs[ninputs].p, p, len);
	inputs[ninputs++].len = len;
}

static void on_data(struct pcap *c, struct pcap_flow *f, uint64_t now_ns, const uint8_t *p,
		    size_t len)
{
	struct input *in = f->user;

	(void)c;
	(void)now_ns;
	if (!in) {
		in = f->user = must(calloc(1, sizeof(*in)));
		in->p = must(calloc(1, INPUT_MAX));
		in->len = 2; /* the splitter target's choice of pieces */
	}
	if (len > INPUT_MAX - in->len)
		len = INPUT_MAX - in->len;
	memcpy(in->p + in->len, p, len);
	in->len += len;
}

static void on_end(struct pcap *c, struct pcap_flow *f)
{
	struct input *in = f->user;
	size_t at = 2;

	(void)c;
	if (!in)
		return;
	add(in->p, in->len);
	while (in->len - at >= URDS_HDR_LEN) {
		size_t len = URDS_HDR_LEN + urds_be32_load(in->p + at + URDS_HDR_OFF_LEN);

		if (in->p[at + URDS_HDR_OFF_EXT] != 0)
			add(in->p + at + URDS_HDR_OFF_EXT, URDS_HDR_EXT_LEN);
		if (len > in->len - at)
			break;
		at += len;
	}
	free(in->p);
	free(in);
}

static void load(const char *file)
{
	uint8_t buf[INPUT_MAX];
	FILE *f;

	if (strstr(file, ".pcap")) {
		struct pcap c = {.port = URDS_TCP_PORT, .on_data = on_data, .on_end = on_end};

		if (pcap_read(&c, file) < 0)
			exit(2);
		return;
	}
	f = fopen(file, "rb");
	if (!f) {
		perror(file);
		exit(2);
	}
	add(buf, fread(buf, 1, sizeof(buf), f));
	fclose(f);
}

static void write_corpus(const char *dir)
{
	for (size_t i = 0; i < ninputs; i++) {
		char name[4096];
		FILE *f;

		snprintf(name, sizeof(name), "%s/input-%05zu", dir, i);
		f = fopen(name, "wb");
		if (!f || fwrite(inputs[i].p, 1, inputs[i].len, f) != inputs[i].len ||
		    fclose(f) != 0) {
			perror(name);
			exit(2);
		}
	}
}

/* splitmix64 */
static uint64_t next(uint64_t *rnd)
{
	uint64_t z = (*rnd += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static size_t below(uint64_t *rnd, size_t n)
{
	return n ? (size_t)(next(rnd) % n) : 0;
}

static size_t mutate(uint8_t *buf, size_t len, uint64_t *rnd)
{
	static const uint32_t lengths[] = {0,	    1,		47,	   48,	    49,
					   8191,    8192,	8193,	   1048576, 1114112,
					   1114113, 0x7fffffff, 0xffffffff};
	static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 32, 64, 127, 128, 255};
	size_t at = below(rnd, len), n = below(rnd, len - at < 64 ? len - at : 64);
	const struct input *other;

	switch (below(rnd, 8)) {
	case 0:
		if (len > 0)
			buf[at] ^= (uint8_t)(1u << below(rnd, 8));
		return len;
	case 1:
		if (len > 0)
			buf[at] = bytes[below(rnd, sizeof(bytes))];
		return len;
	case 2: /* a field of four bytes, in the beginning more often than not */
		at = below(rnd, 4) ? below(rnd, len < 128 ? len : 128) : at;
		if (len - at >= 4)
			urds_be32_store(buf + at, lengths[below(rnd, 13)]);
		return len;
	case 3: /* remove */
		memmove(buf + at, buf + at + n, len - at - n);
		return len - n;
	case 4: /* repeat */
		if (len + n > INPUT_MAX)
			return len;
		memmove(buf + at + n, buf + at, len - at);
		return len + n;
	case 5:
		return at;
	case 6: /* overwrite from another input */
		other = &inputs[below(rnd, ninputs)];
		n = below(rnd, (len - at < other->len ? len - at : other->len) + 1);
		memcpy(buf + at, other->p + below(rnd, other->len - n + 1), n);
		return len;
	default: /* append another input */
		other = &inputs[below(rnd, ninputs)];
		n = other->len < INPUT_MAX - len ? other->len : INPUT_MAX - len;
		memcpy(buf + len, other->p, n);
		return len + n;
	}
}

/* From a copy of the exact size, so that a sanitizer sees the first byte read too far. */
static void run(const uint8_t *p, size_t len)
{
	uint8_t *copy = must(malloc(len ? len : 1));

	memcpy(copy, p, len);
	LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

static void say_replay(void)
{
	ssize_t rc = write(2, replay, strlen(replay));

	(void)rc;
}

static void on_signal(int sig)
{
	say_replay();
	signal(sig, SIG_DFL);
	raise(sig);
}

int main(int argc, char **argv)
{
	uint64_t runs = 10000, seed = 1, first = 0, rnd;
	static uint8_t buf[INPUT_MAX];
	const char *dir = NULL;
	int i;

	for (i = 1; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
		const char *arg = argv[i + 1];

		if (strcmp(argv[i], "--runs") == 0)
			runs = strtoull(arg, NULL, 0);
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(arg, NULL, 0);
		else if (strcmp(argv[i], "--only") == 0)
			runs = (first = strtoull(arg, NULL, 0)) + 1;
		else if (strcmp(argv[i], "--write") == 0)
			dir = arg;
		else
			break;
	}
	if (i < argc && argv[i][0] == '-') {
		fprintf(stderr,
			"usage: %s [--runs N] [--seed S] [--only RUN] [--write DIR] INPUT...\n",
			argv[0]);
		return 2;
	}
	add(buf, 0);
	for (; i < argc; i++)
		load(argv[i]);
	if (dir) {
		write_corpus(dir);
		return 0;
	}
	printf("seed %" PRIu64 ": %zu inputs, then %" PRIu64 " mutations\n", seed, ninputs,
	       runs - first);
	fflush(stdout);
	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(say_replay);
	for (size_t n = 0; n < ninputs && first == 0; n++) {
		snprintf(replay, sizeof(replay), "died on input %zu, unchanged\n", n);
		run(inputs[n].p, inputs[n].len);
	}
	for (uint64_t n = first; n < runs; n++) {
		const struct input *in;
		size_t len;

		snprintf(replay, sizeof(replay),
			 "died on a mutation; replay: --seed %" PRIu64 " --only %" PRIu64
			 " and the same inputs\n",
			 seed, n);
		rnd = seed * 0x2545f4914f6cdd1du + n;
		in = &inputs[below(&rnd, ninputs)];
		memcpy(buf, in->p, len = in->len);
		for (size_t times = 1 + below(&rnd, 8); times > 0; times--)
			len = mutate(buf, len, &rnd);
		run(buf, len);
	}
	for (size_t n = 0; n < ninputs; n++)
		free(inputs[n].p);
	free(inputs);
	return 0;
}
