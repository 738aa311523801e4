// SPDX-License-Identifier: GPL-2.0
/* Immediate data and atomic operations (RFC 7306). */
#include <linux/atomic.h>

#include "kverbs.h"

enum { LEN = 9000, ROUNDS = 20, WORD = 64, ADDS = 200 };

static const __be32 IMM = cpu_to_be32(0x01020304);

static int post_imm(struct end *e, struct req *r, struct ib_mr *mr, u32 len, __be32 imm, int flags)
{
	struct ib_sge sge = sge_of(e, 0, len);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE_WITH_IMM, .send_flags = flags,
			.sg_list = &sge, .num_sge = !!len, .ex.imm_data = imm },
		.remote_addr = mr ? mr->iova : 0,
		.rkey = mr ? mr->rkey : 0,
	};

	return post(e, r, &wr.wr);
}

static int imm_is(struct req *r, __be32 imm, u32 len)
{
	EXPECT(r->wc.opcode == IB_WC_RECV_RDMA_WITH_IMM && r->wc.wc_flags == IB_WC_WITH_IMM,
	       "opcode %d, flags %#x\n", r->wc.opcode, r->wc.wc_flags);
	EXPECT(r->wc.ex.imm_data == imm && r->wc.byte_len == len, "immediate %#x, %u bytes\n",
	       be32_to_cpu(r->wc.ex.imm_data), r->wc.byte_len);
	return 0;
}

/* Shows that the end expects immediate data: a receive without memory, which takes a message. */
static int expect_imm(struct pair *p)
{
	struct req *s = p->r, *r = p->r + 1;
	struct ib_recv_wr wr = { .wr_cqe = &r->cqe };

	req_init(r);
	DO(ib_post_recv(qp_of(&p->s), &wr, NULL));
	DO(post_imm(&p->c, s, NULL, 0, IMM, 0));
	DO(req_wait(&p->c, s));
	DO(req_wait(&p->s, r));
	return imm_is(r, IMM, 0);
}

/* Writes with immediate data, of several lengths and of none, among Sends. */
static int t_imm(struct pair *p)
{
	static const u32 lens[] = { 1, 0, 64, 1447, 0, LEN };
	struct ib_mr *mr = reg_plain(&p->s, LEN, IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE);
	struct req *s = p->r, *r = p->r + 1;
	__be32 imm;
	u32 len;
	int i;

	EXPECT(mr, "no region\n");
	DO(expect_imm(p));
	for (i = 0; i < ROUNDS; i++) {
		len = lens[i % ARRAY_SIZE(lens)];
		/* All of it zero is immediate data, too. */
		imm = cpu_to_be32(i ? 0xfffffff0 + i : 0);
		memset(p->s.m.p, 0, LEN);
		mem_fill(&p->c.m, i);
		DO(post_recv(&p->s, r, LEN, LEN));
		DO(post_imm(&p->c, s, mr, len, imm, i % 2 ? IB_SEND_SOLICITED : 0));
		DO(req_wait(&p->c, s));
		EXPECT(s->wc.opcode == IB_WC_RDMA_WRITE, "opcode %d\n", s->wc.opcode);
		DO(req_wait(&p->s, r));
		DO(imm_is(r, imm, len));
		EXPECT(mem_is(&p->s.m, 0, len, i) && (len == LEN || !p->s.m.p[len]),
		       "round %d\n", i);
		DO(message(p, 100, i));
	}
	return 0;
}

/* Sends with immediate data, which both ends of this driver agree to. */
static int t_send_imm(struct pair *p)
{
	struct req *s = p->r, *r = p->r + 1;
	struct ib_sge sge = sge_of(&p->c, 0, LEN);
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_IMM, .sg_list = &sge, .num_sge = 1,
	};
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wr.ex.imm_data = cpu_to_be32(i * 0x1000001);
		sge.length = i * (LEN / ROUNDS);
		mem_fill(&p->c.m, i);
		DO(post_recv(&p->s, r, LEN, LEN));
		DO(post(&p->c, s, &wr));
		DO(req_wait(&p->c, s));
		DO(req_wait(&p->s, r));
		EXPECT(r->wc.opcode == IB_WC_RECV && r->wc.wc_flags == IB_WC_WITH_IMM &&
		       r->wc.ex.imm_data == wr.ex.imm_data && r->wc.byte_len == sge.length,
		       "round %d: opcode %d, flags %#x, immediate %#x, %u bytes\n", i,
		       r->wc.opcode, r->wc.wc_flags, be32_to_cpu(r->wc.ex.imm_data),
		       r->wc.byte_len);
		EXPECT(mem_is(&p->s.m, LEN, sge.length, i), "round %d\n", i);
		/* The next completion has none. */
		DO(message(p, 100, i));
		EXPECT(!(p->r[REQS - 1].wc.wc_flags & IB_WC_WITH_IMM), "immediate data\n");
	}
	return 0;
}

