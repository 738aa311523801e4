// SPDX-License-Identifier: GPL-2.0
/* Each operation on its own, in many sizes. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "vt.h"

/* Around a word, a cache line, a segment, a page, and a batch of 64 KiB. */
static const uint32_t sizes[] = {
	1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1425, 1426, 1447, 1448, 1449, 1460, 2896,
	4095, 4096, 4097, 65535, 65536, 65537, 300001,
};

enum { LARGEST = 300001, MARGIN = 64, SPACE = LARGEST + 2 * MARGIN };

static void t_send(struct side *s)
{
	unsigned int flags = IBV_SEND_SIGNALED | s->arg;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_LOCAL);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (s->active) {
			buf_fill(&b, MARGIN, sizes[i], i);
			sge = sge_of(&b, MARGIN, sizes[i]);
			sync_sides(s);
			post(&c, IBV_WR_SEND, i, flags, &sge, 1, 0, 0);
			wc = poll_one(c.scq);
			CHECK(wc.status == IBV_WC_SUCCESS, "%u bytes: status %d", sizes[i], wc.status);
			CHECK(wc.wr_id == i && wc.opcode == IBV_WC_SEND &&
			      wc.qp_num == c.qp->qp_num, "%u bytes: id %lu, opcode %d, QP %u",
			      sizes[i], wc.wr_id, wc.opcode, wc.qp_num);
		} else {
			/* Every other time the buffer is larger than the message. */
			sge = sge_of(&b, MARGIN, sizes[i] + i % 2 * 33);
			post_recv(&c, i, &sge, 1);
			buf_expect(&b, MARGIN, sizes[i], i);
			sync_sides(s);
			wc = poll_one(c.rcq);
			/* The other fields of a failed one say nothing. */
			CHECK(wc.status == IBV_WC_SUCCESS, "%u bytes: status %d", sizes[i], wc.status);
			CHECK(wc.wr_id == i && wc.opcode == IBV_WC_RECV &&
			      wc.qp_num == c.qp->qp_num && wc.byte_len == sizes[i] && !wc.wc_flags,
			      "%u bytes: id %lu, opcode %d, QP %u, %u bytes, flags %#x", sizes[i],
			      wc.wr_id, wc.opcode, wc.qp_num, wc.byte_len, wc.wc_flags);
		}
		buf_verify(&b, "after the Send");
	}
	conn_close(&c);
	buf_free(&b);
}

static void t_write(struct side *s)
{
	struct rmem to = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	if (s->active)
		to = take_rmem(s);
	else
		give_rmem(s, &b);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (s->active) {
			buf_fill(&b, MARGIN, sizes[i], i);
			sge = sge_of(&b, MARGIN, sizes[i]);
			sync_sides(s);
			post(&c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1,
			     to.addr + MARGIN, to.rkey);
			good(c.scq, i, IBV_WC_RDMA_WRITE, -1);
			mark_send(&c, i);
		} else {
			mark_arm(&c);
			buf_expect(&b, MARGIN, sizes[i], i);
			sync_sides(s);
			mark_wait(&c, i);
		}
		buf_verify(&b, "after the Write");
	}
	conn_close(&c);
	buf_free(&b);
}

static void t_read(struct side *s)
{
	struct rmem from = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	if (s->active)
		from = take_rmem(s);
	else
		give_rmem(s, &b);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (s->active) {
			buf_expect(&b, MARGIN, sizes[i], i);
			sge = sge_of(&b, MARGIN, sizes[i]);
			sync_sides(s);
			post(&c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1,
			     from.addr + MARGIN, from.rkey);
			good(c.scq, i, IBV_WC_RDMA_READ, sizes[i]);
		} else {
			buf_fill(&b, MARGIN, sizes[i], i);
			sync_sides(s);
		}
		/* The source must not change while it is read. */
		sync_sides(s);
		buf_verify(&b, "after the Read");
	}
	conn_close(&c);
	buf_free(&b);
}

