/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * urds cat: a byte stream over RDS. The sender's messages (1 byte to 64 KiB) are the stream, an empty one
 * ends it, and the receiver answers with an empty one when it has written everything. Nothing else is
 * exchanged, so that a few lines of AF_RDS code are a peer.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define MESSAGE_MAX 65536
#define TICK_S 1	  /* longest single wait, so that limits and hints are noticed */
#define HINT_S 5	  /* nothing moved for that long: say what is waited for, once */
#define ANSWER_DEFAULT 60 /* seconds a sender waits for the answer */

static const char help[] =
	"usage: urds cat -l [-v] [-w SECONDS] ADDR:PORT\n"
	"       urds cat [-I ADDR] [-v] [-w SECONDS] ADDR:PORT\n"
	"\n"
	"With -l receives one stream at a local address and port and writes it to standard output; else\n"
	"sends standard input to such a receiver. IPv6: [ADDR]:PORT. Start the receiver first: messages to\n"
	"a port that nobody has are dropped.\n"
	"\n"
	"  -l           receive\n"
	"  -I ADDR      local address to send from; default: the one packets would leave from\n"
	"  -w SECONDS   give up when nothing moves for that long; 0: never. Default: never, and 60\n"
	"               for the receiver's answer at the end\n"
	"  -v           say on standard error when the receiver is ready, and what was moved\n"
	"  --help       this text\n"
	"  --version    the release\n"
	"\n"
	"Exit status: 0 the whole stream was moved, 1 it was not, 2 bad usage.\n";

