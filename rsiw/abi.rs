// SPDX-License-Identifier: GPL-2.0

//! The user ABI: structures shared with the siw provider of rdma-core, which is used as it is, and
//! with the provider of this driver, which asks for more ([`feature`]).
//!
//! Layouts are those of `include/uapi/rdma/siw-abi.h`, version 1. The structures are in memory that
//! a process has mapped and may change at any time. So they are plain old data, of which every bit
//! pattern is a value, and the driver checks a private copy before it trusts any value.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of this interface, which the library compares with its own.
pub(crate) const ABI_VERSION: u32 = 1;

/// The most scatter/gather elements in a work request of the ABI.
pub(crate) const MAX_SGE: usize = 6;
/// The elements of a list of `n` that exceed [`MAX_SGE`].
pub(crate) const fn sges_beyond(n: u32) -> usize {
    (n as usize).saturating_sub(MAX_SGE)
}
/// The most elements of a Write with immediate data, and the index of the one whose `lkey` has
/// these. With inline data it is the first one's.
pub(crate) const IMM_SGE: usize = MAX_SGE - 1;
/// The elements that an atomic request is written with: the result's buffer, and two operands.
pub(crate) const ATOMIC_SGE: u8 = 3;

/// The most bytes of inline data. They take the room of all elements but the first, which has the
/// length.
pub(crate) const MAX_INLINE: u32 = ((MAX_SGE - 1) * core::mem::size_of::<Sge>()) as u32;

/// One scatter/gather element, laid out like `struct ibv_sge`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// Send queue element: `struct siw_sqe`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Sqe {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) num_sge: u8,
    pub(crate) opcode: u8,
    /// Remote STag, the STag that is invalidated, or the new one of a window that is bound.
    pub(crate) rkey: u32,
    /// Remote address; for a Send with immediate data, that data in the low 32 bits; the first
    /// address of a window that is bound.
    pub(crate) raddr: u64,
    pub(crate) sge: [Sge; MAX_SGE],
}

/// Receive queue element: `struct siw_rqe`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Rqe {
    pub(crate) id: u64,
    pub(crate) flags: u16,
    pub(crate) num_sge: u8,
    pub(crate) opcode: u8,
    pub(crate) unused: u32,
    pub(crate) sge: [Sge; MAX_SGE],
}

/// Completion queue element: `struct siw_cqe`.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Cqe {
    pub(crate) id: u64,
    pub(crate) flags: u8,
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) bytes: u32,
    /// The STag that the peer invalidated, or immediate data, in the low 32 bits. With time stamps,
    /// the high bits have those of the stamp.
    pub(crate) inval_stag: u64,
    /// The QP number; never a kernel address. With time stamps, the high bits have the low ones of
    /// the stamp.
    pub(crate) qp_id: u64,
}

/// Byte offset of `flags` in a send or receive queue element.
pub(crate) const WQE_FLAGS_OFFSET: usize = core::mem::offset_of!(Sqe, flags);
/// Byte offset of `flags` in a completion queue element.
pub(crate) const CQE_FLAGS_OFFSET: usize = core::mem::offset_of!(Cqe, flags);
/// Bytes behind the last completion queue element: the arming word and its padding.
pub(crate) const CQ_CTRL_SIZE: usize = 8;

/// Bits of a work request's `flags`: `enum siw_wqe_flags`.
pub(crate) mod wqe_flags {
    pub(crate) const VALID: u16 = 1;
    pub(crate) const INLINE: u16 = 1 << 1;
    pub(crate) const SIGNALLED: u16 = 1 << 2;
    pub(crate) const SOLICITED: u16 = 1 << 3;
    pub(crate) const READ_FENCE: u16 = 1 << 4;
}

/// `flags` of a completion: the element is filled and belongs to the consumer.
pub(crate) const CQE_VALID: u8 = 1;

/// Bits of a completion's `flags` for the driver's own provider: `inval_stag` has an STag, or
/// immediate data.
pub(crate) const CQE_INVALIDATED: u8 = 1 << 1;
pub(crate) const CQE_IMMEDIATE: u8 = 1 << 2;

/// What a provider asks for when it opens the device, and gets.
pub(crate) mod feature {
    /// The operations of RFC 7306, memory windows of type 2B, and flags in completions. Without it
    /// a context has none of the others.
    pub(crate) const EXTENDED: u32 = 1;
    /// Memory windows of type 1.
    pub(crate) const MW_TYPE_1: u32 = 2;
    /// Shared receive queues can be resized. (4 was the same, by a single call.)
    pub(crate) const RESIZE_SRQ: u32 = 8;
    /// InfiniBand's memory placement extensions: flushes and atomic Writes.
    pub(crate) const PLACEMENT: u32 = 16;

    /// Those of `asked` that a context gets.
    pub(crate) const fn granted(asked: u32) -> u32 {
        match asked & EXTENDED {
            0 => 0,
            _ => asked & (EXTENDED | MW_TYPE_1 | RESIZE_SRQ | PLACEMENT),
        }
    }
}

/// `flags` of [`CreateCqReq`]: completions have time stamps.
pub(crate) const CQ_TIME_STAMPS: u32 = 1;

/// Bits of the arming word: `enum siw_notify_flags`.
pub(crate) mod notify {
    pub(crate) const NOT: u32 = 0;
    pub(crate) const SOLICITED: u32 = 1;
    pub(crate) const NEXT_COMPLETION: u32 = 1 << 1;
}

