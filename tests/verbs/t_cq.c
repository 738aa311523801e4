// SPDX-License-Identifier: GPL-2.0
/* Completion queues: events, overflow, sharing, limits. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "vt.h"

/* Waits for an event of this queue, acknowledges it, and returns whether it came in time. */
static bool cq_event(struct conn *c, struct ibv_cq *cq, unsigned int ms)
{
	struct pollfd pfd = { .fd = c->channel->fd, .events = POLLIN };
	struct ibv_cq *from;
	void *context;

	if (poll(&pfd, 1, ms) != 1)
		return false;
	CALL(ibv_get_cq_event(c->channel, &from, &context));
	CHECK(from == cq && context == c, "an event of another queue");
	ibv_ack_cq_events(from, 1);
	return true;
}

static void arm(struct ibv_cq *cq, bool solicited)
{
	CALL(ibv_req_notify_cq(cq, solicited));
}

/* The active side sends one message, when the passive side is ready. */
static void one_send(struct side *s, struct conn *c, struct buf *b, unsigned int flags)
{
	struct ibv_sge sge = sge_of(b, 0, 100);

	sync_sides(s);
	post(c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED | flags, &sge, 1, 0, 0);
	good(c->scq, 1, IBV_WC_SEND, -1);
}

/* A queue that is armed for any completion gives one event. */
static void t_events(struct side *s)
{
	struct conn_opts o = { .events = true };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 100);
	if (s->active) {
		for (i = 0; i < 4; i++)
			one_send(s, &c, &b, 0);
		/* The queue is not armed. */
		CHECK(!cq_event(&c, c.scq, QUIET_MS), "an event without arming");
		arm(c.scq, false);
		one_send(s, &c, &b, 0);
		CHECK(cq_event(&c, c.scq, wait_ms), "no event for a Send");
	} else {
		for (i = 0; i < 5; i++)
			post_recv(&c, i, &sge, 1);
		sync_sides(s);
		good(c.rcq, 0, IBV_WC_RECV, 100);
		CHECK(!cq_event(&c, c.rcq, QUIET_MS), "an event without arming");
		arm(c.rcq, false);
		CHECK(!cq_event(&c, c.rcq, QUIET_MS), "an event without a completion");
		sync_sides(s);
		CHECK(cq_event(&c, c.rcq, wait_ms), "no event for a receive");
		good(c.rcq, 1, IBV_WC_RECV, 100);
		/* The event has disarmed the queue. */
		sync_sides(s);
		good(c.rcq, 2, IBV_WC_RECV, 100);
		CHECK(!cq_event(&c, c.rcq, QUIET_MS), "a second event without arming");
		/* Arming twice gives one event only. */
		arm(c.rcq, false);
		arm(c.rcq, false);
		sync_sides(s);
		CHECK(cq_event(&c, c.rcq, wait_ms), "no event after arming again");
		good(c.rcq, 3, IBV_WC_RECV, 100);
		sync_sides(s);
		good(c.rcq, 4, IBV_WC_RECV, 100);
		CHECK(!cq_event(&c, c.rcq, QUIET_MS), "two events for one arming");
	}
	conn_close(&c);
	buf_free(&b);
}

/* A queue that is armed for solicited completions gives no event for others. */
static void t_solicited(struct side *s)
{
	struct conn_opts o = { .events = true };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 100);
	if (s->active) {
		one_send(s, &c, &b, 0);
		one_send(s, &c, &b, IBV_SEND_SOLICITED);
		one_send(s, &c, &b, IBV_SEND_SOLICITED);
	} else {
		for (i = 0; i < 3; i++)
			post_recv(&c, i, &sge, 1);
		arm(c.rcq, true);
		sync_sides(s);
		good(c.rcq, 0, IBV_WC_RECV, 100);
		CHECK(!cq_event(&c, c.rcq, QUIET_MS), "an event for a message not solicited");
		/* It is still armed. */
		sync_sides(s);
		CHECK(cq_event(&c, c.rcq, wait_ms), "no event for a solicited message");
		good(c.rcq, 1, IBV_WC_RECV, 100);
		arm(c.rcq, false);
		sync_sides(s);
		CHECK(cq_event(&c, c.rcq, wait_ms), "no event for a solicited message, any armed");
		good(c.rcq, 2, IBV_WC_RECV, 100);
	}
	conn_close(&c);
	buf_free(&b);
}

