// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs and shared receive queues: their life, and their rings. */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rsiw.h"
#include "rsiw-cmd.h"

/* Maps a ring of `entries` elements of `size` bytes. Returns NULL, with errno, if it cannot. */
static void *map_ring(struct ibv_context *context, uint32_t entries, size_t size, uint64_t key)
{
	void *ring;

	/* Positions are masked. */
	if (!entries || entries & (entries - 1)) {
		errno = EPROTO;
		return NULL;
	}
	ring = mmap(NULL, entries * size, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd, key);
	return ring == MAP_FAILED ? NULL : ring;
}

/* Returns 0 or errno. */
static int init_rq(struct rsiw_rq *rq, struct ibv_pd *pd, uint32_t entries, uint64_t key)
{
	rq->queue = map_ring(pd->context, entries, sizeof(struct siw_rqe), key);
	if (!rq->queue)
		return errno;
	rq->mask = entries - 1;
	/* An immediate needs no buffer. siw's library wants one. */
	rq->min_sge = rsiw_has(pd->context, RSIW_FEATURE_EXTENDED) ? 0 : 1;
	rsiw_lock_init(&rq->lock, !rsiw_one_thread(pd));
	return 0;
}

static void end_rq(struct rsiw_rq *rq)
{
	if (rq->queue)
		munmap(rq->queue, (rq->mask + 1) * sizeof(struct siw_rqe));
}

static void init_doorbell(struct rsiw_qp *qp)
{
	qp->doorbell.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
	qp->doorbell.hdr.in_words = sizeof(qp->doorbell) / 4;
	qp->doorbell.hdr.out_words = sizeof(qp->doorbell_resp) / 4;
	qp->doorbell.response = (uintptr_t)&qp->doorbell_resp;
	qp->doorbell.qp_handle = qp->base.qp.handle;
	qp->doorbell.wqe_size = sizeof(struct ibv_send_wr);
}

/* What the kernel's queue pair needs here. Returns 0 or errno; what it has made then stays. */
static int init_qp(struct rsiw_qp *qp, const struct ibv_qp_init_attr_ex *attr,
		   uint32_t max_inline, const struct siw_uresp_create_qp *resp)
{
	struct ibv_pd *pd = attr->pd;
	int e;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		qp->base.comp_mask |= VERBS_QP_EX;
	rsiw_lock_init(&qp->lock, !rsiw_one_thread(pd));
	qp->signal_all = attr->sq_sig_all ? SIW_WQE_SIGNALLED : 0;
	qp->operations = rsiw_operations;
	if (rsiw_has(pd->context, RSIW_FEATURE_EXTENDED))
		qp->operations |= rsiw_extended_operations;
	if (attr->qp_type != IBV_QPT_RC)
		qp->operations &= ~rsiw_answered_operations;
	init_doorbell(qp);
	qp->queue = map_ring(pd->context, resp->num_sqe, sizeof(struct siw_sqe), resp->sq_key);
	if (!qp->queue)
		return errno;
	qp->mask = resp->num_sqe - 1;
	e = rsiw_init_inline(qp, pd, max_inline);
	if (e)
		return e;
	return attr->srq ? 0 : init_rq(&qp->rq, pd, resp->num_rqe, resp->rq_key);
}

static void free_qp(struct rsiw_qp *qp)
{
	if (qp->queue)
		munmap(qp->queue, (qp->mask + 1) * sizeof(struct siw_sqe));
	end_rq(&qp->rq);
	rsiw_end_inline(qp);
	free(qp);
}

/* `attr` has a protection domain. */
static struct ibv_qp *create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct rsiw_create_qp_resp resp = {};
	struct rsiw_create_qp cmd = {};
	uint32_t max_inline = attr->cap.max_inline_data;
	struct rsiw_qp *qp = calloc(1, sizeof(*qp));
	int e = 0;

	if (!qp)
		return NULL;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		e = rsiw_set_wr_ops(qp, context, attr->qp_type, attr->send_ops_flags);
	/* The kernel knows only of those in elements, and refuses the others. */
	if (max_inline > SIW_MAX_INLINE && max_inline <= RSIW_MAX_INLINE &&
	    rsiw_has(context, RSIW_FEATURE_EXTENDED)) {
		attr->cap.max_inline_data = SIW_MAX_INLINE;
		/* What has a slot is a list of one. */
		if (!attr->cap.max_send_sge)
			attr->cap.max_send_sge = 1;
	}
	if (!e)
		e = ibv_cmd_create_qp_ex(context, &qp->base, attr, &cmd.ibv_cmd, sizeof(cmd),
					 &resp.ibv_resp, sizeof(resp));
	if (e) {
		free(qp);
		errno = e;
		return NULL;
	}
	e = init_qp(qp, attr, max_inline, &resp.drv_payload);
	if (e) {
		ibv_cmd_destroy_qp(&qp->base.qp);
		free_qp(qp);
		errno = e;
		return NULL;
	}
	if (qp->inline_mr)
		attr->cap.max_inline_data = qp->max_inline;
	return &qp->base.qp;
}

