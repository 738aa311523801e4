// SPDX-License-Identifier: GPL-2.0
/* Many requests at once: order of execution and of completions. */
#include <stdlib.h>
#include <string.h>

#include "vt.h"

enum { DEPTH = 64, ITEM = 3000 };

/* A list of Sends that fills the queue; all arrive, in order. */
static void t_list(struct side *s)
{
	struct ibv_send_wr wr[DEPTH], *bad_wr;
	struct ibv_sge sge[DEPTH];
	struct conn c;
	struct buf b;
	int i, round;

	conn_open(s, &c, NULL);
	buf_new(s, &b, DEPTH * ITEM, ACC_LOCAL);
	for (round = 0; round < 4; round++) {
		memset(wr, 0, sizeof(wr));
		for (i = 0; i < DEPTH; i++) {
			sge[i] = sge_of(&b, i * ITEM, ITEM - i);
			wr[i] = (struct ibv_send_wr) {
				.wr_id = i, .next = i == DEPTH - 1 ? NULL : &wr[i + 1],
				.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				.sg_list = &sge[i], .num_sge = 1,
			};
			if (s->active) {
				buf_fill(&b, i * ITEM, ITEM - i, round * DEPTH + i);
			} else {
				post_recv(&c, i, &sge[i], 1);
				buf_expect(&b, i * ITEM, ITEM - i, round * DEPTH + i);
			}
		}
		sync_sides(s);
		if (s->active)
			CALL(ibv_post_send(c.qp, wr, &bad_wr));
		for (i = 0; i < DEPTH; i++) {
			if (s->active)
				good(c.scq, i, IBV_WC_SEND, -1);
			else
				good(c.rcq, i, IBV_WC_RECV, ITEM - i);
		}
		buf_verify(&b, "after a full queue");
		sync_sides(s);
	}
	conn_close(&c);
	buf_free(&b);
}

/*
 * Two Writes to the same buffer, or two Reads into the same buffer: it holds
 * the data of the request that was posted last.
 */
static void t_in_order(struct side *s)
{
	enum { ROUNDS = 100, LEN = 5000, AT = 2 * 8192 };
	bool reads = s->arg == IBV_WR_RDMA_READ;
	struct ibv_sge sge[2];
	struct rmem r = {};
	struct conn c;
	struct buf b;
	int i, k;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 3 * 8192, ACC_ALL);
	if (s->active)
		r = take_rmem(s);
	else
		give_rmem(s, &b);
	for (i = 0; i < ROUNDS; i++) {
		/* The sources are at 0 and 8192, on the reader's peer or the writer. */
		for (k = 0; k < 2; k++)
			if (s->active != reads)
				buf_fill(&b, k * 8192, LEN, 2 * i + k);
		sync_sides(s);
		if (!s->active) {
			if (!reads)
				mark_arm(&c);
			sync_sides(s);
			if (!reads) {
				mark_wait(&c, i);
				buf_expect(&b, AT, LEN, 2 * i + 1);
				buf_verify(&b, "after two Writes");
			}
			sync_sides(s);
			continue;
		}
		sync_sides(s);
		for (k = 0; k < 2; k++) {
			sge[k] = sge_of(&b, reads ? AT : k * 8192, LEN);
			post(&c, s->arg, k, k ? IBV_SEND_SIGNALED : 0, &sge[k], 1,
			     r.addr + (reads ? k * 8192 : AT), r.rkey);
		}
		good(c.scq, 1, reads ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, -1);
		if (reads) {
			buf_expect(&b, AT, LEN, 2 * i + 1);
			buf_verify(&b, "after two Reads");
		} else {
			mark_send(&c, i);
		}
		sync_sides(s);
	}
	conn_close(&c);
	buf_free(&b);
}

/* A list with one request too many: bad_wr names it, and the others are executed. */
static void t_overfill(struct side *s)
{
	struct ibv_send_wr wr[DEPTH + 1], *bad_wr = NULL;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, ITEM, ACC_LOCAL);
	for (i = 0; i <= DEPTH; i++) {
		sge = sge_of(&b, 0, 64);
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i, .next = i == DEPTH ? NULL : &wr[i + 1],
			.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge, .num_sge = 1,
		};
		if (!s->active && i < DEPTH)
			post_recv(&c, i, &sge, 1);
	}
	sync_sides(s);
	if (s->active) {
		/* The return value is ignored: the provider returns the doorbell's result. */
		ibv_post_send(c.qp, wr, &bad_wr);
		CHECK(bad_wr == &wr[DEPTH], "the request too many is not the bad one");
	}
	for (i = 0; i < DEPTH; i++) {
		if (s->active)
			good(c.scq, i, IBV_WC_SEND, -1);
		else
			good(c.rcq, i, IBV_WC_RECV, 64);
	}
	CHECK(poll_quiet(s->active ? c.scq : c.rcq, QUIET_MS), "one too many was carried out");
	conn_close(&c);
	buf_free(&b);
}

