// SPDX-License-Identifier: GPL-2.0
/* Gather lists longer than those of processes, and lists that the core makes. */
#include <linux/scatterlist.h>
#include <rdma/rw.h>

#include "kverbs.h"

enum { WRS = 8, ROUNDS = 20, MOST = 32, PLACE = 512, LEN = WRS * MOST * PLACE, PAGES = 40 };

/* The number of elements of a list. */
static u32 pieces(u32 round, u32 wr, u32 most)
{
	const u32 kinds[] = { 1, most, 6, 7, most - 1, 2, most, 0 };

	return kinds[(round + wr) % ARRAY_SIZE(kinds)];
}

/*
 * Elements have different lengths, zero among them, and are not sorted by address, but every third
 * one starts where the one before it ends.
 */
static struct ib_sge piece(struct end *e, u32 round, u32 wr, u32 i)
{
	u32 place = wr * MOST + (i * 5 + round) % MOST, off = (i + round) % 7;
	u32 len = (round * 61 + wr * 37 + i * 101) % (PLACE - 7);
	struct ib_sge sge = sge_of(e, place * PLACE + off, len), before;

	if (i % 3 == 1) {
		before = piece(e, round, wr, i - 1);
		sge.addr = before.addr + before.length;
	}
	return sge;
}

static int write_lists(struct pair *p, struct ib_mr *mr, u32 round, u32 most)
{
	struct ib_sge (*sge)[MOST] = kcalloc(WRS, sizeof(*sge), GFP_KERNEL);
	struct ib_rdma_wr wr[WRS] = {};
	u32 i, k;
	int ret;

	if (!sge)
		return -ENOMEM;
	for (k = 0; k < WRS; k++) {
		for (i = 0; i < pieces(round, k, most); i++)
			sge[k][i] = piece(&p->c, round, k, i);
		req_init(p->r + k);
		wr[k].wr.wr_cqe = &p->r[k].cqe;
		wr[k].wr.opcode = IB_WR_RDMA_WRITE;
		wr[k].wr.send_flags = IB_SEND_SIGNALED;
		wr[k].wr.sg_list = sge[k];
		wr[k].wr.num_sge = i;
		wr[k].wr.next = k + 1 < WRS ? &wr[k + 1].wr : NULL;
		wr[k].remote_addr = mr->iova + k * MOST * PLACE;
		wr[k].rkey = mr->rkey;
	}
	ret = ib_post_send(qp_of(&p->c), &wr[0].wr, NULL);
	/* After the post the consumer may reuse the lists. */
	memset(sge, 0xff, WRS * sizeof(*sge));
	kfree(sge);
	return ret;
}

static int written(struct pair *p, u32 round, u32 most)
{
	u32 i, k, at;

	for (k = 0; k < WRS; k++) {
		DO(req_wait(&p->c, p->r + k));
		at = k * MOST * PLACE;
		for (i = 0; i < pieces(round, k, most); i++) {
			struct ib_sge from = piece(&p->c, round, k, i);
			u8 *is = p->c.m.p + (from.addr - p->c.m.dma);

			EXPECT(!memcmp(p->s.m.p + at, is, from.length),
			       "round %u, request %u, piece %u\n", round, k, i);
			at += from.length;
		}
		EXPECT(!p->s.m.p[at], "round %u, request %u is longer\n", round, k);
	}
	return 0;
}

/* A Write completes when it has been sent. A Read after it completes when the Write has arrived. */
static int arrived(struct pair *p, struct ib_mr *mr)
{
	struct ib_sge sge = sge_of(&p->c, 0, 1);

	DO(post_op(&p->c, p->r + WRS, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r + WRS));
	return 0;
}

static int t_lists(struct pair *p)
{
	u32 most = p->c.id->device->attrs.max_send_sge, round;
	struct ib_mr *mr = reg_plain(&p->s, LEN, REMOTE);

	EXPECT(mr, "no region\n");
	EXPECT(most > 6 && most <= MOST, "%u pieces\n", most);
	for (round = 0; round < ROUNDS; round++) {
		mem_fill(&p->c.m, round);
		/* Memory of the peer beside the Writes must not change. */
		memset(p->s.m.p, 0, LEN);
		DO(write_lists(p, mr, round, most));
		DO(arrived(p, mr));
		DO(written(p, round, most));
	}
	return 0;
}

