// SPDX-License-Identifier: GPL-2.0
/*
 * Access that must be refused. Each case has a connection of its own, which
 * the error ends on both sides, and the buffers must not have changed.
 */
#include <errno.h>
#include <stdlib.h>

#include "vt.h"

enum place { P_INDEX, P_KEY, P_RIGHT, P_BELOW, P_ABOVE, P_STRADDLE, P_WRAP, P_PD, P_GONE };

enum { FIRST = 2 * 4096, LEN = 4 * 4096, SPACE = 8 * 4096, OPLEN = 5000 };

#define CASE(op, place) ((op) << 8 | (place))
#define TOLD BIT(16)

static const char *event_name(int type)
{
	return type < 0 ? "none" : ibv_event_type_str(type);
}

/*
 * The victim's region is in the middle of its buffer, so that changed bytes
 * beside it are found. Another region, whose key is not used, covers the whole
 * buffer: so access is refused because of the key, not for lack of memory.
 */
static struct ibv_mr *victim_region(struct side *s, struct buf *b, enum place place,
				    enum ibv_wr_opcode op, struct ibv_pd **other)
{
	int access = ACC_ALL;
	struct ibv_pd *pd = s->pd;
	struct ibv_mr *mr;

	if (place == P_RIGHT)
		access &= op == IBV_WR_RDMA_READ ? ~IBV_ACCESS_REMOTE_READ :
						   ~IBV_ACCESS_REMOTE_WRITE;
	if (place == P_PD) {
		*other = pd = ibv_alloc_pd(s->ctx);
		CHECK(pd, "ibv_alloc_pd: errno %d", errno);
	}
	mr = ibv_reg_mr(pd, b->p + FIRST, LEN, access);
	CHECK(mr, "ibv_reg_mr: errno %d", errno);
	return mr;
}

static struct rmem victim_target(struct buf *b, struct ibv_mr *mr, enum place place)
{
	struct rmem r = { .addr = (uintptr_t)b->p + FIRST + 100, .rkey = mr->rkey };

	switch (place) {
	case P_INDEX:
		/* Changes the index, which is above the 8-bit key. */
		r.rkey += 0x5500;
		break;
	case P_KEY:
		r.rkey ^= 1;
		break;
	case P_BELOW:
		r.addr = (uintptr_t)b->p + FIRST - 1;
		break;
	case P_ABOVE:
		r.addr = (uintptr_t)b->p + FIRST + LEN;
		break;
	case P_STRADDLE:
		r.addr = (uintptr_t)b->p + FIRST + LEN - OPLEN + 1;
		break;
	case P_WRAP:
		r.addr = ~0ull - 1000;
		break;
	default:
		break;
	}
	return r;
}

/* A Write whose beginning is valid may change bytes inside the region, but not beside it. */
static void verify_victim(struct buf *b, bool inside)
{
	size_t i;

	if (inside) {
		buf_verify(b, "the victim's buffer");
		return;
	}
	for (i = 0; i < b->len; i++)
		CHECK(b->p[i] == b->model[i] || (i >= FIRST && i < FIRST + LEN),
		      "byte %zu beside the region has changed", i);
}

static void victim(struct side *s, enum ibv_wr_opcode op, enum place place)
{
	struct ibv_pd *other = NULL;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct rmem r;
	struct conn c;
	struct buf b, in;
	int event;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	buf_new(s, &in, PAGE, ACC_LOCAL);
	sge = sge_of(&in, 0, 100);
	post_recv(&c, 1, &sge, 1);
	post_recv(&c, 2, &sge, 1);
	mr = victim_region(s, &b, place, op, &other);
	r = victim_target(&b, mr, place);
	if (place == P_GONE) {
		CALL(ibv_dereg_mr(mr));
		mr = NULL;
	}
	oob_send(s, &r, sizeof(r));

	conn_expect_error(&c);
	/* Both receives are flushed: the Send after the bad request did not arrive. */
	bad(c.rcq, 1, FLUSHED);
	bad(c.rcq, 2, FLUSHED);
	sync_sides(s);
	verify_victim(&b, op == IBV_WR_RDMA_READ || place != P_STRADDLE);
	buf_verify(&in, "receive buffer");
	event = async_event(s, wait_ms);
	CHECK(event == IBV_EVENT_QP_ACCESS_ERR || event == IBV_EVENT_QP_REQ_ERR ||
	      event == IBV_EVENT_QP_FATAL, "asynchronous event: %s", event_name(event));

	conn_free(&c);
	if (mr)
		CALL(ibv_dereg_mr(mr));
	if (other)
		CALL(ibv_dealloc_pd(other));
	buf_free(&b);
	buf_free(&in);
}

