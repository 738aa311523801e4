// SPDX-License-Identifier: GPL-2.0

//! The data of a request that are kept until it completes.

use crate::wr::{Completion, SendOp, SendWr, Status, Told};
use core::sync::atomic::{AtomicU64, Ordering};

/// The data of a request's completion.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) id: u64,
    pub(super) opcode: u8,
    pub(super) signalled: bool,
    /// An RDMA Read that waits for its data.
    pub(super) read_pending: bool,
    /// It completes only when the peer has placed what was written before its end
    /// ([`super::placed`]).
    pub(super) unplaced: bool,
    /// There are Writes among that.
    pub(super) behind_writes: bool,
    /// If it takes a receive of the peer, and waits for that: the low half of its number as a
    /// message.
    pub(super) msn: Option<u16>,
    pub(super) bytes: u32,
}

impl Slot {
    pub(super) fn new(wr: &SendWr) -> Self {
        Self {
            id: wr.id(),
            opcode: wr.op.code(),
            signalled: wr.signalled,
            read_pending: false,
            unplaced: false,
            behind_writes: false,
            msn: None,
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
            told: Told::NOTHING,
            solicited: false,
        }
    }
}

/// Storage for one [`Slot`]. Slots below `sent` belong to the queue lock, the others to tx. (A
/// kernel consumer's post fills the slot at `tail` under the lock, before tx knows of it.)
pub(super) struct SlotCell {
    id: AtomicU64,
    /// From the high bits down: bytes, number, flags, opcode.
    rest: AtomicU64,
}

impl SlotCell {
    const SIGNALLED: u64 = 1 << 8;
    const READ_PENDING: u64 = 1 << 9;
    const UNPLACED: u64 = 1 << 10;
    const BEHIND_WRITES: u64 = 1 << 11;
    const NUMBERED: u64 = 1 << 12;
    const MSN_SHIFT: u32 = 16;

    /// A cell that no request occupies.
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
            unplaced: rest & Self::UNPLACED != 0,
            behind_writes: rest & Self::BEHIND_WRITES != 0,
            msn: (rest & Self::NUMBERED != 0).then_some((rest >> Self::MSN_SHIFT) as u16),
            bytes: (rest >> 32) as u32,
        }
    }

    pub(super) fn set(&self, slot: Slot) {
        let flag = |on, flag| if on { flag } else { 0 };
        let rest = u64::from(slot.bytes) << 32
            | flag(slot.signalled, Self::SIGNALLED)
            | flag(slot.read_pending, Self::READ_PENDING)
            | flag(slot.unplaced, Self::UNPLACED)
            | flag(slot.behind_writes, Self::BEHIND_WRITES)
            | flag(slot.msn.is_some(), Self::NUMBERED)
            | u64::from(slot.msn.unwrap_or(0)) << Self::MSN_SHIFT
            | u64::from(slot.opcode);
        self.id.store(slot.id, Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
    }
}
