// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that the peer answers one after the other: Reads, atomic operations and atomic Writes
 * that are posted at once. Only rsiw's own library has all of these: with another one these tests
 * are skipped.
 */
#include <string.h>

#include "vt.h"

enum {
	SIGNALED = IBV_SEND_SIGNALED,
	WORD = 64,	/* the offset of the peer's word */
	BEFORE = 5,	/* its value */
	WRITTEN = 100,
	LONG = 64 << 10,
};

static const struct conn_opts with_all = {
	.send_ops = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
		    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE,
};

static void begin(struct ibv_qp_ex *qp, uint64_t id)
{
	qp->wr_id = id;
	qp->wr_flags = SIGNALED;
}

static void sink(struct ibv_qp_ex *qp, struct buf *b, size_t at, size_t len)
{
	struct ibv_sge sge = sge_of(b, at, len);

	ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
}

static void add(struct ibv_qp_ex *qp, uint64_t id, struct rmem r, struct buf *b, size_t at)
{
	begin(qp, id);
	ibv_wr_atomic_fetch_add(qp, r.rkey, r.addr, 1);
	sink(qp, b, at, 8);
}

static void read(struct ibv_qp_ex *qp, uint64_t id, struct rmem r, struct buf *b, size_t at,
		 size_t len)
{
	begin(qp, id);
	ibv_wr_rdma_read(qp, r.rkey, r.addr);
	sink(qp, b, at, len);
}

static void write_word(struct ibv_qp_ex *qp, uint64_t id, struct rmem r, uint64_t value)
{
	begin(qp, id);
	ibv_wr_atomic_write(qp, r.rkey, r.addr, &value);
}

static uint64_t word(const struct buf *b, size_t at)
{
	uint64_t value;

	memcpy(&value, b->p + at, sizeof(value));
	return value;
}

static void set_word(struct buf *b, size_t at, uint64_t value)
{
	memcpy(b->p + at, &value, sizeof(value));
	memcpy(b->model + at, &value, sizeof(value));
}

/* What is posted at once is carried out in its order. */
static void t_order(struct side *s)
{
	struct ibv_qp_ex *qp;
	struct rmem r;
	struct conn c;
	struct buf b;
	unsigned int i;

	conn_open(s, &c, &with_all);
	buf_new(s, &b, PAGE, ACC_ALL | IBV_ACCESS_REMOTE_ATOMIC);
	if (s->active) {
		r = take_rmem(s);
		r.addr += WORD;
		qp = ibv_qp_to_qp_ex(c.qp);
		for (i = 1; i <= s->rounds; i++) {
			ibv_wr_start(qp);
			write_word(qp, 1, r, i);
			add(qp, 2, r, &b, 0);
			write_word(qp, 3, r, WRITTEN);
			read(qp, 4, r, &b, 8, 8);
			write_word(qp, 5, r, 0);
			CALL(ibv_wr_complete(qp));
			good(c.scq, 1, IBV_WC_ATOMIC_WRITE, -1);
			good(c.scq, 2, IBV_WC_FETCH_ADD, -1);
			good(c.scq, 3, IBV_WC_ATOMIC_WRITE, -1);
			good(c.scq, 4, IBV_WC_RDMA_READ, -1);
			good(c.scq, 5, IBV_WC_ATOMIC_WRITE, -1);
			CHECK(word(&b, 0) == i, "the addition found %lu, not %u", word(&b, 0), i);
			CHECK(word(&b, 8) == WRITTEN, "the Read found %lu", word(&b, 8));
		}
	} else {
		give_rmem(s, &b);
	}
	sync_sides(s);
	conn_close(&c);
	buf_free(&b);
}

enum how { READ_KEY, ADD_KEY, ADD_MISALIGNED, WRITE_KEY, WRITE_MISALIGNED };

/*
 * A refused request, posted with good ones: what is before it is done, it has the status that tells
 * so, and what is behind it is flushed and not done.
 */
static void t_refused(struct side *s)
{
	enum how how = s->arg;
	bool misaligned = how == ADD_MISALIGNED || how == WRITE_MISALIGNED;
	struct rmem r, at, wrong;
	struct ibv_qp_ex *qp;
	struct conn c;
	struct buf b;

	conn_open(s, &c, &with_all);
	buf_new(s, &b, 2 * LONG, ACC_ALL | IBV_ACCESS_REMOTE_ATOMIC);
	if (!s->active) {
		set_word(&b, WORD, BEFORE);
		give_rmem(s, &b);
		conn_expect_error(&c);
		sync_sides(s);
		CHECK(word(&b, WORD) == BEFORE + 1, "the word is %lu", word(&b, WORD));
		conn_free(&c);
		buf_free(&b);
		return;
	}
	r = take_rmem(s);
	at = r;
	at.addr += WORD;
	wrong = at;
	if (misaligned)
		wrong.addr += 4;
	else
		wrong.rkey ^= 0x100;
	qp = ibv_qp_to_qp_ex(c.qp);
	ibv_wr_start(qp);
	read(qp, 1, r, &b, 0, LONG);
	add(qp, 2, at, &b, LONG);
	if (how == READ_KEY)
		read(qp, 3, wrong, &b, LONG + 8, 8);
	else if (how == ADD_KEY || how == ADD_MISALIGNED)
		add(qp, 3, wrong, &b, LONG + 8);
	else
		write_word(qp, 3, wrong, WRITTEN);
	add(qp, 4, at, &b, LONG + 16);
	CALL(ibv_wr_complete(qp));
	good(c.scq, 1, IBV_WC_RDMA_READ, LONG);
	good(c.scq, 2, IBV_WC_FETCH_ADD, -1);
	bad(c.scq, 3, BIT(misaligned ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR));
	bad(c.scq, 4, FLUSHED);
	CHECK(word(&b, WORD) == BEFORE, "the Read found %lu", word(&b, WORD));
	CHECK(word(&b, LONG) == BEFORE, "the addition found %lu", word(&b, LONG));
	conn_expect_error(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

#define REFUSED(what, how) { "turns-refused-" what, t_refused, T_BOTH, how }

const struct test turns_tests[] = {
	{ "turns-order", t_order, T_BOTH },
	REFUSED("read-key", READ_KEY),
	REFUSED("add-key", ADD_KEY),
	REFUSED("add-misaligned", ADD_MISALIGNED),
	REFUSED("write-key", WRITE_KEY),
	REFUSED("write-misaligned", WRITE_MISALIGNED),
	{}
};
