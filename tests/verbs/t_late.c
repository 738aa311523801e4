// SPDX-License-Identifier: GPL-2.0
/*
 * Receives that are posted after the message was sent. The passive side is
 * late by less than the driver waits for a receive (rsiw: recv_wait_ms).
 */
#include <string.h>

#include "vt.h"

enum { LATE_MS = 100 };

/*
 * Sends of one segment, of several, and of zero length; a Write between them,
 * which must not overtake. The receives are posted one at a time.
 */
static void t_receive(struct side *s)
{
	static const uint32_t len[] = { 200, 9000, 0, 33, 40000, 1 };
	enum { COUNT = ARRAY_SIZE(len), SPACE = 40960 };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, (COUNT + 1) * SPACE, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		for (i = 0; i < COUNT; i++)
			buf_fill(&b, i * SPACE, len[i], i);
		buf_fill(&b, COUNT * SPACE, 5000, 77);
	} else {
		give_rmem(s, &b);
	}
	sync_sides(s);
	for (i = 0; i < COUNT; i++) {
		sge = sge_of(&b, i * SPACE, s->active ? len[i] : SPACE);
		if (s->active) {
			post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
			good(c.scq, i, IBV_WC_SEND, -1);
			if (i != 1)
				continue;
			sge = sge_of(&b, COUNT * SPACE, 5000);
			post(&c, IBV_WR_RDMA_WRITE, 90, IBV_SEND_SIGNALED, &sge, 1,
			     r.addr + COUNT * SPACE, r.rkey);
			good(c.scq, 90, IBV_WC_RDMA_WRITE, -1);
			continue;
		}
		/* The message has to wait for long, for a little, or not at all. */
		sleep_ms(i == 0 ? LATE_MS : i % 2 ? 5 : 0);
		if (i == 1) {
			CHECK(poll_quiet(c.rcq, 0), "a completion without a receive");
			buf_verify(&b, "behind a message that waits");
		}
		post_recv(&c, i, &sge, 1);
		good(c.rcq, i, IBV_WC_RECV, len[i]);
		buf_expect(&b, i * SPACE, len[i], i);
		if (i == 2)
			buf_expect(&b, COUNT * SPACE, 5000, 77);
	}
	sync_sides(s);
	buf_verify(&b, "late receives");
	conn_close(&c);
	buf_free(&b);
}

/* More data than TCP's window: the sender has to stop, and then continues. */
static void t_window(struct side *s)
{
	enum { COUNT = 14, LEN = 512 * 1024 };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, COUNT * (size_t)LEN, ACC_LOCAL);
	for (i = 0; i < COUNT; i++) {
		if (s->active)
			buf_fill(&b, i * (size_t)LEN, LEN, i);
		else
			buf_expect(&b, i * (size_t)LEN, LEN, i);
	}
	sync_sides(s);
	if (!s->active)
		sleep_ms(2 * LATE_MS);
	for (i = 0; i < COUNT; i++) {
		sge = sge_of(&b, i * (size_t)LEN, LEN);
		if (s->active)
			post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		else
			post_recv(&c, i, &sge, 1);
	}
	for (i = 0; i < COUNT; i++)
		good(s->active ? c.scq : c.rcq, i, s->active ? IBV_WC_SEND : IBV_WC_RECV,
		     s->active ? -1 : LEN);
	buf_verify(&b, "more than the window");
	conn_close(&c);
	buf_free(&b);
}

