// SPDX-License-Identifier: GPL-2.0

//! Kinds of RTR indications (RFC 6581 s9.2), of which both ends agree on one in connection setup.
//! The initiator's queue pair sends the RTR itself, as its first FPDU (`rsiw/tx/rtr.rs`).

use core::ops::{BitAnd, BitOr};

/// A Ready to Receive indication: the zero-length message with which an initiator tells that it is
/// in Full Operation (RFC 6581 s9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rtr {
    /// Control Flag B: "a zero-length FULPDU (Send)".
    Send,
    /// Control Flag C: a zero-length RDMA Write.
    Write,
    /// Control Flag D: a zero-length RDMA Read.
    Read,
}

/// A set of RTR indications. The empty set stands for the client-server model, without RTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtrSet(u8);

impl RtrSet {
    /// No RTR.
    pub const EMPTY: Self = Self(0);
    /// [`Rtr::Send`] only.
    pub const SEND: Self = Self(1);
    /// [`Rtr::Write`] only.
    pub const WRITE: Self = Self(2);
    /// [`Rtr::Read`] only.
    pub const READ: Self = Self(4);
    /// All three.
    pub const ALL: Self = Self(7);

    /// Whether the set is empty.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `rtr` is in the set.
    #[inline]
    pub const fn contains(self, rtr: Rtr) -> bool {
        self.0 & Self::of(rtr).0 != 0
    }

    /// The set that has only `rtr`.
    #[inline]
    pub const fn of(rtr: Rtr) -> Self {
        match rtr {
            Rtr::Send => Self::SEND,
            Rtr::Write => Self::WRITE,
            Rtr::Read => Self::READ,
        }
    }

    /// The indication to use: Write, because it touches no queue of the peer; else Read; else Send,
    /// whose effect on the peer's receive queue RFC 6581 leaves open.
    #[inline]
    pub const fn preferred(self) -> Option<Rtr> {
        if self.contains(Rtr::Write) {
            Some(Rtr::Write)
        } else if self.contains(Rtr::Read) {
            Some(Rtr::Read)
        } else if self.contains(Rtr::Send) {
            Some(Rtr::Send)
        } else {
            None
        }
    }

    /// This set without `rtr`.
    #[inline]
    pub const fn without(self, rtr: Rtr) -> Self {
        Self(self.0 & !Self::of(rtr).0)
    }
}

impl BitAnd for RtrSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for RtrSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
