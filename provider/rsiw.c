// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The user-space provider of rsiw. It serves what has the driver_id of siw, so devices of the
 * kernel's siw as well. What siw's library cannot do is there only if the kernel grants it, for
 * each context.
 */

#include <stdlib.h>

#include "rsiw.h"
#include "rsiw-cmd.h"

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd = {};

	return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

static void async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct verbs_context *ctx = verbs_get_ctx(context);

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		verbs_err(ctx, "librsiw: a completion queue has overflowed\n");
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		verbs_err(ctx, "librsiw: QP %u: %s\n", event->element.qp->qp_num,
			  ibv_event_type_str(event->event_type));
		break;
	default:
		break;
	}
}

static void free_context(struct ibv_context *context)
{
	struct rsiw_context *ctx = to_rsiw_context(context);

	verbs_uninit_context(&ctx->base);
	free(ctx);
}

static const struct verbs_context_ops rsiw_ops = {
	.alloc_pd = rsiw_alloc_pd,
	.async_event = async_event,
	.create_cq = rsiw_create_cq,
	.create_qp = rsiw_create_qp,
	.create_srq = rsiw_create_srq,
	.dealloc_pd = rsiw_dealloc_pd,
	.dereg_mr = rsiw_dereg_mr,
	.destroy_cq = rsiw_destroy_cq,
	.destroy_qp = rsiw_destroy_qp,
	.destroy_srq = rsiw_destroy_srq,
	.free_context = free_context,
	.modify_qp = rsiw_modify_qp,
	.modify_srq = rsiw_modify_srq,
	.poll_cq = rsiw_poll_cq,
	.post_recv = rsiw_post_recv,
	.post_send = rsiw_post_send,
	.post_srq_recv = rsiw_post_srq_recv,
	.query_device_ex = rsiw_query_device,
	.query_port = query_port,
	.query_qp = rsiw_query_qp,
	.reg_mr = rsiw_reg_mr,
	.req_notify_cq = rsiw_req_notify_cq,
};

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *data)
{
	struct rsiw_alloc_context cmd = {
		.features = RSIW_FEATURE_EXTENDED | RSIW_FEATURE_MW_TYPE_1 |
			    RSIW_FEATURE_RESIZE_SRQ | RSIW_FEATURE_PLACEMENT,
	};
	struct rsiw_alloc_context_resp resp = {};
	struct rsiw_context *ctx;

	(void)data;
	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, base, RDMA_DRIVER_SIW);
	if (!ctx)
		return NULL;
	/* siw, and an rsiw without the feature, do not read the request and answer 0. */
	if (ibv_cmd_get_context(&ctx->base, &cmd.ibv_cmd, sizeof(cmd), RSIW_GET_CONTEXT_FDS
				&resp.ibv_resp, sizeof(resp))) {
		verbs_uninit_context(&ctx->base);
		free(ctx);
		return NULL;
	}
	verbs_set_ops(&ctx->base, &rsiw_ops);
	ctx->features = resp.pad;
	if (ctx->features & RSIW_FEATURE_EXTENDED)
		verbs_set_ops(&ctx->base, &rsiw_extended_ops);
	return &ctx->base;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs)
{
	(void)sysfs;
	return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent matches[] = {
	VERBS_DRIVER_ID(RDMA_DRIVER_SIW),
	{},
};

static const struct verbs_device_ops rsiw_device_ops = {
	.name = "rsiw",
	.match_min_abi_version = SIW_ABI_VERSION,
	.match_max_abi_version = SIW_ABI_VERSION,
	.match_table = matches,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
	.alloc_context = alloc_context,
};

PROVIDER_DRIVER(rsiw, rsiw_device_ops);
