// SPDX-License-Identifier: GPL-2.0
/* Posting requests: in all contexts, and in chains. */
#include <linux/hrtimer.h>

#include "kverbs.h"

enum { LEN = 500, CHAIN = 9, MIDDLE = 4, DEPTH = 64 };

enum context { IRQS_OFF, BH_OFF, SOFTIRQ, HARDIRQ, CONTEXTS };

/* A call that must not sleep, made in another context. */
struct call {
	struct hrtimer timer;
	int (*fn)(struct pair *p, u32 arg);
	struct pair *p;
	u32 arg;
	int ret;
	struct completion done;
};

static enum hrtimer_restart in_timer(struct hrtimer *timer)
{
	struct call *c = container_of(timer, struct call, timer);

	c->ret = c->fn(c->p, c->arg);
	complete(&c->done);
	return HRTIMER_NORESTART;
}

static int in_context(enum context context, int (*fn)(struct pair *p, u32 arg), struct pair *p,
		      u32 arg)
{
	/* HRTIMER_MODE_REL runs in hard interrupts, except on PREEMPT_RT. */
	enum hrtimer_mode mode = context == SOFTIRQ ? HRTIMER_MODE_REL_SOFT : HRTIMER_MODE_REL;
	struct call c = { .fn = fn, .p = p, .arg = arg };
	unsigned long flags;

	switch (context) {
	case IRQS_OFF:
		local_irq_save(flags);
		c.ret = fn(p, arg);
		local_irq_restore(flags);
		break;
	case BH_OFF:
		local_bh_disable();
		c.ret = fn(p, arg);
		local_bh_enable();
		break;
	default:
		init_completion(&c.done);
		hrtimer_setup_on_stack(&c.timer, in_timer, CLOCK_MONOTONIC, mode);
		hrtimer_start(&c.timer, ms_to_ktime(2), mode);
		wait_for_completion(&c.done);
		hrtimer_cancel(&c.timer);
		destroy_hrtimer_on_stack(&c.timer);
	}
	return c.ret;
}

/* Array of requests: first the client's sends, then the server's receives. */
static struct req *send_of(struct pair *p, u32 i)
{
	return &p->r[i];
}

static struct req *recv_of(struct pair *p, u32 i)
{
	return &p->r[CHAIN + i];
}

/* Each receive has its own part of the memory. */
static int one_recv(struct pair *p, u32 i)
{
	return post_recv(&p->s, recv_of(p, i), i * LEN, LEN);
}

static int one_send(struct pair *p, u32 i)
{
	struct ib_sge sge = sge_of(&p->c, i * LEN, LEN);

	return post_op(&p->c, send_of(p, i), IB_WR_SEND, 0, &sge, 0, 0);
}

/* Checks that messages @from to @to arrived, and that earlier ones are unchanged. */
static int arrived(struct pair *p, u32 from, u32 to)
{
	u32 i;

	for (i = from; i < to; i++) {
		DO(req_wait(&p->c, send_of(p, i)));
		DO(req_wait(&p->s, recv_of(p, i)));
		EXPECT(recv_of(p, i)->wc.byte_len == LEN, "%u bytes\n", recv_of(p, i)->wc.byte_len);
	}
	EXPECT(!memcmp(p->s.m.p, p->c.m.p, to * LEN), "other bytes\n");
	return 0;
}

static void begin(struct pair *p, u8 seed)
{
	mem_fill(&p->c.m, seed);
	memset(p->s.m.p, 0, p->s.m.len);
}

static int t_contexts(struct pair *p)
{
	enum context x;
	u32 i;

	for (x = 0; x < CONTEXTS; x++) {
		begin(p, x);
		for (i = 0; i < 3; i++)
			DO(in_context(x, one_recv, p, i));
		for (i = 0; i < 3; i++)
			DO(in_context(x, one_send, p, i));
		DO(arrived(p, 0, 3));
	}
	return 0;
}

