// SPDX-License-Identifier: GPL-2.0
/*
 * Every relative alignment of source and sink, across page boundaries, with
 * lengths of every remainder. A list of operations is posted at once, each
 * with a slot of its own, and then the whole buffer is compared.
 */
#include "vt.h"

enum { SLOT = 3 * 4096, SLOTS = 32, SPACE = SLOT * SLOTS };

struct shape {
	uint32_t from, to, len;		/* offsets within the slot */
};

/* The n-th combination of offsets and length. */
static struct shape shape_of(unsigned int n)
{
	/* Odd ones begin close to the end of a page, so that a word crosses it. */
	unsigned int from = n % 8, to = n / 8 % 8, k = n / 64;
	struct shape sh = {
		.from = k & 1 ? PAGE - 8 + from : from,
		.to = k & 2 ? PAGE - 8 + to : to,
		.len = 1 + (n * 37 + k * 1021) % 1500,
	};

	if (k & 4)
		sh.len += PAGE;
	return sh;
}

static void t_align(struct side *s)
{
	enum ibv_wr_opcode op = s->arg;
	unsigned int n = 0, i, shapes = 64 * 8;
	struct rmem r = {};
	struct ibv_sge sge;
	struct shape sh;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	if (s->active)
		r = take_rmem(s);
	else
		give_rmem(s, &b);

	while (n < shapes) {
		/* The side with the source fills it; the side with the sink expects it. */
		bool source = s->active != (op == IBV_WR_RDMA_READ);

		for (i = 0; i < SLOTS; i++) {
			size_t at = (size_t)i * SLOT;

			sh = shape_of(n + i);
			if (source)
				buf_fill(&b, at + sh.from, sh.len, n + i);
			else
				buf_expect(&b, at + sh.to, sh.len, n + i);
			if (op == IBV_WR_SEND && !s->active) {
				sge = sge_of(&b, at + sh.to, sh.len);
				post_recv(&c, i, &sge, 1);
			}
		}
		if (!s->active)
			mark_arm(&c);
		sync_sides(s);
		for (i = 0; i < SLOTS; i++) {
			size_t at = (size_t)i * SLOT;

			sh = shape_of(n + i);
			if (!s->active && op != IBV_WR_SEND)
				continue;
			if (!s->active) {
				good(c.rcq, i, IBV_WC_RECV, sh.len);
				continue;
			}
			if (op == IBV_WR_RDMA_READ) {
				sge = sge_of(&b, at + sh.to, sh.len);
				post(&c, op, i, IBV_SEND_SIGNALED, &sge, 1,
				     r.addr + at + sh.from, r.rkey);
			} else {
				sge = sge_of(&b, at + sh.from, sh.len);
				post(&c, op, i, IBV_SEND_SIGNALED, &sge, 1,
				     r.addr + at + sh.to, r.rkey);
			}
		}
		if (s->active) {
			for (i = 0; i < SLOTS; i++) {
				struct ibv_wc wc = poll_one(c.scq);

				CHECK(wc.wr_id == i && wc.status == IBV_WC_SUCCESS,
				      "shape %u: id %lu, %s", n + i, wc.wr_id,
				      ibv_wc_status_str(wc.status));
			}
			mark_send(&c, n);
		} else {
			mark_wait(&c, n);
		}
		buf_verify(&b, "after a bundle");
		n += SLOTS;
	}
	conn_close(&c);
	buf_free(&b);
}

const struct test align_tests[] = {
	{ "align-send", t_align, T_QUICK, IBV_WR_SEND },
	{ "align-write", t_align, T_QUICK, IBV_WR_RDMA_WRITE },
	{ "align-read", t_align, T_QUICK, IBV_WR_RDMA_READ },
	{ }
};
