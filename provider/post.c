// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Requests and receives are posted as lists of work requests. How ibv_wr_*() posts is in wr.c. */

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "rsiw.h"

static_assert(sizeof(struct ibv_sge) == sizeof(struct siw_sge) &&
	      offsetof(struct ibv_sge, addr) == offsetof(struct siw_sge, laddr) &&
	      offsetof(struct ibv_sge, length) == offsetof(struct siw_sge, length) &&
	      offsetof(struct ibv_sge, lkey) == offsetof(struct siw_sge, lkey),
	      "elements of a list are copied as they are");

#define OP(name) (1u << IBV_WR_##name)
/* Operations with more than a list, an STag and an address. */
#define OPS_WITH_MORE (OP(SEND_WITH_INV) | OPS_EXTENDED)
#define OPS_EXTENDED (OP(RDMA_WRITE_WITH_IMM) | OP(SEND_WITH_IMM) | OP(ATOMIC_CMP_AND_SWP) | \
		      OP(ATOMIC_FETCH_AND_ADD) | OP(LOCAL_INV) | OP(BIND_MW))

const uint32_t rsiw_operations = OP(RDMA_WRITE) | OP(SEND) | OP(RDMA_READ) | OP(SEND_WITH_INV);
const uint32_t rsiw_extended_operations = OPS_EXTENDED;
/* Those of both that a queue pair of type UC has not. */
const uint32_t rsiw_answered_operations = OP(RDMA_READ) | OP(ATOMIC_CMP_AND_SWP) |
					  OP(ATOMIC_FETCH_AND_ADD);

static const uint8_t opcodes[32] = {
	[IBV_WR_RDMA_WRITE] = SIW_OP_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = RSIW_OP_WRITE_WITH_IMM,
	[IBV_WR_SEND] = SIW_OP_SEND,
	[IBV_WR_SEND_WITH_IMM] = SIW_OP_SEND_WITH_IMM,
	[IBV_WR_RDMA_READ] = SIW_OP_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = SIW_OP_COMP_AND_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = SIW_OP_FETCH_AND_ADD,
	[IBV_WR_SEND_WITH_INV] = SIW_OP_SEND_REMOTE_INV,
	[IBV_WR_LOCAL_INV] = SIW_OP_INVAL_STAG,
	[IBV_WR_BIND_MW] = RSIW_OP_BIND_MW,
};

/* Waits for a lock that another thread has. That thread may need this processor. */
void rsiw_lock_contended(struct rsiw_lock *lock)
{
	unsigned int tries = 0;

	do {
		while (atomic_load_explicit(&lock->taken, memory_order_relaxed))
			if (!(++tries % 128))
				sched_yield();
	} while (atomic_exchange_explicit(&lock->taken, true, memory_order_acquire));
}

static void copy_sges(struct siw_sge *to, const struct ibv_sge *from, unsigned int count)
{
	while (count--)
		memcpy(to++, from++, sizeof(*to));
}

/* Makes the element's list that of an atomic, whose first element is the result's buffer. */
void rsiw_set_atomic(struct siw_sqe *sqe, uint64_t first, uint64_t second)
{
	sqe->num_sge = 3;
	sqe->sge[1] = (struct siw_sge) { .laddr = first };
	sqe->sge[2] = (struct siw_sge) { .laddr = second };
}

/* Returns whether all inline data have room. */
static inline bool gather(char *to, size_t *length, size_t most, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list, *end = sge + wr->num_sge;

	for (; sge < end; sge++)
		if (!rsiw_append(to, length, most, (const void *)(uintptr_t)sge->addr, sge->length))
			return false;
	return true;
}

/*
 * Makes the element one that binds a window. Its index is that of the window, whatever `rkey` says.
 * Returns 0, or EINVAL for what no window can have. One of type 1 is bound to no region by a length
 * of 0.
 */
