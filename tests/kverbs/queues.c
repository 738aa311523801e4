// SPDX-License-Identifier: GPL-2.0
/* Queues: contexts of posting, ERROR and draining, shared receives, overflow. */
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/slab.h>

#include "kverbs.h"

enum { LEN = 1000, COUNT = 16 };

/* Posts out of a softirq of a timer. */
struct in_softirq {
	struct hrtimer timer;
	struct end *e;
	struct mem *m;
	struct req *r;
	struct completion done;
	int ret;
};

static enum hrtimer_restart post_in_softirq(struct hrtimer *timer)
{
	struct in_softirq *x = container_of(timer, struct in_softirq, timer);
	struct ib_sge sge = sge_of(x->e, x->m, 0, LEN);

	x->ret = post_op(x->e, x->r, IB_WR_SEND, 0, &sge, 0, 0);
	complete(&x->done);
	return HRTIMER_NORESTART;
}

static int t_contexts(void)
{
	struct pair *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct mem c = {}, s = {};
	struct in_softirq x = {};
	struct ib_sge sge;
	unsigned long flags;
	struct req sr, rr;
	int i, ret;

	if (!p)
		return -ENOMEM;
	DO(pair_open(p, NULL));
	DO(mem_new(&c, p->c.id->device, LEN));
	DO(mem_new(&s, p->s.id->device, LEN));
	for (i = 0; i < 3; i++) {
		mem_fill(&c, 40 + i);
		DO(post_recv(&p->s, &rr, &s, 0, LEN));
		sge = sge_of(&p->c, &c, 0, LEN);
		if (i == 0) {
			local_irq_save(flags);
			ret = post_op(&p->c, &sr, IB_WR_SEND, 0, &sge, 0, 0);
			local_irq_restore(flags);
		} else if (i == 1) {
			local_bh_disable();
			ret = post_op(&p->c, &sr, IB_WR_SEND, 0, &sge, 0, 0);
			local_bh_enable();
		} else {
			x.e = &p->c;
			x.m = &c;
			x.r = &sr;
			init_completion(&x.done);
			hrtimer_setup_on_stack(&x.timer, post_in_softirq, CLOCK_MONOTONIC,
					       HRTIMER_MODE_REL_SOFT);
			hrtimer_start(&x.timer, ms_to_ktime(2), HRTIMER_MODE_REL_SOFT);
			wait_for_completion(&x.done);
			hrtimer_cancel(&x.timer);
			destroy_hrtimer_on_stack(&x.timer);
			ret = x.ret;
		}
		DO(ret);
		DO(req_wait(&p->c, &sr));
		DO(req_wait(&p->s, &rr));
		EXPECT(mem_is(&s, 0, LEN, 40 + i), "context %d\n", i);
	}
out:
	pair_close(p);
	mem_free(&c);
	mem_free(&s);
	kfree(p);
	return ret;
}

/* In ERROR, everything comes back as flushed, what is posted then as well. */
static int t_error(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct pair *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct req *r = kcalloc(2 * COUNT, sizeof(*r), GFP_KERNEL);
	struct mem s = {};
	struct ib_sge sge;
	int i, ret = -ENOMEM;

	if (!p || !r)
		goto none;
	DO(pair_open(p, NULL));
	DO(mem_new(&s, p->s.id->device, LEN));
	for (i = 0; i < COUNT; i++)
		DO(post_recv(&p->s, &r[i], &s, 0, LEN));
	DO(ib_modify_qp(qp_of(&p->s), &attr, IB_QP_STATE));
	for (i = 0; i < COUNT; i++) {
		ret = req_wait(&p->s, &r[i]);
		EXPECT(ret == IB_WC_WR_FLUSH_ERR, "receive %d: status %d\n", i, ret);
	}
	sge = sge_of(&p->s, &s, 0, LEN);
	for (i = 0; i < COUNT; i++) {
		if (i % 2)
			DO(post_recv(&p->s, &r[i], &s, 0, LEN));
		else
			DO(post_op(&p->s, &r[i], IB_WR_SEND, 0, &sge, 0, 0));
	}
	for (i = 0; i < COUNT; i++) {
		ret = req_wait(&p->s, &r[i]);
		EXPECT(ret == IB_WC_WR_FLUSH_ERR, "request %d: status %d\n", i, ret);
	}
	ret = 0;
out:
	pair_close(p);
	mem_free(&s);
none:
	kfree(r);
	kfree(p);
	return ret;
}

