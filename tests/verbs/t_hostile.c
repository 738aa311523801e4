// SPDX-License-Identifier: GPL-2.0
/*
 * A process that overwrites its own queues. They are in memory that it shares
 * with the driver, so no library can prevent it. The driver must survive,
 * protect other processes, and still serve this one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/siw-abi.h>

#include "vt.h"

enum { HIT_SQ = 1, HIT_RQ = 2, HIT_CQ = 4, RACE = 8 };

struct mapping {
	uint8_t *p;
	size_t len;
};

struct attack {
	struct side *s;
	struct conn c;
	struct buf b;
	struct rmem r;
	struct mapping sq, rq, cq;
	uint64_t rng;
	atomic_bool stop;
};

/* The process's mappings of the device, sorted by address. */
static int mappings(struct mapping *m, int most)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long begin, end;
	char line[256];
	int n = 0;

	CHECK(f, "/proc/self/maps: errno %d", errno);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "uverbs") && n < most &&
		    sscanf(line, "%lx-%lx", &begin, &end) == 2)
			m[n++] = (struct mapping) { (uint8_t *)begin, end - begin };
	fclose(f);
	return n;
}

static struct mapping of_size(const struct mapping *m, int n, size_t len)
{
	int i;

	for (i = 0; i < n; i++)
		if (m[i].len == len)
			return m[i];
	skip("no mapping of %zu bytes: the queues are not where they are with siw", len);
}

/* The queues have different sizes, to tell their mappings apart: 15, 7 and 5 pages. */
static void attack_open(struct attack *a)
{
	struct conn_opts o = { .sq = 512, .rq = 256, .scq_size = 512, .rcq_size = 512 };
	struct mapping m[8];
	int n;

	conn_open(a->s, &a->c, a->s->active ? &o : NULL);
	buf_new(a->s, &a->b, 16 * PAGE, ACC_ALL);
	if (a->s->active) {
		n = mappings(m, 8);
		a->sq = of_size(m, n, 512 * sizeof(struct siw_sqe) / PAGE * PAGE);
		a->rq = of_size(m, n, 256 * sizeof(struct siw_rqe) / PAGE * PAGE);
		a->cq = of_size(m, n, 512 * sizeof(struct siw_cqe) + PAGE);
		a->r = take_rmem(a->s);
	} else {
		give_rmem(a->s, &a->b);
	}
}

/* Rings the doorbell: a post_send call without requests. */
static void ring(struct attack *a)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_post_send cmd;
	} db = {};
	struct ib_uverbs_post_send_resp resp;

	db.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
	db.hdr.in_words = sizeof(db) / 4;
	db.hdr.out_words = sizeof(resp) / 4;
	db.cmd.response = (uintptr_t)&resp;
	db.cmd.qp_handle = a->c.qp->handle;
	db.cmd.wqe_size = sizeof(struct ibv_send_wr);
	/* The driver may return any result. */
	if (write(a->c.qp->context->cmd_fd, &db, sizeof(db)) < 0)
		return;
}

static uint32_t odd_length(uint64_t *rng)
{
	static const uint32_t odd[] = {
		0, 1, 80, 81, 4096, 65536, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff0,
	};

	return odd[below(rng, ARRAY_SIZE(odd))];
}

static void odd_sge(struct attack *a, struct siw_sge *sge)
{
	uint64_t *rng = &a->rng;

	sge->lkey = below(rng, 2) ? a->b.mr->lkey : (uint32_t)mix(rng);
	sge->length = odd_length(rng);
	sge->laddr = below(rng, 3) ? (uintptr_t)a->b.p + below(rng, a->b.len) : mix(rng);
}