int rsiw_set_bind(struct siw_sqe *sqe, const struct ibv_mw *mw, uint32_t rkey,
		  const struct ibv_mw_bind_info *info)
{
	const unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	if ((!info->mr && mw->type != IBV_MW_TYPE_1) || info->mw_access_flags & ~known)
		return EINVAL;
	sqe->rkey = (mw->rkey & ~0xffu) | (rkey & 0xff);
	sqe->raddr = info->addr;
	sqe->num_sge = 1;
	sqe->sge[0] = (struct siw_sge) {
		.laddr = info->length, .length = info->mw_access_flags,
		.lkey = info->mr ? info->mr->lkey : 0,
	};
	return 0;
}

/*
 * What the operation has beside data, an STag and an address: after the last two, and before the
 * data. Out of line, as it would cost other requests registers.
 */
static __attribute__((noinline)) int fill_more(struct siw_sqe *sqe, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		sqe->rkey = wr->invalidate_rkey;
		return 0;
	case IBV_WR_BIND_MW:
		if (wr->send_flags & IBV_SEND_INLINE)
			return EINVAL;
		return rsiw_set_bind(sqe, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	case IBV_WR_SEND_WITH_IMM:
		sqe->raddr = (__force uint32_t)wr->imm_data;
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (!(wr->send_flags & IBV_SEND_INLINE) && wr->num_sge > RSIW_IMM_SGE)
			return EINVAL;
		rsiw_set_immediate(sqe, wr->imm_data);
		return 0;
	default:
		break;
	}
	/* An atomic. */
	if (wr->num_sge != 1 || wr->send_flags & IBV_SEND_INLINE)
		return EINVAL;
	sqe->raddr = wr->wr.atomic.remote_addr;
	sqe->rkey = wr->wr.atomic.rkey;
	rsiw_set_atomic(sqe, wr->wr.atomic.compare_add,
			wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.swap : 0);
	return 0;
}

/* The rest of a request whose element has no room for its inline data. */
static __attribute__((noinline)) int push_large(const struct rsiw_qp *qp, struct siw_sqe *sqe,
						uint32_t position, const struct ibv_send_wr *wr,
						uint16_t flags)
{
	char *slot = rsiw_use_slot(qp, sqe, position);
	size_t length = 0;

	if (!slot || !gather(slot, &length, qp->max_inline, wr))
		return EINVAL;
	sqe->sge[0].length = length;
	store_wqe_flags(&sqe->flags, flags);
	return 0;
}

/* The rest of a request with inline data. */
static __attribute__((noinline)) int push_inline(const struct rsiw_qp *qp, struct siw_sqe *sqe,
						 uint32_t position, const struct ibv_send_wr *wr,
						 uint16_t flags)
{
	size_t length = 0;

	if (unlikely(OPS_WITH_MORE >> wr->opcode & 1) && fill_more(sqe, wr))
		return EINVAL;
	if (!gather((char *)&sqe->sge[1], &length, SIW_MAX_INLINE, wr))
		return push_large(qp, sqe, position, wr, flags);
	sqe->sge[0].length = length;
	sqe->num_sge = 1;
	store_wqe_flags(&sqe->flags, flags | SIW_WQE_INLINE);
	return 0;
}

/* The rest of a request with more than a list, an STag and an address. */
static __attribute__((noinline)) int push_more(struct siw_sqe *sqe, const struct ibv_send_wr *wr,
					       uint16_t flags)
{
	if ((unsigned int)wr->num_sge > SIW_MAX_SGE || fill_more(sqe, wr))
		return EINVAL;
	/* The element that binds a window has no list. */
	if (wr->opcode != IBV_WR_BIND_MW)
		copy_sges(sqe->sge, wr->sg_list, wr->num_sge);
	store_wqe_flags(&sqe->flags, flags);
	return 0;
}

