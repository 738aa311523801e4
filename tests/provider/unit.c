// SPDX-License-Identifier: GPL-2.0
/*
 * unit PROVIDER [TEST...]: tests of the provider without a kernel, whose half a test plays. Each
 * is a process of its own. Prints "ok NAME" or "FAIL NAME" a line.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"
#include "rsiw.h"

#define CHECK(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
		exit(1); \
	} \
} while (0)

enum { SQ = 8, RQ = 4, CQ = 8 };

static const char *provider;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static char buffer[128] = "0123456789abcdefghijklmnopqrstuvwxyz";

static void open_device(bool extended)
{
	fake_features = extended ? RSIW_FEATURE_EXTENDED : 0;
	context = fake_open(provider);
	CHECK(context && fake_asked == RSIW_FEATURE_EXTENDED);
	pd = fake_ops.alloc_pd(context);
	CHECK(pd);
	cq = fake_ops.create_cq(context, CQ, NULL, 0);
	CHECK(cq && !fake_cq_flags);
}

static struct ibv_qp_init_attr_ex qp_attr(uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex) {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = SQ, .max_recv_wr = RQ },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = ops,
	};
}

static void open_all(bool extended)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SQ, .max_recv_wr = RQ },
	};

	open_device(extended);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = fake_ops.create_qp(pd, &attr);
	CHECK(qp && attr.cap.max_send_wr == SQ);
}

static struct ibv_qp_ex *open_ex(void)
{
	struct ibv_qp_init_attr_ex attr;

	open_device(true);
	attr = qp_attr(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP);
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp && to_rsiw_qp(qp)->base.comp_mask & VERBS_QP_EX);
	return &to_rsiw_qp(qp)->base.qp_ex;
}

static struct ibv_sge sge(int n, uint32_t length)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)buffer + n, .length = length, .lkey = 10 + n,
	};
}

static int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int e = fake_ops.post_send(qp, wr, &bad);

	CHECK(!e || bad);
	return e;
}

static const struct siw_sqe *posted(struct ibv_send_wr wr)
{
	const struct siw_sqe *sqe;

	CHECK(!post(&wr));
	sqe = fake_take_sqe();
	CHECK(sqe && sqe->id == wr.wr_id && !fake_take_sqe());
	return sqe;
}

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
	      !fake_ops.alloc_mw && !fake_ops.dealloc_mw && !fake_ops.rereg_mr && !fake_ops.reg_dmabuf_mr && !fake_ops.query_rt_values);
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
	CHECK(!fake_ops.alloc_mw(pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
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

static struct ibv_qp_ex *open_inline(uint32_t most, uint32_t granted)
{
	struct ibv_qp_init_attr_ex attr;

	open_device(true);
	attr = qp_attr(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	attr.cap.max_inline_data = most;
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp && attr.cap.max_inline_data == granted);
	/* The kernel takes no more elements than were asked for. */
	CHECK(granted <= SIW_MAX_INLINE || attr.cap.max_send_sge);
	return &to_rsiw_qp(qp)->base.qp_ex;
}

static const char large[600] = "more inline data than an element has room for, and a " __FILE__;

/* Whether a request has `length` octets of `large` in memory of the provider, at `*at`. */
static bool is_large(const struct siw_sqe *s, uint32_t length, uint64_t *at)
{
	*at = s->sge[0].laddr;
	return !(s->flags & SIW_WQE_INLINE) && s->num_sge == 1 && s->sge[0].lkey == 0x100 &&
	       s->sge[0].length == length && !memcmp((void *)(uintptr_t)*at, large, length);
}

