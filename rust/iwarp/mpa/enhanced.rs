// SPDX-License-Identifier: GPL-2.0

//! RTR indications and read queue depths of enhanced connection setup (RFC 6581 s9).
//! The initiator's queue pair sends the RTR itself, as its first FPDU.

use core::ops::{BitAnd, BitOr};

/// IRD or ORD that is not negotiated.
///
/// RFC 6581 s9.1: "An all ones value (0x3FFF) indicates that automatic negotiation of the IRD or
/// ORD is not desired, and that the ULP will be responsible for it."
pub const NO_NEGOTIATION: u16 = 0x3fff;

/// Largest IRD or ORD that can be negotiated.
pub(super) const MAX_DEPTH: u16 = NO_NEGOTIATION - 1;

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

/// Octets of the data that begin the Private Data of an enhanced frame.
pub(super) const ENHANCED_LEN: usize = 4;

/// Control Flags A (with IRD) and C (with ORD).
const HIGH: u16 = 0x8000;
/// Control Flags B (with IRD) and D (with ORD).
const LOW: u16 = 0x4000;

/// Enhanced RDMA Connection Establishment Data (RFC 6581 s9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enhanced {
    /// Control Flag A: the peer-to-peer model, in which the initiator sends an RTR.
    pub peer_to_peer: bool,
    /// Control Flags B, C and D; empty in the client-server model.
    pub rtr: RtrSet,
    /// Inbound RDMA Read Queue Depth, 0 to 0x3FFE, or [`NO_NEGOTIATION`].
    pub ird: u16,
    /// Outbound RDMA Read Queue Depth, 0 to 0x3FFE, or [`NO_NEGOTIATION`].
    pub ord: u16,
}

impl Enhanced {
    pub(super) fn from_bytes(b: &[u8; ENHANCED_LEN]) -> Self {
        let ird = u16::from_be_bytes([b[0], b[1]]);
        let ord = u16::from_be_bytes([b[2], b[3]]);
        let peer_to_peer = ird & HIGH != 0;
        let flag = |set: bool, rtr| if set { rtr } else { RtrSet::EMPTY };
        Self {
            peer_to_peer,
            // RFC 6581 s9.2: "On reception, if Control Flag A is set to 0, then Control Flags B, C,
            // and D MUST be ignored."
            rtr: flag(peer_to_peer && ird & LOW != 0, RtrSet::SEND)
                | flag(peer_to_peer && ord & HIGH != 0, RtrSet::WRITE)
                | flag(peer_to_peer && ord & LOW != 0, RtrSet::READ),
            ird: ird & NO_NEGOTIATION,
            ord: ord & NO_NEGOTIATION,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; ENHANCED_LEN] {
        let flag = |set: bool, bit| if set { bit } else { 0 };
        // RFC 6581 s9.2: "If Control Flag A is set to 0, then Control Flags B, C, and D MUST also
        // be set to 0."
        let rtr = |rtr, bit| flag(self.peer_to_peer && self.rtr.contains(rtr), bit);
        let ird = flag(self.peer_to_peer, HIGH) | rtr(Rtr::Send, LOW) | (self.ird & NO_NEGOTIATION);
        let ord = rtr(Rtr::Write, HIGH) | rtr(Rtr::Read, LOW) | (self.ord & NO_NEGOTIATION);
        let ([a, b], [c, d]) = (ird.to_be_bytes(), ord.to_be_bytes());
        [a, b, c, d]
    }
}
