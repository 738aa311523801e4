// SPDX-License-Identifier: GPL-2.0
/* Operations: messages, registrations by work request, invalidation, fences. */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "kverbs.h"

enum {
	LEN = 5000,
	REMOTE = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
};

/* Both ends, a buffer each. */
struct world {
	struct pair p;
	struct mem c, s;
};

static int world_open(struct world *w, const struct opts *o, size_t len)
{
	int ret = pair_open(&w->p, o);

	memset(&w->c, 0, sizeof(w->c));
	memset(&w->s, 0, sizeof(w->s));
	ret = ret ?: mem_new(&w->c, w->p.c.id->device, len);
	return ret ?: mem_new(&w->s, w->p.s.id->device, len);
}

static void world_close(struct world *w)
{
	pair_close(&w->p);
	mem_free(&w->c);
	mem_free(&w->s);
}

static int send_by(enum ib_poll_context poll)
{
	struct opts o = { .poll = poll, .vector = poll == IB_POLL_SOFTIRQ };
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct req s, r;
	struct ib_sge sge;
	int i, ret;

	if (!w)
		return -ENOMEM;
	DO(world_open(w, &o, 2 * LEN));
	for (i = 0; i < 20; i++) {
		mem_fill(&w->c, i);
		DO(post_recv(&w->p.s, &r, &w->s, i, LEN));
		sge = sge_of(&w->p.c, &w->c, 0, LEN - i);
		DO(post_op(&w->p.c, &s, IB_WR_SEND, 0, &sge, 0, 0));
		DO(req_wait(&w->p.c, &s));
		DO(req_wait(&w->p.s, &r));
		EXPECT(r.wc.byte_len == LEN - i && r.wc.opcode == IB_WC_RECV, "%u bytes\n",
		       r.wc.byte_len);
		EXPECT(mem_is(&w->s, i, LEN - i, i), "round %d\n", i);
	}
out:
	world_close(w);
	kfree(w);
	return ret;
}

static int t_softirq(void) { return send_by(IB_POLL_SOFTIRQ); }
static int t_workqueue(void) { return send_by(IB_POLL_WORKQUEUE); }
static int t_direct(void) { return send_by(IB_POLL_DIRECT); }

/* A region of @pages pages of @m, beginning @skip bytes into the first. */
static int map(struct end *e, struct mem *m, u32 skip, u32 pages, struct ib_mr **res)
{
	u32 n = pages * PAGE_SIZE - skip;
	struct scatterlist *sg, *table;
	struct ib_mr *mr;
	u32 i;

	mr = ib_alloc_mr(e->pd, IB_MR_TYPE_MEM_REG, pages);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	table = kvcalloc(pages, sizeof(*table), GFP_KERNEL);
	if (!table)
		goto fail;
	sg_init_table(table, pages);
	for_each_sg(table, sg, pages, i)
		sg_set_buf(sg, m->p + i * PAGE_SIZE + (i ? 0 : skip), PAGE_SIZE - (i ? 0 : skip));
	i = ib_dma_map_sg(e->id->device, table, pages, DMA_BIDIRECTIONAL);
	if (i == pages && ib_map_mr_sg(mr, table, pages, NULL, PAGE_SIZE) == pages &&
	    mr->length == n) {
		kvfree(table);
		*res = mr;
		return 0;
	}
	pr_err("kverbs: # mapping: %u of %u elements, %llu bytes\n", i, pages, mr->length);
	kvfree(table);
fail:
	ib_dereg_mr(mr);
	return -EIO;
}