/* Hundreds of requests behind one Read complete after it, in order. */
static void t_many_behind_read(struct side *s)
{
	enum { LONG = 1 << 20, COUNT = 300 };
	struct conn_opts o = { .sq = 512, .scq_size = 512 };
	struct ibv_sge sge, small;
	struct rmem r = {};
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, LONG, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b, 0, LONG - PAGE);
		small = sge_of(&b, LONG - PAGE, 8);
		buf_expect(&b, 0, LONG - PAGE, 3);
		post(&c, IBV_WR_RDMA_READ, 1000, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		for (i = 0; i < COUNT; i++)
			post(&c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &small, 1,
			     r.addr + LONG - PAGE, r.rkey);
		good(c.scq, 1000, IBV_WC_RDMA_READ, LONG - PAGE);
		for (i = 0; i < COUNT; i++)
			good(c.scq, i, IBV_WC_RDMA_WRITE, -1);
		CHECK(poll_quiet(c.scq, QUIET_MS), "one completion too many");
		buf_verify(&b, "sink of the Read");
	} else {
		buf_fill(&b, 0, LONG - PAGE, 3);
		give_rmem(s, &b);
	}
	sync_sides(s);
	conn_close(&c);
	buf_free(&b);
}

/*
 * A Send and a Write behind a long Read are sent at once, but complete only
 * after it: completions come in the order of posting.
 */
static void t_behind_read(struct side *s)
{
	enum { LONG = 1 << 20 };
	struct ibv_sge sge, small;
	struct rmem r = {};
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LONG, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b, 0, LONG - PAGE);
		small = sge_of(&b, LONG - PAGE, 8);
		buf_fill(&b, LONG - PAGE, 8, 4);
		buf_expect(&b, 0, LONG - PAGE, 3);
		post(&c, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &small, 1, 0, 0);
		post(&c, IBV_WR_RDMA_WRITE, 3, IBV_SEND_SIGNALED, &small, 1,
		     r.addr + LONG - PAGE, r.rkey);
		post(&c, IBV_WR_RDMA_READ, 4, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		post(&c, IBV_WR_SEND, 5, IBV_SEND_SIGNALED, &small, 1, 0, 0);
		good(c.scq, 1, IBV_WC_RDMA_READ, LONG - PAGE);
		good(c.scq, 2, IBV_WC_SEND, -1);
		good(c.scq, 3, IBV_WC_RDMA_WRITE, -1);
		good(c.scq, 4, IBV_WC_RDMA_READ, LONG - PAGE);
		good(c.scq, 5, IBV_WC_SEND, -1);
		buf_verify(&b, "sink of the Reads");
	} else {
		struct buf in;

		buf_fill(&b, 0, LONG - PAGE, 3);
		buf_expect(&b, LONG - PAGE, 8, 4);
		buf_new(s, &in, PAGE, ACC_LOCAL);
		for (i = 0; i < 2; i++) {
			small = sge_of(&in, i * 8, 8);
			post_recv(&c, i, &small, 1);
		}
		give_rmem(s, &b);
		for (i = 0; i < 2; i++)
			good(c.rcq, i, IBV_WC_RECV, 8);
		buf_verify(&b, "source of the Reads, sink of the Write");
		sync_sides(s);
		buf_free(&in);
	}
	if (s->active)
		sync_sides(s);
	conn_close(&c);
	buf_free(&b);
}

