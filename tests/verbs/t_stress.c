// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations, checked against a model. Both sides draw the same
 * operations from the seed, and execute their own. Each side applies all of
 * them to a model of both buffers, and compares every byte after each round.
 *
 * The operations of a round, of both sides, are under way at the same time.
 * No two of them touch the same bytes, because iWARP does not order them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

enum { SPACE = 1 << 20, SLOTS = 40, MOST_SGE = 6 };

struct part {
	uint32_t off, len;
};

struct op {
	int from;			/* 0: the client's buffer is the source */
	int by;				/* 0: the client posts it */
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	int num_src, num_dst;
	struct part src[MOST_SGE], dst[MOST_SGE];
	uint32_t len;
};

struct stress {
	struct side *s;
	struct conn c;
	struct buf mine;
	uint8_t *other;			/* the model of the other side's buffer */
	struct rmem r;
	uint64_t rng;
	uint32_t next[2];		/* the first free byte of each buffer */
};

/* Takes the next free range of a buffer, at a random alignment; false if it is full. */
static bool take(struct stress *t, int side, uint32_t len, struct part *p)
{
	uint32_t gap = below(&t->rng, 70);

	if (t->next[side] + gap + len > SPACE)
		return false;
	*p = (struct part) { t->next[side] + gap, len };
	t->next[side] += gap + len;
	return true;
}

static uint32_t random_len(struct stress *t)
{
	switch (below(&t->rng, 8)) {
	case 0: return below(&t->rng, 4);
	case 1: return below(&t->rng, 81);
	case 2: return 1400 + below(&t->rng, 100);
	case 3: return 4090 + below(&t->rng, 13);
	case 4: return below(&t->rng, 100000);
	default: return below(&t->rng, 9000);
	}
}

/* Splits a length into up to num random parts of a buffer. */
static bool parts(struct stress *t, int side, uint32_t len, int num, struct part *p)
{
	uint32_t n;
	int i;

	for (i = 0; i < num; i++) {
		n = i == num - 1 ? len : below(&t->rng, 3) ? below(&t->rng, len + 1) : 0;
		/* No empty part, except for a zero-length message. */
		if (t->s->gentle && i < num - 1)
			n = 1 + below(&t->rng, len - (num - 1 - i));
		if (!take(t, side, n, &p[i]))
			return false;
		len -= n;
	}
	return true;
}

static bool draw(struct stress *t, struct op *op)
{
	static const enum ibv_wr_opcode kinds[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
	};

	memset(op, 0, sizeof(*op));
	op->by = below(&t->rng, 2);
	op->opcode = kinds[below(&t->rng, 3)];
	op->from = op->opcode == IBV_WR_RDMA_READ ? !op->by : op->by;
	op->len = random_len(t);
	op->num_src = op->opcode == IBV_WR_RDMA_READ ? 1 : 1 + below(&t->rng, MOST_SGE);
	op->num_dst = op->opcode == IBV_WR_SEND ? 1 + below(&t->rng, MOST_SGE) : 1;
	if (t->s->gentle && !op->len)
		op->len = 1;
	if (t->s->gentle && op->len < MOST_SGE)
		op->num_src = op->num_dst = 1;
	if (op->opcode != IBV_WR_RDMA_READ && op->len <= 80 && below(&t->rng, 2))
		op->flags |= IBV_SEND_INLINE;
	if (op->opcode != IBV_WR_RDMA_READ && !t->s->gentle && !below(&t->rng, 5))
		op->flags |= IBV_SEND_FENCE;
	if (op->opcode == IBV_WR_SEND && !below(&t->rng, 3))
		op->flags |= IBV_SEND_SOLICITED;
	return parts(t, op->from, op->len, op->num_src, op->src) &&
	       parts(t, !op->from, op->len, op->num_dst, op->dst);
}

/* Applies the operation to the models. */
static void apply(struct stress *t, const struct op *op)
{
	bool mine_is_source = op->from == !t->s->client;
	const uint8_t *from = mine_is_source ? t->mine.model : t->other;
	uint8_t *to = mine_is_source ? t->other : t->mine.model;
	uint8_t *whole = malloc(op->len + 1);
	uint32_t at = 0;
	int i;

	CHECK(whole, "no memory");
	for (i = 0; i < op->num_src; at += op->src[i++].len)
		memcpy(whole + at, from + op->src[i].off, op->src[i].len);
	for (i = 0, at = 0; i < op->num_dst; at += op->dst[i++].len)
		memcpy(to + op->dst[i].off, whole + at, op->dst[i].len);
	free(whole);
}