/* @told: the request's status and the asynchronous event must show the refusal. */
static void offender(struct side *s, enum ibv_wr_opcode op, bool told)
{
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct rmem r;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	r = take_rmem(s);
	sge = sge_of(&b, 0, OPLEN);
	post(&c, op, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
	/* A Send after the bad Write must not arrive. (After a bad Read it may.) */
	if (op == IBV_WR_RDMA_WRITE)
		try_post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	wc = poll_one(c.scq);
	CHECK(wc.wr_id == 1, "completion of %lu", wc.wr_id);
	/* A Write may complete before the other side refuses it. */
	if (op == IBV_WR_RDMA_READ)
		CHECK(BIT(wc.status) & (BIT(IBV_WC_REM_ACCESS_ERR) | FLUSHED),
		      "the Read: %s", ibv_wc_status_str(wc.status));
	else
		CHECK(BIT(wc.status) & (BIT(IBV_WC_SUCCESS) | BIT(IBV_WC_REM_ACCESS_ERR) | FLUSHED),
		      "the Write: %s", ibv_wc_status_str(wc.status));
	conn_expect_error(&c);
	if (told) {
		int event = async_event(s, wait_ms);

		CHECK(event == IBV_EVENT_QP_FATAL, "asynchronous event: %s", event_name(event));
		CHECK(op != IBV_WR_RDMA_READ || wc.status == IBV_WC_REM_ACCESS_ERR,
		      "the Read: %s", ibv_wc_status_str(wc.status));
	}
	sync_sides(s);
	buf_verify(&b, "the offender's buffer");
	conn_free(&c);
	buf_free(&b);
}

static void t_remote(struct side *s)
{
	enum ibv_wr_opcode op = s->arg >> 8 & 0xff;

	if (s->active)
		offender(s, op, s->arg & TOLD);
	else
		victim(s, op, s->arg & 0xff);
}

enum local { L_KEY, L_INDEX, L_BELOW, L_ABOVE, L_PD, L_GONE, L_NO_WRITE, L_DMA };

#define LOCAL_ERRORS (BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_LOC_QP_OP_ERR) | \
		      BIT(IBV_WC_LOC_ACCESS_ERR))

/* The number in an environment variable, or 0, which is no valid key. */
static uint64_t from_env(const char *name)
{
	const char *value = getenv(name);

	return value ? strtoull(value, NULL, 0) : 0;
}

/*
 * Makes an invalid scatter/gather element. L_DMA: the memory of a kernel consumer,
 * by the device's local DMA key; kverbs/loopback tells both by the environment.
 */
static struct ibv_sge bad_sge(struct side *s, struct buf *b, enum local how,
			      struct ibv_mr **mr, struct ibv_pd **pd)
{
	struct ibv_sge sge = { (uintptr_t)b->p + FIRST, OPLEN, 0 };
	int access = how == L_NO_WRITE ? IBV_ACCESS_REMOTE_READ : ACC_ALL;

	*pd = how == L_PD ? ibv_alloc_pd(s->ctx) : NULL;
	*mr = ibv_reg_mr(*pd ? *pd : s->pd, b->p + FIRST, LEN, access);
	CHECK(*mr, "ibv_reg_mr: errno %d", errno);
	sge.lkey = (*mr)->lkey;
	switch (how) {
	case L_KEY:
		sge.lkey ^= 1;
		break;
	case L_INDEX:
		sge.lkey += 0x5500;
		break;
	case L_BELOW:
		sge.addr--;
		break;
	case L_ABOVE:
		sge.addr += LEN - OPLEN + 1;
		break;
	case L_GONE:
		CALL(ibv_dereg_mr(*mr));
		*mr = NULL;
		break;
	case L_DMA:
		sge.addr = from_env("LOCAL_DMA_ADDR");
		sge.lkey = from_env("LOCAL_DMA_LKEY");
		break;
	default:
		break;
	}
	return sge;
}

