// SPDX-License-Identifier: GPL-2.0
/* See fake.h. Built as a shared library with libibverbs' name and versions of symbols. */

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

#define FILE_SIZE (64 << 20)

uint32_t fake_features, fake_asked, fake_cq_flags;
unsigned int fake_doorbells, fake_access;
int fake_regions;
bool fake_unmappable;
struct fake_ring fake_sq, fake_rq, fake_cq;
struct verbs_context_ops fake_ops;
struct ibv_device fake_device = { .node_type = IBV_NODE_CA, .name = "fake" };

static const struct verbs_device_ops *device_ops;
int fake_file = -1;
static char *memory;
static uint64_t used;

/* A request or an answer of the driver's, behind that of the core. */
#define DRIVER(whole, size, core) ((size) > sizeof(core) ? (void *)((char *)(whole) + sizeof(core)) : NULL)

struct ibv_context *fake_open(const char *provider)
{
	struct verbs_context *ctx;

	fake_file = memfd_create("rings", 0);
	if (fake_file < 0 || ftruncate(fake_file, FILE_SIZE))
		abort();
	memory = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fake_file, 0);
	if (memory == MAP_FAILED)
		abort();
	if (!dlopen(provider, RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	ctx = device_ops->alloc_context(&fake_device, fake_file, NULL);
	return ctx ? &ctx->context : NULL;
}

static uint64_t share(struct fake_ring *ring, uint32_t entries, size_t bytes)
{
	uint64_t key = used;

	used += (bytes + 0xfff) & ~0xfffUL;
	if (used > FILE_SIZE)
		abort();
	*ring = (struct fake_ring) { .mem = memory + key, .entries = entries };
	return key;
}

static uint32_t power(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

struct siw_sqe *fake_take_sqe(void)
{
	struct siw_sqe *sqe = &((struct siw_sqe *)fake_sq.mem)[fake_sq.at & (fake_sq.entries - 1)];

	if (!(__atomic_load_n(&sqe->flags, __ATOMIC_ACQUIRE) & SIW_WQE_VALID))
		return NULL;
	fake_sq.at++;
	return sqe;
}

struct siw_rqe *fake_take_rqe(void)
{
	struct siw_rqe *rqe = &((struct siw_rqe *)fake_rq.mem)[fake_rq.at & (fake_rq.entries - 1)];

	if (!(__atomic_load_n(&rqe->flags, __ATOMIC_ACQUIRE) & SIW_WQE_VALID))
		return NULL;
	fake_rq.at++;
	return rqe;
}

void fake_free_wqe(__u16 *flags)
{
	__atomic_store_n(flags, 0, __ATOMIC_RELEASE);
}

void fake_complete(struct fake_ring *ring, struct siw_cqe cqe)
{
	struct siw_cqe *to = &((struct siw_cqe *)ring->mem)[ring->at++ & (ring->entries - 1)];
	uint8_t flags = cqe.flags | SIW_WQE_VALID;

	if (to->flags)
		abort();
	cqe.flags = 0;
	*to = cqe;
	__atomic_store_n(&to->flags, flags, __ATOMIC_RELEASE);
}

struct siw_cq_ctrl *fake_ctrl(struct fake_ring *ring)
{
	return (struct siw_cq_ctrl *)&((struct siw_cqe *)ring->mem)[ring->entries];
}

void verbs_register_driver(const struct verbs_device_ops *ops)
{
	device_ops = ops;
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
				    struct verbs_context *offset, uint32_t driver_id)
{
	char *whole = calloc(1, alloc_size);
	struct verbs_context *ctx = (struct verbs_context *)(whole + (uintptr_t)offset);

	ctx->context.device = device;
	ctx->context.cmd_fd = cmd_fd;
	return whole;
}

void verbs_uninit_context(struct verbs_context *ctx)
{
}

void verbs_set_ops(struct verbs_context *ctx, const struct verbs_context_ops *ops)
{
	void *const *from = (void *const *)ops;
	void **to = (void **)&fake_ops;
	size_t i;

	for (i = 0; i < sizeof(*ops) / sizeof(*from); i++)
		if (from[i])
			to[i] = from[i];
}

void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *fmt, ...)
{
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return "event";
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	memset(gid, index == 1 ? 1 : 0, sizeof(*gid));
	return index < 3 ? 0 : -1;
}

int ibv_cmd_get_context(struct verbs_context *ctx, struct ibv_get_context *cmd, size_t cmd_size,
			FAKE_GET_CONTEXT_FDS
			struct ib_uverbs_get_context_resp *resp, size_t resp_size)
{
	struct rsiw_ureq_alloc_ctx *req = DRIVER(cmd, cmd_size, *cmd);
	struct siw_uresp_alloc_ctx *answer = DRIVER(resp, resp_size, *resp);

	fake_asked = req ? req->features : 0;
	answer->pad = fake_asked & fake_features;
	return 0;
}

int ibv_cmd_query_device_any(struct ibv_context *context,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp, size_t *resp_size)
{
	memset(attr, 0, attr_size);
	memset(resp, 0, *resp_size);
	resp->base.fw_ver = 0x0001000200030004;
	return 0;
}

int ibv_cmd_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		       struct ibv_query_port *cmd, size_t size)
{
	return 0;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	pd->context = context;
	pd->handle = 7;
	return 0;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	return 0;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access,
		   struct verbs_mr *mr, struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	mr->ibv_mr.lkey = 0x100;
	fake_regions++;
	return 0;
}

