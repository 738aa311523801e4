// SPDX-License-Identifier: GPL-2.0
/*
 * Gather lists longer than those of processes, and lists that the core makes;
 * what elements under the local DMA key name, and nothing else.
 */
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

enum { GAP = 16, PARTS = 3 };

/*
 * Elements one after the other in the end's memory, with GAP bytes between them, and an empty one
 * that names nothing among them. Other ends have other lengths, of the same sum.
 */
static u32 parts(struct end *e, struct ib_sge *sge, const u32 *len)
{
	u32 i, at = GAP, n = 0;

	for (i = 0; i < PARTS; i++) {
		if (i == 1)
			sge[n++] = (struct ib_sge) { U64_MAX - 1, 0, 0 };
		sge[n++] = sge_of(e, at, len[i]);
		at += len[i] + GAP;
	}
	return n;
}

/* Whether the elements have the bytes of @from's, and the memory beside them is as it was. */
static int parts_are(struct pair *p, const u32 *from, const u32 *to)
{
	u32 i = 0, k = 0, src = GAP, dst = GAP, a = 0, b = 0, at;

	for (at = 0; at < GAP; at++)
		EXPECT(!p->s.m.p[at], "byte %u in front\n", at);
	while (k < PARTS) {
		if (b == to[k]) {
			for (at = 0; at < GAP; at++)
				EXPECT(!p->s.m.p[dst + b + at], "byte %u behind part %u\n", at, k);
			dst += to[k++] + GAP;
			b = 0;
			continue;
		}
		if (a == from[i]) {
			src += from[i++] + GAP;
			a = 0;
			continue;
		}
		EXPECT(p->s.m.p[dst + b] == p->c.m.p[src + a], "byte %u of part %u\n", b, k);
		a++;
		b++;
	}
	for (at = dst; at < p->s.m.len; at++)
		EXPECT(!p->s.m.p[at], "byte %u at the end\n", at);
	return 0;
}

static int send_parts(struct pair *p, const u32 *from, const u32 *to)
{
	struct ib_sge src[PARTS + 1], dst[PARTS + 1];
	struct ib_recv_wr recv = { .wr_cqe = &p->r[1].cqe, .sg_list = dst };
	struct ib_send_wr send = { .opcode = IB_WR_SEND, .sg_list = src };

	send.num_sge = parts(&p->c, src, from);
	recv.num_sge = parts(&p->s, dst, to);
	mem_fill(&p->c.m, from[0]);
	memset(p->s.m.p, 0, p->s.m.len);
	req_init(p->r + 1);
	DO(p->s.srq ? ib_post_srq_recv(p->s.srq, &recv, NULL) :
	   ib_post_recv(qp_of(&p->s), &recv, NULL));
	/* After the post the consumer may reuse the list. */
	memset(dst, 0xff, sizeof(dst));
	DO(post(&p->c, p->r, &send));
	memset(src, 0xff, sizeof(src));
	DO(req_wait(&p->c, p->r));
	DO(req_wait(&p->s, p->r + 1));
	return parts_are(p, from, to);
}

/* Lengths of one byte, of several segments, and of parts that cross the ends of segments. */
static int t_parts(struct pair *p)
{
	static const u32 lens[][PARTS] = {
		{ 1, 2, 3 }, { 4, 1, 1 }, { 100, 5000, 9 }, { 4099, 1, 1009 }, { 7, 7, 5095 },
		{ 1700, 1701, 1708 },
	};
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(lens); i++)
		for (k = 0; k < ARRAY_SIZE(lens); k++)
			if (i / 2 == k / 2 || (i > 1 && k > 1))
				DO(send_parts(p, lens[i], lens[k]));
	return 0;
}

/* The sink of a Read is one element. The bytes beside it stay. */
static int t_sink(struct pair *p)
{
	static const u32 lens[] = { 1, 100, 5000, 0 };
	struct ib_mr *mr = reg_plain(&p->s, p->s.m.len, REMOTE);
	struct ib_sge sge;
	u32 i, k;

	EXPECT(mr, "no region\n");
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		mem_fill(&p->s.m, i);
		memset(p->c.m.p, 0, p->c.m.len);
		sge = sge_of(&p->c, GAP, lens[i]);
		if (!lens[i])
			sge = (struct ib_sge) { U64_MAX - 1, 0, 0 };
		DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, &sge, mr->iova, mr->rkey));
		DO(req_wait(&p->c, p->r));
		for (k = 0; k < p->c.m.len; k++)
			EXPECT(p->c.m.p[k] == (k >= GAP && k < GAP + lens[i] ?
					       byte_at(k - GAP, i) : 0),
			       "byte %u of a Read of %u\n", k, lens[i]);
	}
	return 0;
}

/* A Send, a receive, or a Read with this element; returns the status of the request that has it. */
static int one_of(struct pair *p, u32 kind, struct ib_sge *sge)
{
	struct ib_recv_wr recv = { .wr_cqe = &p->r[1].cqe, .sg_list = sge, .num_sge = 1 };
	struct ib_sge good = sge_of(&p->c, 0, sge->length);

	switch (kind) {
	case 0:
		DO(post_op(&p->c, p->r, IB_WR_SEND, 0, sge, 0, 0));
		return req_wait(&p->c, p->r);
	case 1:
		req_init(p->r + 1);
		DO(ib_post_recv(qp_of(&p->s), &recv, NULL));
		DO(post_op(&p->c, p->r, IB_WR_SEND, 0, &good, 0, 0));
		return req_wait(&p->s, p->r + 1);
	default:
		DO(post_op(&p->c, p->r, IB_WR_RDMA_READ, 0, sge, p->s.mr[0]->iova,
			   p->s.mr[0]->rkey));
		return req_wait(&p->c, p->r);
	}
}

/* An element that wraps, or is not in the kernel's half of the address space, fails its request. */
static int t_no_kernel_memory(struct pair *p)
{
	static const u64 addrs[] = { U64_MAX - 50, U64_MAX, 0, 4096, (1ULL << 47) - 50 };
	const struct opts o = { };
	u32 i, kind;

	for (i = 0; i < ARRAY_SIZE(addrs); i++) {
		for (kind = 0; kind < 3; kind++) {
			struct ib_sge sge = { addrs[i], 100 };
			int status;

			DO(pair_open(p + 1, &o));
			EXPECT(reg_plain(&p[1].s, 100, REMOTE), "no region\n");
			sge.lkey = p[1].c.pd->local_dma_lkey;
			status = one_of(p + 1, kind, &sge);
			EXPECT(status == IB_WC_LOC_PROT_ERR, "address %#llx, kind %u: %d\n",
			       addrs[i], kind, status);
			pair_close(p + 1);
		}
	}
	return message(p, 100, 1);
}

const struct test list_tests[] = {
	{ "lists with up to max_send_sge elements arrive", t_lists,
	  { .len = LEN + PLACE, .sge = ALL } },
	{ "lists that are too long are refused", t_too_long, { .sge = ALL } },
	{ "Sends leave the memory beside the elements of a receive", t_parts,
	  { .len = 2 * PAGE_SIZE } },
	{ "Sends leave the memory beside the elements of a shared receive", t_parts,
	  { .len = 2 * PAGE_SIZE, .srq = true } },
	{ "Reads leave the memory beside their sink", t_sink, { .len = 2 * PAGE_SIZE } },
	{ "elements that are no kernel memory fail their requests", t_no_kernel_memory, { } },
	{ "Writes that the core makes arrive", t_rw,
	  { .len = PAGES * PAGE_SIZE, .sge = 2, .ctxs = 2 } },
	{ }
};
