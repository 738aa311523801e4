// SPDX-License-Identifier: GPL-2.0
/* Queue pairs that are reset in ERROR, and connected again. */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "vt.h"

enum { POSTED = 5, SENDS = 7, LEN = 3000 };

static int to_state(struct conn *c, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(c->qp, &attr, IBV_QP_STATE);
}

static void reset(struct conn *c)
{
	enum ibv_qp_state state;

	CALL(to_state(c, IBV_QPS_RESET));
	state = qp_state(c->qp);
	CHECK(state == IBV_QPS_RESET || state == IBV_QPS_INIT, "state %d after a reset", state);
}

/*
 * Messages both ways, and a Read. Their number is no divisor of the queues' sizes,
 * so that each life of the queue pair begins elsewhere in its rings.
 */
static void exchange(struct side *s, struct conn *c, struct buf *b, uint64_t seed)
{
	struct ibv_sge in = sge_of(b, 0, LEN), out = sge_of(b, LEN, LEN);
	struct rmem r;
	int i;

	buf_fill(b, LEN, LEN, seed + s->client);
	buf_expect(b, 0, LEN, seed + !s->client);
	for (i = 0; i < SENDS; i++)
		post_recv(c, i, &in, 1);
	give_rmem(s, b);
	r = take_rmem(s);
	for (i = 0; i < SENDS; i++)
		post(c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &out, 1, 0, 0);
	for (i = 0; i < SENDS; i++) {
		good(c->scq, i, IBV_WC_SEND, -1);
		good(c->rcq, i, IBV_WC_RECV, LEN);
	}
	buf_verify(b, "messages");
	sync_sides(s);
	post(c, IBV_WR_RDMA_READ, 99, IBV_SEND_SIGNALED, &in, 1, r.addr + LEN, r.rkey);
	good(c->scq, 99, IBV_WC_RDMA_READ, LEN);
	buf_verify(b, "what was read");
	sync_sides(s);
}

/* Ends the connection, in one way or another. */
static void end(struct side *s, struct conn *c, struct buf *b, int how)
{
	struct ibv_sge sge = sge_of(b, 0, LEN);

	switch (how) {
	case 0:
		if (s->active)
			CALL(rdma_disconnect(c->id));
		conn_expect_down(c);
		break;
	case 1:
		CALL(to_state(c, IBV_QPS_ERR));
		conn_expect_down(c);
		break;
	case 2:
		if (s->active)
			CALL(to_state(c, IBV_QPS_ERR));
		conn_expect_down(c);
		break;
	default:
		/* A fault of the active side. */
		if (s->active)
			post(c, IBV_WR_RDMA_WRITE, 1, 0, &sge, 1, 0, 0x12345678);
		conn_expect_error(c);
	}
}

/* All ways to ERROR, and from there to another connection, four times for each. */
static void t_again(struct side *s)
{
	enum { WAYS = 4, ROUNDS = 4 * WAYS };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i, k;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	CHECK(to_state(&c, IBV_QPS_RESET) == EINVAL, "a connected queue pair was reset");
	for (i = 0; i < ROUNDS; i++) {
		exchange(s, &c, &b, 1000 * i);
		for (k = 0; k < POSTED; k++)
			post_recv(&c, 100 + k, &sge, 1);
		end(s, &c, &b, i % WAYS);
		CALL(to_state(&c, IBV_QPS_ERR));
		for (k = 0; k < POSTED; k++)
			bad(c.rcq, 100 + k, FLUSHED);
		/* The request of a fault may have completed, in any way. */
		while (!poll_quiet(c.scq, 0))
			;
		/* These the reset has to flush, as nobody else has seen them yet. */
		for (k = 0; k < POSTED; k++)
			post_recv(&c, 200 + k, &sge, 1);
		reset(&c);
		for (k = 0; k < POSTED; k++)
			bad(c.rcq, 200 + k, FLUSHED);
		CHECK(poll_quiet(c.scq, 0) && poll_quiet(c.rcq, 0), "one completion too many");
		sync_sides(s);
		conn_again(&c);
	}
	exchange(s, &c, &b, 1);
	conn_close(&c);
	buf_free(&b);
}