static int list_of(struct stress *t, const struct part *p, int num, struct ibv_sge *sge)
{
	int i;

	for (i = 0; i < num; i++)
		sge[i] = sge_of(&t->mine, p[i].off, p[i].len);
	return num;
}

static void post_op(struct stress *t, const struct op *op, uint64_t id)
{
	bool read = op->opcode == IBV_WR_RDMA_READ;
	struct ibv_sge sge[MOST_SGE];
	int n = list_of(t, read ? op->dst : op->src, read ? op->num_dst : op->num_src, sge);

	post(&t->c, op->opcode, id, op->flags | IBV_SEND_SIGNALED, sge, n,
	     t->r.addr + (read ? op->src[0].off : op->dst[0].off), t->r.rkey);
}

static void one_round(struct stress *t, unsigned int round)
{
	int count, i, me = !t->s->client;
	struct op ops[SLOTS];
	struct ibv_sge sge[MOST_SGE];
	struct ibv_wc wc;

	t->next[0] = t->next[1] = 0;
	for (count = 0; count < SLOTS && draw(t, &ops[count]); count++)
		apply(t, &ops[count]);
	for (i = 0; i < count; i++)
		if (ops[i].opcode == IBV_WR_SEND && ops[i].by != me)
			post_recv(&t->c, 1000 + i, sge,
				  list_of(t, ops[i].dst, ops[i].num_dst, sge));
	sync_sides(t->s);
	for (i = 0; i < count; i++)
		if (ops[i].by == me)
			post_op(t, &ops[i], i);
	for (i = 0; i < count; i++) {
		if (ops[i].by != me) {
			if (ops[i].opcode != IBV_WR_SEND)
				continue;
			wc = poll_one(t->c.rcq);
			CHECK(wc.wr_id == 1000ul + i && wc.status == IBV_WC_SUCCESS &&
			      wc.byte_len == ops[i].len,
			      "round %u, receive %d of %u bytes: id %lu, %s, %u bytes", round, i,
			      ops[i].len, wc.wr_id, ibv_wc_status_str(wc.status), wc.byte_len);
			continue;
		}
		wc = poll_one(t->c.scq);
		CHECK(wc.status == IBV_WC_SUCCESS, "round %u, request %lu: %s", round, wc.wr_id,
		      ibv_wc_status_str(wc.status));
	}
	/* The other side's mark arrives after all its Writes. */
	for (i = 0; i < 2; i++) {
		bool sender = t->s->client == !i;

		if (!sender)
			mark_arm(&t->c);
		sync_sides(t->s);
		if (sender)
			mark_send(&t->c, 2 * round + i + 1);
		else
			mark_wait(&t->c, 2 * round + i + 1);
	}
	if (memcmp(t->mine.p, t->mine.model, t->mine.len)) {
		fprintf(stderr, "seed %lu, round %u: %d operations\n", t->s->seed, round, count);
		buf_verify(&t->mine, "after a round");
	}
}

static void t_stress(struct side *s)
{
	struct conn_opts o = { .max_inline = 80, .ird = s->arg, .ord = s->arg };
	static struct stress t;
	unsigned int round;

	t.s = s;
	conn_open(s, &t.c, &o);
	buf_new(s, &t.mine, SPACE, ACC_ALL);
	t.other = malloc(SPACE);
	CHECK(t.other, "no memory");
	buf_fill(&t.mine, 0, SPACE, s->seed * 2 + s->client);
	fill(t.other, SPACE, s->seed * 2 + !s->client);
	give_rmem(s, &t.mine);
	t.r = take_rmem(s);
	t.rng = s->seed;
	for (round = 0; round < s->rounds; round++)
		one_round(&t, round);
	conn_close(&t.c);
	buf_free(&t.mine);
	free(t.other);
}

const struct test stress_tests[] = {
	{ "stress", t_stress, T_QUICK, 16, 300 },
	{ "stress-one-read", t_stress, 0, 1, 300 },
	{ }
};
