// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests are posted by ibv_wr_start(), ibv_wr_*(), ibv_wr_complete(). They are written to the
 * ring, with their flags, but for SIW_WQE_VALID: ibv_wr_complete() hands them over, in order, and
 * ibv_wr_abort() has nothing to undo. After an error setters write to an element of no ring.
 */

#include <errno.h>
#include <string.h>

#include "rsiw.h"

static void fail(struct rsiw_qp *qp, int error)
{
	if (!qp->error)
		qp->error = error;
	qp->request = &qp->spare;
}

/* Begins a request in the next element. */
static struct siw_sqe *begin(struct ibv_qp_ex *base, uint8_t opcode, uint32_t rkey, uint64_t raddr)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(base);
	struct siw_sqe *sqe = &qp->queue[qp->begun & qp->mask];

	if (unlikely(qp->error || qp->begun - qp->put > qp->mask ||
		     load_wqe_flags(&sqe->flags) & SIW_WQE_VALID)) {
		fail(qp, ENOMEM);
		sqe = &qp->spare;
	} else {
		qp->request = sqe;
		qp->begun++;
	}
	sqe->id = base->wr_id;
	sqe->opcode = opcode;
	sqe->rkey = rkey;
	sqe->raddr = raddr;
	sqe->num_sge = 0;
	sqe->flags = rsiw_send_flags(qp, base->wr_flags);
	return sqe;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	begin(qp, SIW_OP_SEND, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	begin(qp, SIW_OP_SEND_WITH_IMM, 0, (__force uint32_t)imm);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin(qp, SIW_OP_SEND_REMOTE_INV, rkey, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr)
{
	begin(qp, SIW_OP_WRITE, rkey, raddr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	rsiw_set_immediate(begin(qp, RSIW_OP_WRITE_WITH_IMM, rkey, raddr), imm);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr)
{
	begin(qp, SIW_OP_READ, rkey, raddr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, uint64_t compare,
			      uint64_t swap)
{
	rsiw_set_atomic(begin(qp, SIW_OP_COMP_AND_SWAP, rkey, raddr), compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, uint64_t add)
{
	rsiw_set_atomic(begin(qp, SIW_OP_FETCH_AND_ADD, rkey, raddr), add, 0);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	begin(qp, SIW_OP_INVAL_STAG, rkey, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *base, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	if (unlikely(rsiw_set_bind(begin(base, RSIW_OP_BIND_MW, 0, 0), mw, rkey, info)))
		fail(to_rsiw_qp_ex(base), EINVAL);
}

/* What is no list, in the place of one. */
static void set_only(struct siw_sqe *sqe, uint64_t value, uint32_t length, uint32_t more)
{
	sqe->num_sge = 1;
	sqe->sge[0] = (struct siw_sge) { .laddr = value, .length = length, .lkey = more };
}

static void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, size_t length,
		     uint8_t type, uint8_t level)
{
	set_only(begin(qp, RSIW_OP_FLUSH, rkey, raddr), length, type, level);
}

static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t raddr, const void *value)
{
	uint64_t bytes;

	memcpy(&bytes, value, sizeof(bytes));
	set_only(begin(qp, RSIW_OP_ATOMIC_WRITE, rkey, raddr), bytes, sizeof(bytes), 0);
}

static bool is_atomic(const struct siw_sqe *sqe)
{
	return sqe->opcode == SIW_OP_COMP_AND_SWAP || sqe->opcode == SIW_OP_FETCH_AND_ADD;
}

static void wr_set_sge(struct ibv_qp_ex *base, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct siw_sqe *sqe = to_rsiw_qp_ex(base)->request;

	sqe->sge[0] = (struct siw_sge) { .laddr = addr, .length = length, .lkey = lkey };
	/* An atomic has 3 already. */
	sqe->num_sge |= 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *base, size_t count, const struct ibv_sge *list)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(base);
	struct siw_sqe *sqe = qp->request;
	bool atomic = is_atomic(sqe);
	size_t most = SIW_MAX_SGE;

	if (atomic)
		most = 1;
	else if (sqe->opcode == RSIW_OP_WRITE_WITH_IMM)
		most = RSIW_IMM_SGE;
	if (unlikely(count > most || (atomic && !count))) {
		fail(qp, EINVAL);
		return;
	}
	/* Elements of both lists have the same layout (post.c). */
	memcpy(sqe->sge, list, count * sizeof(*list));
	if (!atomic)
		sqe->num_sge = count;
}

/* Returns whether all inline data have room. */
static bool gather(char *to, size_t *length, size_t most, size_t count,
		   const struct ibv_data_buf *list)
{
	for (*length = 0; count--; list++)
		if (!rsiw_append(to, length, most, list->addr, list->length))
			return false;
	return true;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *base, size_t count,
				    const struct ibv_data_buf *list)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(base);
	struct siw_sqe *sqe = qp->request;
	size_t length = 0;
	char *slot;

	if (unlikely(is_atomic(sqe))) {
		fail(qp, EINVAL);
		return;
	}
	if (likely(gather((char *)&sqe->sge[1], &length, SIW_MAX_INLINE, count, list))) {
		sqe->num_sge = 1;
		sqe->flags |= SIW_WQE_INLINE;
	} else {
		slot = rsiw_use_slot(qp, sqe, qp->begun - 1);
		if (!slot || !gather(slot, &length, qp->max_inline, count, list)) {
			fail(qp, EINVAL);
			return;
		}
	}
	sqe->sge[0].length = length;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(qp, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *base)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(base);

	rsiw_lock(&qp->lock);
	qp->begun = qp->put;
	qp->request = &qp->spare;
	qp->error = 0;
}

static int wr_complete(struct ibv_qp_ex *base)
{
	struct rsiw_qp *qp = to_rsiw_qp_ex(base);
	uint32_t first = qp->put, put;
	bool ring = false;
	int e = qp->error;

	if (likely(!e && qp->begun != first)) {
		for (put = first; put != qp->begun; put++) {
			struct siw_sqe *sqe = &qp->queue[put & qp->mask];

			store_wqe_flags(&sqe->flags, sqe->flags | SIW_WQE_VALID);
		}
		qp->put = put;
		ring = rsiw_needs_doorbell(qp, first, put - first);
	}
	rsiw_unlock(&qp->lock);
	return ring ? rsiw_ring_doorbell(qp) : e;
}

static void wr_abort(struct ibv_qp_ex *base)
{
	rsiw_unlock(&to_rsiw_qp_ex(base)->lock);
}

/* A program (librpma) may look whether there is a function, so only those asked for are there. */
#define SET(flag, op)							\
	do {								\
		if (send_ops_flags & IBV_QP_EX_WITH_##flag)		\
			ops->op = op;					\
	} while (0)

/*
 * Gives a queue pair of that type the functions for these operations. Returns 0, or EOPNOTSUPP for
 * an operation without one.
 */
int rsiw_set_wr_ops(struct rsiw_qp *qp, struct ibv_context *context, enum ibv_qp_type type,
		    uint64_t send_ops_flags)
{
	uint64_t known = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV |
			 IBV_QP_EX_WITH_BIND_MW;
	struct ibv_qp_ex *ops = &qp->base.qp_ex;

	if (type == IBV_QPT_RC)
		known |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	if (type == IBV_QPT_RC && rsiw_has(context, RSIW_FEATURE_PLACEMENT))
		known |= IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;
	if (!check_comp_mask(send_ops_flags, known))
		return EOPNOTSUPP;
	SET(SEND, wr_send);
	SET(SEND_WITH_IMM, wr_send_imm);
	SET(SEND_WITH_INV, wr_send_inv);
	SET(RDMA_WRITE, wr_rdma_write);
	SET(RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
	SET(RDMA_READ, wr_rdma_read);
	SET(ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
	SET(ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
	SET(LOCAL_INV, wr_local_inv);
	SET(BIND_MW, wr_bind_mw);
	SET(FLUSH, wr_flush);
	SET(ATOMIC_WRITE, wr_atomic_write);
	ops->wr_set_sge = wr_set_sge;
	ops->wr_set_sge_list = wr_set_sge_list;
	ops->wr_set_inline_data = wr_set_inline_data;
	ops->wr_set_inline_data_list = wr_set_inline_data_list;
	ops->wr_start = wr_start;
	ops->wr_complete = wr_complete;
	ops->wr_abort = wr_abort;
	return 0;
}
