/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Names and the asking side, by AF_UNIX: find the owner of an address, be sure who it is, exchange messages within a limit.
 * Process and user come from the system (SO_PEERCRED of a listener: who called listen), so that an
 * owner that is stopped, or lies, is named all the same.
 */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/record_codec.h"
#include "lib/record_link.h"
#include "platform/addr.h"
#include "platform/clock.h"
#include "platform/errno.h"
#include "platform/posix/fds.h"
#include "urds/owner.h"

#define BACKLOG 32

struct urds_rec_link {
	int fd;
};

const char urds_rec_look_at[] = "the output of `ss -xlp`";
const char urds_rec_listed_in[] = "/proc/net/unix: mount /proc";
const char urds_rec_needs[] = "abstract AF_UNIX sockets are needed";

/* "\0urds/owner/192.0.2.1". Return: the length to pass with it. */
static socklen_t name_of(struct sockaddr_un *out, const struct urds_addr *a)
{
	char text[URDS_ADDR_STRLEN + 16];
	size_t n = urds_rec_text(text, sizeof(text), a);

	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "%s%s", URDS_REC_PREFIX, text);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(URDS_REC_PREFIX) + n);
}

int urds_rec_listen(const struct urds_addr *a, struct urds_rec_name *out)
{
	struct sockaddr_un sun;
	socklen_t len = name_of(&sun, a);
	int fd, err;

	urds_fds_enter();
	fd = urds_fds_made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -urds_err_from_errno(errno);
	*out = (struct urds_rec_name){fd, -1};
	if (bind(fd, (struct sockaddr *)&sun, len) == 0 && listen(fd, BACKLOG) == 0)
		return 0;
	err = urds_err_from_errno(errno);
	urds_fds_close(fd);
	return -err;
}

static void user_name(struct urds_owner *o)
{
	struct passwd pw, *found = NULL;
	char buf[2048];

	if (getpwuid_r((uid_t)o->uid, &pw, buf, sizeof(buf), &found) == 0 && found)
		snprintf(o->user, sizeof(o->user), "%.63s", found->pw_name);
	else
		snprintf(o->user, sizeof(o->user), "%u", o->uid);
}

/* What the process calls itself, for an owner that does not answer. */
static void program_name(struct urds_owner *o)
{
	char path[40];
	FILE *f;

	snprintf(o->program, sizeof(o->program), "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", o->pid);
	f = o->pid > 0 ? fopen(path, "re") : NULL;
	if (!f)
		return;
	if (fgets(o->program, sizeof(o->program), f))
		o->program[strcspn(o->program, "\n")] = '\0';
	fclose(f);
}

static void set_limit(int fd, int opt, urds_ns end)
{
	urds_ns now = urds_clock_ns(), left = end > now ? end - now : 1000;
	struct timeval tv = {(time_t)(left / URDS_SEC(1)),
			     (suseconds_t)(left % URDS_SEC(1) / 1000)};

	setsockopt(fd, SOL_SOCKET, opt, &tv, sizeof(tv));
}

static int dial(const struct urds_addr *a, urds_ns end, struct urds_owner *who)
{
	struct sockaddr_un sun;
	socklen_t len = name_of(&sun, a), cred_len;
	struct ucred cred = {0};
	int fd, err;

	memset(who, 0, sizeof(*who));
	urds_fds_enter();
	fd = urds_fds_made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return -urds_err_from_errno(errno);
	set_limit(fd, SO_SNDTIMEO, end); /* a full backlog blocks connect for that long */
	if (connect(fd, (struct sockaddr *)&sun, len) < 0) {
		err = errno == ECONNREFUSED ? URDS_ENOTCONN
		      : errno == EAGAIN	    ? URDS_ETIMEDOUT
					    : urds_err_from_errno(errno);
		urds_fds_close(fd);
		return -err;
	}
	cred_len = sizeof(cred);
	cred.uid = (uid_t)-1;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len);
	who->pid = cred.pid;
	who->uid = cred.uid;
	who->is_ours = geteuid() == 0 || geteuid() == cred.uid;
	user_name(who);
	program_name(who);
	return fd;
}

int urds_rec_dial(const struct urds_addr *a, urds_ns end, struct urds_owner *who,
		  struct urds_rec_link **out)
{
	struct urds_rec_link *l = malloc(sizeof(*l));

	if (!l)
		return -URDS_ENOMEM;
	l->fd = dial(a, end, who);
	if (l->fd < 0) {
		int rc = l->fd;

		free(l);
		return rc;
	}
	*out = l;
	return 0;
}

void urds_rec_hang_up(struct urds_rec_link *l)
{
	urds_fds_close(l->fd);
	free(l);
}

int urds_rec_wait(struct urds_rec_link *l, int timeout_ms)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};
	int n = poll(&p, 1, timeout_ms);

	return n < 0 ? -urds_err_from_errno(errno) : n;
}

/* Return: 0 when @fd is ready (or ended), -URDS_ETIMEDOUT, or that the system will not wait. */
static int ready(int fd, short events, urds_ns end)
{
	struct pollfd p = {.fd = fd, .events = events};
	urds_ns now;
	int n;

	for (;;) {
		now = urds_clock_ns();
		n = poll(&p, 1, now < end ? (int)((end - now) / URDS_MS(1)) + 1 : 0);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -urds_err_from_errno(errno);
		if (now >= end)
			return -URDS_ETIMEDOUT;
	}
}

int urds_rec_send(struct urds_rec_link *l, const uint8_t *p, size_t len, urds_ns end)
{
	int rc = ready(l->fd, POLLOUT, end);

	if (rc < 0)
		return rc;
	if (send(l->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == EPIPE || errno == ECONNRESET ? -URDS_ENOTCONN
							     : -urds_err_from_errno(errno);
	return 0;
}

int urds_rec_recv(struct urds_rec_link *l, uint8_t *p, size_t cap, urds_ns end)
{
	int rc = ready(l->fd, POLLIN, end);
	ssize_t n;

	if (rc < 0)
		return rc;
	/* MSG_TRUNC: the true length, so that a cut message fails its length check. */
	n = recv(l->fd, p, cap, MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0)
		return errno == ECONNRESET ? -URDS_ENOTCONN : -urds_err_from_errno(errno);
	if (n == 0)
		return -URDS_ENOTCONN;
	return (size_t)n > cap ? -URDS_EPROTO : (int)n;
}

/* "1234: 00000002 00000000 00010000 0005 01 5678 @urds/owner/192.0.2.1": listeners only, because a
 * connection's end has the name too. */
static char *owner_in(char *line)
{
	char *name = strstr(line, " @" URDS_REC_PREFIX);
	unsigned flags;

	if (!name || sscanf(line, "%*s %*x %*x %x", &flags) != 1 || !(flags & 0x10000))
		return NULL;
	name += 2 + sizeof(URDS_REC_PREFIX) - 1;
	name[strcspn(name, "\n")] = '\0';
	return name;
}

int urds_rec_find(struct urds_addr **out, size_t *n)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], *name;
	int rc = 0;

	*out = NULL;
	*n = 0;
	if (!f)
		return -URDS_EACCES;
	while (rc == 0 && *n < URDS_REC_OWNERS_MAX && fgets(line, sizeof(line), f)) {
		name = owner_in(line);
		if (name)
			rc = urds_rec_found(out, n, name);
	}
	fclose(f);
	return rc;
}
