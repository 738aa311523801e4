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

#include "window.h"

struct ibv_mw *window_new(struct ibv_pd *pd)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	if (!mw && errno == EOPNOTSUPP)
		skip("siw's library has no memory windows");
	CHECK(mw, "ibv_alloc_mw: errno %d", errno);
	return mw;
}

/* Binds the window with the next key, which it returns. */
uint32_t window_try_bind(struct conn *c, uint64_t id, struct ibv_mw *mw, struct ibv_mr *mr,
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
struct rmem window_bind(struct conn *c, struct ibv_mw *mw, struct buf *b, size_t off, size_t len,
			unsigned int access)
{
	struct rmem r = { .addr = (uintptr_t)b->p + off, .len = len };

	r.rkey = window_try_bind(c, 70, mw, b->mr, b->p + off, len, access);
	good(c->scq, 70, IBV_WC_BIND_MW, -1);
	return r;
}

void window_give(struct side *s, struct rmem r)
{
	oob_send(s, &r, sizeof(r));
}

void window_invalidate(struct conn *c, uint32_t rkey, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = 71, .opcode = IBV_WR_LOCAL_INV, .send_flags = SIGNALED | flags,
		.invalidate_rkey = rkey,
	}, *bad_wr;

	CALL(ibv_post_send(c->qp, &wr, &bad_wr));
}

void window_send_invalidate(struct conn *c, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = 72, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = SIGNALED,
		.invalidate_rkey = rkey,
	}, *bad_wr;

	CALL(ibv_post_send(c->qp, &wr, &bad_wr));
	good(c->scq, 72, IBV_WC_SEND, -1);
}

/* Writes a pattern to all of what it is given, and reads it back. */
void window_use(struct side *s, struct conn *c, struct buf *b, uint64_t seed)
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

void window_check(struct side *s, struct conn *c, struct buf *b, struct rmem r, uint64_t seed)
{
	buf_expect(b, r.addr - (uintptr_t)b->p, r.len, seed);
	mark_arm(c);
	window_give(s, r);
	mark_wait(c, seed);
	buf_verify(b, "what was written through the window");
	sync_sides(s);
}

void window_failed(struct side *s, struct conn *c, struct ibv_mw *mw, struct buf *b)
{
	conn_expect_error(c);
	sync_sides(s);
	conn_free(c);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(b);
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
		window_use(s, &c, &b, 1);
		window_use(s, &c, &b, 2);
		r = take_rmem(s);
		window_send_invalidate(&c, r.rkey);
		window_use(s, &c, &b, 3);
	} else {
		window_check(s, &c, &b, window_bind(&c, mw, &b, FIRST, LEN, READ | WRITE), 1);
		/* A part of a part has the rights of the window, and local access goes on. */
		window_invalidate(&c, mw->rkey, IBV_SEND_FENCE);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		r = window_bind(&c, mw, &b, FIRST + 5, LEN / 2,
				READ | WRITE | IBV_ACCESS_LOCAL_WRITE);
		window_check(s, &c, &b, r, 2);
		post_recv(&c, 73, NULL, 0);
		window_give(s, r);
		wc = poll_one(c.rcq);
		CHECK(wc.wr_id == 73 && wc.status == IBV_WC_SUCCESS && wc.wc_flags == IBV_WC_WITH_INV &&
		      wc.invalidated_rkey == r.rkey, "the Send with Invalidate: status %d, flags %#x",
		      wc.status, wc.wc_flags);
		window_check(s, &c, &b, window_bind(&c, mw, &b, SPACE, LEN, READ | WRITE), 3);
	}
	conn_close(&c);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
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
		window_use(s, &c, &b, 1);
	} else {
		window_bind(&c, mw[1], &b, 0, SPACE, READ);
		window_bind(&c, mw[0], &b, FIRST, LEN, READ | WRITE);
		e = ibv_dereg_mr(b.mr);
		CHECK(e == EBUSY, "ibv_dereg_mr with two windows: %d", e);
		/* A window ends while it is bound. */
		CALL(ibv_dealloc_mw(mw[1]));
		e = rereg(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_BIND);
		CHECK(e == EBUSY, "ibv_rereg_mr with a window: %d", e);
		window_check(s, &c, &b, (struct rmem) {
			.addr = (uintptr_t)b.p + FIRST, .len = LEN, .rkey = mw[0]->rkey,
		}, 1);
		window_invalidate(&c, mw[0]->rkey, 0);
		good(c.scq, 71, IBV_WC_LOCAL_INV, -1);
		CALL(rereg(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_BIND));
		window_bind(&c, mw[0], &b, FIRST, LEN, READ | WRITE);
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
		window_bind(&c, mw, &b, 0, SPACE, READ);
		post(&c, IBV_WR_RDMA_WRITE_WITH_IMM, 3, SIGNALED, NULL, 0, 0, 0);
		good(c.scq, 3, IBV_WC_RDMA_WRITE, -1);
	} else {
		post_recv(&c, 4, NULL, 0);
		window_give(s, window_bind(&c, mw, &b, FIRST, 8, WRITE | IBV_ACCESS_REMOTE_ATOMIC));
		wc = poll_one(c.rcq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
		      !wc.byte_len, "status %d, opcode %d, %u bytes", wc.status, wc.opcode, wc.byte_len);
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
		window_bind(&c, mw[0], &b, 0, SPACE, READ);
		window_check(s, &c, &b, window_bind(&c, mw[1], &b, FIRST, LEN, READ | WRITE), 1);
		kill(getpid(), SIGKILL);
	}
	window_use(s, &c, &b, 1);
	conn_expect_down(&c);
	conn_free(&c);
	buf_free(&b);
	dev_close(s);
	sync_sides(s);
}

const struct test window_tests[] = {
	{ "window", t_use, T_QUICK | T_BOTH },
	{ "window-busy", t_busy, T_QUICK },
	{ "window-extended", t_extended, T_QUICK },
	{ "window-killed", t_killed, T_QUICK | T_NODEV },
	{ }
};
