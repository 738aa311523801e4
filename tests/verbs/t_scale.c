// SPDX-License-Identifier: GPL-2.0
/* Many objects, many connections, and several threads. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vt.h"

/* More than a thousand objects of each kind in one process can be created and destroyed. */
static void t_objects(struct side *s)
{
	enum { COUNT = 1100 };
	static struct ibv_cq *cq[COUNT];
	static struct ibv_qp *qp[COUNT];
	static struct ibv_srq *srq[COUNT];
	static struct ibv_pd *pd[COUNT];
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	int i;

	if (!s->active)
		return;
	attr.cap = (struct ibv_qp_cap) { 4, 4, 1, 1, 0 };
	for (i = 0; i < COUNT; i++) {
		pd[i] = ibv_alloc_pd(s->ctx);
		CHECK(pd[i], "domain %d: errno %d", i, errno);
		cq[i] = ibv_create_cq(s->ctx, 8, NULL, NULL, 0);
		CHECK(cq[i], "completion queue %d: errno %d", i, errno);
		srq[i] = ibv_create_srq(pd[i], &srq_attr);
		CHECK(srq[i], "shared receive queue %d: errno %d", i, errno);
		attr.send_cq = attr.recv_cq = cq[i];
		attr.srq = i % 2 ? srq[i] : NULL;
		qp[i] = ibv_create_qp(pd[i], &attr);
		CHECK(qp[i], "QP %d: errno %d", i, errno);
		CHECK(!i || qp[i]->qp_num != qp[i - 1]->qp_num, "two QPs of one number");
	}
	for (i = 0; i < COUNT; i++) {
		CALL(ibv_destroy_qp(qp[i]));
		CALL(ibv_destroy_srq(srq[i]));
		CALL(ibv_destroy_cq(cq[i]));
		CALL(ibv_dealloc_pd(pd[i]));
	}
}

/* A process exits without destroying its objects; the kernel destroys them. */
static void t_abandon(struct side *s)
{
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct conn *c;
	struct buf *b;
	int i;

	/* Requests under way are dropped. The test passes if nothing hangs. */
	dev_open(s);
	for (i = 0; i < 4; i++) {
		c = calloc(1, sizeof(*c));
		b = calloc(1, sizeof(*b));
		CHECK(c && b, "no memory");
		o.events = i % 2;
		conn_open(s, c, &o);
		buf_new(s, b, 1 << 20, ACC_ALL);
		sge = sge_of(b, 0, b->len);
		post_recv(c, 1, &sge, 1);
		sync_sides(s);
		post(c, IBV_WR_SEND, 2, 0, &sge, 1, 0, 0);
	}
}

