// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs that the kernel has and the device's user library does not ask for: the
 * commands are written to the device's file, as libibverbs would do it.
 */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

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

int resize(struct ibv_cq *cq, unsigned int want, uint32_t *cqe, void *answer, size_t len)
{
	struct {
		struct ib_uverbs_resize_cq_resp core;
		uint8_t driver[32];
	} resp = {};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_resize_cq cq;
	} cmd = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_RESIZE_CQ,
			.in_words = sizeof(cmd) / 4, .out_words = (sizeof(resp.core) + len) / 4,
		},
		.cq = { .response = (uintptr_t)&resp, .cq_handle = cq->handle, .cqe = want },
	};
	int e;

	CHECK(len <= sizeof(resp.driver), "an answer of %zu bytes", len);
	e = command(cq->context, &cmd, sizeof(cmd));
	if (e)
		return e;
	*cqe = resp.core.cqe;
	memcpy(answer, resp.driver, len);
	return 0;
}

int resize_srq(struct ibv_srq *srq, unsigned int size, void *answer, unsigned int len)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_modify_srq srq;
		uint64_t answer;
	} __attribute__((packed)) cmd = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_MODIFY_SRQ,
			.in_words = (offsetof(typeof(cmd), answer) + len) / 4,
		},
		.srq = {
			.srq_handle = srq->handle, .attr_mask = IBV_SRQ_MAX_WR, .max_wr = size,
		},
		.answer = (uintptr_t)answer,
	};

	return command(srq->context, &cmd, cmd.hdr.in_words * 4);
}

static struct ib_uverbs_attr attr_of(uint16_t id, uint16_t len, uint64_t data)
{
	return (struct ib_uverbs_attr) {
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY, .data = data,
	};
}

/* ibv_reg_dmabuf_mr(). The region has its handle and its keys then, and its domain. */
int reg_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, size_t len, uint64_t iova, int access,
	       struct ibv_mr *mr)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[9];
	} cmd = {
		.hdr = {
			.length = sizeof(cmd), .object_id = UVERBS_OBJECT_MR,
			.method_id = UVERBS_METHOD_REG_DMABUF_MR,
			.num_attrs = ARRAY_SIZE(cmd.attrs), .driver_id = RDMA_DRIVER_SIW,
		},
		.attrs = {
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, len),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 8, access),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&mr->lkey),
			attr_of(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&mr->rkey),
		},
	};

	if (ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return errno;
	mr->handle = cmd.attrs[0].data;
	mr->context = pd->context;
	mr->pd = pd;
	return 0;
}

/* ibv_dereg_mr() of a region that libibverbs does not know. */
int dereg(struct ibv_mr *mr)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_dereg_mr mr;
	} cmd = {
		.hdr = { .command = IB_USER_VERBS_CMD_DEREG_MR, .in_words = sizeof(cmd) / 4 },
		.mr = { .mr_handle = mr->handle },
	};

	return command(mr->context, &cmd, sizeof(cmd));
}
