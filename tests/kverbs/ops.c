// SPDX-License-Identifier: GPL-2.0
/* Operations: messages with each way of polling, Reads with Invalidate, fences. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/math64.h>

#include "kverbs.h"

enum { LEN = 5000, ROUNDS = 20, TIMED = 1000 };

static int t_messages(struct pair *p)
{
	int i;

	for (i = 0; i < ROUNDS; i++)
		DO(message(p, LEN - i, i));
	return 0;
}

/* The processor of a completion vector: the vectors are those that were online, in order. */
static int cpu_of(struct end *e)
{
	return cpumask_nth(e->scq->comp_vector, cpu_online_mask);
}

/* The last message's completions were polled by the processors of the CQs' vectors. */
static int on_their_cpus(struct pair *p)
{
	struct req *s = &p->r[REQS - 2], *r = &p->r[REQS - 1];

	EXPECT(s->cpu == cpu_of(&p->c) && r->cpu == cpu_of(&p->s),
	       "polled by processors %d and %d, not %d and %d\n", s->cpu, r->cpu, cpu_of(&p->c),
	       cpu_of(&p->s));
	return 0;
}

/*
 * Prints how long a message takes until both completions were polled. Nothing is judged by it.
 * With KASAN the time tells nothing, and this would take a minute.
 */
static int timed(struct pair *p)
{
	u64 began = ktime_get_ns();
	int i;

	if (IS_ENABLED(CONFIG_KASAN))
		return 0;
	for (i = 0; i < TIMED; i++)
		DO(message(p, 64, i));
	pr_info("kverbs: # vectors %u and %u: %llu ns a message\n", p->c.scq->comp_vector,
		p->s.rcq->comp_vector, div_u64(ktime_get_ns() - began, TIMED));
	return 0;
}

static int t_messages_on_cpus(struct pair *p)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		DO(message(p, LEN - i, i));
		DO(on_their_cpus(p));
	}
	return 0;
}

/*
 * CQs on each completion vector, polled in each way: own CQs, and CQs of the
 * pool that the core keeps for a device. Those that are polled where the
 * handler was called are polled by the vector's processor.
 */
static int t_vectors(struct pair *p)
{
	static const enum ib_poll_context polls[] = {
		IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE, IB_POLL_DIRECT
	};
	struct opts o = { .len = LEN };
	int i, pool, n = p->c.id->device->num_comp_vectors;

	for (o.vector = 0; o.vector < n; o.vector++) {
		for (i = 0; i < ARRAY_SIZE(polls); i++) {
			/* The pool has no CQs for IB_POLL_DIRECT. */
			for (pool = 0; pool <= (polls[i] != IB_POLL_DIRECT); pool++) {
				o.poll = polls[i];
				o.pool = pool;
				DO(pair_open(p + 1, &o));
				if (polls[i] == IB_POLL_SOFTIRQ && !pool)
					DO(timed(p + 1));
				EXPECT(p[1].c.scq->comp_vector == o.vector &&
				       p[1].s.rcq->comp_vector == (o.vector + 1) % n,
				       "vectors %u and %u, not %d of %d\n",
				       p[1].c.scq->comp_vector, p[1].s.rcq->comp_vector,
				       o.vector, n);
				if (polls[i] == IB_POLL_SOFTIRQ || polls[i] == IB_POLL_WORKQUEUE)
					DO(t_messages_on_cpus(p + 1));
				else
					DO(t_messages(p + 1));
				pair_close(p + 1);
			}
		}
	}
	pr_info("kverbs: # %d vectors\n", n);
	return 0;
}

/*
 * The processor of a vector goes offline and comes back. No completion is lost,
 * and those that come after that are polled there again.
 */
static int t_offline(struct pair *p)
{
	int cpu = cpu_of(&p->s), i, ret;

	EXPECT(p->c.id->device->num_comp_vectors > 1 && cpu_of(&p->c) != cpu,
	       "the test needs two processors\n");
	for (i = 0; i < 3; i++) {
		DO(t_messages_on_cpus(p));
		DO(remove_cpu(cpu));
		ret = t_messages(p);
		DO(add_cpu(cpu));
		DO(ret);
	}
	DO(t_messages_on_cpus(p));
	return 0;
}

/* An RDMA Read with Invalidate of its sink. */
static int t_read_inv(struct pair *p)
{
	struct ib_mr *src = reg_plain(&p->s, LEN, IB_ACCESS_REMOTE_READ);
	struct ib_mr *sink = reg_plain(&p->c, LEN, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE);
	struct ib_sge sge;

	EXPECT(src && sink, "no regions\n");
	mem_fill(&p->s.m, 9);
	sge = (struct ib_sge) { sink->iova, LEN, sink->lkey };
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ_WITH_INV, 0, &sge, src->iova, src->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(mem_is(&p->c.m, 0, LEN, 9), "the Read has other data than the region\n");
	/* The sink is invalid: another Read to it is refused. */
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, src->iova, src->rkey));
	ENDS(&p->c, p->r, IB_WC_LOC_PROT_ERR);
	return 0;
}

/* A fenced Send carries the data of the Read before it. */
static int t_fence(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, 2 * PAGE_SIZE, IB_ACCESS_REMOTE_READ);
	struct req *rd = p->r, *s = p->r + 1, *r = p->r + 2;
	struct ib_sge sge = sge_of(&p->c, 0, 2 * PAGE_SIZE);
	int i;

	EXPECT(mr, "no region\n");
	for (i = 0; i < 50; i++) {
		mem_fill(&p->s.m, i);
		memset(p->c.m.p, 0, p->c.m.len);
		DO(post_recv(&p->s, r, 2 * PAGE_SIZE, 2 * PAGE_SIZE));
		DO(post_op(&p->c, rd, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
		DO(post_op(&p->c, s, IB_WR_SEND, IB_SEND_FENCE, &sge, 0, 0));
		DO(req_wait(&p->c, rd));
		DO(req_wait(&p->c, s));
		DO(req_wait(&p->s, r));
		EXPECT(mem_is(&p->s.m, 2 * PAGE_SIZE, 2 * PAGE_SIZE, i), "round %d\n", i);
	}
	return 0;
}

const struct test op_tests[] = {
	{ "messages arrive, polled in softirq", t_messages, { .len = LEN } },
	{ "messages arrive, polled by a workqueue", t_messages,
	  { .poll = IB_POLL_WORKQUEUE, .len = LEN } },
	{ "messages arrive, polled by the consumer", t_messages,
	  { .poll = IB_POLL_DIRECT, .len = LEN } },
	{ "CQs on each vector are polled in each way, by its processor", t_vectors, { } },
	{ "completions come while the processor of a vector is offline", t_offline,
	  { .len = LEN } },
	{ "Read with Invalidate reads, and invalidates its sink", t_read_inv, { .len = LEN } },
	{ "a fenced Send waits for the Read before it", t_fence, { .len = 4 * PAGE_SIZE } },
	{ }
};