/* Of no length, behind another Write: it does not tell the length of that. */
static int t_imm_behind_write(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, LEN, IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE);
	struct ib_sge sge = sge_of(&p->c, 0, 100);
	struct req *w = p->r, *s = p->r + 1, *r = p->r + 2;

	EXPECT(mr, "no region\n");
	DO(expect_imm(p));
	DO(post_recv(&p->s, r, LEN, LEN));
	DO(post_op(&p->c, w, IB_WR_RDMA_WRITE, 0, &sge, mr->iova, mr->rkey));
	DO(post_imm(&p->c, s, mr, 0, IMM, 0));
	DO(req_wait(&p->c, w));
	DO(req_wait(&p->c, s));
	DO(req_wait(&p->s, r));
	return imm_is(r, IMM, 0);
}

/* A consumer that has shown no knowledge of immediate data gets none. */
static int t_imm_unknown(struct pair *p)
{
	struct req *s = p->r, *r = p->r + 1;

	DO(post_recv(&p->s, r, 0, PAGE_SIZE));
	DO(post_imm(&p->c, s, NULL, 0, IMM, 0));
	req_wait(&p->c, s);
	DO(wait_error(&p->s));
	ENDS(&p->s, r, IB_WC_WR_FLUSH_ERR);
	return wait_error(&p->c);
}

/* Without a receive the connection ends, and the consumer's later requests are flushed. */
static int t_imm_no_receive(struct pair *p)
{
	DO(expect_imm(p));
	DO(post_imm(&p->c, p->r, NULL, 0, IMM, 0));
	req_wait(&p->c, p->r);
	DO(wait_error(&p->s));
	return wait_error(&p->c);
}

static int post_atomic(struct end *e, struct req *r, enum ib_wr_opcode op, u64 raddr, u32 rkey,
		       u64 operand, u64 swap, u64 mask, u64 swap_mask)
{
	struct ib_sge sge = sge_of(e, 0, 8);
	struct ib_atomic_wr wr = {
		.wr = { .opcode = op, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = raddr,
		.rkey = rkey,
		.compare_add = operand,
		.compare_add_mask = mask,
		.swap = swap,
		.swap_mask = swap_mask,
	};

	return post(e, r, &wr.wr);
}

static struct ib_mr *reg_word(struct end *e)
{
	return reg_plain(e, PAGE_SIZE, IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_LOCAL_WRITE);
}

/* Each operation on a word: the value before, the word afterwards. */
static int t_atomics(struct pair *p)
{
	static const struct {
		enum ib_wr_opcode op;
		u64 before, operand, swap, mask, swap_mask, after;
	} ops[] = {
		{ IB_WR_ATOMIC_FETCH_AND_ADD, 5, 7, 0, 0, 0, 12 },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, ~0ull, 2, 9, 9, 9, 1 },
		{ IB_WR_ATOMIC_CMP_AND_SWP, 5, 5, 99, 0, 0, 99 },
		{ IB_WR_ATOMIC_CMP_AND_SWP, 5, 6, 99, 0, 0, 5 },
		{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, 0x00ff00ff, 0x00010001, 0, 0x8000, 0,
		  0x01000100 },
		/* Fields of 8 bits. */
		{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, 0x00ff00ff, 0x00010001, 0, 0x80808080, 0, 0 },
		{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, 0x1234, 0xff34, 0xabcd, 0xff, 0xf0f0, 0xa2c4 },
		{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, 0x1234, 0xff35, 0xabcd, 0xff, 0xf0f0, 0x1234 },
	};
	struct ib_mr *mr = reg_word(&p->s);
	u64 *word = (u64 *)(p->s.m.p + WORD), *got = (u64 *)p->c.m.p;
	int i;

	EXPECT(mr, "no region\n");
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		*word = ops[i].before;
		*got = 0;
		DO(post_atomic(&p->c, p->r, ops[i].op, mr->iova + WORD, mr->rkey, ops[i].operand,
			       ops[i].swap, ops[i].mask, ops[i].swap_mask));
		DO(req_wait(&p->c, p->r));
		EXPECT(p->r[0].wc.byte_len == 8, "%u bytes\n", p->r[0].wc.byte_len);
		EXPECT(*got == ops[i].before && READ_ONCE(*word) == ops[i].after,
		       "operation %d: %#llx before, %#llx after\n", i, *got, *word);
	}
	return 0;
}

