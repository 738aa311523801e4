/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The commands of verbs with the driver's requests and answers. */

#ifndef RSIW_CMD_H
#define RSIW_CMD_H

#include <infiniband/kern-abi.h>
#include <rdma/siw-abi.h>
#include <kernel-abi/siw-abi.h>

#include "rsiw-abi.h"
#include <kernel-abi/rsiw-abi.h>

DECLARE_DRV_CMD(rsiw_alloc_context, IB_USER_VERBS_CMD_GET_CONTEXT,
		rsiw_ureq_alloc_ctx, siw_uresp_alloc_ctx);
/* A queue with nothing of its own has siw's empty request. */
DECLARE_DRV_CMD(rsiw_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ, empty, siw_uresp_create_cq);
DECLARE_DRV_CMD(rsiw_create_cq_ex, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		rsiw_ureq_create_cq, siw_uresp_create_cq);
DECLARE_DRV_CMD(rsiw_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ, empty, siw_uresp_create_cq);
DECLARE_DRV_CMD(rsiw_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ, empty, siw_uresp_create_srq);
DECLARE_DRV_CMD(rsiw_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ, rsiw_ureq_modify_srq, empty);
DECLARE_DRV_CMD(rsiw_create_qp, IB_USER_VERBS_CMD_CREATE_QP, empty, siw_uresp_create_qp);
DECLARE_DRV_CMD(rsiw_reg_mr, IB_USER_VERBS_CMD_REG_MR, siw_ureq_reg_mr, siw_uresp_reg_mr);

#endif
