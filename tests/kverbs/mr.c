// SPDX-License-Identifier: GPL-2.0
/* Registrations by work request: what pages they have, and who may end them. */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "kverbs.h"

/*
 * A region of @elements of the scatterlist, @pages pages each. It begins @skip
 * bytes into the first one, and another @offset bytes that the mapping skips.
 * The elements' order in memory is neither that of the region nor its reverse,
 * and no two neighbours are neighbours there.
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
	/* A permutation, as the number of elements is no multiple of 7. */
	return e->m.p + (i * 7 + 5) % l->elements * l->pages * PAGE_SIZE;
}

/* The byte at @i of the region. */
static u8 *byte_of(struct end *e, const struct layout *l, u32 i)
{
	u32 at = i + l->skip + l->offset, size = l->pages * PAGE_SIZE;

	return element(e, l, at / size) + at % size;
}

static void fill(struct end *e, const struct layout *l, u8 seed)
{
	u32 i;

	for (i = 0; i < size_of(l); i++)
		*byte_of(e, l, i) = byte_at(i, seed);
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

static int mapped(struct pair *p, const struct layout *l, bool move)
{
	struct ib_mr *mr = new_mr(&p->s, l->elements * l->pages);
	u32 len = size_of(l);
	struct ib_sge sge = sge_of(&p->c, 0, len);
	int n;

	EXPECT(mr, "no region\n");
	n = map(&p->s, l, mr);
	EXPECT(n == l->elements && mr->length == len, "%d elements, %llu bytes\n", n, mr->length);
	/* A kernel address is nothing for a peer to know. */
	EXPECT(mr->iova < PAGE_SIZE, "%#llx is told to the peer\n", mr->iova);
	if (move)
		/* Consumers may choose the address (NFS does), but for the place in its page. */
		mr->iova = 0x123456789000 + offset_in_page(mr->iova);
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
	/* The Write may have erred in the same way as the Read. */
	fill(&p->s, l, 4);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(mem_is(&p->c.m, 0, len, 4), "not what is there now\n");

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
	return mapped(p, &(struct layout) { 5, 1, 100, 0 }, false);
}

static int t_sg_offset(struct pair *p)
{
	return mapped(p, &(struct layout) { 10, 1, 100, 1000 }, true);
}

static int t_long_elements(struct pair *p)
{
	/* What is skipped is more than a page. */
	return mapped(p, &(struct layout) { 9, 3, 100, PAGE_SIZE + 50 }, false);
}

static int t_deep(struct pair *p)
{
	return mapped(p, &(struct layout) { 1024, 1, 4000, 0 }, false);
}

/* Of more elements than the region has pages, those are mapped that fit, and no byte more. */
static int t_partial(struct pair *p)
{
	const struct layout all = { 9, 1, 0, 200 }, part = { 5, 1, 0, 200 };
	struct ib_mr *mr = new_mr(&p->s, part.elements);
	u32 i, len = size_of(&part);
	struct ib_sge sge = sge_of(&p->c, 0, len);
	int n;

	EXPECT(mr, "no region\n");
	n = map(&p->s, &all, mr);
	EXPECT(n == part.elements && mr->length == len, "%d elements, %llu bytes\n", n, mr->length);
	DO(reg_mr(&p->s, mr, REMOTE));
	fill(&p->s, &all, 5);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	for (i = 0; i < len; i++)
		EXPECT(p->c.m.p[i] == byte_at(i, 5), "byte %u\n", i);
	sge.length++;
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ENDS(&p->c, p->r, IB_WC_REM_ACCESS_ERR);
	return 0;
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

/* The client of @p reads @mr, which is its server's. */
static int in_reach(struct pair *p, struct ib_mr *mr, u8 seed)
{
	struct ib_sge sge = sge_of(&p->c, 0, mr->length);

	mem_fill(&p->s.m, seed);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(mem_is(&p->c.m, 0, mr->length, seed), "not what is there\n");
	return 0;
}

/* The client of @p tries to end what is not its own; that ends its connection. */
static int may_not_end(struct pair *p, u32 key)
{
	struct req *s = p->r, *r = p->r + 1, *idle = p->r + 2;
	struct ib_sge sge = sge_of(&p->c, 0, 100);

	DO(post_recv(&p->s, r, 0, 100));
	DO(post_recv(&p->c, idle, 0, 100));
	DO(post_op(&p->c, s, IB_WR_SEND_WITH_INV, 0, &sge, 0, key));
	ENDS(&p->s, r, IB_WC_WR_FLUSH_ERR);
	ENDS(&p->c, idle, IB_WC_WR_FLUSH_ERR);
	/* Who ends it says why, and the other hears it. */
	EXPECT(test_bit(IB_EVENT_QP_ACCESS_ERR, &p->s.events), "events %#lx\n", p->s.events);
	EXPECT(test_bit(IB_EVENT_QP_FATAL, &p->c.events), "events %#lx\n", p->c.events);
	return 0;
}

/*
 * Two connections of one protection domain, which both may use its memory. But
 * what one's QP has registered, the other's peer may not take away; nor may any
 * peer what nobody has registered by a QP.
 */
static int t_send_inv_foreign(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	struct opts o = { .with = p };
	struct ib_sge sge;

	EXPECT(mr, "no region\n");
	DO(in_reach(p, mr, 1));
	DO(pair_open(p + 1, &o));
	/* It is in reach of the other, so it is not for the domain that it may not end it. */
	sge = sge_of(&p[1].c, 0, 100);
	DO(post_op(&p[1].c, p[1].r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p[1].c, p[1].r));
	DO(may_not_end(p + 1, mr->rkey));
	DO(in_reach(p, mr, 2));
	pair_close(p + 1);

	DO(pair_open(p + 1, &o));
	DO(may_not_end(p + 1, p->s.pd->local_dma_lkey));
	DO(message(p, 100, 3));
	/* It is its own peer's to end. */
	sge = sge_of(&p->c, 0, 100);
	DO(post_recv(&p->s, p->r + 1, 0, 100));
	DO(post_op(&p->c, p->r, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	DO(req_wait(&p->c, p->r));
	DO(req_wait(&p->s, p->r + 1));
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ENDS(&p->c, p->r, IB_WC_REM_ACCESS_ERR);
	return 0;
}

/* What another protection domain's QP can try with a region, which stays as it is. */
static int t_other_pd(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	const struct opts o = { };
	u32 i, key = mr ? mr->rkey : 0;
	struct ib_sge sge;
	int status;

	EXPECT(mr, "no region\n");
	for (i = 0; i < 5; i++) {
		DO(pair_open(p + 1, &o));
		sge = sge_of(&p[1].c, 0, 100);
		switch (i) {
		case 0:
			/* This takes another key for it, which is then none of it. */
			status = reg_mr(&p[1].s, mr, REMOTE);
			EXPECT(status == IB_WC_LOC_PROT_ERR, "REG_MR: status %d\n", status);
			ib_update_fast_reg_key(mr, key);
			break;
		case 1:
			status = inv_mr(&p[1].s, key);
			EXPECT(status == IB_WC_LOC_PROT_ERR, "LOCAL_INV: status %d\n", status);
			break;
		case 2:
			/* Not another's, but not one that can be invalidated. */
			status = inv_mr(&p[1].s, p[1].s.pd->local_dma_lkey);
			EXPECT(status == IB_WC_LOC_PROT_ERR, "LOCAL_INV: status %d\n", status);
			break;
		case 3:
			DO(may_not_end(p + 1, key));
			break;
		case 4:
			DO(post_op(&p[1].c, p[1].r, IB_WR_RDMA_READ, 0, &sge, mr->iova, key));
			ENDS(&p[1].c, p[1].r, IB_WC_REM_ACCESS_ERR);
			break;
		}
		/* The QP that tried ends with it. */
		DO(wait_error(&p[1].s));
		pair_close(p + 1);
		DO(in_reach(p, mr, 10 + i));
	}
	return 0;
}

/* An STag that is in use cannot be registered again: its peer may hold it. */
static int t_reg_valid(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	int status;

	EXPECT(mr, "no region\n");
	DO(in_reach(p, mr, 1));
	status = reg_mr(&p->s, mr, REMOTE);
	EXPECT(status == IB_WC_MW_BIND_ERR, "REG_MR: status %d\n", status);
	DO(wait_error(&p->s));
	return 0;
}

/* A Read with invalidation takes its sink's STag away, also if it has no bytes to bring. */
static int t_read_inv(struct pair *p)
{
	static const u32 lens[] = { 100, 0 };
	struct ib_mr *sink = reg_plain(&p->c, PAGE_SIZE, IB_ACCESS_LOCAL_WRITE);
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	struct ib_rdma_wr none = { .wr.opcode = IB_WR_RDMA_READ_WITH_INV };
	struct ib_sge sge;
	u32 i, key = 0;

	EXPECT(sink && mr, "no region\n");
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		key = sink->lkey;
		sge = (struct ib_sge) { sink->iova, lens[i], key };
		DO(post_op(&p->c, p->r, IB_WR_RDMA_READ_WITH_INV, 0, &sge, mr->iova, mr->rkey));
		DO(req_wait(&p->c, p->r));
		/* Only what is not in use can be registered. */
		if (i < ARRAY_SIZE(lens) - 1)
			DO(reg_mr(&p->c, sink, IB_ACCESS_LOCAL_WRITE));
	}
	/* Without a sink there is nothing to invalidate. */
	EXPECT(post(&p->c, p->r, &none.wr) == -EINVAL, "a Read without a sink\n");
	sge = (struct ib_sge) { sink->iova, 100, key };
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ENDS(&p->c, p->r, IB_WC_LOC_PROT_ERR);
	return 0;
}

/* It may take away only what a local invalidation may, and says so before it reads. */
static int t_read_inv_foreign(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	struct ib_mr *other = reg_plain(&p->c, PAGE_SIZE, REMOTE);
	const struct opts o = { };
	struct ib_sge sge;
	u32 i;

	EXPECT(mr && other, "no region\n");
	for (i = 0; i < 4; i++) {
		DO(pair_open(p + 1, &o));
		sge = sge_of(&p[1].c, 0, i % 2 ? 100 : 0);
		if (i / 2)
			sge.lkey = other->lkey;
		/* The source is none of its domain, so the peer would complain if it were asked. */
		DO(post_op(&p[1].c, p[1].r, IB_WR_RDMA_READ_WITH_INV, 0, &sge, mr->iova, mr->rkey));
		ENDS(&p[1].c, p[1].r, IB_WC_LOC_PROT_ERR);
		DO(wait_error(&p[1].c));
		pair_close(p + 1);
		DO(in_reach(p, mr, 20 + i));
	}
	/* The other region is still in use. */
	sge = (struct ib_sge) { other->iova, 100, other->lkey };
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	return 0;
}

/* Rights that a registration cannot give are refused when it is posted. */
static int t_reg_flags(struct pair *p)
{
	static const int refused[] = {
		IB_ACCESS_MW_BIND, IB_ZERO_BASED, IB_ACCESS_ON_DEMAND, IB_ACCESS_FLUSH_GLOBAL,
		IB_ACCESS_FLUSH_PERSISTENT, 1 << 30,
	};
	struct ib_mr *mr = new_mr(&p->s, 1);
	u32 i;
	int ret;

	EXPECT(mr, "no region\n");
	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		ret = reg_mr(&p->s, mr, REMOTE | refused[i]);
		EXPECT(ret == -EOPNOTSUPP, "flag %#x: %d\n", refused[i], ret);
	}
	DO(reg_mr(&p->s, mr, REMOTE | IB_ACCESS_RELAXED_ORDERING | IB_ACCESS_HUGETLB |
			     IB_ACCESS_REMOTE_ATOMIC));
	return 0;
}

const struct test mr_tests[] = {
	{ "registration, with an offset", t_offset, { .len = 5 * PAGE_SIZE } },
	{ "registration, with an offset of the mapping, at another address", t_sg_offset,
	  { .len = 10 * PAGE_SIZE } },
	{ "registration of long elements", t_long_elements, { .len = 27 * PAGE_SIZE } },
	{ "registration of 1024 pages", t_deep, { .len = 1024 * PAGE_SIZE } },
	{ "registration of a part", t_partial, { .len = 9 * PAGE_SIZE } },
	{ "Send with Invalidate", t_send_inv, { } },
	{ "Send with Invalidate of another connection's", t_send_inv_foreign, { } },
	{ "regions of another protection domain", t_other_pd, { } },
	{ "registration of what is in use", t_reg_valid, { } },
	{ "registration with rights that there are not", t_reg_flags, { } },
	{ "Read with invalidation", t_read_inv, { } },
	{ "Read with invalidation of what is not its own", t_read_inv_foreign, { } },
	{ }
};