/* Lists with too many elements, or too long a sum, are refused, and so is a QP for long lists. */
static int t_too_long(struct pair *p)
{
	u32 most = p->c.id->device->attrs.max_send_sge;
	struct ib_qp_init_attr attr = {
		.send_cq = p->c.scq,
		.recv_cq = p->c.rcq,
		.cap = { .max_send_wr = 1, .max_send_sge = most + 1 },
		.qp_type = IB_QPT_RC,
	};
	struct ib_sge sge[MOST + 1];
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = sge, .num_sge = most + 1 };
	struct ib_qp *qp;
	u32 i;
	int ret;

	EXPECT(most <= MOST, "%u pieces\n", most);
	for (i = 0; i <= most; i++)
		sge[i] = sge_of(&p->c, 0, 1);
	ret = post(&p->c, p->r, &wr);
	EXPECT(ret == -EINVAL, "posted: %d\n", ret);
	/* The sum of the lengths exceeds that of a message. */
	for (i = 0; i < most; i++)
		sge[i].length = i == most - 1 ? U32_MAX : 1;
	wr.num_sge = most;
	ret = post(&p->c, p->r, &wr);
	EXPECT(ret == -EINVAL, "a list that is too long was posted: %d\n", ret);
	qp = ib_create_qp(p->c.pd, &attr);
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
	EXPECT(qp == ERR_PTR(-EINVAL), "a queue pair: %pe\n", qp);
	/* The connection still works. */
	return message(p, 100, 1);
}

/* Writes a consumer's pages with requests that the core makes (rdma_rw_ctx). */
static int write_pages(struct pair *p, struct ib_mr *mr, struct sg_table *sgt)
{
	u32 most = qp_of(&p->c)->max_write_sge, each = PAGE_SIZE - 8, i;
	struct rdma_rw_ctx ctx;
	int ret;

	EXPECT(most == p->c.id->device->attrs.max_send_sge, "pieces: %u\n", most);
	ret = rdma_rw_ctx_init(&ctx, qp_of(&p->c), p->c.id->port_num, sgt->sgl, PAGES, 0, mr->iova,
			       mr->rkey, DMA_TO_DEVICE);
	EXPECT(ret == DIV_ROUND_UP(PAGES, most), "requests: %d\n", ret);
	req_init(p->r);
	ret = rdma_rw_ctx_post(&ctx, qp_of(&p->c), p->c.id->port_num, &p->r->cqe, NULL);
	if (!ret)
		ret = req_wait(&p->c, p->r);
	rdma_rw_ctx_destroy(&ctx, qp_of(&p->c), p->c.id->port_num, sgt->sgl, PAGES, DMA_TO_DEVICE);
	DO(ret);
	DO(arrived(p, mr));
	for (i = 0; i < PAGES; i++)
		EXPECT(!memcmp(p->s.m.p + i * each, p->c.m.p + i * PAGE_SIZE + 8, each),
		       "page %u\n", i);
	return 0;
}

static int t_rw(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGES * PAGE_SIZE, REMOTE);
	struct scatterlist *sg;
	struct sg_table sgt;
	int i, ret;

	EXPECT(mr, "no region\n");
	mem_fill(&p->c.m, 5);
	DO(sg_alloc_table(&sgt, PAGES, GFP_KERNEL));
	/* The pages are not adjacent, as the core would merge them. */
	for_each_sgtable_sg(&sgt, sg, i)
		sg_set_buf(sg, p->c.m.p + i * PAGE_SIZE + 8, PAGE_SIZE - 8);
	ret = write_pages(p, mr, &sgt);
	sg_free_table(&sgt);
	return ret;
}

const struct test list_tests[] = {
	{ "lists with up to max_send_sge elements arrive", t_lists,
	  { .len = LEN + PLACE, .sge = ALL } },
	{ "lists that are too long are refused", t_too_long, { .sge = ALL } },
	{ "Writes that the core makes arrive", t_rw,
	  { .len = PAGES * PAGE_SIZE, .sge = 2, .ctxs = 2 } },
	{ }
};
