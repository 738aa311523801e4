// SPDX-License-Identifier: GPL-2.0
/*
 * InfiniBand's memory placement extensions: flushes and atomic Writes. Only rsiw's own library has
 * them: with another one these tests are skipped.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "vt.h"

enum {
	SIGNALED = IBV_SEND_SIGNALED,
	SIZE = 1 << 20,
	ACC_FLUSH = ACC_ALL | IBV_ACCESS_FLUSH_GLOBAL,
};

static const struct conn_opts with_flush = {
	.send_ops = IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE,
};

static void flush(struct conn *c, uint64_t id, struct rmem r, size_t len, int type, int level)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(c->qp);

	ibv_wr_start(qp);
	qp->wr_id = id;
	qp->wr_flags = SIGNALED;
	ibv_wr_flush(qp, r.rkey, r.addr, len, type, level);
	CALL(ibv_wr_complete(qp));
}

static void atomic_write(struct conn *c, uint64_t id, struct rmem r, uint64_t value)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(c->qp);

	ibv_wr_start(qp);
	qp->wr_id = id;
	qp->wr_flags = SIGNALED;
	ibv_wr_atomic_write(qp, r.rkey, r.addr, &value);
	CALL(ibv_wr_complete(qp));
}

/* When a flush has completed, the peer's processors see what was written before. */
static void t_flush(struct side *s)
{
	struct ibv_qp_attr attr = { .qp_access_flags = ACC_FLUSH };
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;
	unsigned int i;

	conn_open(s, &c, &with_flush);
	buf_new(s, &b, SIZE, s->active ? ACC_LOCAL : ACC_FLUSH);
	if (s->active) {
		r = take_rmem(s);
	} else {
		/* A queue pair that is given the right has it. */
		CALL(ibv_modify_qp(c.qp, &attr, IBV_QP_ACCESS_FLAGS));
		give_rmem(s, &b);
	}
	for (i = 1; i <= s->rounds; i++) {
		if (s->active) {
			buf_fill(&b, 0, SIZE, i);
			sge = sge_of(&b, 0, SIZE);
			/* Not signaled: by itself its completion would say nothing. */
			post(&c, IBV_WR_RDMA_WRITE, 1, 0, &sge, 1, r.addr, r.rkey);
			/* A range, or all of the region, whatever the length says. */
			flush(&c, 2, r, i % 2 ? SIZE : SIZE + 1, IBV_FLUSH_GLOBAL,
			      i % 2 ? IBV_FLUSH_RANGE : IBV_FLUSH_MR);
			good(c.scq, 2, IBV_WC_FLUSH, -1);
		} else {
			buf_expect(&b, 0, SIZE, i);
		}
		sync_sides(s);
		if (!s->active)
			buf_verify(&b, "what was flushed");
		sync_sides(s);
	}
	conn_close(&c);
	buf_free(&b);
}

/* A Write behind an atomic Write is the later one. */
static void order(struct conn *c, struct buf *b, struct rmem r, unsigned int rounds)
{
	struct ibv_sge from = sge_of(b, 0, 8), to = sge_of(b, 8, 8);
	uint64_t value;

	r.addr += 64;
	for (value = 1; value <= rounds; value++) {
		memcpy(b->p, &value, sizeof(value));
		atomic_write(c, 1, r, ~value);
		post(c, IBV_WR_RDMA_WRITE, 2, 0, &from, 1, r.addr, r.rkey);
		post(c, IBV_WR_RDMA_READ, 3, SIGNALED, &to, 1, r.addr, r.rkey);
		good(c->scq, 1, IBV_WC_ATOMIC_WRITE, -1);
		good(c->scq, 3, IBV_WC_RDMA_READ, -1);
		CHECK(!memcmp(b->p + 8, &value, sizeof(value)), "the Write was overtaken");
	}
}

/*
 * A value is written whole, in its turn: another thread never sees a part, and what comes behind it
 * is written later.
 */
