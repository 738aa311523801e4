// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows of type 1, which are for all queue pairs of a domain. The passive side binds
 * them, the active side reads and writes through them, as with those of type 2B (t_window.c).
 */
#include <errno.h>
#include <pthread.h>

#include "window.h"

static struct ibv_mw *new_window(struct ibv_pd *pd)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);

	if (!mw && errno == EOPNOTSUPP)
		skip("siw's library has no memory windows");
	CHECK(mw, "ibv_alloc_mw: errno %d", errno);
	return mw;
}

/* Posts a request to bind the window, or to unbind it if there is no region. */
static void try_bind(struct conn *c, uint64_t id, struct ibv_mw *mw, struct ibv_mr *mr,
		     void *addr, uint64_t len, unsigned int access)
{
	struct ibv_mw_bind bind = {
		.wr_id = id, .send_flags = SIGNALED,
		.bind_info = {
			.mr = mr, .addr = (uintptr_t)addr, .length = len, .mw_access_flags = access,
		},
	};

	CALL(ibv_bind_mw(c->qp, mw, &bind));
}

static struct rmem bind_to(struct conn *c, struct ibv_mw *mw, struct buf *b, size_t off, size_t len)
{
	uint32_t before = mw->rkey;

	try_bind(c, 70, mw, b->mr, b->p + off, len, READ | WRITE);
	good(c->scq, 70, IBV_WC_BIND_MW, -1);
	CHECK(mw->rkey != before && mw->rkey >> 8 == before >> 8, "key %#x, and then %#x",
	      before, mw->rkey);
	return (struct rmem) { .addr = (uintptr_t)b->p + off, .len = len, .rkey = mw->rkey };
}

static void unbind(struct conn *c, struct ibv_mw *mw)
{
	try_bind(c, 74, mw, NULL, NULL, 0, 0);
	good(c->scq, 74, IBV_WC_BIND_MW, -1);
}

/*
 * Each of two queue pairs binds it, and both peers use it. It is bound to another region while it
 * is bound, which lets the first one go, and ends while it is bound.
 */
static void t_use(struct side *s)
{
	struct ibv_mw *mw = s->active ? NULL : new_window(s->pd);
	struct conn c[2];
	struct buf b[2];
	struct rmem r;
	int i, e;

	for (i = 0; i < 2; i++) {
		conn_open(s, &c[i], NULL);
		buf_new(s, &b[i], 2 * SPACE, ACC_BIND);
	}
	if (s->active) {
		for (i = 0; i < 4; i++)
			window_use(s, &c[i % 2], &b[i / 2], i + 1);
		sync_sides(s);
		window_use(s, &c[1], &b[1], 5);
	} else {
		r = bind_to(&c[0], mw, &b[0], FIRST, LEN);
		window_check(s, &c[0], &b[0], r, 1);
		window_check(s, &c[1], &b[0], r, 2);
		e = ibv_dereg_mr(b[0].mr);
		CHECK(e == EBUSY, "ibv_dereg_mr with a window: %d", e);
		r = bind_to(&c[1], mw, &b[1], FIRST + 3, LEN / 2);
		CALL(rereg(b[0].mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_BIND));
		window_check(s, &c[0], &b[1], r, 3);
		window_check(s, &c[1], &b[1], r, 4);
		unbind(&c[0], mw);
		CALL(rereg(b[1].mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0, ACC_BIND));
		/* Once more, as it is unbound already. */
		unbind(&c[1], mw);
		sync_sides(s);
		r = bind_to(&c[0], mw, &b[1], SPACE, LEN);
		window_check(s, &c[1], &b[1], r, 5);
		e = ibv_dereg_mr(b[1].mr);
		CHECK(e == EBUSY, "ibv_dereg_mr with a window that is bound again: %d", e);
		CALL(ibv_dealloc_mw(mw));
		CALL(ibv_dereg_mr(b[1].mr));
		b[1].mr = NULL;
	}
	for (i = 0; i < 2; i++) {
		conn_close(&c[i]);
		buf_free(&b[i]);
	}
}

enum refused {
	R_OLD_KEY, R_UNBOUND, R_NEVER_BOUND, R_ABOVE, R_RIGHT, R_GONE, R_OTHER_PD, R_INVALIDATE,
};

static struct rmem victims_memory(struct conn *c, enum refused how, struct ibv_mw **mw, struct buf *b)
{
	struct rmem r = { .addr = (uintptr_t)b->p + FIRST, .len = LEN, .rkey = (*mw)->rkey };

