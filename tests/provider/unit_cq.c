// SPDX-License-Identifier: GPL-2.0
/* Completions, and the queues that have them. */

#include <errno.h>
#include <string.h>
#include <time.h>

#include "unit.h"

static void t_poll(void)
{
	static const struct { uint8_t siw; enum ibv_wc_opcode verbs; } opcodes[] = {
		{ SIW_OP_WRITE, IBV_WC_RDMA_WRITE }, { 12, IBV_WC_RDMA_WRITE },
		{ SIW_OP_READ, IBV_WC_RDMA_READ }, { SIW_OP_SEND, IBV_WC_SEND },
		{ SIW_OP_SEND_WITH_IMM, IBV_WC_SEND }, { SIW_OP_SEND_REMOTE_INV, IBV_WC_SEND },
		{ SIW_OP_FETCH_AND_ADD, IBV_WC_FETCH_ADD }, { SIW_OP_COMP_AND_SWAP, IBV_WC_COMP_SWAP },
		{ SIW_OP_RECEIVE, IBV_WC_RECV }, { 13, IBV_WC_RECV_RDMA_WITH_IMM },
		{ SIW_OP_INVAL_STAG, IBV_WC_LOCAL_INV }, { 14, IBV_WC_BIND_MW },
	};
	struct ibv_wc wc[CQ + 1];
	size_t i;

	open_all(true);
	for (i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		fake_complete(&fake_cq, (struct siw_cqe) {
			.id = i, .opcode = opcodes[i].siw, .bytes = 9, .qp_id = 7ULL << 32 | 3,
			.imm_data = 5ULL << 32 | 0x11223344, .flags = i % 2 ? RSIW_CQE_IMMEDIATE : RSIW_CQE_INVALIDATED,
		});
		memset(wc, 0xff, sizeof(wc));
		CHECK(fake_ops.poll_cq(cq, 2, wc) == 1);
		CHECK(wc->wr_id == i && wc->opcode == opcodes[i].verbs && !wc->status && !wc->vendor_err);
		CHECK(wc->byte_len == 9 && wc->qp_num == 3 && wc->imm_data == 0x11223344);
		CHECK(wc->wc_flags == (i % 2 ? IBV_WC_WITH_IMM : IBV_WC_WITH_INV));
	}
	for (i = 0; i < CQ; i++)
		fake_complete(&fake_cq, (struct siw_cqe) { .status = i == 1 ? SIW_WC_REM_INV_REQ_ERR : i == 2 ? 99 : i == 3 ? 10 : i == 4 ? 11 : i == 5 ? 12 : i == 6 ? 13 : 0 });
	CHECK(fake_ops.poll_cq(cq, 3, wc) == 3 && fake_ops.poll_cq(cq, CQ, wc + 3) == CQ - 3);
	CHECK(wc[1].status == IBV_WC_REM_INV_REQ_ERR && wc[2].status == IBV_WC_GENERAL_ERR && !wc[3].wc_flags);
	CHECK(wc[3].status == IBV_WC_MW_BIND_ERR && wc[4].status == IBV_WC_RNR_RETRY_EXC_ERR &&
	      wc[5].status == IBV_WC_RETRY_EXC_ERR && wc[6].status == IBV_WC_REM_OP_ERR);
	CHECK(fake_ops.poll_cq(cq, CQ, wc) == 0);
}

