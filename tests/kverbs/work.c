// SPDX-License-Identifier: GPL-2.0
/* Memory, work requests, registrations. */
#include <linux/delay.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "kverbs.h"

int mem_new(struct mem *m, struct ib_device *dev, size_t len)
{
	m->p = kzalloc(len, GFP_KERNEL);
	if (!m->p)
		return -ENOMEM;
	m->len = len;
	m->dev = dev;
	m->dma = ib_dma_map_single(dev, m->p, len, DMA_BIDIRECTIONAL);
	return ib_dma_mapping_error(dev, m->dma) ? -EIO : 0;
}

void mem_free(struct mem *m)
{
	if (m->p)
		ib_dma_unmap_single(m->dev, m->dma, m->len, DMA_BIDIRECTIONAL);
	kfree(m->p);
	m->p = NULL;
}

/*
 * The high byte of a product with an odd number. The pattern repeats only
 * every 4 GiB, so no two pages are equal.
 */
u8 byte_at(size_t i, u8 seed)
{
	return ((u32)i * 0x9e3779b1u + seed * 0x6d2b79f5u) >> 24;
}

void mem_fill(struct mem *m, u8 seed)
{
	size_t i;

	for (i = 0; i < m->len; i++)
		m->p[i] = byte_at(i, seed);
}

/* Whether @len bytes at @off are the first ones of the pattern of this seed. */
bool mem_is(struct mem *m, size_t off, size_t len, u8 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (m->p[off + i] != byte_at(i, seed))
			return false;
	return true;
}

static void req_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct req *r = container_of(wc->wr_cqe, struct req, cqe);

	r->wc = *wc;
	r->cpu = raw_smp_processor_id();
	complete(&r->done);
}

void req_init(struct req *r)
{
	memset(r, 0, sizeof(*r));
	r->cqe.done = req_done;
	init_completion(&r->done);
}

int req_wait(struct end *e, struct req *r)
{
	unsigned long end = jiffies + TIME_LIMIT;

	if (e->pair->o.poll != IB_POLL_DIRECT)
		return wait_for_completion_timeout(&r->done, TIME_LIMIT) ? r->wc.status
									 : -ETIMEDOUT;
	while (!try_wait_for_completion(&r->done)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		ib_process_cq_direct(e->scq, -1);
		ib_process_cq_direct(e->rcq, -1);
		cond_resched();
	}
	return r->wc.status;
}

struct ib_sge sge_of(struct end *e, u32 off, u32 len)
{
	return (struct ib_sge) { e->m.dma + off, len, e->pd->local_dma_lkey };
}

int post_recv(struct end *e, struct req *r, u32 off, u32 len)
{
	struct ib_sge sge = sge_of(e, off, len);
	struct ib_recv_wr wr = { .wr_cqe = &r->cqe, .sg_list = &sge, .num_sge = 1 };

	req_init(r);
	return e->srq ? ib_post_srq_recv(e->srq, &wr, NULL) : ib_post_recv(qp_of(e), &wr, NULL);
}

int post(struct end *e, struct req *r, struct ib_send_wr *wr)
{
	req_init(r);
	wr->wr_cqe = &r->cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	return ib_post_send(qp_of(e), wr, NULL);
}

int post_op(struct end *e, struct req *r, enum ib_wr_opcode op, int flags, struct ib_sge *sge,
	    u64 raddr, u32 key)
{
	struct ib_rdma_wr wr = {
		.wr = { .opcode = op, .send_flags = flags, .sg_list = sge, .num_sge = !!sge },
		.remote_addr = raddr,
		.rkey = key,
	};

	if (op == IB_WR_SEND_WITH_INV || op == IB_WR_RDMA_READ_WITH_INV)
		wr.wr.ex.invalidate_rkey = op == IB_WR_SEND_WITH_INV ? key : sge->lkey;
	return post(e, r, &wr.wr);
}

int wait_error(struct end *e)
{
	unsigned long end = jiffies + TIME_LIMIT;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	do {
		DO(ib_query_qp(qp_of(e), &attr, IB_QP_STATE, &init));
		if (attr.qp_state == IB_QPS_ERR)
			return 0;
		msleep(20);
	} while (time_before(jiffies, end));
	pr_err("kverbs: # state %d\n", attr.qp_state);
	return -ETIMEDOUT;
}

int message(struct pair *p, u32 len, u8 seed)
{
	/* The last two; tests use the first ones. */
	struct req *s = &p->r[REQS - 2], *r = &p->r[REQS - 1];
	struct ib_sge sge = sge_of(&p->c, 0, len);

	mem_fill(&p->c.m, seed);
	DO(post_recv(&p->s, r, 0, p->s.m.len));
	DO(post_op(&p->c, s, IB_WR_SEND, 0, &sge, 0, 0));
	DO(req_wait(&p->c, s));
	DO(req_wait(&p->s, r));
	EXPECT(r->wc.byte_len == len && r->wc.opcode == IB_WC_RECV, "%u bytes, opcode %d\n",
	       r->wc.byte_len, r->wc.opcode);
	EXPECT(mem_is(&p->s.m, 0, len, seed), "other bytes\n");
	return 0;
}

struct ib_mr *new_mr_of(struct end *e, enum ib_mr_type type, u32 most)
{
	struct ib_mr *mr;
	int i;

	for (i = 0; e->mr[i]; i++)
		if (i == ARRAY_SIZE(e->mr) - 1)
			return NULL;
	mr = ib_alloc_mr(e->pd, type, most);
	if (IS_ERR(mr)) {
		pr_err("kverbs: # ib_alloc_mr: %ld\n", PTR_ERR(mr));
		return NULL;
	}
	e->mr[i] = mr;
	return mr;
}

struct ib_mr *new_mr(struct end *e, u32 pages)
{
	return new_mr_of(e, IB_MR_TYPE_MEM_REG, pages);
}

int reg_mr(struct end *e, struct ib_mr *mr, int access)
{
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .mr = mr, .access = access };
	int ret;

	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	wr.key = mr->rkey;
	ret = post(e, &e->own, &wr.wr);
	return ret ?: req_wait(e, &e->own);
}

int inv_mr(struct end *e, u32 key)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = key };
	int ret = post(e, &e->own, &wr);

	return ret ?: req_wait(e, &e->own);
}

struct ib_mr *reg_plain(struct end *e, u32 len, int access)
{
	struct ib_mr *mr = new_mr(e, DIV_ROUND_UP(len, PAGE_SIZE));
	struct scatterlist sg;
	int ret;

	if (!mr)
		return NULL;
	sg_init_one(&sg, e->m.p, len);
	if (ib_dma_map_sg(e->id->device, &sg, 1, DMA_BIDIRECTIONAL) != 1 ||
	    ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) != 1 || mr->length != len) {
		pr_err("kverbs: # %u bytes were not mapped\n", len);
		return NULL;
	}
	ret = reg_mr(e, mr, access);
	if (ret)
		pr_err("kverbs: # registration: %d\n", ret);
	return ret ? NULL : mr;
}
