// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues (SRQs). The passive side has them, the active side sends. */
#include <errno.h>
#include <string.h>

#include "vt.h"

static struct ibv_srq *new_srq(struct ibv_pd *pd, uint32_t wr, uint32_t limit)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = 6, .srq_limit = limit },
	};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	CHECK(srq, "ibv_create_srq: errno %d", errno);
	return srq;
}

/* Two connections share an SRQ, which wraps many times. */
static void t_shared(struct side *s)
{
	enum { QUEUE = 16, COUNT = 200, LEN = 2000 };
	struct conn_opts o = {};
	struct ibv_srq *srq = NULL;
	struct ibv_sge sge;
	struct conn c[2];
	struct buf b;
	int i, k;

	if (!s->active)
		o.srq = srq = new_srq(s->pd, QUEUE, 0);
	conn_open(s, &c[0], &o);
	conn_open(s, &c[1], &o);
	buf_new(s, &b, COUNT * LEN, ACC_LOCAL);
	if (!s->active) {
		for (i = 0; i < QUEUE; i++) {
			sge = sge_of(&b, i * LEN, LEN);
			post_srq(srq, i, &sge, 1);
		}
	}
	sync_sides(s);
	for (i = 0; i < COUNT; i++) {
		/* The connections alternate every three messages. */
		k = i / 3 % 2;
		if (s->active) {
			buf_fill(&b, i * LEN, LEN - i, i);
			sge = sge_of(&b, i * LEN, LEN - i);
			post(&c[k], IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
			good(c[k].scq, i, IBV_WC_SEND, -1);
		} else {
			struct ibv_wc wc = poll_one(c[k].rcq);

			CHECK(wc.wr_id == (uint64_t)i && wc.status == IBV_WC_SUCCESS &&
			      wc.byte_len == (uint32_t)LEN - i &&
			      wc.qp_num == c[k].qp->qp_num,
			      "message %d: id %lu, %s, %u bytes, QP %u", i, wc.wr_id,
			      ibv_wc_status_str(wc.status), wc.byte_len, wc.qp_num);
			buf_expect(&b, i * LEN, LEN - i, i);
			if (i + QUEUE < COUNT) {
				sge = sge_of(&b, (i + QUEUE) * LEN, LEN);
				post_srq(srq, i + QUEUE, &sge, 1);
			}
		}
		/* Messages of different connections have no order, so wait here. */
		if (i % 3 == 2)
			sync_sides(s);
	}
	buf_verify(&b, "after messages to a shared queue");
	conn_close(&c[0]);
	conn_close(&c[1]);
	if (srq)
		CALL(ibv_destroy_srq(srq));
	buf_free(&b);
}

/* The limit event comes once when fewer receives than the limit are left; arming repeats it. */
static void t_limit(struct side *s)
{
	enum { QUEUE = 16, LIMIT = 4 };
	struct ibv_srq_attr attr = { .srq_limit = LIMIT };
	struct conn_opts o = {};
	struct ibv_srq *srq = NULL;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i, round, event;

	if (!s->active)
		o.srq = srq = new_srq(s->pd, QUEUE, 0);
	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 8);
	for (round = 0; round < 2; round++) {
		if (s->active) {
			sync_sides(s);
			for (i = 0; i < QUEUE - LIMIT; i++)
				mark_send(&c, i + 1);
			sync_sides(s);
			for (i = 0; i < LIMIT; i++)
				mark_send(&c, i + 1);
			sync_sides(s);
			continue;
		}
		for (i = 0; i < QUEUE; i++)
			post_srq(srq, i, &sge, 1);
		CALL(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
		CHECK(async_event(s, QUIET_MS) == -1, "an event with a full queue");
		sync_sides(s);
		for (i = 0; i < QUEUE - LIMIT; i++)
			good(c.rcq, i, IBV_WC_RECV, 8);
		/* As many receives as the limit are left. */
		event = async_event(s, QUIET_MS);
		CHECK(event == -1, "event %s with %d left, the limit being %d",
		      event < 0 ? "none" : ibv_event_type_str(event), LIMIT, LIMIT);
		sync_sides(s);
		for (; i < QUEUE; i++)
			good(c.rcq, i, IBV_WC_RECV, 8);
		event = async_event(s, wait_ms);
		CHECK(event == IBV_EVENT_SRQ_LIMIT_REACHED, "event %s below the limit",
		      event < 0 ? "none" : ibv_event_type_str(event));
		CHECK(async_event(s, QUIET_MS) == -1, "a second event without arming");
		sync_sides(s);
	}
	conn_close(&c);
	if (srq)
		CALL(ibv_destroy_srq(srq));
	buf_free(&b);
}

/* A Send that finds the SRQ empty ends its connection. */
static void t_empty(struct side *s)
{
	struct conn_opts o = {};
	struct ibv_srq *srq = NULL;
	struct conn c[2];
	struct ibv_sge sge;
	struct buf b;

	if (!s->active)
		o.srq = srq = new_srq(s->pd, 4, 0);
	conn_open(s, &c[0], &o);
	conn_open(s, &c[1], &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 8);
	if (s->active)
		post(&c[0], IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	conn_expect_error(&c[0]);
	/* The other connection is not affected. */
	CHECK(qp_state(c[1].qp) == IBV_QPS_RTS, "the wrong connection went down");
	if (!s->active)
		post_srq(srq, 2, &sge, 1);
	sync_sides(s);
	if (s->active)
		mark_send(&c[1], 2);
	else
		good(c[1].rcq, 2, IBV_WC_RECV, 8);
	conn_free(&c[0]);
	conn_close(&c[1]);
	if (srq)
		CALL(ibv_destroy_srq(srq));
	buf_free(&b);
}

/* A QP with an SRQ raises the event LAST_WQE_REACHED when it ends. */
static void t_last_wqe(struct side *s)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	bool modify = s->arg;
	struct ibv_srq *srq = NULL;
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int event;

	if (!s->active)
		o.srq = srq = new_srq(s->pd, 4, 0);
	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	if (!s->active) {
		sge = sge_of(&b, 0, 8);
		post_srq(srq, 1, &sge, 1);
		if (modify)
			CALL(ibv_modify_qp(c.qp, &err, IBV_QP_STATE));
		do {
			event = async_event(s, wait_ms);
		} while (event == IBV_EVENT_SQ_DRAINED);
		CHECK(event == IBV_EVENT_QP_LAST_WQE_REACHED, "event %s",
		      event < 0 ? "none" : ibv_event_type_str(event));
		/* Unused receives stay in the SRQ. */
		CHECK(poll_quiet(c.rcq, QUIET_MS), "the shared queue was flushed");
	} else if (!modify) {
		CALL(rdma_disconnect(c.id));
	}
	conn_expect_down(&c);
	sync_sides(s);
	conn_free(&c);
	if (srq)
		CALL(ibv_destroy_srq(srq));
	buf_free(&b);
}

/* The elements of an SRQ's receives belong to the SRQ's PD, not the QP's. */
static void t_other_pd(struct side *s)
{
	struct conn_opts o = {};
	struct ibv_srq *srq = NULL;
	struct ibv_pd *pd = NULL;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	buf_map(&b, 4 * PAGE);
	if (!s->active) {
		pd = ibv_alloc_pd(s->ctx);
		CHECK(pd, "ibv_alloc_pd: errno %d", errno);
		o.srq = srq = new_srq(pd, 4, 0);
	}
	b.mr = ibv_reg_mr(pd ? pd : s->pd, b.p, b.len, ACC_LOCAL);
	CHECK(b.mr, "ibv_reg_mr: errno %d", errno);
	conn_open(s, &c, &o);
	sge = sge_of(&b, 0, 9000);
	if (s->active) {
		buf_fill(&b, 0, 9000, 3);
		sync_sides(s);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 1, IBV_WC_SEND, -1);
	} else {
		buf_expect(&b, 0, 9000, 3);
		post_srq(srq, 1, &sge, 1);
		sync_sides(s);
		good(c.rcq, 1, IBV_WC_RECV, 9000);
	}
	buf_verify(&b, "shared queue of another domain");
	conn_close(&c);
	buf_free(&b);
	if (srq)
		CALL(ibv_destroy_srq(srq));
	if (pd)
		CALL(ibv_dealloc_pd(pd));
}

