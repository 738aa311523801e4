// SPDX-License-Identifier: GPL-2.0
/*
 * What memory windows refuse: to a peer that uses one as it must not, and to the program that binds
 * one as it must not.
 */
#include <errno.h>

#include "window.h"

enum refused {
	R_BELOW, R_ABOVE, R_ACROSS, R_OLD_KEY, R_RIGHT, R_OTHER_QP, R_UNBOUND, R_INVALIDATED, R_BY_PEER,
	R_GONE, R_REGION,
};
#define CASE(op, how) ((op) << 8 | (how))

/* Makes a window that the peer must not use so, and tells the peer. */
static void victim(struct side *s, enum refused how, unsigned int access)
{
	struct ibv_mw *mw = window_new(s->pd);
	struct conn c, other;
	struct rmem r;
	struct buf b;

	conn_open(s, &c, NULL);
	conn_open(s, &other, NULL);
	buf_new(s, &b, SPACE, ACC_BIND);
	r = window_bind(how == R_OTHER_QP ? &other : &c, mw, &b, FIRST, LEN,
			how == R_RIGHT ? access ^ (READ | WRITE) : access);
	switch (how) {
	case R_BELOW:
		r.addr--;
		break;
	case R_ABOVE:
		r.addr += LEN;
		break;
	case R_ACROSS:
		r.addr += LEN - OPLEN + 1;
		break;
	case R_UNBOUND:
		CALL(ibv_dealloc_mw(mw));
		mw = window_new(s->pd);
		r.rkey = mw->rkey;
		break;
	case R_OLD_KEY:
	case R_INVALIDATED:
		window_invalidate(&c, r.rkey, 0);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		/* The peer may have done it before. */
		window_invalidate(&c, r.rkey, 0);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		if (how == R_OLD_KEY)
			window_bind(&c, mw, &b, FIRST, LEN, READ | WRITE);
		break;
	case R_BY_PEER:
		post_recv(&c, 73, NULL, 0);
		window_give(s, r);
		good(c.rcq, 73, IBV_WC_RECV, 0);
		break;
	case R_GONE:
		CALL(ibv_dealloc_mw(mw));
		mw = NULL;
		break;
	case R_REGION:
		/* The region gives the peer no right. */
		r.rkey = b.mr->rkey;
		break;
	default:
		break;
	}
	window_give(s, r);
	conn_expect_error(&c);
	sync_sides(s);
	buf_verify(&b, "memory that the peer must not write");
	conn_free(&c);
	conn_free(&other);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
}

