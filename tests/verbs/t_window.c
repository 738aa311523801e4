// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows of type 2B. The passive side binds them, the active side reads and writes through
 * them. Only rsiw's own library has them: with another one these tests are skipped.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

enum {
	/* The window is a part of the buffer, and neither begins nor ends at a page. */
	SPACE = 8 * 4096, FIRST = 1000, LEN = 20000, OPLEN = 300,
	READ = IBV_ACCESS_REMOTE_READ, WRITE = IBV_ACCESS_REMOTE_WRITE,
	ACC_BIND = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND,
	SIGNALED = IBV_SEND_SIGNALED,
};

static struct ibv_mw *window_new(struct ibv_pd *pd)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	if (!mw && errno == EOPNOTSUPP)
		skip("siw's library has no memory windows");
	CHECK(mw, "ibv_alloc_mw: errno %d", errno);
	return mw;
}

/* Binds the window with the next key, which it returns. */
static uint32_t try_bind(struct conn *c, uint64_t id, struct ibv_mw *mw, struct ibv_mr *mr,
			 void *addr, uint64_t len, unsigned int access)
{
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = IBV_WR_BIND_MW, .send_flags = SIGNALED,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = {
				.mr = mr, .addr = (uintptr_t)addr, .length = len, .mw_access_flags = access,
			},
		},
	}, *bad_wr;

	CALL(ibv_post_send(c->qp, &wr, &bad_wr));
	mw->rkey = wr.bind_mw.rkey;
	return mw->rkey;
}

/* Binds the window to a part of the buffer. */
static struct rmem bound(struct conn *c, struct ibv_mw *mw, struct buf *b, size_t off, size_t len,
			 unsigned int access)
{
	struct rmem r = { .addr = (uintptr_t)b->p + off, .len = len };

	r.rkey = try_bind(c, 70, mw, b->mr, b->p + off, len, access);
	good(c->scq, 70, IBV_WC_BIND_MW, -1);
	return r;
}

static void give(struct side *s, struct rmem r)
{
	oob_send(s, &r, sizeof(r));
}

static void invalidate(struct conn *c, uint32_t rkey, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = 71, .opcode = IBV_WR_LOCAL_INV, .send_flags = SIGNALED | flags,
		.invalidate_rkey = rkey,
	}, *bad_wr;

	CALL(ibv_post_send(c->qp, &wr, &bad_wr));
}

static void send_invalidate(struct conn *c, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 72, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = SIGNALED,
		.invalidate_rkey = rkey,
	}, *bad_wr;

	CALL(ibv_post_send(c->qp, &wr, &bad_wr));
	good(c->scq, 72, IBV_WC_SEND, -1);
}

/* Writes a pattern to all of what it is given, and reads it back. */
static void use(struct side *s, struct conn *c, struct buf *b, uint64_t seed)
{
	struct rmem r = take_rmem(s);
	struct ibv_sge sge = sge_of(b, 0, r.len);

	buf_fill(b, 0, r.len, seed);
	post(c, IBV_WR_RDMA_WRITE, seed, SIGNALED, &sge, 1, r.addr, r.rkey);
	good(c->scq, seed, IBV_WC_RDMA_WRITE, -1);
	mark_send(c, seed);
	sge = sge_of(b, LEN, r.len - 5000);
	memcpy(b->model + LEN, b->model + 5000, r.len - 5000);
	post(c, IBV_WR_RDMA_READ, seed, SIGNALED, &sge, 1, r.addr + 5000, r.rkey);
	good(c->scq, seed, IBV_WC_RDMA_READ, -1);
	buf_verify(b, "what was read through the window");
	sync_sides(s);
}

static void used(struct side *s, struct conn *c, struct buf *b, struct rmem r, uint64_t seed)
{
	buf_expect(b, r.addr - (uintptr_t)b->p, r.len, seed);
	mark_arm(c);
	give(s, r);
	mark_wait(c, seed);
	buf_verify(b, "what was written through the window");
	sync_sides(s);
}

/*
 * A window gives rights that its region does not, to a part of it; it is invalidated here and by
 * the peer, and bound anew to another part with another key.
 */