int ibv_cmd_rereg_mr(struct verbs_mr *mr, uint32_t flags, void *addr, size_t length, uint64_t iova,
		     int access, struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_size,
		     struct ib_uverbs_rereg_mr_resp *resp, size_t resp_size)
{
	mr->ibv_mr.lkey = 0x200;
	return 0;
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct verbs_mr *mr FAKE_DMABUF_DRIVER)
{
	mr->ibv_mr.lkey = 0x300;
	return 0;
}

int ibv_cmd_dereg_mr(struct verbs_mr *mr)
{
	fake_regions--;
	return 0;
}

int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type, struct ibv_mw *mw,
		     struct ibv_alloc_mw *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_mw_resp *resp, size_t resp_size)
{
	if (type == IBV_MW_TYPE_1 && !(fake_features & fake_asked & RSIW_FEATURE_MW_TYPE_1)) {
		errno = EOPNOTSUPP;
		return errno;
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = 0x40005;
	return 0;
}

int ibv_cmd_dealloc_mw(struct ibv_mw *mw)
{
	return 0;
}

static void answer_cq(struct ibv_cq *cq, struct ibv_context *context, int cqe, void *answer)
{
	struct siw_uresp_create_cq *resp = answer;
	uint32_t entries = power(cqe);

	cq->context = context;
	cq->cqe = entries;
	resp->num_cqe = entries;
	resp->cq_key = share(&fake_cq, entries, entries * sizeof(struct siw_cqe) + 8);
}

int ibv_cmd_create_cq(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
		      int vector, struct ibv_cq *cq, struct ibv_create_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_create_cq_resp *resp, size_t resp_size)
{
	answer_cq(cq, context, cqe, resp + 1);
	return 0;
}

int ibv_cmd_create_cq_ex(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr,
			 FAKE_CREATE_CQ_BUFFER
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd, size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp, size_t resp_size,
			 uint32_t cmd_flags)
{
	struct rsiw_ureq_create_cq *req = DRIVER(cmd, cmd_size, *cmd);

	fake_cq_flags = req ? req->flags : 0;
	answer_cq(&cq->cq, context, attr->cqe, resp + 1);
	return 0;
}

/* The arming goes over, and so does the position. */
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
		      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size)
{
	struct fake_ring old = fake_cq;

	answer_cq(cq, cq->context, cqe, resp + 1);
	fake_cq.at = old.at;
	fake_ctrl(&fake_cq)->flags = fake_ctrl(&old)->flags;
	return 0;
}

int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr,
		      struct ibv_modify_cq *cmd, size_t cmd_size)
{
	return 0;
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	return 0;
}

static void answer_qp(struct ibv_qp *qp, struct ibv_context *context, struct ibv_qp_cap *cap,
		      bool shared, void *answer)
{
	struct siw_uresp_create_qp *resp = answer;

	qp->context = context;
	qp->handle = 9;
	cap->max_send_wr = power(cap->max_send_wr);
	resp->num_sqe = cap->max_send_wr;
	resp->sq_key = share(&fake_sq, resp->num_sqe, resp->num_sqe * sizeof(struct siw_sqe));
	if (shared)
		return;
	cap->max_recv_wr = power(cap->max_recv_wr);
	resp->num_rqe = cap->max_recv_wr;
	resp->rq_key = share(&fake_rq, resp->num_rqe, resp->num_rqe * sizeof(struct siw_rqe));
}

int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
		      struct ibv_create_qp *cmd, size_t cmd_size,
		      struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	answer_qp(qp, pd->context, &attr->cap, attr->srq, resp + 1);
	return 0;
}

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr, struct ibv_create_qp *cmd,
			 size_t cmd_size, struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	if (attr->cap.max_inline_data > SIW_MAX_INLINE)
		return EINVAL;
	qp->comp_mask = 0;
	answer_qp(&qp->qp, context, &attr->cap, attr->srq, resp + 1);
	return 0;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		      struct ibv_modify_qp *cmd, size_t cmd_size)
{
	fake_access = attr->qp_access_flags;
	return 0;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		     struct ibv_qp_init_attr *init, struct ibv_query_qp *cmd, size_t cmd_size)
{
	attr->cap.max_inline_data = init->cap.max_inline_data = SIW_MAX_INLINE;
	return 0;
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	return 0;
}

int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size,
		       struct ib_uverbs_create_srq_resp *resp, size_t resp_size)
{
	struct siw_uresp_create_srq *answer = (void *)(resp + 1);

	srq->context = pd->context;
	answer->num_rqe = power(attr->attr.max_wr);
	answer->srq_key = share(&fake_rq, answer->num_rqe, answer->num_rqe * sizeof(struct siw_rqe));
	return 0;
}

int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask,
		       struct ibv_modify_srq *cmd, size_t cmd_size)
{
	struct rsiw_ureq_modify_srq *req = DRIVER(cmd, cmd_size, *cmd);
	static struct fake_ring prepared;
	struct siw_uresp_create_srq *answer;

	if (!(mask & IBV_SRQ_MAX_WR))
		return req ? EINVAL : 0;
	if (!req)
		return EOPNOTSUPP;
	answer = (void *)(uintptr_t)req->answer;
	if (answer) {
		answer->num_rqe = power(attr->max_wr);
		answer->srq_key = share(&prepared, answer->num_rqe,
					answer->num_rqe * sizeof(struct siw_rqe));
		/* mmap() takes whole pages. */
		answer->srq_key += fake_unmappable;
		return 0;
	}
	if (prepared.entries != power(attr->max_wr))
		return EINVAL;
	prepared.at = fake_rq.at;
	fake_rq = prepared;
	prepared.entries = 0;
	return 0;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, struct ibv_query_srq *cmd,
		      size_t cmd_size)
{
	return 0;
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	return 0;
}
