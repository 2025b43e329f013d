/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What urds stress asks the library for besides plain messages: RDMA, sends with notification, a reset.
 */
#include <errno.h>
#include <string.h>

#include "stress.h"

#define OPT_FREE_MR 3 /* RDS_FREE_MR: two numbers */
#define CMSG_ASYNC 10 /* a send of which the end is told: of some kernels only */
#define CMSG_ASYNC_LEN 16

static struct sockaddr_in base(const struct stress_run *r)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(r->o.port),
				    .sin_addr.s_addr = htonl(r->o.recv_addr)};
}

static void ask_rdma(struct urds_sock *s)
{
	const uint64_t none[2] = {0, 0};

	if (urds_setsockopt(s, URDS_SOL_RDS, OPT_FREE_MR, none, sizeof(none)) < 0 &&
	    errno != ENOPROTOOPT)
		tool_error(
			"check_rdma_support: RDS_FREE_MR failed with unexpected error, errno: %d (%s): "
			"urds has no RDMA, leave -D out",
			errno, tool_strerror(errno));
	else
		tool_error("RDMA not supported by this kernel: leave -D out");
}

/* To itself: nobody else is to get anything if it works. */
static bool has_async(const struct stress_run *r, struct urds_sock *s)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(CMSG_ASYNC_LEN)] = {0};
	struct sockaddr_in to = base(r);
	struct msghdr m = {.msg_name = &to,
			   .msg_namelen = sizeof(to),
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	const struct cmsghdr head = {.cmsg_len = CMSG_LEN(CMSG_ASYNC_LEN),
				     .cmsg_level = URDS_SOL_RDS,
				     .cmsg_type = CMSG_ASYNC};

	memcpy(control, &head, sizeof(head));
	return urds_sendmsg(s, &m, MSG_DONTWAIT) >= 0;
}

int stress_probe(struct stress_run *r)
{
	struct sockaddr_in at = base(r);
	struct urds_ctx *ctx = NULL;
	struct urds_sock *s = NULL;

	if (!r->o.rdma_bytes && !r->o.is_async)
		return 0;
	if (urds_open(NULL, &ctx) < 0 || !(s = urds_socket(ctx)) ||
	    urds_bind(s, (struct sockaddr *)&at, sizeof(at)) < 0)
		tool_error(
			"cannot use port %u: %s; choose other ports with -p, or a local address with -r",
			r->o.port, urds_reason());
	else if (r->o.rdma_bytes)
		ask_rdma(s);
	else if (!has_async(r, s))
		tool_error("sendto() failed, errno: %d (%s): %s; leave --async out", errno,
			   tool_strerror(errno), urds_reason());
	else
		tool_error("this command sends nothing with notification: leave --async out");
	if (s)
		urds_close(s);
	if (ctx)
		urds_shutdown(ctx);
	return -1;
}

int stress_reset(const struct stress_opts *o)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(o->send_addr)};
	struct tool_addr from, to;
	int err;

	tool_addr_set(&to, (struct sockaddr *)&sa, sizeof(sa));
	sa.sin_addr.s_addr = htonl(o->recv_addr);
	tool_addr_set(&from, (struct sockaddr *)&sa, sizeof(sa));
	err = o->recv_addr ? 0 : tool_route(&from, &to);
	if (err) {
		tool_error("no route to %s: %s; choose a source address with -r", to.text,
			   tool_strerror(err));
		return TOOL_FAILED;
	}
	if (urds_owner_reset(tool_sa(&from), from.len, tool_sa(&to), to.len) < 0) {
		tool_error("cannot reset the connection from %s to %s: %s", from.text, to.text,
			   urds_reason());
		return TOOL_FAILED;
	}
	return TOOL_OK;
}