/* Inline data that an element has no room for are where requests with a list have theirs. */
static void t_large_inline(void)
{
	struct ibv_sge list[2] = { { .addr = (uintptr_t)large, .length = 79, .lkey = 5 },
				   { .addr = (uintptr_t)large + 79, .length = 177, .lkey = 6 } };
	struct ibv_send_wr wr = {
		.sg_list = list, .num_sge = 2, .send_flags = IBV_SEND_INLINE, .imm_data = 9,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr init;
	const struct siw_sqe *s;
	uint64_t at, whole;

	open_inline(200, 256);
	CHECK(fake_regions == 1);
	CHECK(!fake_ops.query_qp(qp, &now, 0, &init));
	CHECK(now.cap.max_inline_data == 256 && init.cap.max_inline_data == 256);
	s = posted(wr);
	CHECK(is_large(s, 256, &whole) && s->sge[5].lkey == 9 && s->opcode == 12);
	list[1].length = 178;
	CHECK(post(&wr) == EINVAL && !fake_take_sqe());
	list[1].length = 1;
	s = posted(wr);
	CHECK(s->flags & SIW_WQE_INLINE && s->sge[0].length == 80 && s->sge[0].lkey == 9);
	wr.opcode = IBV_WR_SEND;
	list[1].length = 2;
	CHECK(is_large(posted(wr), 81, &at) && at == whole + 2 * 256);
	CHECK(!fake_ops.destroy_qp(qp) && !fake_regions);
	attr = qp_attr(0);
	attr.cap.max_inline_data = 513;
	CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EINVAL && !fake_regions);
	/* Who asks for less has no such memory. */
	open_inline(80, 80);
	CHECK(!fake_regions && post(&wr) == EINVAL);
}

enum { LISTED = 2 * SQ - 1, MIDDLE = SQ - 1 };

static char *trap;
static uint64_t taken[LISTED];
static int n_taken;

static void take_posted(void)
{
	struct siw_sqe *sqe;

	while ((sqe = fake_take_sqe())) {
		taken[n_taken++] = sqe->sge[0].laddr;
		fake_free_wqe(&sqe->flags);
	}
}

/* The data of a request are not there: the kernel takes what was posted before. */
static void on_trap(int number)
{
	take_posted();
	mprotect(trap, 4096, PROT_READ);
}

/* A list that is longer than the ring, of which the kernel takes requests meanwhile. */
static void t_large_inline_list(void)
{
	struct ibv_sge sges[LISTED];
	struct ibv_send_wr wrs[LISTED], *bad;
	int i;

	open_inline(512, 512);
	trap = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(trap != MAP_FAILED && signal(SIGSEGV, on_trap) != SIG_ERR);
	for (i = 0; i < LISTED; i++) {
		const char *data = i == MIDDLE ? trap : large;

		sges[i] = (struct ibv_sge) { .addr = (uintptr_t)data, .length = 300 };
		wrs[i] = (struct ibv_send_wr) {
			.next = i + 1 < LISTED ? &wrs[i + 1] : NULL, .sg_list = &sges[i], .num_sge = 1,
			.send_flags = IBV_SEND_INLINE, .opcode = IBV_WR_SEND,
		};
	}
	CHECK(!fake_ops.post_send(qp, wrs, &bad) && n_taken == MIDDLE);
	take_posted();
	CHECK(n_taken == LISTED);
	for (i = 0; i < LISTED; i++)
		CHECK(taken[i] == taken[0] + i * 512);
}

/* The memory of a request that the kernel may still send is not written to. */
static void t_large_inline_places(void)
{
	struct ibv_qp_ex *ex = open_inline(512, 512);
	struct ibv_data_buf bufs[2] = { { (void *)large, 78 }, { (void *)(large + 78), 400 } };
	uint64_t at[5 * SQ];
	int i, j;

	for (i = 0; i < 5 * SQ; i++) {
		struct siw_sqe *s;

		/* Batches of one and two, and one that is given up. */
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, (void *)buffer, 100);
		ibv_wr_abort(ex);
		if (i % 3 != 2) {
			ibv_wr_start(ex);
			ibv_wr_rdma_write_imm(ex, 1, 2, 3);
			ibv_wr_set_inline_data_list(ex, 2, bufs);
			if (i % 3 == 1) {
				ibv_wr_rdma_write_imm(ex, 1, 2, 3);
				ibv_wr_set_inline_data_list(ex, 2, bufs);
			}
			CHECK(!ibv_wr_complete(ex));
		}
		s = fake_take_sqe();
		CHECK(s && is_large(s, 478, &at[i]) && s->sge[5].lkey == 3);
		fake_free_wqe(&s->flags);
		for (j = i - 1; j >= 0 && j > i - 2 * SQ; j--)
			CHECK(at[i] >= at[j] + 512 || at[j] >= at[i] + 512);
		CHECK(i < 2 * SQ || at[i] == at[i - 2 * SQ]);
	}
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, (void *)large, 513);
	CHECK(ibv_wr_complete(ex) == EINVAL && !fake_take_sqe());
	/* What belongs to no element has no slot. */
	ibv_wr_start(ex);
	for (i = 0; i < SQ; i++)
		ibv_wr_send(ex);
	for (j = 0; j < 5 * SQ; j++)
		memset((void *)(uintptr_t)at[j], 1, 512);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, (void *)large, 500);
	CHECK(ibv_wr_complete(ex) == ENOMEM && !fake_take_sqe());
	for (j = 0; j < 5 * SQ; j++)
		CHECK(*(char *)(uintptr_t)at[j] == 1);
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
		fake_complete(&fake_cq, (struct siw_cqe) { .status = i == 1 ? SIW_WC_REM_INV_REQ_ERR : i == 2 ? 99 : i == 3 ? 10 : 0 });
	CHECK(fake_ops.poll_cq(cq, 3, wc) == 3 && fake_ops.poll_cq(cq, CQ, wc + 3) == CQ - 3);
	CHECK(wc[1].status == IBV_WC_REM_INV_REQ_ERR && wc[2].status == IBV_WC_GENERAL_ERR && !wc[3].wc_flags);
	CHECK(wc[3].status == IBV_WC_MW_BIND_ERR && !wc[4].status);
	CHECK(fake_ops.poll_cq(cq, CQ, wc) == 0);
}

