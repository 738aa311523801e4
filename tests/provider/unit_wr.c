// SPDX-License-Identifier: GPL-2.0
/* Requests by ibv_wr_start() and what follows it. */

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "unit.h"

static void t_wr(void)
{
	struct ibv_qp_ex *ex = open_ex();
	struct ibv_sge list[6] = { sge(0, 8), sge(1, 9), sge(2, 10), sge(3, 11), sge(4, 12), sge(5, 13) };
	struct ibv_mr mr = { .lkey = 6 };
	struct ibv_mw mw = { .rkey = 0x40005 };
	struct ibv_mw_bind_info info = {
		.mr = &mr, .addr = 0x8000, .length = 9, .mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	const struct siw_sqe *s;

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 6, list);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_SOLICITED;
	ibv_wr_rdma_write_imm(ex, 70, 0x5000, 6);
	ibv_wr_set_inline_data(ex, buffer, 80);
	ex->wr_id = 3;
	ex->wr_flags = 0;
	ibv_wr_atomic_cmp_swp(ex, 71, 0x6000, 8, 9);
	ibv_wr_set_sge(ex, 5, 0x7000, 8);
	ibv_wr_send_inv(ex, 72);
	ibv_wr_bind_mw(ex, &mw, 0x81, &info);
	ibv_wr_local_inv(ex, 73);
	CHECK(!fake_take_sqe() && !fake_doorbells);
	CHECK(!ibv_wr_complete(ex) && fake_doorbells == 1);
	s = fake_take_sqe();
	CHECK(s && s->id == 1 && s->opcode == SIW_OP_SEND && !memcmp(s->sge, list, sizeof(list)));
	CHECK(s->num_sge == 6 && s->flags == (SIW_WQE_VALID | SIW_WQE_SIGNALLED));
	s = fake_take_sqe();
	CHECK(s && s->id == 2 && s->opcode == 12 && s->rkey == 70 && s->raddr == 0x5000);
	CHECK(s->sge[0].length == 80 && !memcmp(&s->sge[1], buffer, 80) && s->sge[0].lkey == 6);
	CHECK(s->flags == (SIW_WQE_VALID | SIW_WQE_SOLICITED | SIW_WQE_INLINE));
	s = fake_take_sqe();
	CHECK(s && s->id == 3 && s->opcode == SIW_OP_COMP_AND_SWAP && s->num_sge == 3);
	CHECK(s->rkey == 71 && s->raddr == 0x6000 && s->sge[1].laddr == 8 && s->sge[2].laddr == 9);
	CHECK(s->sge[0].laddr == 0x7000 && s->sge[0].length == 8 && s->sge[0].lkey == 5);
	s = fake_take_sqe();
	CHECK(s && s->opcode == SIW_OP_SEND_REMOTE_INV && s->rkey == 72 && !s->num_sge);
	s = fake_take_sqe();
	CHECK(s && s->opcode == 14 && s->rkey == 0x40081 && s->raddr == 0x8000 && s->num_sge == 1);
	CHECK(s->sge[0].laddr == 9 && s->sge[0].lkey == 6);
	CHECK(s->sge[0].length == IBV_ACCESS_REMOTE_READ);
	s = fake_take_sqe();
	CHECK(s && s->opcode == SIW_OP_INVAL_STAG && s->rkey == 73 && !s->num_sge);
	CHECK(!fake_take_sqe());
}

