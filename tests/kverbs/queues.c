// SPDX-License-Identifier: GPL-2.0
/* Queues: ERROR state, full queue, SRQ, overflow; queries; no completion call after a QP's end. */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "kverbs.h"

enum { LEN = 1000, COUNT = 16 };

/* In ERROR all requests are flushed, also those posted later. */
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

/* A full queue refuses a post, and accepts one again after completions. */
static int t_full(struct pair *p)
{
	struct ib_sge sge = sge_of(&p->c, 0, 0);
	int i, n, round, ret = 0;
	unsigned long flags;

	for (round = 0; round < 3; round++) {
		/* Zero-length Writes need no memory. With interrupts off none completes. */
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

/* An SRQ's receives, and the event LAST_WQE_REACHED when the QP is in ERROR. */
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
	/* Unused receives stay in the SRQ. */
	EXPECT(!try_wait_for_completion(&r[COUNT / 2].done), "a shared receive was flushed\n");
	return 0;
}

/* More completions than entries: the QP ends, and nothing else does. */
static int t_overflow(struct pair *p)
{
	struct ib_sge sge = {};
	int i;

	for (i = 0; i < 64; i++)
		if (post_op(&p->c, &p->r[i], IB_WR_RDMA_WRITE, 0, &sge, 0, 0))
			break;
	DO(wait_error(&p->c));
	/* Destroy the QP without draining it, which needs completions that the CQ has lost. */
	rdma_destroy_qp(p->c.id);
	return 0;
}

/* The structures that a query fills. The core does not clear them, but copies them to processes. */
struct answer {
	struct ib_qp_attr attr;
	struct ib_qp_init_attr init;
};

static int query(struct pair *p, struct answer *a)
{
	const u8 junk = 0xa5;

	memset(a, junk, sizeof(*a));
	DO(ib_query_qp(qp_of(&p->c), &a->attr, 0, &a->init));
	EXPECT(a->attr.qp_state == IB_QPS_RTS && a->attr.port_num == 1, "state %d\n",
	       a->attr.qp_state);
	EXPECT(a->init.send_cq == p->c.scq && a->init.qp_type == IB_QPT_RC, "not this QP\n");
	/* Attributes that iWARP does not use are zero. */
	EXPECT(!memchr_inv(&a->attr.ah_attr, 0, sizeof(a->attr.ah_attr)), "ah_attr\n");
	EXPECT(!memchr_inv(&a->attr.alt_ah_attr, 0, sizeof(a->attr.alt_ah_attr)), "alt_ah_attr\n");
	EXPECT(!a->attr.path_mig_state && !a->attr.qkey && !a->attr.rq_psn && !a->attr.sq_psn &&
	       !a->attr.dest_qp_num && !a->attr.pkey_index && !a->attr.alt_pkey_index &&
	       !a->attr.en_sqd_async_notify && !a->attr.sq_draining && !a->attr.min_rnr_timer &&
	       !a->attr.timeout && !a->attr.retry_cnt && !a->attr.rnr_retry &&
	       !a->attr.alt_port_num && !a->attr.alt_timeout && !a->attr.rate_limit,
	       "an attribute was not set\n");
	EXPECT(!a->init.xrcd && !a->init.create_flags && !a->init.rwq_ind_tbl &&
	       !a->init.source_qpn, "an attribute of the creation was not set\n");
	return 0;
}

static int t_query(struct pair *p)
{
	struct answer *a = kmalloc_obj(*a);
	int ret = a ? query(p, a) : -ENOMEM;

	kfree(a);
	return ret;
}

/* Counts all calls of a completion handler, those after the QP's end, and by another processor. */
struct watch {
	bool gone;
	int cpu, calls, late, elsewhere;
};

static void called(struct ib_cq *cq, void *context)
{
	struct watch *w = context;

	/* Long enough that ib_destroy_qp() returns first, if it does not wait. */
	mdelay(1);
	w->calls++;
	w->elsewhere += raw_smp_processor_id() != w->cpu;
	w->late += READ_ONCE(w->gone);
}

/* Destroys a QP immediately after a receive, whose completion handler is still to be called. */
static int end_at_once(struct end *e, struct watch *w, struct ib_cq *cq)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_recv_wr wr = { .wr_id = 7 };
	int ret, calls = w->calls;
	struct ib_qp *qp;
	struct ib_wc wc;

	qp = ib_create_qp(e->pd, &init);
	DO(PTR_ERR_OR_ZERO(qp));
	w->gone = false;
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE) ?: ib_req_notify_cq(cq, IB_CQ_NEXT_COMP) ?:
	      ib_post_recv(qp, &wr, NULL);
	DO(ib_destroy_qp(qp));
	WRITE_ONCE(w->gone, true);
	DO(ret);
	EXPECT(w->calls == calls + 1, "%d calls\n", w->calls - calls);
	EXPECT(ib_poll_cq(cq, 1, &wc) == 1 && wc.status == IB_WC_WR_FLUSH_ERR, "no completion\n");
	return 0;
}