static void offender(struct side *s, enum refused how, enum ibv_wr_opcode op)
{
	struct conn c, other;
	struct ibv_sge sge;
	struct rmem r;
	struct buf b;

	conn_open(s, &c, NULL);
	conn_open(s, &other, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	if (how == R_BY_PEER) {
		r = take_rmem(s);
		window_send_invalidate(&c, r.rkey);
	}
	r = take_rmem(s);
	sge = sge_of(&b, 0, OPLEN);
	post(&c, op, 1, 0, &sge, 1, r.addr, r.rkey);
	conn_expect_error(&c);
	sync_sides(s);
	buf_verify(&b, "what was to be read");
	conn_free(&c);
	conn_free(&other);
	buf_free(&b);
}

static void t_refused(struct side *s)
{
	enum ibv_wr_opcode op = s->arg >> 8;

	if (s->active)
		offender(s, s->arg & 0xff, op);
	else
		victim(s, s->arg & 0xff, op == IBV_WR_RDMA_READ ? READ : WRITE);
}

/* The peer of another queue pair must not invalidate a window. */
static void t_not_his(struct side *s)
{
	struct ibv_mw *mw = s->active ? NULL : window_new(s->pd);
	struct conn c, other;
	struct rmem r;
	struct buf b;

	conn_open(s, &c, NULL);
	conn_open(s, &other, NULL);
	buf_new(s, &b, 2 * SPACE, ACC_BIND);
	if (s->active) {
		r = take_rmem(s);
		window_send_invalidate(&other, r.rkey);
		conn_expect_error(&other);
		window_use(s, &c, &b, 1);
	} else {
		r = window_bind(&c, mw, &b, FIRST, LEN, READ | WRITE);
		post_recv(&other, 73, NULL, 0);
		window_give(s, r);
		conn_expect_error(&other);
		window_check(s, &c, &b, r, 1);
	}
	conn_close(&c);
	conn_free(&other);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
}

enum bad_bind {
	B_NO_BIND, B_NO_WRITE, B_EMPTY, B_LONG, B_BELOW, B_WRAP, B_REGION_PD, B_WINDOW_PD, B_TWICE, B_KEY,
	B_INVALIDATE, B_AS_LOCAL,
};

/* Posts a request that must be refused. `mr` is of the window's bytes, and of no others. */
static void bind_wrong(struct conn *c, enum bad_bind how, struct ibv_mw *mw, struct ibv_mr *mr)
{
	uint64_t first = (uintptr_t)mr->addr, len = LEN;
	struct ibv_mr wrong = *mr;
	struct ibv_sge sge;

	if (how == B_TWICE || how == B_AS_LOCAL || how == B_NO_WRITE) {
		/* What cannot be written may be read. */
		window_try_bind(c, 1, mw, mr, mr->addr, len, READ);
		good(c->scq, 1, IBV_WC_BIND_MW, -1);
	}
	switch (how) {
	case B_INVALIDATE:
		/* Regions of processes are not invalidated by request. */
		window_invalidate(c, mr->rkey, 0);
		bad(c->scq, 71, BIT(IBV_WC_LOC_PROT_ERR));
		return;
	case B_AS_LOCAL:
		/* A window names nothing for its own consumer. */
		sge = (struct ibv_sge) { first, 100, mw->rkey };
		post(c, IBV_WR_SEND, 2, SIGNALED, &sge, 1, 0, 0);
		bad(c->scq, 2, BIT(IBV_WC_LOC_PROT_ERR));
		return;
	case B_NO_WRITE:
		window_invalidate(c, mw->rkey, 0);
		good(c->scq, 71, IBV_WC_LOCAL_INV, -1);
		break;
	case B_EMPTY:
		len = 0;
		break;
	case B_LONG:
		len++;
		break;
	case B_BELOW:
		first--;
		break;
	case B_WRAP:
		len = -first;
		break;
	case B_KEY:
		wrong.lkey ^= 1;
		break;
	default:
		break;
	}
	window_try_bind(c, 2, mw, &wrong, (void *)first, len, READ | WRITE);
	bad(c->scq, 2, BIT(IBV_WC_MW_BIND_ERR));
}

/* A request that is refused fails, and the connection ends. */
static void t_bind(struct side *s)
{
	enum bad_bind how = s->arg;
	int access = how == B_NO_BIND ? ACC_ALL : how == B_NO_WRITE ? IBV_ACCESS_MW_BIND : ACC_BIND;
	struct ibv_pd *pd = ibv_alloc_pd(s->ctx);
	struct ibv_mw *mw = NULL;
	struct conn c;
	struct buf b;

	CHECK(pd, "ibv_alloc_pd: errno %d", errno);
	if (!s->active)
		mw = window_new(how == B_WINDOW_PD ? pd : s->pd);
	conn_open(s, &c, NULL);
	buf_map(&b, SPACE);
	if (!s->active) {
		b.mr = ibv_reg_mr(how == B_REGION_PD ? pd : s->pd, b.p + FIRST, LEN, access);
		CHECK(b.mr, "ibv_reg_mr: errno %d", errno);
		bind_wrong(&c, how, mw, b.mr);
	}
	window_failed(s, &c, mw, &b);
	CALL(ibv_dealloc_pd(pd));
}

#define W IBV_WR_RDMA_WRITE
#define R IBV_WR_RDMA_READ

const struct test window_refused_tests[] = {
	{ "window-write-below", t_refused, 0, CASE(W, R_BELOW) },
	{ "window-write-above", t_refused, 0, CASE(W, R_ABOVE) },
	{ "window-write-across", t_refused, T_QUICK, CASE(W, R_ACROSS) },
	{ "window-write-old-key", t_refused, T_QUICK, CASE(W, R_OLD_KEY) },
	{ "window-write-no-right", t_refused, T_QUICK, CASE(W, R_RIGHT) },
	/*= 5040-8.1.1-3, 5041-8.3.1-3 */
	{ "window-write-other-qp", t_refused, T_QUICK, CASE(W, R_OTHER_QP) },
	{ "window-write-unbound", t_refused, 0, CASE(W, R_UNBOUND) },
	{ "window-write-invalidated", t_refused, T_QUICK, CASE(W, R_INVALIDATED) },
	{ "window-write-invalidated-by-peer", t_refused, T_QUICK, CASE(W, R_BY_PEER) },
	{ "window-write-gone", t_refused, T_QUICK, CASE(W, R_GONE) },
	{ "window-write-region", t_refused, 0, CASE(W, R_REGION) },
	{ "window-read-below", t_refused, 0, CASE(R, R_BELOW) },
	{ "window-read-above", t_refused, 0, CASE(R, R_ABOVE) },
	{ "window-read-across", t_refused, T_QUICK, CASE(R, R_ACROSS) },
	{ "window-read-old-key", t_refused, 0, CASE(R, R_OLD_KEY) },
	{ "window-read-no-right", t_refused, T_QUICK, CASE(R, R_RIGHT) },
	/*= 5040-7.2-10, 5040-8.1.1-3 */
	{ "window-read-other-qp", t_refused, T_QUICK, CASE(R, R_OTHER_QP) },
	{ "window-read-invalidated", t_refused, 0, CASE(R, R_INVALIDATED) },
	/*= 5040-7.2-9 */
	{ "window-read-gone", t_refused, 0, CASE(R, R_GONE) },
	/*= 5040-7.2-5, 5040-8.1.1-3 */
	{ "window-invalidate-other-qp", t_not_his, T_QUICK },
	{ "window-bind-no-right", t_bind, T_QUICK, B_NO_BIND },
	{ "window-bind-no-write", t_bind, 0, B_NO_WRITE },
	{ "window-bind-empty", t_bind, 0, B_EMPTY },
	{ "window-bind-long", t_bind, T_QUICK, B_LONG },
	{ "window-bind-below", t_bind, 0, B_BELOW },
	{ "window-bind-wrap", t_bind, 0, B_WRAP },
	{ "window-bind-region-of-other-pd", t_bind, 0, B_REGION_PD },
	{ "window-bind-of-other-pd", t_bind, 0, B_WINDOW_PD },
	{ "window-bind-twice", t_bind, T_QUICK, B_TWICE },
	{ "window-bind-key", t_bind, 0, B_KEY },
	{ "window-invalidate-region", t_bind, 0, B_INVALIDATE },
	{ "window-as-local-key", t_bind, T_QUICK, B_AS_LOCAL },
	{ }
};
