// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues that get another size, for which rsiw's own library is needed: with another
 * one these tests are skipped. The passive side has the queue, the active side sends.
 */
#include <errno.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/mman.h>
#include <rdma/siw-abi.h>

#include "vt.h"

/* A queue whose receives have their numbers as names, and connections that share it. */
struct queue {
	struct ibv_srq *srq;
	struct conn c[2];
	struct buf b;
	uint64_t posted, received;
};

static void open_queue(struct side *s, struct queue *q, uint32_t size)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = size, .max_sge = 2 } };
	struct conn_opts o = {};
	struct ibv_device_attr dev;
	int i;

	*q = (struct queue) {};
	if (!s->active) {
		CALL(ibv_query_device(s->ctx, &dev));
		if (!(dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
			skip("siw's library has no resize of shared receive queues");
		o.srq = q->srq = ibv_create_srq(s->pd, &attr);
		CHECK(q->srq, "ibv_create_srq: errno %d", errno);
	}
	for (i = 0; i < 2; i++)
		conn_open(s, &q->c[i], &o);
	buf_new(s, &q->b, PAGE, ACC_LOCAL);
}

static void close_queue(struct queue *q)
{
	int i;

	for (i = 0; i < 2; i++)
		conn_close(&q->c[i]);
	if (q->srq)
		CALL(ibv_destroy_srq(q->srq));
	buf_free(&q->b);
}

static int post_one(struct queue *q)
{
	struct ibv_sge sge = sge_of(&q->b, 0, 8);
	struct ibv_recv_wr wr = { .wr_id = q->posted, .sg_list = &sge, .num_sge = 1 }, *bad_wr;
	int e = ibv_post_srq_recv(q->srq, &wr, &bad_wr);

	if (!e)
		q->posted++;
	return e;
}

static void post_some(struct queue *q, unsigned int count)
{
	while (count--)
		CALL(post_one(q));
}

/* Messages by the connections in turn, one at a time. Both sides call it. */
static void pass(struct side *s, struct queue *q, unsigned int count)
{
	for (; count--; q->received++) {
		struct conn *c = &q->c[q->received % 2];

		/* Nothing is sent while the passive side changes the queue. */
		sync_sides(s);
		if (s->active)
			mark_send(c, q->received + 1);
		else
			good(c->rcq, q->received, IBV_WC_RECV, 8);
	}
}

static int try_resize(struct queue *q, uint32_t size)
{
	struct ibv_srq_attr attr = { .max_wr = size };

	return ibv_modify_srq(q->srq, &attr, IBV_SRQ_MAX_WR);
}

/* Resizes the queue, which has then room for exactly `room` more receives. */
static void resize_to(struct queue *q, uint32_t size, unsigned int room)
{
	struct ibv_srq_attr attr;

	CALL(try_resize(q, size));
	CALL(ibv_query_srq(q->srq, &attr));
	CHECK(attr.max_wr >= size && attr.max_wr < 2 * size, "%u for %u", attr.max_wr, size);
	post_some(q, room);
	CHECK(post_one(q) == ENOMEM, "room for more than %u", attr.max_wr);
}

/* To more and to less, empty, partly used and full, and the ring has wrapped. */
static void t_resize(struct side *s)
{
	struct queue q;

	open_queue(s, &q, 8);
	if (!s->active)
		resize_to(&q, 16, 16);
	pass(s, &q, 13);
	if (!s->active)
		resize_to(&q, 4, 1);
	pass(s, &q, 3);
	if (!s->active)
		post_some(&q, 3);
	/* A full ring that has wrapped. */
	pass(s, &q, 1);
	if (!s->active) {
		post_some(&q, 1);
		resize_to(&q, 30, 28);
	}
	pass(s, &q, 32);
	/* No receive is left. */
	if (!s->active)
		resize_to(&q, 1, 1);
	pass(s, &q, 1);
	close_queue(&q);
}

/* What is refused changes nothing. */
static void t_refused(struct side *s)
{
	struct ibv_srq_attr attr = { .max_wr = 16, .srq_limit = 17 }, now;
	struct ibv_device_attr dev;
	struct queue q;
	int e;

	open_queue(s, &q, 8);
	if (!s->active) {
		CALL(ibv_query_device(s->ctx, &dev));
		post_some(&q, 5);
		e = try_resize(&q, 0);
		CHECK(e == EINVAL, "no receives: %d", e);
		e = try_resize(&q, dev.max_srq_wr + 1);
		CHECK(e == EINVAL, "too many receives: %d", e);
		e = try_resize(&q, ~0u);
		CHECK(e == EINVAL, "far too many receives: %d", e);
		e = try_resize(&q, 4);
		CHECK(e == EINVAL, "fewer than are posted: %d", e);
		e = ibv_modify_srq(q.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
		CHECK(e == EINVAL, "a limit above the size: %d", e);
		attr.srq_limit = 4;
		CALL(ibv_modify_srq(q.srq, &attr, IBV_SRQ_LIMIT));
		e = try_resize(&q, 2);
		CHECK(e == EINVAL, "a size below the limit: %d", e);
		CALL(ibv_query_srq(q.srq, &now));
		CHECK(now.max_wr == 8 && now.srq_limit == 4, "%u, limit %u", now.max_wr, now.srq_limit);
		post_some(&q, 3);
		CHECK(post_one(&q) == ENOMEM, "room for more than 8");
	}
	pass(s, &q, 8);
	close_queue(&q);
}

/* The limit lasts, or is set with the size. Its event tells of what has moved, and comes once. */
static void t_limit(struct side *s)
{
	struct ibv_srq_attr attr = { .srq_limit = 6 };
	struct queue q;
	int event;

	open_queue(s, &q, 8);
	if (!s->active) {
		post_some(&q, 8);
		CALL(ibv_modify_srq(q.srq, &attr, IBV_SRQ_LIMIT));
		CALL(try_resize(&q, 64));
	}
	pass(s, &q, 2);
	if (!s->active)
		CHECK(async_event(s, QUIET_MS) == -1, "an event with as many as the limit");
	pass(s, &q, 1);
	if (!s->active) {
		event = async_event(s, wait_ms);
		CHECK(event == IBV_EVENT_SRQ_LIMIT_REACHED, "event %d below the limit", event);
		attr = (struct ibv_srq_attr) { .max_wr = 8, .srq_limit = 5 };
		CALL(ibv_modify_srq(q.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
		CHECK(async_event(s, QUIET_MS) == -1, "an event for a limit that is not reached");
	}
	pass(s, &q, 1);
	if (!s->active) {
		event = async_event(s, wait_ms);
		CHECK(event == IBV_EVENT_SRQ_LIMIT_REACHED, "event %d below the new limit", event);
	}
	pass(s, &q, 4);
	if (!s->active)
		CHECK(async_event(s, QUIET_MS) == -1, "a second event");
	close_queue(&q);
}

/* A Send waits for its receive, which comes in a ring that is newer than the Send. */
static void t_late(struct side *s)
{
	struct queue q;

	open_queue(s, &q, 4);
	if (s->active) {
		mark_send(&q.c[0], 1);
		sync_sides(s);
	} else {
		sync_sides(s);
		resize_to(&q, 8, 8);
		good(q.c[0].rcq, 0, IBV_WC_RECV, 8);
		q.received = 1;
	}
	sync_sides(s);
	close_queue(&q);
}

static void *resize_often(void *arg)
{
	static const uint32_t sizes[] = { 64, 16, 256, 32, 1024 };
	struct queue *q = arg;
	unsigned int done = 0, i;

	for (i = 0; i < 100; i++) {
		int e = try_resize(q, sizes[i % ARRAY_SIZE(sizes)]);

		/* More may be posted than have room. */
		CHECK(!e || e == EINVAL, "ibv_modify_srq: %d", e);
		done += !e;
		usleep(500);
	}
	CHECK(done > 30, "%u of 100", done);
	return NULL;
}

/*
 * A thread resizes the queue while others post to it and take from it, by both connections at once.
 * Each receive is used once, and those of a connection in their order.
 */
static void t_busy(struct side *s)
{
	enum { COUNT = 4000, AHEAD = 24 };
	uint64_t next[2] = {}, done[2] = {}, end;
	static bool used[2 * COUNT];
	struct ibv_wc wc;
	struct queue q;
	pthread_t thread;
	int i, n;

	open_queue(s, &q, 64);
	if (s->active) {
		struct ibv_sge sge = sge_of(&q.b, 0, 8);

		for (n = 0; n < COUNT; n++)
			for (i = 0; i < 2; i++) {
				post(&q.c[i], IBV_WR_SEND, n, n % 16 ? 0 : IBV_SEND_SIGNALED, &sge, 1, 0, 0);
				if (!(n % 16))
					good(q.c[i].scq, n, IBV_WC_SEND, -1);
			}
		sync_sides(s);
		close_queue(&q);
		return;
	}
	CHECK(!pthread_create(&thread, NULL, resize_often, &q), "no thread");
	end = now_ms() + wait_ms;
	while (done[0] + done[1] < 2 * COUNT) {
		while (q.posted < 2 * COUNT && q.posted - done[0] - done[1] < AHEAD && !post_one(&q))
			;
		for (i = 0; i < 2; i++) {
			n = ibv_poll_cq(q.c[i].rcq, 1, &wc);
			CHECK(n >= 0, "ibv_poll_cq: %d", n);
			CHECK(n || now_ms() < end, "%lu and %lu messages of %d each", done[0], done[1], COUNT);
			if (!n)
				continue;
			CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 8, "receive %lu: %s, %u bytes",
			      wc.wr_id, ibv_wc_status_str(wc.status), wc.byte_len);
			CHECK(wc.wr_id < q.posted && !used[wc.wr_id] && wc.wr_id >= next[i],
			      "receive %lu: not posted, twice, or out of order", wc.wr_id);
			used[wc.wr_id] = true;
			next[i] = wc.wr_id;
			done[i]++;
			end = now_ms() + wait_ms;
		}
	}
	CHECK(!pthread_join(thread, NULL), "the thread does not end");
	CHECK(done[0] == COUNT && done[1] == COUNT, "%lu and %lu messages", done[0], done[1]);
	sync_sides(s);
	close_queue(&q);
}

/* A process that resizes the queue without its library: what it gets, and what it must not. */
static void t_raw(struct side *s)
{
	struct siw_uresp_create_srq resp = {}, old;
	struct siw_rqe *ring;
	struct queue q;
	void *hole;
	int e;

	open_queue(s, &q, 16);
	if (s->active) {
		pass(s, &q, 2);
		close_queue(&q);
		return;
	}
	hole = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(hole != MAP_FAILED, "mmap: errno %d", errno);
	post_some(&q, 2);
	e = resize_srq(q.srq, 64, hole, 8);
	CHECK(e == EFAULT, "an answer to no memory: errno %d", e);
	e = resize_srq(q.srq, 64, (void *)-PAGE, 8);
	CHECK(e == EFAULT, "an answer to the kernel's memory: errno %d", e);
	e = resize_srq(q.srq, 64, &resp, 4);
	CHECK(e == EINVAL, "half a request: errno %d", e);
	e = resize_srq(q.srq, 64, &resp, 0);
	CHECK(e == EINVAL, "no request: errno %d", e);
	e = resize_srq(q.srq, 64, NULL, 8);
	CHECK(e == EINVAL, "no ring was made: errno %d", e);
	CALL(resize_srq(q.srq, 1, &resp, 8));
	e = resize_srq(q.srq, 1, NULL, 8);
	CHECK(e == EINVAL, "fewer than are posted: errno %d", e);
	CALL(resize_srq(q.srq, 64, &resp, 8));
	e = resize_srq(q.srq, 128, NULL, 8);
	CHECK(e == EINVAL, "another size: errno %d", e);
	/* The library's ring is in use still, also when another one was made. */
	CALL(resize_srq(q.srq, 64, &old, 8));
	pass(s, &q, 2);
	CALL(resize_srq(q.srq, 100, &resp, 8));
	CHECK(resp.num_rqe == 128 && resp.srq_key != old.srq_key, "%u elements", resp.num_rqe);
	/* That of a call before is not to be had any more. */
	ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s->ctx->cmd_fd, old.srq_key);
	CHECK(ring == MAP_FAILED && errno == EINVAL, "a mapping of an old ring: errno %d", errno);
	ring = mmap(NULL, resp.num_rqe * sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED,
		    s->ctx->cmd_fd, resp.srq_key);
	CHECK(ring != MAP_FAILED, "no mapping of the ring: errno %d", errno);
	CALL(resize_srq(q.srq, 100, NULL, 8));
	/* What is written to the library's ring, which is the first one, has no effect. */
	post_some(&q, 5);
	CHECK(!(ring[2].flags & SIW_WQE_VALID), "the rings are one");
	close_queue(&q);
	munmap(ring, resp.num_rqe * sizeof(*ring));
	munmap(hole, PAGE);
}

const struct test srq_resize_tests[] = {
	{ "srq-resize", t_resize, T_QUICK },
	{ "srq-resize-refused", t_refused, T_QUICK },
	{ "srq-resize-limit", t_limit, T_QUICK },
	{ "srq-resize-late", t_late, T_QUICK },
	{ "srq-resize-busy", t_busy, T_QUICK },
	{ "srq-resize-raw", t_raw, T_QUICK },
	{ }
};
