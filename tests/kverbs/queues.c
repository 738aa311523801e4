// SPDX-License-Identifier: GPL-2.0
/* Queues: ERROR, a full one, shared receives, overflow. */
#include <linux/delay.h>

#include "kverbs.h"

enum { LEN = 1000, COUNT = 16 };

/* In ERROR, everything comes back as flushed, what is posted then as well. */
static int t_error(struct pair *p)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_sge sge = sge_of(&p->s, 0, LEN);
	struct req *r = p->r;
	int i;

	for (i = 0; i < COUNT; i++)
		DO(post_recv(&p->s, &r[i], 0, LEN));
	DO(ib_modify_qp(qp_of(&p->s), &attr, IB_QP_STATE));
	for (i = 0; i < COUNT; i++)
		ENDS(&p->s, &r[i], IB_WC_WR_FLUSH_ERR);
	for (i = 0; i < COUNT; i++) {
		if (i % 2)
			DO(post_recv(&p->s, &r[i], 0, LEN));
		else
			DO(post_op(&p->s, &r[i], IB_WR_SEND, 0, &sge, 0, 0));
	}
	for (i = 0; i < COUNT; i++)
		ENDS(&p->s, &r[i], IB_WC_WR_FLUSH_ERR);
	return 0;
}

/* The queue says when it is full, and has room again after completions. */
static int t_full(struct pair *p)
{
	struct ib_sge sge = sge_of(&p->c, 0, 0);
	int i, n, round, ret = 0;
	unsigned long flags;

	for (round = 0; round < 3; round++) {
		/* Writes of no bytes name no memory. With interrupts off nothing completes. */
		local_irq_save(flags);
		for (n = 0; n < REQS; n++) {
			ret = post_op(&p->c, &p->r[n], IB_WR_RDMA_WRITE, 0, &sge, 0, 0);
			if (ret)
				break;
		}
		local_irq_restore(flags);
		EXPECT(ret == -ENOMEM && n >= COUNT && n < REQS, "%d posted: %d\n", n, ret);
		for (i = 0; i < n; i++)
			DO(req_wait(&p->c, &p->r[i]));
	}
	DO(post_op(&p->c, p->r, IB_WR_RDMA_WRITE, 0, &sge, 0, 0));
	DO(req_wait(&p->c, p->r));
	return 0;
}

/* Receives of a shared queue; the last of a QP's is told when that is in ERROR. */
static int t_srq(struct pair *p)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_sge sge = sge_of(&p->c, 0, LEN);
	struct req *r = p->r, *s = p->r + COUNT;
	int i;

	for (i = 0; i < COUNT; i++)
		DO(post_recv(&p->s, &r[i], 0, LEN));
	for (i = 0; i < COUNT / 2; i++) {
		mem_fill(&p->c.m, i);
		DO(post_op(&p->c, s, IB_WR_SEND, 0, &sge, 0, 0));
		DO(req_wait(&p->c, s));
		DO(req_wait(&p->s, &r[i]));
		EXPECT(mem_is(&p->s.m, 0, LEN, i), "message %d\n", i);
	}
	DO(ib_modify_qp(qp_of(&p->s), &attr, IB_QP_STATE));
	for (i = 0; i < 200 && !test_bit(IB_EVENT_QP_LAST_WQE_REACHED, &p->s.events); i++)
		msleep(20);
	EXPECT(test_bit(IB_EVENT_QP_LAST_WQE_REACHED, &p->s.events), "no event\n");
	/* The others stay in the queue for others. */
	EXPECT(!try_wait_for_completion(&r[COUNT / 2].done), "a shared receive was flushed\n");
	return 0;
}

/* More completions than entries: the QP ends with it, and nothing else does. */
static int t_overflow(struct pair *p)
{
	struct ib_sge sge = {};
	int i;

	for (i = 0; i < 64; i++)
		if (post_op(&p->c, &p->r[i], IB_WR_RDMA_WRITE, 0, &sge, 0, 0))
			break;
	DO(wait_error(&p->c));
	/* Draining needs completions, which this queue has lost. */
	rdma_destroy_qp(p->c.id);
	return 0;
}

const struct test queue_tests[] = {
	{ "ERROR", t_error, { } },
	{ "a full queue", t_full, { .poll = IB_POLL_DIRECT, .sq = COUNT } },
	{ "shared receives", t_srq, { .poll = IB_POLL_WORKQUEUE, .srq = true } },
	{ "an overflown completion queue", t_overflow,
	  { .poll = IB_POLL_DIRECT, .scq = 4, .sq = 256 } },
	{ }
};
