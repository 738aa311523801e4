// SPDX-License-Identifier: GPL-2.0
/* Memory regions: registration and its limits, and access to all of their bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

/* Writes to, then reads from, the other side's region, at remote address "at". */
static void exercise(struct side *s, struct conn *c, struct buf *remote, uint64_t at,
		     size_t off, size_t len)
{
	struct buf local;
	struct rmem r;
	struct ibv_sge sge;

	buf_new(s, &local, 2 * len, ACC_ALL);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&local, 0, len, len + off);
		buf_expect(&local, len, len, len + off);
		sge = sge_of(&local, 0, len);
		post(c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c->scq, 1, IBV_WC_RDMA_WRITE, -1);
		sge = sge_of(&local, len, len);
		post(c, IBV_WR_RDMA_READ, 2, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c->scq, 2, IBV_WC_RDMA_READ, len);
		buf_verify(&local, "data written and read back");
		sync_sides(s);
	} else {
		r = (struct rmem) { .addr = at, .rkey = remote->mr->rkey };
		buf_expect(remote, off, len, len + off);
		oob_send(s, &r, sizeof(r));
		sync_sides(s);
		buf_verify(remote, "region on the other side");
	}
	buf_free(&local);
}

/* Regions with any start and length are usable up to their last byte. */
static void t_odd(struct side *s)
{
	static const size_t begins[] = { 0, 1, 2047, 4095 }, lens[] = { 1, 2, 4095, 9001 };
	struct conn c;
	struct buf b;
	size_t i, k;

	conn_open(s, &c, NULL);
	for (i = 0; i < ARRAY_SIZE(begins); i++) {
		for (k = 0; k < ARRAY_SIZE(lens); k++) {
			buf_map(&b, 8 * PAGE);
			b.mr = ibv_reg_mr(s->pd, b.p + begins[i], lens[k], ACC_ALL);
			CHECK(b.mr, "ibv_reg_mr: errno %d", errno);
			CHECK(b.mr->length == lens[k], "a region of %zu bytes", b.mr->length);
			exercise(s, &c, &b, (uintptr_t)b.p + begins[i], begins[i], lens[k]);
			buf_free(&b);
		}
	}
	conn_close(&c);
}

/* A region with an iova that is not its virtual address, as source and as sink. */
static void t_iova(struct side *s)
{
	static const uint64_t iovas[] = { 0, 0x1000, 0x7654321000, 0xfffffffffff00000 };
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;
	size_t i;

	conn_open(s, &c, NULL);
	for (i = 0; i < ARRAY_SIZE(iovas); i++) {
		buf_map(&b, 4 * PAGE);
		b.mr = ibv_reg_mr_iova(s->pd, b.p, b.len, iovas[i], ACC_ALL);
		CHECK(b.mr, "ibv_reg_mr_iova at %#lx: errno %d", iovas[i], errno);
		exercise(s, &c, &b, iovas[i] + 4095, 4095, 5000);
		/* Local elements use the iova, too. */
		if (s->active) {
			r = take_rmem(s);
			buf_fill(&b, 100, 5000, i);
			sge = (struct ibv_sge) { iovas[i] + 100, 5000, b.mr->lkey };
			post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
			good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
			mark_send(&c, 1);
		} else {
			r = (struct rmem) { .addr = iovas[i] + 200, .rkey = b.mr->rkey };
			buf_expect(&b, 200, 5000, i);
			mark_arm(&c);
			oob_send(s, &r, sizeof(r));
			mark_wait(&c, 1);
		}
		buf_verify(&b, "region with addresses of its own");
		buf_free(&b);
	}
	conn_close(&c);
}

/* Registers and uses a region over this mapping. */
static void over_mapping(struct side *s, void *p, size_t len, const char *what)
{
	struct buf b = { .p = p, .len = len, .model = malloc(len) };
	struct conn c;

	CHECK(b.model, "no memory for %zu bytes", len);
	memcpy(b.model, p, len);
	conn_open(s, &c, NULL);
	b.mr = ibv_reg_mr(s->pd, p, len, ACC_ALL);
	CHECK(b.mr, "ibv_reg_mr of %s: errno %d", what, errno);
	exercise(s, &c, &b, (uintptr_t)p + 4000, 4000, len - 9001);
	buf_free(&b);
	conn_close(&c);
}

