// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: their rings, which a resize adds to, and events. How they are polled is in
 * poll.c.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rsiw.h"
#include "rsiw-cmd.h"

static size_t ring_bytes(uint32_t entries)
{
	return entries * sizeof(struct siw_cqe) + sizeof(struct siw_cq_ctrl);
}

/* Maps the ring that the kernel has answered. Returns NULL, with errno, if it cannot. */
static struct rsiw_cq_ring *map_ring(struct ibv_context *context,
				     const struct siw_uresp_create_cq *resp)
{
	struct rsiw_cq_ring *ring;

	/* Positions are masked. */
	if (!resp->num_cqe || resp->num_cqe & (resp->num_cqe - 1)) {
		errno = EPROTO;
		return NULL;
	}
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return NULL;
	ring->mask = resp->num_cqe - 1;
	ring->queue = mmap(NULL, ring_bytes(resp->num_cqe), PROT_READ | PROT_WRITE, MAP_SHARED,
			   context->cmd_fd, resp->cq_key);
	if (ring->queue == MAP_FAILED) {
		free(ring);
		return NULL;
	}
	return ring;
}

static void unmap_ring(struct rsiw_cq_ring *ring)
{
	munmap(ring->queue, ring_bytes(ring->mask + 1));
	free(ring);
}

static atomic_uint *arming_word(struct rsiw_cq_ring *ring)
{
	struct siw_cq_ctrl *ctrl = (struct siw_cq_ctrl *)&ring->queue[ring->mask + 1];

	return (atomic_uint *)&ctrl->flags;
}

static void poll_ring(struct rsiw_cq *cq, struct rsiw_cq_ring *ring)
{
	cq->oldest = ring;
	cq->queue = ring->queue;
	cq->mask = ring->mask;
	cq->resized = ring->newer;
}

static struct rsiw_cq *create_cq(struct ibv_context *context,
				 const struct ibv_cq_init_attr_ex *attr, bool timestamps,
				 bool one_thread)
{
	struct rsiw_create_cq_ex cmd = { .flags = RSIW_CQ_TIMESTAMPS };
	size_t cmd_size = timestamps ? sizeof(cmd) : sizeof(struct rsiw_create_cq);
	struct rsiw_create_cq_resp resp = {};
	struct rsiw_cq_ring *ring;
	struct rsiw_cq *cq;
	int e;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	e = ibv_cmd_create_cq_ex(context, attr, RSIW_CREATE_CQ_BUFFER
				 &cq->base, &cmd.ibv_cmd, cmd_size, &resp.ibv_resp, sizeof(resp),
				 0);
	if (e)
		goto fail;
	ring = map_ring(context, &resp.drv_payload);
	if (!ring) {
		e = errno;
		ibv_cmd_destroy_cq(&cq->base.cq);
		goto fail;
	}
	poll_ring(cq, ring);
	cq->armed = arming_word(ring);
	rsiw_lock_init(&cq->lock, !one_thread);
	pthread_mutex_init(&cq->arm_lock, NULL);
	return cq;
fail:
	free(cq);
	errno = e;
	return NULL;
}

struct ibv_cq *rsiw_create_cq(struct ibv_context *context, int entries,
			      struct ibv_comp_channel *channel, int vector)
{
	const struct ibv_cq_init_attr_ex attr = {
		.cqe = entries, .channel = channel, .comp_vector = vector,
	};
	struct rsiw_cq *cq = create_cq(context, &attr, false, false);

	return cq ? &cq->base.cq : NULL;
}

struct ibv_cq_ex *rsiw_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t stamps = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	struct ibv_cq_init_attr_ex asked = *attr;
	bool one_thread = false;
	struct rsiw_cq *cq;

	if (!check_comp_mask(attr->comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS |
					      IBV_CQ_INIT_ATTR_MASK_PD) ||
	    !check_comp_mask(attr->wc_flags, IBV_WC_STANDARD_FLAGS | stamps))
		goto unsupported;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) {
		if (!check_comp_mask(attr->flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
			goto unsupported;
		one_thread = attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		if (!attr->parent_domain || !to_rsiw_pd(attr->parent_domain)->of) {
			errno = EINVAL;
			return NULL;
		}
		one_thread |= rsiw_one_thread(attr->parent_domain);
	}
	/* Time stamps are asked for in the driver's request. */
	asked.wc_flags &= ~stamps;
	asked.comp_mask = 0;
	cq = create_cq(context, &asked, attr->wc_flags & stamps, one_thread);
	if (!cq)
		return NULL;
	rsiw_set_poll_ops(cq, attr->wc_flags & stamps);
	return &cq->base.cq_ex;
unsupported:
	errno = EOPNOTSUPP;
	return NULL;
}

/*
 * After the ring that is polled has been found empty: goes to the one that a resize has put in its
 * place. Returns whether there was one. With `lock`: what has found the old ring empty has known
 * of the newer one, so the old one gets no more.
 */
bool rsiw_next_ring(struct rsiw_cq *cq)
{
	struct rsiw_cq_ring *old = cq->oldest;

	if (!old->newer)
		return false;
	poll_ring(cq, old->newer);
	unmap_ring(old);
	return true;
}

int rsiw_resize_cq(struct ibv_cq *base, int entries)
{
	struct rsiw_cq *cq = to_rsiw_cq(base);
	struct rsiw_resize_cq_resp resp = {};
	struct ibv_resize_cq cmd = {};
	struct rsiw_cq_ring *ring, *newest;
	int e;

	/* No event is armed by a store while the kernel moves the arming to the new ring. */
	pthread_mutex_lock(&cq->arm_lock);
	e = ibv_cmd_resize_cq(base, entries, &cmd, sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (e)
		goto out;
	ring = map_ring(base->context, &resp.drv_payload);
	if (!ring) {
		/* The kernel uses the ring already: the queue gets no more completions. */
		e = errno;
		goto out;
	}
	cq->armed = arming_word(ring);
	rsiw_lock(&cq->lock);
	for (newest = cq->oldest; newest->newer; newest = newest->newer)
		;
	newest->newer = ring;
	cq->resized = true;
	rsiw_unlock(&cq->lock);
out:
	pthread_mutex_unlock(&cq->arm_lock);
	return e;
}

int rsiw_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(cq, attr, &cmd, sizeof(cmd));
}

int rsiw_destroy_cq(struct ibv_cq *base)
{
	struct rsiw_cq *cq = to_rsiw_cq(base);
	int e = ibv_cmd_destroy_cq(base);

	if (e)
		return e;
	while (rsiw_next_ring(cq))
		;
	unmap_ring(cq->oldest);
	pthread_mutex_destroy(&cq->arm_lock);
	free(cq);
	return 0;
}

int rsiw_req_notify_cq(struct ibv_cq *base, int solicited_only)
{
	struct rsiw_cq *cq = to_rsiw_cq(base);
	uint32_t how = SIW_NOTIFY_SOLICITED | (solicited_only ? 0 : SIW_NOTIFY_NEXT_COMPLETION);

	pthread_mutex_lock(&cq->arm_lock);
	/* An event for any completion stays armed. */
	atomic_fetch_or(cq->armed, how);
	/* The kernel sees the word, or the caller's next poll sees the kernel's completion. */
	atomic_thread_fence(memory_order_seq_cst);
	pthread_mutex_unlock(&cq->arm_lock);
	return 0;
}