static const struct option options[] = {
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

struct job {
	struct urds_ctx *ctx;
	struct urds_sock *sock;
	struct tool_addr here, there;
	long wait_s; /* -1: not given */
	bool is_verbose;
	unsigned long long bytes, messages;
	uint8_t buf[MESSAGE_MAX];
};

static int open_at(struct job *j)
{
	if (urds_open(NULL, &j->ctx) < 0) {
		tool_error("cannot start: %s", urds_reason());
		return -1;
	}
	j->sock = urds_socket(j->ctx);
	if (!j->sock || urds_bind(j->sock, tool_sa(&j->here), j->here.len) < 0) {
		tool_error("cannot use %s port %u: %s", j->here.text, tool_port(&j->here),
			   urds_reason());
		return -1;
	}
	return 0;
}

/* A wait that calls of at most TICK_S each are part of. */
struct patience {
	uint64_t start_ns;
	long limit_s; /* 0: none */
	bool has_hinted;
};

/* After a call that ended for want of time. False: the limit has passed. */
static bool still_patient(struct patience *p, const char *hint)
{
	uint64_t spent = tool_now_ns() - p->start_ns;

	if (p->limit_s && spent >= (uint64_t)p->limit_s * 1000000000u)
		return false;
	if (hint && !p->has_hinted && spent >= HINT_S * 1000000000ull) {
		tool_error("%s", hint);
		p->has_hinted = true;
	}
	return true;
}

static void moved(const struct job *j, const char *what)
{
	if (j->is_verbose)
		tool_error("%s %llu bytes in %llu messages", what, j->bytes, j->messages);
}

/* Return: 0 or -1 (said). */
static int write_all(const uint8_t *p, size_t len)
{
	ssize_t n;

	while (len) {
		n = tool_write(p, len);
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else {
			tool_error("cannot write to standard output: %s; %s",
				   n == 0 ? "nothing was taken" : tool_strerror(errno),
				   errno == EPIPE    ? "the program that reads it has ended"
				   : errno == ENOSPC ? "make room and send again"
						     : "the stream is cut here");
			return -1;
		}
	}
	return 0;
}

static int send_one(struct job *j, const void *buf, size_t len)
{
	struct patience p = {tool_now_ns(), j->wait_s > 0 ? j->wait_s : 0, false};
	char hint[256];

	for (;;) {
		if (urds_sendto(j->sock, buf, len, 0, tool_sa(&j->there), j->there.len) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != ETIMEDOUT && errno != EAGAIN) {
			tool_error("cannot send to %s port %u: %s", j->there.text,
				   tool_port(&j->there), urds_reason());
			return -1;
		}
		snprintf(
			hint, sizeof(hint),
			"%s port %u takes no data for now; waiting: is its host up, does 'urds cat "
			"-l' run there, is its output read? (-w limits the wait)",
			j->there.text, tool_port(&j->there));
		if (!still_patient(&p, hint)) {
			tool_error(
				"gave up after %llu bytes: %s port %u took nothing for %ld s; see "
				"that 'urds cat -l' runs there, then send again",
				j->bytes, j->there.text, tool_port(&j->there), j->wait_s);
			return -1;
		}
	}
}

/* The next message, and from whom. Return: its length, -1 (said), -2 after the limit. */
static ssize_t receive(struct job *j, long limit_s, struct tool_addr *from, const char *hint)
{
	struct patience p = {tool_now_ns(), limit_s, false};
	struct sockaddr_storage sa;
	socklen_t len;
	ssize_t n;

	for (;;) {
		len = sizeof(sa);
		n = urds_recvfrom(j->sock, j->buf, sizeof(j->buf), MSG_TRUNC,
				  (struct sockaddr *)&sa, &len);
		if (n >= 0) {
			tool_addr_set(from, (struct sockaddr *)&sa, len);
			return n;
		}
		if (errno == EINTR)
			continue;
		if (errno != ETIMEDOUT && errno != EAGAIN) {
			tool_error("cannot receive at %s port %u: %s", j->here.text,
				   tool_port(&j->here), urds_reason());
			return -1;
		}
		if (!still_patient(&p, hint))
			return -2;
	}
}

static bool same_end(const struct tool_addr *a, const struct tool_addr *b)
{
	return tool_addr_same(a, b) && tool_port(a) == tool_port(b);
}

/* Return: exit code. */
static int send_stream(struct job *j)
{
	long limit = j->wait_s >= 0 ? j->wait_s : ANSWER_DEFAULT;
	struct tool_addr from;
	char hint[256];
	ssize_t n;

	for (;;) {
		n = tool_read(j->buf, sizeof(j->buf));
		if (n < 0) {
			/* No end is sent: the receiver must not take this for the whole. */
			tool_error(
				"cannot read standard input: %s; the stream to %s is cut after %llu "
				"bytes",
				tool_strerror(errno), j->there.text, j->bytes);
			return TOOL_FAILED;
		}
		if (send_one(j, j->buf, (size_t)n) < 0)
			return TOOL_FAILED;
		if (n == 0)
			break;
		j->bytes += (unsigned long long)n;
		j->messages++;
	}
	moved(j, "sent");
	snprintf(
		hint, sizeof(hint),
		"all %llu bytes are sent; waiting for %s port %u to confirm them (-w limits the wait)",
		j->bytes, j->there.text, tool_port(&j->there));
	do {
		n = receive(j, limit, &from, hint);
	} while (n >= 0 && !(n == 0 && same_end(&from, &j->there)));
	if (n == -2)
		tool_error(
			"no confirmation from %s port %u within %ld s: the data may be lost. Start "
			"'urds cat -l' there before this, and send again",
			j->there.text, tool_port(&j->there), limit);
	return n == 0 ? TOOL_OK : TOOL_FAILED;
}

/* Messages that are not of the stream: said once per run of them. */
static void stranger(struct job *j, const struct tool_addr *from, struct tool_addr *last)
{
	if (last->len && same_end(from, last))
		return;
	*last = *from;
	tool_error("ignored a message from %s port %u: this stream is from %s port %u", from->text,
		   tool_port(from), j->there.text, tool_port(&j->there));
}

static int receive_stream(struct job *j)
{
	long limit = j->wait_s > 0 ? j->wait_s : 0;
	struct tool_addr from, last = {.len = 0};
	ssize_t n;

	if (j->is_verbose)
		tool_error("ready %s port %u", j->here.text, tool_port(&j->here));
	for (;;) {
		n = receive(j, limit, &from, NULL);
		if (n == -2)
			tool_error("gave up after %llu bytes: nothing came to %s port %u for %ld s",
				   j->bytes, j->here.text, tool_port(&j->here), limit);
		if (n < 0)
			return TOOL_FAILED;
		if (!j->there.len)
			j->there = from;
		if (!same_end(&from, &j->there)) {
			stranger(j, &from, &last);
			continue;
		}
		if ((size_t)n > sizeof(j->buf)) {
			tool_error(
				"%s port %u sent a message of %zd bytes, and a stream has at most %d "
				"per message: is that 'urds cat'?",
				from.text, tool_port(&from), n, MESSAGE_MAX);
			return TOOL_FAILED;
		}
		if (n == 0)
			break;
		if (write_all(j->buf, (size_t)n) < 0)
			return TOOL_FAILED;
		j->bytes += (unsigned long long)n;
		j->messages++;
	}
	moved(j, "received");
	return send_one(j, NULL, 0) < 0 ? TOOL_FAILED : TOOL_OK;
}

/* -I, or the way packets go; then it must be free to be owned by this command. Return: 0 or -1 (said). */
static int choose_source(struct job *j, const char *from)
{
	struct urds_owner owner;
	char text[192];
	const char *why;
	int err;

	if (from) {
		why = tool_resolve(&j->here, from, j->there.sa.ss_family);
		if (why) {
			tool_error("cannot send from '%s': %s; give a local %s address with -I",
				   from, why, j->there.sa.ss_family == AF_INET ? "IPv4" : "IPv6");
			return -1;
		}
	} else {
		err = tool_route(&j->here, &j->there);
		if (err) {
			tool_error("no route to %s: %s; choose a source address with -I",
				   j->there.text, tool_strerror(err));
			return -1;
		}
	}
	if (tool_addr_same(&j->here, &j->there)) {
		tool_error(
			"cannot send to %s from %s itself, which belongs to the receiver; choose "
			"another local address to send from with -I",
			j->there.text, j->here.text);
		return -1;
	}
	if (urds_owner_ident(tool_sa(&j->here), j->here.len, &owner) == 0) {
		tool_error(
			"cannot send from %s: it is owned by %s; choose another local address with "
			"-I",
			j->here.text, tool_owner_text(&owner, text, sizeof(text)));
		return -1;
	}
	return 0;
}

static int run(struct job *j, bool is_receiver)
{
	struct timeval tick = {.tv_sec = TICK_S};
	int rc = TOOL_FAILED;

	if (open_at(j) < 0)
		goto done;
	if (urds_setsockopt(j->sock, SOL_SOCKET, SO_SNDTIMEO, &tick, sizeof(tick)) < 0 ||
	    urds_setsockopt(j->sock, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick)) < 0) {
		tool_error("cannot set time limits: %s", urds_reason());
		goto done;
	}
	rc = is_receiver ? receive_stream(j) : send_stream(j);
	/* A failed stream is dropped at once; the end of a good one has to reach the other side, and
	 * that is what shutting down with the socket open waits for. */
	if (rc != TOOL_OK)
		urds_close(j->sock);
done:
	if (j->ctx)
		urds_shutdown(j->ctx);
	return rc;
}