static void t_huge(struct side *s)
{
	enum { HUGE = 2 << 20 };
	char have;
	void *p;

	p = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	have = p != MAP_FAILED;
	oob_send(s, &have, 1);
	if (!have)
		skip("no huge pages here");
	oob_recv(s, &have, 1);
	if (!have)
		skip("no huge pages on the other side");
	memset(p, 0x5a, 2 * HUGE);
	over_mapping(s, p, 2 * HUGE, "huge pages");
}

static void t_shared(struct side *s)
{
	enum { LEN = 100 * 4096 };
	int fd = memfd_create("rsiw-verbs", 0);
	void *p;

	CHECK(fd >= 0 && !ftruncate(fd, LEN), "memfd: errno %d", errno);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED, "memfd: errno %d", errno);
	over_mapping(s, p, LEN, "shared memory");
	close(fd);
}

/* Untouched pages: registration must fault in pages of the process, not the shared zero page. */
static void t_untouched(struct side *s)
{
	enum { LEN = 64 * 4096 };
	struct buf b = { .len = LEN, .model = calloc(1, LEN) };
	struct conn c;

	CHECK(b.model, "no memory");
	conn_open(s, &c, NULL);
	b.p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(b.p != MAP_FAILED, "no memory");
	b.mr = ibv_reg_mr(s->pd, b.p, LEN, ACC_ALL);
	CHECK(b.mr, "ibv_reg_mr: errno %d", errno);
	exercise(s, &c, &b, (uintptr_t)b.p + 1, 1, LEN - 2);
	buf_free(&b);
	conn_close(&c);
}

/* A region over read-only memory can be a source, locally and for the peer's Reads. */
static void t_readonly(struct side *s)
{
	struct ibv_sge sge;
	struct rmem r = {};
	struct conn c;
	struct buf from, to;

	conn_open(s, &c, NULL);
	buf_map(&from, 4 * PAGE);
	buf_new(s, &to, 4 * PAGE, ACC_ALL);
	buf_fill(&from, 0, from.len, s->client);
	CALL(mprotect(from.p, from.len, PROT_READ));
	CHECK(!ibv_reg_mr(s->pd, from.p, from.len, ACC_LOCAL),
	      "memory that is not ours to write was registered for writing");
	from.mr = ibv_reg_mr(s->pd, from.p, from.len, IBV_ACCESS_REMOTE_READ);
	CHECK(from.mr, "ibv_reg_mr of memory to be read: errno %d", errno);
	if (s->active) {
		r = take_rmem(s);
		sge = sge_of(&to, 0, to.len);
		buf_expect(&to, 0, to.len, !s->client);
		post(&c, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_READ, to.len);
		sge = sge_of(&from, 0, from.len);
		post(&c, IBV_WR_SEND, 2, IBV_SEND_SIGNALED, &sge, 1, 0, 0);
		good(c.scq, 2, IBV_WC_SEND, -1);
	} else {
		sge = sge_of(&to, 0, to.len);
		buf_expect(&to, 0, to.len, !s->client);
		post_recv(&c, 1, &sge, 1);
		give_rmem(s, &from);
		good(c.rcq, 1, IBV_WC_RECV, to.len);
	}
	buf_verify(&to, "data from memory to be read");
	conn_close(&c);
	CALL(ibv_dereg_mr(from.mr));
	from.mr = NULL;
	buf_free(&from);
	buf_free(&to);
}

/* Access flags and ranges that can be registered, and others that must be refused. */
static void t_flags(struct side *s)
{
	static const struct {
		int access;
		bool ok;
	} tries[] = {
		{ 0, true },
		{ IBV_ACCESS_LOCAL_WRITE, true },
		{ IBV_ACCESS_REMOTE_READ, true },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, true },
		{ ACC_ALL, true },
		{ ACC_ALL | IBV_ACCESS_RELAXED_ORDERING, true },
		/* Remote write needs local write. */
		{ IBV_ACCESS_REMOTE_WRITE, false },
		{ IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, false },
		{ IBV_ACCESS_REMOTE_ATOMIC, false },
		/* On-demand paging is not supported. */
		{ ACC_ALL | IBV_ACCESS_ON_DEMAND, false },
	};
	struct ibv_mr *mr;
	struct buf b;
	size_t i;

	buf_map(&b, PAGE);
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		mr = ibv_reg_mr(s->pd, b.p, b.len, tries[i].access);
		CHECK(!!mr == tries[i].ok, "access %#x: %s, errno %d", tries[i].access,
		      mr ? "registered" : "refused", errno);
		if (mr)
			CALL(ibv_dereg_mr(mr));
	}
	CHECK(!ibv_reg_mr(s->pd, b.p, 0, ACC_ALL), "a region of no bytes was registered");
	CHECK(!ibv_reg_mr(s->pd, (void *)~0xffful, 8192, ACC_ALL),
	      "a region around the end of the address space was registered");
	CALL(munmap(b.p, b.len));
	CHECK(!ibv_reg_mr(s->pd, b.p, b.len, ACC_ALL), "unmapped memory was registered");
	free(b.model);
}