	if (how == R_NEVER_BOUND)
		return r;
	if (how == R_RIGHT) {
		try_bind(c, 70, *mw, b->mr, b->p + FIRST, LEN, READ);
		good(c->scq, 70, IBV_WC_BIND_MW, -1);
		r.rkey = (*mw)->rkey;
		return r;
	}
	r = bind_to(c, *mw, b, FIRST, LEN);
	switch (how) {
	case R_OLD_KEY:
		bind_to(c, *mw, b, FIRST, LEN);
		break;
	case R_UNBOUND:
		unbind(c, *mw);
		r.rkey = (*mw)->rkey;
		break;
	case R_ABOVE:
		r.addr += LEN;
		break;
	case R_GONE:
		CALL(ibv_dealloc_mw(*mw));
		*mw = NULL;
		break;
	default:
		break;
	}
	return r;
}

/* What the peer must not do, and that nothing of it happens. */
static void t_refused(struct side *s)
{
	enum refused how = s->arg;
	struct ibv_pd *pd = NULL;
	struct conn_opts o = {};
	struct ibv_mw *mw = NULL;
	struct conn c, user;
	struct ibv_sge sge;
	struct rmem r;
	struct buf b;

	if (how == R_OTHER_PD && !s->active) {
		pd = ibv_alloc_pd(s->ctx);
		CHECK(pd, "ibv_alloc_pd: errno %d", errno);
		o.pd = pd;
	}
	if (!s->active)
		mw = new_window(s->pd);
	/* The offender uses the first one, and the second one binds. */
	conn_open(s, &c, &o);
	conn_open(s, &user, NULL);
	buf_new(s, &b, 2 * SPACE, s->active ? ACC_ALL : ACC_BIND);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b, 0, OPLEN);
		if (how == R_INVALIDATE)
			window_send_invalidate(&c, r.rkey);
		else
			post(&c, IBV_WR_RDMA_WRITE, 1, 0, &sge, 1, r.addr, r.rkey);
	} else {
		r = victims_memory(&user, how, &mw, &b);
		if (how == R_INVALIDATE)
			post_recv(&c, 73, NULL, 0);
		window_give(s, r);
	}
	conn_expect_error(&c);
	sync_sides(s);
	/* A peer invalidates what is its alone: the window is the domain's, and stays. */
	if (how == R_INVALIDATE) {
		if (s->active)
			window_use(s, &user, &b, 1);
		else
			window_check(s, &user, &b, r, 1);
	} else {
		buf_verify(&b, "memory that the peer must not write");
	}
	conn_free(&c);
	conn_close(&user);
	if (mw)
		CALL(ibv_dealloc_mw(mw));
	buf_free(&b);
	if (pd)
		CALL(ibv_dealloc_pd(pd));
}

enum bad_bind { B_NO_BIND, B_LONG, B_WRAP, B_KEY, B_WINDOW_PD, B_LOCAL_INV, B_AS_LOCAL };

/* A request that is refused fails, and the connection ends; the window is as it was. */
static void t_bind(struct side *s)
{
	enum bad_bind how = s->arg;
	struct ibv_pd *pd = ibv_alloc_pd(s->ctx);
	struct ibv_mw *mw = NULL;
	struct ibv_mr wrong;
	uint64_t len;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	CHECK(pd, "ibv_alloc_pd: errno %d", errno);
	if (!s->active)
		mw = new_window(how == B_WINDOW_PD ? pd : s->pd);
	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, how == B_NO_BIND ? ACC_ALL : ACC_BIND);
	if (!s->active) {
		wrong = *b.mr;
		/* libibverbs compares the domains of window and region. */
		wrong.pd = mw->pd;
		wrong.lkey ^= how == B_KEY;
		switch (how) {
		case B_LOCAL_INV:
		case B_AS_LOCAL:
			try_bind(&c, 1, mw, b.mr, b.p, LEN, READ);
			good(c.scq, 1, IBV_WC_BIND_MW, -1);
			sge = (struct ibv_sge) { (uintptr_t)b.p, 100, mw->rkey };
			if (how == B_AS_LOCAL)
				post(&c, IBV_WR_SEND, 71, SIGNALED, &sge, 1, 0, 0);
			else
				window_invalidate(&c, mw->rkey, 0);
			bad(c.scq, 71, BIT(IBV_WC_LOC_PROT_ERR));
			/* It is bound still. */
			CHECK(ibv_dereg_mr(b.mr) == EBUSY, "the window is bound to nothing");
			break;
		default:
			len = how == B_LONG ? SPACE + 1 : how == B_WRAP ? -(uintptr_t)b.p : SPACE;
			try_bind(&c, 2, mw, &wrong, b.p, len, READ | WRITE);
			bad(c.scq, 2, BIT(IBV_WC_MW_BIND_ERR));
			break;
		}
	}
	window_failed(s, &c, mw, &b);
	CALL(ibv_dealloc_pd(pd));
}

