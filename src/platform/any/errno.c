/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/errno.h"

#include <errno.h>

#ifdef _WIN32
#include "platform/net.h"
#define SYSTEM(code) code
#else
#define SYSTEM(code) 0
#endif

#include "wire/types.h"

/* The first row that matches counts, in either direction. */
static const struct row {
	int err, sys;
	int code; /* of Winsock, or 0 */
	const char *name;
} table[] = {
#define ROW(err, sys, code)                  \
	{                                    \
		err, sys, SYSTEM(code), #err \
	}
	ROW(URDS_EAGAIN, EAGAIN, WSAEWOULDBLOCK),
	ROW(URDS_ECONG, ENOBUFS, WSAENOBUFS),
	ROW(URDS_EMSGSIZE, EMSGSIZE, WSAEMSGSIZE),
	ROW(URDS_EINVAL, EINVAL, WSAEINVAL),
	ROW(URDS_ENOMEM, ENOMEM, WSA_NOT_ENOUGH_MEMORY),
	ROW(URDS_ETIMEDOUT, ETIMEDOUT, WSAETIMEDOUT),
	ROW(URDS_EINTR, EINTR, WSAEINTR),
	ROW(URDS_ENOTCONN, ENOTCONN, WSAENOTCONN),
	ROW(URDS_EADDRINUSE, EADDRINUSE, WSAEADDRINUSE),
	ROW(URDS_EADDRNOTAVAIL, EADDRNOTAVAIL, WSAEADDRNOTAVAIL),
	ROW(URDS_EOPNOTSUPP, EOPNOTSUPP, WSAEOPNOTSUPP),
	ROW(URDS_ENOPROTOOPT, ENOPROTOOPT, WSAENOPROTOOPT),
	ROW(URDS_EDESTADDRREQ, EDESTADDRREQ, WSAEDESTADDRREQ),
	ROW(URDS_EPROTOTYPE, EPROTOTYPE, WSAEPROTOTYPE),
	ROW(URDS_EAFNOSUPPORT, EAFNOSUPPORT, WSAEAFNOSUPPORT),
	ROW(URDS_EBADF, EBADF, WSAEBADF),
	ROW(URDS_EFAULT, EFAULT, WSAEFAULT),
	ROW(URDS_ENOSPC, ENOSPC, ERROR_DISK_FULL),
	ROW(URDS_EPROTO, EPROTO, 0),
	ROW(URDS_ECONNREFUSED, ECONNREFUSED, WSAECONNREFUSED),
	ROW(URDS_ECONNRESET, ECONNRESET, WSAECONNRESET),
	ROW(URDS_EUNREACH, EHOSTUNREACH, WSAEHOSTUNREACH),
	ROW(URDS_ECANCELED, ECANCELED, WSA_OPERATION_ABORTED),
	ROW(URDS_EACCES, EACCES, WSAEACCES),
	ROW(URDS_EIO, EIO, 0),
	ROW(URDS_EMFILE, EMFILE, WSAEMFILE),
/* One way. */
#if EWOULDBLOCK != EAGAIN
	ROW(URDS_EAGAIN, EWOULDBLOCK, 0),
#endif
	ROW(URDS_ESHORT, EPROTO, 0),
	ROW(URDS_EUNREACH, ENETUNREACH, WSAENETUNREACH),
	ROW(URDS_EUNREACH, ENETDOWN, WSAENETDOWN),
#ifdef EHOSTDOWN
	ROW(URDS_EUNREACH, EHOSTDOWN, WSAEHOSTDOWN),
	ROW(URDS_EUNREACH, ENONET, 0),
#else
	ROW(URDS_EUNREACH, EHOSTUNREACH, WSAEHOSTDOWN),
#endif
	ROW(URDS_ECONNRESET, EPIPE, WSAESHUTDOWN),
	ROW(URDS_ECONNRESET, ECONNABORTED, WSAECONNABORTED),
	ROW(URDS_ECONNRESET, ECONNRESET, ERROR_NETNAME_DELETED),
	ROW(URDS_ECONNREFUSED, ECONNREFUSED, ERROR_CONNECTION_REFUSED),
	ROW(URDS_EUNREACH, EHOSTUNREACH, ERROR_HOST_UNREACHABLE),
	ROW(URDS_EUNREACH, ENETUNREACH, ERROR_NETWORK_UNREACHABLE),
	ROW(URDS_ETIMEDOUT, ETIMEDOUT, ERROR_SEM_TIMEOUT),
	ROW(URDS_ENOMEM, ENOMEM, ERROR_NOT_ENOUGH_MEMORY),
	ROW(URDS_EMFILE, ENFILE, ERROR_TOO_MANY_OPEN_FILES),
	ROW(URDS_EACCES, EPERM, ERROR_ACCESS_DENIED),
	ROW(URDS_EBADF, ENOTSOCK, WSAENOTSOCK),
	ROW(URDS_EADDRNOTAVAIL, ENODEV, 0),
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

#ifdef _WIN32
int urds_err_from_system(unsigned long code)
{
	if (code == 0)
		return 0;
	for (size_t i = 0; i < ROWS; i++)
		if (table[i].code != 0 && (unsigned long)table[i].code == code)
			return table[i].err;
	return URDS_EIO;
}
#endif

const char *urds_err_name(int urds_err)
{
	const struct row *r = by_err(urds_err);

	if (urds_err == 0)
		return "success";
	return r ? r->name : "unknown error";
}
