// SPDX-License-Identifier: GPL-2.0

//! A completion as the consumers of a queue read it: an element of a process' ring, or what a
//! kernel consumer polls.

use super::Tag;
use crate::{
    abi::{opcode, Cqe, CQE_IMMEDIATE, CQE_INVALIDATED, CQE_VALID},
    wr::{Completion, Status},
};
use rdma::{QpToken, Wc, WcOpcode, WcStatus};

/// An element of a kernel consumer's ring.
#[derive(Clone, Copy)]
pub(super) struct KernelCqe {
    pub(super) c: Completion,
    pub(super) qp: QpToken,
}

/// What the provider of a process' queue reads in completions.
#[derive(Clone, Copy, Default)]
pub(crate) struct Form {
    /// The flags, of those that say what else the completion tells.
    pub(crate) flags: u8,
    /// When it was published.
    pub(crate) time_stamps: bool,
    /// Whether it can have an event. If not, nobody looks what the process has armed: that is a
    /// full barrier and a cache line for each completion.
    pub(crate) events: bool,
}

/// An element of a process' ring.
pub(super) fn user_cqe(tag: &Tag, c: &Completion, form: Form) -> Cqe {
    let mut cqe = Cqe {
        id: c.id,
        flags: CQE_VALID | c.told.flag & form.flags,
        opcode: c.opcode,
        status: c.status as u16,
        bytes: c.bytes,
        inval_stag: u64::from(c.told.value),
        qp_id: u64::from(tag.number),
    };
    if form.time_stamps {
        let now = kext::monotonic_ns();
        cqe.inval_stag |= now >> 32 << 32;
        cqe.qp_id |= now << 32;
    }
    cqe
}

/// What a kernel consumer polls.
pub(super) fn kernel_wc(cqe: &KernelCqe) -> Wc {
    let told = cqe.c.told;
    Wc {
        wr_id: cqe.c.id,
        status: match cqe.c.status {
            Status::Success => WcStatus::Success,
            Status::LocLen => WcStatus::LocLenErr,
            Status::LocProt => WcStatus::LocProtErr,
            Status::QpOp => WcStatus::LocQpOpErr,
            Status::Flush => WcStatus::WrFlushErr,
            Status::LocAccess => WcStatus::LocAccessErr,
            Status::RemAccess => WcStatus::RemAccessErr,
            Status::RemInvReq => WcStatus::RemInvReqErr,
            Status::General => WcStatus::GeneralErr,
            // InfiniBand's "memory management operation error"; verbs have its older name.
            Status::MemOp => WcStatus::MwBindErr,
            Status::RnrRetry => WcStatus::RnrRetryExcErr,
            Status::Retry => WcStatus::RetryExcErr,
            Status::RemOp => WcStatus::RemOpErr,
        },
        opcode: match cqe.c.opcode {
            opcode::WRITE | opcode::WRITE_IMM => WcOpcode::RdmaWrite,
            opcode::FETCH_ADD => WcOpcode::FetchAdd,
            opcode::CMP_SWAP => WcOpcode::CompSwap,
            opcode::RECEIVE_IMM => WcOpcode::RecvRdmaWithImm,
            opcode::READ | opcode::READ_LOCAL_INV => WcOpcode::RdmaRead,
            opcode::INVAL_STAG => WcOpcode::LocalInv,
            opcode::REG_MR => WcOpcode::RegMr,
            opcode::RECEIVE => WcOpcode::Recv,
            _ => WcOpcode::Send,
        },
        byte_len: cqe.c.bytes,
        qp: cqe.qp,
        invalidated: (told.flag == CQE_INVALIDATED).then_some(told.value),
        imm: (told.flag == CQE_IMMEDIATE).then_some(told.value.to_ne_bytes()),
        vendor_err: 0,
    }
}
