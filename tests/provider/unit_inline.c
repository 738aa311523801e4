// SPDX-License-Identifier: GPL-2.0
/* Inline data that an element has no room for. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "unit.h"

static struct ibv_qp_ex *open_inline(uint32_t most, uint32_t granted)
{
	struct ibv_qp_init_attr_ex attr;

	open_device(true);
	attr = qp_attr(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
	attr.cap.max_inline_data = most;
	qp = fake_ops.create_qp_ex(context, &attr);
	CHECK(qp && attr.cap.max_inline_data == granted);
	/* The kernel takes no more elements than were asked for. */
	CHECK(granted <= SIW_MAX_INLINE || attr.cap.max_send_sge);
	return &to_rsiw_qp(qp)->base.qp_ex;
}

static const char large[600] = "more inline data than an element has room for, and a " __FILE__;

/* Whether a request has `length` bytes of `large` in memory of the provider, at `*at`. */
static bool is_large(const struct siw_sqe *s, uint32_t length, uint64_t *at)
{
	*at = s->sge[0].laddr;
	return !(s->flags & SIW_WQE_INLINE) && s->num_sge == 1 && s->sge[0].lkey == 0x100 &&
	       s->sge[0].length == length && !memcmp((void *)(uintptr_t)*at, large, length);
}

/* Inline data that an element has no room for are where requests with a list have theirs. */
static void t_large_inline(void)
{
	struct ibv_sge list[2] = { { .addr = (uintptr_t)large, .length = 79, .lkey = 5 },
				   { .addr = (uintptr_t)large + 79, .length = 177, .lkey = 6 } };
	struct ibv_send_wr wr = {
		.sg_list = list, .num_sge = 2, .send_flags = IBV_SEND_INLINE, .imm_data = 9,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr init;
	const struct siw_sqe *s;
	uint64_t at, whole;

	open_inline(200, 256);
	CHECK(fake_regions == 1);
	CHECK(!fake_ops.query_qp(qp, &now, 0, &init));
	CHECK(now.cap.max_inline_data == 256 && init.cap.max_inline_data == 256);
	s = posted(wr);
	CHECK(is_large(s, 256, &whole) && s->sge[5].lkey == 9 && s->opcode == 12);
	list[1].length = 178;
	CHECK(post(&wr) == EINVAL && !fake_take_sqe());
	list[1].length = 1;
	s = posted(wr);
	CHECK(s->flags & SIW_WQE_INLINE && s->sge[0].length == 80 && s->sge[0].lkey == 9);
	wr.opcode = IBV_WR_SEND;
	list[1].length = 2;
	CHECK(is_large(posted(wr), 81, &at) && at == whole + 2 * 256);
	CHECK(!fake_ops.destroy_qp(qp) && !fake_regions);
	attr = qp_attr(0);
	attr.cap.max_inline_data = 513;
	CHECK(!fake_ops.create_qp_ex(context, &attr) && errno == EINVAL && !fake_regions);
	/* Who asks for less has no such memory. */
	open_inline(80, 80);
	CHECK(!fake_regions && post(&wr) == EINVAL);
}

enum { LISTED = 2 * SQ - 1, MIDDLE = SQ - 1 };

static char *trap;
static uint64_t taken[LISTED];
static int n_taken;

static void take_posted(void)
{
	struct siw_sqe *sqe;

	while ((sqe = fake_take_sqe())) {
		taken[n_taken++] = sqe->sge[0].laddr;
		fake_free_wqe(&sqe->flags);
	}
}

/* The data of a request are not there: the kernel takes what was posted before. */
static void on_trap(int number)
{
	take_posted();
	mprotect(trap, 4096, PROT_READ);
}

/* A list that is longer than the ring, of which the kernel takes requests meanwhile. */
static void t_large_inline_list(void)
{
	struct ibv_sge sges[LISTED];
	struct ibv_send_wr wrs[LISTED], *bad;
	int i;

	open_inline(512, 512);
	trap = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(trap != MAP_FAILED && signal(SIGSEGV, on_trap) != SIG_ERR);
	for (i = 0; i < LISTED; i++) {
		const char *data = i == MIDDLE ? trap : large;

		sges[i] = (struct ibv_sge) { .addr = (uintptr_t)data, .length = 300 };
		wrs[i] = (struct ibv_send_wr) {
			.next = i + 1 < LISTED ? &wrs[i + 1] : NULL, .sg_list = &sges[i], .num_sge = 1,
			.send_flags = IBV_SEND_INLINE, .opcode = IBV_WR_SEND,
		};
	}
	CHECK(!fake_ops.post_send(qp, wrs, &bad) && n_taken == MIDDLE);
	take_posted();
	CHECK(n_taken == LISTED);
	for (i = 0; i < LISTED; i++)
		CHECK(taken[i] == taken[0] + i * 512);
}

/* The memory of a request that the kernel may still send is not written to. */
static void t_large_inline_places(void)
{
	struct ibv_qp_ex *ex = open_inline(512, 512);
	struct ibv_data_buf bufs[2] = { { (void *)large, 78 }, { (void *)(large + 78), 400 } };
	uint64_t at[5 * SQ];
	int i, j;

	for (i = 0; i < 5 * SQ; i++) {
		struct siw_sqe *s;

		/* Batches of one and two, and one that is given up. */
		ibv_wr_start(ex);
		ibv_wr_send(ex);
		ibv_wr_set_inline_data(ex, (void *)buffer, 100);
		ibv_wr_abort(ex);
		if (i % 3 != 2) {
			ibv_wr_start(ex);
			ibv_wr_rdma_write_imm(ex, 1, 2, 3);
			ibv_wr_set_inline_data_list(ex, 2, bufs);
			if (i % 3 == 1) {
				ibv_wr_rdma_write_imm(ex, 1, 2, 3);
				ibv_wr_set_inline_data_list(ex, 2, bufs);
			}
			CHECK(!ibv_wr_complete(ex));
		}
		s = fake_take_sqe();
		CHECK(s && is_large(s, 478, &at[i]) && s->sge[5].lkey == 3);
		fake_free_wqe(&s->flags);
		for (j = i - 1; j >= 0 && j > i - 2 * SQ; j--)
			CHECK(at[i] >= at[j] + 512 || at[j] >= at[i] + 512);
		CHECK(i < 2 * SQ || at[i] == at[i - 2 * SQ]);
	}
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, (void *)large, 513);
	CHECK(ibv_wr_complete(ex) == EINVAL && !fake_take_sqe());
	/* What belongs to no element has no slot. */
	ibv_wr_start(ex);
	for (i = 0; i < SQ; i++)
		ibv_wr_send(ex);
	for (j = 0; j < 5 * SQ; j++)
		memset((void *)(uintptr_t)at[j], 1, 512);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, (void *)large, 500);
	CHECK(ibv_wr_complete(ex) == ENOMEM && !fake_take_sqe());
	for (j = 0; j < 5 * SQ; j++)
		CHECK(*(char *)(uintptr_t)at[j] == 1);
}

const struct test inline_tests[] = {
	{ "more inline data have memory of their own", t_large_inline },
	{ "inline data stay until they are sent", t_large_inline_places },
	{ "inline data of a list longer than the ring stay, too", t_large_inline_list },
	{}
};
