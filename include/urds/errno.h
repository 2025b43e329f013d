/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Error numbers that are the same on every system. urds_errno() returns one of them; the
 * value of errno for each is named where it is not the obvious one.
 */
#ifndef URDS_ERRNO_H
#define URDS_ERRNO_H

enum urds_err {
	URDS_EAGAIN = 1,    /* would block; a full send buffer, an empty queue */
	URDS_ECONG,	    /* destination port congested (ENOBUFS) */
	URDS_EMSGSIZE,	    /* message longer than SO_SNDBUF or 1 MiB */
	URDS_EINVAL,	    /* a malformed argument */
	URDS_ENOMEM,	    /* allocation failed or a bound of limits.h was reached */
	URDS_ETIMEDOUT,	    /* a deadline passed */
	URDS_EINTR,	    /* a signal arrived */
	URDS_ENOTCONN,	    /* unbound, or no destination */
	URDS_EADDRINUSE,    /* port or node taken */
	URDS_EADDRNOTAVAIL, /* not an address of this host */
	URDS_EOPNOTSUPP,    /* not supported on this socket or transport */
	URDS_ENOPROTOOPT,   /* unknown option */
	URDS_EDESTADDRREQ,  /* connect to 0.0.0.0 */
	URDS_EPROTOTYPE,    /* not a unicast address */
	URDS_EAFNOSUPPORT,  /* not AF_INET or AF_INET6 */
	URDS_EBADF,	    /* closed, or inherited through fork */
	URDS_EFAULT,	    /* bad pointer or option size the kernel reports so */
	URDS_ENOSPC,	    /* the caller's buffer is too small */
	URDS_ESHORT,	    /* decoder: more bytes needed */
	URDS_EPROTO,	    /* decoder: bytes no peer may send */
	URDS_ECONNREFUSED,  /* connect: nothing listens */
	URDS_ECONNRESET,    /* link: the other end reset it */
	URDS_EUNREACH,	    /* link: no route, host down */
	URDS_ECANCELED,	    /* request cancelled */
	URDS_EACCES,	    /* not permitted */
	URDS_EIO,	    /* an operating system error with no better name */
	URDS_EMFILE,	    /* no more descriptors */
	URDS_ERR_MAX
};

#endif
