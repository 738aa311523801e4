// SPDX-License-Identifier: GPL-2.0
/* Long messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

enum { MIB = 1 << 20 };

/* One Read, Write and Send each, of s->arg MiB and some bytes. */
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
 * Maps the same 2 MiB of memory again and again, to get a large region from
 * little memory. A gather list over it can exceed the length of a message,
 * which has 32 bits: such a request must fail, not be truncated.
 *
 * Every `apart` bytes (0: nowhere), and at the end, one of the mappings has
 * memory of its own, so that data in the wrong repetition are found.
 */
static const size_t unit = 2 * MIB;

static bool is_apart(size_t at, size_t len, size_t apart)
{
	return apart && (at % apart == 0 || at + unit >= len);
}

static uint8_t *repeated(size_t len, size_t apart, int *fd)
{
	size_t at, used = unit;
	uint8_t *p;

	*fd = memfd_create("rsiw-verbs", 0);
	CHECK(*fd >= 0, "memfd: errno %d", errno);
	p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED, "no address space for %zu bytes", len);
	for (at = 0; at < len; at += unit) {
		size_t from = is_apart(at, len, apart) ? used : 0;

		if (from)
			used += unit;
		CHECK(!ftruncate(*fd, used), "memfd: errno %d", errno);
		CHECK(mmap(p + at, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, *fd,
			   from) != MAP_FAILED, "mmap: errno %d", errno);
	}
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
	uint8_t *p;
	int i, fd;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		p = repeated(len, 0, &fd);
		fill(p, unit, 77);
		mr = ibv_reg_mr(s->pd, p, len, ACC_LOCAL);
		if (!mr)
			skip("2 GiB of address space cannot be registered: errno %d", errno);
		/* In 32 bits the sum wraps to the length of the last element. */
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

/*
 * One message, up to the longest possible one. Beyond 2 GiB a signed length
 * fails, and with the longest one any addition in 32 bits overflows.
 */
static const struct length {
	size_t bytes;
	bool read;
} lengths[] = {
	{ 40ul * MIB + 1, false },
	{ 2050ul * MIB, false },
	{ 2050ul * MIB, true },
	{ UINT32_MAX, false },
	{ UINT32_MAX, true },
};

/* Waits, perhaps minutes, for the only completion. */
static struct ibv_wc patient_poll(struct ibv_cq *cq, const char *what)
{
	uint64_t end = now_ms() + 1180000;
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc)) {
		CHECK(now_ms() < end, "no %s", what);
		sleep_ms(20);
	}
	CHECK(wc.status == IBV_WC_SUCCESS, "%s: %s", what, ibv_wc_status_str(wc.status));
	return wc;
}

/* Checks the received data: the mappings with memory of their own, and the shared memory. */
static void check_apart(const uint8_t *p, size_t len, size_t room, size_t apart)
{
	uint8_t *want = malloc(unit);
	size_t at, i, size;

	CHECK(want, "no memory");
	for (at = 0; at < len; at += unit) {
		if (at != unit && !is_apart(at, room, apart))
			continue;
		fill(want, unit, at);
		size = len - at < unit ? len - at : unit;
		if (!memcmp(p + at, want, size))
			continue;
		for (i = 0; p[at + i] == want[i];)
			i++;
		fail("byte %zu is %02x, not %02x", at + i, p[at + i], want[i]);
	}
	CHECK(!p[len], "the byte behind the end is %02x", p[len]);
	free(want);
}

static void t_huge(struct side *s)
{
	const struct length *l = &lengths[s->arg];
	size_t len = l->bytes, at, apart = len / 8 / unit * unit;
	/* The byte after the message must not change. */
	size_t room = (len + unit) / unit * unit;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	struct rmem r;
	struct conn c;
	uint8_t *p;
	int fd;

	conn_open(s, &c, NULL);
	p = repeated(room, apart, &fd);
	mr = ibv_reg_mr(s->pd, p, len, ACC_ALL);
	if (!mr)
		skip("%zu bytes of address space cannot be registered: errno %d", len, errno);
	sge = (struct ibv_sge) { (uintptr_t)p, len, mr->lkey };
	for (at = 0; at < room && s->active != l->read; at += unit)
		if (at == unit || is_apart(at, room, apart))
			fill(p + at, unit, at);
	if (s->active) {
		oob_recv(s, &r, sizeof(r));
		post(&c, l->read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED,
		     &sge, 1, r.addr, r.rkey);
		wc = patient_poll(c.scq, "completion");
		if (l->read)
			CHECK(wc.byte_len == len, "%u bytes, not %zu", wc.byte_len, len);
		mark_send(&c, 1);
	} else {
		mark_arm(&c);
		r = (struct rmem) { .addr = (uintptr_t)p, .rkey = mr->rkey };
		oob_send(s, &r, sizeof(r));
		patient_poll(c.rcq, "mark");
	}
	if (s->active == l->read)
		check_apart(p, len, room, apart);
	CALL(ibv_dereg_mr(mr));
	conn_close(&c);
	close(fd);
}

const struct test big_tests[] = {
	{ "long-1", t_big, T_QUICK, 1 },
	{ "long-16", t_big, T_BOTH, 16 },
	{ "long-256", t_big, T_LONG, 256, 300 },
	{ "length-over-4g", t_too_long, 0 },
	{ "length-40m", t_huge, 0, 0 },
	{ "length-over-2g-write", t_huge, T_LONG, 1, 600 },
	{ "length-over-2g-read", t_huge, T_LONG, 2, 600 },
	{ "length-4g-write", t_huge, T_LONG, 3, 1200 },
	{ "length-4g-read", t_huge, T_LONG, 4, 1200 },
	{ }
};
