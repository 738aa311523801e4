// SPDX-License-Identifier: GPL-2.0
/* Requests and receives as they are written to the rings. */

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "unit.h"

/* A provider on siw, or on an rsiw that grants nothing, is as libsiw. */
static void t_not_granted(void)
{
	struct ibv_sge list = sge(0, 8);
	struct ibv_send_wr wr = { .sg_list = &list, .num_sge = 1 };
	struct ibv_recv_wr receive = {}, *bad;
	enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1,
		40,
	};
	struct ibv_device_attr_ex attr;
	size_t i;

	open_all(false);
	CHECK(!fake_ops.create_cq_ex && !fake_ops.create_qp_ex && !fake_ops.resize_cq &&
	      !fake_ops.alloc_td && !fake_ops.alloc_parent_domain && !fake_ops.create_ah &&
	      !fake_ops.alloc_mw && !fake_ops.dealloc_mw && !fake_ops.bind_mw && !fake_ops.rereg_mr && !fake_ops.reg_dmabuf_mr && !fake_ops.query_rt_values);
	for (i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		wr.opcode = ops[i];
		CHECK(post(&wr) == EINVAL);
	}
	CHECK(!fake_take_sqe() && !fake_doorbells);
	CHECK(fake_ops.post_recv(qp, &receive, &bad) == EINVAL && bad == &receive);
	CHECK(!fake_ops.query_device_ex(context, NULL, &attr, sizeof(attr)));
	CHECK(attr.orig_attr.atomic_cap == IBV_ATOMIC_NONE && !attr.completion_timestamp_mask);
	CHECK(!attr.orig_attr.max_mw && !attr.orig_attr.device_cap_flags);
	CHECK(!strcmp(attr.orig_attr.fw_ver, "2.3.4"));
}

static void t_requests(void)
{
	struct ibv_sge list[6] = { sge(0, 8), sge(1, 9), sge(2, 10), sge(3, 11), sge(4, 12), sge(5, 13) };
	struct ibv_send_wr wr = {
		.wr_id = 5, .sg_list = list, .num_sge = 6, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
		.wr.rdma = { .remote_addr = 0x123456789a, .rkey = 77 },
	};
	const struct siw_sqe *s;

	open_all(true);
	s = posted(wr);
	CHECK(s->opcode == SIW_OP_WRITE && s->raddr == 0x123456789a && s->rkey == 77 && s->num_sge == 6);
	CHECK(s->flags == (SIW_WQE_VALID | SIW_WQE_SIGNALLED | SIW_WQE_READ_FENCE));
	CHECK(!memcmp(s->sge, list, sizeof(list)));
	wr.num_sge = 7;
	CHECK(post(&wr) == EINVAL);
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_READ;
	CHECK(posted(wr)->opcode == SIW_OP_READ);

	wr = (struct ibv_send_wr) {
		.wr_id = 6, .sg_list = list, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SOLICITED, .invalidate_rkey = 0x4455,
	};
	s = posted(wr);
	CHECK(s->opcode == SIW_OP_SEND_REMOTE_INV && s->rkey == 0x4455);
	CHECK(s->flags == (SIW_WQE_VALID | SIW_WQE_SOLICITED));
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htobe32(0x01020304);
	s = posted(wr);
	CHECK(s->opcode == SIW_OP_SEND_WITH_IMM && s->raddr == htobe32(0x01020304));

	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.wr.rdma.remote_addr = 0x9000;
	wr.wr.rdma.rkey = 78;
	wr.num_sge = 5;
	s = posted(wr);
	CHECK(s->opcode == 12 && s->raddr == 0x9000 && s->rkey == 78 && s->num_sge == 5);
	CHECK(!memcmp(s->sge, list, 5 * sizeof(*list)) && s->sge[5].lkey == htobe32(0x01020304));
	wr.num_sge = 6;
	CHECK(post(&wr) == EINVAL && !fake_take_sqe());
}

