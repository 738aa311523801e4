// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: states, limits, flushing. */
#include <sys/resource.h>
#include <errno.h>
#include <string.h>

#include "vt.h"

static int to_error(struct conn *c)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
}

/*
 * Expects "count" completions of each queue, in order. Send requests succeed
 * up to one, and are flushed from there on. Receives are flushed.
 */
static void expect_flushed(struct conn *c, int count)
{
	bool flushed = false;
	struct ibv_wc wc;
	int i;

	for (i = 0; i < count; i++) {
		wc = poll_one(c->scq);
		CHECK(wc.wr_id == (uint64_t)i, "completion of %lu, not of %d", wc.wr_id, i);
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR ||
		      (wc.status == IBV_WC_SUCCESS && !flushed),
		      "%d: %s%s", i, ibv_wc_status_str(wc.status),
		      flushed ? " after flushing" : "");
		flushed |= wc.status == IBV_WC_WR_FLUSH_ERR;
	}
	CHECK(flushed, "all was done before the QP was moved to ERROR");
	for (i = 0; i < count; i++)
		bad(c->rcq, 1000 + i, FLUSHED);
	CHECK(poll_quiet(c->scq, QUIET_MS), "one completion too many");
	CHECK(poll_quiet(c->rcq, QUIET_MS), "one completion too many");
}

/*
 * Every request completes exactly once and in order: the first successfully,
 * the rest flushed. The last requests are long Reads, some of which are under
 * way when the QP is moved to ERROR.
 */
static void t_flush(struct side *s)
{
	enum { COUNT = 20, LEN = 8 << 20 };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active) {
		for (i = 0; i < COUNT; i++)
			post_recv(&c, 1000 + i, &sge, 1);
		r = take_rmem(s);
		/* With a single CPU the driver's workers would otherwise finish first. */
		setpriority(PRIO_PROCESS, 0, -20);
		for (i = 0; i < COUNT; i++)
			post(&c, i % 2 && i < COUNT - 6 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			     i, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		CALL(to_error(&c));
		setpriority(PRIO_PROCESS, 0, 0);
		CHECK(qp_state(c.qp) == IBV_QPS_ERR, "state %d after moving to ERROR",
		      qp_state(c.qp));
		expect_flushed(&c, COUNT);
	} else {
		post_recv(&c, 1, &sge, 1);
		give_rmem(s, &b);
		bad(c.rcq, 1, FLUSHED);
	}
	conn_expect_error(&c);
	conn_free(&c);
	buf_free(&b);
}

/* Requests posted to a QP in ERROR are flushed, in order. */
static void t_post_in_error(struct side *s)
{
	enum { COUNT = 20 };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	sge = sge_of(&b, 0, 100);
	if (s->active) {
		CALL(to_error(&c));
		conn_expect_error(&c);
		for (i = 0; i < COUNT; i++)
			CALL(try_post(&c, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, i,
				      i % 3 ? IBV_SEND_SIGNALED : 0, &sge, 1,
				      (uintptr_t)b.p, b.mr->rkey));
		for (i = 0; i < COUNT; i++)
			bad(c.scq, i, FLUSHED);
		/* Posting a receive does not call the kernel; still it must be flushed. */
		for (i = 0; i < COUNT; i++)
			post_recv(&c, i, &sge, 1);
		for (i = 0; i < COUNT; i++)
			bad(c.rcq, i, FLUSHED);
	} else {
		conn_expect_error(&c);
	}
	conn_free(&c);
	buf_free(&b);
}

/* Flushes hundreds of requests of each queue while Reads are under way. */
static void t_flush_many(struct side *s)
{
	enum { COUNT = 300, LEN = 8 << 20 };
	struct conn_opts o = { .sq = 512, .rq = 512, .scq_size = 512, .rcq_size = 512 };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active) {
		for (i = 0; i < COUNT; i++)
			post_recv(&c, 1000 + i, &sge, 1);
		r = take_rmem(s);
		for (i = 0; i < COUNT; i++)
			post(&c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		CALL(to_error(&c));
		expect_flushed(&c, COUNT);
	} else {
		give_rmem(s, &b);
	}
	conn_expect_error(&c);
	conn_free(&c);
	buf_free(&b);
}

/* A QP that was never connected moves to ERROR: its receives are flushed. */
static void t_flush_unconnected(struct side *s)
{
	struct conn c = { .ech = s->ech };
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct buf b;
	int i;

	c.id = s->bound;
	buf_new(s, &b, PAGE, ACC_LOCAL);
	conn_setup(s, &c, &o);
	CHECK(qp_state(c.qp) == IBV_QPS_INIT, "a new QP in state %d", qp_state(c.qp));
	sge = sge_of(&b, 0, 100);
	for (i = 0; i < 10; i++)
		post_recv(&c, i, &sge, 1);
	CALL(to_error(&c));
	for (i = 0; i < 10; i++)
		bad(c.rcq, i, FLUSHED);
	CHECK(qp_state(c.qp) == IBV_QPS_ERR, "state %d after moving to ERROR", qp_state(c.qp));
	rdma_destroy_qp(c.id);
	CALL(ibv_destroy_cq(c.scq));
	CALL(ibv_destroy_cq(c.rcq));
	buf_free(&b);
}