/// Operation codes of send queue elements and of completions: `enum siw_opcode`.
pub(crate) mod opcode {
    pub(crate) const WRITE: u8 = 0;
    pub(crate) const READ: u8 = 1;
    pub(crate) const READ_LOCAL_INV: u8 = 2;
    pub(crate) const SEND: u8 = 3;
    pub(crate) const SEND_IMM: u8 = 4;
    pub(crate) const SEND_REMOTE_INV: u8 = 5;
    pub(crate) const FETCH_ADD: u8 = 6;
    pub(crate) const CMP_SWAP: u8 = 7;
    pub(crate) const RECEIVE: u8 = 8;
    pub(crate) const INVAL_STAG: u8 = 10;
    pub(crate) const REG_MR: u8 = 11;
    /// Those that `enum siw_opcode` has not.
    pub(crate) const WRITE_IMM: u8 = 12;
    pub(crate) const RECEIVE_IMM: u8 = 13;
    /// Binds a memory window. The only element of the list has its length as `addr`, the region's
    /// STag as `lkey`, and the rights as `length`. A length of 0 unbinds a window of type 1.
    pub(crate) const BIND_MW: u8 = 14;
    /// The only element of the list has the length as `addr`, bits of [`super::flush_types`] as
    /// `length`, and as `lkey` whether all is meant that the STag names.
    pub(crate) const FLUSH: u8 = 15;
    /// The only element of the list has the value as `addr`, and its length.
    pub(crate) const ATOMIC_WRITE: u8 = 16;
}

/// Bits of a flush: `enum ib_placement_type`.
pub(crate) mod flush_types {
    pub(crate) const GLOBAL: u32 = 1;
    pub(crate) const PERSISTENT: u32 = 2;
}

/// The operations that a consumer's library knows. Each has those of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Operations {
    /// Those of the library of siw.
    Siw,
    /// Those of RFC 7306, and memory windows.
    Extended,
    /// Flushes and atomic Writes.
    Placement,
}

impl Operations {
    /// Those of a context with these bits of [`feature`].
    pub(crate) fn of(features: u32) -> Self {
        if features & feature::PLACEMENT != 0 {
            Self::Placement
        } else if features & feature::EXTENDED != 0 {
            Self::Extended
        } else {
            Self::Siw
        }
    }

    /// The nearest code that a completion may have; the library of siw looks them up in a table
    /// without a check.
    pub(crate) fn known(self, code: u8) -> u8 {
        code.min(match self {
            Self::Siw => opcode::REG_MR,
            Self::Extended => opcode::BIND_MW,
            Self::Placement => opcode::ATOMIC_WRITE,
        })
    }
}

/// Request of `alloc_ucontext`, which the library of siw does not make.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct AllocContextReq {
    /// Bits of [`feature`].
    pub(crate) features: u32,
    pub(crate) reserved: u32,
}

/// Request of `create_cq`, which the library of siw does not make.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateCqReq {
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
}

/// Answer to `alloc_ucontext`: `struct siw_uresp_alloc_ctx`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct AllocContextResp {
    pub(crate) dev_id: u32,
    /// `pad` of siw, which is 0: the bits of [`feature`] that the context has.
    pub(crate) features: u32,
}

/// Answer to `create_cq`: `struct siw_uresp_create_cq`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateCqResp {
    pub(crate) cq_id: u32,
    pub(crate) num_cqe: u32,
    pub(crate) cq_key: u64,
}

/// Answer to `create_qp`: `struct siw_uresp_create_qp`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateQpResp {
    pub(crate) qp_id: u32,
    pub(crate) num_sqe: u32,
    pub(crate) num_rqe: u32,
    pub(crate) pad: u32,
    pub(crate) sq_key: u64,
    pub(crate) rq_key: u64,
}

/// Answer to `create_srq`: `struct siw_uresp_create_srq`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct CreateSrqResp {
    pub(crate) num_rqe: u32,
    pub(crate) pad: u32,
    pub(crate) srq_key: u64,
}

/// Request of `modify_srq` with a size: where the answer goes, a [`CreateSrqResp`]. uverbs has no
/// room for it in its own answer.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct ResizeSrqReq {
    pub(crate) answer: u64,
}

/// Request of `reg_mr`: `struct siw_ureq_reg_mr`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegMrReq {
    pub(crate) stag_key: u8,
    pub(crate) reserved: [u8; 3],
    pub(crate) pad: u32,
}

/// Answer to `reg_mr`: `struct siw_uresp_reg_mr`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegMrResp {
    pub(crate) stag: u32,
    pub(crate) pad: u32,
}

// The provider was compiled with these numbers; another number is another ABI.
const _: () = {
    assert!(core::mem::size_of::<Sqe>() == 120);
    assert!(core::mem::size_of::<Rqe>() == 112);
    assert!(core::mem::size_of::<Cqe>() == 32);
    assert!(core::mem::offset_of!(Sqe, sge) == 24);
    assert!(core::mem::offset_of!(Rqe, sge) == 16);
    assert!(core::mem::offset_of!(Sqe, flags) == core::mem::offset_of!(Rqe, flags));
    assert!(core::mem::offset_of!(Cqe, status) == 10);
    assert!(core::mem::offset_of!(Cqe, qp_id) == 24);
    assert!(core::mem::size_of::<AllocContextReq>() == 8);
    assert!(core::mem::size_of::<CreateCqReq>() == 8);
    assert!(core::mem::size_of::<AllocContextResp>() == 8);
    assert!(core::mem::size_of::<CreateCqResp>() == 16);
    assert!(core::mem::size_of::<CreateQpResp>() == 32);
    assert!(core::mem::size_of::<CreateSrqResp>() == 16);
    assert!(core::mem::size_of::<ResizeSrqReq>() == 8);
    assert!(core::mem::size_of::<RegMrReq>() == 8);
    assert!(core::mem::size_of::<RegMrResp>() == 8);
    assert!(MAX_INLINE == 80);
};