/* Reads and atomics are executed in their order, however many are posted at once. */
static int t_order(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, IB_ACCESS_REMOTE_ATOMIC |
				     IB_ACCESS_REMOTE_READ | IB_ACCESS_LOCAL_WRITE);
	u64 *word = (u64 *)(p->s.m.p + WORD);
	struct ib_sge sge;
	int i;

	EXPECT(mr, "no region\n");
	*word = 0;
	for (i = 0; i < 16; i++) {
		DO(post_atomic(&p->c, p->r + 2 * i, IB_WR_ATOMIC_FETCH_AND_ADD, mr->iova + WORD,
			       mr->rkey, 1, 0, 0, 0));
		sge = sge_of(&p->c, 8 * (i + 1), 8);
		DO(post_op(&p->c, p->r + 2 * i + 1, IB_WR_RDMA_READ, 0, &sge, mr->iova + WORD,
			   mr->rkey));
	}
	for (i = 0; i < 32; i++)
		DO(req_wait(&p->c, p->r + i));
	for (i = 0; i < 16; i++)
		EXPECT(((u64 *)p->c.m.p)[i + 1] == i + 1, "Read %d\n", i);
	return 0;
}

/* Two connections and this processor add to one word. */
static int t_shared(struct pair *p)
{
	struct opts o = { .len = PAGE_SIZE, .with = p };
	struct ib_mr *mr = reg_word(&p->s);
	atomic64_t *word = (atomic64_t *)(p->s.m.p + WORD);
	int i, k, local = 0;

	EXPECT(mr, "no region\n");
	DO(pair_open(p + 1, &o));
	atomic64_set(word, 0);
	for (i = 0; i < ADDS; i++) {
		for (k = 0; k < 2; k++)
			DO(post_atomic(&p[k].c, p[k].r, IB_WR_ATOMIC_FETCH_AND_ADD, mr->iova + WORD,
				       mr->rkey, 1, 0, 0, 0));
		do {
			atomic64_inc(word);
			local++;
		} while (!completion_done(&p[0].r[0].done) && local < 1 << 28);
		for (k = 0; k < 2; k++)
			DO(req_wait(&p[k].c, p[k].r));
	}
	EXPECT(atomic64_read(word) == 2 * ADDS + local, "%lld, not %d\n", atomic64_read(word),
	       2 * ADDS + local);
	return 0;
}

/* What the target does not allow ends the connection, and nothing is changed. */
static int refused(struct pair *p, struct ib_mr *mr, u64 raddr, u32 key,
		   enum ib_wc_status status)
{
	EXPECT(mr, "no region\n");
	mem_fill(&p->s.m, 3);
	DO(post_atomic(&p->c, p->r, IB_WR_ATOMIC_FETCH_AND_ADD, raddr, key, 1, 0, 0, 0));
	ENDS(&p->c, p->r, status);
	EXPECT(mem_is(&p->s.m, 0, PAGE_SIZE, 3), "the memory is changed\n");
	return 0;
}

static int t_misaligned(struct pair *p)
{
	struct ib_mr *mr = reg_word(&p->s);

	return refused(p, mr, mr ? mr->iova + 4 : 0, mr ? mr->rkey : 0, IB_WC_REM_INV_REQ_ERR);
}

static int t_no_right(struct pair *p)
{
	struct ib_mr *mr = reg_plain(&p->s, PAGE_SIZE, REMOTE);

	return refused(p, mr, mr ? mr->iova : 0, mr ? mr->rkey : 0, IB_WC_REM_ACCESS_ERR);
}

static int t_beyond(struct pair *p)
{
	struct ib_mr *mr = reg_word(&p->s);

	return refused(p, mr, mr ? mr->iova + PAGE_SIZE : 0, mr ? mr->rkey : 0,
		       IB_WC_REM_ACCESS_ERR);
}

static int t_bad_key(struct pair *p)
{
	struct ib_mr *mr = reg_word(&p->s);

	return refused(p, mr, mr ? mr->iova : 0, mr ? mr->rkey ^ 1 : 0, IB_WC_REM_ACCESS_ERR);
}

const struct test atomic_tests[] = {
	{ "a Write with immediate data writes and takes a receive", t_imm, { .len = 2 * LEN } },
	{ "Sends with immediate data", t_send_imm, { .len = 2 * LEN } },
	{ "immediate data of no length behind a Write", t_imm_behind_write, { .len = 2 * LEN } },
	{ "immediate data that nobody expects are refused", t_imm_unknown, { } },
	{ "immediate data without a receive end the connection", t_imm_no_receive, { .rq = 1 } },
	{ "atomics return the value before, and change the word", t_atomics, { } },
	{ "Reads and atomics are executed in order", t_order, { } },
	{ "two connections and a processor add to one word", t_shared, { } },
	{ "an atomic on a misaligned word is refused", t_misaligned, { } },
	{ "an atomic without the right is refused", t_no_right, { } },
	{ "an atomic beyond the region is refused", t_beyond, { } },
	{ "an atomic by another key is refused", t_bad_key, { } },
	{ }
};