/* An invalid local element: the request fails, and nothing arrives. */
static void t_local(struct side *s)
{
	enum ibv_wr_opcode op = s->arg >> 8;
	struct ibv_pd *pd = NULL;
	struct ibv_mr *mr = NULL;
	struct ibv_sge sge[2];
	struct rmem r = {};
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		/* A valid element precedes the invalid one. */
		sge[0] = sge_of(&b, 0, 64);
		sge[1] = bad_sge(s, &b, s->arg & 0xff, &mr, &pd);
		if (op == IBV_WR_RDMA_READ)
			post(&c, op, 1, IBV_SEND_SIGNALED, &sge[1], 1, r.addr, r.rkey);
		else
			post(&c, op, 1, 0, sge, 2, r.addr, r.rkey);
		/* A failed request completes even if it is not signalled. */
		bad(c.scq, 1, LOCAL_ERRORS);
	} else {
		sge[0] = sge_of(&b, 0, b.len);
		post_recv(&c, 1, sge, 1);
		give_rmem(s, &b);
		bad(c.rcq, 1, FLUSHED);
	}
	conn_expect_error(&c);
	sync_sides(s);
	buf_verify(&b, "after a bad local element");
	conn_free(&c);
	if (mr)
		CALL(ibv_dereg_mr(mr));
	if (pd)
		CALL(ibv_dealloc_pd(pd));
	buf_free(&b);
}

/* An invalid element of a receive: the receive fails, and the connection ends. */
static void t_receiver(struct side *s)
{
	struct ibv_pd *pd = NULL;
	struct ibv_mr *mr = NULL;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	if (s->active) {
		sync_sides(s);
		sge = sge_of(&b, 0, OPLEN);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	} else {
		sge = bad_sge(s, &b, s->arg, &mr, &pd);
		post_recv(&c, 1, &sge, 1);
		sync_sides(s);
		bad(c.rcq, 1, LOCAL_ERRORS);
	}
	conn_expect_error(&c);
	sync_sides(s);
	buf_verify(&b, "after a bad receive element");
	conn_free(&c);
	if (mr)
		CALL(ibv_dereg_mr(mr));
	if (pd)
		CALL(ibv_dealloc_pd(pd));
	buf_free(&b);
}

#define W IBV_WR_RDMA_WRITE
#define R IBV_WR_RDMA_READ
#define S IBV_WR_SEND