/*
 * Posts a chain of receives, in which the one with index @bad has too many
 * elements. Returns the index of bad_wr, or CHAIN if all are posted.
 */
static int chain_recv(struct pair *p, u32 bad)
{
	struct ib_recv_wr wr[CHAIN] = {};
	const struct ib_recv_wr *said = NULL;
	struct ib_sge sge[CHAIN + MAX_SGE];
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = sge_of(&p->s, i % CHAIN * LEN, LEN);
	for (i = 0; i < CHAIN; i++) {
		req_init(recv_of(p, i));
		wr[i].wr_cqe = &recv_of(p, i)->cqe;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = i == bad ? MAX_SGE + 1 : 1;
		wr[i].next = i + 1 < CHAIN ? &wr[i + 1] : NULL;
	}
	if (p->s.srq)
		ret = ib_post_srq_recv(p->s.srq, wr, &said);
	else
		ret = ib_post_recv(qp_of(&p->s), wr, &said);
	if (!ret)
		return said ? -EBADMSG : CHAIN;
	return said ? said - wr : ret;
}

/* As above, with sends. */
static int chain_send(struct pair *p, u32 bad)
{
	struct ib_send_wr wr[CHAIN] = {};
	const struct ib_send_wr *said = NULL;
	struct ib_sge sge[CHAIN + MAX_SGE];
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = sge_of(&p->c, i % CHAIN * LEN, LEN);
	for (i = 0; i < CHAIN; i++) {
		req_init(send_of(p, i));
		wr[i].wr_cqe = &send_of(p, i)->cqe;
		wr[i].opcode = IB_WR_SEND;
		wr[i].send_flags = IB_SEND_SIGNALED;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = i == bad ? MAX_SGE + 1 : 1;
		wr[i].next = i + 1 < CHAIN ? &wr[i + 1] : NULL;
	}
	ret = ib_post_send(qp_of(&p->c), wr, &said);
	if (!ret)
		return said ? -EBADMSG : CHAIN;
	return said ? said - wr : ret;
}

static int t_chains(struct pair *p)
{
	enum context x;
	int n;

	for (x = 0; x < CONTEXTS; x++) {
		begin(p, 10 + x);
		n = in_context(x, chain_recv, p, CHAIN);
		EXPECT(n == CHAIN, "receives: %d\n", n);
		n = in_context(x, chain_send, p, CHAIN);
		EXPECT(n == CHAIN, "sends: %d\n", n);
		DO(arrived(p, 0, CHAIN));
	}
	return 0;
}

/* Requests before a bad one are posted; the bad one and those after it are not. */
static int t_bad(struct pair *p)
{
	enum context x;
	u32 i;
	int n;

	for (x = 0; x < CONTEXTS; x++) {
		begin(p, 20 + x);
		n = in_context(x, chain_recv, p, MIDDLE);
		EXPECT(n == MIDDLE, "receives: %d\n", n);
		/* If more receives had been posted, these would be too late for the messages. */
		for (i = MIDDLE; i < CHAIN; i++)
			DO(one_recv(p, i));
		n = in_context(x, chain_send, p, MIDDLE);
		EXPECT(n == MIDDLE, "sends: %d\n", n);
		DO(arrived(p, 0, MIDDLE));
		for (i = MIDDLE; i < CHAIN; i++)
			EXPECT(!completion_done(&send_of(p, i)->done), "request %u is posted\n", i);
		/* If more messages had been sent, these would find no receive. */
		for (i = MIDDLE; i < CHAIN; i++)
			DO(one_send(p, i));
		DO(arrived(p, MIDDLE, CHAIN));
	}
	return 0;
}

/* Chains until the queue is full: the first request that does not fit is bad_wr. */
static int t_no_place(struct pair *p)
{
	int i, n, sum = 0;

	do {
		n = chain_recv(p, CHAIN);
		EXPECT(n >= 0, "%d\n", n);
		sum += n;
	} while (n == CHAIN && sum < 4 * DEPTH);
	EXPECT(sum == DEPTH, "%d receives\n", sum);
	/* All posted receives are used, and their entries are free afterwards. */
	for (i = 0; i < DEPTH; i++) {
		DO(one_send(p, 0));
		DO(req_wait(&p->c, send_of(p, 0)));
	}
	n = chain_recv(p, CHAIN);
	EXPECT(n == CHAIN, "%d\n", n);
	return 0;
}

