// SPDX-License-Identifier: GPL-2.0
/*
 * What ibv_modify_qp() answers in each state of a queue pair, before, during and after connection
 * setup: the table in Documentation/reference.md.
 */
#include <errno.h>
#include <string.h>

#include "vt.h"

enum {
	STATE = IBV_QP_STATE,
	/* The attributes that the RDMA CM gives for INIT and RTR (rdma_init_qp_attr()). */
	CM = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT,
	/* Those for RTS, where it names no state. */
	CM_RTS = IBV_QP_PORT,
	LEN = 4000,
};

struct row {
	enum ibv_qp_state asked;
	int mask;
	int result;
};

/* IDLE, without a connection and while one is set up. */
static const struct row idle[] = {
	{ IBV_QPS_INIT, CM, 0 },
	{ IBV_QPS_RTR, CM, 0 },
	{ IBV_QPS_INIT, STATE, 0 },
	{ IBV_QPS_RTR, STATE, 0 },
	{ IBV_QPS_RTR, STATE | IBV_QP_CUR_STATE, 0 },
	{ IBV_QPS_RTS, CM_RTS, 0 },
	{ IBV_QPS_RTS, STATE, EINVAL },
	{ IBV_QPS_RTS, CM, EINVAL },
	{ IBV_QPS_RTS, STATE | IBV_QP_SQ_PSN, EINVAL },
	{ IBV_QPS_SQD, STATE, 0 },
	{ IBV_QPS_SQE, STATE, EINVAL },
	{ IBV_QPS_RESET, STATE, 0 },
	{ }
};

static const struct row connected[] = {
	{ IBV_QPS_INIT, CM, 0 },
	{ IBV_QPS_RTR, CM, 0 },
	{ IBV_QPS_RTS, CM, 0 },
	{ IBV_QPS_INIT, STATE, 0 },
	{ IBV_QPS_RTR, STATE, 0 },
	{ IBV_QPS_RTS, STATE, 0 },
	{ IBV_QPS_RTR, STATE | IBV_QP_CUR_STATE, 0 },
	{ IBV_QPS_RTS, CM_RTS, 0 },
	{ IBV_QPS_RTS, STATE | IBV_QP_SQ_PSN, 0 },
	{ IBV_QPS_SQE, STATE, EINVAL },
	{ IBV_QPS_RESET, STATE, EINVAL },
	{ }
};

/* CLOSING, TERMINATE and ERROR; the former two may become the latter at any time. */
static const struct row ended[] = {
	{ IBV_QPS_INIT, CM, EINVAL },
	{ IBV_QPS_RTR, CM, EINVAL },
	{ IBV_QPS_RTS, CM_RTS, 0 },
	{ IBV_QPS_INIT, STATE, EINVAL },
	{ IBV_QPS_RTR, STATE, EINVAL },
	{ IBV_QPS_RTS, STATE, EINVAL },
	{ IBV_QPS_SQD, STATE, 0 },
	{ IBV_QPS_SQE, STATE, EINVAL },
	{ }
};

static int ask(struct conn *c, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .cur_qp_state = qp_state(c->qp), .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	return ibv_modify_qp(c->qp, &attr, mask);
}

/* Asks for all rows, after each of which the queue pair is in one of "states". */
static void ask_all(struct conn *c, const char *when, const struct row *r, unsigned int states)
{
	enum ibv_qp_state now;
	int result;

	for (; r->asked || r->mask; r++) {
		result = ask(c, r->asked, r->mask);
		now = qp_state(c->qp);
		CHECK(result == r->result, "%s: state %d with mask 0x%x: %d, not %d", when, r->asked,
		      r->mask, result, r->result);
		CHECK(BIT(now) & states, "%s: state %d after %d was asked for", when, now, r->asked);
	}
}

/* Messages both ways, a Write and a Read: the queue pair is as good as before. */
static void exchange(struct side *s, struct conn *c, struct buf *b)
{
	struct ibv_sge in = sge_of(b, 0, LEN), out = sge_of(b, LEN, LEN);
	struct rmem r;

	buf_fill(b, LEN, LEN, s->client);
	buf_expect(b, 0, LEN, !s->client);
	post_recv(c, 1, &in, 1);
	give_rmem(s, b);
	r = take_rmem(s);
	post(c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &out, 1, 0, 0);
	good(c->scq, 2, IBV_WC_SEND, -1);
	good(c->rcq, 1, IBV_WC_RECV, LEN);
	buf_verify(b, "a message");
	sync_sides(s);
	post(c, IBV_WR_RDMA_WRITE, 3, IBV_SEND_SIGNALED, &out, 1, r.addr, r.rkey);
	good(c->scq, 3, IBV_WC_RDMA_WRITE, -1);
	post(c, IBV_WR_RDMA_READ, 4, IBV_SEND_SIGNALED, &in, 1, r.addr + LEN, r.rkey);
	good(c->scq, 4, IBV_WC_RDMA_READ, LEN);
	sync_sides(s);
	buf_verify(b, "what was written and read");
}

#define IDLE (BIT(IBV_QPS_INIT) | BIT(IBV_QPS_RESET))
#define ENDED (BIT(IBV_QPS_SQD) | BIT(IBV_QPS_SQE) | BIT(IBV_QPS_ERR))