static struct ibv_cq_ex *extended_cq(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = CQ, .wc_flags = wc_flags, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags,
	};

	return fake_ops.create_cq_ex(context, &attr);
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

	open_device(true);
	attr = qp_attr(IBV_QP_EX_WITH_TSO);
	CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EOPNOTSUPP);
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

/* Rights to operations that no device has here are left out where the kernel knows more than siw. */
static void t_rights(void)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	};
	unsigned int all = attr.qp_access_flags;

	open_all(true);
	CHECK(!fake_ops.modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS));
	CHECK(fake_access == IBV_ACCESS_REMOTE_ATOMIC && attr.qp_access_flags == all);
	to_rsiw_context(context)->extended = false;
	CHECK(!fake_ops.modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS) && fake_access == all);
}

static void t_domains(void)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_td_init_attr td_attr = {};
	struct ibv_pd *plain, *alone, *own = NULL;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_cq_ex *one;
	struct ibv_td *td;

	open_device(true);
	plain = pd;
	CHECK(!fake_ops.alloc_parent_domain(context, &attr) && errno == EINVAL);
	td = fake_ops.alloc_td(context, &td_attr);
	attr.pd = plain;
	alone = fake_ops.alloc_parent_domain(context, &attr);
	attr.td = td;
	own = fake_ops.alloc_parent_domain(context, &attr);
	CHECK(td && alone && own && own->handle == plain->handle && own->context == context);
	CHECK(fake_ops.dealloc_pd(plain) == EBUSY && fake_ops.dealloc_td(td) == EBUSY);
	cq_attr.parent_domain = plain;
	CHECK(!fake_ops.create_cq_ex(context, &cq_attr) && errno == EINVAL);
	cq_attr.parent_domain = alone;
	one = fake_ops.create_cq_ex(context, &cq_attr);
	CHECK(one && to_rsiw_cq_ex(one)->lock.needed);
	cq_attr.parent_domain = own;
	one = fake_ops.create_cq_ex(context, &cq_attr);
	CHECK(one && !to_rsiw_cq_ex(one)->lock.needed);
	one = extended_cq(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	CHECK(one && !to_rsiw_cq_ex(one)->lock.needed);
	pd = alone;
	ex = qp_attr(0);
	qp = fake_ops.create_qp_ex(context, &ex);
	CHECK(qp && to_rsiw_qp(qp)->lock.needed && to_rsiw_qp(qp)->rq.lock.needed);
	pd = own;
	ex = qp_attr(0);
	qp = fake_ops.create_qp_ex(context, &ex);
	CHECK(qp && !to_rsiw_qp(qp)->lock.needed && !to_rsiw_qp(qp)->rq.lock.needed);
	CHECK(!fake_ops.dealloc_pd(own) && !fake_ops.dealloc_td(td));
	CHECK(fake_ops.dealloc_pd(plain) == EBUSY);
	CHECK(!fake_ops.dealloc_pd(alone) && !fake_ops.dealloc_pd(plain));
}