/* SRQs beyond the device's limits, and a limit beyond the SRQ's size, are refused. */
static void t_limits(struct side *s)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 0, .max_sge = 1 } };
	struct ibv_srq_attr change = { .srq_limit = 5 };
	struct ibv_device_attr dev;
	struct ibv_srq *srq;

	CALL(ibv_query_device(s->ctx, &dev));
	CHECK(!ibv_create_srq(s->pd, &attr), "a queue of no elements");
	attr.attr.max_wr = dev.max_srq_wr + 1;
	CHECK(!ibv_create_srq(s->pd, &attr), "more elements than the device has");
	attr.attr.max_wr = 4;
	attr.attr.max_sge = dev.max_srq_sge + 1;
	CHECK(!ibv_create_srq(s->pd, &attr), "more pieces than the device has");
	srq = new_srq(s->pd, 4, 0);
	CHECK(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), "a limit above the queue's size");
	CALL(ibv_destroy_srq(srq));
	srq = new_srq(s->pd, 1, 0);
	CALL(ibv_destroy_srq(srq));
}

const struct test srq_tests[] = {
	{ "srq-shared", t_shared, T_QUICK | T_BOTH },
	/*= 5040-8.1.2-7, 5041-8.3.2-6 */
	{ "srq-limit", t_limit, T_QUICK },
	{ "srq-empty", t_empty, 0 },
	{ "srq-last-wqe", t_last_wqe, T_QUICK, false },
	{ "srq-last-wqe-error", t_last_wqe, 0, true },
	{ "srq-other-pd", t_other_pd, 0 },
	{ "srq-limits", t_limits, 0 },
	{ }
};
