// SPDX-License-Identifier: GPL-2.0
/* Registration by work request: page lists, access rights, and who may invalidate a region. */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "kverbs.h"

/*
 * A region of @elements scatterlist elements, @pages pages each, but for the
 * last @cut bytes of each. It begins @skip bytes into the first element, plus
 * @offset bytes that ib_map_mr_sg() skips. The elements' order in memory is a
 * permutation of that in the region, in which no two neighbours stay
 * neighbours.
 */
struct layout {
	u32 elements, pages, skip, offset, cut;
};

static u32 element_size(const struct layout *l)
{
	return l->pages * PAGE_SIZE - l->cut;
}

static u32 size_of(const struct layout *l)
{
	return l->elements * element_size(l) - l->skip - l->offset;
}

/* Only a region of this type takes elements that end within a page. */
static enum ib_mr_type type_of(const struct layout *l)
{
	return l->cut ? IB_MR_TYPE_SG_GAPS : IB_MR_TYPE_MEM_REG;
}

static u8 *element(struct end *e, const struct layout *l, u32 i)
{
	/* A permutation, as the number of elements is no multiple of 7. */
	return e->m.p + (i * 7 + 5) % l->elements * l->pages * PAGE_SIZE;
}

/* Byte @i of the region; @n bytes from there lie in its element. */
static u8 *bytes_of(struct end *e, const struct layout *l, u32 i, u32 *n)
{
	u32 at = i + l->skip + l->offset, size = element_size(l);

	*n = min(size - at % size, size_of(l) - i);
	return element(e, l, at / size) + at % size;
}

static void fill(struct end *e, const struct layout *l, u8 seed)
{
	u32 i, n;
	u8 *p;

	for (i = 0; i < size_of(l);)
		for (p = bytes_of(e, l, i, &n); n; n--)
			*p++ = byte_at(i++, seed);
}

static bool is_filled(struct end *e, const struct layout *l, u8 seed)
{
	u32 i, n;
	u8 *p;

	for (i = 0; i < size_of(l);)
		for (p = bytes_of(e, l, i, &n); n; n--)
			if (*p++ != byte_at(i++, seed))
				return false;
	return true;
}

/* Maps as many elements as fit in the region. Returns their number, or an error. */
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
		sg_set_buf(sg, element(e, l, i) + skip, element_size(l) - skip);
	}
	n = ib_dma_map_sg(e->id->device, table, l->elements, DMA_BIDIRECTIONAL);
	if (n == l->elements)
		n = ib_map_mr_sg(mr, table, n, offset ? &offset : NULL, PAGE_SIZE);
	kvfree(table);
	return n;
}

static int mapped(struct pair *p, const struct layout *l, bool move)
{
	struct ib_mr *mr = new_mr_of(&p->s, type_of(l), l->elements * l->pages);
	u32 len = size_of(l);
	struct ib_sge sge = sge_of(&p->c, 0, len);
	int n;

	EXPECT(mr, "no region\n");
	n = map(&p->s, l, mr);
	EXPECT(n == l->elements && mr->length == len, "%d elements, %llu bytes\n", n, mr->length);
	/* The peer must not learn a kernel address. */
	EXPECT(mr->iova < PAGE_SIZE, "the peer learns %#llx\n", mr->iova);
	if (move)
		/* A consumer may choose the address (NFS does), except the offset in the page. */
		mr->iova = 0x123456789000 + offset_in_page(mr->iova);
	DO(reg_mr(&p->s, mr, REMOTE));
	mem_fill(&p->c.m, 3);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_WRITE, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	/* The Read follows the Write, so when it completes, the Write has arrived. */
	memset(p->c.m.p, 0, p->c.m.len);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(is_filled(&p->s, l, 3), "the region has other data than the Write\n");
	EXPECT(mem_is(&p->c.m, 0, len, 3), "the Read has other data than the Write\n");
	/* Write and Read may have the same fault, so read data that were not written by RDMA. */
	fill(&p->s, l, 4);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(mem_is(&p->c.m, 0, len, 4), "the Read has other data than the region\n");

	/* An invalidated region is inaccessible; registered with a new key, it is accessible. */
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
	/* The mapping skips more than a page. */
	return mapped(p, &(struct layout) { 9, 3, 100, PAGE_SIZE + 50 }, false);
}

static int t_deep(struct pair *p)
{
	return mapped(p, &(struct layout) { 1024, 1, 4000, 0 }, false);
}

static int t_gaps(struct pair *p)
{
	return mapped(p, &(struct layout) { 9, 3, 100, 50, 1003 }, false);
}

static int t_many_gaps(struct pair *p)
{
	return mapped(p, &(struct layout) { 1024, 1, 1, 0, 4000 }, true);
}

