/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * What rsiw's user ABI has beside that of siw (rdma/siw-abi.h). The kernel's side is rsiw/abi.rs.
 * All of it needs RSIW_FEATURE_EXTENDED, but for the request and the answer of alloc_context. So do
 * the other features.
 */

#ifndef RSIW_ABI_H
#define RSIW_ABI_H

#include <linux/types.h>

/* Bits of a context's features: asked for, and in `pad` of struct siw_uresp_alloc_ctx granted. */
enum rsiw_features {
	RSIW_FEATURE_EXTENDED = 1 << 0,
	/* Memory windows of type 1. */
	RSIW_FEATURE_MW_TYPE_1 = 1 << 1,
	/* Shared receive queues can be resized. (1 << 2 was the same, by a single call.) */
	RSIW_FEATURE_RESIZE_SRQ = 1 << 3,
	/* Flushes and atomic writes. */
	RSIW_FEATURE_PLACEMENT = 1 << 4,
};

struct rsiw_ureq_alloc_ctx {
	__u32 features;
	__u32 reserved;
};

/*
 * With a size in modify_srq, which is called twice. First with the address of a struct
 * siw_uresp_create_srq, for the ring that the kernel makes, and does not use yet; then with 0, and
 * receives are taken from that ring. Nothing is posted during the second call; then the receives
 * that are left in the old ring are moved to their positions in the new one, the oldest last.
 */
struct rsiw_ureq_modify_srq {
	__aligned_u64 answer;
};

enum rsiw_create_cq_flags {
	RSIW_CQ_TIMESTAMPS = 1 << 0,
};

struct rsiw_ureq_create_cq {
	__u32 flags;
	__u32 reserved;
};

/*
 * Operations that enum siw_opcode has not got. The immediate of a Write is in the `lkey` of the
 * last siw_sge, or with inline data of the first one; that of a Send in the low half of `raddr`.
 * An atomic has its result's buffer in the first siw_sge, and its operands in `laddr` of the
 * others.
 */
enum rsiw_opcode {
	RSIW_OP_WRITE_WITH_IMM = 12,
	/* Of a completion: a receive that the immediate of a Write has consumed. */
	RSIW_OP_RECV_RDMA_WITH_IMM = 13,
	/*
	 * `rkey` is the window's, with the key that it gets, and `raddr` the first address. The
	 * only siw_sge has the region, the bytes in `laddr`, and the rights in `length`. Of no
	 * bytes it unbinds a window of type 1.
	 */
	RSIW_OP_BIND_MW = 14,
	/*
	 * With RSIW_FEATURE_PLACEMENT. The only siw_sge has the bytes to flush in `laddr`, bits of
	 * enum ib_placement_type in `length`, and enum ib_selectivity_level in `lkey`.
	 */
	RSIW_OP_FLUSH = 15,
	/* Likewise. The only siw_sge has the value in `laddr`, and its length. */
	RSIW_OP_ATOMIC_WRITE = 16,
};

/* Statuses of a completion that enum siw_wc_status has not got. */
enum rsiw_wc_status {
	RSIW_WC_MW_BIND_ERR = 10,
	RSIW_WC_RNR_RETRY_EXC_ERR = 11,
	RSIW_WC_RETRY_EXC_ERR = 12,
	RSIW_WC_REM_OP_ERR = 13,
};

/*
 * Flags of a completion beside SIW_WQE_VALID: what the low half of `imm_data` is, an STag or an
 * immediate. With time stamps its high half, and that of `qp_id`, are those of CLOCK_MONOTONIC in
 * nanoseconds.
 */
enum rsiw_cqe_flags {
	RSIW_CQE_INVALIDATED = 1 << 1,
	RSIW_CQE_IMMEDIATE = 1 << 2,
};

#endif
