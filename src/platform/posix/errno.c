/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/errno.h"

#include <errno.h>

#include "wire/types.h"

/* The first row that matches counts, in either direction. */
static const struct row {
	int err, sys;
	const char *name;
} table[] = {
#define ROW(err, sys)          \
	{                      \
		err, sys, #err \
	}
	ROW(URDS_EAGAIN, EAGAIN),
	ROW(URDS_ECONG, ENOBUFS),
	ROW(URDS_EMSGSIZE, EMSGSIZE),
	ROW(URDS_EINVAL, EINVAL),
	ROW(URDS_ENOMEM, ENOMEM),
	ROW(URDS_ETIMEDOUT, ETIMEDOUT),
	ROW(URDS_EINTR, EINTR),
	ROW(URDS_ENOTCONN, ENOTCONN),
	ROW(URDS_EADDRINUSE, EADDRINUSE),
	ROW(URDS_EADDRNOTAVAIL, EADDRNOTAVAIL),
	ROW(URDS_EOPNOTSUPP, EOPNOTSUPP),
	ROW(URDS_ENOPROTOOPT, ENOPROTOOPT),
	ROW(URDS_EDESTADDRREQ, EDESTADDRREQ),
	ROW(URDS_EPROTOTYPE, EPROTOTYPE),
	ROW(URDS_EAFNOSUPPORT, EAFNOSUPPORT),
	ROW(URDS_EBADF, EBADF),
	ROW(URDS_EFAULT, EFAULT),
	ROW(URDS_ENOSPC, ENOSPC),
	ROW(URDS_EPROTO, EPROTO),
	ROW(URDS_ECONNREFUSED, ECONNREFUSED),
	ROW(URDS_ECONNRESET, ECONNRESET),
	ROW(URDS_EUNREACH, EHOSTUNREACH),
	ROW(URDS_ECANCELED, ECANCELED),
	ROW(URDS_EACCES, EACCES),
	ROW(URDS_EIO, EIO),
	ROW(URDS_EMFILE, EMFILE),
	/* One way. */
	ROW(URDS_ESHORT, EPROTO),
	ROW(URDS_EUNREACH, ENETUNREACH),
	ROW(URDS_EUNREACH, ENETDOWN),
	ROW(URDS_EUNREACH, EHOSTDOWN),
	ROW(URDS_EUNREACH, ENONET),
	ROW(URDS_ECONNRESET, EPIPE),
	ROW(URDS_ECONNRESET, ECONNABORTED),
	ROW(URDS_EMFILE, ENFILE),
	ROW(URDS_EACCES, EPERM),
	ROW(URDS_EBADF, ENOTSOCK),
	ROW(URDS_EADDRNOTAVAIL, ENODEV),
#undef ROW
};

#define ROWS (sizeof(table) / sizeof(table[0]))

static const struct row *by_err(int err)
{
	for (size_t i = 0; i < ROWS; i++)
		if (table[i].err == err || table[i].err == -err)
			return &table[i];
	return NULL;
}

int urds_err_to_errno(int urds_err)
{
	const struct row *r = by_err(urds_err);

	if (urds_err == 0)
		return 0;
	return r ? r->sys : EIO;
}

int urds_err_from_errno(int errno_value)
{
	if (errno_value == 0)
		return 0;
	for (size_t i = 0; i < ROWS; i++)
		if (table[i].sys == errno_value)
			return table[i].err;
	return URDS_EIO;
}

const char *urds_err_name(int urds_err)
{
	const struct row *r = by_err(urds_err);

	if (urds_err == 0)
		return "success";
	return r ? r->name : "unknown error";
}