static void t_extended_poll(void)
{
	struct ibv_poll_cq_attr none = {};
	struct ibv_cq_ex *ex;
	int i;

	open_all(true);
	CHECK(!extended_cq(IBV_WC_EX_WITH_CVLAN, 0) && errno == EOPNOTSUPP);
	CHECK(!extended_cq(0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) && errno == EOPNOTSUPP);
	ex = extended_cq(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0);
	CHECK(ex && fake_cq_flags == RSIW_CQ_TIMESTAMPS);
	for (i = 0; i < 2; i++) {
		CHECK(ibv_start_poll(ex, &none) == ENOENT);
		fake_complete(&fake_cq, (struct siw_cqe) {
			.id = 1, .opcode = 13, .bytes = 4, .imm_data = 0x12ULL << 32 | 0xabc,
			.qp_id = 0x34ULL << 32 | 3, .flags = RSIW_CQE_IMMEDIATE,
		});
		fake_complete(&fake_cq, (struct siw_cqe) { .id = 2, .status = SIW_WC_WR_FLUSH_ERR });
		CHECK(!ibv_start_poll(ex, &none) && ex->wr_id == 1 && !ex->status);
		CHECK(ibv_wc_read_opcode(ex) == IBV_WC_RECV_RDMA_WITH_IMM && ibv_wc_read_byte_len(ex) == 4);
		CHECK(ibv_wc_read_imm_data(ex) == 0xabc && ibv_wc_read_qp_num(ex) == 3);
		CHECK(ibv_wc_read_wc_flags(ex) == IBV_WC_WITH_IMM && !ibv_wc_read_src_qp(ex));
		CHECK(ibv_wc_read_completion_ts(ex) == 0x1200000034);
		/* The element is the provider's while it is read. */
		CHECK(((struct siw_cqe *)fake_cq.mem)[(2 * i) % CQ].flags);
		CHECK(!ibv_next_poll(ex) && ex->wr_id == 2 && ex->status == IBV_WC_WR_FLUSH_ERR);
		CHECK(!((struct siw_cqe *)fake_cq.mem)[(2 * i) % CQ].flags);
		/* One round ends behind a completion, the other finds no more. */
		if (i)
			CHECK(ibv_next_poll(ex) == ENOENT);
		/* An event is armed meanwhile. */
		CHECK(!fake_ops.req_notify_cq(ibv_cq_ex_to_cq(ex), 0));
		ibv_end_poll(ex);
		CHECK(!((struct siw_cqe *)fake_cq.mem)[(2 * i + 1) % CQ].flags);
	}
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void t_wallclock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_poll_cq_attr none = {};
	uint64_t before, stamp, wall;
	struct ibv_cq_ex *ex;

	open_all(true);
	ex = extended_cq(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 0);
	CHECK(ex);
	before = clock_ns(CLOCK_REALTIME);
	stamp = clock_ns(CLOCK_MONOTONIC);
	fake_complete(&fake_cq, (struct siw_cqe) {
		.imm_data = stamp >> 32 << 32, .qp_id = stamp << 32,
	});
	CHECK(!ibv_start_poll(ex, &none));
	wall = ibv_wc_read_completion_wallclock_ns(ex);
	/* The two clocks are read one after the other. */
	CHECK(wall + 1000000000 > before && wall < clock_ns(CLOCK_REALTIME) + 1000000000);
	ibv_end_poll(ex);
	CHECK(!fake_ops.query_rt_values(context, &values));
	CHECK((uint64_t)values.raw_clock.tv_nsec >= stamp && !values.raw_clock.tv_sec);
}

static void t_resize(void)
{
	struct fake_ring rings[3];
	struct ibv_wc wc[16];
	int i, n;

	open_all(true);
	CHECK(!fake_ops.req_notify_cq(cq, 1));
	rings[0] = fake_cq;
	for (i = 0; i < 5; i++)
		fake_complete(&fake_cq, (struct siw_cqe) { .id = i });
	CHECK(fake_ops.poll_cq(cq, 2, wc) == 2);
	CHECK(!fake_ops.resize_cq(cq, 4 * CQ) && cq->cqe == 4 * CQ);
	rings[1] = fake_cq;
	for (; i < 20; i++)
		fake_complete(&fake_cq, (struct siw_cqe) { .id = i });
	/* A second one before the first ring is empty, and smaller. */
	CHECK(!fake_ops.resize_cq(cq, 2));
	rings[2] = fake_cq;
	fake_complete(&fake_cq, (struct siw_cqe) { .id = i++ });
	CHECK(fake_ctrl(&fake_cq)->flags == SIW_NOTIFY_SOLICITED);
	CHECK(!fake_ops.req_notify_cq(cq, 0));
	CHECK(fake_ctrl(&rings[2])->flags == (SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION));
	CHECK(fake_ctrl(&rings[1])->flags == SIW_NOTIFY_SOLICITED);
	n = fake_ops.poll_cq(cq, 16, wc);
	CHECK(n == 16);
	for (i = 0; i < 16; i++)
		CHECK(wc[i].wr_id == 2U + i);
	CHECK(fake_ops.poll_cq(cq, 16, wc) == 3 && wc[0].wr_id == 18 && wc[2].wr_id == 20);
	fake_complete(&fake_cq, (struct siw_cqe) { .id = 21 });
	CHECK(fake_ops.poll_cq(cq, 16, wc) == 1 && wc[0].wr_id == 21);
	CHECK(!fake_ops.destroy_cq(cq));
	(void)rings;
}

static void t_arm(void)
{
	struct siw_cq_ctrl *ctrl;

	open_all(true);
	ctrl = fake_ctrl(&fake_cq);
	CHECK(!ctrl->flags);
	CHECK(!fake_ops.req_notify_cq(cq, 1) && ctrl->flags == SIW_NOTIFY_SOLICITED);
	CHECK(!fake_ops.req_notify_cq(cq, 0));
	CHECK(ctrl->flags == (SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION));
	/* What any completion causes is more. */
	CHECK(!fake_ops.req_notify_cq(cq, 1));
	CHECK(ctrl->flags == (SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION));
}

const struct test cq_tests[] = {
	{ "completions tell operation, status and immediate", t_poll },
	{ "an extended queue is polled element by element", t_extended_poll },
	{ "time stamps are values of the system's clocks", t_wallclock },
	{ "completions keep their order over two resizes", t_resize },
	{ "an event for any completion stays armed", t_arm },
	{}
};