const struct test prot_tests[] = {
	/*= 5040-7.1-1, 5041-4.2-6, 5041-6.2.2-1, 5041-7.1-2a, 5041-7.1-2b, 5041-8.3-4 */
	{ "write-bad-stag", t_remote, T_QUICK | T_BOTH, CASE(W, P_INDEX) },
	/*= 5041-4.2-6, 5041-7.1-2a */
	{ "write-bad-key", t_remote, 0, CASE(W, P_KEY) },
	/*= 5040-8.1.1-6, 5041-7.1-2b, 5041-8.3.1-6 */
	{ "write-no-right", t_remote, T_QUICK, CASE(W, P_RIGHT) },
	/*= 5040-8.1.1-4, 5041-7.1-2c, 5041-8.3.1-4 */
	{ "write-below", t_remote, 0, CASE(W, P_BELOW) },
	/*= 5040-8.1.1-4, 5041-7.1-2c, 5041-8.3.1-4 */
	{ "write-above", t_remote, 0, CASE(W, P_ABOVE) },
	/*= 5040-8.1.1-4, 5041-7.1-2d, 5041-8.3.1-4 */
	{ "write-straddle", t_remote, T_QUICK, CASE(W, P_STRADDLE) },
	/*= 5041-7.1-2d */
	{ "write-wrap", t_remote, 0, CASE(W, P_WRAP) },
	/*= 5040-8.1.1-2, 5040-8.1.2-3, 5041-4.2-6, 5041-7.1-2a, 5041-8.2-1, 5041-8.2-3, */
	/*= 5041-8.3-3, 5041-8.3.1-2, 5041-8.3.2-4 */
	{ "write-other-pd", t_remote, 0, CASE(W, P_PD) },
	/*= 5040-8.1.1-5, 5040-8.1.1-6, 5041-4.2-6, 5041-7.1-2a, 5041-7.1-2b, 5041-8.3-1, */
	/*= 5041-8.3-2, 5041-8.3.1-5, 5041-8.3.1-6 */
	{ "write-deregistered", t_remote, 0, CASE(W, P_GONE) },
	/*= 5040-5.2.1-13, 5040-7.2-9, 5041-8.3-4 */
	{ "read-bad-stag", t_remote, T_QUICK | T_BOTH, CASE(R, P_INDEX) },
	/*= 5040-5.2.1-13, 5040-7.2-9 */
	{ "read-bad-key", t_remote, 0, CASE(R, P_KEY) },
	/*= 5040-8.1.1-6, 5041-8.3.1-6 */
	{ "read-no-right", t_remote, T_QUICK, CASE(R, P_RIGHT) },
	/*= 5040-5.2.1-13, 5040-7.2-11, 5040-8.1.1-4, 5041-8.3.1-4 */
	{ "read-below", t_remote, 0, CASE(R, P_BELOW) },
	/*= 5040-7.2-11 */
	{ "read-above", t_remote, 0, CASE(R, P_ABOVE) },
	/*= 5040-5.2.1-13, 5040-7.2-12, 5040-8.1.1-4, 5041-8.3.1-4 */
	{ "read-straddle", t_remote, T_QUICK, CASE(R, P_STRADDLE) },
	/*= 5040-5.2.1-13, 5040-7.2-12 */
	{ "read-wrap", t_remote, 0, CASE(R, P_WRAP) },
	/*= 5040-7.2-10, 5040-8.1.1-2, 5041-8.3.1-2 */
	{ "read-other-pd", t_remote, 0, CASE(R, P_PD) },
	/*= 5040-7.2-9, 5041-8.3-2 */
	{ "read-deregistered", t_remote, 0, CASE(R, P_GONE) },
	/*= 5040-5.4-7 */
	{ "told-of-write", t_remote, T_QUICK, CASE(W, P_RIGHT) | TOLD },
	/*= 5040-5.4-7 */
	{ "told-of-read", t_remote, T_QUICK, CASE(R, P_RIGHT) | TOLD },
	/*= 5040-7.1-1 */
	{ "local-send-key", t_local, T_QUICK, CASE(S, L_KEY) },
	{ "local-send-stag", t_local, 0, CASE(S, L_INDEX) },
	{ "local-send-above", t_local, 0, CASE(S, L_ABOVE) },
	{ "local-send-deregistered", t_local, 0, CASE(S, L_GONE) },
	{ "local-write-below", t_local, 0, CASE(W, L_BELOW) },
	/*= 5040-8.1.2-3, 5041-8.3.2-4 */
	{ "local-write-other-pd", t_local, T_QUICK, CASE(W, L_PD) },
	{ "local-read-key", t_local, 0, CASE(R, L_KEY) },
	{ "local-read-above", t_local, 0, CASE(R, L_ABOVE) },
	{ "local-read-no-write", t_local, T_QUICK, CASE(R, L_NO_WRITE) },
	{ "local-send-dma-key", t_local, 0, CASE(S, L_DMA) },
	{ "local-read-dma-key", t_local, 0, CASE(R, L_DMA) },
	{ "receive-key", t_receiver, 0, L_KEY },
	{ "receive-dma-key", t_receiver, 0, L_DMA },
	{ "receive-above", t_receiver, 0, L_ABOVE },
	{ "receive-other-pd", t_receiver, 0, L_PD },
	{ "receive-no-write", t_receiver, T_QUICK, L_NO_WRITE },
	{ }
};