static int partial(struct pair *p, u32 cut)
{
	const struct layout all = { 9, 1, 0, 200, cut }, part = { 5, 1, 0, 200, cut };
	struct ib_mr *mr = new_mr_of(&p->s, type_of(&part), part.elements);
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

/* Send with Invalidate: the receiver's completion has the key, which is invalid then. */
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
	/* It is no error if the consumer invalidates it again. */
	DO(inv_mr(&p->s, mr->rkey));
	/* It is an error if the peer does. */
	DO(post_recv(&p->s, r, 0, 100));
	DO(post_op(&p->c, s, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	ENDS(&p->s, r, IB_WC_WR_FLUSH_ERR);
	return 0;
}

/* Checks that the client of @p can read @mr of its server. */
static int in_reach(struct pair *p, struct ib_mr *mr, u8 seed)
{
	struct ib_sge sge = sge_of(&p->c, 0, mr->length);

	mem_fill(&p->s.m, seed);
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	EXPECT(mem_is(&p->c.m, 0, mr->length, seed), "the Read has other data than the region\n");
	return 0;
}

/* The client of @p tries to invalidate a foreign region, which ends its connection. */
static int may_not_end(struct pair *p, u32 key)
{
	struct req *s = p->r, *r = p->r + 1, *idle = p->r + 2;
	struct ib_sge sge = sge_of(&p->c, 0, 100);

	DO(post_recv(&p->s, r, 0, 100));
	DO(post_recv(&p->c, idle, 0, 100));
	DO(post_op(&p->c, s, IB_WR_SEND_WITH_INV, 0, &sge, 0, key));
	ENDS(&p->s, r, IB_WC_WR_FLUSH_ERR);
	ENDS(&p->c, idle, IB_WC_WR_FLUSH_ERR);
	/* Both ends get an asynchronous event about the error. */
	EXPECT(test_bit(IB_EVENT_QP_ACCESS_ERR, &p->s.events), "events %#lx\n", p->s.events);
	EXPECT(test_bit(IB_EVENT_QP_FATAL, &p->c.events), "events %#lx\n", p->c.events);
	return 0;
}

/*
 * Two connections share a PD, so both may access its memory. But the peer of
 * one QP must not invalidate a region that the other QP has registered. No
 * peer may invalidate an lkey that no QP has registered.
 */
static int t_send_inv_foreign(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);
	struct opts o = { .with = p };
	struct ib_sge sge;

	EXPECT(mr, "no region\n");
	DO(in_reach(p, mr, 1));
	DO(pair_open(p + 1, &o));
	/* The other connection has access, so the PD is not the reason for the refusal. */
	sge = sge_of(&p[1].c, 0, 100);
	DO(post_op(&p[1].c, p[1].r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p[1].c, p[1].r));
	DO(may_not_end(p + 1, mr->rkey));
	DO(in_reach(p, mr, 2));
	pair_close(p + 1);

	DO(pair_open(p + 1, &o));
	DO(may_not_end(p + 1, p->s.pd->local_dma_lkey));
	DO(message(p, 100, 3));
	/* The peer of the QP that has registered it may invalidate it. */
	sge = sge_of(&p->c, 0, 100);
	DO(post_recv(&p->s, p->r + 1, 0, 100));
	DO(post_op(&p->c, p->r, IB_WR_SEND_WITH_INV, 0, &sge, 0, mr->rkey));
	DO(req_wait(&p->c, p->r));
	DO(req_wait(&p->s, p->r + 1));
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ENDS(&p->c, p->r, IB_WC_REM_ACCESS_ERR);
	return 0;
}

/* A QP of another PD can neither register, invalidate nor access a region. */
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
			/* reg_mr() changes the key in @mr, though the device refuses it. */
			status = reg_mr(&p[1].s, mr, REMOTE);
			EXPECT(status == IB_WC_LOC_PROT_ERR, "REG_MR: status %d\n", status);
			ib_update_fast_reg_key(mr, key);
			break;
		case 1:
			status = inv_mr(&p[1].s, key);
			EXPECT(status == IB_WC_LOC_PROT_ERR, "LOCAL_INV: status %d\n", status);
			break;
		case 2:
			/* The QP's own PD has this key, but it cannot be invalidated. */
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
		/* The attempt ends the connection of the QP that made it. */
		DO(wait_error(&p[1].s));
		pair_close(p + 1);
		DO(in_reach(p, mr, 10 + i));
	}
	return 0;
}

/* A valid STag cannot be registered again, because a peer may be using it. */
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

