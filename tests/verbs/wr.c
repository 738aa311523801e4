// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests and completions. A side that waits polls and sleeps in turn,
 * because the other side may share its only processor.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

int try_post(struct conn *c, enum ibv_wr_opcode op, uint64_t id, unsigned int flags,
	     struct ibv_sge *sge, int num, uint64_t raddr, uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = op, .send_flags = flags,
		.sg_list = sge, .num_sge = num,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	}, *bad_wr;

	return ibv_post_send(c->qp, &wr, &bad_wr);
}

void post(struct conn *c, enum ibv_wr_opcode op, uint64_t id, unsigned int flags,
	  struct ibv_sge *sge, int num, uint64_t raddr, uint32_t rkey)
{
	int rv = try_post(c, op, id, flags, sge, num, raddr, rkey);

	CHECK(!rv, "ibv_post_send of opcode %d, id %#lx: %d, errno %d", op, id, rv, errno);
}

void post_recv(struct conn *c, uint64_t id, struct ibv_sge *sge, int num)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = num }, *bad_wr;

	CALL(ibv_post_recv(c->qp, &wr, &bad_wr));
}

void post_srq(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge, int num)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = num }, *bad_wr;

	CALL(ibv_post_srq_recv(srq, &wr, &bad_wr));
}

static bool poll_until(struct ibv_cq *cq, struct ibv_wc *wc, unsigned int ms)
{
	uint64_t end = now_ms() + ms;
	unsigned int tries = 0;
	int n;

	for (;;) {
		memset(wc, 0xee, sizeof(*wc));
		n = ibv_poll_cq(cq, 1, wc);
		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		if (n)
			return true;
		if (now_ms() >= end)
			return false;
		if (++tries < 50)
			sched_yield();
		else
			sleep_ms(1);
	}
}

struct ibv_wc poll_at(const char *file, int line, struct ibv_cq *cq)
{
	struct ibv_wc wc;

	if (!poll_until(cq, &wc, wait_ms))
		fail_at(file, line, "no completion within %d ms", wait_ms);
	return wc;
}

bool poll_quiet(struct ibv_cq *cq, unsigned int ms)
{
	struct ibv_wc wc;

	return !poll_until(cq, &wc, ms);
}

void good_at(const char *file, int line, struct ibv_cq *cq, uint64_t id,
	     enum ibv_wc_opcode op, int64_t bytes)
{
	struct ibv_wc wc = poll_at(file, line, cq);

	if (wc.wr_id != id)
		fail_at(file, line, "completion of %#lx (%s), not of %#lx",
			wc.wr_id, ibv_wc_status_str(wc.status), id);
	if (wc.status != IBV_WC_SUCCESS)
		fail_at(file, line, "%#lx: %s", id, ibv_wc_status_str(wc.status));
	if (wc.opcode != op)
		fail_at(file, line, "%#lx: opcode %d, not %d", id, wc.opcode, op);
	if (bytes >= 0 && wc.byte_len != bytes)
		fail_at(file, line, "%#lx: %u bytes, not %ld", id, wc.byte_len, bytes);
}

void bad_at(const char *file, int line, struct ibv_cq *cq, uint64_t id, uint32_t mask)
{
	struct ibv_wc wc = poll_at(file, line, cq);

	if (wc.wr_id != id)
		fail_at(file, line, "completion of %#lx (%s), not of %#lx",
			wc.wr_id, ibv_wc_status_str(wc.status), id);
	if (!(BIT(wc.status) & mask))
		fail_at(file, line, "%#lx: status %d (%s), not in mask %#x",
			id, wc.status, ibv_wc_status_str(wc.status), mask);
}

#define MARK_ID 0x4d41524bull

static struct ibv_sge token_sge(struct conn *c)
{
	if (!c->token_mr) {
		c->token_mr = ibv_reg_mr(c->pd, &c->token, sizeof(c->token), ACC_LOCAL);
		CHECK(c->token_mr, "ibv_reg_mr: errno %d", errno);
	}
	return (struct ibv_sge) {
		.addr = (uintptr_t)&c->token, .length = sizeof(c->token),
		.lkey = c->token_mr->lkey,
	};
}

void mark_arm(struct conn *c)
{
	struct ibv_sge sge = token_sge(c);

	c->token = 0;
	post_recv(c, MARK_ID, &sge, 1);
}

void mark_send(struct conn *c, uint64_t token)
{
	struct ibv_sge sge = token_sge(c);

	c->token = token;
	post(c, IBV_WR_SEND, MARK_ID, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	good(c->scq, MARK_ID, IBV_WC_SEND, -1);
}

void mark_wait(struct conn *c, uint64_t token)
{
	good(c->rcq, MARK_ID, IBV_WC_RECV, sizeof(token));
	CHECK(c->token == token, "mark %#lx, not %#lx", c->token, token);
}