/* Fills the free element of the request at `position`, and hands it over. */
static inline int push_request(struct rsiw_qp *qp, struct siw_sqe *sqe, uint32_t position,
			       const struct ibv_send_wr *wr)
{
	uint16_t flags = rsiw_send_flags(qp, wr->send_flags) | SIW_WQE_VALID;
	unsigned int opcode = wr->opcode;

	if (unlikely(opcode > 31 || !(qp->operations >> opcode & 1)))
		return EINVAL;
	sqe->id = wr->wr_id;
	sqe->opcode = opcodes[opcode];
	sqe->rkey = wr->wr.rdma.rkey;
	sqe->raddr = wr->wr.rdma.remote_addr;
	sqe->num_sge = wr->num_sge;
	if (wr->send_flags & IBV_SEND_INLINE)
		return push_inline(qp, sqe, position, wr, flags);
	if (unlikely(OPS_WITH_MORE >> opcode & 1))
		return push_more(sqe, wr, flags);
	if (likely(wr->num_sge == 1)) {
		memcpy(sqe->sge, wr->sg_list, sizeof(*sqe->sge));
	} else {
		if (unlikely((unsigned int)wr->num_sge > SIW_MAX_SGE))
			return EINVAL;
		copy_sges(sqe->sge, wr->sg_list, wr->num_sge);
	}
	store_wqe_flags(&sqe->flags, flags);
	return 0;
}

int rsiw_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rsiw_qp *qp = to_rsiw_qp(base);
	struct ibv_send_wr *first_wr = wr;
	uint32_t first, put;
	bool ring;
	int e = 0;

	rsiw_lock(&qp->lock);
	first = put = qp->put;
	for (; wr; wr = wr->next) {
		struct siw_sqe *sqe = &qp->queue[put & qp->mask];

		e = load_wqe_flags(&sqe->flags) & SIW_WQE_VALID ? ENOMEM :
								 push_request(qp, sqe, put, wr);
		if (unlikely(e)) {
			*bad = wr;
			break;
		}
		put++;
	}
	qp->put = put;
	ring = put != first && rsiw_needs_doorbell(qp, first, put - first);
	rsiw_unlock(&qp->lock);
	if (ring) {
		int failed = rsiw_ring_doorbell(qp);

		if (unlikely(failed)) {
			*bad = first_wr;
			return failed;
		}
	}
	return e;
}

/* A window of type 1 gets the next key with each request. */
int rsiw_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags,
		.bind_mw = {
			.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info,
		},
	}, *bad;
	int e = rsiw_post_send(qp, &wr, &bad);

	/* A program that gets an error for the request puts the old key back. */
	if (!e)
		mw->rkey = wr.bind_mw.rkey;
	return e;
}

static int post_receives(struct rsiw_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t put;
	int e = 0;

	rsiw_lock(&rq->lock);
	for (put = rq->put; wr; wr = wr->next) {
		struct siw_rqe *rqe = &rq->queue[put & rq->mask];
		int count = wr->num_sge;

		if (unlikely(load_wqe_flags(&rqe->flags) & SIW_WQE_VALID)) {
			e = ENOMEM;
			break;
		}
		if (unlikely(count != 1 && (count < rq->min_sge || count > SIW_MAX_SGE))) {
			e = EINVAL;
			break;
		}
		rqe->id = wr->wr_id;
		rqe->num_sge = count;
		if (likely(count == 1))
			memcpy(rqe->sge, wr->sg_list, sizeof(*rqe->sge));
		else
			copy_sges(rqe->sge, wr->sg_list, count);
		store_wqe_flags(&rqe->flags, SIW_WQE_VALID);
		put++;
	}
	rq->put = put;
	rsiw_unlock(&rq->lock);
	if (unlikely(e))
		*bad = wr;
	return e;
}

int rsiw_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rsiw_qp *qp = to_rsiw_qp(base);

	/* Receives of such a queue pair go to the shared queue. */
	if (unlikely(!qp->rq.queue)) {
		*bad = wr;
		return EINVAL;
	}
	return post_receives(&qp->rq, wr, bad);
}

int rsiw_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_receives(&to_rsiw_srq(srq)->rq, wr, bad);
}
