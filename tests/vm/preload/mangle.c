// SPDX-License-Identifier: GPL-2.0
/*
 * LD_PRELOAD=mangle.so PROGRAM: changes calls of a program to /dev/infiniband. In one
 * call of MANGLE_ONE_IN (default 8), a field of the command, of its attributes or of what
 * they point to gets another value; mappings get other offsets and lengths. SEED and the
 * earlier calls determine the choices. The program gets wrong answers and may crash; the
 * kernel must not.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static __thread uint64_t state;
static uint64_t seed = 1;
static unsigned int one_in = 8;

static __attribute__((constructor)) void begin(void)
{
	const char *s = getenv("SEED");
	const char *n = getenv("MANGLE_ONE_IN");

	if (s)
		seed = strtoull(s, NULL, 0);
	if (n)
		one_in = strtoul(n, NULL, 0);
}

/* splitmix64 */
static uint64_t any(void)
{
	uint64_t z;

	if (!state)
		state = seed * 0x9e3779b97f4a7c15 + (uintptr_t)&state;
	z = state += 0x9e3779b97f4a7c15;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static unsigned int below(unsigned int n)
{
	return any() % n;
}

static int now(void)
{
	return one_in && !below(one_in);
}

/* Values that are likely to reach unusual code. Many objects have small numbers. */
static uint64_t odd(void)
{
	static const uint64_t values[] = {
		0, 1, 2, 7, 0xff, 0x1000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
		0xfffffff0, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000,
		0xfffffffffffff000, 0xffffffffffffffff, 0xffff888000000000,
	};
	const unsigned int count = ARRAY_SIZE(values);
	unsigned int i = below(count + 8);

	return i < count ? values[i] : i < count + 6 ? below(24) : any();
}

/* Changes one field of LEN bytes: a bit, a byte, or a word of 2, 4 or 8 bytes. */
static void change(uint8_t *p, size_t len)
{
	size_t size = 1U << below(4), at;
	uint64_t v = odd();

	if (!len)
		return;
	if (!below(4)) {
		p[below(len)] ^= 1U << below(8);
		return;
	}
	while (size > len)
		size /= 2;
	at = below(len / size) * size;
	memcpy(p + at, &v, size);
}

static int is_rdma(int fd)
{
	char link[32], path[64] = "";
	char *end = link + sizeof(link) - 1;

	if (fd < 0)
		return 0;
	/* Without snprintf(), which may take a lock. */
	*end = 0;
	do
		*--end = '0' + fd % 10;
	while ((fd /= 10));
	end -= strlen("/proc/self/fd/");
	memcpy(end, "/proc/self/fd/", strlen("/proc/self/fd/"));
	return syscall(SYS_readlinkat, AT_FDCWD, end, path, sizeof(path) - 1) > 0 &&
	       strstr(path, "/infiniband/");
}

ssize_t write(int fd, const void *buf, size_t count)
{
	uint8_t copy[4096];

	if (count <= sizeof(copy) && is_rdma(fd) && now()) {
		memcpy(copy, buf, count);
		change(copy, count);
		if (!below(8))
			count = below(count + 1);
		return syscall(SYS_write, fd, copy, count);
	}
	return syscall(SYS_write, fd, buf, count);
}

/* Changes an attribute's number, length, flags or value, or the data that its value points to. */
static void change_attr(struct ib_uverbs_attr *attr)
{
	if (attr->len > sizeof(attr->data) && attr->data && below(4)) {
		/* The data are changed only within the length that the kernel reads. */
		change((uint8_t *)(uintptr_t)attr->data, attr->len);
		return;
	}
	if (below(2))
		attr->data = odd();
	else
		change((uint8_t *)attr, sizeof(*attr));
}

int ioctl(int fd, unsigned long request, ...)
{
	struct ib_uverbs_ioctl_hdr *hdr, saved;
	struct ib_uverbs_attr attr;
	unsigned int i;
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	hdr = arg;
	if (request != RDMA_VERBS_IOCTL || !is_rdma(fd) || !now())
		return syscall(SYS_ioctl, fd, request, arg);
	saved = *hdr;
	if (!hdr->num_attrs || !below(4)) {
		change((uint8_t *)hdr, sizeof(*hdr));
		ret = syscall(SYS_ioctl, fd, request, arg);
		*hdr = saved;
		return ret;
	}
	i = below(hdr->num_attrs);
	attr = hdr->attrs[i];
	change_attr(&hdr->attrs[i]);
	ret = syscall(SYS_ioctl, fd, request, arg);
	/* Restores the program's own handles. */
	hdr->attrs[i] = attr;
	return ret;
}

static void *map(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	if (is_rdma(fd) && now()) {
		switch (below(5)) {
		case 0:
			len = below(64) * 4096;
			break;
		case 1:
			at = (off_t)below(64) * 4096;
			break;
		case 2:
			at = odd() & ~0xfffULL;
			break;
		case 3:
			prot = below(8);
			break;
		default:
			flags = below(2) ? MAP_PRIVATE : MAP_SHARED | MAP_POPULATE;
		}
	}
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, at);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	return map(addr, len, prot, flags, fd, at);
}

void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	return map(addr, len, prot, flags, fd, at);
}