static void t_use(struct side *s)
{
	struct ibv_mw *mw = s->active ? NULL : window_new(s->pd);
	struct ibv_wc wc;
	struct rmem r;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * SPACE, ACC_BIND);
	if (s->active) {
		use(s, &c, &b, 1);
		use(s, &c, &b, 2);
		r = take_rmem(s);
		send_invalidate(&c, r.rkey);
		use(s, &c, &b, 3);
	} else {
		used(s, &c, &b, bound(&c, mw, &b, FIRST, LEN, READ | WRITE), 1);
		/* A part of a part has the rights of the window, and local access goes on. */
		invalidate(&c, mw->rkey, IBV_SEND_FENCE);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		r = bound(&c, mw, &b, FIRST + 5, LEN / 2, READ | WRITE | IBV_ACCESS_LOCAL_WRITE);
		used(s, &c, &b, r, 2);
		post_recv(&c, 73, NULL, 0);
		give(s, r);
		wc = poll_one(c.rcq);
		CHECK(wc.wr_id == 73 && wc.status == IBV_WC_SUCCESS && wc.wc_flags == IBV_WC_WITH_INV &&
		      wc.invalidated_rkey == r.rkey, "the Send with Invalidate: status %d, flags %#x",
		      wc.status, wc.wc_flags);
		used(s, &c, &b, bound(&c, mw, &b, SPACE, LEN, READ | WRITE), 3);
	}
	conn_close(&c);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
}

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
	r = bound(how == R_OTHER_QP ? &other : &c, mw, &b, FIRST, LEN,
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
		invalidate(&c, r.rkey, 0);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		/* The peer may have done it before. */
		invalidate(&c, r.rkey, 0);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		if (how == R_OLD_KEY)
			bound(&c, mw, &b, FIRST, LEN, READ | WRITE);
		break;
	case R_BY_PEER:
		post_recv(&c, 73, NULL, 0);
		give(s, r);
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
	give(s, r);
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
		send_invalidate(&c, r.rkey);
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
		send_invalidate(&other, r.rkey);
		conn_expect_error(&other);
		use(s, &c, &b, 1);
	} else {
		r = bound(&c, mw, &b, FIRST, LEN, READ | WRITE);
		post_recv(&other, 73, NULL, 0);
		give(s, r);
		conn_expect_error(&other);
		used(s, &c, &b, r, 1);
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
		try_bind(c, 1, mw, mr, mr->addr, len, READ);
		good(c->scq, 1, IBV_WC_BIND_MW, -1);
	}
	switch (how) {
	case B_INVALIDATE:
		/* Regions of processes are not invalidated by request. */
		invalidate(c, mr->rkey, 0);
		bad(c->scq, 71, BIT(IBV_WC_LOC_PROT_ERR));
		return;
	case B_AS_LOCAL:
		/* A window names nothing for its own consumer. */
		sge = (struct ibv_sge) { first, 100, mw->rkey };
		post(c, IBV_WR_SEND, 2, SIGNALED, &sge, 1, 0, 0);
		bad(c->scq, 2, BIT(IBV_WC_LOC_PROT_ERR));
		return;
	case B_NO_WRITE:
		invalidate(c, mw->rkey, 0);
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
	try_bind(c, 2, mw, &wrong, (void *)first, len, READ | WRITE);
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
	conn_expect_error(&c);
	sync_sides(s);
	conn_free(&c);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
	CALL(ibv_dealloc_pd(pd));
}

/* A region with a window bound to it stays as it is. */
static void t_busy(struct side *s)
{
	struct ibv_mw *mw[2] = {};
	struct conn c;
	struct buf b;
	int i, e;

	for (i = 0; i < 2 && !s->active; i++)
		mw[i] = window_new(s->pd);
	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * SPACE, ACC_BIND);
	if (s->active) {
		use(s, &c, &b, 1);
	} else {
		bound(&c, mw[1], &b, 0, SPACE, READ);
		bound(&c, mw[0], &b, FIRST, LEN, READ | WRITE);
		e = ibv_dereg_mr(b.mr);
		CHECK(e == EBUSY, "ibv_dereg_mr with two windows: %d", e);
		/* A window ends while it is bound. */
		CALL(ibv_dealloc_mw(mw[1]));
		e = rereg(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_BIND);
		CHECK(e == EBUSY, "ibv_rereg_mr with a window: %d", e);
		used(s, &c, &b, (struct rmem) {
			.addr = (uintptr_t)b.p + FIRST, .len = LEN, .rkey = mw[0]->rkey,
		}, 1);
		invalidate(&c, mw[0]->rkey, 0);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		CALL(rereg(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_BIND));
		bound(&c, mw[0], &b, FIRST, LEN, READ | WRITE);
		e = ibv_dereg_mr(b.mr);
		CHECK(e == EBUSY, "ibv_dereg_mr with a window: %d", e);
		CALL(ibv_dealloc_mw(mw[0]));
	}
	conn_close(&c);
	buf_free(&b);
}