/* Access flags of features that the library lacks are refused, except the one for atomics. */
static void t_refused(struct side *s)
{
	static const int refused[] = {
		IBV_ACCESS_MW_BIND, IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED,
	};
	bool own = own_provider(s);
	struct ibv_mr *mr;
	struct buf b;
	size_t i;

	buf_map(&b, PAGE);
	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		mr = ibv_reg_mr(s->pd, b.p, b.len, ACC_ALL | refused[i]);
		CHECK(own ? !!mr : !mr && errno == EOPNOTSUPP, "access %#x: %s, errno %d", refused[i],
		      mr ? "registered" : "refused", errno);
		if (mr)
			CALL(ibv_dereg_mr(mr));
	}
	/* libfabric and qperf set this flag without asking whether the device has atomics. */
	mr = ibv_reg_mr(s->pd, b.p, b.len, ACC_ALL | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mr, "the right to atomics: errno %d", errno);
	CALL(ibv_dereg_mr(mr));
	buf_free(&b);
}

/* A zero-based region, as source and as sink. */
static void t_zero_based(struct side *s)
{
	struct ibv_sge sge;
	struct rmem r;
	struct conn c;
	struct buf b;

	conn_open(s, &c, NULL);
	buf_map(&b, 4 * PAGE);
	b.mr = ibv_reg_mr(s->pd, b.p + 100, 3 * PAGE, ACC_ALL | IBV_ACCESS_ZERO_BASED);
	CHECK(b.mr, "ibv_reg_mr: errno %d", errno);
	exercise(s, &c, &b, 900, 1000, 5000);
	if (s->active) {
		r = take_rmem(s);
		buf_fill(&b, 100, 200, 1);
		sge = (struct ibv_sge) { 0, 200, b.mr->lkey };
		post(&c, IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED, &sge, 1, r.addr, r.rkey);
		good(c.scq, 1, IBV_WC_RDMA_WRITE, -1);
		mark_send(&c, 1);
	} else {
		r = (struct rmem) { .addr = 0, .rkey = b.mr->rkey };
		buf_expect(&b, 100, 200, 1);
		mark_arm(&c);
		oob_send(s, &r, sizeof(r));
		mark_wait(&c, 1);
	}
	buf_verify(&b, "region addressed from 0");
	conn_close(&c);
	buf_free(&b);
}

/* Many regions at a time: all keys differ, and each refers to its own memory. */
static void t_many(struct side *s)
{
	enum { COUNT = 1000, LEN = 64 };
	struct ibv_mr *mr[COUNT];
	struct ibv_sge sge;
	uint32_t rkey;
	uint64_t addr;
	struct conn c;
	struct buf b;
	int i, k;

	conn_open(s, &c, NULL);
	buf_new(s, &b, COUNT * LEN, ACC_ALL);
	for (i = 0; i < COUNT; i++) {
		mr[i] = ibv_reg_mr(s->pd, b.p + i * LEN, LEN, ACC_ALL);
		CHECK(mr[i], "region %d: errno %d", i, errno);
		for (k = 0; k < i; k++)
			CHECK(mr[k]->rkey != mr[i]->rkey && mr[k]->lkey != mr[i]->lkey,
			      "regions %d and %d share a key", k, i);
	}
	addr = (uintptr_t)b.p;
	oob_send(s, &addr, sizeof(addr));
	oob_recv(s, &addr, sizeof(addr));
	if (!s->active)
		mark_arm(&c);
	for (i = 0; i < COUNT; i += 7) {
		if (s->active) {
			oob_recv(s, &rkey, sizeof(rkey));
			buf_fill(&b, i * LEN, LEN, i);
			sge = (struct ibv_sge) { (uintptr_t)b.p + i * LEN, LEN, mr[i]->lkey };
			post(&c, IBV_WR_RDMA_WRITE, i, IBV_SEND_SIGNALED, &sge, 1,
			     addr + i * LEN, rkey);
			good(c.scq, i, IBV_WC_RDMA_WRITE, -1);
		} else {
			oob_send(s, &mr[i]->rkey, sizeof(rkey));
			buf_expect(&b, i * LEN, LEN, i);
		}
	}
	if (s->active)
		mark_send(&c, 1);
	else
		mark_wait(&c, 1);
	buf_verify(&b, "many regions");
	for (i = 0; i < COUNT; i++)
		CALL(ibv_dereg_mr(mr[i]));
	conn_close(&c);
	buf_free(&b);
}

