// SPDX-License-Identifier: GPL-2.0
/* The ways in which a connection ends. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vt.h"

enum { WHO_ACTIVE = 1, WHO_PASSIVE = 2, WHO_BOTH = 3 };

/* One side or both disconnect; the receives of both are flushed, in order. */
static void t_disconnect(struct side *s)
{
	struct conn_opts o = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, &o);
	buf_new(s, &b, PAGE, ACC_LOCAL);
	sge = sge_of(&b, 0, 100);
	for (i = 0; i < 10; i++)
		post_recv(&c, i, &sge, 1);
	sync_sides(s);
	if (s->arg & (s->active ? WHO_ACTIVE : WHO_PASSIVE))
		rdma_disconnect(c.id);
	conn_expect_closed(&c);
	for (i = 0; i < 10; i++)
		bad(c.rcq, i, FLUSHED);
	/* There is one event only, and a second rdma_disconnect() does no harm. */
	CHECK(cm_quiet(c.ech, QUIET_MS), "a second event after the disconnect");
	rdma_disconnect(c.id);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/* Requests that completed before an orderly end have arrived at the peer. */
static void t_delivers(struct side *s)
{
	enum { COUNT = 30, LEN = 20000 };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, COUNT * LEN, ACC_LOCAL);
	for (i = 0; i < COUNT; i++) {
		sge = sge_of(&b, i * LEN, LEN);
		if (s->active) {
			buf_fill(&b, i * LEN, LEN, i);
		} else {
			buf_expect(&b, i * LEN, LEN, i);
			post_recv(&c, i, &sge, 1);
		}
	}
	sync_sides(s);
	for (i = 0; i < COUNT && s->active; i++) {
		sge = sge_of(&b, i * LEN, LEN);
		post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
	}
	for (i = 0; i < COUNT; i++) {
		if (s->active)
			good(c.scq, i, IBV_WC_SEND, -1);
		else
			good(c.rcq, i, IBV_WC_RECV, LEN);
	}
	if (s->active)
		CALL(rdma_disconnect(c.id));
	conn_expect_down(&c);
	buf_verify(&b, "sent before the disconnect");
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/* Requests posted before a disconnect are sent; requests posted after it are flushed. */
static void t_then_post(struct side *s)
{
	enum { COUNT = 12, LEN = 1 << 20 };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&b, 0, LEN, 3);
		for (i = 0; i < COUNT; i++)
			post(&c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		CALL(rdma_disconnect(c.id));
		post(&c, IBV_WR_SEND, 100, 0, &sge, 1, 0, 0);
		for (i = 0; i < COUNT; i++)
			good(c.scq, i, IBV_WC_RDMA_WRITE, -1);
		bad(c.scq, 100, FLUSHED);
	} else {
		post_recv(&c, 1, &sge, 1);
		buf_expect(&b, 0, LEN, 3);
		give_rmem(s, &b);
		bad(c.rcq, 1, FLUSHED);
		buf_verify(&b, "written before the disconnect");
	}
	conn_expect_closed(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/*
 * Posts requests without a pause, until the connection is down. Tells the other side, which waits
 * for that with streaming(), when the first one has completed.
 */
static void stream(struct side *s, struct conn *c, enum ibv_wr_opcode op, struct ibv_sge *sge,
		   struct rmem *r)
{
	enum { WINDOW = 16 };
	uint64_t end = now_ms() + wait_ms;
	int under_way = 0;
	bool told = false;
	struct ibv_wc wc;

	for (;;) {
		while (under_way < WINDOW) {
			if (try_post(c, op, 1, IBV_SEND_SIGNALED, sge, 1, r->addr, r->rkey))
				return;
			under_way++;
		}
		CHECK(now_ms() < end, "the connection does not end");
		if (ibv_poll_cq(c->scq, 1, &wc) != 1)
			continue;
		if (wc.status)
			return;
		under_way--;
		if (!told)
			oob_send(s, "", 1);
		told = true;
	}
}

static void streaming(struct side *s)
{
	char told;

	oob_recv(s, &told, 1);
}

/*
 * The peer streams while this end goes to ERROR. What it has sent before arrives
 * nevertheless, though nobody takes the peer's data any more.
 */
static void t_against_stream(struct side *s)
{
	enum { ROUNDS = 10, LEN = 300000, WRITE = 65536 };
	struct ibv_sge sge, out;
	struct rmem r = {};
	struct conn c;
	struct buf b;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		conn_open(s, &c, NULL);
		buf_new(s, &b, LEN + WRITE, ACC_ALL);
		sge = sge_of(&b, 0, LEN);
		out = sge_of(&b, LEN, WRITE);
		if (s->active) {
			buf_expect(&b, 0, LEN, i);
			post_recv(&c, 1, &sge, 1);
			r = take_rmem(s);
			stream(s, &c, IBV_WR_RDMA_WRITE, &out, &r);
			good(c.rcq, 1, IBV_WC_RECV, LEN);
			buf_verify(&b, "what was sent against the stream");
		} else {
			struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

			buf_fill(&b, 0, LEN, i);
			r.addr = (uintptr_t)b.p + LEN;
			r.rkey = b.mr->rkey;
			oob_send(s, &r, sizeof(r));
			streaming(s);
			/* In the middle of it, at another time in each round. */
			sleep_ms(2 * i);
			post(&c, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
			good(c.scq, 1, IBV_WC_SEND, -1);
			CALL(ibv_modify_qp(c.qp, &attr, IBV_QP_STATE));
		}
		conn_expect_down(&c);
		sync_sides(s);
		conn_free(&c);
		buf_free(&b);
	}
}

/*
 * This end disconnects from a peer that has something to do all the time, as it posts a request for
 * each one that completes. Both ends get their disconnect event all the same.
 */
static void t_disconnect_from(struct side *s)
{
	enum { LEN = 1 << 20 };
	struct rmem r = {};
	struct ibv_sge sge;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active) {
		give_rmem(s, &b);
		streaming(s);
		CALL(rdma_disconnect(c.id));
	} else {
		r = take_rmem(s);
		stream(s, &c, s->arg, &sge, &r);
	}
	conn_expect_down(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/*
 * Both ends disconnect while both wait for Reads: each still answers those that the other has asked
 * for. These are no more than may be under way: one that still waits for its turn when the peer has
 * nothing left to wait for is not answered.
 */
static void t_both_read(struct side *s)
{
	enum { COUNT = 8, LEN = 4 << 20 };
	struct ibv_sge sge;
	struct conn c;
	struct rmem r;
	struct buf b;
	int i, count;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 2 * LEN, ACC_ALL);
	sge = sge_of(&b, LEN, LEN);
	give_rmem(s, &b);
	r = take_rmem(s);
	count = c.ord < COUNT ? c.ord : COUNT;
	for (i = 0; i < count; i++)
		post(&c, IBV_WR_RDMA_READ, i, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
	sync_sides(s);
	CALL(rdma_disconnect(c.id));
	for (i = 0; i < count; i++)
		good(c.scq, i, IBV_WC_RDMA_READ, LEN);
	conn_expect_closed(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/*
 * A fault of the peer ends a connection that this end has closed. What it has sent before still
 * arrives: those requests have completed. The peer takes it only later.
 */
static void t_fault_behind_fin(struct side *s)
{
	enum { COUNT = 10, LEN = 20000 };
	struct ibv_sge sge;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, COUNT * LEN, ACC_LOCAL);
	if (s->active) {
		for (i = 0; i < COUNT; i++) {
			sge = sge_of(&b, i * LEN, LEN);
			buf_fill(&b, i * LEN, LEN, i);
			post(&c, IBV_WR_SEND, i, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		}
		for (i = 0; i < COUNT; i++)
			good(c.scq, i, IBV_WC_SEND, -1);
		CALL(rdma_disconnect(c.id));
		/* No verb tells that the FIN is sent. */
		sleep_ms(50);
		sync_sides(s);
	} else {
		sync_sides(s);
		/* There is no receive for this. */
		sge = sge_of(&b, 0, 100);
		post(&c, IBV_WR_SEND, 100, 0, &sge, 1, 0, 0);
		/* Nor that the peer has met it. */
		sleep_ms(100);
		for (i = 0; i < COUNT; i++) {
			sge = sge_of(&b, i * LEN, LEN);
			buf_expect(&b, i * LEN, LEN, i);
			post_recv(&c, i, &sge, 1);
		}
		for (i = 0; i < COUNT; i++)
			good(c.rcq, i, IBV_WC_RECV, LEN);
		buf_verify(&b, "sent before the fault");
	}
	conn_expect_down(&c);
	sync_sides(s);
	conn_free(&c);
	buf_free(&b);
}

/* Both sides have operations of all kinds under way when one disconnects. */
static void t_busy(struct side *s)
{
	enum { COUNT = 30, LEN = 1 << 20 };
	struct rmem r;
	struct ibv_sge sge;
	struct ibv_wc wc;
	bool flushed = false;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	for (i = 0; i < COUNT; i++)
		post_recv(&c, i, &sge, 1);
	give_rmem(s, &b);
	r = take_rmem(s);
	for (i = 0; i < COUNT; i++)
		post(&c, i % 3 == 0 ? IBV_WR_SEND :
		     i % 3 == 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		     i, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
	if (s->active)
		CALL(rdma_disconnect(c.id));
	/* Each request completes once, and none succeeds after one was flushed. */
	for (i = 0; i < COUNT; i++) {
		wc = poll_one(c.scq);
		CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR ||
		      wc.status == IBV_WC_LOC_QP_OP_ERR,
		      "request %lu: %s", wc.wr_id, ibv_wc_status_str(wc.status));
		CHECK(!flushed || wc.status != IBV_WC_SUCCESS,
		      "request %lu went well after one was flushed", wc.wr_id);
		flushed |= wc.status != IBV_WC_SUCCESS;
	}
	for (i = 0, flushed = false; i < COUNT; i++) {
		wc = poll_one(c.rcq);
		CHECK(wc.wr_id == (uint64_t)i, "receive %lu, not %d", wc.wr_id, i);
		CHECK(!flushed || wc.status != IBV_WC_SUCCESS,
		      "receive %d went well after one was flushed", i);
		flushed |= wc.status != IBV_WC_SUCCESS;
	}
	CHECK(poll_quiet(c.scq, QUIET_MS), "one completion too many");
	conn_expect_down(&c);
	conn_free(&c);
	buf_free(&b);
}

/* A process with a connection is killed; the other side gets a disconnect. */
static void t_killed(struct side *s)
{
	enum { LEN = 1 << 20 };
	struct ibv_sge sge;
	struct conn c;
	struct rmem r;
	struct buf b;
	pid_t pid = 0;
	int status, i;

	/* The child, which will be killed, opens the device itself. */
	if (s->active)
		pid = fork();
	if (pid) {
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "no process");
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		      "the process ended with status %#x", status);
		sync_sides(s);
		return;
	}
	dev_open(s);
	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active) {
		r = take_rmem(s);
		for (i = 0; i < 40; i++)
			post(&c, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, 0, &sge, 1,
			     r.addr, r.rkey);
		kill(getpid(), SIGKILL);
	}
	post_recv(&c, 1, &sge, 1);
	give_rmem(s, &b);
	conn_expect_down(&c);
	bad(c.rcq, 1, FLUSHED);
	conn_free(&c);
	buf_free(&b);
	dev_close(s);
	sync_sides(s);
}

/* A region is deregistered while the other side writes to it: later Writes are refused. */
static void t_dereg_busy(struct side *s)
{
	enum { LEN = 1 << 20 };
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;
	int i;

	conn_open(s, &c, NULL);
	buf_new(s, &b, LEN, ACC_ALL);
	sge = sge_of(&b, 0, LEN);
	if (s->active) {
		r = take_rmem(s);
		for (i = 0; i < 40; i++)
			post(&c, IBV_WR_RDMA_WRITE, i, 0, &sge, 1, r.addr, r.rkey);
		conn_expect_error(&c);
	} else {
		give_rmem(s, &b);
		/* Wait for the first bytes. */
		while (!memcmp((void *)b.p, b.model, 64))
			sleep_ms(1);
		CALL(ibv_dereg_mr(b.mr));
		b.mr = NULL;
		/* From here on no Write may reach the memory. */
		memcpy(b.model, b.p, LEN);
		conn_expect_error(&c);
		buf_verify(&b, "memory after its region was deregistered");
	}
	conn_free(&c);
	buf_free(&b);
}

/* The listener is destroyed while a connection request waits for its answer. */
static void t_listener_gone(struct side *s)
{
	struct conn c = { .ech = rdma_create_event_channel() };
	struct conn_opts o = {};
	struct rdma_conn_param p;
	struct rdma_cm_event ev;
	struct rdma_cm_id *id;
	uint16_t port;

	CHECK(c.ech, "rdma_create_event_channel: errno %d", errno);
	if (s->client) {
		struct sockaddr_storage to = s->peer;

		oob_recv(s, &port, sizeof(port));
		set_port(&to, port);
		CALL(rdma_create_id(c.ech, &c.id, NULL, RDMA_PS_TCP));
		conn_resolve(s, c.id, c.ech, &to);
		conn_setup(s, &c, &o);
		conn_param(&c, &p);
		CALL(rdma_connect(c.id, &p));
		/* The attempt must end, with any error. */
		ev = cm_event(c.ech, wait_ms, NULL);
		CHECK(ev.event != RDMA_CM_EVENT_ESTABLISHED, "connected to nobody");
		conn_free(&c);
		sync_sides(s);
	} else {
		id = listen_open(s, c.ech, 4);
		port = port_of(rdma_get_local_addr(id));
		oob_send(s, &port, sizeof(port));
		cm_expect(c.ech, RDMA_CM_EVENT_CONNECT_REQUEST, &ev, NULL);
		CALL(rdma_destroy_id(id));
		CHECK(cm_quiet(c.ech, QUIET_MS), "an event of a listener that is gone");
		CALL(rdma_destroy_id(ev.id));
		sync_sides(s);
		rdma_destroy_event_channel(c.ech);
	}
}

const struct test close_tests[] = {
	/*= 5040-7-2, 5041-3-10, 5041-3-11, 5041-3-12, 5041-6.2.1-3 */
	{ "disconnect", t_disconnect, T_QUICK | T_BOTH, WHO_ACTIVE },
	/*= 5041-6.2.1-3 */
	{ "disconnect-both", t_disconnect, T_QUICK, WHO_BOTH },
	/*= 5040-5.5-5, 5041-3-4, 5041-6.2.1-1 */
	{ "disconnect-delivers", t_delivers, T_QUICK | T_BOTH },
	/*= 5041-6.2.1-1 */
	{ "disconnect-then-post", t_then_post, T_QUICK | T_BOTH },
	/*= 5041-3-4 */
	{ "disconnect-busy", t_busy, T_QUICK | T_BOTH },
	{ "disconnect-from-writes", t_disconnect_from, T_QUICK | T_BOTH, IBV_WR_RDMA_WRITE },
	{ "disconnect-from-reads", t_disconnect_from, T_QUICK | T_BOTH, IBV_WR_RDMA_READ },
	{ "disconnect-both-read", t_both_read, T_QUICK },
	{ "fault-behind-fin", t_fault_behind_fin, T_QUICK },
	{ "error-against-stream", t_against_stream, T_QUICK },
	/*= 5041-6.2.2-1, 5044-8-1 */
	{ "killed", t_killed, T_QUICK | T_BOTH | T_NODEV },
	/*= 5040-8.1.1-7, 5041-8.3.1-7 */
	{ "deregister-busy", t_dereg_busy, T_QUICK },
	{ "listener-gone", t_listener_gone, 0 },
	{ }
};
