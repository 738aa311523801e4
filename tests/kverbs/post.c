// SPDX-License-Identifier: GPL-2.0
/* Posting in all contexts. */
#include <linux/hrtimer.h>

#include "kverbs.h"

enum { LEN = 500, CHAIN = 9 };

enum context { IRQS_OFF, BH_OFF, SOFTIRQ, HARDIRQ, CONTEXTS };

/* A call that does not sleep, out of another context. */
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
	/* Without more words a timer runs in interrupts, unless the kernel is PREEMPT_RT. */
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

/* Requests: first those of the client's sends, then those of the server's receives. */
static struct req *send_of(struct pair *p, u32 i)
{
	return &p->r[i];
}

static struct req *recv_of(struct pair *p, u32 i)
{
	return &p->r[CHAIN + i];
}

/* A receive has a part of the memory for itself. */
static int one_recv(struct pair *p, u32 i)
{
	return post_recv(&p->s, recv_of(p, i), i * LEN, LEN);
}

static int one_send(struct pair *p, u32 i)
{
	struct ib_sge sge = sge_of(&p->c, i * LEN, LEN);

	return post_op(&p->c, send_of(p, i), IB_WR_SEND, 0, &sge, 0, 0);
}

/* Whether the messages of @from to @to arrived, and those before are where they were. */
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

const struct test post_tests[] = {
	{ "posting in all contexts", t_contexts, { .len = CHAIN * LEN } },
	{ "posting in all contexts, shared receives", t_contexts,
	  { .len = CHAIN * LEN, .srq = true } },
	{ }
};