struct ibv_qp *rsiw_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
		.srq = attr->srq, .cap = attr->cap, .qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_qp *qp = create_qp(pd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp *rsiw_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex ex = *attr;
	struct ibv_qp *qp;

	/* No flag of creation is known, but that there are none may be said. */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && !attr->create_flags)
		ex.comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if ((attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC) ||
	    !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) ||
	    !check_comp_mask(ex.comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	qp = create_qp(context, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

int rsiw_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_modify_qp cmd = {};
	struct ibv_qp_attr known;

	/*
	 * Programs grant the peer all rights that there are, and find out by ibv_create_qp_ex()
	 * which operations the device has. Nobody has these, but the kernel refuses them.
	 */
	if (mask & IBV_QP_ACCESS_FLAGS && rsiw_has(qp->context, RSIW_FEATURE_EXTENDED)) {
		known = *attr;
		known.qp_access_flags &= ~IBV_ACCESS_FLUSH_PERSISTENT;
		if (!rsiw_has(qp->context, RSIW_FEATURE_PLACEMENT))
			known.qp_access_flags &= ~IBV_ACCESS_FLUSH_GLOBAL;
		attr = &known;
	}
	return ibv_cmd_modify_qp(qp, attr, mask, &cmd, sizeof(cmd));
}

int rsiw_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct ibv_query_qp cmd = {};
	int e = ibv_cmd_query_qp(qp, attr, mask, init, &cmd, sizeof(cmd));

	if (!e && to_rsiw_qp(qp)->inline_mr)
		attr->cap.max_inline_data = init->cap.max_inline_data = to_rsiw_qp(qp)->max_inline;
	return e;
}

int rsiw_destroy_qp(struct ibv_qp *qp)
{
	int e = ibv_cmd_destroy_qp(qp);

	if (!e)
		free_qp(to_rsiw_qp(qp));
	return e;
}

struct ibv_srq *rsiw_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct rsiw_create_srq_resp resp = {};
	struct rsiw_create_srq cmd = {};
	struct rsiw_srq *srq = calloc(1, sizeof(*srq));
	int e;

	if (!srq)
		return NULL;
	e = ibv_cmd_create_srq(pd, &srq->base, attr, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
			       sizeof(resp));
	if (e)
		goto fail;
	e = init_rq(&srq->rq, pd, resp.num_rqe, resp.srq_key);
	if (!e)
		return &srq->base;
	ibv_cmd_destroy_srq(&srq->base);
fail:
	free(srq);
	errno = e;
	return NULL;
}

/* Moves the receives to their positions in the new ring. */
static void move_receives(const struct rsiw_rq *rq, const struct rsiw_rq *new)
{
	uint32_t position = rq->put, count;

	/*
	 * The kernel has taken the oldest ones, in order, and looks for the next. That is moved
	 * last, so when the kernel sees it, it sees all.
	 */
	for (count = 0; count <= rq->mask && count <= new->mask; count++) {
		struct siw_rqe *from = &rq->queue[--position & rq->mask];
		struct siw_rqe *to = &new->queue[position & new->mask];

		if (!(load_wqe_flags(&from->flags) & SIW_WQE_VALID))
			break;
		to->id = from->id;
		to->num_sge = from->num_sge;
		memcpy(to->sge, from->sge, sizeof(to->sge));
		store_wqe_flags(&to->flags, SIW_WQE_VALID);
	}
}

static int resize_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct rsiw_rq *rq = &to_rsiw_srq(srq)->rq;
	struct siw_uresp_create_srq resp = {};
	struct rsiw_modify_srq cmd = { .answer = (uintptr_t)&resp };
	struct rsiw_rq new = {};
	int e;

	/* Nothing is posted to the ring that the kernel leaves. */
	rsiw_lock(&rq->lock);
	/* If the new ring cannot be mapped, the kernel has not begun to use it. */
	e = ibv_cmd_modify_srq(srq, attr, IBV_SRQ_MAX_WR, &cmd.ibv_cmd, sizeof(cmd));
	if (e)
		goto out;
	new.queue = map_ring(srq->context, resp.num_rqe, sizeof(*new.queue), resp.srq_key);
	if (!new.queue) {
		e = errno;
		goto out;
	}
	new.mask = resp.num_rqe - 1;
	cmd.answer = 0;
	e = ibv_cmd_modify_srq(srq, attr, mask, &cmd.ibv_cmd, sizeof(cmd));
	if (e) {
		end_rq(&new);
		goto out;
	}
	move_receives(rq, &new);
	end_rq(rq);
	rq->queue = new.queue;
	rq->mask = new.mask;
out:
	rsiw_unlock(&rq->lock);
	return e;
}

int rsiw_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct ibv_modify_srq cmd = {};

	if (mask & IBV_SRQ_MAX_WR && rsiw_has(srq->context, RSIW_FEATURE_RESIZE_SRQ))
		return resize_srq(srq, attr, mask);
	return ibv_cmd_modify_srq(srq, attr, mask, &cmd, sizeof(cmd));
}

int rsiw_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(srq, attr, &cmd, sizeof(cmd));
}

int rsiw_destroy_srq(struct ibv_srq *base)
{
	struct rsiw_srq *srq = to_rsiw_srq(base);
	int e = ibv_cmd_destroy_srq(base);

	if (e)
		return e;
	end_rq(&srq->rq);
	free(srq);
	return 0;
}
