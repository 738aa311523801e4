// SPDX-License-Identifier: GPL-2.0
/* Registrations by work request: what pages they have, and who may end them. */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "kverbs.h"

/*
 * A region of @elements of the scatterlist, @pages pages each. It begins @skip
 * bytes into the first one, and another @offset bytes that the mapping skips.
 */
struct layout {
	u32 elements, pages, skip, offset;
};

static u32 size_of(const struct layout *l)
{
	return l->elements * l->pages * PAGE_SIZE - l->skip - l->offset;
}

static u8 *element(struct end *e, const struct layout *l, u32 i)
{
	return e->m.p + i * l->pages * PAGE_SIZE;
}

/* The byte at @i of the region. */
static u8 *byte_of(struct end *e, const struct layout *l, u32 i)
{
	u32 at = i + l->skip + l->offset, size = l->pages * PAGE_SIZE;

	return element(e, l, at / size) + at % size;
}

static bool is_filled(struct end *e, const struct layout *l, u8 seed)
{
	u32 i;

	for (i = 0; i < size_of(l); i++)
		if (*byte_of(e, l, i) != byte_at(i, seed))
			return false;
	return true;
}

/* Maps what fits: as many elements as it says, or an error. */
static int map(struct end *e, const struct layout *l, struct ib_mr *mr)
{
	struct scatterlist *sg, *table = kvcalloc(l->elements, sizeof(*table), GFP_KERNEL);
	u32 i, skip, offset = l->offset;
	int n;

	if (!table)
		return -ENOMEM;
	sg_init_table(table, l->elements);
	for_each_sg(table, sg, l->elements, i) {
		skip = i ? 0 : l->skip;
		sg_set_buf(sg, element(e, l, i) + skip, l->pages * PAGE_SIZE - skip);
	}
	n = ib_dma_map_sg(e->id->device, table, l->elements, DMA_BIDIRECTIONAL);
	if (n == l->elements)
		n = ib_map_mr_sg(mr, table, n, offset ? &offset : NULL, PAGE_SIZE);
	kvfree(table);
	return n;
}

static int mapped(struct pair *p, const struct layout *l)
{
	struct ib_mr *mr = new_mr(&p->s, l->elements * l->pages);
	u32 len = size_of(l);
	struct ib_sge sge = sge_of(&p->c, 0, len);
	int n;

	EXPECT(mr, "no region\n");
	n = map(&p->s, l, mr);
	EXPECT(n == l->elements && mr->length == len, "%d elements, %llu bytes\n", n, mr->length);
	DO(reg_mr(&p->s, mr, REMOTE));
	mem_fill(&p->c.m, 3);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_WRITE, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	/* The Read is behind the Write, so it shows that this has arrived. */
	memset(p->c.m.p, 0, p->c.m.len);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(is_filled(&p->s, l, 3), "not what was written\n");
	EXPECT(mem_is(&p->c.m, 0, len, 3), "not what is there\n");

	/* Invalidated, it is out of reach; with another key, it is in reach again. */
	DO(inv_mr(&p->s, mr->rkey));
	DO(reg_mr(&p->s, mr, REMOTE));
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	DO(inv_mr(&p->s, mr->rkey));
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ENDS(&p->c, p->r, IB_WC_REM_ACCESS_ERR);
	return 0;
}

static int t_offset(struct pair *p)
{
	return mapped(p, &(struct layout) { 5, 1, 100, 0 });
}

static int t_deep(struct pair *p)
{
	return mapped(p, &(struct layout) { 1024, 1, 4000, 0 });
}

/* Send with Invalidate: the receiver is told the key, and it is gone. */
static int t_send_inv(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	struct req *s = p->r, *r = p->r + 1;
	struct ib_sge sge = sge_of(&p->c, 0, 100);

	EXPECT(mr, "no region\n");
	DO(post_recv(&p->s, r, 0, 100));
	DO(post_op(&p->c, s, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	DO(req_wait(&p->c, s));
	DO(req_wait(&p->s, r));
	EXPECT(r->wc.wc_flags & IB_WC_WITH_INVALIDATE && r->wc.ex.invalidate_rkey == mr->rkey,
	       "flags %#x, key %#x of %#x\n", r->wc.wc_flags, r->wc.ex.invalidate_rkey, mr->rkey);
	/* The consumer's own invalidation comes too late, which is no error. */
	DO(inv_mr(&p->s, mr->rkey));
	/* A key that is not in use any more is the sender's fault. */
	DO(post_recv(&p->s, r, 0, 100));
	DO(post_op(&p->c, s, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	ENDS(&p->s, r, IB_WC_WR_FLUSH_ERR);
	return 0;
}

const struct test mr_tests[] = {
	{ "registration, with an offset", t_offset, { .len = 5 * PAGE_SIZE } },
	{ "registration of 1024 pages", t_deep, { .len = 1024 * PAGE_SIZE } },
	{ "Send with Invalidate", t_send_inv, { } },
	{ }
};
