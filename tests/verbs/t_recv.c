// SPDX-License-Identifier: GPL-2.0
/* Receives that are too short for the message, or missing. */
#include <string.h>

#include "vt.h"

/* A message one byte too long, or so long that its first segment does not fit. */
static void t_too_long(struct side *s)
{
	enum { ROOM = 1000, SPACE = 16 * 4096 };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_LOCAL);
	if (s->active) {
		sync_sides(s);
		/* Before it, a message that fits exactly. */
		buf_fill(&b, 0, ROOM, 1);
		sge = sge_of(&b, 0, ROOM);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 1, IBV_WC_SEND, -1);
		sge = sge_of(&b, 0, s->arg);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		poll_one(c.scq);
	} else {
		sge = sge_of(&b, PAGE, ROOM);
		post_recv(&c, 1, &sge, 1);
		sge = sge_of(&b, 4 * PAGE, ROOM);
		post_recv(&c, 2, &sge, 1);
		sge = sge_of(&b, 6 * PAGE, ROOM);
		post_recv(&c, 3, &sge, 1);
		buf_expect(&b, PAGE, ROOM, 1);
		sync_sides(s);
		good(c.rcq, 1, IBV_WC_RECV, ROOM);
		bad(c.rcq, 2, BIT(IBV_WC_LOC_LEN_ERR));
		bad(c.rcq, 3, FLUSHED);
	}
	conn_expect_error(&c);
	/* The buffer of the failed receive may have changed, but no other byte. */
	for (i = 0; i < b.len; i++)
		CHECK(b.p[i] == b.model[i] || (i >= 4 * PAGE && i < 4 * PAGE + ROOM),
		      "byte %zu has changed", i);
	conn_free(&c);
	buf_free(&b);
}

/* Two Sends for one receive: the first arrives, the second ends the connection. */
static void t_none_left(struct side *s)
{
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 200);
	if (s->active) {
		sync_sides(s);
		buf_fill(&b, 0, 200, 4);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		wc = poll_one(c.scq);
		CHECK(wc.wr_id == 1, "completion of %lu", wc.wr_id);
		wc = poll_one(c.scq);
		CHECK(wc.wr_id == 2, "completion of %lu", wc.wr_id);
	} else {
		post_recv(&c, 1, &sge, 1);
		buf_expect(&b, 0, 200, 4);
		sync_sides(s);
		good(c.rcq, 1, IBV_WC_RECV, 200);
	}
	conn_expect_error(&c);
	buf_verify(&b, "after a Send without a receive");
	CHECK(poll_quiet(c.rcq, QUIET_MS), "a completion out of nothing");
	conn_free(&c);
	buf_free(&b);
}

/* A QP without a receive queue can send. */
static void t_no_rq(struct side *s)
{
	struct conn_opts o = { .no_rq = true };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, s->active ? &o : NULL);
	buf_new(s, &b, 4 * PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&b, 0, 5000, 5);
		buf_expect(&b, 5000, 5000, 5);
		sge = sge_of(&b, 0, 5000);
		post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
		sge = sge_of(&b, 5000, 5000);
		post(&c, IBV_WR_RDMA_READ, 2, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 2, IBV_WC_RDMA_READ, 5000);
		mark_send(&c, 3);
		/* An incoming Send finds no receive queue, and ends the connection. */
		conn_expect_error(&c);
	} else {
		buf_expect(&b, 0, 5000, 5);
		mark_arm(&c);
		give_rmem(s, &b);
		mark_wait(&c, 3);
		sge = sge_of(&b, 0, 64);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		poll_one(c.scq);
		conn_expect_error(&c);
	}
	buf_verify(&b, "with a QP without a receive queue");
	conn_free(&c);
	buf_free(&b);
}

/* The receive queue wraps many times, and is refilled while messages arrive. */
static void t_refill(struct side *s)
{
	enum { QUEUE = 8, COUNT = 400, LEN = 96 };
	struct conn_opts o = { .rq = QUEUE };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, COUNT * LEN, ACC_LOCAL);
	if (!s->active) {
		for (i = 0; i < QUEUE; i++) {
			sge = sge_of(&b, i * LEN, LEN);
			post_recv(&c, i, &sge, 1);
		}
	}
	sync_sides(s);
	for (i = 0; i < COUNT; i++) {
		if (s->active) {
			buf_fill(&b, i * LEN, LEN, i);
			sge = sge_of(&b, i * LEN, LEN);
			post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
			good(c.scq, i, IBV_WC_SEND, -1);
			/* The sender is at most half a queue ahead of the receiver. */
			if (i % (QUEUE / 2) == QUEUE / 2 - 1)
				sync_sides(s);
			continue;
		}
		good(c.rcq, i, IBV_WC_RECV, LEN);
		buf_expect(&b, i * LEN, LEN, i);
		if (i + QUEUE < COUNT) {
			sge = sge_of(&b, (i + QUEUE) * LEN, LEN);
			post_recv(&c, i + QUEUE, &sge, 1);
		}
		if (i % (QUEUE / 2) == QUEUE / 2 - 1)
			sync_sides(s);
	}
	buf_verify(&b, "after refilled receives");
	conn_close(&c);
	buf_free(&b);
}

const struct test recv_tests[] = {
	/*= 5041-7.1-1d */
	{ "receive-one-too-long", t_too_long, T_QUICK, 1001 },
	/*= 5041-6.2.2-1, 5041-7.1-1d */
	{ "receive-much-too-long", t_too_long, 0, 50000 },
	/*= 5040-5.3-3, 5041-7.1-1b */
	{ "receive-none-left", t_none_left, T_QUICK | T_BOTH },
	/*= 5041-7.1-1b */
	{ "receive-no-queue", t_no_rq, T_QUICK | T_BOTH },
	{ "receive-refill", t_refill, 0 },
	{ }
};
