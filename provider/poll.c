// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completions are polled: by ibv_poll_cq(), and one after the other by ibv_start_poll(). */

#include <endian.h>
#include <errno.h>
#include <time.h>

#include "rsiw.h"

/* By all values of a byte, as the kernel's are not checked. */
static const uint8_t wc_opcodes[256] = {
	[SIW_OP_WRITE] = IBV_WC_RDMA_WRITE,
	[SIW_OP_READ] = IBV_WC_RDMA_READ,
	[SIW_OP_READ_LOCAL_INV] = IBV_WC_RDMA_READ,
	[SIW_OP_SEND] = IBV_WC_SEND,
	[SIW_OP_SEND_WITH_IMM] = IBV_WC_SEND,
	[SIW_OP_SEND_REMOTE_INV] = IBV_WC_SEND,
	[SIW_OP_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	[SIW_OP_COMP_AND_SWAP] = IBV_WC_COMP_SWAP,
	[SIW_OP_RECEIVE] = IBV_WC_RECV,
	[SIW_OP_INVAL_STAG] = IBV_WC_LOCAL_INV,
	[RSIW_OP_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[RSIW_OP_RECV_RDMA_WITH_IMM] = IBV_WC_RECV_RDMA_WITH_IMM,
	[RSIW_OP_BIND_MW] = IBV_WC_BIND_MW,
	[RSIW_OP_FLUSH] = IBV_WC_FLUSH,
	[RSIW_OP_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

static const uint8_t wc_statuses[] = {
	[SIW_WC_SUCCESS] = IBV_WC_SUCCESS,
	[SIW_WC_LOC_LEN_ERR] = IBV_WC_LOC_LEN_ERR,
	[SIW_WC_LOC_PROT_ERR] = IBV_WC_LOC_PROT_ERR,
	[SIW_WC_LOC_QP_OP_ERR] = IBV_WC_LOC_QP_OP_ERR,
	[SIW_WC_WR_FLUSH_ERR] = IBV_WC_WR_FLUSH_ERR,
	[SIW_WC_BAD_RESP_ERR] = IBV_WC_BAD_RESP_ERR,
	[SIW_WC_LOC_ACCESS_ERR] = IBV_WC_LOC_ACCESS_ERR,
	[SIW_WC_REM_ACCESS_ERR] = IBV_WC_REM_ACCESS_ERR,
	[SIW_WC_REM_INV_REQ_ERR] = IBV_WC_REM_INV_REQ_ERR,
	[SIW_WC_GENERAL_ERR] = IBV_WC_GENERAL_ERR,
	[RSIW_WC_MW_BIND_ERR] = IBV_WC_MW_BIND_ERR,
	[RSIW_WC_RNR_RETRY_EXC_ERR] = IBV_WC_RNR_RETRY_EXC_ERR,
	[RSIW_WC_RETRY_EXC_ERR] = IBV_WC_RETRY_EXC_ERR,
	[RSIW_WC_REM_OP_ERR] = IBV_WC_REM_OP_ERR,
};

/*
 * The first word of a completion behind `id`: flags, operation, status. The kernel stores it last,
 * as one.
 */
struct head {
	uint32_t word;
};

#if BYTE_ORDER != LITTLE_ENDIAN
#error "flags are in the low byte"
#endif

static inline struct head load_head(const struct siw_cqe *cqe)
{
	static_assert(offsetof(struct siw_cqe, opcode) == offsetof(struct siw_cqe, flags) + 1 &&
		      offsetof(struct siw_cqe, status) == offsetof(struct siw_cqe, flags) + 2,
		      "the word's parts");

	return (struct head) {
		atomic_load_explicit((const atomic_uint *)&cqe->flags, memory_order_acquire),
	};
}

static inline bool is_valid(struct head head)
{
	return head.word & SIW_WQE_VALID;
}

/* Success, with neither an immediate nor an STag. */
static inline bool is_plain(struct head head)
{
	return (head.word & 0xffff00ff) == SIW_WQE_VALID;
}

static enum ibv_wc_status status_of(struct head head)
{
	uint32_t status = head.word >> 16;

	return status < sizeof(wc_statuses) ? wc_statuses[status] : IBV_WC_GENERAL_ERR;
}

static inline enum ibv_wc_opcode opcode_of(struct head head)
{
	return wc_opcodes[head.word >> 8 & 0xff];
}

static unsigned int wc_flags_of(struct head head)
{
	static const uint8_t wc_flags[4] = {
		[RSIW_CQE_INVALIDATED >> 1] = IBV_WC_WITH_INV,
		[RSIW_CQE_IMMEDIATE >> 1] = IBV_WC_WITH_IMM,
	};

	return wc_flags[head.word >> 1 & 3];
}

/* Low half: an immediate, or the STag that the peer has invalidated. */
static __be32 told_by(const struct siw_cqe *cqe)
{
	return (__force __be32)(uint32_t)cqe->imm_data;
}

int rsiw_poll_cq(struct ibv_cq *base, int count, struct ibv_wc *first)
{
	struct rsiw_cq *cq = to_rsiw_cq(base);
	struct ibv_wc *wc = first, *end = first + count;
	uint32_t get;

	rsiw_lock(&cq->lock);
	get = cq->get;
	while (wc < end) {
		struct siw_cqe *cqe = &cq->queue[get & cq->mask];
		struct head head = load_head(cqe);

		if (!is_valid(head)) {
			if (unlikely(cq->resized) && rsiw_next_ring(cq))
				continue;
			break;
		}
		wc->wr_id = cqe->id;
		wc->opcode = opcode_of(head);
		wc->vendor_err = 0;
		wc->byte_len = cqe->bytes;
		wc->qp_num = (uint32_t)cqe->qp_id;
		if (likely(is_plain(head))) {
			wc->status = IBV_WC_SUCCESS;
			wc->imm_data = 0;
			wc->wc_flags = 0;
		} else {
			wc->status = status_of(head);
			wc->imm_data = told_by(cqe);
			wc->wc_flags = wc_flags_of(head);
		}
		free_cqe(cqe);
		get++;
		wc++;
	}
	cq->get = get;
	rsiw_unlock(&cq->lock);
	return wc - first;
}

/* Looks for the next completion. Returns 0, or ENOENT if there is none. */
static int look(struct rsiw_cq *cq)
{
	struct siw_cqe *cqe;
	struct head head;

	do {
		cqe = &cq->queue[cq->get & cq->mask];
		head = load_head(cqe);
		if (likely(is_valid(head))) {
			cq->current = cqe;
			cq->base.cq_ex.wr_id = cqe->id;
			cq->base.cq_ex.status = status_of(head);
			return 0;
		}
	} while (unlikely(cq->resized) && rsiw_next_ring(cq));
	cq->current = NULL;
	return ENOENT;
}

/* Gives back the element that the accessors have read. */
static void advance(struct rsiw_cq *cq)
{
	free_cqe(cq->current);
	cq->get++;
}

static int start_poll(struct ibv_cq_ex *base, struct ibv_poll_cq_attr *attr)
{
	struct rsiw_cq *cq = to_rsiw_cq_ex(base);
	int e;

	if (unlikely(attr->comp_mask))
		return EINVAL;
	rsiw_lock(&cq->lock);
	e = look(cq);
	/* The caller ends only what has begun. */
	if (e)
		rsiw_unlock(&cq->lock);
	return e;
}

static int next_poll(struct ibv_cq_ex *base)
{
	struct rsiw_cq *cq = to_rsiw_cq_ex(base);

	advance(cq);
	return look(cq);
}

static void end_poll(struct ibv_cq_ex *base)
{
	struct rsiw_cq *cq = to_rsiw_cq_ex(base);

	/* Nothing is left to give back if the last look found none. */
	if (cq->current)
		advance(cq);
	rsiw_unlock(&cq->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return opcode_of(load_head(to_rsiw_cq_ex(cq)->current));
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return to_rsiw_cq_ex(cq)->current->bytes;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return told_by(to_rsiw_cq_ex(cq)->current);
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return (uint32_t)to_rsiw_cq_ex(cq)->current->qp_id;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	return wc_flags_of(load_head(to_rsiw_cq_ex(cq)->current));
}

/* What completions of a connection over TCP do not have. */
static uint32_t read_none(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint8_t read_none8(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	const struct siw_cqe *cqe = to_rsiw_cq_ex(cq)->current;

	return cqe->imm_data >> 32 << 32 | cqe->qp_id >> 32;
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec t = {};

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static uint64_t read_wallclock(struct ibv_cq_ex *cq)
{
	uint64_t age = nanoseconds(CLOCK_MONOTONIC) - read_completion_ts(cq);

	return nanoseconds(CLOCK_REALTIME) - age;
}

void rsiw_set_poll_ops(struct rsiw_cq *cq, bool timestamps)
{
	struct ibv_cq_ex *ops = &cq->base.cq_ex;

	ops->start_poll = start_poll;
	ops->next_poll = next_poll;
	ops->end_poll = end_poll;
	ops->read_opcode = read_opcode;
	ops->read_vendor_err = read_none;
	ops->read_wc_flags = read_wc_flags;
	ops->read_byte_len = read_byte_len;
	ops->read_imm_data = read_imm_data;
	ops->read_qp_num = read_qp_num;
	ops->read_src_qp = read_none;
	ops->read_slid = read_none;
	ops->read_sl = read_none8;
	ops->read_dlid_path_bits = read_none8;
	if (timestamps) {
		ops->read_completion_ts = read_completion_ts;
		ops->read_completion_wallclock_ns = read_wallclock;
	}
}