/* A fenced request waits for the Reads before it, whose data it sends. */
static void t_fence(struct side *s)
{
	enum { LEN = 200000, ROUNDS = 4 };
	bool write = s->arg;
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf from, to;
	uint64_t round;

	/* Reads fetch the other side's "from"; the fenced requests return the data to its "to". */
	conn_open(s, &c, NULL);
	buf_new(s, &from, LEN, ACC_ALL);
	buf_new(s, &to, LEN, ACC_ALL);
	for (round = 0; round < ROUNDS; round++) {
		if (s->active) {
			struct rmem back = (r = take_rmem(s), take_rmem(s));

			sge = sge_of(&to, 0, LEN);
			buf_expect(&to, 0, LEN, round);
			post(&c, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
			post(&c, write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 2,
			     IBV_SEND_FENCE | IBV_SEND_SIGNALED, &sge, 1, back.addr, back.rkey);
			good(c.scq, 1, IBV_WC_RDMA_READ, LEN);
			good(c.scq, 2, write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, -1);
			mark_send(&c, round + 1);
		} else {
			buf_fill(&from, 0, LEN, round);
			buf_expect(&to, 0, LEN, round);
			sge = sge_of(&to, 0, LEN);
			if (!write)
				post_recv(&c, round, &sge, 1);
			mark_arm(&c);
			give_rmem(s, &from);
			give_rmem(s, &to);
			if (!write)
				good(c.rcq, round, IBV_WC_RECV, LEN);
			mark_wait(&c, round + 1);
		}
		buf_verify(&to, "data that went there and back");
		buf_verify(&from, "source");
	}
	conn_close(&c);
	buf_free(&from);
	buf_free(&to);
}

/* Only each tenth request is signalled; the queue wraps many times. */
static void t_unsignalled(struct side *s)
{
	enum { COUNT = 500 };
	struct conn_opts o = {
		.sq = 16, .scq_size = 4, .sig_all = s->arg, .silent = s->arg,
	};
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	uint64_t i;

	conn_open(s, &c, &o);
	buf_new(s, &b, COUNT * 100, ACC_ALL);
	if (s->active) {
		buf_fill(&b, 0, b.len, 6);
		r = take_rmem(s);
		for (i = 0; i < COUNT; i++) {
			bool told = i % 10 == 9;

			sge = sge_of(&b, i * 100, 100);
			post(&c, IBV_WR_RDMA_WRITE, i, told ? IBV_SEND_SIGNALED : 0, &sge, 1,
			     r.addr + i * 100, r.rkey);
			if (told || o.sig_all)
				good(c.scq, i, IBV_WC_RDMA_WRITE, -1);
		}
		CHECK(poll_quiet(c.scq, QUIET_MS), "a completion nobody asked for");
		mark_send(&c, 1);
	} else {
		buf_expect(&b, 0, b.len, 6);
		mark_arm(&c);
		give_rmem(s, &b);
		mark_wait(&c, 1);
		buf_verify(&b, "after the Writes");
	}
	conn_close(&c);
	buf_free(&b);
}

/* Far more Reads than the connection's ORD. */
static void t_many_reads(struct side *s)
{
	enum { LEN = 5000 };
	struct conn_opts o = { .ird = s->arg, .ord = s->arg };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	CHECK(c.ord >= 1 && c.ord <= (int)s->arg, "agreed on %d Reads, asked for %u", c.ord, s->arg);
	buf_new(s, &b, DEPTH * LEN, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		buf_expect(&b, 0, b.len, 8);
		for (i = 0; i < DEPTH; i++) {
			sge = sge_of(&b, i * LEN, LEN);
			post(&c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1,
			     r.addr + i * LEN, r.rkey);
		}
		for (i = 0; i < DEPTH; i++)
			good(c.scq, i, IBV_WC_RDMA_READ, LEN);
		buf_verify(&b, "sink of the Reads");
	} else {
		buf_fill(&b, 0, b.len, 8);
		give_rmem(s, &b);
	}
	conn_close(&c);
	buf_free(&b);
}

/* With an ORD of 0 a Read fails with a local error. */
static void t_no_reads(struct side *s)
{
	struct conn_opts o = { .ird = -1, .ord = -1 };
	struct rmem r = {};
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c;
	struct buf b;

	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&b, 0, 100);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 1, IBV_WC_SEND, -1);
		if (!try_post(&c, IBV_WR_RDMA_READ, 2, IBV_SEND_SIGNALED, &sge, 1,
			      r.addr, r.rkey)) {
			wc = poll_one(c.scq);
			CHECK(wc.wr_id == 2 && wc.status != IBV_WC_SUCCESS,
			      "a Read went out though none was agreed upon");
		}
		buf_verify(&b, "sink of the Read");
	} else {
		sge = sge_of(&b, 0, 100);
		post_recv(&c, 1, &sge, 1);
		give_rmem(s, &b);
		good(c.rcq, 1, IBV_WC_RECV, 100);
	}
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/* Both sides write, read and send at the same time. */
static void t_both_ways(struct side *s)
{
	enum { LEN = 40000, COUNT = 12, MINE = 0, WRITTEN = COUNT * LEN,
	       READ = 2 * COUNT * LEN, SENT = 3 * COUNT * LEN, SPACE = 4 * COUNT * LEN };
	uint64_t own = s->client ? 1000 : 2000, other = s->client ? 2000 : 1000;
	int i, sent = 0, received = 0;
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, SPACE, ACC_ALL);
	for (i = 0; i < COUNT; i++) {
		buf_fill(&b, MINE + i * LEN, LEN, own + i);
		buf_expect(&b, WRITTEN + i * LEN, LEN, other + i);
		buf_expect(&b, READ + i * LEN, LEN, other + i);
		buf_expect(&b, SENT + i * LEN, LEN, other + i);
		sge = sge_of(&b, SENT + i * LEN, LEN);
		post_recv(&c, i, &sge, 1);
	}
	give_rmem(s, &b);
	r = take_rmem(s);
	sync_sides(s);
	for (i = 0; i < COUNT; i++) {
		sge = sge_of(&b, READ + i * LEN, LEN);
		post(&c, IBV_WR_RDMA_READ, 3 * i, IBV_SEND_SIGNALED, &sge, 1,
		     r.addr + MINE + i * LEN, r.rkey);
		sge = sge_of(&b, MINE + i * LEN, LEN);
		post(&c, IBV_WR_RDMA_WRITE, 3 * i + 1, IBV_SEND_SIGNALED, &sge, 1,
		     r.addr + WRITTEN + i * LEN, r.rkey);
		post(&c, IBV_WR_SEND, 3 * i + 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	}
	/* Another test checks the order between Reads and other requests. */
	while (sent < 3 * COUNT) {
		struct ibv_wc wc = poll_one(c.scq);

		CHECK(wc.status == IBV_WC_SUCCESS, "%lu: %s", wc.wr_id,
		      ibv_wc_status_str(wc.status));
		sent++;
	}
	for (; received < COUNT; received++)
		good(c.rcq, received, IBV_WC_RECV, LEN);
	buf_verify(&b, "after both ways");
	conn_close(&c);
	buf_free(&b);
}