/* A completion in error counts as solicited. */
static void t_error_event(struct side *s)
{
	struct conn_opts o = { .events = true };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 100);
	post_recv(&c, 1, &sge, 1);
	arm(c.rcq, s->arg);
	sync_sides(s);
	if (s->active)
		CALL(rdma_disconnect(c.id));
	CHECK(cq_event(&c, c.rcq, wait_ms), "no event for a flushed receive");
	bad(c.rcq, 1, FLUSHED);
	conn_expect_down(&c);
	conn_free(&c);
	buf_free(&b);
}

/* More completions than entries: an asynchronous event, and no entry overwritten. */
static void t_overflow(struct side *s)
{
	enum { ENTRIES = 4, COUNT = 12 };
	bool sends = s->arg;
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c, other;
	struct buf b;
	int i, n, event;

	/* Another connection has queues of its own, which the overflow must not affect. */
	conn_open(s, &other, NULL);
	if (s->active && sends)
		o.scq_size = ENTRIES;
	if (!s->active && !sends)
		o.rcq_size = ENTRIES;
	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 8);
	for (i = 0; i < COUNT && !s->active; i++)
		post_recv(&c, i, &sge, 1);
	sync_sides(s);
	for (i = 0; i < COUNT && s->active; i++)
		/* The connection may end before the last Send is posted. */
		try_post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	if (s->active == sends) {
		struct ibv_cq *cq = sends ? c.scq : c.rcq;

		event = async_event(s, wait_ms);
		CHECK(event == IBV_EVENT_CQ_ERR, "event %s",
		      event < 0 ? "none" : ibv_event_type_str(event));
		for (n = 0; ibv_poll_cq(cq, 1, &wc) == 1 && n <= COUNT; n++)
			CHECK(wc.wr_id == (uint64_t)n && wc.status == IBV_WC_SUCCESS,
			      "entry %d: id %lu, %s", n, wc.wr_id, ibv_wc_status_str(wc.status));
		CHECK(n == ENTRIES, "%d completions in a queue of %d", n, ENTRIES);
	}
	for (i = 0; i < COUNT; i++) {
		if (!s->active)
			mark_arm(&other);
		sync_sides(s);
		if (s->active)
			mark_send(&other, i);
		else
			mark_wait(&other, i);
	}
	sync_sides(s);
	conn_free(&c);
	conn_close(&other);
	buf_free(&b);
}