/* ibv_query_qp reports the states and attributes. */
static void t_states(struct side *s)
{
	struct conn_opts o = { .sq = 20, .rq = 30, .max_inline = 64 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct conn c;

	conn_open(s, &c, &o);
	memset(&attr, 0xff, sizeof(attr));
	memset(&init, 0xff, sizeof(init));
	CALL(ibv_query_qp(c.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init));
	CHECK(attr.qp_state == IBV_QPS_RTS, "connected, but in state %d", attr.qp_state);
	CHECK(attr.cap.max_send_wr >= 20 && attr.cap.max_recv_wr >= 30 &&
	      attr.cap.max_send_sge >= 6 && attr.cap.max_recv_sge >= 6 &&
	      attr.cap.max_inline_data >= 64,
	      "asked for 20 30 6 6 64, got %u %u %u %u %u", attr.cap.max_send_wr,
	      attr.cap.max_recv_wr, attr.cap.max_send_sge, attr.cap.max_recv_sge,
	      attr.cap.max_inline_data);
	CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == c.scq && init.recv_cq == c.rcq &&
	      !init.srq && init.qp_context == c.qp->qp_context,
	      "the initial attributes are not the ones given");
	CHECK(c.qp->qp_num, "a QP without a number");
	sync_sides(s);
	if (s->active)
		CALL(rdma_disconnect(c.id));
	conn_expect_closed(&c);
	CALL(to_error(&c));
	CHECK(qp_state(c.qp) == IBV_QPS_ERR, "state %d after moving to ERROR", qp_state(c.qp));
	conn_free(&c);
}

/* Both sides move their QP to ERROR at the same time; each still gets a disconnect event. */
static void t_error_both(struct side *s)
{
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 100);
	post_recv(&c, 1, &sge, 1);
	sync_sides(s);
	/* Neither side waits for the other. */
	CALL(to_error(&c));
	bad(c.rcq, 1, FLUSHED);
	conn_expect_error(&c);
	conn_free(&c);
	buf_free(&b);
}

static int set_access(struct conn *c, unsigned int access)
{
	struct ibv_qp_attr attr = { .qp_access_flags = access };

	return ibv_modify_qp(c->qp, &attr, IBV_QP_ACCESS_FLAGS);
}

/* The peer needs the QP's access rights besides the region's. */
static void t_access(struct side *s)
{
	static const struct {
		unsigned int access;
		enum ibv_wr_opcode op;
		bool ok;
	} tries[] = {
		{ IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ, true },
		{ IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE, true },
		{ IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, false },
		{ IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ, false },
		{ 0, IBV_WR_RDMA_WRITE, false },
		{ 0, IBV_WR_RDMA_READ, false },
	};
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;
	size_t i;
	int k;

	buf_new(s, &b, PAGE, ACC_ALL);
	sge = sge_of(&b, 0, 100);
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		conn_open(s, &c, NULL);
		if (s->active) {
			/* First with all rights, so that one is taken away that has been in use. */
			for (k = 0; k < 2; k++) {
				r = take_rmem(s);
				post(&c, tries[i].op, k, IBV_SEND_SIGNALED, &sge, 1,
				     r.addr, r.rkey);
				if (k == 0 || tries[i].ok || tries[i].op == IBV_WR_RDMA_WRITE)
					poll_one(c.scq);
				else
					bad(c.scq, k, BIT(IBV_WC_REM_ACCESS_ERR) | FLUSHED);
				if (k == 0 && tries[i].op == IBV_WR_RDMA_WRITE) {
					/* The Write has arrived when a Read after it completes. */
					post(&c, IBV_WR_RDMA_READ, 9, IBV_SEND_SIGNALED, &sge, 1,
					     r.addr, r.rkey);
					good(c.scq, 9, IBV_WC_RDMA_READ, 100);
				}
				if (k == 0)
					sync_sides(s);
			}
		} else {
			give_rmem(s, &b);
			sync_sides(s);
			CALL(set_access(&c, tries[i].access));
			give_rmem(s, &b);
		}
		if (tries[i].ok) {
			conn_close(&c);
		} else {
			conn_expect_error(&c);
			conn_free(&c);
		}
	}
	buf_free(&b);
}

/* Access rights that the device does not support are refused. */
static void t_access_refused(struct side *s)
{
	struct conn c;

	conn_open(s, &c, NULL);
	CHECK(set_access(&c, ACC_ALL | IBV_ACCESS_MW_BIND) == EOPNOTSUPP, "windows may be bound");
	conn_close(&c);
}

/* If one side has no IRD and ORD, both values are 0, whatever the other side asks for. */
static void t_no_reads(struct side *s)
{
	struct conn_opts o = { .ird = -1, .ord = 4 };
	struct conn c;

	conn_open(s, &c, &o);
	CHECK(c.ird == 0 && c.ord == 0, "%d Reads answered, %d sent", c.ird, c.ord);
	conn_close(&c);
}

