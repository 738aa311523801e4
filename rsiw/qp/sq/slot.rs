// SPDX-License-Identifier: GPL-2.0

//! What is kept of a request until it completes.

use crate::wr::{Completion, SendOp, SendWr, Status};
use core::sync::atomic::{AtomicU64, Ordering};

/// What a request completes with.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) opcode: u8,
    pub(super) signalled: bool,
    /// For an RDMA Read: the data has not arrived.
    pub(super) read_pending: bool,
    pub(super) bytes: u32,
}

impl Slot {
    pub(super) fn new(wr: &SendWr) -> Self {
        Self {
            id: wr.id(),
            opcode: wr.op.code(),
            signalled: wr.signalled,
            read_pending: false,
            bytes: if wr.op == SendOp::RegMr { 0 } else { wr.len },
        }
    }

    pub(super) fn completion(&self, status: Status) -> Completion {
        Completion {
            id: self.id,
            opcode: self.opcode,
            status,
            bytes: if status == Status::Success {
                self.bytes
            } else {
                0
            },
            invalidated: None,
            solicited: false,
        }
    }
}

/// Where a [`Slot`] is kept. Whose it is says its position; the lock's, or tx's.
pub(super) struct SlotCell {
    id: AtomicU64,
    /// Octets, then flags, then the opcode.
    rest: AtomicU64,
}

impl SlotCell {
    const SIGNALLED: u64 = 1 << 8;
    const READ_PENDING: u64 = 1 << 9;

    /// Nobody's.
    pub(super) const fn free() -> Self {
        Self {
            id: AtomicU64::new(0),
            rest: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self) -> Slot {
        let rest = self.rest.load(Ordering::Relaxed);
        Slot {
            id: self.id.load(Ordering::Relaxed),
            opcode: rest as u8,
            signalled: rest & Self::SIGNALLED != 0,
            read_pending: rest & Self::READ_PENDING != 0,
            bytes: (rest >> 32) as u32,
        }
    }

    pub(super) fn set(&self, slot: Slot) {
        let flag = |on, flag| if on { flag } else { 0 };
        let rest = u64::from(slot.bytes) << 32
            | flag(slot.signalled, Self::SIGNALLED)
            | flag(slot.read_pending, Self::READ_PENDING)
            | u64::from(slot.opcode);
        self.id.store(slot.id, Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
    }
}