/* While a connection is set up: between its Request and the answer. */
static void t_setup(struct side *s)
{
	struct sockaddr_storage to = s->peer;
	struct rdma_cm_id *listener;
	struct conn_opts o = {};
	struct rdma_conn_param p;
	struct rdma_cm_event ev;
	struct conn c = {};
	struct buf b;
	uint16_t port;

	buf_new(s, &b, 2 * LEN, ACC_ALL);
	c.ech = rdma_create_event_channel();
	CHECK(c.ech, "rdma_create_event_channel: errno %d", errno);
	if (s->client) {
		oob_recv(s, &port, sizeof(port));
		set_port(&to, port);
		CALL(rdma_create_id(c.ech, &c.id, NULL, RDMA_PS_TCP));
		conn_resolve(s, c.id, c.ech, &to);
		conn_setup(s, &c, &o);
		ask_all(&c, "before connect", idle, IDLE);
		conn_param(&c, &p);
		CALL(rdma_connect(c.id, &p));
		/* The server has the Request, and does not answer before this side is ready. */
		sync_sides(s);
		ask_all(&c, "during connect", idle, IDLE);
		sync_sides(s);
	} else {
		listener = listen_open(s, c.ech, 4);
		port = port_of(rdma_get_local_addr(listener));
		oob_send(s, &port, sizeof(port));
		cm_expect(c.ech, RDMA_CM_EVENT_CONNECT_REQUEST, &ev, NULL);
		c.id = ev.id;
		conn_setup(s, &c, &o);
		sync_sides(s);
		ask_all(&c, "before accept", idle, IDLE);
		sync_sides(s);
		conn_param(&c, &p);
		CALL(rdma_accept(c.id, &p));
		CALL(rdma_destroy_id(listener));
	}
	/* Accepting has moved it already; connecting has, when the event comes. */
	if (!s->client)
		ask_all(&c, "after accept", connected, BIT(IBV_QPS_RTS));
	cm_expect(c.ech, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL);
	ask_all(&c, "established", connected, BIT(IBV_QPS_RTS));
	sync_sides(s);
	/* The side that accepts waits for the first message of the other. */
	exchange(s, &c, &b);
	conn_close(&c);
	buf_free(&b);
}

/* In RTS, with data under way before and after. */
static void t_connected(struct side *s)
{
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * LEN, ACC_ALL);
	exchange(s, &c, &b);
	ask_all(&c, "connected", connected, BIT(IBV_QPS_RTS));
	exchange(s, &c, &b);
	conn_close(&c);
	buf_free(&b);
}

/* In CLOSING: the active side disconnects, and has a message under way that waits for its receive. */
static void t_closing(struct side *s)
{
	enum { LONG = 16 << 20 };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LONG, ACC_ALL);
	sge = sge_of(&b, 0, LONG);
	if (s->active) {
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		CALL(ask(&c, IBV_QPS_SQD, STATE));
		CHECK(qp_state(c.qp) == IBV_QPS_SQD, "the close has not begun");
		ask_all(&c, "closing", ended, ENDED);
	}
	sync_sides(s);
	/* If the peer has waited in vain for this, the connection ends in another way. */
	if (!s->active)
		post_recv(&c, 1, &sge, 1);
	conn_expect_down(&c);
	CALL(ask(&c, IBV_QPS_ERR, STATE));
	ask_all(&c, "closed", ended, BIT(IBV_QPS_ERR));
	conn_free(&c);
	buf_free(&b);
}

/* In TERMINATE and ERROR, after a fault; and after a reset as before. */
static void t_ended(struct side *s)
{
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active)
		post(&c, IBV_WR_RDMA_WRITE, 1, 0, &sge, 1, 0, 0x12345678);
	while (qp_state(c.qp) == IBV_QPS_RTS)
		sleep_ms(1);
	ask_all(&c, "after a fault", ended, ENDED);
	conn_expect_error(&c);
	ask_all(&c, "in error", ended, BIT(IBV_QPS_ERR));
	CALL(ask(&c, IBV_QPS_ERR, STATE));
	CALL(ask(&c, IBV_QPS_RESET, STATE));
	ask_all(&c, "after a reset", idle, IDLE);
	CALL(ask(&c, IBV_QPS_ERR, STATE));
	ask_all(&c, "in error without a connection", ended, BIT(IBV_QPS_ERR));
	conn_free(&c);
	buf_free(&b);
}

/* Programs that make and move their queue pairs themselves, on one side or on both. */
static void t_own(struct side *s)
{
	static const unsigned int ways[][2] = {
		{ OWN_QP, OWN_QP },
		{ OWN_QP | OWN_EARLY, OWN_QP | OWN_EARLY },
		{ OWN_QP | OWN_LATE, OWN_QP | OWN_LATE },
		{ OWN_QP | OWN_EARLY | OWN_LATE, OWN_QP | OWN_EARLY | OWN_LATE },
		{ OWN_QP | OWN_EARLY | OWN_LATE, 0 },
		{ 0, OWN_QP | OWN_EARLY | OWN_LATE },
	};
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	size_t i;

	buf_new(s, &b, 2 * LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		o.own = ways[i][s->client];
		conn_open(s, &c, &o);
		exchange(s, &c, &b);
		post_recv(&c, 9, &sge, 1);
		sync_sides(s);
		if (s->active)
			CALL(rdma_disconnect(c.id));
		conn_expect_down(&c);
		CALL(ask(&c, IBV_QPS_ERR, STATE));
		bad(c.rcq, 9, FLUSHED);
		conn_free(&c);
	}
	buf_free(&b);
}

const struct test modify_tests[] = {
	{ "modify-setup", t_setup, T_QUICK },
	{ "modify-connected", t_connected, T_QUICK },
	{ "modify-closing", t_closing, T_QUICK | T_BOTH },
	{ "modify-ended", t_ended, T_QUICK | T_BOTH },
	{ "modify-own", t_own, T_QUICK | T_BOTH },
	{ }
};