/*
 * Atomics through a window; and what a request that sends nothing leaves alone: immediate data
 * behind a Write are no part of it.
 */
static void t_extended(struct side *s)
{
	struct ibv_mw *mw = window_new(s->pd);
	struct ibv_send_wr wr = { .wr_id = 1, .num_sge = 1, .send_flags = SIGNALED }, *bad_wr;
	struct rmem r = {};
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_BIND);
	memset(b.p, 0, b.len);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b, LEN, 8);
		wr.sg_list = &sge;
		wr.wr.atomic.remote_addr = r.addr;
		wr.wr.atomic.rkey = r.rkey;
		wr.wr.atomic.compare_add = 7;
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		CALL(ibv_post_send(c.qp, &wr, &bad_wr));
		good(c.scq, 1, IBV_WC_FETCH_ADD, -1);
		wr.wr.atomic.swap = 9;
		wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		CALL(ibv_post_send(c.qp, &wr, &bad_wr));
		good(c.scq, 1, IBV_WC_COMP_SWAP, -1);
		CHECK(*(uint64_t *)(b.p + LEN) == 7, "the old value is %lu", *(uint64_t *)(b.p + LEN));
		post(&c, IBV_WR_RDMA_WRITE, 2, 0, &sge, 1, r.addr, r.rkey);
		bound(&c, mw, &b, 0, SPACE, READ);
		post(&c, IBV_WR_RDMA_WRITE_WITH_IMM, 3, SIGNALED, NULL, 0, 0, 0);
		good(c.scq, 3, IBV_WC_RDMA_WRITE, -1);
	} else {
		post_recv(&c, 4, NULL, 0);
		give(s, bound(&c, mw, &b, FIRST, 8, WRITE | IBV_ACCESS_REMOTE_ATOMIC));
		wc = poll_one(c.rcq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
		      !wc.byte_len, "status %d, opcode %d, %u octets", wc.status, wc.opcode, wc.byte_len);
		CHECK(*(uint64_t *)(b.p + FIRST) == 7, "the value is %lu", *(uint64_t *)(b.p + FIRST));
	}
	sync_sides(s);
	conn_close(&c);
	CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
}

/* A process is killed that has windows bound to a region, made before it and after it. */
static void t_killed(struct side *s)
{
	enum { NO_WINDOWS = 77 };
	struct ibv_mw *mw[2] = {};
	struct conn c;
	struct buf b;
	pid_t pid = 0;
	int status;

	/* The child opens the device itself. */
	if (!s->active)
		pid = fork();
	if (pid) {
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "no process");
		if (WIFEXITED(status) && WEXITSTATUS(status) == NO_WINDOWS)
			skip("siw's library has no memory windows");
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		      "the process ended with status %#x", status);
		sync_sides(s);
		return;
	}
	dev_open(s);
	if (!s->active) {
		mw[0] = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
		if (!mw[0])
			_exit(NO_WINDOWS);
	}
	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * SPACE, ACC_BIND);
	if (!s->active) {
		mw[1] = window_new(s->pd);
		bound(&c, mw[0], &b, 0, SPACE, READ);
		used(s, &c, &b, bound(&c, mw[1], &b, FIRST, LEN, READ | WRITE), 1);
		kill(getpid(), SIGKILL);
	}
	use(s, &c, &b, 1);
	conn_expect_down(&c);
	conn_free(&c);
	buf_free(&b);
	dev_close(s);
	sync_sides(s);
}

#define W IBV_WR_RDMA_WRITE
#define R IBV_WR_RDMA_READ

const struct test window_tests[] = {
	{ "window", t_use, T_QUICK | T_BOTH },
	{ "window-write-below", t_refused, 0, CASE(W, R_BELOW) },
	{ "window-write-above", t_refused, 0, CASE(W, R_ABOVE) },
	{ "window-write-across", t_refused, T_QUICK, CASE(W, R_ACROSS) },
	{ "window-write-old-key", t_refused, T_QUICK, CASE(W, R_OLD_KEY) },
	{ "window-write-no-right", t_refused, T_QUICK, CASE(W, R_RIGHT) },
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
	{ "window-read-other-qp", t_refused, T_QUICK, CASE(R, R_OTHER_QP) },
	{ "window-read-invalidated", t_refused, 0, CASE(R, R_INVALIDATED) },
	{ "window-read-gone", t_refused, 0, CASE(R, R_GONE) },
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
	{ "window-busy", t_busy, T_QUICK },
	{ "window-extended", t_extended, T_QUICK },
	{ "window-killed", t_killed, T_QUICK | T_NODEV },
	{ }
};