/* IRD and ORD that are set on the QP bound those that the sides agree on. */
static void t_qp_depths(struct side *s)
{
	struct conn_opts o = { .ird = 16, .ord = 16 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct conn c;

	if (s->active) {
		o.qp_ird = 3;
		o.qp_ord = 5;
	}
	conn_open(s, &c, &o);
	CALL(ibv_query_qp(c.qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init));
	if (s->active)
		CHECK(attr.max_dest_rd_atomic <= 3 && attr.max_rd_atomic <= 5,
		      "%d Reads answered, %d sent", attr.max_dest_rd_atomic, attr.max_rd_atomic);
	else
		CHECK(attr.max_rd_atomic <= 3, "%d Reads sent", attr.max_rd_atomic);
	/* The agreed values cannot be changed. */
	attr.max_rd_atomic++;
	CHECK(ibv_modify_qp(c.qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC) == EINVAL, "modified to %d",
	      attr.max_rd_atomic);
	attr.max_rd_atomic--;
	CALL(ibv_modify_qp(c.qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC));
	conn_close(&c);
}

static void t_limits(struct side *s)
{
	struct ibv_device_attr dev;
	struct ibv_cq *cq;
	struct {
		const char *what;
		struct ibv_qp_cap cap;
		enum ibv_qp_type type;
	} tries[] = {
		{ "a send queue too long", { 0, 1, 1, 1, 0 }, IBV_QPT_RC },
		{ "a receive queue too long", { 1, 0, 1, 1, 0 }, IBV_QPT_RC },
		{ "too many send elements", { 1, 1, 0, 1, 0 }, IBV_QPT_RC },
		{ "too many receive elements", { 1, 1, 1, 0, 0 }, IBV_QPT_RC },
		{ "too much inline data", { 1, 1, 1, 1, 100000 }, IBV_QPT_RC },
		{ "a datagram QP", { 1, 1, 1, 1, 0 }, IBV_QPT_UD },
		{ "an unreliable QP", { 1, 1, 1, 1, 0 }, IBV_QPT_UC },
	};
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp;
	size_t i;

	CALL(ibv_query_device(s->ctx, &dev));
	tries[0].cap.max_send_wr = dev.max_qp_wr + 1;
	tries[1].cap.max_recv_wr = dev.max_qp_wr + 1;
	tries[2].cap.max_send_sge = dev.max_sge + 1;
	tries[3].cap.max_recv_sge = dev.max_sge + 1;
	cq = ibv_create_cq(s->ctx, 16, NULL, NULL, 0);
	CHECK(cq, "ibv_create_cq: errno %d", errno);
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		attr = (struct ibv_qp_init_attr) {
			.send_cq = cq, .recv_cq = cq, .cap = tries[i].cap,
			.qp_type = tries[i].type,
		};
		CHECK(!ibv_create_qp(s->pd, &attr), "%s was created", tries[i].what);
	}
	/* The largest possible QP. */
	attr = (struct ibv_qp_init_attr) {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { dev.max_qp_wr, dev.max_qp_wr, dev.max_sge, dev.max_sge, 0 },
	};
	qp = ibv_create_qp(s->pd, &attr);
	CHECK(qp, "the largest QP: errno %d", errno);
	CHECK(ibv_destroy_cq(cq), "a queue was destroyed under its QP");
	CALL(ibv_destroy_qp(qp));
	CALL(ibv_destroy_cq(cq));
}

/* A QP can be destroyed right after connection setup, also with a request under way. */
static void t_destroy_early(struct side *s)
{
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	buf_new(s, &b, 1 << 20, ACC_ALL);
	for (i = 0; i < 3; i++) {
		conn_open(s, &c, &o);
		sge = sge_of(&b, 0, b.len);
		if (s->active) {
			struct rmem r = take_rmem(s);

			/* Post requests, and destroy the QP at once. */
			if (i)
				post(&c, i == 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 1,
				     IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
			conn_free(&c);
		} else {
			give_rmem(s, &b);
			conn_expect_down(&c);
			conn_free(&c);
		}
		sync_sides(s);
	}
	buf_free(&b);
}

const struct test qp_tests[] = {
	/*= 5040-5.5-6 */
	{ "qp-flush", t_flush, T_QUICK | T_BOTH },
	{ "qp-flush-many", t_flush_many, T_QUICK },
	/*= 5041-6.2.1-1 */
	{ "qp-post-in-error", t_post_in_error, T_QUICK },
	{ "qp-flush-unconnected", t_flush_unconnected, 0 },
	{ "qp-states", t_states, T_QUICK },
	{ "qp-error-both", t_error_both, T_QUICK },
	{ "qp-access", t_access, T_QUICK },
	{ "qp-access-refused", t_access_refused, T_QUICK },
	{ "qp-no-reads", t_no_reads, T_QUICK },
	{ "qp-depths", t_qp_depths, T_QUICK | T_BOTH },
	/*= 5040-8.1.2-2, 5041-8.3.2-3 */
	{ "qp-limits", t_limits, 0 },
	{ "qp-destroy-early", t_destroy_early, T_QUICK | T_BOTH },
	{ }
};