/* Fields are valid or random by chance, so that entries reach checks of all depths. */
static void scribble_sq(struct attack *a)
{
	struct siw_sqe *sqe = (struct siw_sqe *)a->sq.p;
	uint64_t *rng = &a->rng;
	int i, k;

	for (i = 0; i < 512; i++, sqe++) {
		sqe->id = mix(rng);
		sqe->num_sge = below(rng, 4) ? below(rng, 8) : mix(rng);
		/* The range includes the opcodes for kernel consumers. */
		sqe->opcode = below(rng, 4) ? below(rng, SIW_NUM_OPCODES + 2) : mix(rng);
		sqe->rkey = below(rng, 3) ? mix(rng) : a->b.mr->rkey;
		sqe->raddr = below(rng, 2) ? mix(rng) : (uintptr_t)a->b.p;
		for (k = 0; k < SIW_MAX_SGE; k++)
			odd_sge(a, &sqe->sge[k]);
		__atomic_store_n(&sqe->flags, (uint16_t)(mix(rng) | !!below(rng, 8)),
				 __ATOMIC_RELEASE);
	}
}

static void scribble_rq(struct attack *a)
{
	struct siw_rqe *rqe = (struct siw_rqe *)a->rq.p;
	uint64_t *rng = &a->rng;
	int i, k;

	for (i = 0; i < 256; i++, rqe++) {
		rqe->id = mix(rng);
		rqe->num_sge = below(rng, 4) ? below(rng, 8) : mix(rng);
		rqe->opcode = mix(rng);
		for (k = 0; k < SIW_MAX_SGE; k++)
			odd_sge(a, &rqe->sge[k]);
		__atomic_store_n(&rqe->flags, below(rng, 8) ? SIW_WQE_VALID : (uint16_t)mix(rng),
				 __ATOMIC_RELEASE);
	}
}

static void scribble(struct attack *a)
{
	if (a->s->arg & HIT_SQ)
		scribble_sq(a);
	if (a->s->arg & HIT_RQ)
		scribble_rq(a);
	if (a->s->arg & HIT_CQ)
		fill(a->cq.p, a->cq.len, mix(&a->rng));
}

static void *scribbler(void *arg)
{
	struct attack *a = arg;

	while (!a->stop)
		scribble(a);
	return NULL;
}

/* A new connection of the process works. */
static void still_works(struct side *s)
{
	struct ibv_sge sge;
	struct rmem r = {};
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_new(s, &b, 16 * PAGE, ACC_ALL);
	sge = sge_of(&b, 11, 50000);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&b, 11, 50000, 1);
		post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr + 5, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
		mark_send(&c, 1);
	} else {
		buf_expect(&b, 5, 50000, 1);
		mark_arm(&c);
		give_rmem(s, &b);
		mark_wait(&c, 1);
		buf_verify(&b, "a connection after the attack");
	}
	conn_close(&c);
	buf_free(&b);
}

static void t_hostile(struct side *s)
{
	static struct attack a;
	struct ibv_sge sge;
	pthread_t thread;
	int i, round;

	for (round = 0; round < 6; round++) {
		memset(&a, 0, sizeof(a));
		a.s = s;
		a.rng = s->seed * 100 + round;
		attack_open(&a);
		sync_sides(s);
		if (s->active) {
			if (s->arg & RACE)
				CHECK(!pthread_create(&thread, NULL, scribbler, &a), "no thread");
			for (i = 0; i < 50; i++) {
				if (!(s->arg & RACE))
					scribble(&a);
				ring(&a);
				/* Now and then a valid request, so that there are completions. */
				sge = sge_of(&a.b, 0, 3000);
				try_post(&a.c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1,
					 a.r.addr, a.r.rkey);
			}
			a.stop = true;
			if (s->arg & RACE)
				pthread_join(thread, NULL);
		} else {
			/* Messages for the receive queue. */
			for (i = 0; i < 50; i++) {
				sge = sge_of(&a.b, 0, 100);
				try_post(&a.c, IBV_WR_SEND, i, 0, &sge, 1, 0, 0);
			}
		}
		sync_sides(s);
		conn_free(&a.c);
		buf_free(&a.b);
	}
	still_works(s);
}

const struct test hostile_tests[] = {
	{ "hostile-sq", t_hostile, 0, HIT_SQ },
	{ "hostile-rq", t_hostile, 0, HIT_RQ },
	{ "hostile-cq", t_hostile, 0, HIT_CQ },
	{ "hostile-all", t_hostile, 0, HIT_SQ | HIT_RQ | HIT_CQ },
	{ "hostile-race", t_hostile, 0, HIT_SQ | HIT_RQ | HIT_CQ | RACE },
	{ }
};