/* Many connections at once; every one carries data both ways. */
static void t_connections(struct side *s)
{
	enum { LEN = 1500 };
	int count = s->arg, i;
	struct conn *c = calloc(count, sizeof(*c));
	struct conn_opts o = { .sq = 8, .rq = 8 };
	struct ibv_sge sge;
	struct buf b;

	CHECK(c, "no memory");
	for (i = 0; i < count; i++)
		conn_open(s, &c[i], &o);
	buf_new(s, &b, count * LEN * 2, ACC_LOCAL);
	for (i = 0; i < count; i++) {
		sge = sge_of(&b, i * LEN, LEN);
		post_recv(&c[i], i, &sge, 1);
		buf_expect(&b, i * LEN, LEN, 2 * i + !s->client);
		buf_fill(&b, (count + i) * LEN, LEN, 2 * i + s->client);
	}
	sync_sides(s);
	for (i = 0; i < count; i++) {
		sge = sge_of(&b, (count + i) * LEN, LEN);
		post(&c[i], IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	}
	for (i = 0; i < count; i++) {
		good(c[i].scq, i, IBV_WC_SEND, -1);
		good(c[i].rcq, i, IBV_WC_RECV, LEN);
	}
	buf_verify(&b, "after all connections");
	sync_sides(s);
	/* Half of the connections are disconnected, half are just destroyed. */
	for (i = 0; i < count; i++) {
		if (s->active && i % 2)
			CALL(rdma_disconnect(c[i].id));
		if (s->active && !(i % 2))
			rdma_destroy_qp(c[i].id);
	}
	for (i = 0; i < count; i++) {
		if (!s->active || i % 2)
			conn_expect_down(&c[i]);
		conn_free(&c[i]);
	}
	buf_free(&b);
	free(c);
}

/* Connects and disconnects again and again, with a message each time. */
static void t_again(struct side *s)
{
	enum { COUNT = 25 };
	struct conn_opts o = { .sq = 4, .rq = 4 };
	struct conn c;
	int i;

	for (i = 0; i < COUNT; i++) {
		conn_open(s, &c, &o);
		if (!s->active)
			mark_arm(&c);
		sync_sides(s);
		if (s->active)
			mark_send(&c, i + 1);
		else
			mark_wait(&c, i + 1);
		conn_close(&c);
	}
}

/* Several threads, each with a connection and buffers of its own. */
enum { THREADS = 4, TURNS = 60, BLOCK = 6000 };

struct worker {
	struct side *s;
	struct conn c;
	struct buf b;
	struct rmem r;
	int number;
	pthread_t thread;
};

/* Ping-pong: each turn's Send carries the pattern of connection and turn. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct ibv_sge in = sge_of(&w->b, 0, BLOCK), out = sge_of(&w->b, BLOCK, BLOCK);
	struct ibv_sge write = sge_of(&w->b, 2 * BLOCK, BLOCK);
	uint64_t seed;
	int turn;

	for (turn = 0; turn < TURNS; turn++) {
		seed = w->number * 1000 + turn;
		if (w->s->active) {
			buf_fill(&w->b, BLOCK, BLOCK, seed);
			buf_fill(&w->b, 2 * BLOCK, BLOCK, ~seed);
			buf_expect(&w->b, 0, BLOCK, seed + 500);
			post_recv(&w->c, turn, &in, 1);
			post(&w->c, IBV_WR_RDMA_WRITE, turn, 0, &write, 1,
			     w->r.addr + 3 * BLOCK, w->r.rkey);
			post(&w->c, IBV_WR_SEND, turn, IBV_SEND_SIGNALED, &out, 1, 0, 0);
			good(w->c.scq, turn, IBV_WC_SEND, -1);
			good(w->c.rcq, turn, IBV_WC_RECV, BLOCK);
		} else {
			/* Post the next receive before the reply, which makes the peer send. */
			good(w->c.rcq, turn, IBV_WC_RECV, BLOCK);
			buf_expect(&w->b, 0, BLOCK, seed);
			buf_expect(&w->b, 3 * BLOCK, BLOCK, ~seed);
			buf_verify(&w->b, "a thread's turn");
			buf_fill(&w->b, BLOCK, BLOCK, seed + 500);
			if (turn + 1 < TURNS)
				post_recv(&w->c, turn + 1, &in, 1);
			post(&w->c, IBV_WR_SEND, turn, IBV_SEND_SIGNALED, &out, 1, 0, 0);
			good(w->c.scq, turn, IBV_WC_SEND, -1);
		}
		if (w->s->active)
			buf_verify(&w->b, "a thread's turn");
	}
	return NULL;
}

static void t_threads(struct side *s)
{
	static struct worker w[THREADS];
	struct ibv_sge in;
	int i;

	for (i = 0; i < THREADS; i++) {
		w[i].s = s;
		w[i].number = i + 1;
		conn_open(s, &w[i].c, NULL);
		buf_new(s, &w[i].b, 4 * BLOCK, ACC_ALL);
		give_rmem(s, &w[i].b);
		w[i].r = take_rmem(s);
		in = sge_of(&w[i].b, 0, BLOCK);
		if (!s->active)
			post_recv(&w[i].c, 0, &in, 1);
	}
	sync_sides(s);
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&w[i].thread, NULL, work, &w[i]), "no thread");
	for (i = 0; i < THREADS; i++)
		pthread_join(w[i].thread, NULL);
	for (i = 0; i < THREADS; i++) {
		conn_close(&w[i].c);
		buf_free(&w[i].b);
	}
}

const struct test scale_tests[] = {
	{ "objects", t_objects, 0 },
	{ "abandon", t_abandon, T_QUICK | T_NODEV },
	{ "connections", t_connections, T_QUICK, 8 },
	{ "connections-100", t_connections, 0, 100 },
	{ "connect-again", t_again, 0 },
	{ "threads", t_threads, T_QUICK },
	{ }
};
