// SPDX-License-Identifier: GPL-2.0

//! The data of enhanced connection setup (RFC 6581 s9): RTR indications and read queue depths.

use super::rtr::{Rtr, RtrSet};

/// IRD or ORD that is not negotiated.
///
/// RFC 6581 s9.1: "An all ones value (0x3FFF) indicates that automatic negotiation of the IRD or
/// ORD is not desired, and that the ULP will be responsible for it."
pub const NO_NEGOTIATION: u16 = 0x3fff;

/// Largest IRD or ORD that can be negotiated.
pub(super) const MAX_DEPTH: u16 = NO_NEGOTIATION - 1;

/// Bytes of the data that begin the Private Data of an enhanced frame.
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
    //= 6581-9.2-13: C, and D MUST be ignored.
    //= 6581-9-1
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

    //= 6581-9-1: Note that this field MUST be sent in network byte
    //= 6581-9.2-2: The initiator MUST set each Control Flag B, C
    //= 6581-9.2-12: C, and D MUST also be set to 0.
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
