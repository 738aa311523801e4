// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Device attributes, protection and thread domains, memory regions and windows, address handles. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/ib_user_verbs.h>

#include "rsiw.h"
#include "rsiw-cmd.h"

/* Whether a caller's `attr` of `size` bytes has the field. */
#define ATTR_HAS(size, field) \
	((size) >= offsetof(struct ibv_device_attr_ex, field) + \
		   sizeof(((struct ibv_device_attr_ex *)NULL)->field))

int rsiw_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		      struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t version;
	int e;

	e = ibv_cmd_query_device_any(context, input, attr, attr_size, &resp, &resp_size);
	if (e)
		return e;
	version = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
		 (unsigned int)(version >> 32 & 0xffff), (unsigned int)(version >> 16 & 0xffff),
		 (unsigned int)(version & 0xffff));
	return 0;
}

/* The kernel tells what siw's library can do. */
static int query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size)
{
	int e = rsiw_query_device(context, input, attr, attr_size);

	if (e)
		return e;
	/* Atomic with regard to the processors as well. */
	attr->orig_attr.atomic_cap = IBV_ATOMIC_GLOB;
	/* Windows are counted as regions. */
	attr->orig_attr.max_mw = attr->orig_attr.max_mr;
	attr->orig_attr.device_cap_flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	if (rsiw_has(context, RSIW_FEATURE_MW_TYPE_1))
		attr->orig_attr.device_cap_flags |= IBV_DEVICE_MEM_WINDOW;
	if (rsiw_has(context, RSIW_FEATURE_RESIZE_SRQ))
		attr->orig_attr.device_cap_flags |= IBV_DEVICE_SRQ_RESIZE;
	if (rsiw_has(context, RSIW_FEATURE_PLACEMENT) && ATTR_HAS(attr_size, device_cap_flags_ex))
		attr->device_cap_flags_ex |= IB_UVERBS_DEVICE_FLUSH_GLOBAL |
					     IB_UVERBS_DEVICE_ATOMIC_WRITE;
	if (ATTR_HAS(attr_size, completion_timestamp_mask))
		attr->completion_timestamp_mask = UINT64_MAX;
	/* In kHz; the clock counts nanoseconds. */
	if (ATTR_HAS(attr_size, hca_core_clock))
		attr->hca_core_clock = 1000000;
	return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct timespec now;

	(void)context;
	if (!check_comp_mask(values->comp_mask, IBV_VALUES_MASK_RAW_CLOCK))
		return EINVAL;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		if (clock_gettime(CLOCK_MONOTONIC, &now))
			return errno;
		/* As other providers do: the clock's value, which is that of time stamps. */
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = now.tv_sec * 1000000000L + now.tv_nsec;
	}
	return 0;
}

struct ibv_pd *rsiw_alloc_pd(struct ibv_context *context)
{
	struct ib_uverbs_alloc_pd_resp resp;
	struct ibv_alloc_pd cmd = {};
	struct rsiw_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	if (ibv_cmd_alloc_pd(context, &pd->base, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		free(pd);
		return NULL;
	}
	return &pd->base;
}

int rsiw_dealloc_pd(struct ibv_pd *base)
{
	struct rsiw_pd *pd = to_rsiw_pd(base);
	int e;

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->of) {
		/* The kernel does not know of a parent domain. */
		if (pd->td)
			atomic_fetch_sub(&pd->td->users, 1);
		atomic_fetch_sub(&pd->of->users, 1);
	} else {
		e = ibv_cmd_dealloc_pd(base);
		if (e)
			return e;
	}
	free(pd);
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct rsiw_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->base.context = context;
	return &td->base;
}

static int dealloc_td(struct ibv_td *base)
{
	struct rsiw_td *td = to_rsiw_td(base);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

/* The caller's allocators are not asked: rings are the kernel's memory. */
static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	struct rsiw_pd *pd;

	(void)context;
	if (ibv_check_alloc_parent_domain(attr))
		return NULL;
	if (!check_comp_mask(attr->comp_mask, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
					      IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
		errno = EINVAL;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->of = to_rsiw_pd(attr->pd);
	atomic_fetch_add(&pd->of->users, 1);
	if (attr->td) {
		pd->td = to_rsiw_td(attr->td);
		atomic_fetch_add(&pd->td->users, 1);
	}
	ibv_initialize_parent_domain(&pd->base, attr->pd);
	return &pd->base;
}

struct ibv_mr *rsiw_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct rsiw_reg_mr_resp resp;
	struct rsiw_reg_mr cmd = {};
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	if (ibv_cmd_reg_mr(pd, addr, length, iova, access, mr, &cmd.ibv_cmd, sizeof(cmd),
			   &resp.ibv_resp, sizeof(resp))) {
		free(mr);
		return NULL;
	}
	return &mr->ibv_mr;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	if (ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, mr RSIW_DMABUF_DRIVER)) {
		free(mr);
		return NULL;
	}
	return &mr->ibv_mr;
}

static int rereg_mr(struct verbs_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		    int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	return ibv_cmd_rereg_mr(mr, flags, addr, length, (uintptr_t)addr, access, pd,
				&cmd, sizeof(cmd), &resp, sizeof(resp));
}

int rsiw_dereg_mr(struct verbs_mr *mr)
{
	int e = ibv_cmd_dereg_mr(mr);

	if (e)
		return e;
	free(mr);
	return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd = {};
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	if (!mw)
		return NULL;
	if (ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		free(mw);
		return NULL;
	}
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	int e = ibv_cmd_dealloc_mw(mw);

	if (e)
		return e;
	free(mw);
	return 0;
}

/*
 * An address handle without anything in the kernel: no queue pair sends by one, but UCX finds out
 * by making one whether a GID can be used. Devices whose queue pairs the RDMA CM connects have no
 * use for it.
 */
static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static const union ibv_gid none;
	union ibv_gid gid;
	struct ibv_ah *ah;

	if (pd->context->device->node_type == IBV_NODE_RNIC) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->port_num != 1 || !attr->is_global ||
	    ibv_query_gid(pd->context, 1, attr->grh.sgid_index, &gid) ||
	    !memcmp(&gid, &none, sizeof(gid))) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	return ah;
}

static int destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

/* What a context has with RSIW_FEATURE_EXTENDED, beside what every context has. */
const struct verbs_context_ops rsiw_extended_ops = {
	.alloc_mw = alloc_mw,
	.alloc_parent_domain = alloc_parent_domain,
	.alloc_td = alloc_td,
	.bind_mw = rsiw_bind_mw,
	.create_ah = create_ah,
	.create_cq_ex = rsiw_create_cq_ex,
	.create_qp_ex = rsiw_create_qp_ex,
	.dealloc_mw = dealloc_mw,
	.dealloc_td = dealloc_td,
	.destroy_ah = destroy_ah,
	.modify_cq = rsiw_modify_cq,
	.query_device_ex = query_device,
	.query_rt_values = query_rt_values,
	.query_srq = rsiw_query_srq,
	.reg_dmabuf_mr = reg_dmabuf_mr,
	.rereg_mr = rereg_mr,
	.resize_cq = rsiw_resize_cq,
};
