// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues that get another size. The user library knows no new ring, and
 * polls the first one as long as the queue lives. The new ones are mapped and polled here.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/mman.h>
#include <rdma/siw-abi.h>

#include "vt.h"

enum { LEN = 100, RINGS = 100 };

/* A ring of the queue; the library's first one is not mapped here. */
struct ring {
	struct siw_cqe *cqe;
	uint32_t size;
	uint64_t key;
};

/* The side that writes, whose queue for the completions is resized. */
struct writer {
	struct conn c;
	struct buf b;
	struct rmem r;
	struct ring rings[RINGS];	/* in their order */
	unsigned int made, at;		/* rings made; the one polled, 0 is the first of these */
	bool first;			/* the library's ring is polled */
	uint32_t get;			/* position in the queue */
	uint64_t next;			/* the request whose completion comes next */
};

static size_t bytes(const struct ring *r)
{
	size_t len = r->size * sizeof(struct siw_cqe) + sizeof(struct siw_cq_ctrl);

	return (len + PAGE - 1) / PAGE * PAGE;
}

static void *map_ring(struct writer *w, const struct ring *r)
{
	return mmap(NULL, bytes(r), PROT_READ | PROT_WRITE, MAP_SHARED, w->c.scq->context->cmd_fd,
		    r->key);
}

static void resize_to(struct writer *w, unsigned int want)
{
	struct ring *r = &w->rings[w->made];
	struct siw_uresp_create_cq resp;
	uint32_t cqe;

	CALL(resize(w->c.scq, want, &cqe, &resp, sizeof(resp)));
	CHECK(cqe >= want && cqe < 2 * want && cqe == resp.num_cqe, "%u entries for %u, and %u",
	      cqe, want, resp.num_cqe);
	r->size = resp.num_cqe;
	r->key = resp.cq_key;
	r->cqe = map_ring(w, r);
	CHECK(r->cqe != MAP_FAILED, "no mapping of the new ring: errno %d", errno);
	__atomic_store_n(&w->made, w->made + 1, __ATOMIC_RELEASE);
}

/* Takes the next completion of the ring that is polled, if it has one. */
static bool take(struct writer *w)
{
	struct siw_cqe *cqe;
	struct ibv_wc wc;

	if (w->first) {
		int n = ibv_poll_cq(w->c.scq, 1, &wc);

		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		CHECK(!n || (wc.wr_id == w->next && wc.status == IBV_WC_SUCCESS),
		      "request %lu, %s, and not %lu", wc.wr_id, ibv_wc_status_str(wc.status), w->next);
		return n;
	}
	cqe = &w->rings[w->at].cqe[w->get & (w->rings[w->at].size - 1)];
	if (!(__atomic_load_n(&cqe->flags, __ATOMIC_ACQUIRE) & SIW_WQE_VALID))
		return false;
	CHECK(cqe->id == w->next && cqe->status == SIW_WC_SUCCESS,
	      "request %lu, status %u, and not %lu", (unsigned long)cqe->id, cqe->status, w->next);
	__atomic_store_n(&cqe->flags, 0, __ATOMIC_RELEASE);
	return true;
}

/* Takes the next completion: of the oldest ring, until it has none and there is another. */
static bool poll_rings(struct writer *w)
{
	bool newer = __atomic_load_n(&w->made, __ATOMIC_ACQUIRE) > (w->first ? 0 : w->at + 1);

	/* Looks again, as a completion may have come before the newer ring. */
	while (!take(w)) {
		if (!newer)
			return false;
		if (!w->first)
			CALL(munmap(w->rings[w->at].cqe, bytes(&w->rings[w->at])));
		w->at = w->first ? 0 : w->at + 1;
		w->first = false;
		newer = __atomic_load_n(&w->made, __ATOMIC_ACQUIRE) > w->at + 1;
	}
	w->get++;
	w->next++;
	return true;
}

static void taken(struct writer *w, unsigned int count)
{
	uint64_t end = now_ms() + wait_ms;

	while (count) {
		if (poll_rings(w))
			count--;
		else
			CHECK(now_ms() < end, "no completion of request %lu", w->next);
	}
}

static void write_some(struct writer *w, uint64_t from, unsigned int count)
{
	struct ibv_sge sge = sge_of(&w->b, 0, LEN);
	unsigned int i;

	for (i = 0; i < count; i++)
		post(&w->c, IBV_WR_RDMA_WRITE, from + i, IBV_SEND_SIGNALED, &sge, 1, w->r.addr,
		     w->r.rkey);
}

/* Returns whether this is the side that writes. The other one only waits for the end. */
static bool begin(struct side *s, struct writer *w, const struct conn_opts *o)
{
	conn_open(s, &w->c, o);
	buf_new(s, &w->b, LEN, ACC_ALL);
	if (s->active)
		w->r = take_rmem(s);
	else
		give_rmem(s, &w->b);
	w->first = true;
	/* The side that connects has had a completion already. */
	w->get = s->client;
	return s->active;
}

static void end(struct writer *w)
{
	if (w->c.s->active && !w->c.disconnected)
		rdma_disconnect(w->c.id);
	conn_expect_down(&w->c);
	conn_free(&w->c);
	buf_free(&w->b);
}