struct binder {
	struct conn *c;
	struct ibv_mw *mw;
	struct buf *b;
	unsigned int rounds;
};

/* Binds and unbinds the window by a queue pair of its own. */
static void *bind_often(void *arg)
{
	struct binder *binder = arg;
	/* As programs that share a window would need a lock for its key. */
	struct ibv_mw mw = *binder->mw;
	struct conn *c = binder->c;
	struct buf *b = binder->b;
	unsigned int i;

	for (i = 0; i < binder->rounds; i++) {
		if (i % 3)
			try_bind(c, i, &mw, b->mr, b->p + i % 7, LEN, READ | WRITE);
		else
			try_bind(c, i, &mw, NULL, NULL, 0, 0);
		good(c->scq, i, IBV_WC_BIND_MW, -1);
	}
	return NULL;
}

/*
 * Two queue pairs bind one window at once, while a peer writes through it until its key is not
 * valid. When the window is unbound in the end, no region has one.
 */
static void t_at_once(struct side *s)
{
	enum { BINDERS = 2 };
	unsigned int rounds = s->rounds < 20 ? 200 : 10 * s->rounds, i;
	struct ibv_mw *mw = s->active ? NULL : new_window(s->pd);
	struct binder binders[BINDERS];
	pthread_t threads[BINDERS];
	struct conn c[BINDERS], user;
	struct buf b[BINDERS];
	struct ibv_sge sge;
	struct rmem r;

	conn_open(s, &user, NULL);
	for (i = 0; i < BINDERS; i++) {
		conn_open(s, &c[i], NULL);
		buf_new(s, &b[i], SPACE, ACC_BIND);
	}
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b[0], 0, LEN);
		/* As long as the key is that of the first request to bind; flushed from then on. */
		for (i = 0; i < 20; i++)
			post(&user, IBV_WR_RDMA_WRITE, i, 0, &sge, 1, r.addr, r.rkey);
	} else {
		window_give(s, bind_to(&c[0], mw, &b[0], 0, LEN));
		for (i = 0; i < BINDERS; i++) {
			binders[i] = (struct binder) { &c[i], mw, &b[i], rounds };
			CHECK(!pthread_create(&threads[i], NULL, bind_often, &binders[i]), "no thread");
		}
		for (i = 0; i < BINDERS; i++)
			CHECK(!pthread_join(threads[i], NULL), "the thread does not end");
		unbind(&c[0], mw);
		for (i = 0; i < BINDERS; i++)
			CALL(rereg(b[i].mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0,
				   ACC_BIND));
	}
	/* Whether the peer's Writes came in time is chance. */
	sync_sides(s);
	conn_free(&user);
	for (i = 0; i < BINDERS; i++) {
		conn_close(&c[i]);
		buf_free(&b[i]);
	}
	if (mw)
		CALL(ibv_dealloc_mw(mw));
}

const struct test window_domain_tests[] = {
	{ "window-1", t_use, T_QUICK | T_BOTH },
	{ "window-1-at-once", t_at_once, T_QUICK },
	{ "window-1-old-key", t_refused, T_QUICK, R_OLD_KEY },
	{ "window-1-unbound", t_refused, T_QUICK, R_UNBOUND },
	{ "window-1-never-bound", t_refused, 0, R_NEVER_BOUND },
	{ "window-1-above", t_refused, 0, R_ABOVE },
	{ "window-1-no-right", t_refused, T_QUICK, R_RIGHT },
	{ "window-1-gone", t_refused, T_QUICK, R_GONE },
	{ "window-1-other-pd", t_refused, T_QUICK, R_OTHER_PD },
	/*= 5040-8.1.1-8 */
	{ "window-1-invalidate", t_refused, T_QUICK, R_INVALIDATE },
	{ "window-1-bind-no-right", t_bind, T_QUICK, B_NO_BIND },
	{ "window-1-bind-long", t_bind, 0, B_LONG },
	{ "window-1-bind-wrap", t_bind, 0, B_WRAP },
	{ "window-1-bind-key", t_bind, T_QUICK, B_KEY },
	{ "window-1-bind-of-other-pd", t_bind, 0, B_WINDOW_PD },
	{ "window-1-invalidate-local", t_bind, T_QUICK, B_LOCAL_INV },
	{ "window-1-as-local-key", t_bind, 0, B_AS_LOCAL },
	{ }
};
