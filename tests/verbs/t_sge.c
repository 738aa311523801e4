// SPDX-License-Identifier: GPL-2.0
/* Scatter/gather lists: elements of several regions, some of them empty. */
#include <stdlib.h>
#include <string.h>

#include "vt.h"

enum { MOST = 6, PIECES = 8, SPACE = 64 * 1024 };

/*
 * Splits the length into num pieces, scattered over both buffers: piece i is
 * in the i-th eighth of buffer i % 2. About one in four is empty.
 */
static void cut(uint64_t *rng, uint32_t total, int num, uint32_t *len, uint32_t *off)
{
	int i;

	for (i = 0; i < num; i++) {
		len[i] = i == num - 1 ? total : below(rng, 4) ? below(rng, total + 1) : 0;
		total -= len[i];
		off[i] = i * (SPACE / PIECES) + below(rng, 900);
	}
}

static void place(struct buf *b, int num, const uint32_t *len, const uint32_t *off,
		  uint32_t total, uint64_t seed, bool here)
{
	uint8_t *whole = malloc(total + 1);
	uint32_t at = 0;
	int i;

	fill(whole, total, seed);
	for (i = 0; i < num && at < total; i++) {
		uint32_t n = len[i] < total - at ? len[i] : total - at;

		memcpy(b[i % 2].model + off[i], whole + at, n);
		if (here)
			memcpy(b[i % 2].p + off[i], whole + at, n);
		at += n;
	}
	free(whole);
}

static void elements(struct buf *b, int num, const uint32_t *len, const uint32_t *off,
		     struct ibv_sge *sge)
{
	int i;

	for (i = 0; i < num; i++) {
		sge[i] = sge_of(&b[i % 2], off[i], len[i]);
		/* The key of an empty element must not be checked. */
		if (!len[i])
			sge[i].lkey = 0xbad00;
	}
}

/* A connection, two buffers for elements, and a sink, which the passive side gives to the other. */
static struct rmem begin(struct side *s, struct conn *c, struct buf *b, struct buf *sink)
{
	conn_open(s, c, NULL);
	buf_new(s, &b[0], SPACE, ACC_ALL);
	buf_new(s, &b[1], SPACE, ACC_ALL);
	buf_new(s, sink, SPACE, ACC_ALL);
	if (s->active)
		return take_rmem(s);
	give_rmem(s, sink);
	return (struct rmem){};
}

static void end(struct conn *c, struct buf *b, struct buf *sink)
{
	conn_close(c);
	buf_free(&b[0]);
	buf_free(&b[1]);
	buf_free(sink);
}

/* Sends or writes the elements, and tells the other side when they are sent. */
static void transmit(struct conn *c, enum ibv_wr_opcode op, int round, struct ibv_sge *sge, int num,
		     uint64_t addr, uint32_t rkey)
{
	post(c, op, round, IBV_SEND_SIGNALED, sge, num, addr, rkey);
	good(c->scq, round, op == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE, -1);
	mark_send(c, round);
}

static void t_sge(struct side *s)
{
	enum ibv_wr_opcode op = s->arg;
	uint32_t slen[MOST], soff[MOST], rlen[MOST], roff[MOST], total, room;
	struct ibv_sge sge[MOST];
	struct buf b[2], sink;
	uint64_t rng = 42;
	struct rmem r;
	int round, snum, rnum;
	struct conn c;

	r = begin(s, &c, b, &sink);

	for (round = 0; round < 60; round++) {
		snum = 1 + below(&rng, MOST);
		rnum = 1 + below(&rng, MOST);
		total = round % 3 ? below(&rng, 7000) : below(&rng, 60);
		room = total + below(&rng, 100);
		cut(&rng, total, snum, slen, soff);
		cut(&rng, room, rnum, rlen, roff);
		if (s->active) {
			place(b, snum, slen, soff, total, round, true);
			elements(b, snum, slen, soff, sge);
			sync_sides(s);
			transmit(&c, op, round, sge, snum, r.addr + round, r.rkey);
			continue;
		}
		if (op == IBV_WR_SEND) {
			elements(b, rnum, rlen, roff, sge);
			post_recv(&c, round, sge, rnum);
			place(b, rnum, rlen, roff, total, round, false);
		} else {
			buf_expect(&sink, round, total, round);
		}
		mark_arm(&c);
		sync_sides(s);
		if (op == IBV_WR_SEND)
			good(c.rcq, round, IBV_WC_RECV, total);
		mark_wait(&c, round);
		buf_verify(&b[0], "first buffer");
		buf_verify(&b[1], "second buffer");
		buf_verify(&sink, "sink");
	}
	end(&c, b, &sink);
}