/* A chain as storage drivers post it: an invalidation, a registration, and a message about that. */
static int mixed(struct pair *p, u32 key)
{
	struct ib_mr *mr = p->c.mr[0];
	struct ib_sge sge = sge_of(&p->c, 0, LEN);
	struct ib_send_wr inv = {
		.wr_cqe = &send_of(p, 0)->cqe,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};
	struct ib_reg_wr reg = { .mr = mr, .access = REMOTE };
	struct ib_send_wr send = {
		.wr_cqe = &send_of(p, 2)->cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};
	u32 i;

	for (i = 0; i < 3; i++)
		req_init(send_of(p, i));
	ib_update_fast_reg_key(mr, ib_inc_rkey(key));
	reg.key = mr->rkey;
	reg.wr.opcode = IB_WR_REG_MR;
	reg.wr.send_flags = IB_SEND_SIGNALED;
	reg.wr.wr_cqe = &send_of(p, 1)->cqe;
	inv.next = &reg.wr;
	reg.wr.next = &send;
	return ib_post_send(qp_of(&p->c), &inv, NULL);
}

static int t_mixed(struct pair *p)
{
	static const enum ib_wc_opcode kinds[] = { IB_WC_LOCAL_INV, IB_WC_REG_MR, IB_WC_SEND };
	struct ib_mr *mr = reg_plain(&p->c, LEN, REMOTE);
	struct req *r = &p->r[2 * CHAIN];
	struct ib_sge sge;
	enum context x;
	u32 i;

	EXPECT(mr, "no region\n");
	for (x = 0; x < CONTEXTS; x++) {
		begin(p, 30 + x);
		DO(one_recv(p, 0));
		DO(in_context(x, mixed, p, mr->rkey));
		DO(req_wait(&p->s, recv_of(p, 0)));
		for (i = 0; i < 3; i++) {
			DO(req_wait(&p->c, send_of(p, i)));
			EXPECT(send_of(p, i)->wc.opcode == kinds[i], "opcode %d\n",
			       send_of(p, i)->wc.opcode);
		}
		/* The server accesses the region. */
		sge = sge_of(&p->s, LEN, LEN);
		DO(post_op(&p->s, r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
		DO(req_wait(&p->s, r));
		EXPECT(mem_is(&p->s.m, LEN, LEN, 30 + x), "other bytes\n");
	}
	return 0;
}

const struct test post_tests[] = {
	{ "requests can be posted in all contexts", t_contexts, { .len = CHAIN * LEN } },
	{ "requests can be posted in all contexts, with an SRQ", t_contexts,
	  { .len = CHAIN * LEN, .srq = true } },
	{ "chains of requests complete", t_chains, { .len = CHAIN * LEN } },
	{ "chains of requests complete, with an SRQ", t_chains,
	  { .poll = IB_POLL_WORKQUEUE, .len = CHAIN * LEN, .srq = true } },
	{ "a chain is posted up to a bad request", t_bad, { .len = CHAIN * LEN } },
	{ "a chain is posted up to a bad request, with an SRQ", t_bad,
	  { .poll = IB_POLL_WORKQUEUE, .len = CHAIN * LEN, .srq = true } },
	{ "a chain is posted until the queue is full", t_no_place,
	  { .poll = IB_POLL_DIRECT, .len = CHAIN * LEN, .rq = DEPTH } },
	{ "a chain is posted until the queue is full, with an SRQ", t_no_place,
	  { .poll = IB_POLL_DIRECT, .len = CHAIN * LEN, .srq = true } },
	{ "a chain with a registration completes", t_mixed, { .len = CHAIN * LEN } },
	{ }
};
