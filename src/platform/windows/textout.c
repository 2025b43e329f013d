/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "platform/textout.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>

#include "platform/errno.h"

int urds_textout_open(const char *path)
{
	int fd = _open(path, _O_WRONLY | _O_CREAT | _O_APPEND | _O_NOINHERIT | _O_BINARY,
		       _S_IREAD | _S_IWRITE);

	return fd < 0 ? -urds_err_from_errno(errno) : fd;
}

void urds_textout_close(int out)
{
	_close(out);
}

bool urds_textout(int out, const char *text, size_t len)
{
	int saved = errno;
	bool ok = _write(out, text, (unsigned)len) == (int)len;

	errno = saved;
	return ok;
}
