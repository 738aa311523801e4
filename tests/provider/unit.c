// SPDX-License-Identifier: GPL-2.0
/*
 * unit PROVIDER: tests of the provider without a kernel, whose half a test plays. Each is a
 * process of its own. Prints "ok NAME" or "FAIL NAME" a line.
 */

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static const char *provider;
struct ibv_context *context;
struct ibv_pd *pd;
struct ibv_cq *cq;
struct ibv_qp *qp;
char buffer[128] = "0123456789abcdefghijklmnopqrstuvwxyz";

void open_device(bool extended)
{
	const uint32_t all = RSIW_FEATURE_EXTENDED | RSIW_FEATURE_MW_TYPE_1 |
			     RSIW_FEATURE_RESIZE_SRQ | RSIW_FEATURE_PLACEMENT;

	fake_features = extended ? all : 0;
	context = fake_open(provider);
	CHECK(context && fake_asked == all);
	pd = fake_ops.alloc_pd(context);
	CHECK(pd);
	cq = fake_ops.create_cq(context, CQ, NULL, 0);
	CHECK(cq && !fake_cq_flags);
}

struct ibv_qp_init_attr_ex qp_attr(uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex) {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.cap = { .max_send_wr = SQ, .max_recv_wr = RQ },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = ops,
	};
}

void open_all(bool extended)
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

struct ibv_qp_ex *open_ex(void)
{
	struct ibv_qp_init_attr_ex attr;

	open_device(true);
	attr = qp_attr(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		       IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
		       IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
		       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		       IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
		       IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE);
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp && to_rsiw_qp(qp)->base.comp_mask & VERBS_QP_EX);
	return &to_rsiw_qp(qp)->base.qp_ex;
}

struct ibv_sge sge(int n, uint32_t length)
{
	return (struct ibv_sge) {
		.addr = (uintptr_t)buffer + n, .length = length, .lkey = 10 + n,
	};
}

int post(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int e = fake_ops.post_send(qp, wr, &bad);

	CHECK(!e || bad);
	return e;
}

const struct siw_sqe *posted(struct ibv_send_wr wr)
{
	const struct siw_sqe *sqe;

	CHECK(!post(&wr));
	sqe = fake_take_sqe();
	CHECK(sqe && sqe->id == wr.wr_id && !fake_take_sqe());
	return sqe;
}

struct ibv_cq_ex *extended_cq(uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = CQ, .wc_flags = wc_flags, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags,
	};

	return fake_ops.create_cq_ex(context, &attr);
}

static const struct test *const groups[] = {
	requests_tests,
	inline_tests,
	cq_tests,
	wr_tests,
	objects_tests,
};

int main(int argc, char **argv)
{
	const struct test *test;
	int failed = 0, status;
	size_t i;

	provider = argv[1];
	for (i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
		for (test = groups[i]; test->name; test++) {
			fflush(stdout);
			if (!fork()) {
				alarm(300);
				test->run();
				exit(0);
			}
			wait(&status);
			failed += status != 0;
			printf("%s %s\n", status ? "FAIL" : "ok  ", test->name);
		}
	}
	return failed != 0;
}