/* A Read with Invalidate invalidates its sink's STag, also with zero length. */
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
		/* Registering it again succeeds only if it is invalid. */
		if (i < ARRAY_SIZE(lens) - 1)
			DO(reg_mr(&p->c, sink, IB_ACCESS_LOCAL_WRITE));
	}
	/* A Read with Invalidate needs a sink. */
	EXPECT(post(&p->c, p->r, &none.wr) == -EINVAL, "a Read without a sink\n");
	sge = (struct ib_sge) { sink->iova, 100, key };
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	ENDS(&p->c, p->r, IB_WC_LOC_PROT_ERR);
	return 0;
}

/* A Read with Invalidate fails if it may not invalidate its sink, before it is sent. */
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
		/* The source is of another PD: if the Read were sent, the peer would refuse it. */
		DO(post_op(&p[1].c, p[1].r, IB_WR_RDMA_READ_WITH_INV, 0, &sge, mr->iova, mr->rkey));
		ENDS(&p[1].c, p[1].r, IB_WC_LOC_PROT_ERR);
		DO(wait_error(&p[1].c));
		pair_close(p + 1);
		DO(in_reach(p, mr, 20 + i));
	}
	/* The other region is still valid. */
	sge = (struct ib_sge) { other->iova, 100, other->lkey };
	DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
	DO(req_wait(&p->c, p->r));
	return 0;
}

/* A registration with unsupported access rights is refused when it is posted. */
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

/* If the elements have more pages than the region, those that fit are mapped, and no byte more. */
static int t_partial(struct pair *p)
{
	return partial(p, 0);
}

static int t_partial_gaps(struct pair *p)
{
	return partial(p, 10);
}

/*
 * The PDs of kernel consumers share the device's local DMA key. Peers can neither
 * read nor write by it. All other tests show that the consumers can.
 */
static int t_local_key(struct pair *p)
{
	static const enum ib_wr_opcode ops[] = { IB_WR_RDMA_WRITE, IB_WR_RDMA_READ };
	struct ib_device *dev = p->c.id->device;
	const struct opts o = { };
	struct ib_sge sge;
	int i;

	EXPECT(dev->attrs.kernel_cap_flags & IBK_LOCAL_DMA_LKEY, "the device has none\n");
	EXPECT(p->c.pd->local_dma_lkey == dev->local_dma_lkey &&
	       p->s.pd->local_dma_lkey == dev->local_dma_lkey, "a PD has another key\n");
	local_dma_lkey = dev->local_dma_lkey;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		DO(pair_open(p + 1, &o));
		mem_fill(&p[1].s.m, 5);
		mem_fill(&p[1].c.m, 6);
		sge = sge_of(&p[1].c, 0, 100);
		DO(post_op(&p[1].c, p[1].r, ops[i], 0, &sge, p[1].s.m.dma, local_dma_lkey));
		/* A Write may complete before the other side refuses it. */
		if (ops[i] == IB_WR_RDMA_READ)
			ENDS(&p[1].c, p[1].r, IB_WC_REM_ACCESS_ERR);
		DO(wait_error(&p[1].s));
		EXPECT(mem_is(&p[1].s.m, 0, 100, 5), "a peer has written by the key\n");
		EXPECT(mem_is(&p[1].c.m, 0, 100, 6), "a peer has read by the key\n");
		pair_close(p + 1);
	}
	return 0;
}

const struct test mr_tests[] = {
	{ "the local DMA key is for all kernel consumers, and for no peer", t_local_key, { } },
	{ "a region that begins within a page is accessible", t_offset, { .len = 5 * PAGE_SIZE } },
	{ "a region mapped with an offset, at another address, is accessible", t_sg_offset,
	  { .len = 10 * PAGE_SIZE } },
	{ "a region of elements of several pages is accessible", t_long_elements,
	  { .len = 27 * PAGE_SIZE } },
	{ "a region of 1024 pages is accessible", t_deep, { .len = 1024 * PAGE_SIZE } },
	{ "a mapping is cut at the region's number of pages", t_partial, { .len = 9 * PAGE_SIZE } },
	{ "a region of elements with gaps is accessible", t_gaps, { .len = 27 * PAGE_SIZE } },
	{ "a region of 1024 elements with gaps is accessible", t_many_gaps,
	  { .len = 1024 * PAGE_SIZE } },
	{ "a mapping is cut at the region's number of elements", t_partial_gaps,
	  { .len = 9 * PAGE_SIZE } },
	{ "Send with Invalidate invalidates a region", t_send_inv, { } },
	{ "Send with Invalidate of another connection's region is refused", t_send_inv_foreign,
	  { } },
	{ "a region of another PD cannot be used", t_other_pd, { } },
	{ "registration of a valid region is refused", t_reg_valid, { } },
	{ "registration with unsupported rights is refused", t_reg_flags, { } },
	{ "Read with Invalidate invalidates its sink, also with zero length", t_read_inv, { } },
	{ "Read with Invalidate of a foreign sink is refused", t_read_inv_foreign, { } },
	{ }
};
