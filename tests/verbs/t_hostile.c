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
	struct ibv_mw *mw;		/* NULL if the library has none */
	struct rmem r;
	struct mapping sq, rq, cq;
	struct ibv_cq_ex *stamped;
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

/*
 * The queues have different sizes, to tell their mappings apart: 15, 7 and 5 pages. Where completions
 * can have time stamps, they have them in each second round.
 */
static void attack_open(struct attack *a)
{
	struct conn_opts o = { .sq = 512, .rq = 256, .scq_size = 512, .rcq_size = 512 };
	struct mapping m[8];
	int n;

	bool own = own_provider(a->s);
	struct ibv_cq_init_attr_ex stamps = {
		.cqe = o.scq_size, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	if (a->s->active && own && a->rng % 2) {
		a->stamped = ibv_create_cq_ex(a->s->ctx, &stamps);
		CHECK(a->stamped, "ibv_create_cq_ex: errno %d", errno);
		o.scq = o.rcq = ibv_cq_ex_to_cq(a->stamped);
	}
	conn_open(a->s, &a->c, a->s->active ? &o : NULL);
	a->mw = ibv_alloc_mw(a->s->pd, a->rng % 4 < 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	buf_new(a->s, &a->b, 16 * PAGE,
		ACC_ALL | (own ? IBV_ACCESS_REMOTE_ATOMIC : 0) | (a->mw ? IBV_ACCESS_MW_BIND : 0));
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
		0, 1, 8, 80, 81, 4096, 65536, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff0,
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

/* A request to bind the window, which may be right, or to invalidate it. */
static void odd_bind(struct attack *a, struct siw_sqe *sqe)
{
	uint64_t *rng = &a->rng;

	sqe->opcode = below(rng, 2) ? 14 : SIW_OP_INVAL_STAG;
	sqe->rkey = a->mw->rkey ^ below(rng, 2);
	sqe->num_sge = !!below(rng, 8);
	sqe->raddr = (uintptr_t)a->b.p + below(rng, 3) - 1;
	sqe->sge[0] = (struct siw_sge) {
		.laddr = below(rng, 4) ? below(rng, a->b.len + PAGE) : 0, .length = below(rng, 17), .lkey = a->b.mr->lkey,
	};
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
		sqe->opcode = below(rng, 4) ? below(rng, SIW_NUM_OPCODES + 3) : mix(rng);
		sqe->rkey = below(rng, 3) ? mix(rng) : below(rng, 2) ? a->b.mr->rkey : a->r.rkey;
		sqe->raddr = below(rng, 2) ? mix(rng) : a->r.addr + below(rng, 9);
		for (k = 0; k < SIW_MAX_SGE; k++)
			odd_sge(a, &sqe->sge[k]);
		if (a->mw && !below(rng, 4))
			odd_bind(a, sqe);
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

/* The provider reads whatever the process has written over its completions. */
static void poll_some(struct attack *a)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *cq = a->stamped;
	struct ibv_wc wc[16];

	CHECK(ibv_poll_cq(a->c.scq, ARRAY_SIZE(wc), wc) >= 0, "ibv_poll_cq");
	if (!cq || ibv_start_poll(cq, &attr))
		return;
	ibv_wc_read_opcode(cq);
	ibv_wc_read_wc_flags(cq);
	ibv_wc_read_imm_data(cq);
	ibv_wc_read_completion_ts(cq);
	ibv_end_poll(cq);
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
				poll_some(&a);
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
		if (a.stamped)
			CALL(ibv_destroy_cq(ibv_cq_ex_to_cq(a.stamped)));
		if (a.mw)
			CALL(ibv_dealloc_mw(a.mw));
		buf_free(&a.b);
	}
	still_works(s);
}

/* --- each field of a request alone ----------------------------------------------------- */

/* Operations and form that only the driver's own provider asks for (provider/rsiw-abi.h). */
enum { WRITE_WITH_IMM = 12, RECV_WITH_IMM = 13, IMM_SGE = SIW_MAX_SGE - 1 };
enum { TARGET = 64, SINK = 128, LANDS = 512, MOST_INLINE = 80, OLD = 0x11, ADD = -2, SWAP = 0x77, IMM = 0x01020304 };

#define LENGTH BIT(IBV_WC_LOC_LEN_ERR)
#define OPERATION BIT(IBV_WC_LOC_QP_OP_ERR)
#define SUCCESS BIT(IBV_WC_SUCCESS)
#define REFUSED (BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_LOC_ACCESS_ERR))
#define REMOTE (BIT(IBV_WC_REM_ACCESS_ERR) | BIT(IBV_WC_REM_INV_REQ_ERR) | FLUSHED)

struct field {
	const char *name;
	uint8_t opcode;
	uint8_t num_sge;
	uint16_t flags;
	uint32_t length;	/* of the first element, or of the inline data */
	uint32_t statuses;	/* with the own provider; with siw's, no operation is known */
	uint64_t raddr;		/* added to the address */
	bool bad_key;
	uint64_t first;		/* an operand */
};

/* Bits of no meaning. */
#define NO_FLAGS 0xffe0

static const struct field fields[] = {
	{ "fetch-add", SIW_OP_FETCH_AND_ADD, 3, NO_FLAGS, 8, SUCCESS, .first = ADD },
	{ "compare-swap", SIW_OP_COMP_AND_SWAP, 3, NO_FLAGS, 8, SUCCESS, .first = OLD },
	{ "compare-swap of another value", SIW_OP_COMP_AND_SWAP, 3, 0, 8, SUCCESS, .first = ~0ull },
	{ "write-imm", WRITE_WITH_IMM, 5, NO_FLAGS, 8, SUCCESS },
	{ "write-imm inline", WRITE_WITH_IMM, 255, SIW_WQE_INLINE, MOST_INLINE, SUCCESS },
	{ "write-imm without data", WRITE_WITH_IMM, 0, 0, ~0u, SUCCESS },
	{ "send-imm", SIW_OP_SEND_WITH_IMM, 6, NO_FLAGS, 8, SUCCESS },
	{ "send-imm inline", SIW_OP_SEND_WITH_IMM, 0, SIW_WQE_INLINE, MOST_INLINE, SUCCESS },
	{ "fetch-add of 0 elements", SIW_OP_FETCH_AND_ADD, 0, 0, 8, LENGTH },
	{ "fetch-add of 2 elements", SIW_OP_FETCH_AND_ADD, 2, 0, 8, LENGTH },
	{ "fetch-add of 4 elements", SIW_OP_FETCH_AND_ADD, 4, 0, 8, LENGTH },
	{ "fetch-add of 255 elements", SIW_OP_FETCH_AND_ADD, 255, 0, 8, LENGTH },
	{ "fetch-add of 0 bytes", SIW_OP_FETCH_AND_ADD, 3, 0, 0, LENGTH },
	{ "fetch-add of 7 bytes", SIW_OP_FETCH_AND_ADD, 3, 0, 7, LENGTH },
	{ "fetch-add of 16 bytes", SIW_OP_FETCH_AND_ADD, 3, 0, 16, LENGTH },
	{ "fetch-add inline", SIW_OP_FETCH_AND_ADD, 3, SIW_WQE_INLINE, 8, LENGTH },
	{ "fetch-add without a key", SIW_OP_FETCH_AND_ADD, 3, 0, 8, REFUSED, .bad_key = true },
	{ "fetch-add of no multiple of 8", SIW_OP_FETCH_AND_ADD, 3, 0, 8, REMOTE, 4 },
	{ "fetch-add elsewhere", SIW_OP_FETCH_AND_ADD, 3, 0, 8, REMOTE, 1ull << 40 },
	{ "compare-swap of 2 elements", SIW_OP_COMP_AND_SWAP, 2, 0, 8, LENGTH },
	{ "compare-swap of 6 elements", SIW_OP_COMP_AND_SWAP, 6, 0, 8, LENGTH },
	{ "compare-swap of 9 bytes", SIW_OP_COMP_AND_SWAP, 3, 0, 9, LENGTH },
	{ "compare-swap of many bytes", SIW_OP_COMP_AND_SWAP, 3, 0, ~0u, LENGTH },
	{ "compare-swap inline", SIW_OP_COMP_AND_SWAP, 3, SIW_WQE_INLINE, 8, LENGTH },
	{ "compare-swap without a key", SIW_OP_COMP_AND_SWAP, 3, 0, 8, REFUSED, .bad_key = true },
	{ "write-imm of 6 elements", WRITE_WITH_IMM, 6, 0, 8, OPERATION },
	{ "write-imm of 255 elements", WRITE_WITH_IMM, 255, 0, 8, OPERATION },
	{ "write-imm of 81 bytes inline", WRITE_WITH_IMM, 1, SIW_WQE_INLINE, 81, LENGTH },
	{ "write-imm of many bytes inline", WRITE_WITH_IMM, 1, SIW_WQE_INLINE, ~0u, LENGTH },
	{ "write-imm of too many bytes", WRITE_WITH_IMM, 2, 0, 1u << 31, LENGTH },
	{ "write-imm without a key", WRITE_WITH_IMM, 1, 0, 8, REFUSED, .bad_key = true },
	/* It may complete before the peer refuses it. */
	{ "write-imm elsewhere", WRITE_WITH_IMM, 1, 0, 8, REMOTE | SUCCESS, 1ull << 40 },
	{ "send-imm of 7 elements", SIW_OP_SEND_WITH_IMM, 7, 0, 8, OPERATION },
	{ "send-imm of 81 bytes inline", SIW_OP_SEND_WITH_IMM, 1, SIW_WQE_INLINE, 81, LENGTH },
	{ "send-imm without a key", SIW_OP_SEND_WITH_IMM, 1, 0, 8, REFUSED, .bad_key = true },
	{ "the opcode of a completion", RECV_WITH_IMM, 1, 0, 8, OPERATION },
	{ "an opcode that nobody has", RECV_WITH_IMM + 2, 1, 0, 8, OPERATION },
	{ "the last opcode", 255, 1, SIW_WQE_INLINE, 8, OPERATION },
	{ "a read whose STag is invalidated", SIW_OP_READ_LOCAL_INV, 1, 0, 8, OPERATION },
	/* The key is a region's, which no request invalidates. */
	{ "an invalidation", SIW_OP_INVAL_STAG, 0, 0, 0, BIT(IBV_WC_LOC_PROT_ERR) },
	{ "a registration", SIW_OP_REG_MR, 0, 0, 0, OPERATION },
};

/* Writes the request to the element that is next, and hands it over. */
static void write_request(struct attack *a, const struct field *f)
{
	/* The side that connects has posted one request. */
	struct siw_sqe *sqe = (struct siw_sqe *)a->sq.p + (a->s->client ? 1 : 0);
	bool in_line = f->flags & SIW_WQE_INLINE;
	bool atomic = f->opcode == SIW_OP_FETCH_AND_ADD || f->opcode == SIW_OP_COMP_AND_SWAP;
	int i;

	sqe->id = 99;
	sqe->opcode = f->opcode;
	sqe->num_sge = f->num_sge;
	sqe->rkey = a->r.rkey;
	sqe->raddr = a->r.addr + TARGET + f->raddr;
	if (f->opcode == SIW_OP_SEND_WITH_IMM)
		sqe->raddr = 0xeeeeeeeeull << 32 | IMM;
	/* What has no meaning has values, too. */
	memset(sqe->sge, 0xee, sizeof(sqe->sge));
	for (i = 0; i < SIW_MAX_SGE && !atomic; i++)
		sqe->sge[i] = (struct siw_sge) { (uintptr_t)a->b.p, 0, a->b.mr->lkey };
	if (in_line)
		for (i = 0; i < MOST_INLINE; i++)
			((uint8_t *)&sqe->sge[1])[i] = i;
	else
		sqe->sge[0].laddr = (uintptr_t)a->b.p + SINK;
	sqe->sge[0].lkey = f->bad_key ? 0xeeeeee00 : a->b.mr->lkey;
	sqe->sge[0].length = f->length;
	if (f->num_sge == 2 && !in_line)
		sqe->sge[1].length = f->length;
	if (atomic) {
		sqe->sge[1].laddr = f->first;
		sqe->sge[2].laddr = SWAP;
	}
	if (f->opcode == WRITE_WITH_IMM)
		sqe->sge[in_line ? 0 : IMM_SGE].lkey = IMM;
	__atomic_store_n(&sqe->flags, f->flags | SIW_WQE_VALID | SIW_WQE_SIGNALLED, __ATOMIC_RELEASE);
	ring(a);
}

/* What the request changes: nothing, if it is refused. */
static void expect_field(struct side *s, struct buf *b, const struct field *f)
{
	uint64_t old = OLD, now = f->opcode == SIW_OP_FETCH_AND_ADD ? OLD + f->first :
				  f->first == OLD ? SWAP : OLD;
	uint8_t *to = b->model + (f->opcode == SIW_OP_SEND_WITH_IMM ? LANDS : TARGET);
	uint32_t i;

	if (f->statuses != SUCCESS || !own_provider(s))
		return;
	if (f->opcode == SIW_OP_FETCH_AND_ADD || f->opcode == SIW_OP_COMP_AND_SWAP)
		memcpy(b->model + (s->active ? SINK : TARGET), s->active ? &old : &now, 8);
	else if (!s->active && f->flags & SIW_WQE_INLINE)
		for (i = 0; i < f->length; i++)
			to[i] = i;
	else if (!s->active && f->num_sge)
		/* The other side has the same there. */
		memcpy(to, b->model + SINK, f->length);
}

static void receive_field(struct conn *c, const struct field *f)
{
	bool write = f->opcode == WRITE_WITH_IMM;
	uint32_t length = f->num_sge || f->flags & SIW_WQE_INLINE ? f->length : 0;
	struct ibv_wc wc = poll_one(c->rcq);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 7, "%s: %s, id %lu", f->name,
	      ibv_wc_status_str(wc.status), wc.wr_id);
	CHECK(wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == IMM, "%s: immediate data %#x, flags %#x",
	      f->name, wc.imm_data, wc.wc_flags);
	CHECK(wc.opcode == (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) && wc.byte_len == length,
	      "%s: opcode %d, %u bytes", f->name, wc.opcode, wc.byte_len);
}

/* Fields that are wrong lead to a completion that says so; others have their effect, and no more. */
static void one_field(struct side *s, const struct field *f)
{
	bool own = own_provider(s), immediate;
	uint32_t statuses = own ? f->statuses : OPERATION;
	struct conn_opts o = { .sq = 512, .rq = 256, .scq_size = 512, .rcq_size = 512 };
	uint64_t old = OLD;
	struct attack a = { .s = s };
	struct mapping m[8];
	struct ibv_sge sge;
	struct ibv_wc wc;

	conn_open(s, &a.c, s->active ? &o : NULL);
	buf_new(s, &a.b, PAGE, ACC_ALL | (own ? IBV_ACCESS_REMOTE_ATOMIC : 0));
	buf_fill(&a.b, 0, PAGE, 5);
	memcpy(a.b.p + TARGET, &old, 8);
	memcpy(a.b.model + TARGET, &old, 8);
	immediate = statuses == SUCCESS &&
		    (f->opcode == WRITE_WITH_IMM || f->opcode == SIW_OP_SEND_WITH_IMM);
	expect_field(s, &a.b, f);
	if (s->active) {
		a.sq = of_size(m, mappings(m, 8), 512 * sizeof(struct siw_sqe) / PAGE * PAGE);
		a.r = take_rmem(s);
		write_request(&a, f);
		wc = poll_one(a.c.scq);
		CHECK(wc.wr_id == 99 && BIT(wc.status) & statuses, "%s: %s, id %lu", f->name,
		      ibv_wc_status_str(wc.status), wc.wr_id);
		CHECK(qp_state(a.c.qp) == IBV_QPS_RTS || statuses != SUCCESS, "%s: not in RTS", f->name);
	} else {
		sge = sge_of(&a.b, LANDS, 200);
		post_recv(&a.c, 7, &sge, 1);
		give_rmem(s, &a.b);
		if (immediate)
			receive_field(&a.c, f);
	}
	sync_sides(s);
	buf_verify(&a.b, f->name);
	if (!s->active && !immediate && statuses == SUCCESS)
		CHECK(poll_quiet(a.c.rcq, 0), "%s: something was received", f->name);
	sync_sides(s);
	conn_free(&a.c);
	buf_free(&a.b);
}

static void t_fields(struct side *s)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fields); i++)
		one_field(s, &fields[i]);
	still_works(s);
}

const struct test hostile_tests[] = {
	{ "hostile-fields", t_fields, 0, 0 },
	{ "hostile-sq", t_hostile, 0, HIT_SQ },
	{ "hostile-rq", t_hostile, 0, HIT_RQ },
	{ "hostile-cq", t_hostile, 0, HIT_CQ },
	/*= 5040-8.1.2-1, 5040-8.1.2-3, 5041-8.3.2-2, 5041-8.3.2-4 */
	{ "hostile-all", t_hostile, 0, HIT_SQ | HIT_RQ | HIT_CQ },
	/*= 5040-8.1.2-1, 5041-8.3.2-2 */
	{ "hostile-race", t_hostile, 0, HIT_SQ | HIT_RQ | HIT_CQ | RACE },
	{ }
};
