// SPDX-License-Identifier: GPL-2.0
/* write() of the programs and of the provider. Part of the programs, as the library's symbols have versions. */

#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

ssize_t write(int fd, const void *data, size_t count)
{
	if (fd == fake_file) {
		__atomic_fetch_add(&fake_doorbells, 1, __ATOMIC_ACQ_REL);
		return count;
	}
	return syscall(SYS_write, fd, data, count);
}