static int mapped(u32 pages, u32 skip)
{
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct ib_mr *mr = NULL;
	struct req r;
	struct ib_sge sge;
	u32 len = pages * PAGE_SIZE - skip;
	int ret;

	if (!w)
		return -ENOMEM;
	DO(world_open(w, NULL, pages * PAGE_SIZE));
	DO(map(&w->p.s, &w->s, skip, pages, &mr));
	DO(reg_mr(&w->p.s, mr, REMOTE));
	mem_fill(&w->c, 3);
	sge = sge_of(&w->p.c, &w->c, 0, len);
	DO(post_op(&w->p.c, &r, IB_WR_RDMA_WRITE, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&w->p.c, &r));
	/* The Read is behind the Write, so it shows that this has arrived. */
	memset(w->c.p, 0, w->c.len);
	DO(post_op(&w->p.c, &r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&w->p.c, &r));
	EXPECT(mem_is(&w->s, skip, len, 3), "not what was written\n");
	EXPECT(mem_is(&w->c, 0, len, 3), "not what is there\n");

	/* Invalidated, it is out of reach; with another key, it is in reach again. */
	DO(inv_mr(&w->p.s, mr->rkey));
	DO(reg_mr(&w->p.s, mr, REMOTE));
	DO(post_op(&w->p.c, &r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&w->p.c, &r));
	DO(inv_mr(&w->p.s, mr->rkey));
	DO(post_op(&w->p.c, &r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ret = req_wait(&w->p.c, &r);
	EXPECT(ret == IB_WC_REM_ACCESS_ERR, "status %d\n", ret);
	ret = 0;
out:
	if (mr)
		ib_dereg_mr(mr);
	world_close(w);
	kfree(w);
	return ret;
}

static int t_reg_mr(void) { return mapped(3, 100); }
static int t_reg_mr_deep(void) { return mapped(1024, 4000); }

/* Send with Invalidate: the receiver is told the key, and it is gone. */
static int t_send_inv(void)
{
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct ib_mr *mr = NULL;
	struct req s, r;
	struct ib_sge sge;
	int ret;

	if (!w)
		return -ENOMEM;
	DO(world_open(w, NULL, PAGE_SIZE));
	DO(map(&w->p.s, &w->s, 0, 1, &mr));
	DO(reg_mr(&w->p.s, mr, REMOTE));
	DO(post_recv(&w->p.s, &r, &w->s, 0, 100));
	sge = sge_of(&w->p.c, &w->c, 0, 100);
	DO(post_op(&w->p.c, &s, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	DO(req_wait(&w->p.c, &s));
	DO(req_wait(&w->p.s, &r));
	EXPECT(r.wc.wc_flags & IB_WC_WITH_INVALIDATE && r.wc.ex.invalidate_rkey == mr->rkey,
	       "flags %#x, key %#x of %#x\n", r.wc.wc_flags, r.wc.ex.invalidate_rkey, mr->rkey);
	/* The consumer's own invalidation comes too late, which is no error. */
	DO(inv_mr(&w->p.s, mr->rkey));
	/* A key that is not in use any more is the sender's fault. */
	DO(post_recv(&w->p.s, &r, &w->s, 0, 100));
	DO(post_op(&w->p.c, &s, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	ret = req_wait(&w->p.s, &r);
	EXPECT(ret != IB_WC_SUCCESS && ret > 0, "status %d\n", ret);
	ret = 0;
out:
	if (mr)
		ib_dereg_mr(mr);
	world_close(w);
	kfree(w);
	return ret;
}

/* RDMA Read to a registered sink that ends with it. */
static int t_read_inv(void)
{
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct ib_mr *src = NULL, *sink = NULL;
	struct req r;
	struct ib_sge sge;
	int ret;

	if (!w)
		return -ENOMEM;
	DO(world_open(w, NULL, PAGE_SIZE));
	DO(map(&w->p.s, &w->s, 0, 1, &src));
	DO(map(&w->p.c, &w->c, 0, 1, &sink));
	DO(reg_mr(&w->p.s, src, IB_ACCESS_REMOTE_READ));
	DO(reg_mr(&w->p.c, sink, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE));
	mem_fill(&w->s, 9);
	sge = (struct ib_sge) { sink->iova, LEN > PAGE_SIZE ? PAGE_SIZE : LEN, sink->lkey };
	DO(post_op(&w->p.c, &r, IB_WR_RDMA_READ_WITH_INV, 0, &sge, src->iova, src->rkey));
	DO(req_wait(&w->p.c, &r));
	EXPECT(mem_is(&w->c, 0, sge.length, 9), "not what is there\n");
	/* The sink is out of use: reading to it again is refused. */
	DO(post_op(&w->p.c, &r, IB_WR_RDMA_READ, 0, &sge, src->iova, src->rkey));
	ret = req_wait(&w->p.c, &r);
	EXPECT(ret > 0, "status %d\n", ret);
	ret = 0;
out:
	if (src)
		ib_dereg_mr(src);
	if (sink)
		ib_dereg_mr(sink);
	world_close(w);
	kfree(w);
	return ret;
}

/* A fenced Send carries what the Read before it has brought. */
static int t_fence(void)
{
	struct world *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct ib_mr *mr = NULL;
	struct req rd, s, r;
	struct ib_sge sge;
	int i, ret;

	if (!w)
		return -ENOMEM;
	DO(world_open(w, NULL, 4 * PAGE_SIZE));
	DO(map(&w->p.s, &w->s, 0, 2, &mr));
	DO(reg_mr(&w->p.s, mr, IB_ACCESS_REMOTE_READ));
	for (i = 0; i < 50; i++) {
		mem_fill(&w->s, i);
		memset(w->c.p, 0, w->c.len);
		sge = sge_of(&w->p.c, &w->c, 0, 2 * PAGE_SIZE);
		DO(post_recv(&w->p.s, &r, &w->s, 2 * PAGE_SIZE, 2 * PAGE_SIZE));
		DO(post_op(&w->p.c, &rd, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
		DO(post_op(&w->p.c, &s, IB_WR_SEND, IB_SEND_FENCE, &sge, 0, 0));
		DO(req_wait(&w->p.c, &rd));
		DO(req_wait(&w->p.c, &s));
		DO(req_wait(&w->p.s, &r));
		EXPECT(mem_is(&w->s, 2 * PAGE_SIZE, 2 * PAGE_SIZE, i), "round %d\n", i);
	}
out:
	if (mr)
		ib_dereg_mr(mr);
	world_close(w);
	kfree(w);
	return ret;
}

const struct test ops_tests[] = {
	{ "messages, polled in softirq", t_softirq },
	{ "messages, polled by a work queue", t_workqueue },
	{ "messages, polled by the consumer", t_direct },
	{ "registration, with an offset", t_reg_mr },
	{ "registration of 1024 pages", t_reg_mr_deep },
	{ "Send with Invalidate", t_send_inv },
	{ "Read with Invalidate", t_read_inv },
	{ "fence", t_fence },
	{ }
};