static void t_device(void)
{
	struct ibv_device_attr_ex attr, part;
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1, .grh.sgid_index = 1 };
	struct ibv_ah *made;

	open_device(true);
	CHECK(!fake_ops.query_device_ex(context, NULL, &attr, sizeof(attr)));
	CHECK(attr.orig_attr.atomic_cap == IBV_ATOMIC_GLOB && attr.hca_core_clock == 1000000);
	CHECK(attr.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(attr.completion_timestamp_mask == UINT64_MAX && !attr.pci_atomic_caps.fetch_add);
	/* A program of an older library has a shorter structure. */
	memset(&part, 0x55, sizeof(part));
	CHECK(!fake_ops.query_device_ex(context, NULL, &part, sizeof(part.orig_attr)));
	CHECK(part.hca_core_clock == 0x5555555555555555);
	made = fake_ops.create_ah(pd, &ah);
	CHECK(made && !fake_ops.destroy_ah(made));
	/* An index without a GID, one beyond the table, another port, no GID. */
	ah.grh.sgid_index = 2;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.grh.sgid_index = 3;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.grh.sgid_index = 1;
	ah.port_num = 2;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.port_num = 1;
	ah.is_global = 0;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EINVAL);
	ah.is_global = 1;
	fake_device.node_type = IBV_NODE_RNIC;
	CHECK(!fake_ops.create_ah(pd, &ah) && errno == EOPNOTSUPP);
}

enum { POSTERS = 2, POSTS = 60000 };

static void *post_many(void *arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr_id = (uintptr_t)arg }, *bad;
	int left = POSTS, e;

	while (left) {
		e = fake_ops.post_send(qp, &wr, &bad);
		CHECK(!e || e == ENOMEM);
		if (e)
			sched_yield();
		else
			left--;
	}
	return NULL;
}

/*
 * Threads post while the kernel sends, which rests when it has found an element that is not handed
 * over, until the doorbell: no request is left behind.
 */
static void t_doorbells(void)
{
	pthread_t posters[POSTERS];
	unsigned int heard = 0, now;
	int taken = 0, i;
	struct siw_sqe *sqe;

	open_all(true);
	for (i = 0; i < POSTERS; i++)
		CHECK(!pthread_create(&posters[i], NULL, post_many, (void *)(uintptr_t)i));
	while (taken < POSTERS * POSTS) {
		/* Until the alarm, if a doorbell was not rung. */
		while ((now = __atomic_load_n(&fake_doorbells, __ATOMIC_ACQUIRE)) == heard)
			;
		heard = now;
		while ((sqe = fake_take_sqe())) {
			CHECK(sqe->id < POSTERS && sqe->opcode == SIW_OP_SEND);
			fake_free_wqe(&sqe->flags);
			/* As the kernel does (rsiw/ring.rs). */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			taken++;
		}
	}
	for (i = 0; i < POSTERS; i++)
		pthread_join(posters[i], NULL);
	CHECK(taken == POSTERS * POSTS && !fake_take_sqe());
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "without the kernel's grant nothing is new", t_not_granted },
	{ "requests are written as the ABI has them", t_requests },
	{ "atomics are written as the ABI has them", t_atomics },
	{ "windows are bound and invalidated as the ABI has it", t_windows },
	{ "inline data have their limits", t_inline },
	{ "more inline data have memory of their own", t_large_inline },
	{ "inline data stay until they are sent", t_large_inline_places },
	{ "inline data of a list longer than the ring stay, too", t_large_inline_list },
	{ "a full send queue takes part of a list", t_full },
	{ "no request of two threads waits for a doorbell", t_doorbells },
	{ "receives have up to 6 elements, and none", t_receives },
	{ "a shared queue has its receives", t_shared_receives },
	{ "completions tell operation, status and immediate", t_poll },
	{ "an extended queue is polled element by element", t_extended_poll },
	{ "time stamps are values of the system's clocks", t_wallclock },
	{ "completions keep their order over two resizes", t_resize },
	{ "an event for any completion stays armed", t_arm },
	{ "ibv_wr_complete() hands over a batch", t_wr },
	{ "a batch that fails posts nothing", t_wr_fails },
	{ "an extended queue pair has what was asked for", t_extended_qp },
	{ "rights that nobody uses do not reach the kernel", t_rights },
	{ "objects of a thread domain take no locks", t_domains },
	{ "device attributes and address handles", t_device },
};

int main(int argc, char **argv)
{
	int failed = 0, status;
	size_t i;

	provider = argv[1];
	for (i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		fflush(stdout);
		if (!fork()) {
			alarm(20);
			tests[i].run();
			exit(0);
		}
		wait(&status);
		failed += status != 0;
		printf("%s %s\n", status ? "FAIL" : "ok  ", tests[i].name);
	}
	return failed != 0;
}