static int last_call(struct pair *p, int vector)
{
	struct ib_cq_init_attr attr = { .cqe = 4, .comp_vector = vector };
	struct watch w = { .cpu = cpumask_nth(vector, cpu_online_mask) };
	struct ib_cq *cq;
	int i, ret = 0;

	cq = ib_create_cq(p->c.id->device, called, NULL, &w, &attr);
	DO(PTR_ERR_OR_ZERO(cq));
	for (i = 0; i < 100 && !ret; i++)
		ret = end_at_once(&p->c, &w, cq);
	msleep(20);
	ib_destroy_cq(cq);
	EXPECT(!w.late, "%d calls after the end\n", w.late);
	EXPECT(!w.elsewhere, "%d calls by another processor than %d\n", w.elsewhere, w.cpu);
	return ret;
}

/*
 * No completion handler is called for a QP after it was destroyed, and no call
 * is lost, whichever processor makes it.
 */
static int t_last_call(struct pair *p)
{
	int vector;

	for (vector = 0; vector < p->c.id->device->num_comp_vectors; vector++)
		DO(last_call(p, vector));
	return 0;
}

/* A queue whose handler takes some time, and how it was called. */
struct slow {
	struct ib_pd *pd;
	struct ib_cq *cq;
	atomic_t running, left;
	struct completion done;
	int calls, nested, error;
};

static void slow_handler(struct ib_cq *cq, void *context)
{
	u64 end = ktime_get_ns() + 50 * NSEC_PER_USEC;
	struct slow *s = context;

	WRITE_ONCE(s->calls, s->calls + 1);
	if (atomic_inc_return(&s->running) != 1)
		WRITE_ONCE(s->nested, s->nested + 1);
	/* From here on another call may come, and has to wait. */
	ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	while (ktime_get_ns() < end)
		cpu_relax();
	atomic_dec(&s->running);
}

/* Has receives of a QP in ERROR flushed, one after the other. */
static int flushes(struct slow *s)
{
	struct ib_qp_init_attr init = {
		.send_cq = s->cq, .recv_cq = s->cq, .qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = { .max_send_wr = 1, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_recv_wr wr = { .wr_id = 7 };
	struct ib_qp *qp;
	struct ib_wc wc;
	int i, ret;

	qp = ib_create_qp(s->pd, &init);
	DO(PTR_ERR_OR_ZERO(qp));
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE);
	for (i = 0; i < 300 && !ret; i++) {
		ret = ib_post_recv(qp, &wr, NULL);
		while (ib_poll_cq(s->cq, 1, &wc) > 0)
			;
		/* A worker calls the handler, as a consumer may post with locks held. */
		usleep_range(20, 60);
	}
	DO(ib_destroy_qp(qp));
	return ret;
}

static int flushing(void *context)
{
	struct slow *s = context;
	int ret = flushes(s);

	if (ret)
		WRITE_ONCE(s->error, ret);
	if (atomic_dec_and_test(&s->left))
		complete(&s->done);
	return 0;
}

/* Both processors complete receives to one queue, whose handler does not nest. */
static int t_no_nesting(struct pair *p)
{
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct slow s = { .pd = p->c.pd };
	struct task_struct *thread;
	int cpu, missing;

	init_completion(&s.done);
	s.cq = ib_create_cq(p->c.id->device, slow_handler, NULL, &s, &attr);
	DO(PTR_ERR_OR_ZERO(s.cq));
	DO(ib_req_notify_cq(s.cq, IB_CQ_NEXT_COMP));
	atomic_set(&s.left, num_online_cpus());
	missing = num_online_cpus();
	for_each_online_cpu(cpu) {
		thread = kthread_run_on_cpu(flushing, &s, cpu, "kverbs/%u");
		if (IS_ERR(thread))
			break;
		missing--;
	}
	if (!missing || !atomic_sub_and_test(missing, &s.left))
		wait_for_completion(&s.done);
	ib_destroy_cq(s.cq);
	EXPECT(!missing && !s.error, "%d threads missing, error %d\n", missing, s.error);
	EXPECT(s.calls > 50, "%d calls\n", s.calls);
	EXPECT(!s.nested, "%d of %d calls within another\n", s.nested, s.calls);
	return 0;
}

const struct test queue_tests[] = {
	{ "a query sets every attribute", t_query, { } },
	{ "no completion handler is called after a QP's end", t_last_call, { } },
	{ "a completion handler is called once at a time", t_no_nesting, { } },
	{ "a QP in ERROR flushes its requests", t_error, { } },
	{ "a full queue refuses a request", t_full, { .poll = IB_POLL_DIRECT, .sq = COUNT } },
	{ "an SRQ keeps unused receives when its QP ends", t_srq,
	  { .poll = IB_POLL_WORKQUEUE, .srq = true } },
	{ "a CQ overflow ends the QP", t_overflow,
	  { .poll = IB_POLL_DIRECT, .scq = 4, .sq = 256 } },
	{ }
};