/* Inline data are copied by the post, so the source may change at once. */
static void t_inline(struct side *s)
{
	struct conn_opts o = { .max_inline = s->arg };
	struct rmem to = {};
	struct ibv_sge sge[2];
	uint32_t len;
	struct conn c;
	struct buf b;

	if (s->arg > 80 && !own_provider(s))
		skip("siw's library has no more inline data");
	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active)
		to = take_rmem(s);
	else
		give_rmem(s, &b);
	for (len = 0; len <= s->arg; len += len <= 81 ? 1 : 43) {
		if (s->active) {
			buf_fill(&b, 0, len, len);
			sge[0] = sge_of(&b, 0, len / 3);
			sge[1] = sge_of(&b, len / 3, len - len / 3);
			/* No memory region is needed. */
			sge[0].lkey = sge[1].lkey = 0xdead;
			sync_sides(s);
			post(&c, IBV_WR_RDMA_WRITE, 2 * len, IBV_SEND_INLINE | IBV_SEND_SIGNALED,
			     sge, 2, to.addr + 1024, to.rkey);
			post(&c, IBV_WR_SEND, 2 * len + 1, IBV_SEND_INLINE | IBV_SEND_SIGNALED,
			     sge, 2, 0, 0);
			buf_fill(&b, 0, len, ~len);
			good(c.scq, 2 * len, IBV_WC_RDMA_WRITE, -1);
			good(c.scq, 2 * len + 1, IBV_WC_SEND, -1);
		} else {
			buf_expect(&b, 0, len, len);
			buf_expect(&b, 1024, len, len);
			sge[0] = sge_of(&b, 0, s->arg);
			post_recv(&c, len, sge, 1);
			sync_sides(s);
			good(c.rcq, len, IBV_WC_RECV, len);
		}
		buf_verify(&b, "after inline operations");
	}
	if (s->active) {
		sge[0] = sge_of(&b, 0, s->arg + 1);
		CHECK(try_post(&c, IBV_WR_SEND, 1, IBV_SEND_INLINE, sge, 1, 0, 0),
		      "more inline data than fits was accepted");
	}
	conn_close(&c);
	buf_free(&b);
}

/* Zero-length messages, whose STags must not be checked. */
static void t_zero(struct side *s)
{
	struct ibv_sge none = {}, sge = {};
	struct rmem r = {};
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		sync_sides(s);
		sge = sge_of(&b, 17, 0);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, NULL, 0, 0, 0);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		post(&c, IBV_WR_RDMA_WRITE, 3, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		post(&c, IBV_WR_RDMA_WRITE, 4, IBV_SEND_SIGNALED, NULL, 0, 7, ~r.rkey);
		post(&c, IBV_WR_SEND, 5, IBV_SEND_SIGNALED, NULL, 0, 0, 0);
		good(c.scq, 1, IBV_WC_SEND, -1);
		good(c.scq, 2, IBV_WC_SEND, -1);
		good(c.scq, 3, IBV_WC_RDMA_WRITE, -1);
		good(c.scq, 4, IBV_WC_RDMA_WRITE, -1);
		good(c.scq, 5, IBV_WC_SEND, -1);
		post(&c, IBV_WR_RDMA_READ, 6, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 6, IBV_WC_RDMA_READ, 0);
		post(&c, IBV_WR_RDMA_READ, 7, IBV_SEND_SIGNALED, &sge, 1, 7, ~r.rkey);
		good(c.scq, 7, IBV_WC_RDMA_READ, 0);
		mark_send(&c, 8);
	} else {
		sge = sge_of(&b, 100, 50);
		post_recv(&c, 1, &none, 1);
		post_recv(&c, 2, &sge, 1);
		post_recv(&c, 5, &sge, 1);
		mark_arm(&c);
		give_rmem(s, &b);
		sync_sides(s);
		good(c.rcq, 1, IBV_WC_RECV, 0);
		good(c.rcq, 2, IBV_WC_RECV, 0);
		good(c.rcq, 5, IBV_WC_RECV, 0);
		mark_wait(&c, 8);
	}
	buf_verify(&b, "after messages of no bytes");
	conn_close(&c);
	buf_free(&b);
}

/*
 * Send with Invalidate. The provider takes the STag from the rkey field. A
 * device may either invalidate a plain region, which is inaccessible then, or
 * refuse with an error.
 */
static void t_send_inv(struct side *s)
{
	struct rmem r = {};
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c;
	struct buf b;
	char taken;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b, 0, 100);
		/* Before the invalidation the region is accessible. */
		buf_fill(&b, 0, 100, 54);
		post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
		mark_send(&c, 1);
		buf_fill(&b, 0, 100, 55);
		post(&c, IBV_WR_SEND_WITH_INV, 2, IBV_SEND_SIGNALED, &sge, 1, 0, r.rkey);
		wc = poll_one(c.scq);
		CHECK(wc.wr_id == 2, "completion of %lu", wc.wr_id);
		oob_recv(s, &taken, 1);
		if (taken) {
			post(&c, IBV_WR_RDMA_WRITE, 3, 0, &sge, 1, r.addr, r.rkey);
			post(&c, IBV_WR_RDMA_READ, 4, IBV_SEND_SIGNALED, &sge, 1,
			     r.addr, r.rkey);
			do {
				wc = poll_one(c.scq);
			} while (wc.wr_id == 3);
			CHECK(wc.wr_id == 4 && wc.status != IBV_WC_SUCCESS,
			      "an invalidated region can still be read");
		}
	} else {
		struct buf sink;

		buf_new(s, &sink, PAGE, ACC_LOCAL);
		mark_arm(&c);
		sge = sge_of(&sink, 0, 100);
		post_recv(&c, 2, &sge, 1);
		give_rmem(s, &b);
		mark_wait(&c, 1);
		buf_expect(&b, 0, 100, 54);
		buf_verify(&b, "before Send with Invalidate");
		wc = poll_one(c.rcq);
		CHECK(wc.wr_id == 2, "completion of %lu", wc.wr_id);
		taken = wc.status == IBV_WC_SUCCESS;
		CHECK(taken || BIT(wc.status) & (BIT(IBV_WC_REM_INV_REQ_ERR) | FLUSHED),
		      "status %s", ibv_wc_status_str(wc.status));
		if (taken) {
			buf_expect(&sink, 0, 100, 55);
			buf_verify(&sink, "after Send with Invalidate");
		}
		oob_send(s, &taken, 1);
		conn_expect_error(&c);
		buf_verify(&b, "after Send with Invalidate");
		buf_free(&sink);
	}
	conn_expect_error(&c);
	conn_free(&c);
	buf_free(&b);
}