/* They have no list: what they have is in the place of one. */
static void t_placement(void)
{
	struct ibv_qp_ex *ex = open_ex();
	const uint64_t value = 0x0123456789abcdef;
	const struct siw_sqe *s;

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(ex, 70, 0x5000, 0x1234567890, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_FENCE;
	ibv_wr_atomic_write(ex, 71, 0x6000, &value);
	CHECK(!ibv_wr_complete(ex));
	s = fake_take_sqe();
	CHECK(s && s->id == 1 && s->opcode == 15 && s->rkey == 70 && s->raddr == 0x5000);
	CHECK(s->num_sge == 1 && s->flags == (SIW_WQE_VALID | SIW_WQE_SIGNALLED));
	CHECK(s->sge[0].laddr == 0x1234567890 && s->sge[0].length == 1 && s->sge[0].lkey == 1);
	s = fake_take_sqe();
	CHECK(s && s->id == 2 && s->opcode == 16 && s->rkey == 71 && s->raddr == 0x6000);
	CHECK(s->num_sge == 1 && s->flags == (SIW_WQE_VALID | SIW_WQE_READ_FENCE));
	CHECK(s->sge[0].laddr == value && s->sge[0].length == 8 && !s->sge[0].lkey);
}

/* One of type UC has no operation that the peer answers. */
static void t_unreliable(void)
{
	const uint64_t answered[] = {
		IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_FLUSH,
		IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_send_wr *bad;
	unsigned int i;

	open_device(true);
	for (i = 0; i < sizeof(answered) / sizeof(*answered); i++) {
		attr = qp_attr(answered[i]);
		attr.qp_type = IBV_QPT_UC;
		CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EOPNOTSUPP);
	}
	attr = qp_attr(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	attr.qp_type = IBV_QPT_UC;
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp);
	for (i = IBV_WR_RDMA_READ; i <= IBV_WR_ATOMIC_FETCH_AND_ADD; i++) {
		struct ibv_sge only = sge(0, 8);
		struct ibv_send_wr wr = { .opcode = i, .sg_list = &only, .num_sge = 1 };

		CHECK(fake_ops.post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
	}
	CHECK(!fake_take_sqe());
	CHECK(posted((struct ibv_send_wr) { .opcode = IBV_WR_SEND }));
}

/* A batch that fails, or that the caller gives up, posts nothing; the next one does. */
static void t_wr_fails(void)
{
	struct ibv_qp_ex *ex = open_ex();
	struct ibv_sge list[6] = {};
	struct ibv_mw_bind_info info = {};
	struct ibv_mw mw = {};
	int i;

	ibv_wr_start(ex);
	for (i = 0; i < SQ + 3; i++) {
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 1, 2, 3);
	}
	CHECK(ibv_wr_complete(ex) == ENOMEM && !fake_take_sqe());
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	CHECK(!fake_take_sqe());
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_rdma_write_imm(ex, 1, 2, 3);
	ibv_wr_set_sge_list(ex, 6, list);
	ibv_wr_send(ex);
	CHECK(ibv_wr_complete(ex) == EINVAL && !fake_take_sqe());
	ibv_wr_start(ex);
	ibv_wr_rdma_write_imm(ex, 1, 2, 3);
	ibv_wr_set_inline_data(ex, buffer, 81);
	CHECK(ibv_wr_complete(ex) == EINVAL);
	ibv_wr_start(ex);
	ibv_wr_atomic_cmp_swp(ex, 1, 2, 3, 4);
	ibv_wr_set_inline_data(ex, buffer, 8);
	CHECK(ibv_wr_complete(ex) == EINVAL && !fake_doorbells);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, &mw, 1, &info);
	CHECK(ibv_wr_complete(ex) == EINVAL && !fake_doorbells);
	ibv_wr_start(ex);
	CHECK(!ibv_wr_complete(ex) && !fake_doorbells);
	ibv_wr_start(ex);
	for (i = 0; i < SQ; i++) {
		ex->wr_id = i;
		ibv_wr_send(ex);
	}
	CHECK(!ibv_wr_complete(ex) && fake_doorbells == 1);
	for (i = 0; i < SQ; i++)
		CHECK(fake_take_sqe()->id == (unsigned int)i);
}

static void t_extended_qp(void)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp_ex *ex;

	open_device(true);
	attr = qp_attr(IBV_QP_EX_WITH_TSO);
	CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EOPNOTSUPP);
	attr = qp_attr(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE);
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp);
	ex = &to_rsiw_qp(qp)->base.qp_ex;
	CHECK(ex->wr_send && ex->wr_atomic_write && ex->wr_start && ex->wr_set_sge);
	CHECK(!ex->wr_flush && !ex->wr_send_imm && !ex->wr_rdma_read && !ex->wr_bind_mw);
	fake_ops.destroy_qp(qp);
	attr = qp_attr(0);
	attr.qp_type = IBV_QPT_UD;
	CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EOPNOTSUPP);
	attr = qp_attr(0);
	attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EOPNOTSUPP);
	attr = qp_attr(0);
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.sq_sig_all = 1;
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp && !(to_rsiw_qp(qp)->base.comp_mask & VERBS_QP_EX));
	CHECK(posted((struct ibv_send_wr) { .opcode = IBV_WR_SEND })->flags ==
	      (SIW_WQE_VALID | SIW_WQE_SIGNALLED));
}

const struct test wr_tests[] = {
	{ "ibv_wr_complete() hands over a batch", t_wr },
	{ "flushes and atomic writes have no list", t_placement },
	{ "a queue pair of type UC has no operation that is answered", t_unreliable },
	{ "a batch that fails posts nothing", t_wr_fails },
	{ "an extended queue pair has what was asked for", t_extended_qp },
	{}
};
