// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs that the kernel has and the device's user library does not ask for: the
 * commands are written to the device's file, as libibverbs would do it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <rdma/ib_user_verbs.h>

#include "vt.h"

/* Returns 0 or errno. */
static int command(struct ibv_context *ctx, const void *cmd, size_t len)
{
	ssize_t n = write(ctx->cmd_fd, cmd, len);

	if (n < 0)
		return errno;
	CHECK((size_t)n == len, "a command was written in part");
	return 0;
}

/*
 * ibv_rereg_mr(), but returns errno, and reads no attribute of the region. The
 * region has its new keys then.
 */
int rereg(struct ibv_mr *mr, unsigned int flags, struct ibv_pd *pd, void *addr, size_t len,
	  uint64_t iova, int access)
{
	struct ib_uverbs_rereg_mr_resp resp = {};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr mr;
	} cmd = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_REREG_MR,
			.in_words = sizeof(cmd) / 4, .out_words = sizeof(resp) / 4,
		},
		.mr = {
			.response = (uintptr_t)&resp, .mr_handle = mr->handle, .flags = flags,
			.start = (uintptr_t)addr, .length = len, .hca_va = iova,
			.pd_handle = pd ? pd->handle : 0, .access_flags = access,
		},
	};
	int e = command(mr->context, &cmd, sizeof(cmd));

	if (e)
		return e;
	mr->lkey = resp.lkey;
	mr->rkey = resp.rkey;
	return 0;
}

/* ibv_modify_cq() with IBV_CQ_ATTR_MODERATE. */
int moderate(struct ibv_cq *cq, unsigned int count, unsigned int us)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_modify_cq cq;
	} cmd = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_CQ,
			.in_words = sizeof(cmd.cq) / 8,
		},
		.cq = {
			.cq_handle = cq->handle, .attr_mask = IBV_CQ_ATTR_MODERATE,
			.attr = { .cq_count = count, .cq_period = us },
		},
	};

	return command(cq->context, &cmd, sizeof(cmd));
}