/* Invalidating an STag that does not exist must fail. */
static void t_send_inv_bad(struct side *s)
{
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	sge = sge_of(&b, 0, 100);
	if (s->active) {
		sync_sides(s);
		post(&c, IBV_WR_SEND_WITH_INV, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0x12345678);
	} else {
		post_recv(&c, 1, &sge, 1);
		sync_sides(s);
		bad(c.rcq, 1, BIT(IBV_WC_REM_INV_REQ_ERR) | FLUSHED);
	}
	conn_expect_error(&c);
	conn_free(&c);
	buf_free(&b);
}

enum { OF_OTHER_PD = 1, SHARED = 2 };

/*
 * A peer must not invalidate an STag that others use: one of another PD, or of
 * a PD that another connection uses, too. It stays valid for the other
 * connection.
 */
static void t_send_inv_others(struct side *s)
{
	struct ibv_pd *pd = s->arg == OF_OTHER_PD && !s->active ? ibv_alloc_pd(s->ctx) : s->pd;
	struct conn_opts o = { .pd = pd };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c, other;
	struct buf b, sink;
	struct ibv_mr *mr;

	CHECK(pd, "ibv_alloc_pd: errno %d", errno);
	conn_open(s, &c, NULL);
	conn_open(s, &other, &o);
	buf_new(s, &b, PAGE, ACC_ALL);
	buf_new(s, &sink, PAGE, ACC_LOCAL);
	sge = sge_of(&sink, 0, 100);
	if (s->active) {
		r = take_rmem(s);
		post(&c, IBV_WR_SEND_WITH_INV, 1, IBV_SEND_SIGNALED, &sge, 1, 0, r.rkey);
		conn_expect_error(&c);
		buf_fill(&b, 0, 100, 56);
		sge = sge_of(&b, 0, 100);
		post(&other, IBV_WR_RDMA_WRITE, 2, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(other.scq, 2, IBV_WC_RDMA_WRITE, -1);
		mark_send(&other, 1);
	} else {
		mr = ibv_reg_mr(pd, b.p, 1024, ACC_ALL);
		CHECK(mr, "ibv_reg_mr: errno %d", errno);
		mark_arm(&other);
		post_recv(&c, 1, &sge, 1);
		r = (struct rmem) { .addr = (uintptr_t)b.p, .rkey = mr->rkey };
		oob_send(s, &r, sizeof(r));
		bad(c.rcq, 1, BIT(IBV_WC_REM_INV_REQ_ERR) | FLUSHED);
		conn_expect_error(&c);
		buf_expect(&b, 0, 100, 56);
		mark_wait(&other, 1);
		buf_verify(&b, "written by the other connection");
		CALL(ibv_dereg_mr(mr));
	}
	conn_free(&c);
	conn_close(&other);
	if (pd != s->pd)
		CALL(ibv_dealloc_pd(pd));
	buf_free(&b);
	buf_free(&sink);
}

/* Requests that the provider does not support fail when posted, without further effect. */
static void t_unsupported(struct side *s)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV,
	};
	struct ibv_sge sge[7];
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		for (i = 0; i < ARRAY_SIZE(sge); i++)
			sge[i] = sge_of(&b, i * 8, 8);
		/* Ours has them all. */
		for (i = own_provider(s) ? ARRAY_SIZE(ops) : 0; i < ARRAY_SIZE(ops); i++)
			CHECK(try_post(&c, ops[i], i, IBV_SEND_SIGNALED, sge, 1,
				       (uintptr_t)b.p, b.mr->rkey),
			      "opcode %d was accepted", ops[i]);
		CHECK(try_post(&c, IBV_WR_SEND, 9, IBV_SEND_SIGNALED, sge, 7, 0, 0),
		      "seven elements were accepted");
		CHECK(poll_quiet(c.scq, QUIET_MS), "a refused request completed");
		sync_sides(s);
		mark_send(&c, 77);
	} else {
		mark_arm(&c);
		sync_sides(s);
		mark_wait(&c, 77);
	}
	conn_close(&c);
	buf_free(&b);
}

