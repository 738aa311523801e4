// SPDX-License-Identifier: GPL-2.0
/*
 * costs PROVIDER CASE COUNT: posts or polls so many times. Valgrind counts the instructions of the
 * functions case_*() (run).
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { LIST = 16 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_sge sges[4];
static char data[64];
static struct ibv_send_wr sends[LIST], *bad_send;
static struct ibv_recv_wr receives[LIST], *bad_receive;
static struct ibv_wc wcs[LIST];

/* What is counted: the calls. */
static __attribute__((noinline)) int case_send(unsigned int count)
{
	sends[count - 1].next = NULL;
	return fake_ops.post_send(qp, sends, &bad_send);
}

static __attribute__((noinline)) int case_receive(unsigned int count)
{
	receives[count - 1].next = NULL;
	return fake_ops.post_recv(qp, receives, &bad_receive);
}

static __attribute__((noinline)) int case_poll(unsigned int count)
{
	return fake_ops.poll_cq(cq, count, wcs);
}

static void check(int good, const char *what)
{
	if (!good) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static void set_up(const char *provider)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	int i;

	fake_features = RSIW_FEATURE_EXTENDED;
	context = fake_open(provider);
	pd = fake_ops.alloc_pd(context);
	cq = fake_ops.create_cq(context, 64, NULL, 0);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	attr.cap = (struct ibv_qp_cap) { .max_send_wr = 64, .max_recv_wr = 64 };
	qp = fake_ops.create_qp(pd, &attr);
	check(cq && qp, "no queues");
	for (i = 0; i < 4; i++)
		sges[i] = (struct ibv_sge) { .addr = (uintptr_t)data, .length = 16, .lkey = 1 };
	for (i = 0; i < LIST; i++) {
		sends[i] = (struct ibv_send_wr) {
			.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = sges,
			.num_sge = 1, .wr.rdma = { .remote_addr = 4096, .rkey = 2 }, .next = &sends[i + 1],
		};
		receives[i] = (struct ibv_recv_wr) {
			.sg_list = sges, .num_sge = 1, .next = &receives[i + 1],
		};
	}
}

int main(int argc, char **argv)
{
	const char *name = argv[2];
	unsigned int list = strstr(name, "16") ? 16 : 1;
	int rounds = atoi(argv[3]), i;
	struct siw_sqe *sqe;
	struct siw_rqe *rqe;

	set_up(argv[1]);
	for (i = 0; i < LIST; i++) {
		if (strstr(name, "inline"))
			sends[i].send_flags |= IBV_SEND_INLINE;
		if (strstr(name, "sges"))
			sends[i].num_sge = receives[i].num_sge = 4;
	}
	while (rounds--) {
		if (strstr(name, "send")) {
			check(!case_send(list), "post_send failed");
			/* A busy kernel takes the last element later, so no doorbell is rung. */
			while ((sqe = fake_take_sqe()))
				if (!strstr(name, "busy"))
					fake_free_wqe(&sqe->flags);
				else if (fake_sq.at > list)
					fake_free_wqe(&((struct siw_sqe *)fake_sq.mem)
						      [(fake_sq.at - 1 - list) & (fake_sq.entries - 1)].flags);
		} else if (strstr(name, "receive")) {
			check(!case_receive(list), "post_recv failed");
			while ((rqe = fake_take_rqe()))
				fake_free_wqe(&rqe->flags);
		} else {
			for (i = 0; i < (int)list && !strstr(name, "empty"); i++)
				fake_complete(&fake_cq, (struct siw_cqe) { .id = i, .bytes = 16, .qp_id = 3 });
			i = strstr(name, "empty") ? 0 : list;
			check(case_poll(list) == i, "poll_cq");
		}
	}
	return 0;
}
