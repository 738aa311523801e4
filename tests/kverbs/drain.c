// SPDX-License-Identifier: GPL-2.0
/* Draining QPs in use: when the call returns, the consumer has got every completion. */
#include <linux/delay.h>

#include "kverbs.h"

enum {
	LEN = 1 << 20,
	/* LEN bytes each: long enough that some are under way even if this thread loses the CPU. */
	READS = 40,
	/* Together more than the driver completes in one go, 64; and so are the receives. */
	SENDS = 40,
	RECVS = 70,
	QUEUE = 128,
	MESSAGE = 1000,
	/* Messages use the last bytes of the memory; the first ones show a Read in progress. */
	AT = LEN - MESSAGE,
};

/* Requests: Reads, Sends after them, and receives without a message. */
static struct req *reads(struct pair *p) { return p->r; }
static struct req *sends(struct pair *p) { return p->r + READS; }
static struct req *recvs(struct pair *p) { return p->r + READS + SENDS; }

/*
 * The client posts Reads and Sends; both ends have receives. When this
 * returns, the first bytes of the first Read have arrived, so Reads are under
 * way.
 */
static int work(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, LEN, IB_ACCESS_REMOTE_READ);
	unsigned long end = jiffies + TIME_LIMIT;
	struct ib_sge sge = sge_of(&p->c, 0, LEN);
	int i;

	EXPECT(mr, "no region\n");
	memset(p->s.m.p, 0x5a, LEN);
	for (i = 0; i < RECVS; i++)
		DO(post_recv(&p->c, recvs(p) + i, AT, MESSAGE));
	for (i = 0; i < RECVS; i++)
		DO(post_recv(&p->s, recvs(p) + RECVS + i, AT, MESSAGE));
	for (i = 0; i < READS; i++)
		DO(post_op(&p->c, reads(p) + i, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	sge = sge_of(&p->c, AT, MESSAGE);
	for (i = 0; i < SENDS; i++)
		DO(post_op(&p->c, sends(p) + i, IB_WR_SEND, 0, &sge, 0, 0));
	while (!READ_ONCE(*p->c.m.p)) {
		EXPECT(time_before(jiffies, end), "no byte of a Read\n");
		usleep_range(20, 50);
	}
	return 0;
}

/* Checks that @n requests completed: some with success, the rest flushed. Counts the rest. */
static int seen(struct req *r, int n, const char *what)
{
	int i, flushed = 0;

	for (i = 0; i < n; i++) {
		EXPECT(completion_done(&r[i].done), "%s %d of %d was not seen\n", what, i, n);
		EXPECT(r[i].wc.status == (flushed ? IB_WC_WR_FLUSH_ERR : IB_WC_SUCCESS) ||
		       r[i].wc.status == IB_WC_WR_FLUSH_ERR, "%s %d: status %d\n", what, i,
		       r[i].wc.status);
		flushed += r[i].wc.status == IB_WC_WR_FLUSH_ERR;
	}
	return flushed;
}

/* All send requests completed; some Reads among them were flushed. */
static int sends_seen(struct pair *p)
{
	/* Reads and Sends are consecutive in the array and in the queue. */
	int n = seen(reads(p), READS + SENDS, "request");

	if (n < 0)
		return n;
	EXPECT(n > SENDS, "only %d requests were flushed, so no Read\n", n);
	return 0;
}

static int recvs_seen(struct req *r)
{
	int n = seen(r, RECVS, "receive");

	if (n < 0)
		return n;
	EXPECT(n > 0, "no receive was flushed\n");
	return 0;
}

static int drain(struct end *e, void (*fn)(struct ib_qp *qp))
{
	unsigned long began = jiffies;
	uint ms;

	fn(qp_of(e));
	ms = jiffies_to_msecs(jiffies - began);
	EXPECT(ms <= drain_limit * 1000, "draining took %u ms\n", ms);
	return 0;
}

/* After draining, nothing writes to the consumer's memory any more. */
static int quiet(struct end *e)
{
	size_t i;

	memset(e->m.p, 0, e->m.len);
	msleep(100);
	for (i = 0; i < e->m.len; i++)
		EXPECT(!e->m.p[i], "byte %zu was written after draining\n", i);
	return 0;
}

static int t_drain_qp(struct pair *p)
{
	DO(work(p));
	DO(drain(&p->c, ib_drain_qp));
	DO(sends_seen(p));
	DO(recvs_seen(recvs(p)));
	DO(quiet(&p->c));
	return 0;
}

static int t_drain_sq(struct pair *p)
{
	DO(work(p));
	DO(drain(&p->c, ib_drain_sq));
	DO(sends_seen(p));
	DO(quiet(&p->c));
	return 0;
}

static int t_drain_rq(struct pair *p)
{
	DO(work(p));
	DO(drain(&p->c, ib_drain_rq));
	DO(recvs_seen(recvs(p)));
	/* The send queue can still be drained afterwards. */
	DO(drain(&p->c, ib_drain_sq));
	DO(sends_seen(p));
	return 0;
}

/* Drains the QP that responds to the Reads. */
static int t_drain_server(struct pair *p)
{
	DO(work(p));
	DO(drain(&p->s, ib_drain_qp));
	DO(recvs_seen(recvs(p) + RECVS));
	/* The client loses its connection, and its requests are flushed. */
	DO(wait_error(&p->c));
	DO(drain(&p->c, ib_drain_qp));
	DO(sends_seen(p));
	DO(recvs_seen(recvs(p)));
	return 0;
}

/* Receives of an SRQ are not flushed, except the one in use. */
static int t_drain_srq(struct pair *p)
{
	struct req *r = recvs(p) + RECVS;
	int i;

	DO(work(p));
	DO(drain(&p->s, ib_drain_qp));
	EXPECT(test_bit(IB_EVENT_QP_LAST_WQE_REACHED, &p->s.events), "no event\n");
	/* pair_close() would drain it again, and wait a minute for a second event. */
	rdma_destroy_qp(p->s.id);
	for (i = 1; i < RECVS; i++)
		EXPECT(!completion_done(&r[i].done) || r[i].wc.status == IB_WC_SUCCESS,
		       "shared receive %d: status %d\n", i, r[i].wc.status);
	return 0;
}

const struct test drain_tests[] = {
	{ "draining a QP completes its requests", t_drain_qp,
	  { .len = LEN, .sq = QUEUE, .rq = QUEUE } },
	{ "draining a QP completes its requests, polled by a workqueue", t_drain_qp,
	  { .poll = IB_POLL_WORKQUEUE, .len = LEN, .sq = QUEUE, .rq = QUEUE } },
	{ "draining a QP completes its requests, polled by the consumer", t_drain_qp,
	  { .poll = IB_POLL_DIRECT, .len = LEN, .sq = QUEUE, .rq = QUEUE } },
	{ "draining a QP completes its requests, with CQs of the pool", t_drain_qp,
	  { .len = LEN, .sq = QUEUE, .rq = QUEUE, .pool = true } },
	{ "draining a send queue completes its requests", t_drain_sq,
	  { .len = LEN, .sq = QUEUE, .rq = QUEUE } },
	{ "draining a receive queue completes its receives", t_drain_rq,
	  { .len = LEN, .sq = QUEUE, .rq = QUEUE } },
	{ "draining a QP that responds to Reads ends the connection", t_drain_server,
	  { .len = LEN, .sq = QUEUE, .rq = QUEUE } },
	{ "draining a QP leaves the SRQ's receives", t_drain_srq,
	  { .len = LEN, .sq = QUEUE, .rq = QUEUE, .srq = true } },
	{ }
};