/* The sender disconnects before the receive is posted: the message is delivered first. */
static void t_end(struct side *s)
{
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 4 * PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 3 * PAGE);
	if (s->active) {
		buf_fill(&b, 0, 3 * PAGE, 5);
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 1, IBV_WC_SEND, -1);
		CALL(rdma_disconnect(c.id));
		sync_sides(s);
	} else {
		buf_expect(&b, 0, 3 * PAGE, 5);
		sync_sides(s);
		CHECK(cm_quiet(c.ech, LATE_MS), "an end in front of a message");
		post_recv(&c, 1, &sge, 1);
		good(c.rcq, 1, IBV_WC_RECV, 3 * PAGE);
	}
	conn_expect_down(&c);
	buf_verify(&b, "from a sender that is gone");
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/* Two connections wait for receives of one shared queue. */
static void t_shared(struct side *s)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct conn_opts o = {};
	struct ibv_srq *srq = NULL;
	struct conn c[2];
	struct ibv_sge sge;
	struct buf b;
	int i;

	if (!s->active) {
		o.srq = srq = ibv_create_srq(s->pd, &attr);
		CHECK(srq, "ibv_create_srq: errno %d", errno);
	}
	conn_open(s, &c[0], &o);
	conn_open(s, &c[1], &o);
	buf_new(s, &b, 2 * PAGE, ACC_LOCAL);
	sync_sides(s);
	for (i = 0; i < 2; i++) {
		sge = sge_of(&b, i * PAGE, 1000);
		if (s->active) {
			memset(b.p + i * PAGE, 0x5a, 1000);
			memset(b.model + i * PAGE, 0x5a, 1000);
			post(&c[i], IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
			good(c[i].scq, i, IBV_WC_SEND, -1);
			continue;
		}
		sleep_ms(LATE_MS);
		CHECK(i || poll_quiet(c[0].rcq, 0), "a completion without a receive");
		memset(b.model + i * PAGE, 0x5a, 1000);
		post_srq(srq, i, &sge, 1);
	}
	/* Either connection may complete first. */
	for (i = 0; i < 2 && !s->active; i++) {
		struct ibv_wc wc = poll_one(c[i].rcq);

		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 1000, "%s, %u bytes",
		      ibv_wc_status_str(wc.status), wc.byte_len);
	}
	buf_verify(&b, "a shared queue that was empty");
	conn_close(&c[0]);
	conn_close(&c[1]);
	if (srq)
		CALL(ibv_destroy_srq(srq));
	buf_free(&b);
}

/*
 * The receive is never posted, and the QP ends while the message waits: this
 * side destroys it (0) or moves it to ERROR (1), or the other side does (2).
 */
static void t_given_up(struct side *s)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 4 * PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 3 * PAGE);
	if (s->active) {
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 1, IBV_WC_SEND, -1);
	}
	sync_sides(s);
	sleep_ms(s->active ? 0 : LATE_MS);
	if (s->active && s->arg == 2) {
		CALL(ibv_modify_qp(c.qp, &err, IBV_QP_STATE));
	} else if (!s->active && s->arg == 0) {
		rdma_destroy_qp(c.id);
		c.qp = NULL;
	} else if (!s->active && s->arg == 1) {
		CALL(ibv_modify_qp(c.qp, &err, IBV_QP_STATE));
	}
	if (c.qp)
		conn_expect_down(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/*
 * The receive is never posted: when the wait is over, and not before, the connection ends with an
 * error.
 */
static void t_in_vain(struct side *s)
{
	uint64_t from, took;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 200);
	from = now_ms();
	sync_sides(s);
	if (s->active) {
		post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		poll_one(c.scq);
	}
	conn_expect_error(&c);
	took = now_ms() - from;
	CHECK(took >= 3 * LATE_MS, "an end after %lu ms", took);
	conn_free(&c);
	buf_free(&b);
}

const struct test late_tests[] = {
	/*= 5041-7.1-1b */
	{ "late-receive", t_receive, T_QUICK | T_BOTH },
	{ "late-beyond-window", t_window, T_QUICK },
	{ "late-behind-end", t_end, T_QUICK | T_BOTH },
	{ "late-shared", t_shared, T_QUICK },
	{ "late-destroy", t_given_up, T_QUICK, 0 },
	{ "late-error", t_given_up, 0, 1 },
	{ "late-peer-error", t_given_up, 0, 2 },
	/*= 5041-7.1-1b */
	{ "late-in-vain", t_in_vain, T_QUICK },
	{ }
};