static void t_atomic_write(struct side *s)
{
	atomic_ullong *word;
	uint64_t seen = 0, now;
	struct rmem r;
	struct conn c;
	struct buf b;
	unsigned int i;

	conn_open(s, &c, &with_flush);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		r.addr += 64;
		for (i = 1; i <= 50 * s->rounds; i++) {
			atomic_write(&c, i, r, (uint64_t)i << 32 | i);
			good(c.scq, i, IBV_WC_ATOMIC_WRITE, -1);
		}
		order(&c, &b, r, s->rounds);
		atomic_write(&c, 1, r, UINT64_MAX);
		good(c.scq, 1, IBV_WC_ATOMIC_WRITE, -1);
	} else {
		word = (atomic_ullong *)(b.p + 64);
		atomic_store(word, 0);
		give_rmem(s, &b);
		while ((now = atomic_load(word)) != UINT64_MAX) {
			CHECK(now >> 32 == (uint32_t)now && now >= seen,
			      "%#llx after %#llx", (unsigned long long)now, (unsigned long long)seen);
			seen = now;
		}
		/* The value, and the one beside it that order() has written. */
		memset(b.model + 64, 0xff, 8);
		memcpy(b.model + 128, b.p + 128, 8);
		buf_verify(&b, "what is beside the value");
	}
	sync_sides(s);
	conn_close(&c);
	buf_free(&b);
}

enum wrong {
	F_NO_RIGHT, F_NOT_THIS_QP, F_BEYOND, F_NO_REGION, F_PERSISTENT, W_NO_RIGHT, W_BEYOND, W_MISALIGNED,
};

/* What a region, or its queue pair, does not grant. */
static void t_refused(struct side *s)
{
	enum wrong how = s->arg;
	struct ibv_qp_attr attr = { .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	int access = how == F_NO_RIGHT ? ACC_ALL : ACC_FLUSH;
	unsigned int status = IBV_WC_REM_ACCESS_ERR;
	struct rmem r;
	struct conn c;
	struct buf b;

	conn_open(s, &c, &with_flush);
	buf_new(s, &b, PAGE, how == W_NO_RIGHT ? IBV_ACCESS_REMOTE_READ : access);
	if (!s->active) {
		if (how == F_NOT_THIS_QP)
			CALL(ibv_modify_qp(c.qp, &attr, IBV_QP_ACCESS_FLAGS));
		give_rmem(s, &b);
		conn_expect_error(&c);
		sync_sides(s);
		buf_verify(&b, "memory that the peer must not write");
		conn_free(&c);
		buf_free(&b);
		return;
	}
	r = take_rmem(s);
	switch (how) {
	case F_NO_REGION:
		r.rkey ^= 0x100;
		/* fallthrough */
	case F_NO_RIGHT:
	case F_NOT_THIS_QP:
		flush(&c, 1, r, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
		break;
	case F_BEYOND:
		flush(&c, 1, r, PAGE + 1, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		break;
	case F_PERSISTENT:
		flush(&c, 1, r, 8, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
		break;
	case W_MISALIGNED:
		r.addr += 4;
		status = IBV_WC_REM_INV_REQ_ERR;
		/* fallthrough */
	case W_NO_RIGHT:
		atomic_write(&c, 1, r, 5);
		break;
	case W_BEYOND:
		r.addr += PAGE;
		atomic_write(&c, 1, r, 5);
		break;
	}
	bad(c.scq, 1, BIT(status));
	conn_expect_error(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

#define REFUSED(what, how) { "placement-refused-" what, t_refused, T_BOTH, how }

const struct test placement_tests[] = {
	{ "placement-flush", t_flush, T_BOTH },
	{ "placement-atomic-write", t_atomic_write, T_BOTH },
	REFUSED("flush-right", F_NO_RIGHT),
	REFUSED("flush-qp", F_NOT_THIS_QP),
	REFUSED("flush-bounds", F_BEYOND),
	REFUSED("flush-stag", F_NO_REGION),
	REFUSED("flush-persistent", F_PERSISTENT),
	REFUSED("write-right", W_NO_RIGHT),
	REFUSED("write-bounds", W_BEYOND),
	REFUSED("write-misaligned", W_MISALIGNED),
	{}
};