/* STags are random: knowing one does not help to guess the next. */
static void t_keys(struct side *s)
{
	enum { COUNT = 256 };
	struct ibv_mr *mr[COUNT];
	uint32_t all = ~0u, any = 0;
	int i, near = 0;
	struct buf b;

	buf_map(&b, PAGE);
	for (i = 0; i < COUNT; i++) {
		mr[i] = ibv_reg_mr(s->pd, b.p, PAGE, ACC_ALL);
		CHECK(mr[i], "region %d: errno %d", i, errno);
		/* The index is above the 8-bit key. */
		all &= mr[i]->rkey >> 8;
		any |= mr[i]->rkey >> 8;
		if (i && abs((int)(mr[i]->rkey >> 8) - (int)(mr[i - 1]->rkey >> 8)) < 0x1000)
			near++;
	}
	/* With 24 random bits, 0.13 neighbours are expected. */
	CHECK(near < 6, "%d of %d indices are close to the one before", near, COUNT);
	CHECK(any == 0xffffff && all == 0, "bits that never change: %#x", ~any | all);
	for (i = 0; i < COUNT; i++)
		CALL(ibv_dereg_mr(mr[i]));
	buf_free(&b);
}

/* A PD with a region cannot be freed; a region outlives the connection. */
static void t_lifetime(struct side *s)
{
	struct ibv_pd *pd = ibv_alloc_pd(s->ctx);
	struct conn_opts o = { .pd = pd };
	struct ibv_mr *mr;
	struct conn c;
	struct buf b;

	CHECK(pd, "ibv_alloc_pd: errno %d", errno);
	buf_map(&b, PAGE);
	mr = ibv_reg_mr(pd, b.p, b.len, ACC_ALL);
	CHECK(mr, "ibv_reg_mr: errno %d", errno);
	CHECK(ibv_dealloc_pd(pd), "a domain was freed under its region");
	conn_open(s, &c, &o);
	conn_close(&c);
	CALL(ibv_dereg_mr(mr));
	CALL(ibv_dealloc_pd(pd));
	buf_free(&b);
}

const struct test mr_tests[] = {
	/*= 5040-5.5-3, 5040-5.5-8, 5040-8.1.1-5, 5041-8.3-1, 5041-8.3-2, 5041-8.3.1-5 */
	{ "mr-odd", t_odd, T_QUICK },
	/*= 5041-8.3-1 */
	{ "mr-iova", t_iova, T_QUICK },
	{ "mr-huge-pages", t_huge, 0 },
	{ "mr-shared-memory", t_shared, 0 },
	{ "mr-untouched", t_untouched, 0 },
	/*= 5040-8.1.2-4, 5041-8.3.2-5 */
	{ "mr-read-only", t_readonly, 0 },
	/*= 5040-8.1.1-6, 5040-8.1.2-4, 5041-8.3.1-6, 5041-8.3.2-5 */
	{ "mr-flags", t_flags, T_QUICK },
	{ "mr-flags-refused", t_refused, T_QUICK },
	{ "mr-zero-based", t_zero_based, T_QUICK },
	{ "mr-many", t_many, 0 },
	/*= 5040-8.1.1-9 */
	{ "mr-keys", t_keys, T_QUICK },
	{ "mr-lifetime", t_lifetime, 0 },
	{ }
};
