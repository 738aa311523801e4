// SPDX-License-Identifier: GPL-2.0

//! Completions, and how requests have ended.

use crate::{abi, mem::MemError};

/// Completion status. The values are those of the ABI's `enum siw_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Status {
    Success = 0,
    LocLen = 1,
    LocProt = 2,
    QpOp = 3,
    Flush = 4,
    LocAccess = 6,
    RemAccess = 7,
    /// The peer does not know the request, or its target is not aligned.
    RemInvReq = 8,
    General = 9,
    /// The registration, or the binding of a window, is not possible. siw has no such status, as
    /// its processes have neither.
    MemOp = 10,
    /// The peer has had no receive in time. siw has no such status.
    RnrRetry = 11,
    /// No peer has answered in time. siw has no such status.
    Retry = 12,
    /// The peer was not able to do an atomic operation. siw has no such status, and no atomics.
    RemOp = 13,
}

impl From<MemError> for Status {
    /// The status of a request that names memory which it may not use.
    fn from(e: MemError) -> Self {
        match e {
            MemError::Access => Status::LocAccess,
            _ => Status::LocProt,
        }
    }
}

/// What a receive tells beside its length, in the form in which a process is told.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) value: u32,
    /// What that is, a flag of `abi::Cqe`, or 0: nothing.
    pub(crate) flag: u8,
}

impl Told {
    pub(crate) const NOTHING: Self = Self { value: 0, flag: 0 };

    /// The local STag that the peer's Send with Invalidate has invalidated.
    pub(crate) fn invalidated(stag: u32) -> Self {
        Self {
            value: stag,
            flag: abi::CQE_INVALIDATED,
        }
    }

    /// Immediate data, as they were sent.
    pub(crate) fn immediate(data: [u8; 4]) -> Self {
        Self {
            value: u32::from_ne_bytes(data),
            flag: abi::CQE_IMMEDIATE,
        }
    }
}

/// One work completion on its way to a CQ.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) id: u64,
    /// An `abi::opcode` value.
    pub(crate) opcode: u8,
    pub(crate) status: Status,
    pub(crate) bytes: u32,
    pub(crate) told: Told,
    pub(crate) solicited: bool,
}

impl Completion {
    /// The completion of a receive.
    pub(crate) fn recv(id: u64, status: Status, bytes: u32) -> Self {
        Self {
            id,
            opcode: abi::opcode::RECEIVE,
            status,
            bytes,
            told: Told::NOTHING,
            solicited: false,
        }
    }
}