/* Larger, smaller, and with completions in more than one ring. */
static void t_resize(struct side *s)
{
	const struct conn_opts o = { .scq_size = 16 };
	static struct writer w;
	struct ring old;
	int i;

	if (begin(s, &w, &o)) {
		write_some(&w, 0, 10);
		taken(&w, 4);
		sleep_ms(QUIET_MS);
		resize_to(&w, 40);
		write_some(&w, 10, 40);
		taken(&w, 46);
		CHECK(w.made == 1 && !w.first, "all completions came to the old ring");
		/* All places of the new ring, many times. */
		for (i = 0; i < 20; i++) {
			write_some(&w, w.next, 50);
			taken(&w, 50);
		}
		/* A smaller one, when the larger one has more completions than it has room for. */
		write_some(&w, w.next, 40);
		sleep_ms(QUIET_MS);
		old = w.rings[0];
		resize_to(&w, 4);
		/* The old ring is not to be had any more. */
		CHECK(map_ring(&w, &old) == MAP_FAILED && errno == EINVAL,
		      "a mapping of an old ring: errno %d", errno);
		write_some(&w, w.next + 40, 3);
		sleep_ms(QUIET_MS);
		resize_to(&w, 5);
		write_some(&w, w.next + 43, 7);
		taken(&w, 50);
		CHECK(w.at == 2 && !poll_rings(&w), "ring %u, not the last one, or more", w.at);
	}
	end(&w);
}

/* The new ring overflows when it has no room, and not before. */
static void t_overflow(struct side *s)
{
	const struct conn_opts o = { .scq_size = 2 };
	static struct writer w;
	int event;

	if (begin(s, &w, &o)) {
		resize_to(&w, 32);
		write_some(&w, 0, 32);
		taken(&w, 32);
		resize_to(&w, 2);
		write_some(&w, 32, 3);
		event = async_event(s, wait_ms);
		CHECK(event == IBV_EVENT_CQ_ERR, "event %d for an overflow", event);
		/* More room does not mend it. */
		resize_to(&w, 64);
		taken(&w, 2);
		CHECK(!poll_rings(&w), "a completion after an overflow");
	}
	end(&w);
}

/* An event that was armed before comes for a completion in the new ring. */
static void t_events(struct side *s)
{
	const struct conn_opts o = { .events = true };
	struct pollfd pfd = { .events = POLLIN };
	static struct writer w;
	struct ibv_cq *cq;
	void *context;
	int i;

	if (begin(s, &w, &o)) {
		pfd.fd = w.c.channel->fd;
		CALL(ibv_req_notify_cq(w.c.scq, 0));
		for (i = 0; i < 2; i++) {
			resize_to(&w, 64 << i);
			CHECK(poll(&pfd, 1, QUIET_MS) == 0, "an event without a completion");
		}
		write_some(&w, 0, 1);
		CHECK(poll(&pfd, 1, wait_ms) == 1, "no event");
		CALL(ibv_get_cq_event(w.c.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		taken(&w, 1);
		/* The event has disarmed the queue, and a resize does not arm it. */
		resize_to(&w, 64);
		write_some(&w, 1, 1);
		taken(&w, 1);
		CHECK(poll(&pfd, 1, QUIET_MS) == 0, "a second event");
	}
	end(&w);
}

/* What is refused changes nothing. */
static void t_refused(struct side *s)
{
	struct siw_uresp_create_cq resp;
	struct ibv_device_attr dev;
	static struct writer w;
	uint32_t cqe;
	int e;

	if (begin(s, &w, NULL)) {
		CALL(ibv_query_device(s->ctx, &dev));
		e = resize(w.c.scq, 0, &cqe, &resp, sizeof(resp));
		CHECK(e == EINVAL, "no entries: errno %d", e);
		e = resize(w.c.scq, dev.max_cqe + 1, &cqe, &resp, sizeof(resp));
		CHECK(e == EINVAL, "too many entries: errno %d", e);
		e = resize(w.c.scq, ~0u, &cqe, &resp, sizeof(resp));
		CHECK(e == EINVAL, "far too many entries: errno %d", e);
		e = resize(w.c.scq, 64, &cqe, &resp, sizeof(resp) - 8);
		CHECK(e == EINVAL, "no room for the answer: errno %d", e);
		write_some(&w, 0, 3);
		taken(&w, 3);
	}
	end(&w);
}

static void *resize_often(void *arg)
{
	struct writer *w = arg;
	unsigned int i;

	for (i = 0; i < RINGS; i++) {
		resize_to(w, 64 << i % 4);
		/* Not faster than requests complete, however slow the other thread is. */
		while (__atomic_load_n(&w->next, __ATOMIC_RELAXED) <= i)
			usleep(500);
	}
	return NULL;
}

/* A thread resizes while another one posts and polls. */
static void t_busy(struct side *s)
{
	static struct writer w;
	const struct conn_opts o = { .scq_size = 64 };
	uint64_t posted = 0, end_ms;
	pthread_t thread;

	if (begin(s, &w, &o)) {
		CHECK(!pthread_create(&thread, NULL, resize_often, &w), "no thread");
		end_ms = now_ms() + wait_ms;
		while (w.first || w.at + 1 < RINGS || w.next < posted) {
			if (posted - w.next < 32 && (w.first || w.at + 1 < RINGS)) {
				write_some(&w, posted, 16);
				posted += 16;
			}
			if (poll_rings(&w))
				end_ms = now_ms() + wait_ms;
			else
				CHECK(now_ms() < end_ms, "no completion of request %lu", w.next);
		}
		CHECK(!pthread_join(thread, NULL), "the thread does not end");
		CHECK(w.next > RINGS, "%lu requests only", w.next);
	}
	end(&w);
}

const struct test resize_tests[] = {
	{ "resize", t_resize, T_QUICK },
	{ "resize-overflow", t_overflow, T_QUICK },
	{ "resize-events", t_events, T_QUICK },
	{ "resize-refused", t_refused, T_QUICK },
	{ "resize-busy", t_busy, T_QUICK },
	{ }
};