int tool_cat(int argc, char **argv)
{
	struct job *j = calloc(1, sizeof(*j));
	bool is_receiver = false;
	const char *from = NULL, *why;
	struct tool_addr end;
	long long n;
	int c, rc;

	if (!j) {
		tool_error("no memory for a buffer of %d bytes", MESSAGE_MAX);
		return TOOL_FAILED;
	}
	j->wait_s = -1;
	rc = -1;
	while (rc < 0 && (c = getopt_long(argc, argv, "lI:w:vhV", options, NULL)) != -1) {
		switch (c) {
		case 'l':
			is_receiver = true;
			break;
		case 'I':
			from = optarg;
			break;
		case 'w':
			n = tool_number(optarg);
			if (n < 0 || n > 1000000000)
				rc = tool_usage("-w %s: give a number of seconds", optarg);
			else
				j->wait_s = (long)n;
			break;
		case 'v':
			j->is_verbose = true;
			break;
		case 'h':
			rc = tool_print(help);
			break;
		case 'V':
			rc = tool_version();
			break;
		default:
			rc = tool_usage("bad option");
		}
	}
	if (rc >= 0)
		goto done;
	if (optind + 1 != argc) {
		rc = tool_usage("which ADDR:PORT? Give one");
		goto done;
	}
	if (is_receiver && from) {
		rc = tool_usage("-I goes with sending; a receiver's address is in ADDR:PORT");
		goto done;
	}
	why = tool_endpoint(&end, argv[optind]);
	if (why) {
		rc = tool_usage("'%s': %s", argv[optind], why);
		goto done;
	}
	tool_ignore_broken_pipes();
	tool_bytes();
	rc = TOOL_FAILED;
	if (is_receiver) {
		j->here = end;
		rc = run(j, true);
	} else {
		j->there = end;
		if (choose_source(j, from) == 0)
			rc = run(j, false);
	}
done:
	free(j);
	return rc;
}
