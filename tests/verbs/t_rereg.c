// SPDX-License-Identifier: GPL-2.0
/* Registered regions that get other memory, other rights, or another domain. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "vt.h"

enum {
	TRANS = IBV_REREG_MR_CHANGE_TRANSLATION,
	PD = IBV_REREG_MR_CHANGE_PD,
	ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
	LEN = 5 * 4096,
};

static void give(struct side *s, uint64_t addr, uint32_t rkey)
{
	struct rmem r = { .addr = addr, .rkey = rkey };

	oob_send(s, &r, sizeof(r));
}

/* The active side writes a pattern by the key that it is given. */
static void write_once(struct side *s, struct conn *c, struct buf *b, uint64_t seed)
{
	struct rmem r = take_rmem(s);
	struct ibv_sge sge = sge_of(b, 0, LEN);

	buf_fill(b, 0, LEN, seed);
	post(c, IBV_WR_RDMA_WRITE, seed, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
	good(c->scq, seed, IBV_WC_RDMA_WRITE, -1);
	mark_send(c, seed);
}

/* The passive side gives the key, and waits for the pattern. */
static void written_once(struct side *s, struct conn *c, struct buf *b, uint64_t addr,
			 uint32_t rkey, uint64_t seed)
{
	buf_expect(b, 0, LEN, seed);
	mark_arm(c);
	give(s, addr, rkey);
	mark_wait(c, seed);
	buf_verify(b, "the region's memory");
}

/* The active side writes by a key that is not to be used. Either side ends in ERROR. */
static void write_refused(struct side *s, struct conn *c, struct buf *b)
{
	struct rmem r = take_rmem(s);
	struct ibv_sge sge = sge_of(b, 0, LEN);

	post(c, IBV_WR_RDMA_WRITE, 99, 0, &sge, 1, r.addr, r.rkey);
	conn_expect_error(c);
}

/*
 * Other memory, at another address, with other bounds: the peer writes to what the
 * new key names, and not by the old key.
 */
static void t_memory(struct side *s)
{
	const uint64_t iova = 0x1234000;
	struct buf from, to;
	struct conn c;
	uint32_t old;

	conn_open(s, &c, NULL);
	buf_new(s, &from, LEN, ACC_ALL);
	if (s->active) {
		write_once(s, &c, &from, 1);
		write_once(s, &c, &from, 2);
		write_refused(s, &c, &from);
	} else {
		buf_map(&to, LEN);
		written_once(s, &c, &from, (uintptr_t)from.p, from.mr->rkey, 1);
		old = from.mr->rkey;
		CALL(rereg(from.mr, TRANS, NULL, to.p, LEN, iova, 0));
		CHECK(from.mr->lkey == from.mr->rkey && (from.mr->rkey & 0xff) == (old & 0xff),
		      "keys %#x, then %#x and %#x", old, from.mr->lkey, from.mr->rkey);
		written_once(s, &c, &to, iova, from.mr->rkey, 2);
		give(s, (uintptr_t)from.p, old);
		conn_expect_error(&c);
		buf_verify(&to, "the new memory");
		/* What the region had is not pinned any more, and can go while the region stays. */
		buf_verify(&from, "the old memory");
	}
	conn_free(&c);
	buf_free(&from);
	if (!s->active)
		buf_free(&to);
}

/* Rights are added, also to memory that was pinned for reading, and taken away. */
static void t_access(struct side *s)
{
	struct buf from;
	struct conn c;

	conn_open(s, &c, NULL);
	buf_new(s, &from, LEN, s->active ? ACC_ALL : IBV_ACCESS_REMOTE_READ);
	if (s->active) {
		write_once(s, &c, &from, 1);
		write_once(s, &c, &from, 2);
		write_refused(s, &c, &from);
	} else {
		CALL(rereg(from.mr, ACCESS, NULL, NULL, 0, 0, ACC_ALL));
		written_once(s, &c, &from, (uintptr_t)from.p, from.mr->rkey, 1);
		CALL(rereg(from.mr, ACCESS, NULL, NULL, 0, 0, ACC_LOCAL | IBV_ACCESS_REMOTE_WRITE));
		written_once(s, &c, &from, (uintptr_t)from.p, from.mr->rkey, 2);
		CALL(rereg(from.mr, ACCESS, NULL, NULL, 0, 0, ACC_LOCAL | IBV_ACCESS_REMOTE_READ));
		give(s, (uintptr_t)from.p, from.mr->rkey);
		conn_expect_error(&c);
		buf_verify(&from, "memory without the right to write");
	}
	conn_free(&c);
	buf_free(&from);
}

/* A region changes its domain: it can be used in the new one, and holds that one. */
static void t_domain(struct side *s)
{
	struct ibv_pd *other = NULL;
	struct buf from;
	struct conn c;

	conn_open(s, &c, NULL);
	if (s->active) {
		buf_new(s, &from, LEN, ACC_ALL);
		write_once(s, &c, &from, 1);
		write_refused(s, &c, &from);
	} else {
		other = ibv_alloc_pd(s->ctx);
		CHECK(other, "ibv_alloc_pd: errno %d", errno);
		buf_map(&from, LEN);
		from.mr = ibv_reg_mr(other, from.p, LEN, ACC_ALL);
		CHECK(from.mr, "ibv_reg_mr: errno %d", errno);
		CALL(rereg(from.mr, PD, s->pd, NULL, 0, 0, 0));
		CALL(ibv_dealloc_pd(other));
		written_once(s, &c, &from, (uintptr_t)from.p, from.mr->rkey, 1);
		other = ibv_alloc_pd(s->ctx);
		CHECK(other, "ibv_alloc_pd: errno %d", errno);
		CALL(rereg(from.mr, PD, other, NULL, 0, 0, 0));
		CHECK(ibv_dealloc_pd(other) == EBUSY, "a domain was freed under its region");
		give(s, (uintptr_t)from.p, from.mr->rkey);
		conn_expect_error(&c);
		buf_verify(&from, "memory of another domain");
	}
	conn_free(&c);
	buf_free(&from);
	if (other)
		CALL(ibv_dealloc_pd(other));
}

/* What is refused leaves the region as it was, key and all. */
static void t_refused(struct side *s)
{
	struct buf from, gone;
	struct conn c;
	uint32_t old;

	conn_open(s, &c, NULL);
	buf_new(s, &from, LEN, ACC_ALL);
	if (s->active) {
		write_once(s, &c, &from, 1);
	} else {
		struct {
			const char *what;
			unsigned int flags;
			void *addr;
			size_t len;
			uint64_t iova;
			int access, error;
		} tries[] = {
			{ "no change", 0, NULL, 0, 0, 0, EINVAL },
			{ "an unknown change", 8, NULL, 0, 0, 0, EOPNOTSUPP },
			{ "no bytes", TRANS, from.p, 0, 0, 0, EINVAL },
			{ "addresses that wrap", TRANS, from.p, LEN, -PAGE, 0, EINVAL },
			{ "unmapped memory", TRANS, NULL, LEN, 0, 0, EFAULT },
			{ "memory windows", ACCESS, NULL, 0, 0, ACC_ALL | IBV_ACCESS_MW_BIND,
			  EOPNOTSUPP },
			{ "a right without another", ACCESS, NULL, 0, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL },
			{ "no new address, from 0", ACCESS, NULL, 0, 0, ACC_ALL | IBV_ACCESS_ZERO_BASED,
			  EINVAL },
		};
		size_t i;
		int e;

		buf_map(&gone, PAGE);
		CALL(munmap(gone.p, PAGE));
		tries[4].addr = gone.p;
		old = from.mr->rkey;
		for (i = 0; i < ARRAY_SIZE(tries); i++) {
			/* Our own library has them. */
			if (tries[i].error == EOPNOTSUPP && tries[i].access && own_provider(s))
				continue;
			e = rereg(from.mr, tries[i].flags, NULL, tries[i].addr, tries[i].len,
				  tries[i].iova, tries[i].access);
			CHECK(e == tries[i].error, "%s: errno %d", tries[i].what, e);
		}
		CHECK(from.mr->rkey == old, "another key");
		written_once(s, &c, &from, (uintptr_t)from.p, old, 1);
		free(gone.model);
	}
	conn_close(&c);
	buf_free(&from);
}

/* While the peer writes without a pause, a region gets other memory: the old does not change then. */
static void t_busy(struct side *s)
{
	enum { BUSY = 1 << 20, ROUNDS = 4 };
	struct buf from, to;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct rmem r;
	struct conn c;
	int i;

	buf_new(s, &from, BUSY, ACC_ALL);
	buf_map(&to, BUSY);
	for (i = 0; i < ROUNDS; i++) {
		conn_open(s, &c, NULL);
		if (s->active) {
			r = take_rmem(s);
			sge = sge_of(&from, 0, BUSY);
			do {
				post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1,
				     r.addr, r.rkey);
				wc = poll_one(c.scq);
			} while (!wc.status);
			conn_expect_error(&c);
		} else {
			give_rmem(s, &from);
			sleep_ms(20);
			CALL(rereg(from.mr, TRANS, NULL, to.p, BUSY, (uintptr_t)to.p, 0));
			buf_fill(&from, 0, BUSY, i);
			conn_expect_error(&c);
			sleep_ms(QUIET_MS);
			buf_verify(&from, "memory that the region has left");
			buf_verify(&to, "memory that nobody knows of");
			CALL(rereg(from.mr, TRANS, NULL, from.p, BUSY, (uintptr_t)from.p, 0));
		}
		conn_free(&c);
		sync_sides(s);
	}
	buf_free(&from);
	buf_free(&to);
}

const struct test rereg_tests[] = {
	{ "rereg-memory", t_memory, T_QUICK },
	{ "rereg-access", t_access, T_QUICK },
	{ "rereg-domain", t_domain, T_QUICK },
	{ "rereg-refused", t_refused, T_QUICK },
	{ "rereg-busy", t_busy, T_QUICK | T_BOTH },
	{ }
};
