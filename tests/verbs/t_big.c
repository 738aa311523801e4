// SPDX-License-Identifier: GPL-2.0
/* Long messages. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

enum { MIB = 1 << 20 };

/* One message of as many MiB and a bit, in each of the three ways. */
static void t_big(struct side *s)
{
	size_t len = (size_t)s->arg * MIB + 13;
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, len + PAGE, ACC_ALL);
	sge = sge_of(&b, 7, len);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&b, 7, len, 1);
		sync_sides(s);
		post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr + 9, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
		mark_send(&c, 1);
		buf_fill(&b, 7, len, 2);
		sync_sides(s);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 2, IBV_WC_SEND, -1);
		sync_sides(s);
		buf_expect(&b, 7, len, 3);
		sync_sides(s);
		post(&c, IBV_WR_RDMA_READ, 3, IBV_SEND_SIGNALED, &sge, 1, r.addr + 7, r.rkey);
		good(c.scq, 3, IBV_WC_RDMA_READ, len);
		buf_verify(&b, "after a long Read");
	} else {
		mark_arm(&c);
		give_rmem(s, &b);
		sync_sides(s);
		buf_expect(&b, 9, len, 1);
		mark_wait(&c, 1);
		buf_verify(&b, "after a long Write");
		post_recv(&c, 2, &sge, 1);
		sync_sides(s);
		buf_expect(&b, 7, len, 2);
		good(c.rcq, 2, IBV_WC_RECV, len);
		buf_verify(&b, "after a long Send");
		sync_sides(s);
		buf_fill(&b, 7, len, 3);
		sync_sides(s);
	}
	conn_close(&c);
	buf_free(&b);
}

/*
 * Much address space over little memory: the same 2 MiB mapped again and
 * again. A gather list over it may be longer than a message can be, which
 * has no more than 32 bits of length: it must fail, and not be cut.
 */
static void *repeated(size_t len, int *fd)
{
	size_t unit = 2 * MIB, at;
	uint8_t *p;

	*fd = memfd_create("rsiw-verbs", 0);
	CHECK(*fd >= 0 && !ftruncate(*fd, unit), "memfd: errno %d", errno);
	p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED, "no address space for %zu bytes", len);
	for (at = 0; at < len; at += unit)
		CHECK(mmap(p + at, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, *fd, 0) !=
		      MAP_FAILED, "mmap: errno %d", errno);
	fill(p, unit, 77);
	return p;
}

static void t_too_long(struct side *s)
{
	size_t len = 2048ul * MIB;
	struct ibv_sge sge[3];
	struct rmem r = {};
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct conn c;
	struct buf b;
	int i, fd;
	void *p;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		p = repeated(len, &fd);
		mr = ibv_reg_mr(s->pd, p, len, ACC_LOCAL);
		if (!mr)
			skip("2 GiB of address space cannot be registered: errno %d", errno);
		/* In 32 bits the sum is the length of the last element. */
		for (i = 0; i < 2; i++)
			sge[i] = (struct ibv_sge) { (uintptr_t)p, 2048u * MIB, mr->lkey };
		sge[2] = (struct ibv_sge) { (uintptr_t)p, 64, mr->lkey };
		if (!try_post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, sge, 3, r.addr, r.rkey)) {
			wc = poll_one(c.scq);
			CHECK(wc.wr_id == 1 && wc.status != IBV_WC_SUCCESS,
			      "a message of more than 4 GiB: %s", ibv_wc_status_str(wc.status));
		}
		sync_sides(s);
		CALL(ibv_dereg_mr(mr));
		close(fd);
	} else {
		give_rmem(s, &b);
		sync_sides(s);
		buf_verify(&b, "after a message of more than 4 GiB");
	}
	conn_free(&c);
	buf_free(&b);
}

/* More than 2 GiB in one message: signed lengths would show. */
static void t_huge(struct side *s)
{
	size_t len = 2050ul * MIB, unit = 2 * MIB, at;
	bool read = s->arg;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	struct rmem r;
	uint8_t *p, *want;
	uint64_t end;
	struct conn c;
	int fd;

	conn_open(s, &c, NULL);
	p = repeated(len, &fd);
	mr = ibv_reg_mr(s->pd, p, len, ACC_ALL);
	if (!mr)
		skip("2 GiB of address space cannot be registered: errno %d", errno);
	sge = (struct ibv_sge) { (uintptr_t)p, len, mr->lkey };
	want = mmap(NULL, unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(want != MAP_FAILED, "no memory");
	fill(want, unit, 78);
	if (s->active != read)
		memcpy(p, want, unit);
	if (s->active) {
		oob_recv(s, &r, sizeof(r));
		post(&c, read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1,
		     r.addr, r.rkey);
		end = now_ms() + 280000;
		while (!ibv_poll_cq(c.scq, 1, &wc)) {
			CHECK(now_ms() < end, "no completion");
			sleep_ms(20);
		}
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		if (read)
			CHECK(wc.byte_len == len, "%u bytes, not %zu", wc.byte_len, len);
		mark_send(&c, 1);
	} else {
		mark_arm(&c);
		r = (struct rmem) { .addr = (uintptr_t)p, .rkey = mr->rkey };
		oob_send(s, &r, sizeof(r));
		end = now_ms() + 280000;
		while (!ibv_poll_cq(c.rcq, 1, &wc)) {
			CHECK(now_ms() < end, "no mark");
			sleep_ms(20);
		}
		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	}
	for (at = 0; at < unit; at++)
		CHECK(p[at] == want[at], "byte %zu is %02x, not %02x", at, p[at], want[at]);
	CALL(ibv_dereg_mr(mr));
	conn_close(&c);
	close(fd);
}

const struct test big_tests[] = {
	{ "long-1", t_big, T_QUICK, 1 },
	{ "long-16", t_big, T_BOTH, 16 },
	{ "long-256", t_big, T_LONG, 256, 300 },
	{ "length-over-4g", t_too_long, 0 },
	{ "length-over-2g-write", t_huge, T_LONG, false, 300 },
	{ "length-over-2g-read", t_huge, T_LONG, true, 300 },
	{ }
};