static void t_atomics(void)
{
	struct ibv_sge list[2] = { sge(0, 8), sge(1, 8) };
	struct ibv_send_wr wr = {
		.wr_id = 5, .sg_list = list, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = 0x1000, .rkey = 77, .compare_add = 1ULL << 40, .swap = 3 },
	};
	const struct siw_sqe *s;

	open_all(true);
	s = posted(wr);
	CHECK(s->opcode == SIW_OP_COMP_AND_SWAP && s->raddr == 0x1000 && s->rkey == 77);
	CHECK(s->num_sge == 3 && !memcmp(s->sge, list, sizeof(*list)));
	CHECK(s->sge[1].laddr == 1ULL << 40 && s->sge[2].laddr == 3);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	s = posted(wr);
	CHECK(s->opcode == SIW_OP_FETCH_AND_ADD && s->num_sge == 3 && s->sge[1].laddr == 1ULL << 40);
	wr.num_sge = 2;
	CHECK(post(&wr) == EINVAL);
	wr.num_sge = 0;
	CHECK(post(&wr) == EINVAL);
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	CHECK(post(&wr) == EINVAL && !fake_take_sqe());
}

static void t_windows(void)
{
	struct ibv_mr mr = { .lkey = 0x60001 };
	struct ibv_mw *mw;
	struct ibv_send_wr wr = { .wr_id = 5, .opcode = IBV_WR_BIND_MW };
	struct ibv_mw_bind_info *info = &wr.bind_mw.bind_info;
	const struct siw_sqe *s;

	open_all(true);
	mw = fake_ops.alloc_mw(pd, IBV_MW_TYPE_2);
	CHECK(mw && mw->rkey == 0x40005);
	/* The key is the caller's, the index that of the window. */
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = 0x12345678;
	*info = (struct ibv_mw_bind_info) {
		.mr = &mr, .addr = 1ULL << 40, .length = 1ULL << 33,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE,
	};
	s = posted(wr);
	CHECK(s->opcode == 14 && s->rkey == 0x40078 && s->raddr == 1ULL << 40 && s->num_sge == 1);
	CHECK(s->sge[0].laddr == 1ULL << 33 && s->sge[0].lkey == 0x60001 && s->sge[0].length == 3);
	info->mw_access_flags = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ;
	CHECK(post(&wr) == EINVAL);
	info->mw_access_flags = 0;
	info->mr = NULL;
	CHECK(post(&wr) == EINVAL && !fake_take_sqe());
	wr = (struct ibv_send_wr) { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x40078 };
	s = posted(wr);
	CHECK(s->opcode == SIW_OP_INVAL_STAG && s->rkey == 0x40078 && !s->num_sge);
	CHECK(!fake_ops.dealloc_mw(mw));
}