const struct test order_tests[] = {
	/*= 5040-5.3-3, 5040-5.3-6, 5040-5.5-1, 5040-5.5-4, 5041-4.3-8, 5041-5.3-2 */
	{ "list", t_list, T_QUICK | T_BOTH },
	{ "overfill", t_overfill, 0 },
	/*= 5040-5.2.1-5, 5040-5.5-6, 5040-5.5-9 */
	{ "behind-read", t_behind_read, T_QUICK },
	{ "many-behind-read", t_many_behind_read, T_QUICK },
	{ "fence-send", t_fence, T_QUICK, false },
	{ "fence-write", t_fence, 0, true },
	{ "unsignalled", t_unsignalled, T_QUICK, false },
	{ "signal-all", t_unsignalled, 0, true },
	/*= 5040-6.1-4 */
	{ "reads-1", t_many_reads, 0, 1 },
	/*= 5040-5.2.1-3, 5040-6.1-4 */
	{ "reads-3", t_many_reads, T_QUICK | T_BOTH, 3 },
	/*= 5040-4.4-2, 5040-5.2.1-9, 5040-5.2.1-10, 5040-5.2.2-3, 5040-5.2.2-5, 5040-5.5-2, */
	/*= 5040-5.5-10, 5040-6.1-2, 5040-6.1-3, 5041-4.3-8 */
	{ "reads-16", t_many_reads, 0, 16 },
	/*= 5040-6.1-4 */
	{ "reads-none", t_no_reads, 0 },
	{ "both-ways", t_both_ways, T_QUICK },
	/*= 5040-5.1-4 */
	{ "writes-in-order", t_in_order, T_QUICK, IBV_WR_RDMA_WRITE },
	/*= 5040-5.2.1-8 */
	{ "reads-in-order", t_in_order, T_QUICK, IBV_WR_RDMA_READ },
	{ }
};