/*
 * The first element ends where a TCP segment of 1448 bytes does, behind any number of segments:
 * those that are made in one go end with the element, before it, or behind it.
 */
static void t_segments(struct side *s)
{
	enum { MULTIPLES = 30, ELEMENTS = 2 };
	const uint32_t of_segment = s->arg == IBV_WR_SEND ? 1424 : 1428;
	const uint32_t off[ELEMENTS] = { 7, 11 };
	struct ibv_sge sge[ELEMENTS], to;
	struct buf b[ELEMENTS], sink;
	uint32_t len[ELEMENTS];
	struct rmem r;
	struct conn c;
	int i;

	r = begin(s, &c, b, &sink);

	for (i = 1; i <= MULTIPLES; i++) {
		len[0] = i * of_segment;
		len[1] = 3 * of_segment + 5;
		if (s->active) {
			place(b, ELEMENTS, len, off, len[0] + len[1], i, true);
			elements(b, ELEMENTS, len, off, sge);
			sync_sides(s);
			transmit(&c, s->arg, i, sge, ELEMENTS, r.addr, r.rkey);
			continue;
		}
		to = sge_of(&sink, 0, SPACE);
		buf_expect(&sink, 0, len[0] + len[1], i);
		if (s->arg == IBV_WR_SEND)
			post_recv(&c, i, &to, 1);
		mark_arm(&c);
		sync_sides(s);
		if (s->arg == IBV_WR_SEND)
			good(c.rcq, i, IBV_WC_RECV, len[0] + len[1]);
		mark_wait(&c, i);
		buf_verify(&sink, "sink");
	}
	end(&c, b, &sink);
}

/* A Read with two sink elements is refused or executed in full, never in part. */
static void t_read_two(struct side *s)
{
	struct ibv_device_attr attr;
	struct rmem r = {};
	struct ibv_sge sge[2];
	struct ibv_wc wc;
	struct conn c;
	struct buf b;

	CALL(ibv_query_device(s->ctx, &attr));
	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		sge[0] = sge_of(&b, 0, 100);
		sge[1] = sge_of(&b, 200, 100);
		if (!try_post(&c, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, sge, 2,
			      r.addr, r.rkey)) {
			wc = poll_one(c.scq);
			CHECK(wc.wr_id == 1, "completion of %lu", wc.wr_id);
			CHECK(wc.status != IBV_WC_SUCCESS || attr.max_sge_rd > 1,
			      "%d elements are the limit, two were taken, %u bytes read",
			      attr.max_sge_rd, wc.byte_len);
			if (wc.status == IBV_WC_SUCCESS) {
				uint8_t whole[200];

				fill(whole, sizeof(whole), 9);
				memcpy(b.model, whole, 100);
				memcpy(b.model + 200, whole + 100, 100);
			}
		}
		buf_verify(&b, "sink of the Read");
		sync_sides(s);
	} else {
		buf_fill(&b, 0, 200, 9);
		give_rmem(s, &b);
		sync_sides(s);
	}
	conn_free(&c);
	buf_free(&b);
}

const struct test sge_tests[] = {
	/*= 5041-5.2-4 */
	{ "sge-send", t_sge, T_QUICK | T_BOTH, IBV_WR_SEND },
	{ "sge-write", t_sge, T_QUICK, IBV_WR_RDMA_WRITE },
	{ "sge-segments-send", t_segments, T_QUICK, IBV_WR_SEND },
	{ "sge-segments-write", t_segments, T_QUICK, IBV_WR_RDMA_WRITE },
	{ "sge-read-two", t_read_two, 0 },
	{ }
};