/* A window of type 1 gets a key with each request, and none if that is not posted. */
static void t_windows_1(void)
{
	struct ibv_mr mr = { .lkey = 0x60001 };
	struct ibv_mw_bind bind = {
		.wr_id = 5, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = &mr, .addr = 0x9000, .length = 7, .mw_access_flags = IBV_ACCESS_REMOTE_READ },
	};
	const struct siw_sqe *s;
	struct ibv_mw *mw;

	open_all(true);
	mw = fake_ops.alloc_mw(pd, IBV_MW_TYPE_1);
	CHECK(mw && mw->rkey == 0x40005);
	mw->rkey = 0x400ff;
	CHECK(!fake_ops.bind_mw(qp, mw, &bind) && mw->rkey == 0x40000);
	s = fake_take_sqe();
	CHECK(s && s->id == 5 && s->opcode == 14 && s->rkey == 0x40000 && s->raddr == 0x9000);
	CHECK(s->sge[0].laddr == 7 && s->sge[0].lkey == 0x60001 && s->sge[0].length == 4);
	CHECK(s->num_sge == 1 && s->flags == (SIW_WQE_VALID | SIW_WQE_SIGNALLED));
	/* Without a region it is unbound. */
	bind.bind_info = (struct ibv_mw_bind_info) {};
	CHECK(!fake_ops.bind_mw(qp, mw, &bind) && mw->rkey == 0x40001);
	s = fake_take_sqe();
	CHECK(s && s->rkey == 0x40001 && s->num_sge == 1 && !s->sge[0].laddr && !s->sge[0].lkey);
	bind.bind_info = (struct ibv_mw_bind_info) { .mr = &mr, .mw_access_flags = IBV_ACCESS_ZERO_BASED };
	CHECK(fake_ops.bind_mw(qp, mw, &bind) == EINVAL && mw->rkey == 0x40001 && !fake_take_sqe());
	CHECK(!fake_ops.dealloc_mw(mw));
	/* A kernel that knows only those of type 2B. */
	fake_features = RSIW_FEATURE_EXTENDED;
	CHECK(!fake_ops.alloc_mw(pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
}

static void t_inline(void)
{
	struct ibv_sge list[3] = { sge(0, 30), sge(3, 0), sge(5, 50) };
	struct ibv_send_wr wr = {
		.sg_list = list, .num_sge = 3, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
	};
	const struct siw_sqe *s;

	open_all(true);
	s = posted(wr);
	CHECK(s->flags == (SIW_WQE_VALID | SIW_WQE_INLINE) && s->sge[0].length == 80);
	CHECK(!memcmp(&s->sge[1], buffer, 30) && !memcmp((char *)&s->sge[1] + 30, buffer + 5, 50));
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = 9;
	s = posted(wr);
	CHECK(s->sge[0].length == 80 && s->sge[0].lkey == 9);
	CHECK(!memcmp(&s->sge[1], buffer, 30) && !memcmp((char *)&s->sge[1] + 30, buffer + 5, 50));
	wr.opcode = IBV_WR_SEND;
	list[2].length = 51;
	CHECK(post(&wr) == EINVAL);
	/* A sum that overflows 32 bits. */
	list[2].length = UINT32_MAX - 10;
	CHECK(post(&wr) == EINVAL && !fake_take_sqe());
}

/* A list that has no room is posted as far as it goes; a doorbell is rung if the kernel rests. */
static void t_full(void)
{
	struct ibv_send_wr wr[SQ + 1] = {}, *bad = NULL;
	struct siw_sqe *sqe;
	int i;

	open_all(true);
	for (i = 0; i <= SQ; i++)
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i, .opcode = IBV_WR_SEND, .next = i < SQ ? &wr[i + 1] : NULL,
		};
	CHECK(fake_ops.post_send(qp, wr, &bad) == ENOMEM && bad == &wr[SQ]);
	CHECK(fake_doorbells == 1);
	for (i = 0; i < SQ; i++) {
		sqe = fake_take_sqe();
		CHECK(sqe && sqe->id == (unsigned int)i);
		/* The last one is not done. */
		if (i < SQ - 1)
			fake_free_wqe(&sqe->flags);
	}
	CHECK(!post(&wr[SQ]) && fake_doorbells == 1);
	fake_free_wqe(&sqe->flags);
	sqe = fake_take_sqe();
	CHECK(sqe && sqe->id == SQ);
	fake_free_wqe(&sqe->flags);
	CHECK(!post(&wr[SQ]) && fake_doorbells == 2);
}

static void t_receives(void)
{
	struct ibv_sge list[6] = { sge(0, 8), sge(1, 9), sge(2, 10), sge(3, 11), sge(4, 12), sge(5, 13) };
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = list, .num_sge = 6 }, *bad = NULL;
	struct siw_rqe *rqe;
	int i;

	open_all(true);
	CHECK(!fake_ops.post_recv(qp, &wr, &bad));
	wr.num_sge = 0;
	CHECK(!fake_ops.post_recv(qp, &wr, &bad));
	wr.num_sge = 7;
	CHECK(fake_ops.post_recv(qp, &wr, &bad) == EINVAL && bad == &wr);
	rqe = fake_take_rqe();
	CHECK(rqe && rqe->num_sge == 6 && rqe->id == 3 && !memcmp(rqe->sge, list, sizeof(list)));
	rqe = fake_take_rqe();
	CHECK(rqe && !rqe->num_sge && !fake_take_rqe());
	wr.num_sge = 1;
	for (i = 0; i < RQ - 2; i++)
		CHECK(!fake_ops.post_recv(qp, &wr, &bad));
	CHECK(fake_ops.post_recv(qp, &wr, &bad) == ENOMEM && !fake_doorbells);
}