/* One queue for both directions of two connections; it wraps many times. */
static void t_shared(struct side *s)
{
	enum { COUNT = 150 };
	struct ibv_cq *cq = ibv_create_cq(s->ctx, 16, NULL, NULL, 0);
	struct conn_opts o = { .scq = cq, .rcq = cq };
	int i, k, seen[2][2] = {}, total;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct conn c[2];
	struct buf b;

	CHECK(cq, "ibv_create_cq: errno %d", errno);
	conn_open(s, &c[0], &o);
	conn_open(s, &c[1], &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	for (i = 0; i < COUNT; i++) {
		/* Both sides send on both connections. */
		for (k = 0; k < 2; k++) {
			sge = sge_of(&b, 1024 * (k + 1), 200 + k);
			post_recv(&c[k], 1000 + i, &sge, 1);
			buf_expect(&b, 1024 * (k + 1), 100 + k, 4 * i + 2 * k + !s->client);
		}
		sync_sides(s);
		for (k = 0; k < 2; k++) {
			buf_fill(&b, k * 512, 100 + k, 4 * i + 2 * k + s->client);
			sge = sge_of(&b, k * 512, 100 + k);
			post(&c[k], IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		}
		for (total = 0; total < 4; total++) {
			wc = poll_one(cq);
			k = wc.qp_num == c[1].qp->qp_num;
			CHECK(wc.qp_num == c[k].qp->qp_num && wc.status == IBV_WC_SUCCESS &&
			      wc.wr_id % 1000 == (uint64_t)i,
			      "round %d: QP %u, id %lu, %s", i, wc.qp_num, wc.wr_id,
			      ibv_wc_status_str(wc.status));
			seen[k][wc.wr_id >= 1000]++;
			CHECK(wc.wr_id < 1000 || wc.byte_len == 100u + k,
			      "round %d: %u bytes on connection %d", i, wc.byte_len, k);
		}
		buf_verify(&b, "after a round on two connections");
	}
	for (k = 0; k < 2; k++)
		CHECK(seen[k][0] == COUNT && seen[k][1] == COUNT,
		      "connection %d: %d Sends, %d receives", k, seen[k][0], seen[k][1]);
	CHECK(ibv_destroy_cq(cq), "a queue was destroyed under its QPs");
	conn_close(&c[0]);
	conn_close(&c[1]);
	CALL(ibv_destroy_cq(cq));
	buf_free(&b);
}

static void t_limits(struct side *s)
{
	struct ibv_device_attr dev;
	struct ibv_cq *cq;

	CALL(ibv_query_device(s->ctx, &dev));
	CHECK(!ibv_create_cq(s->ctx, 0, NULL, NULL, 0), "a queue of no entries");
	CHECK(!ibv_create_cq(s->ctx, dev.max_cqe + 1, NULL, NULL, 0),
	      "more entries than the device has");
	CHECK(!ibv_create_cq(s->ctx, 16, NULL, NULL, 100000), "a vector that does not exist");
	cq = ibv_create_cq(s->ctx, 1, NULL, NULL, 0);
	CHECK(cq && cq->cqe >= 1, "a queue of one entry: errno %d", errno);
	CALL(ibv_destroy_cq(cq));
	cq = ibv_create_cq(s->ctx, 70000, NULL, NULL, s->ctx->num_comp_vectors - 1);
	CHECK(cq && cq->cqe >= 70000, "a queue of 70000 entries: errno %d", errno);
	CALL(ibv_destroy_cq(cq));
	cq = ibv_create_cq(s->ctx, dev.max_cqe, NULL, NULL, 0);
	CHECK(cq && cq->cqe == dev.max_cqe, "a queue of %d entries: errno %d", dev.max_cqe,
	      errno);
	CALL(ibv_destroy_cq(cq));
}

static struct ibv_qp *qp_with(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = send, .recv_cq = recv,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	errno = 0;
	return ibv_create_qp(pd, &attr);
}

/*
 * The handle of a queue is valid only in the context that created it. Another
 * context (here of the same process) has no such queue, or one of its own with
 * the same handle.
 */
static void t_other_context(struct side *s)
{
	enum { MANY = 16 };
	struct ibv_cq *foreign[MANY], *own[2 * MANY], *last;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	int i, n;

	for (i = 0; i < MANY; i++) {
		foreign[i] = ibv_create_cq(s->ctx, 4, NULL, NULL, 0);
		CHECK(foreign[i], "ibv_create_cq: errno %d", errno);
	}
	/* A handle that the second context has not used yet. */
	last = foreign[MANY - 1];
	ctx = ibv_open_device(s->ctx->device);
	CHECK(ctx, "ibv_open_device: errno %d", errno);
	pd = ibv_alloc_pd(ctx);
	own[0] = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	CHECK(pd && own[0] && own[0]->handle < last->handle, "queue %u is not before %u",
	      own[0] ? own[0]->handle : 0, last->handle);
	CHECK(!qp_with(pd, last, own[0]) && (errno == EINVAL || errno == ENOENT),
	      "another's queue for sends: errno %d", errno);
	CHECK(!qp_with(pd, own[0], last) && (errno == EINVAL || errno == ENOENT),
	      "another's queue for receives: errno %d", errno);
	for (n = 1; own[n - 1]->handle != last->handle; n++) {
		CHECK(n < (int)ARRAY_SIZE(own), "no queue has the number %u", last->handle);
		own[n] = ibv_create_cq(ctx, 4, NULL, NULL, 0);
		CHECK(own[n], "ibv_create_cq: errno %d", errno);
	}
	qp = qp_with(pd, last, last);
	CHECK(qp, "a queue by its number: errno %d", errno);
	CHECK(ibv_destroy_cq(own[n - 1]) == EBUSY, "it is not the one that is used");
	for (i = 0; i < MANY; i++)
		CALL(ibv_destroy_cq(foreign[i]));
	CALL(ibv_destroy_qp(qp));
	while (n--)
		CALL(ibv_destroy_cq(own[n]));
	CALL(ibv_dealloc_pd(pd));
	CALL(ibv_close_device(ctx));
	sync_sides(s);
}

const struct test cq_tests[] = {
	{ "cq-events", t_events, T_QUICK },
	{ "cq-solicited", t_solicited, T_QUICK },
	{ "cq-error-event", t_error_event, 0, false },
	{ "cq-error-event-solicited", t_error_event, T_QUICK, true },
	/*= 5040-8.1.1-11 */
	{ "cq-overflow-receive", t_overflow, T_QUICK, false },
	/*= 5040-8.1.1-11 */
	{ "cq-overflow-send", t_overflow, 0, true },
	{ "cq-shared", t_shared, T_QUICK },
	{ "cq-other-context", t_other_context, T_QUICK },
	/*= 5040-8.1.2-2, 5040-8.1.2-5, 5041-8.3.2-3 */
	{ "cq-limits", t_limits, 0 },
	{ }
};