enum { CHANGES = 60, CHANGING = 60000 };

struct changer {
	uint64_t *p;
	size_t words;
	atomic_bool over;
	uint64_t rounds;
};

static void *change(void *arg)
{
	struct changer *ch = arg;
	uint64_t state = 1;
	size_t i;

	while (!atomic_load(&ch->over)) {
		for (i = 0; i < ch->words; i++)
			__atomic_store_n(&ch->p[i], mix(&state), __ATOMIC_RELAXED);
		ch->rounds++;
	}
	return NULL;
}

/*
 * A thread changes the buffer all the time while Sends, Writes and Read Responses send it. Each
 * FPDU must carry the CRC of the data that it carries; a wrong CRC would end the connection.
 */
static void t_changed(struct side *s)
{
	struct rmem to = {}, from = {};
	struct changer ch = {};
	struct ibv_sge sge;
	pthread_t thread;
	struct buf b, sink;
	struct conn c;
	uint64_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, CHANGING, ACC_ALL);
	buf_new(s, &sink, CHANGING, ACC_ALL);
	if (s->active) {
		to = take_rmem(s);
		from = take_rmem(s);
	} else {
		give_rmem(s, &sink);
		give_rmem(s, &b);
	}
	ch.p = (uint64_t *)b.p;
	ch.words = CHANGING / sizeof(uint64_t);
	CHECK(!pthread_create(&thread, NULL, change, &ch), "no thread");
	for (i = 0; i < CHANGES; i++) {
		if (!s->active) {
			sge = sge_of(&sink, 0, CHANGING);
			post_recv(&c, i, &sge, 1);
			sync_sides(s);
			good(c.rcq, i, IBV_WC_RECV, CHANGING);
			continue;
		}
		sge = sge_of(&b, 0, CHANGING);
		sync_sides(s);
		post(&c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1, to.addr, to.rkey);
		post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		sge = sge_of(&sink, 0, CHANGING);
		post(&c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1, from.addr, from.rkey);
		good(c.scq, i, IBV_WC_RDMA_WRITE, -1);
		good(c.scq, i, IBV_WC_SEND, -1);
		good(c.scq, i, IBV_WC_RDMA_READ, -1);
	}
	sync_sides(s);
	atomic_store(&ch.over, true);
	pthread_join(thread, NULL);
	CHECK(ch.rounds > CHANGES / 10, "it changed only %llu times",
	      (unsigned long long)ch.rounds);
	conn_close(&c);
	buf_free(&sink);
	buf_free(&b);
}

const struct test ops_tests[] = {
	/*= 5041-4.3-9, 5041-5.2-4, 5044-7.1-1, 5044-7.1-2 */
	{ "send", t_send, T_QUICK | T_BOTH },
	{ "send-solicited", t_send, 0, IBV_SEND_SOLICITED },
	/*= 5040-5.1-3, 5040-5.5-4, 5040-5.5-5, 5041-5.2-4, 5041-5.3-2 */
	{ "write", t_write, T_QUICK | T_BOTH },
	/*= 5040-4.4-2, 5040-5.2.1-4, 5040-5.2.1-12, 5040-5.2.2-4, 5040-5.5-9, 5041-4.3-9, */
	/*= 5041-5.2-4 */
	{ "read", t_read, T_QUICK | T_BOTH },
	{ "inline", t_inline, T_QUICK, 80 },
	{ "inline-more", t_inline, T_QUICK, 512 },
	/*= 5040-5.2.1-14, 5040-5.2.1-15 */
	{ "zero-length", t_zero, T_QUICK | T_BOTH },
	/*= 5040-5.3-10a, 5040-5.3-10b */
	{ "send-invalidate", t_send_inv, T_QUICK },
	/*= 5040-5.3-10a, 5040-7.2-4 */
	{ "send-invalidate-bad", t_send_inv_bad, 0 },
	/*= 5040-5.3-10a, 5040-5.3-10b, 5040-7.2-5 */
	{ "send-invalidate-other-pd", t_send_inv_others, 0, OF_OTHER_PD },
	/*= 5040-8.1.1-8 */
	{ "send-invalidate-shared", t_send_inv_others, T_QUICK, SHARED },
	{ "changed-while-sent", t_changed, T_QUICK },
	{ "unsupported", t_unsupported, T_QUICK },
	{ }
};
