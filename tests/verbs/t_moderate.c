// SPDX-License-Identifier: GPL-2.0
/*
 * Events of completion queues that several completions share, or that come late.
 *
 * A machine may be slow at any time. So an event that is to come late must come
 * late each time, after the work was posted. One that is to come at once must come
 * soon after its last completion, however long that took, in one of some tries: in
 * less than half of the time that the others took.
 */
#include <poll.h>

#include "vt.h"

enum { PERIOD_MS = 50, SOON_MS = 20, TRIES = 20, LEN = 100 };

/* Milliseconds from "from" until the queue's event, which is acknowledged. */
static uint64_t event_after(struct conn *c, uint64_t from)
{
	struct pollfd pfd = { .fd = c->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	uint64_t took;

	CHECK(poll(&pfd, 1, wait_ms) == 1, "no event");
	took = now_ms() - from;
	CALL(ibv_get_cq_event(c->channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	return took;
}

/* Milliseconds until the event for completions that have been polled; "least", if that is less. */
static uint64_t event_now(struct conn *c, uint64_t least)
{
	uint64_t took = event_after(c, now_ms());

	return took < least ? took : least;
}

/* Arms the send queue's CQ, writes "count" times, and polls the completions. */
static void writes(struct conn *c, struct buf *b, struct rmem *r, int count)
{
	struct ibv_sge sge = sge_of(b, 0, LEN);
	int i;

	CALL(ibv_req_notify_cq(c->scq, 0));
	for (i = 0; i < count; i++)
		post(c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1, r->addr, r->rkey);
	for (i = 0; i < count; i++)
		good(c->scq, i, IBV_WC_RDMA_WRITE, -1);
}

/* The shortest time until the event for "count" writes, of some tries. */
static uint64_t soonest(struct conn *c, struct buf *b, struct rmem *r, int count)
{
	uint64_t least = wait_ms;
	int i;

	for (i = 0; i < TRIES && least > SOON_MS; i++) {
		writes(c, b, r, count);
		least = event_now(c, least);
	}
	return least;
}

/* Writes "count" times, and returns the time from then until the event. */
static uint64_t late(struct conn *c, struct buf *b, struct rmem *r, int count)
{
	uint64_t from = now_ms();

	writes(c, b, r, count);
	return event_after(c, from);
}

static void t_moderate(struct side *s)
{
	struct conn_opts o = { .events = true };
	uint64_t plain, put_off = wait_ms;
	struct ibv_device_attr_ex dev;
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;
	int i;

	CALL(ibv_query_device_ex(s->ctx, NULL, &dev));
	CHECK(dev.cq_mod_caps.max_cq_count == 0xffff && dev.cq_mod_caps.max_cq_period == 0xffff,
	      "%u completions, %u microseconds", dev.cq_mod_caps.max_cq_count,
	      dev.cq_mod_caps.max_cq_period);
	conn_open(s, &c, &o);
	buf_new(s, &b, LEN, ACC_ALL);
	if (!s->active) {
		give_rmem(s, &b);
		conn_close(&c);
		buf_free(&b);
		return;
	}
	r = take_rmem(s);
	plain = soonest(&c, &b, &r, 1);
	CALL(moderate(c.scq, 4, PERIOD_MS * 1000));
	for (i = 0; i < 5; i++) {
		uint64_t took = late(&c, &b, &r, 1 + i % 3);

		CHECK(took >= PERIOD_MS - 1, "%d completions: an event after %lu ms", 1 + i % 3, took);
		put_off = took < put_off ? took : put_off;
	}
	CHECK(2 * plain < put_off, "late before it is moderated: %lu ms", plain);
	CHECK(2 * soonest(&c, &b, &r, 4) < put_off, "late although all completions are there");
	/* The timer of what came at once may still run. */
	sleep_ms(2 * PERIOD_MS);
	/* No bound but the period. */
	CALL(moderate(c.scq, 0, PERIOD_MS * 1000));
	CHECK(late(&c, &b, &r, 8) >= PERIOD_MS - 1, "early without a count");
	CALL(moderate(c.scq, 0, 0));
	CHECK(2 * soonest(&c, &b, &r, 1) < put_off, "late when it is not moderated any more");
	CALL(moderate(c.scq, 8, 0));
	CHECK(2 * soonest(&c, &b, &r, 1) < put_off, "late without a period");
	/* The queue goes while its event is put off. */
	CALL(moderate(c.scq, 8, 0xffff));
	CALL(ibv_req_notify_cq(c.scq, 0));
	sge = sge_of(&b, 0, LEN);
	post(&c, IBV_WR_RDMA_WRITE, 7, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
	good(c.scq, 7, IBV_WC_RDMA_WRITE, -1);
	conn_close(&c);
	buf_free(&b);
}

/* A request that fails has its event at once. */
static void t_attention(struct side *s)
{
	struct conn_opts o = { .events = true };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	uint64_t soon = wait_ms;
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	for (i = 0; i < 4; i++) {
		conn_open(s, &c, &o);
		CALL(moderate(c.rcq, 100, PERIOD_MS * 1000));
		CALL(ibv_req_notify_cq(c.rcq, 0));
		post_recv(&c, 1, &sge, 1);
		sync_sides(s);
		CALL(ibv_modify_qp(c.qp, &error, IBV_QP_STATE));
		bad(c.rcq, 1, FLUSHED);
		soon = event_now(&c, soon);
		conn_expect_down(&c);
		conn_free(&c);
	}
	CHECK(soon < PERIOD_MS / 2, "the event of a flushed receive is late: %lu ms", soon);
	buf_free(&b);
}

/* A solicited message has its event at once, and one that is not solicited waits. */
static void t_solicited(struct side *s)
{
	uint64_t soon = wait_ms, put_off = wait_ms;
	struct conn_opts o = { .events = true };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	CALL(moderate(c.rcq, 100, PERIOD_MS * 1000));
	for (i = 0; i < TRIES; i++) {
		bool solicited = i % 2;

		if (s->active) {
			sync_sides(s);
			post(&c, IBV_WR_SEND, i,
			     IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0), &sge, 1, 0, 0);
			good(c.scq, i, IBV_WC_SEND, -1);
		} else {
			uint64_t from;

			post_recv(&c, i, &sge, 1);
			CALL(ibv_req_notify_cq(c.rcq, 0));
			from = now_ms();
			sync_sides(s);
			good(c.rcq, i, IBV_WC_RECV, LEN);
			if (solicited) {
				soon = event_now(&c, soon);
			} else {
				uint64_t took = event_after(&c, from);

				CHECK(took >= PERIOD_MS - 1,
				      "not solicited: an event after %lu ms", took);
				put_off = took < put_off ? took : put_off;
			}
		}
		sync_sides(s);
	}
	CHECK(s->active || 2 * soon < put_off, "the event of a solicited message is late: %lu ms",
	      soon);
	conn_close(&c);
	buf_free(&b);
}

const struct test moderate_tests[] = {
	{ "moderate", t_moderate, T_QUICK },
	{ "moderate-errors", t_attention, T_QUICK },
	{ "moderate-solicited", t_solicited, T_QUICK },
	{ }
};
