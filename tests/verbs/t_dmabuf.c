// SPDX-License-Identifier: GPL-2.0
/* Regions of dma-bufs: the buffers are those of udmabuf, which makes them of a memfd. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/udmabuf.h>

#include "vt.h"

enum { PAGES = 6, LEN = PAGES * 4096, FIRST = 4096 + 100, USED = 3 * 4096 };

/* Makes a dma-buf, and maps its memory; returns the buffer's descriptor. */
static int dmabuf_new(struct buf *b)
{
	struct udmabuf_create create = { .size = LEN };
	int dev = open("/dev/udmabuf", O_RDWR), memfd, fd;

	if (dev < 0 && errno == ENOENT)
		skip("no udmabuf in this kernel");
	CHECK(dev >= 0, "/dev/udmabuf: errno %d", errno);
	memfd = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	CHECK(memfd >= 0, "memfd_create: errno %d", errno);
	CALL(ftruncate(memfd, LEN));
	CALL(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	create.memfd = memfd;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	CHECK(fd >= 0, "UDMABUF_CREATE: errno %d", errno);
	memset(b, 0, sizeof(*b));
	b->len = LEN;
	b->model = malloc(LEN);
	b->p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	CHECK(b->model && b->p != MAP_FAILED, "no memory");
	fill(b->p, LEN, getpid());
	memcpy(b->model, b->p, LEN);
	close(memfd);
	close(dev);
	return fd;
}

static void dmabuf_free(struct buf *b)
{
	CALL(munmap(b->p, b->len));
	free(b->model);
}

/*
 * The peer writes to a part of a dma-buf and reads it, and it is the source of a
 * Send. The region goes on when nobody has a descriptor of the buffer any more.
 */
static void t_use(struct side *s)
{
	const uint64_t iova = 0x7000000 + FIRST % PAGE;
	struct rmem r = { .addr = iova };
	struct ibv_sge sge;
	struct ibv_mr mr;
	struct conn c;
	struct buf b, own;
	int fd;

	conn_open(s, &c, NULL);
	buf_new(s, &own, USED, ACC_ALL);
	sge = sge_of(&own, 0, USED);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&own, 0, USED, 1);
		post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
		mark_send(&c, 1);
		sync_sides(s);
		buf_expect(&own, 0, USED, 2);
		post(&c, IBV_WR_RDMA_READ, 2, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 2, IBV_WC_RDMA_READ, USED);
		buf_verify(&own, "what was read of the dma-buf");
		post_recv(&c, 3, &sge, 1);
		sync_sides(s);
		good(c.rcq, 3, IBV_WC_RECV, USED);
		buf_verify(&own, "what was sent of the dma-buf");
		/* One byte behind the region. */
		sge.length = 1;
		post(&c, IBV_WR_RDMA_WRITE, 4, 0, &sge, 1, r.addr + USED, r.rkey);
		conn_expect_error(&c);
	} else {
		fd = dmabuf_new(&b);
		CALL(reg_dmabuf(s->pd, fd, FIRST, USED, iova, ACC_ALL, &mr));
		CALL(close(fd));
		r.rkey = mr.rkey;
		buf_expect(&b, FIRST, USED, 1);
		mark_arm(&c);
		oob_send(s, &r, sizeof(r));
		mark_wait(&c, 1);
		buf_verify(&b, "what was written to the dma-buf");
		buf_fill(&b, FIRST, USED, 2);
		sync_sides(s);
		sync_sides(s);
		sge = (struct ibv_sge) { iova, USED, mr.lkey };
		post(&c, IBV_WR_SEND, 3, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 3, IBV_WC_SEND, -1);
		conn_expect_error(&c);
		buf_verify(&b, "dma-buf after a Write beyond the region");
		CALL(dereg(&mr));
		dmabuf_free(&b);
	}
	conn_free(&c);
	buf_free(&own);
}

/* What cannot be registered, and a region that changes. */
static void t_refused(struct side *s)
{
	struct ibv_mr mr, own;
	int e, fd, file;
	uint32_t old;
	struct buf b;
	size_t i;

	fd = dmabuf_new(&b);
	file = open("/proc/self/exe", O_RDONLY);
	{
		const struct {
			const char *what;
			int fd;
			uint64_t offset;
			size_t len;
			uint64_t iova;
			int access, error;
		} tries[] = {
			{ "no descriptor", -1, 0, LEN, 0, ACC_ALL, EBADF },
			{ "another file", file, 0, LEN, 0, ACC_ALL, EINVAL },
			{ "no bytes", fd, 0, 0, 0, ACC_ALL, EINVAL },
			{ "too many bytes", fd, 0, LEN + 1, 0, ACC_ALL, EINVAL },
			{ "an offset behind the end", fd, LEN, 1, 0, ACC_ALL, EINVAL },
			{ "an offset that wraps", fd, -PAGE, 2 * PAGE, 0, ACC_ALL, EINVAL },
			{ "addresses that wrap", fd, 0, LEN, -PAGE, ACC_ALL, EINVAL },
			{ "a right without another", fd, 0, LEN, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		};

		for (i = 0; i < ARRAY_SIZE(tries); i++) {
			e = reg_dmabuf(s->pd, tries[i].fd, tries[i].offset, tries[i].len,
				       tries[i].iova, tries[i].access, &mr);
			CHECK(e == tries[i].error, "%s: errno %d", tries[i].what, e);
		}
	}
	CALL(reg_dmabuf(s->pd, fd, 0, LEN, 0, IBV_ACCESS_REMOTE_READ, &mr));
	own = mr;
	e = rereg(&own, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_ALL);
	CHECK(e == EINVAL && own.rkey == mr.rkey, "rights to write: errno %d", e);
	old = own.rkey;
	CALL(rereg(&own, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, 0));
	CHECK(own.rkey != old, "the key stays");
	CALL(dereg(&own));
	close(file);
	close(fd);
	dmabuf_free(&b);
}

const struct test dmabuf_tests[] = {
	{ "dmabuf", t_use, T_QUICK },
	{ "dmabuf-refused", t_refused, T_QUICK },
	{ }
};