/* A queue pair with a shared receive queue, whose receives are there for the next connection. */
static void t_again_srq(struct side *s)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	o.srq = ibv_create_srq(s->pd, &attr);
	CHECK(o.srq, "ibv_create_srq: errno %d", errno);
	conn_open(s, &c, &o);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	for (i = 0; i < SENDS; i++)
		post_srq(o.srq, i, &sge, 1);
	for (i = 0; i < SENDS; i++) {
		if (s->active) {
			post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
			good(c.scq, i, IBV_WC_SEND, -1);
		} else {
			good(c.rcq, i, IBV_WC_RECV, LEN);
		}
		sync_sides(s);
		CALL(to_state(&c, IBV_QPS_ERR));
		conn_expect_down(&c);
		reset(&c);
		sync_sides(s);
		conn_again(&c);
	}
	conn_close(&c);
	CALL(ibv_destroy_srq(o.srq));
	buf_free(&b);
}

/* A queue pair that was moved to ERROR before it had a connection. */
static void t_unconnected(struct side *s)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_sge sge;
	struct conn c = {};
	struct buf b;
	int i;

	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	c.rcq = attr.send_cq = attr.recv_cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0);
	CHECK(c.rcq, "ibv_create_cq: errno %d", errno);
	c.qp = ibv_create_qp(s->pd, &attr);
	CHECK(c.qp, "ibv_create_qp: errno %d", errno);
	for (i = 0; i < 3; i++) {
		post_recv(&c, i, &sge, 1);
		CALL(to_state(&c, IBV_QPS_ERR));
		bad(c.rcq, i, FLUSHED);
		reset(&c);
		reset(&c);
		post_recv(&c, 10 + i, &sge, 1);
		CHECK(poll_quiet(c.rcq, QUIET_MS), "a receive completes after the reset");
		CALL(to_state(&c, IBV_QPS_ERR));
		bad(c.rcq, 10 + i, FLUSHED);
		CALL(to_state(&c, IBV_QPS_RESET));
	}
	CALL(ibv_destroy_qp(c.qp));
	CALL(ibv_destroy_cq(c.rcq));
	buf_free(&b);
}

struct teaser {
	struct conn *c;
	pthread_mutex_t lock;
	bool stop;
};

/* Disconnects the queue pair, again and again, while the lock is free. */
static void *disconnects(void *context)
{
	struct teaser *t = context;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(&t->lock);
		to_state(t->c, IBV_QPS_SQD);
		pthread_mutex_unlock(&t->lock);
		usleep(20);
	}
	return NULL;
}

/*
 * Another thread disconnects, also while the connection has ended by itself and the
 * queue pair is reset. That has no effect on the next connection.
 */
static void t_race(struct side *s)
{
	enum { ROUNDS = 30 };
	struct teaser t = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct ibv_sge sge;
	pthread_t thread;
	struct conn c;
	struct buf b;
	int i;

	pthread_mutex_lock(&t.lock);
	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	t.c = &c;
	CHECK(!pthread_create(&thread, NULL, disconnects, &t), "no thread");
	for (i = 0; i < ROUNDS; i++) {
		if (i)
			conn_again(&c);
		post_recv(&c, 1, &sge, 1);
		sync_sides(s);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 2, IBV_WC_SEND, -1);
		good(c.rcq, 1, IBV_WC_RECV, LEN);
		sync_sides(s);
		pthread_mutex_unlock(&t.lock);
		CALL(to_state(&c, IBV_QPS_ERR));
		conn_expect_down(&c);
		reset(&c);
		pthread_mutex_lock(&t.lock);
		sync_sides(s);
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&t.lock);
	pthread_join(thread, NULL);
	conn_free(&c);
	buf_free(&b);
}

const struct test reset_tests[] = {
	{ "reset-connect", t_again, T_QUICK | T_BOTH },
	{ "reset-shared-queue", t_again_srq, T_QUICK },
	{ "reset-unconnected", t_unconnected, T_QUICK },
	{ "reset-race", t_race, T_QUICK },
	{ }
};
