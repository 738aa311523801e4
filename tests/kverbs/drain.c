// SPDX-License-Identifier: GPL-2.0
/* Draining in the middle of work: when it returns, every completion was seen. */
#include <linux/delay.h>

#include "kverbs.h"

enum {
	LEN = 1 << 20,
	/* Of LEN each: they take longer than this thread may have to wait for the processor. */
	READS = 40,
	SENDS = 16,
	RECVS = 32,
	MESSAGE = 1000,
	/* Messages come from and go to the last bytes; the first ones tell of Reads. */
	AT = LEN - MESSAGE,
};

/* Requests: Reads, the Sends behind them, and receives that nothing is for. */
static struct req *reads(struct pair *p) { return p->r; }
static struct req *sends(struct pair *p) { return p->r + READS; }
static struct req *recvs(struct pair *p) { return p->r + READS + SENDS; }

/*
 * The client reads from the server, more than a moment's worth, and posts
 * Sends; both ends have receives. When this returns, the first bytes of the
 * first Read are there, so it is under way.
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

/* Of @n requests, each was seen: first good ones, then flushed ones. How many are of these. */
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

/* What was there to be sent, and to be received, was seen, and not all of it is done. */
static int sends_seen(struct pair *p)
{
	/* One behind the other in memory, and in the queue. */
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

/* What is drained is over: the memory is the consumer's again. */
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
	/* The other one is for a drain of its own, also now. */
	DO(drain(&p->c, ib_drain_sq));
	DO(sends_seen(p));
	return 0;
}

/* The end that answers the Reads. */
static int t_drain_server(struct pair *p)
{
	DO(work(p));
	DO(drain(&p->s, ib_drain_qp));
	DO(recvs_seen(recvs(p) + RECVS));
	/* The client loses its connection, and what it has posted with it. */
	DO(wait_error(&p->c));
	DO(drain(&p->c, ib_drain_qp));
	DO(sends_seen(p));
	DO(recvs_seen(recvs(p)));
	return 0;
}

/* Shared receives stay, but for the one that was being filled. */
static int t_drain_srq(struct pair *p)
{
	struct req *r = recvs(p) + RECVS;
	int i;

	DO(work(p));
	DO(drain(&p->s, ib_drain_qp));
	EXPECT(test_bit(IB_EVENT_QP_LAST_WQE_REACHED, &p->s.events), "no event\n");
	/* The event comes once; the core would wait a minute for another one to drain it again. */
	rdma_destroy_qp(p->s.id);
	for (i = 1; i < RECVS; i++)
		EXPECT(!completion_done(&r[i].done) || r[i].wc.status == IB_WC_SUCCESS,
		       "shared receive %d: status %d\n", i, r[i].wc.status);
	return 0;
}

const struct test drain_tests[] = {
	{ "draining a QP", t_drain_qp, { .len = LEN } },
	{ "draining a QP, polled by a work queue", t_drain_qp,
	  { .poll = IB_POLL_WORKQUEUE, .len = LEN } },
	{ "draining a QP, polled by the consumer", t_drain_qp,
	  { .poll = IB_POLL_DIRECT, .len = LEN } },
	{ "draining a QP, with queues of the pool", t_drain_qp,
	  { .len = LEN, .pool = true } },
	{ "draining a send queue", t_drain_sq, { .len = LEN } },
	{ "draining a receive queue", t_drain_rq, { .len = LEN } },
	{ "draining a QP that answers", t_drain_server, { .len = LEN } },
	{ "draining a QP with shared receives", t_drain_srq, { .len = LEN, .srq = true } },
	{ }
};