/* The queue says when it is full, and has room again after completions. */
static int t_full(void)
{
	struct opts o = { .poll = IB_POLL_DIRECT, .sq = COUNT };
	struct pair *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct req *r = kcalloc(1000, sizeof(*r), GFP_KERNEL);
	struct mem c = {};
	struct ib_sge sge;
	struct req one;
	int i, n, round, ret = -ENOMEM;

	if (!p || !r)
		goto none;
	DO(pair_open(p, &o));
	DO(mem_new(&c, p->c.id->device, LEN));
	sge = sge_of(&p->c, &c, 0, 0);
	for (round = 0; round < 3; round++) {
		/* Writes of no bytes name no memory. With interrupts off nothing completes. */
		unsigned long flags;

		local_irq_save(flags);
		for (n = 0; n < 1000; n++) {
			ret = post_op(&p->c, &r[n], IB_WR_RDMA_WRITE, 0, &sge, 0, 0);
			if (ret)
				break;
		}
		local_irq_restore(flags);
		EXPECT(ret == -ENOMEM && n >= COUNT && n < 1000, "%d posted: %d\n", n, ret);
		for (i = 0; i < n; i++)
			DO(req_wait(&p->c, &r[i]));
	}
	DO(post_op(&p->c, &one, IB_WR_RDMA_WRITE, 0, &sge, 0, 0));
	DO(req_wait(&p->c, &one));
out:
	pair_close(p);
	mem_free(&c);
none:
	kfree(r);
	kfree(p);
	return ret;
}

/* Receives of a shared queue; the last of a QP's is told when that is in ERROR. */
static int t_srq(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct opts o = { .poll = IB_POLL_WORKQUEUE, .srq = true };
	struct pair *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct req *r = kcalloc(COUNT, sizeof(*r), GFP_KERNEL);
	struct mem c = {}, s = {};
	struct ib_sge sge;
	struct req sr;
	int i, ret = -ENOMEM;

	if (!p || !r)
		goto none;
	DO(pair_open(p, &o));
	DO(mem_new(&c, p->c.id->device, LEN));
	DO(mem_new(&s, p->s.id->device, LEN));
	for (i = 0; i < COUNT; i++)
		DO(post_recv(&p->s, &r[i], &s, 0, LEN));
	sge = sge_of(&p->c, &c, 0, LEN);
	for (i = 0; i < COUNT / 2; i++) {
		mem_fill(&c, i);
		DO(post_op(&p->c, &sr, IB_WR_SEND, 0, &sge, 0, 0));
		DO(req_wait(&p->c, &sr));
		DO(req_wait(&p->s, &r[i]));
		EXPECT(mem_is(&s, 0, LEN, i), "message %d\n", i);
	}
	DO(ib_modify_qp(qp_of(&p->s), &attr, IB_QP_STATE));
	for (i = 0; i < 200 && !test_bit(IB_EVENT_QP_LAST_WQE_REACHED, &p->s.events); i++)
		msleep(20);
	EXPECT(test_bit(IB_EVENT_QP_LAST_WQE_REACHED, &p->s.events), "no event\n");
	/* The others stay in the queue for others. */
	EXPECT(!try_wait_for_completion(&r[COUNT / 2].done), "a shared receive was flushed\n");
out:
	pair_close(p);
	mem_free(&c);
	mem_free(&s);
none:
	kfree(r);
	kfree(p);
	return ret;
}

/* More completions than entries: the QP ends with it, and nothing else does. */
static int t_overflow(void)
{
	struct opts o = { .poll = IB_POLL_DIRECT, .scq = 4, .sq = 256 };
	struct pair *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct req *r = kcalloc(64, sizeof(*r), GFP_KERNEL);
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct ib_sge sge = {};
	int i, ret = -ENOMEM;

	if (!p || !r)
		goto none;
	DO(pair_open(p, &o));
	for (i = 0; i < 64; i++) {
		ret = post_op(&p->c, &r[i], IB_WR_RDMA_WRITE, 0, &sge, 0, 0);
		if (ret)
			break;
	}
	for (i = 0; i < 200; i++) {
		DO(ib_query_qp(qp_of(&p->c), &attr, IB_QP_STATE, &init));
		if (attr.qp_state == IB_QPS_ERR)
			break;
		msleep(20);
	}
	EXPECT(attr.qp_state == IB_QPS_ERR, "state %d\n", attr.qp_state);
	ret = 0;
	/* Draining needs completions, which this queue has lost. */
	rdma_destroy_qp(p->c.id);
out:
	pair_close(p);
none:
	kfree(r);
	kfree(p);
	return ret;
}

const struct test queue_tests[] = {
	{ "posting with interrupts off, without softirqs, in softirq", t_contexts },
	{ "ERROR", t_error },
	{ "a full queue", t_full },
	{ "shared receives", t_srq },
	{ "an overflown completion queue", t_overflow },
	{ }
};