static void t_shared_receives(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = RQ } };
	struct ibv_recv_wr wr = { .wr_id = 8 }, *bad;
	struct ibv_qp_init_attr_ex ex;
	struct siw_rqe *rqe;
	struct ibv_srq *srq;

	open_device(true);
	srq = fake_ops.create_srq(pd, &attr);
	CHECK(srq && !fake_ops.post_srq_recv(srq, &wr, &bad));
	rqe = fake_take_rqe();
	CHECK(rqe && rqe->id == 8);
	ex = qp_attr(0);
	ex.srq = srq;
	qp = fake_ops.create_qp_ex(context, &ex);
	CHECK(qp && fake_ops.post_recv(qp, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(!fake_ops.destroy_qp(qp) && !fake_ops.destroy_srq(srq));
}

/* The kernel takes `count` receives, which are in order from `id` on. */
static void taken(uint64_t id, unsigned int count)
{
	while (count--) {
		struct siw_rqe *rqe = fake_take_rqe();

		CHECK(rqe && rqe->id == id && rqe->num_sge == 2 && rqe->sge[1].lkey == id);
		id++;
		fake_free_wqe(&rqe->flags);
	}
}

static int receive(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_sge list[2] = { sge(0, 8), { .lkey = id } };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = list, .num_sge = 2 }, *bad;

	return fake_ops.post_srq_recv(srq, &wr, &bad);
}

/* Receives keep their order over resizes, to more and to less, when the ring has wrapped. */
static void t_resize_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4 } };
	struct ibv_srq_attr attr = { .max_wr = 16 };
	uint64_t id = 0;
	struct ibv_srq *srq;

	open_all(true);
	srq = fake_ops.create_srq(pd, &init);
	CHECK(srq);
	/* An empty one. */
	CHECK(!fake_ops.modify_srq(srq, &attr, IBV_SRQ_MAX_WR) && fake_rq.entries == 16);
	attr.max_wr = 4;
	CHECK(!fake_ops.modify_srq(srq, &attr, IBV_SRQ_MAX_WR) && fake_rq.entries == 4);
	while (id < 4)
		CHECK(!receive(srq, id++));
	taken(0, 3);
	while (id < 7)
		CHECK(!receive(srq, id++));
	/* A full one, whose oldest receive is in the last place. */
	CHECK(receive(srq, id) == ENOMEM);
	attr.max_wr = 8;
	CHECK(!fake_ops.modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	while (id < 11)
		CHECK(!receive(srq, id++));
	CHECK(receive(srq, id) == ENOMEM);
	taken(3, 6);
	attr.max_wr = 2;
	CHECK(!fake_ops.modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	CHECK(receive(srq, id) == ENOMEM);
	taken(9, 1);
	/* A ring that cannot be mapped: the queue goes on with the one that it has. */
	attr.max_wr = 16;
	fake_unmappable = true;
	CHECK(fake_ops.modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL && fake_rq.entries == 2);
	fake_unmappable = false;
	taken(10, 1);
	CHECK(!fake_take_rqe() && !receive(srq, id));
	taken(id, 1);
	CHECK(!fake_ops.destroy_srq(srq));
	/* A kernel that cannot, which is asked all the same. */
	fake_features = RSIW_FEATURE_EXTENDED;
	to_rsiw_context(context)->features = fake_features;
	srq = fake_ops.create_srq(pd, &init);
	CHECK(srq && fake_ops.modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EOPNOTSUPP);
	CHECK(!fake_ops.modify_srq(srq, &attr, IBV_SRQ_LIMIT) && !fake_ops.destroy_srq(srq));
}

const struct test requests_tests[] = {
	{ "without the kernel's grant nothing is new", t_not_granted },
	{ "requests are written as the ABI has them", t_requests },
	{ "atomics are written as the ABI has them", t_atomics },
	{ "windows are bound and invalidated as the ABI has it", t_windows },
	{ "windows of type 1 get a new key with each request", t_windows_1 },
	{ "inline data have their limits", t_inline },
	{ "a full send queue takes part of a list", t_full },
	{ "receives have up to 6 elements, and none", t_receives },
	{ "a shared queue has its receives", t_shared_receives },
	{ "receives keep their order over resizes of a shared queue", t_resize_srq },
	{}
};
